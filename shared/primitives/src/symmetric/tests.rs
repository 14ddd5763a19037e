use super::*;
use crate::vectors;
use proptest::prelude::*;

fn sealer() -> Sealer {
    Sealer::new(&std::array::from_fn(|at| at as u8))
}

/// The construction as the documentation words it, record by record.
fn reference(material: &[u8; 32], associated: &[u8; 16], nonce: &Block, plaintext: &[u8]) -> Vec<u8> {
    let (stream, mac) =
        (Prf::new(material[..16].try_into().expect("16")), Prf::new(material[16..].try_into().expect("16")));
    let mut record = nonce.to_vec();
    for (at, piece) in plaintext.chunks(16).enumerate() {
        let pad = stream.block(&u128::from_le_bytes(*nonce).wrapping_add(at as u128).to_le_bytes());
        record.extend(piece.iter().zip(pad).map(|(byte, pad)| byte ^ pad));
    }
    let mut input = (plaintext.len() as u128).to_le_bytes().to_vec();
    input.extend(associated);
    input.extend(&record);
    let tag = input.chunks(16).fold([0; 16], |mut state: Block, piece| {
        state.iter_mut().zip(piece).for_each(|(state, byte)| *state ^= byte);
        mac.block(&state)
    });
    record.extend(tag);
    record
}

#[test]
fn second_implementation() {
    for case in vectors::read("symmetric_records.txt") {
        let record_bytes = case.number("record_bytes") as usize;
        let mut opened = Vec::new();
        let sealer = Sealer::new(&case.array("material"));
        let outcome =
            sealer.open_each(&case.array("associated"), &case.bytes("sealed"), record_bytes, &mut opened);
        assert_eq!(outcome.is_ok(), case.must_pass(), "{}", case.name());
        let expected = if case.must_pass() { case.bytes("plaintexts") } else { Vec::new() };
        assert_eq!(opened, expected, "{}", case.name());
    }
}

proptest! {
    #[test]
    fn records_are_those_of_the_construction_and_open(
        material: [u8; 32],
        associated: [u8; 16],
        record_bytes in 1..70_usize,
        records in 0..140_usize,
        seed: [u8; 16],
    ) {
        let mut plaintexts = vec![0; record_bytes * records];
        Prg::new(&[8; 16]).fill(&mut plaintexts);
        let sealer = Sealer::new(&material);
        let mut sealed = vec![0xaa];
        sealer.seal_each(&associated, &plaintexts, record_bytes, &mut Prg::new(&seed), &mut sealed);
        prop_assert_eq!(sealed.remove(0), 0xaa);
        let each = plaintexts.chunks(record_bytes).zip(sealed.chunks(sealed_bytes(record_bytes)));
        for (plaintext, record) in each {
            let nonce = record[..16].try_into().expect("16 bytes");
            prop_assert_eq!(record, reference(&material, &associated, &nonce, plaintext));
        }
        let mut opened = vec![0xbb];
        prop_assert_eq!(sealer.open_each(&associated, &sealed, record_bytes, &mut opened), Ok(()));
        prop_assert_eq!(opened.remove(0), 0xbb);
        prop_assert_eq!(opened, plaintexts);
    }

    #[test]
    fn altered_records_do_not_open(records in 1..130_usize, place: prop::sample::Index, bit in 0..8_u8) {
        let (sealer, mut sealed) = (sealer(), Vec::new());
        sealer.seal_each(&[3; 16], &vec![5; records * 9], 9, &mut Prg::new(&[1; 16]), &mut sealed);
        let place = place.index(sealed.len());
        sealed[place] ^= 1 << bit;
        let mut opened = vec![0xbb];
        prop_assert_eq!(sealer.open_each(&[3; 16], &sealed, 9, &mut opened), Err(OpenError));
        prop_assert_eq!(opened, [0xbb]);
    }
}

#[test]
fn other_lengths_and_associated_data_do_not_open() {
    let (sealer, mut sealed) = (sealer(), Vec::new());
    sealer.seal_each(&[3; 16], &[5; 32], 16, &mut Prg::new(&[1; 16]), &mut sealed);
    assert_eq!(sealed.len(), 2 * sealed_bytes(16));
    let open = |associated: [u8; 16], sealed: &[u8], record_bytes| {
        sealer.open_each(&associated, sealed, record_bytes, &mut Vec::new())
    };
    assert_eq!(open([3; 16], &sealed, 16), Ok(()));
    assert_eq!(open([3; 16], &sealed[..48], 16), Ok(()));
    assert_eq!(open([3; 16], &[], 16), Ok(()));
    for (associated, sealed, record_bytes) in [
        ([4; 16], &sealed[..], 16),
        ([3; 16], &sealed[1..], 16),
        ([3; 16], &sealed[..95], 16),
        ([3; 16], &sealed[..], 64),
        ([3; 16], &sealed[..], 0),
        ([3; 16], &sealed[..], usize::MAX),
        ([3; 16], &sealed[..47], 15),
    ] {
        assert_eq!(open(associated, sealed, record_bytes), Err(OpenError));
    }
}

#[test]
fn nonces_are_of_the_generator_and_differ() {
    let (sealer, mut sealed) = (sealer(), Vec::new());
    sealer.seal_each(&[3; 16], &[5; 400], 4, &mut Prg::new(&[1; 16]), &mut sealed);
    let mut nonces = vec![[0; 16]; 100];
    Prg::new(&[1; 16]).fill_blocks(&mut nonces);
    for (record, nonce) in sealed.chunks(sealed_bytes(4)).zip(nonces) {
        assert_eq!(record[..16], nonce);
    }
}

#[test]
fn shows_nothing() {
    assert_eq!(format!("{:?}", sealer()), "Sealer(..)");
}
