//! Lacharité, Minaud, Paterson, *Improved reconstruction attacks on encrypted data using range query leakage*
//! (S&P 2018), §5: approximate values from access patterns and an auxiliary distribution.
//!
//! *Has.* Which items each search returned, in the order of their values where the store shows it; a sample that is
//! distributed like the values. Data need not be dense. If the store shows no order: that queries are uniform.
//!
//! *Method.* Where answers begin and end, the number of records below is known: a rank. A bound between values `v` and
//! `v + 1` has a rank that is binomial with the share of the sample up to `v`, which gives the most likely `v`. The
//! records between two bounds get the median of the sample between their values. If the store shows no order, it
//! comes from [`super::lmp_order`], and of the two directions the one is taken whose values explain better how often
//! each item was returned.
//!
//! *Deviations.* The paper's ranks are leaked with each answer. One record, spread over the whole span, is added to
//! the sample, so that no value is impossible.

use super::lmp_order;
use super::lmp_rank;
use super::observed::{Observed, Returned};
use super::span::{Estimates, Span};

/// Shares of the records up to each value, from a sample.
struct Distribution {
    span: Span,
    /// Of the values up to each place, ascending; the last one is 1.
    up_to: Vec<f64>,
}

/// Most values in the span.
pub const VALUES_MAX: u64 = 1 << 22;

impl Distribution {
    fn of(sample: &[i64], span: Span) -> Option<Self> {
        let values = usize::try_from(span.count()).ok().filter(|_| span.count() <= VALUES_MAX)?;
        let mut counts = vec![1.0 / values as f64; values];
        for value in sample.iter().filter(|value| (span.least..=span.greatest).contains(value)) {
            counts[value.abs_diff(span.least) as usize] += 1.0;
        }
        let all: f64 = counts.iter().sum();
        let mut sum = 0.0;
        let up_to = counts.iter().map(|count| {
            sum += count / all;
            sum
        });
        Some(Self { span, up_to: up_to.collect() })
    }

    /// How many values lie below the bound at rank `rank` of `records`, most likely.
    fn bound(&self, rank: usize, records: usize) -> usize {
        let (below, above) = (rank as f64, (records - rank) as f64);
        let likelihood = |place: usize| {
            let share = self.up_to[place].min(1.0 - 1e-12);
            below * share.ln() + above * (1.0 - share).ln()
        };
        // It ascends up to this share and descends from there.
        let share = below / records.max(1) as f64;
        let at = self.up_to.partition_point(|up_to| *up_to < share).min(self.up_to.len() - 1);
        let before = at.saturating_sub(1);
        if likelihood(before) > likelihood(at) { before + 1 } else { at + 1 }
    }

    /// The median of the values at places `from..until`.
    fn median(&self, from: usize, until: usize) -> i64 {
        let until = until.clamp(from + 1, self.up_to.len().max(from + 1));
        let below = if from == 0 { 0.0 } else { self.up_to[(from - 1).min(self.up_to.len() - 1)] };
        let middle = f64::midpoint(below, self.up_to[(until - 1).min(self.up_to.len() - 1)]);
        let place = self.up_to.partition_point(|up_to| *up_to < middle);
        self.span.value(place.clamp(from, until - 1) as u64)
    }

    /// Values for segments of items in order.
    fn fit(&self, segments: &[Vec<u32>], items: usize) -> Estimates {
        let records: usize = segments.iter().map(Vec::len).sum();
        let mut estimates = vec![None; items];
        let (mut rank, mut from) = (0, 0);
        for (at, segment) in segments.iter().enumerate() {
            rank += segment.len();
            let is_last = at + 1 == segments.len();
            let until = if is_last { self.up_to.len() } else { self.bound(rank, records) };
            let value = self.median(from, until);
            segment.iter().for_each(|item| estimates[*item as usize] = Some(value));
            from = until.max(from).min(self.up_to.len() - 1);
        }
        estimates
    }
}

/// Estimates the items' values.
#[must_use]
pub fn recover(observed: &Observed, sample: &[i64], span: Span) -> Estimates {
    let items = observed.items;
    let Some(distribution) = Distribution::of(sample, span) else { return vec![None; items] };
    if observed.sight.in_order {
        return distribution.fit(&lmp_rank::segments(&observed.searches, items), items);
    }
    let segments = unordered(&observed.searches, items);
    let mirrored: Vec<_> = segments.iter().rev().cloned().collect();
    let (one, other) = (distribution.fit(&segments, items), distribution.fit(&mirrored, items));
    if misfit(&one, observed, span) <= misfit(&other, observed, span) { one } else { other }
}

/// How far the shares of the searches that returned each item are from those that its estimate lets expect of
/// uniform queries: the sum of the squares.
fn misfit(estimates: &Estimates, observed: &Observed, span: Span) -> f64 {
    let mut counts = vec![0.0; estimates.len()];
    observed.searches.iter().flat_map(|search| &search.items).for_each(|item| counts[*item as usize] += 1.0);
    let (values, queries) = (span.count() as f64, observed.searches.len().max(1) as f64);
    let of = |(estimate, count): (&Option<i64>, &f64)| {
        estimate.map_or(0.0, |estimate| {
            let place = estimate.abs_diff(span.least) as f64 + 1.0;
            let expected = 2.0 * place * (values + 1.0 - place) / (values * (values + 1.0));
            (count / queries - expected).powi(2)
        })
    };
    estimates.iter().zip(&counts).map(of).sum()
}

fn unordered(searches: &[Returned], items: usize) -> Vec<Vec<u32>> {
    let ordered = lmp_order::order(searches, items);
    ordered.blocks.into_iter().map(|block| block.into_iter().flatten().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Symmetry;
    use super::super::ideal::Ideal;
    use super::super::{Score, score};
    use super::*;
    use crate::datasets::Dataset;

    fn scored(ideal: &Ideal, sample: &[i64]) -> Score {
        ideal.score(&recover(&ideal.recording.observed, sample, ideal.span()), Symmetry::None)
    }

    #[test]
    fn a_sample_of_the_distribution_gives_values_nearly() {
        let (values, sample) = (Dataset::Salaries.values(600, 1), Dataset::Salaries.values(600, 2));
        let ideal = Ideal::in_order(values.clone(), 2000, 1);
        let guess = score(&ideal.values, &vec![ideal.knowledge.auxiliary[0]; 600]);
        let with_order = scored(&ideal, &sample);
        assert!(with_order.error < 0.02 && with_order.error < guess.error / 5.0, "{with_order:?} {guess:?}");
        // The sample's skew tells which end is the lower one.
        let without_order = scored(&Ideal::new(values, 2000, 1), &sample);
        assert!(without_order.error < 0.02, "{without_order:?}");
    }

    #[test]
    fn the_values_themselves_as_a_sample_give_most_of_them() {
        let values = Dataset::Zipf.values(600, 1);
        let scored = scored(&Ideal::in_order(values.clone(), 4000, 1), &values);
        assert!(scored.exact > 0.9, "{scored:?}");
    }

    #[test]
    fn items_with_other_names_each_time_give_a_guess() {
        let (values, sample) = (Dataset::Uniform.values(600, 1), Dataset::Uniform.values(600, 2));
        let scored = scored(&Ideal::new(values, 2000, 1).renamed(1), &sample);
        // The mean error of the middle is a quarter.
        assert!(scored.error > 0.2 && scored.exact < 0.05, "{scored:?}");
        assert!(Distribution::of(&[], Span { least: i64::MIN, greatest: i64::MAX }).is_none());
    }
}
