//! Lewi-Wu: its known answers and its leakage.

use crate::body::{Subject, WIDTHS, index_key, test_body, values};
use crate::statistics::deviate_from_uniform;
use crate::vectors;
use arras_primitives::meter::{self, Primitive};
use arras_primitives::prg::Prg;
use arras_primitives::{Block, trit};
use arras_protocol::ore::Width;
use arras_protocol::ore::lewi_wu::{LEFT_BLOCK_BYTES, NONCE_BYTES};
use arras_schemes::ore::OrderScheme;
use arras_schemes::ore::lewi_wu::{BlockBits, LewiWu};
use arras_server::ore::lewi_wu::compare;
use std::cmp::Ordering;

mod two {
    use super::*;
    test_body!(Subject {
        make: |index, width| Box::new(LewiWu::new(index, width, BlockBits::Two)),
        widths: WIDTHS,
        values_max: 30,
        hides_equality: false,
    });
}

mod four {
    use super::*;
    test_body!(Subject {
        make: |index, width| Box::new(LewiWu::new(index, width, BlockBits::Four)),
        widths: WIDTHS,
        values_max: 30,
        hides_equality: false,
    });
}

mod eight {
    use super::*;
    test_body!(Subject {
        make: |index, width| Box::new(LewiWu::new(index, width, BlockBits::Eight)),
        widths: WIDTHS,
        values_max: 30,
        hides_equality: false,
    });
}

const ALL: [BlockBits; 3] = [BlockBits::Two, BlockBits::Four, BlockBits::Eight];

fn left(scheme: &LewiWu, value: u64) -> Vec<u8> {
    let mut left = vec![0; scheme.left_bytes()];
    scheme.encrypt_left(value, &mut left).expect("within the domain");
    left
}

fn right(scheme: &LewiWu, value: u64, prg: &mut Prg) -> Vec<u8> {
    let mut right = vec![0; scheme.right_bytes()];
    scheme.encrypt_right(value, prg, &mut right).expect("within the domain");
    right
}

#[test]
fn known_answers() {
    for case in vectors::read("lewi_wu.json") {
        let block_bits = ALL.into_iter().find(|bits| u64::from(bits.bits()) == case.number("block_bits"));
        let block_bits = block_bits.expect("2, 4 or 8");
        let scheme = LewiWu::new(&case.index_key(), case.width(), block_bits);
        let outcome = match case.text("operation") {
            "compare" => compare(case.width(), block_bits.bits(), &case.bytes("left"), &case.bytes("right"))
                .ok()
                .map(|order| format!("{order:?}").to_lowercase() == case.text("order")),
            "decrypt" => scheme.decrypt(&case.bytes("right")).ok().map(|value| value == case.number("value")),
            "encrypt" => {
                let seed: Block = case.bytes("nonce_seed").try_into().expect("16 bytes");
                let right = right(&scheme, case.number("value"), &mut Prg::new(&seed));
                Some(
                    right == case.bytes("right") && left(&scheme, case.number("value")) == case.bytes("left"),
                )
            }
            other => panic!("no operation {other}"),
        };
        assert_eq!(outcome, case.must_pass().then_some(true), "{}", case.name());
    }
}

#[test]
fn trits_and_slots_outside_their_range_are_refused() {
    for block_bits in ALL {
        let scheme = LewiWu::new(&index_key(1), Width::Bits32, block_bits);
        let (left, right) = (left(&scheme, 77), right(&scheme, 77, &mut Prg::new(&[1; 16])));
        let compare = |left: &[u8], right: &[u8]| compare(Width::Bits32, block_bits.bits(), left, right);
        assert_eq!(compare(&left, &right), Ok(Ordering::Equal));
        let threes = [&right[..NONCE_BYTES], &vec![0xff; right.len() - NONCE_BYTES]].concat();
        assert!(compare(&left, &threes).is_err());
        assert!(scheme.decrypt(&threes).is_err());
        if block_bits.bits() < 8 {
            let mut outside = left.clone();
            outside[LEFT_BLOCK_BYTES - 1] = 1 << block_bits.bits();
            assert!(compare(&outside, &right).is_err());
        }
        // The nonce is not the ciphertext's: its trits say something else.
        let mut moved = right.clone();
        moved[0] ^= 1;
        assert!(scheme.decrypt(&moved).is_err());
    }
    assert!(compare(Width::Bits32, 3, &[0; 17], &[0; 17]).is_err());
    assert!(compare(Width::Bits32, 0, &[], &[]).is_err());
}

/// Table 4 at 32 bits and d = 2: 32 permutations (one a block and side), 64 hashes.
#[test]
fn calls_are_those_of_the_table() {
    let scheme = LewiWu::new(&index_key(1), Width::Bits32, BlockBits::Two);
    let before = meter::reading();
    let (left, right) = (left(&scheme, 5), right(&scheme, 5, &mut Prg::new(&[1; 16])));
    let made = meter::reading() - before;
    assert_eq!([Primitive::Prp, Primitive::Hash, Primitive::Prg].map(|kind| made.of(kind)), [32, 64, 1]);
    // The paper counts 160: its left side makes a whole block's slots, too.
    assert_eq!(made.of(Primitive::Prf), 16 * (1 + 1) + 16 * (1 + 4));
    let before = meter::reading();
    assert_eq!(compare(Width::Bits32, 2, &left, &right), Ok(Ordering::Equal));
    let compared = meter::reading() - before;
    assert_eq!([Primitive::Prp, Primitive::Hash, Primitive::Prf].map(|kind| compared.of(kind)), [0, 16, 0]);
}

fn trits(right: &[u8]) -> Vec<u8> {
    let mut trits = vec![0; 4 * (right.len() - NONCE_BYTES)];
    trit::unpack(&right[NONCE_BYTES..], &mut trits);
    trits
}

/// Counts of each slot's trit and of how it changes from one ciphertext to the next: 3 + 3.
fn marginals(ciphertexts: &[Vec<u8>]) -> ([u64; 3], [u64; 3], [u64; 3]) {
    let (mut single, mut change, mut neighbour) = ([0; 3], [0; 3], [0; 3]);
    for pair in ciphertexts.windows(2) {
        for (a, b) in pair[0].iter().zip(&pair[1]) {
            single[usize::from(*a % 3)] += 1;
            change[usize::from((3 + b - a) % 3)] += 1;
        }
        for slots in pair[0].windows(2) {
            neighbour[usize::from((3 + slots[1] - slots[0]) % 3)] += 1;
        }
    }
    (single, change, neighbour)
}

/// Right ciphertexts alone tell their number: those of one value repeated look like those of other values, like
/// random trits.
#[test]
fn right_ciphertexts_look_random() {
    for block_bits in ALL {
        let scheme = LewiWu::new(&index_key(5), Width::Bits64, block_bits);
        let mut prg = Prg::new(&[6; 16]);
        let databases = [vec![0; 300], vec![u64::MAX; 300], values(Width::Bits64, 300), (0..300).collect()];
        for database in databases {
            let all: Vec<Vec<u8>> =
                database.iter().map(|value| trits(&right(&scheme, *value, &mut prg))).collect();
            assert!(all.iter().flatten().all(|trit| *trit < 3));
            let (single, change, neighbour) = marginals(&all);
            assert!(!deviate_from_uniform(&single), "{single:?}");
            assert!(!deviate_from_uniform(&change), "{change:?}");
            assert!(!deviate_from_uniform(&neighbour), "{neighbour:?}");
        }
    }
}

/// The tests above notice a sum that is not taken modulo 3 and a nonce that is not used.
#[test]
fn broken_right_ciphertexts_are_noticed() {
    let mut prg = Prg::new(&[6; 16]);
    let mut mask = || (prg.next_u64() % 3) as u8;
    // Slots before the value's are less, those after are greater; the value is 20 of 256.
    let compared: Vec<u8> = (0..=255).map(|slot: u8| [1, 0, 2][(slot.cmp(&20) as i8 + 1) as usize]).collect();
    let unreduced: Vec<Vec<u8>> =
        (0..300).map(|_| compared.iter().map(|order| mask() + order).collect()).collect();
    assert!(unreduced.iter().flatten().any(|trit| *trit >= 3));
    // Where the two bits of a packed trit cut a 4 to 0.
    let cut: Vec<Vec<u8>> = unreduced.iter().map(|all| all.iter().map(|trit| trit & 3).collect()).collect();
    assert!(deviate_from_uniform(&marginals(&cut).0));
    let masks: Vec<u8> = (0..256).map(|_| mask()).collect();
    let same: Vec<Vec<u8>> =
        vec![masks.iter().zip(&compared).map(|(mask, order)| (mask + order) % 3).collect(); 300];
    assert!(deviate_from_uniform(&marginals(&same).1));
}

/// The trits that a left ciphertext opens in a right one.
fn opened(block_bits: BlockBits, left: &[u8], right: &[u8]) -> Vec<u8> {
    let nonce: Block = right[..NONCE_BYTES].try_into().expect("16 bytes");
    let trits = trits(right);
    let parts = left.chunks(LEFT_BLOCK_BYTES).zip(trits.chunks(1 << block_bits.bits()));
    parts
        .map(|(part, slots)| {
            let (mut input, mut mask) = ([part[..16].try_into().expect("16 bytes")], [0]);
            trit::hash_each(&nonce, &mut input, &mut mask);
            (slots[usize::from(part[16])] + 3 - mask[0]) % 3
        })
        .collect()
}

/// A left ciphertext tells of a right one the first block that differs and the order; the trits it opens after that
/// are random, even where blocks are equal.
#[test]
fn comparisons_tell_the_first_block() {
    for block_bits in ALL {
        let bits = u32::from(block_bits.bits());
        let blocks = 64 / bits;
        let mut prg = Prg::new(&[7; 16]);
        let mut after = [0; 3];
        for round in 0..600 {
            let scheme = LewiWu::new(&index_key(round as u8), Width::Bits64, block_bits);
            let first = round % (blocks - 1);
            let a = prg.next_u64();
            // One block is another one, the rest the same.
            let b = a ^ (1 + prg.next_u64() % ((1 << bits) - 1)) << (64 - bits * (first + 1));
            let seen = opened(block_bits, &left(&scheme, a), &right(&scheme, b, &mut prg));
            let first = first as usize;
            assert!(seen[..first].iter().all(|trit| *trit == 0));
            assert_eq!(seen[first], if a < b { 1 } else { 2 });
            seen[first + 1..].iter().for_each(|trit| after[usize::from(*trit)] += 1);
        }
        assert!(!deviate_from_uniform(&after), "{after:?}");
        // A scheme that forgets the prefix would open zeros there.
        assert!(deviate_from_uniform(&[after.iter().sum(), 0, 0]));
    }
}

/// The same leakage, the same slots' statistics: a block's slot is uniform over prefixes, so the left ciphertexts of
/// two values tell nothing but their first difference.
#[test]
fn slots_are_uniform_over_prefixes() {
    let scheme = LewiWu::new(&index_key(5), Width::Bits64, BlockBits::Eight);
    let mut counts = [0; 256];
    for prefix in 0..20_000_u64 {
        // The last block is always 9.
        counts[usize::from(left(&scheme, prefix << 8 | 9)[8 * LEFT_BLOCK_BYTES - 1])] += 1;
    }
    assert!(!deviate_from_uniform(&counts), "{counts:?}");
    counts.iter_mut().take(128).for_each(|count| *count += 20);
    assert!(deviate_from_uniform(&counts));
}
