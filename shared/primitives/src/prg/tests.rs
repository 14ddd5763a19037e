use super::*;
use crate::hash::sha256;
use crate::prf::Prf;
use crate::vectors;
use proptest::prelude::*;
use rand::Rng;

#[test]
fn second_implementation() {
    for case in vectors::read("prg_stream.txt") {
        let mut output = vec![0; case.number("length") as usize];
        Prg::new(&case.array("seed")).fill(&mut output);
        let first = case.bytes("first");
        assert_eq!(output[..first.len()], first, "{}", case.name());
        assert_eq!(sha256(&[&output]), case.array("stream_sha256"), "{}", case.name());
    }
}

/// The definition, one AES call a block.
fn definition(seed: &Block, length: usize) -> Vec<u8> {
    let prf = Prf::new(seed);
    let mut bytes: Vec<u8> =
        (0..length as u128 / 16 + 1).flat_map(|at| prf.block(&at.to_le_bytes())).collect();
    bytes.truncate(length);
    bytes
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_stream(
        seed: [u8; 16],
        lengths in prop::collection::vec(prop_oneof![0..40_usize, 500..530_usize, 0..2000_usize, 2000..12_000_usize], 0..12),
    ) {
        let mut generator = Prg::new(&seed);
        let mut bytes = Vec::new();
        for length in lengths {
            let mut piece = vec![0xee; length];
            generator.fill(&mut piece);
            bytes.extend(piece);
        }
        bytes.extend(generator.next_u64().to_le_bytes());
        bytes.extend(Rng::next_u32(&mut generator).to_le_bytes());
        bytes.extend(Rng::next_u64(&mut generator).to_le_bytes());
        prop_assert_eq!(&bytes, &definition(&seed, bytes.len()));
    }

    #[test]
    fn one_go_is_the_same_stream(seed: [u8; 16], blocks in prop_oneof![0..140_usize, 0..1200_usize]) {
        let (mut at_once, mut by_generator) = (vec![[0; 16]; blocks], vec![[0; 16]; blocks]);
        stream(&seed, &mut at_once);
        Prg::new(&seed).fill_blocks(&mut by_generator);
        prop_assert_eq!(at_once.as_flattened(), definition(&seed, 16 * blocks));
        prop_assert_eq!(at_once, by_generator);
    }
}

#[test]
fn a_stream_goes_on_from_any_block() {
    let seed = [4; 16];
    let mut whole = vec![[0; 16]; 400];
    stream(&seed, &mut whole);
    for first in [0, 1, 7, 8, 31, 32, 33, 64, 127, 128, 200] {
        let mut rest = vec![[0; 16]; whole.len() - first];
        Prg::from_block(&seed, first as u128).fill_blocks(&mut rest);
        assert_eq!(rest, whole[first..], "from block {first}");
    }
    let mut last = [[0; 16]; 2];
    Prg::from_block(&seed, u128::MAX).fill_blocks(&mut last);
    assert_eq!(last[1], whole[0], "the counter wraps");
}

/// Bytes that a call leaves of a block are what the next one gives, not thrown away.
#[test]
fn unused_entropy_is_kept() {
    let mut generator = Prg::new(&[9; 16]);
    let before = crate::meter::reading();
    let bytes: Vec<u8> = (0..1024)
        .flat_map(|_| {
            let mut byte = [0];
            generator.fill(&mut byte);
            byte
        })
        .collect();
    assert_eq!(bytes, definition(&[9; 16], 1024));
    let blocks = (crate::meter::reading() - before).of(Primitive::AesBlock);
    // 1024 bytes are 64 blocks, and `definition` made 65.
    assert_eq!(blocks, if crate::meter::is_on() { 64 + 65 } else { 0 });
}

#[test]
fn serves_where_a_cryptographic_generator_is_asked_for() {
    fn draw(generator: &mut impl rand::CryptoRng) -> u64 {
        generator.next_u64()
    }
    assert_eq!(draw(&mut Prg::new(&[9; 16])), Prg::new(&[9; 16]).next_u64());
    assert_ne!(draw(&mut Prg::new(&[9; 16])), draw(&mut Prg::new(&[8; 16])));
}

#[test]
fn shows_nothing() {
    assert_eq!(format!("{:?}", Prg::new(&[0x5a; 16])), "Prg(..)");
}
