//! What loads that run in turns come to: the machine's speed drifts within a run, and what is measured one after the other meets the same.

/// The value in the middle; of none, no number.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The ratio in the middle of those of each round; of no round, no number.
pub(super) fn ratio(over: &[f64], under: &[f64]) -> f64 {
    median(over.iter().zip(under).map(|(over, under)| over / under).collect())
}

#[cfg(test)]
mod tests {
    use super::{median, ratio};

    #[test]
    fn a_machine_that_slows_down_changes_no_ratio() {
        let (over, under) = ([60.0, 30.0, 15.0, 3.0, 6.0], [100.0, 50.0, 25.0, 5.0, 1.0]);
        assert!((ratio(&over, &under) - 0.6).abs() < 1e-9);
        assert!((median(over.to_vec()) - 15.0).abs() < 1e-9);
        assert!(ratio(&[], &under).is_nan());
    }
}
