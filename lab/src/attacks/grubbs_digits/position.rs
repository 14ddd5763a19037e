//! Where in the domain each of the unknown values lies, by its rank alone: what every attack that sees the order has.
//!
//! Two estimates are weighed by their variances. One is the auxiliary data's quantile at the value's rank among records,
//! as in the binomial attack. How far quantiles of two samples are apart follows from their sizes: in records where both
//! have the same values, in values (Kish's effective size) where none is in both; as the attacker cannot tell, the mean
//! of the two on a logarithmic scale. The other takes different values for evenly spread from
//! the least to the greatest one, as the sorting attack does: where they are the whole domain, or those of the auxiliary
//! data are as even as that.

use crate::attacks::Knowledge;

/// A mean and a variance, in values of the domain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) mean: f64,
    pub(super) variance: f64,
}

/// Deviation of a sample of even numbers from evenness, times the root of its size, that chance exceeds once in a
/// hundred times (Kolmogorov and Smirnov).
const EVEN_MAX: f64 = 1.63;

/// Different auxiliary values that are enough to tell whether they are even.
const ENOUGH: usize = 20;

/// What records that repeat values are worth in independent ones (Kish).
fn independent(counts: impl Iterator<Item = usize> + Clone) -> f64 {
    let sum: f64 = counts.clone().map(|count| count as f64).sum();
    let squares: f64 = counts.map(|count| (count as f64).powi(2)).sum();
    if squares > 0.0 { sum * sum / squares } else { 1.0 }
}

/// Whether the different auxiliary values are as even as chance leaves them, if they are enough to tell.
fn are_even(knowledge: &Knowledge, different: &[(i64, usize)]) -> bool {
    let count = different.len() as f64;
    let off = |(at, (value, _)): (usize, &(i64, usize))| {
        let share = (*value as f64 - knowledge.least as f64) / knowledge.span();
        (share - at as f64 / count).abs().max((share - (at + 1) as f64 / count).abs())
    };
    let most = different.iter().enumerate().map(off).fold(0.0, f64::max);
    different.len() >= ENOUGH && most <= EVEN_MAX / count.sqrt()
}

/// An estimate for each of the values that so many records have, ascending.
pub(super) fn estimates(sizes: &[usize], knowledge: &Knowledge) -> Vec<Estimate> {
    let different = knowledge.histogram();
    let counts = different.iter().map(|(_, count)| *count);
    let values = 1.0 / independent(sizes.iter().copied()) + 1.0 / independent(counts);
    let rows = 1.0 / sizes.iter().sum::<usize>().max(1) as f64 + 1.0 / knowledge.auxiliary.len() as f64;
    let noise = (values * rows).sqrt();
    let (least, greatest) = (knowledge.least as f64, knowledge.greatest as f64);
    let quantile = |share: f64| match share {
        ..0.0 => least,
        0.0..1.0 => (knowledge.quantile(share) as f64).clamp(least, greatest),
        _ => greatest,
    };
    let domain = greatest - least + 1.0;
    let (count, records) = (sizes.len() as f64, sizes.iter().sum::<usize>().max(1) as f64);
    let absent = (1.0 - count / domain).max(0.0);
    let are_even = are_even(knowledge, &different);
    let mut seen = 0;
    let estimate = |(at, size): (usize, &usize)| {
        let share = (seen as f64 + *size as f64 / 2.0) / records;
        seen += size;
        let off = (share * (1.0 - share) * noise).sqrt() + noise;
        let reach = (quantile(share + off) - quantile(share - off)) / 2.0;
        let by_quantile = Estimate { mean: quantile(share), variance: reach * reach + 1.0 };
        if !are_even && absent > 0.0 {
            return by_quantile;
        }
        let place = (at as f64 + 0.5) / count;
        let off = absent * absent * place * (1.0 - place) / count;
        let evenly = Estimate { mean: least + place * domain - 0.5, variance: off * domain * domain + 0.1 };
        weighed(by_quantile, evenly)
    };
    sizes.iter().enumerate().map(estimate).collect()
}

/// The mean of both by their variances. They are not independent: it is as good as the better one.
fn weighed(one: Estimate, other: Estimate) -> Estimate {
    let (here, there) = (1.0 / one.variance, 1.0 / other.variance);
    let mean = (one.mean * here + other.mean * there) / (here + there);
    Estimate { mean, variance: one.variance.min(other.variance) }
}
