//! Chi-squared tests.

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Below this chance a deviation is taken for real. Seeds are fixed, so a test that passes keeps passing.
const CHANCE: f64 = 1e-6;

/// Whether counts deviate from the uniform distribution more than chance explains.
pub(crate) fn deviate_from_uniform(counts: &[u64]) -> bool {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    assert!(expected >= 5.0, "enough is counted");
    let statistic = counts.iter().map(|seen| (*seen as f64 - expected).powi(2) / expected).sum();
    let distribution = ChiSquared::new((counts.len() - 1) as f64).expect("more than one count");
    1.0 - distribution.cdf(statistic) < CHANCE
}

#[test]
fn deviations_are_told_from_noise() {
    assert!(!deviate_from_uniform(&[1000, 1030, 970]));
    assert!(deviate_from_uniform(&[1000, 1300, 700]));
}
