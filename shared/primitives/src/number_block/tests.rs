use super::*;
use proptest::prelude::*;

fn sealer() -> NumberBlock {
    NumberBlock::new(&[9; 32])
}

#[test]
fn the_constructions_are_the_documented_ones() {
    let (number, nonce) = (0x0102_0304_0506_0708_u64, *b"eight by");
    let mut sealed = Vec::new();
    sealer().seal_each([number].into_iter(), &mut sealed);
    let encrypt = |block: Block| Prf::new(&[9; 16]).block(&block);
    assert_eq!(sealed, encrypt(joined(number, 0)));
    let mut fresh = Vec::new();
    sealer().seal_fresh(number, nonce, &mut fresh);
    let tag = Prf::new(&[9; 16]).block(&joined(number, u64::from_be_bytes(nonce)));
    let mut block = number.to_be_bytes().to_vec();
    block.extend_from_slice(&tag[..8]);
    let mut expected = encrypt(block.try_into().expect("a block")).to_vec();
    expected.extend_from_slice(&nonce);
    assert_eq!(fresh, expected);
}

proptest! {
    #[test]
    fn numbers_open_as_they_were_sealed_and_altered_ones_do_not(
        numbers in proptest::collection::vec(any::<u64>(), 1..300), at: usize, bit in 0..8_u32,
    ) {
        let sealer = sealer();
        let (mut same, mut fresh) = (Vec::new(), Vec::new());
        sealer.seal_each(numbers.iter().copied(), &mut same);
        for (place, number) in numbers.iter().enumerate() {
            sealer.seal_fresh(*number, (place as u64).to_le_bytes(), &mut fresh);
        }
        prop_assert_eq!((same.len(), fresh.len()), (numbers.len() * BLOCK_BYTES, numbers.len() * FRESH_BYTES));
        let expected: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        let (mut opened, mut opened_fresh) = (vec![7], vec![7]);
        sealer.open_each(&same, &mut opened).expect("as sealed");
        sealer.open_fresh_each(&fresh, &mut opened_fresh).expect("as sealed");
        prop_assert_eq!(&opened[1..], &expected[..]);
        prop_assert_eq!(&opened_fresh[1..], &expected[..]);
        let place = at % same.len();
        same[place] ^= 1 << bit;
        let place = at % fresh.len();
        fresh[place] ^= 1 << bit;
        let mut room = vec![7];
        prop_assert_eq!(sealer.open_each(&same, &mut room), Err(OpenError));
        prop_assert_eq!(sealer.open_fresh_each(&fresh, &mut room), Err(OpenError));
        prop_assert_eq!(sealer.open_each(&same[1..], &mut room), Err(OpenError));
        prop_assert_eq!(&room, &[7], "nothing stays of what did not open");
    }
}
