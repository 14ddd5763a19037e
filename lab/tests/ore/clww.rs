//! CLWW: its known answers and its leakage.

use crate::body::{Subject, WIDTHS, index_key, test_body};
use crate::statistics::deviate_from_uniform;
use crate::vectors;
use arras_primitives::meter::{self, Primitive};
use arras_primitives::prf::Prf;
use arras_primitives::prg::Prg;
use arras_primitives::trit;
use arras_protocol::ore::clww::Trits;
use arras_protocol::ore::{MalformedCiphertext, Width};
use arras_schemes::ore::OrderScheme;
use arras_schemes::ore::clww::Clww;
use arras_server::ore::clww::compare;
use std::cmp::Ordering;

const SUBJECT: Subject = Subject {
    make: |index, width| Box::new(Clww::new(index, width)),
    widths: WIDTHS,
    values_max: 60,
    hides_equality: false,
};

test_body!(SUBJECT);

#[test]
fn known_answers() {
    for case in vectors::read("clww.json") {
        let scheme = Clww::new(&case.index_key(), case.width());
        let stored = case.bytes("stored");
        let outcome = match case.text("operation") {
            "decrypt" => scheme.decrypt(&stored).ok(),
            "encrypt" => {
                let mut scheme = scheme;
                let made =
                    scheme.encrypt(case.number("value"), &mut Prg::new(&[0; 16])).expect("within the domain");
                (made.stored == stored && made.query == stored).then(|| case.number("value"))
            }
            other => panic!("no operation {other}"),
        };
        assert_eq!(outcome, case.must_pass().then(|| case.number("value")), "{}", case.name());
    }
}

#[test]
fn no_trit_is_3() {
    let scheme = Clww::new(&index_key(1), Width::Bits64);
    let good = scheme.encrypt_trits(77).expect("within the domain");
    for place in 0..64 {
        let bad = Trits { ones: good.ones | 1 << place, twos: good.twos | 1 << place };
        let [bad, good] = [bad, good].map(|trits| trits.to_bytes(Width::Bits64));
        let refused = Err(MalformedCiphertext("a trit of 3"));
        assert_eq!(compare(Width::Bits64, &bad, &good), refused);
        assert_eq!(compare(Width::Bits64, &good, &bad), refused);
        assert!(scheme.decrypt(&bad).is_err());
    }
    assert!(Clww::new(&index_key(1), Width::Bits32).decrypt_trits(Trits { ones: 1 << 32, twos: 0 }).is_err());
}

#[test]
fn calls_are_those_of_the_table() {
    for (width, calls) in [(Width::Bits32, 32), (Width::Bits64, 64)] {
        let scheme = Clww::new(&index_key(1), width);
        let before = meter::reading();
        let ciphertext = scheme.encrypt_trits(5).expect("within the domain").to_bytes(width);
        assert_eq!((meter::reading() - before).of(Primitive::Prf), calls);
        let before = meter::reading();
        assert_eq!(compare(width, &ciphertext, &ciphertext), Ok(Ordering::Equal));
        assert_eq!(meter::reading(), before);
    }
}

/// The trits of a 64-bit ciphertext, the first first.
fn trits(ciphertext: Trits) -> [u8; 64] {
    let Trits { ones, twos } = ciphertext;
    std::array::from_fn(|place| (ones >> (63 - place) & 1) as u8 + 2 * (twos >> (63 - place) & 1) as u8)
}

/// What the paper says pairs tell, and no more: equal trits before the first bit that differs, there a successor,
/// nothing after.
#[test]
fn pairs_tell_the_first_difference() {
    let mut prg = Prg::new(&[4; 16]);
    let (mut after, mut after_equal_bits) = ([0; 3], [0; 3]);
    for round in 0..1000_u32 {
        let mut seed = [0; 32];
        prg.fill(&mut seed);
        let scheme = Clww::new(&arras_keys::Key::take_from(&mut seed), Width::Bits64);
        let left = prg.next_u64();
        // The same first `first` bits, another one; the rest at random, or equal.
        let first = round % 63;
        let random = prg.next_u64() & (u64::MAX >> (first + 1));
        for (right, seen) in [
            (left ^ 1 << (63 - first) ^ random, &mut after),
            (left ^ 1 << (63 - first), &mut after_equal_bits),
        ] {
            let [a, b] =
                [left, right].map(|value| trits(scheme.encrypt_trits(value).expect("within the domain")));
            let first = first as usize;
            assert_eq!(a[..first], b[..first]);
            assert_eq!((3 + b[first] - a[first]) % 3, if right > left { 1 } else { 2 });
            for (a, b) in a.iter().zip(b).skip(first + 1) {
                seen[usize::from((3 + b - a) % 3)] += 1;
            }
        }
    }
    assert!(!deviate_from_uniform(&after), "{after:?}");
    assert!(!deviate_from_uniform(&after_equal_bits), "{after_equal_bits:?}");
}

/// Counts of neighbouring trits in ciphertexts under fresh keys.
fn neighbours(ciphertexts: impl Iterator<Item = [u8; 64]>) -> [u64; 9] {
    let mut counts = [0; 9];
    for trits in ciphertexts {
        for pair in trits.windows(2) {
            counts[usize::from(pair[0] * 3 + pair[1])] += 1;
        }
    }
    counts
}

/// One value and another have the same leakage: their ciphertexts are alike under fresh keys. A scheme whose PRF
/// sees the prefix alone repeats the mask along a run of zeros, and is noticed.
#[test]
fn single_values_look_alike() {
    let keys = |byte: u8| {
        (0..1000_u32).map(move |round| {
            let mut material = [byte; 32];
            material[..4].copy_from_slice(&round.to_be_bytes());
            arras_keys::Key::take_from(&mut material)
        })
    };
    for (byte, value) in [(1, 0), (2, u64::MAX), (3, 0x1234_5678_9abc_def0)] {
        let ciphertexts = keys(byte).map(|key| {
            trits(Clww::new(&key, Width::Bits64).encrypt_trits(value).expect("within the domain"))
        });
        let counts = neighbours(ciphertexts);
        assert!(!deviate_from_uniform(&counts), "{value}: {counts:?}");
    }
    let without_position = keys(4).map(|key| {
        let prf = Prf::new(key.expose_16());
        let value = 0x0000_ffff_0000_ffff_u64;
        std::array::from_fn(|place| {
            let prefix = value.checked_shr(64 - place as u32).unwrap_or(0);
            let bit = (value >> (63 - place) & 1) as u8;
            (trit::of_block(&prf.block(&u128::from(prefix).to_be_bytes())) + bit) % 3
        })
    });
    assert!(deviate_from_uniform(&neighbours(without_position)));
}
