#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::Path;

fn bclo(seed: u8, width: Width) -> Bclo {
    Bclo::new(&Key::take_from(&mut [seed; 32]), width)
}

fn encrypt(scheme: &mut Bclo, value: u64) -> Vec<u8> {
    scheme.encrypt(value, &mut Prg::new(&[0; 16])).unwrap().stored
}

fn function(material: u64, domain_bits: u32, range_bits: u32) -> OrderPreservingFunction {
    let mut seed = [0; 16];
    seed[..8].copy_from_slice(&material.to_le_bytes());
    OrderPreservingFunction::new(Prf::new(&seed), domain_bits, range_bits)
}

fn values(width: Width) -> impl Strategy<Value = u64> {
    let greatest = width.greatest();
    prop_oneof![any::<u64>(), 0..300_u64, Just(u64::MAX), (0..64_u32).prop_map(|bit| (1 << bit) - 1)]
        .prop_map(move |value| value & greatest)
}

fn widths() -> impl Strategy<Value = Width> {
    prop_oneof![Just(Width::Bits32), Just(Width::Bits64)]
}

proptest! {
    #[test]
    fn order_is_kept_and_plaintexts_come_back(
        (width, left, right) in widths().prop_flat_map(|width| (Just(width), values(width), values(width))),
    ) {
        let mut scheme = bclo(1, width);
        let (a, b) = (encrypt(&mut scheme, left), encrypt(&mut scheme, right));
        prop_assert_eq!(a.len(), 2 * width.bytes());
        prop_assert_eq!(a.cmp(&b), left.cmp(&right));
        prop_assert_eq!(scheme.decrypt(&a), Ok(left));
        prop_assert_eq!(scheme.bound(left, End::Lower, &mut Prg::new(&[0; 16])), Ok(a.clone()));
        prop_assert_eq!(scheme.bound(left, End::Upper, &mut Prg::new(&[0; 16])), Ok(a));
    }

    #[test]
    fn another_ciphertext_does_not_open(
        (width, value, bit) in widths().prop_flat_map(|width| (Just(width), values(width), 0..16 * width.bytes())),
    ) {
        let mut scheme = bclo(1, width);
        let mut stored = encrypt(&mut scheme, value);
        stored[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(scheme.decrypt(&stored), Err(OpenFailed));
    }

    #[test]
    fn another_key_does_not_open(
        (width, value) in widths().prop_flat_map(|width| (Just(width), values(width))),
    ) {
        let stored = encrypt(&mut bclo(1, width), value);
        prop_assert_ne!(&stored, &encrypt(&mut bclo(2, width), value));
        prop_assert_eq!(bclo(2, width).decrypt(&stored), Err(OpenFailed));
    }

    #[test]
    fn the_cache_changes_nothing(seed: u64, values in prop::collection::vec(any::<u64>(), 1..20)) {
        let function = function(seed, 16, 32);
        // None, one that holds few steps, and one that holds all of these.
        let (mut none, mut small, mut large) = (Cache::new(0), Cache::new(8), Cache::new(4096));
        for value in values {
            let value = value >> 48;
            let cold = function.encrypt(value, &mut none);
            for cache in [&mut small, &mut large] {
                prop_assert_eq!(function.encrypt(value, cache), cold);
                prop_assert_eq!(function.decrypt(cold, cache), Some(value));
                prop_assert_eq!(function.encrypt(value, cache), cold);
            }
        }
    }
}

#[test]
fn ends_of_the_domain() {
    for width in [Width::Bits32, Width::Bits64] {
        let mut scheme = bclo(9, width);
        let mut before = None;
        for value in [0, 1, 2, width.greatest() - 1, width.greatest()] {
            let stored = encrypt(&mut scheme, value);
            assert_eq!(scheme.decrypt(&stored), Ok(value));
            assert!(before < Some(stored.clone()));
            before = Some(stored);
        }
    }
    let mut scheme = bclo(9, Width::Bits32);
    let mut prg = Prg::new(&[0; 16]);
    assert_eq!(scheme.encrypt(1 << 32, &mut prg), Err(EncryptFailed::OutsideDomain));
    assert_eq!(scheme.bound(u64::MAX, End::Upper, &mut prg), Err(EncryptFailed::OutsideDomain));
}

#[test]
fn bytes_of_another_length_do_not_open() {
    for width in [Width::Bits32, Width::Bits64] {
        let mut scheme = bclo(1, width);
        let stored = encrypt(&mut scheme, 77);
        let longer = [&stored[..], &[0]].concat();
        for wrong in [&[][..], &stored[1..], &longer, &vec![0; 2 * stored.len()]] {
            assert_eq!(scheme.decrypt(wrong), Err(OpenFailed));
        }
    }
}

#[test]
fn every_ciphertext_of_a_small_range_opens_or_does_not() {
    for (domain_bits, range_bits) in [(1, 1), (3, 3), (4, 5), (5, 9), (1, 8)] {
        for material in 0..20 {
            let (function, mut cache) = (function(material, domain_bits, range_bits), Cache::new(64));
            let images: HashMap<u128, u64> =
                (0..1 << domain_bits).map(|value| (function.encrypt(value, &mut cache), value)).collect();
            assert_eq!(images.len(), 1 << domain_bits, "one image each");
            for ciphertext in 0..1_u128 << range_bits {
                assert_eq!(function.decrypt(ciphertext, &mut cache), images.get(&ciphertext).copied());
            }
            assert_eq!(function.decrypt(1 << range_bits, &mut cache), None);
        }
    }
}

/// The definition of the scheme's security is that a key picks one of all order-preserving functions, each as
/// likely. Four numbers have C(8, 4) = 70 such functions to eight.
#[test]
fn keys_pick_order_preserving_functions_uniformly() {
    let mut seen: HashMap<Vec<u128>, u32> = HashMap::new();
    let keys = 70 * 200;
    for material in 0..keys {
        let (function, mut cache) = (function(material, 2, 3), Cache::new(0));
        let images = (0..4).map(|value| function.encrypt(value, &mut cache)).collect();
        *seen.entry(images).or_default() += 1;
    }
    assert_eq!(seen.len(), 70);
    let statistic: f64 = seen.values().map(|&times| (f64::from(times) - 200.0).powi(2) / 200.0).sum();
    // 69 degrees of freedom: 144 has a probability of 1e-6, 26 of 1e-6 from below.
    assert!((26.0..144.0).contains(&statistic), "{statistic}");
}

/// With more numbers the rejection sampler takes part: 64 numbers in 128, of which the lower half has a
/// hypergeometric number of images.
#[test]
fn images_in_the_lower_half_are_hypergeometric() {
    let keys = 4000_u32;
    let mut seen = [0_u32; 65];
    for material in 0..keys {
        let (function, mut cache) = (function(material.into(), 6, 7), Cache::new(128));
        // The images ascend, so their number in the lower half is found by halving.
        let (mut low, mut high) = (0, 64);
        while low < high {
            let middle = (low + high) / 2;
            if function.encrypt(middle, &mut cache) < 64 {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        seen[low as usize] += 1;
    }
    let choose =
        |n: f64, k: u32| (0..k).fold(1.0, |product, i| product * (n - f64::from(i)) / f64::from(i + 1));
    let mut statistic = 0.0;
    let (mut bins, mut rare) = (0, (0.0, 0.0));
    for (below, &times) in seen.iter().enumerate() {
        let expected = f64::from(keys) * choose(64.0, below as u32).powi(2) / choose(128.0, 64);
        if expected < 8.0 {
            rare = (rare.0 + f64::from(times), rare.1 + expected);
        } else {
            statistic += (f64::from(times) - expected).powi(2) / expected;
            bins += 1;
        }
    }
    statistic += (rare.0 - rare.1).powi(2) / rare.1;
    // About 20 degrees of freedom: 62 has a probability below 1e-5.
    assert!((15..30).contains(&bins) && statistic < 62.0, "{statistic} of {bins}");
}

#[test]
fn second_implementation() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kat/bclo.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let mut cases = 0;
    for case in text.split("\n\n").skip(1) {
        let fields: HashMap<&str, &str> = case.lines().map(|line| line.split_once(": ").unwrap()).collect();
        let number = |field: &str| u128::from_str_radix(fields[field], 16).unwrap();
        let decimal = |field: &str| fields[field].parse::<u64>().unwrap();
        let tape = Prf::new(&number("material").to_be_bytes());
        let (domain_bits, range_bits) = (decimal("domain_bits") as u32, decimal("range_bits") as u32);
        let function = OrderPreservingFunction::new(tape, domain_bits, range_bits);
        let image = function.encrypt(decimal("value"), &mut Cache::new(16));
        assert_eq!(image, number("ciphertext"), "{}", fields["name"]);
        assert_eq!(function.decrypt(image, &mut Cache::new(0)), Some(decimal("value")), "{}", fields["name"]);
        cases += 1;
    }
    assert!(cases > 20);
}
