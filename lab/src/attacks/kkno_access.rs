//! Kellaris, Kollios, Nissim, O'Neill, *Generic attacks on secure outsourced databases* (CCS 2016), §3: values from the
//! access patterns of uniform range queries.
//!
//! *Has.* Which items each search returned; that queries are uniform over all ranges of the span, and the span.
//!
//! *Method.* Of the ranges of values `1..=N`, a share `2v(N + 1 - v) / N(N + 1)` holds the value `v`: how often an item
//! is returned says where it is, but for reflection. The item returned least often is taken as the lowest one, `e`;
//! both are returned by a share `2e(N + 1 - v) / N(N + 1)`: this tells the side.
//!
//! *Cost.* Queries for full recovery: of the order of N^4 log N in the paper (any data with an item near an end).
//!
//! *Deviations.* The paper decides between the two solutions of the first equation by the second one. Here the
//! second one gives an estimate, too, and both are weighted by the inverse of their variances; in the middle of
//! the span, where the first equation is flat, this needs fewer queries.

use super::observed::Returned;
use super::span::{Estimates, Span};

/// How often each item was returned.
fn returned(searches: &[Returned], items: usize, with: Option<u32>) -> Vec<u64> {
    let mut counts = vec![0; items];
    for search in searches {
        if with.is_none_or(|with| search.items.contains(&with)) {
            for item in &search.items {
                counts[*item as usize] += 1;
            }
        }
    }
    counts
}

/// Estimates the items' values, up to reflection.
#[must_use]
pub fn recover(searches: &[Returned], items: usize, span: Span) -> Estimates {
    let counts = returned(searches, items, None);
    let seen = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let Some(extreme) = seen.min_by_key(|(_, count)| **count).map(|(item, _)| item) else {
        return vec![None; items];
    };
    let together = returned(searches, items, u32::try_from(extreme).ok());
    let equations = Equations { values: span.count() as f64, queries: searches.len() as f64 };
    let lowest = equations.low(counts[extreme]).max(1.0);
    let estimate = |(count, together): (&u64, &u64)| {
        (*count > 0).then(|| {
            let place = equations.place(*count, *together, lowest);
            span.value((place.round().max(1.0) - 1.0) as u64)
        })
    };
    counts.iter().zip(&together).map(estimate).collect()
}

/// The two equations, for values from 1 on.
#[derive(Clone, Copy)]
struct Equations {
    /// N.
    values: f64,
    queries: f64,
}

impl Equations {
    /// Half the number of ranges.
    fn half(self) -> f64 {
        self.values * (self.values + 1.0) / 2.0
    }

    /// The lower solution of the first equation; the middle if there is none.
    fn low(self, count: u64) -> f64 {
        let product = count as f64 / self.queries * self.half();
        let end = self.values + 1.0;
        (end - (end * end - 4.0 * product).max(0.0).sqrt()) / 2.0
    }

    /// The variance of a share of the queries.
    fn variance(self, count: u64) -> f64 {
        let share = (count as f64 / self.queries).clamp(0.5 / self.queries, 1.0 - 0.5 / self.queries);
        share * (1.0 - share) / self.queries
    }

    fn place(self, count: u64, together: u64, lowest: f64) -> f64 {
        let end = self.values + 1.0;
        let slope = lowest / self.half();
        let by_pair = end - together as f64 / self.queries / slope;
        let by_pair_variance = self.variance(together) / (slope * slope);
        let low = self.low(count);
        let by_count = if (low - by_pair).abs() <= (end - low - by_pair).abs() { low } else { end - low };
        let slope = (end - 2.0 * by_count) / self.half();
        let by_count_weight = slope * slope / self.variance(count);
        let by_pair_weight = 1.0 / by_pair_variance;
        (by_count * by_count_weight + by_pair * by_pair_weight) / (by_count_weight + by_pair_weight)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Symmetry;
    use super::super::ideal::{Ideal, dense};
    use super::*;

    fn exact(ideal: &Ideal) -> f64 {
        let observed = &ideal.recording.observed;
        let estimates = recover(&observed.searches, observed.items, ideal.span());
        ideal.score(&estimates, Symmetry::Reflection).exact
    }

    #[test]
    fn enough_queries_give_every_value() {
        assert_eq!(exact(&Ideal::new(dense(12, 1, 1), 100_000, 1)), 1.0);
        // Not dense, and of any frequency.
        assert_eq!(exact(&Ideal::new(vec![1, 2, 2, 5, 9, 9, 9, 12], 100_000, 2)), 1.0);
    }

    #[test]
    fn few_queries_give_less() {
        let few = exact(&Ideal::new(dense(40, 2, 1), 100, 1));
        let many = exact(&Ideal::new(dense(40, 2, 1), 100_000, 1));
        assert!(few < 0.5 && many > 0.8, "{few} {many}");
    }

    #[test]
    fn items_with_other_names_each_time_give_a_guess() {
        // A guess is right with probability 1/12; the better one of two mirror images of 120: below 0.25 by far.
        let rate = exact(&Ideal::new(dense(12, 10, 1), 20_000, 1).renamed(1));
        assert!(rate < 0.25, "{rate}");
        assert_eq!(recover(&[], 3, Ideal::new(dense(12, 1, 1), 1, 1).span()), [None; 3]);
    }
}
