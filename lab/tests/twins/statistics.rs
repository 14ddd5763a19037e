//! Is it random? With bounds that chance does not reach in the life of this repository.

/// Standard deviations that are no accident: about one in 10^8.
const DEVIATIONS_MAX: f64 = 5.7;

/// How far, in standard deviations, a sequence of distinct ranks is from a random order: many times below zero if it
/// ascends, as much above if it descends.
pub(crate) fn order_deviation(ranks: &[usize]) -> f64 {
    let n = ranks.len() as f64;
    let inversions = (0..ranks.len())
        .map(|left| ranks[left..].iter().filter(|right| **right < ranks[left]).count())
        .sum::<usize>() as f64;
    let mean = n * (n - 1.0) / 4.0;
    let variance = n * (n - 1.0) * (2.0 * n + 5.0) / 72.0;
    (inversions - mean) / variance.sqrt()
}

/// Says what is wrong with the order of some ranks, if anything is.
pub(crate) fn judge_order(what: &str, ranks: &[usize], failures: &mut Vec<String>) {
    let distinct: std::collections::BTreeSet<&usize> = ranks.iter().collect();
    assert!(ranks.len() >= 24 && distinct.len() == ranks.len(), "{what}: {} ranks say nothing", ranks.len());
    let deviation = order_deviation(ranks);
    if deviation.abs() > DEVIATIONS_MAX {
        failures
            .push(format!("{what}: the order of {} is {deviation:.1} deviations from random", ranks.len()));
    }
}

/// Says what is wrong with how many of `drawn` out of `all` are of the first `marked` of them, if anything is: a
/// random choice has a hypergeometric number.
pub(crate) fn judge_share(
    what: &str,
    [all, marked, drawn]: [usize; 3],
    found: usize,
    failures: &mut Vec<String>,
) {
    let [all, marked, drawn] = [all as f64, marked as f64, drawn as f64];
    let share = marked / all;
    let variance = drawn * share * (1.0 - share) * (all - drawn) / (all - 1.0);
    let deviation = (found as f64 - drawn * share) / variance.sqrt();
    if deviation.abs() > DEVIATIONS_MAX {
        failures
            .push(format!("{what}: {found} of {drawn} are of the first half, {deviation:.1} deviations off"));
    }
}

/// Says what is wrong with bytes that should be uniformly random: how often each comes.
pub(crate) fn judge_bytes(what: &str, bytes: &[u8], failures: &mut Vec<String>) {
    let expected = bytes.len() as f64 / 256.0;
    // Below five of each the distance is not distributed so.
    assert!(expected >= 5.0, "{what}: {} bytes say nothing", bytes.len());
    let mut counts = [0_u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let distance: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
    // Chi-squared with 255 degrees of freedom; its upper tail is heavier than a normal one's.
    let deviation = (distance - 255.0) / 510_f64.sqrt();
    if deviation.abs() > DEVIATIONS_MAX + 2.0 {
        failures.push(format!("{what}: {} bytes are {deviation:.1} deviations from uniform", bytes.len()));
    }
}

/// Says what is wrong with two runs of bytes that should be independent: how often they agree.
pub(crate) fn judge_pair(what: &str, left: &[u8], right: &[u8], failures: &mut Vec<String>) {
    let n = left.len().min(right.len()) as f64;
    let agree = left.iter().zip(right).filter(|(left, right)| left == right).count() as f64;
    let deviation = (agree - n / 256.0) / (n / 256.0 * (255.0 / 256.0)).sqrt();
    if deviation.abs() > DEVIATIONS_MAX + 2.0 {
        failures.push(format!("{what}: of {n} bytes {agree} agree, {deviation:.1} deviations off"));
    }
}

#[test]
fn an_order_is_told_from_a_random_one() {
    let (rising, falling): (Vec<usize>, Vec<usize>) = ((0..24).collect(), (0..24).rev().collect());
    // 5 generates the residues of 97.
    let powers: Vec<usize> =
        (0..96).scan(1, |power, _| Some(std::mem::replace(power, *power * 5 % 97))).collect();
    let mut failures = Vec::new();
    for ranks in [&rising, &falling, &powers] {
        judge_order("some ranks", ranks, &mut failures);
    }
    assert_eq!(failures.len(), 2, "{failures:?}");
}
