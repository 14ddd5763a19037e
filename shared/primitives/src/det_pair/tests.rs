use super::*;
use proptest::prelude::*;

fn sealer() -> DetPair {
    DetPair::new(&[5; 16], *b"an index")
}

#[test]
fn the_construction_is_the_documented_one() {
    let expand = Prf::new(&[5; 16]);
    let part = |number: u8| Prf::new(&expand.block(&[number; 16]));
    let (number, block) = (0x0102_0304_0506_0708_u64, [9; 16]);
    let mut first = number.to_be_bytes().to_vec();
    first.extend_from_slice(b"an index");
    let mut state = part(1).block(&first.try_into().expect("16 bytes"));
    state.iter_mut().zip(block).for_each(|(state, byte)| *state ^= byte);
    let tag = part(1).block(&state);
    let mut head = number.to_be_bytes().to_vec();
    head.extend_from_slice(&tag[..8]);
    let head = part(2).block(&head.try_into().expect("16 bytes"));
    let mut body = part(3).block(&head);
    body.iter_mut().zip(block).for_each(|(body, byte)| *body ^= byte);
    assert_eq!(sealer().seal(number, &block)[..], [head, body].concat());
}

proptest! {
    #[test]
    fn pairs_open_as_they_were_sealed(pairs in proptest::collection::vec(any::<(u64, [u8; 16])>(), 0..40)) {
        let sealer = sealer();
        let sealed: Vec<u8> = pairs.iter().flat_map(|(number, block)| sealer.seal(*number, block)).collect();
        let opened = sealer.open_each(&sealed).expect("as sealed");
        prop_assert_eq!(opened.len(), pairs.len());
        for ((number, block), (rank, opened)) in pairs.iter().zip(&opened) {
            prop_assert_eq!((rank_number(*rank), opened), (*number, block));
            prop_assert_eq!(*rank, sealer.rank(*number, block));
        }
        for (pair, (rank, _)) in sealed.chunks_exact(SEALED_BYTES).zip(opened) {
            prop_assert_eq!(sealer.open_rank(pair.first_chunk().expect("a block")), rank);
        }
    }

    #[test]
    fn an_altered_pair_does_not_open(number: u64, block: [u8; 16], bit in 0..SEALED_BYTES * 8) {
        let mut sealed = sealer().seal(number, &block).to_vec();
        sealed.extend(sealer().seal(1, &[1; 16]));
        sealed[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(sealer().open_each(&sealed), Err(OpenError));
    }
}

#[test]
fn other_material_other_index_and_parts_do_not_open() {
    let sealed = sealer().seal(3, &[4; 16]);
    assert!(sealer().open_each(&sealed).is_ok());
    assert_eq!(DetPair::new(&[6; 16], *b"an index").open_each(&sealed), Err(OpenError));
    assert_eq!(DetPair::new(&[5; 16], *b"an other").open_each(&sealed), Err(OpenError));
    for length in 1..SEALED_BYTES {
        assert_eq!(sealer().open_each(&sealed[..length]), Err(OpenError));
    }
}

#[test]
fn equal_numbers_are_ordered_by_chance() {
    // 64 blocks in ascending order: were their ranks in order too, the tag would not depend on the block.
    let sealer = sealer();
    let ranks: Vec<u128> = (0..64).map(|byte| sealer.rank(7, &[byte; 16])).collect();
    let rising = ranks.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((16..48).contains(&rising), "{rising} of 63");
}
