//! BCLO: what a ciphertext shows, and how many samples it costs.

use crate::body::{Subject, WIDTHS, index_key, test_body};
use arras_keys::Key;
use arras_primitives::meter::{self, Primitive};
use arras_primitives::prg::Prg;
use arras_protocol::ore::Width;
use arras_schemes::ore::bclo::Bclo;
use arras_schemes::ore::{End, OrderScheme};

const SUBJECT: Subject = Subject {
    make: |index, width| Box::new(Bclo::new(index, width)),
    widths: WIDTHS,
    values_max: 60,
    hides_equality: false,
};

test_body!(SUBJECT);

fn encrypt(scheme: &Bclo, value: u64) -> u128 {
    let bytes = scheme.bound(value, End::Lower, &mut Prg::new(&[0; 16])).expect("within the domain");
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// A plaintext is alone after as many halvings as a key of a random binary trie is deep: the logarithm of their number,
/// plus 1/2 + 0.5772 / ln 2 = 1.333. The paper counts 41 for 32 bits, with the sampler of its time.
#[test]
fn hypergeometric_samples_are_as_many_as_a_random_trie_is_deep() {
    for (width, expected) in [(Width::Bits32, 33.33), (Width::Bits64, 65.33)] {
        let scheme = Bclo::with_cache(&index_key(1), width, 0);
        let mut prg = Prg::new(&[2; 16]);
        let before = meter::reading();
        for _ in 0..400 {
            encrypt(&scheme, prg.next_u64() & width.greatest());
        }
        let used = (meter::reading() - before).of(Primitive::HypergeometricSample) as f64 / 400.0;
        // The depth's standard deviation is 1.9: five standard errors.
        assert!((used - expected).abs() < 0.48, "{width:?}: {used}");
    }
}

#[test]
fn a_cached_encryption_samples_nothing() {
    let scheme = Bclo::new(&index_key(1), Width::Bits32);
    let first = encrypt(&scheme, 77);
    let before = meter::reading();
    assert_eq!(encrypt(&scheme, 77), first);
    assert_eq!(scheme.decrypt(&(first as u64).to_be_bytes()), Ok(77));
    assert_eq!((meter::reading() - before).of(Primitive::HypergeometricSample), 0);
}

/// The stated leakage: about the upper half of a plaintext's bits. Over keys, the upper 32 bits of a ciphertext
/// are the plaintext plus what an order statistic of a random subset deviates by: its standard deviation is
/// `sqrt(m (2^32 - m) / 2^32)`, 2^15 in the middle.
#[test]
fn ciphertexts_deviate_as_those_of_a_random_order_preserving_function() {
    for value in [1_u64 << 31, 1 << 28, 0xf000_0000] {
        let m = value as f64;
        let standard_deviation = (m * (2_f64.powi(32) - m) / 2_f64.powi(32)).sqrt();
        let keys = 1500;
        let (mut sum, mut squares) = (0.0, 0.0);
        for round in 0..keys {
            let mut material = [9; Key::BYTES];
            material[..4].copy_from_slice(&u32::to_be_bytes(round));
            let scheme = Bclo::with_cache(&Key::take_from(&mut material), Width::Bits32, 0);
            let deviation = (encrypt(&scheme, value) as f64 / 2_f64.powi(32) - m) / standard_deviation;
            sum += deviation;
            squares += deviation * deviation;
        }
        let (mean, variance) = (sum / f64::from(keys), squares / f64::from(keys));
        // Five standard errors.
        assert!(mean.abs() < 5.0 / f64::from(keys).sqrt(), "{value}: mean {mean}");
        assert!(
            (variance - 1.0).abs() < 5.0 * (2.0 / f64::from(keys)).sqrt(),
            "{value}: variance {variance}"
        );
    }
}

/// Leakage beyond order: pairs of the same distance look the same wherever they are. The gap between neighbours'
/// ciphertexts has the same distribution at both ends of the domain and in the middle.
#[test]
fn neighbours_have_gaps_of_one_distribution() {
    let keys = 2000_u32;
    let median = 2_f64.powi(32) * std::f64::consts::LN_2;
    for value in [5, 1 << 31, u64::from(u32::MAX) - 5] {
        let mut wide = 0_u32;
        for round in 0..keys {
            let mut material = [8; Key::BYTES];
            material[..4].copy_from_slice(&round.to_be_bytes());
            let scheme = Bclo::new(&Key::take_from(&mut material), Width::Bits32);
            let gap = encrypt(&scheme, value + 1) - encrypt(&scheme, value);
            wide += u32::from(gap as f64 > median);
        }
        // Gaps of a sparse random subset are exponential; five standard deviations of a fair coin.
        let deviation = (f64::from(wide) - f64::from(keys) / 2.0).abs();
        assert!(deviation < 2.5 * f64::from(keys).sqrt(), "{value}: {wide} of {keys} gaps above the median");
    }
}
