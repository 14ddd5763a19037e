//! Range queries: generated from a seed, or a user's own.

use crate::seed;
use serde::{Deserialize, Serialize};

/// A range of values, both bounds included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeQuery {
    /// The smallest value asked for.
    pub lower: i64,
    /// The greatest.
    pub upper: i64,
}

/// What the size of a query is a share of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuerySize {
    /// Records: with a share of 0.005, every query finds the records of one two-hundredth of the ranks (and those
    /// equal to the first and the last of them), wherever they lie. Works on any data.
    #[default]
    Records,
    /// Values: with a share of 0.005, every query spans as many values as there are records in one two-hundredth
    /// of the data, placed uniformly between the smallest and the greatest value, as section 5.2 of the paper has
    /// it. How many records it finds depends on the data.
    Values,
}

impl QuerySize {
    /// Its name in results and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Values => "values",
        }
    }
}

/// `count` ranges over `values`, each of `share` (0 to 1) of the data's size, the same for the same seed. Empty if
/// there are no values.
#[must_use]
pub fn generate(values: &[i64], share: f64, size: QuerySize, count: usize, seed: u64) -> Vec<RangeQuery> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let (Some(&least), Some(&greatest)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    let mut prg = seed::prg(seed, "queries");
    let span = ((share * sorted.len() as f64).round() as usize).clamp(1, sorted.len());
    let one = |_| match size {
        QuerySize::Records => {
            let first = seed::below(&mut prg, (sorted.len() - span + 1) as u64);
            let first = usize::try_from(first).unwrap_or(0);
            RangeQuery { lower: sorted[first], upper: sorted[first + span - 1] }
        }
        QuerySize::Values => {
            let room = greatest.abs_diff(least).saturating_sub(span as u64 - 1);
            let lower = least.saturating_add_unsigned(seed::below(&mut prg, room.saturating_add(1)));
            RangeQuery { lower, upper: lower.saturating_add_unsigned(span as u64 - 1) }
        }
    };
    (0..count).map(one).collect()
}

/// `count` ranges drawn uniformly from all `lower..=upper` with `least <= lower <= upper <= greatest`, the same for the
/// same seed: what reconstruction attacks assume. None if `least` is above `greatest`.
#[must_use]
pub fn uniform(least: i64, greatest: i64, count: usize, seed: u64) -> Vec<RangeQuery> {
    if least > greatest {
        return Vec::new();
    }
    let mut prg = seed::prg(seed, "uniform queries");
    let values = greatest.abs_diff(least).saturating_add(1);
    let one = |_| {
        // Of all pairs of places, those in ascending order are equally likely; others are drawn again.
        loop {
            let (lower, upper) = (seed::below(&mut prg, values), seed::below(&mut prg, values));
            if lower <= upper {
                let at = |place| least.saturating_add_unsigned(place);
                return RangeQuery { lower: at(lower), upper: at(upper) };
            }
        }
    };
    (0..count).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: &[i64], query: RangeQuery) -> usize {
        values.iter().filter(|value| (query.lower..=query.upper).contains(*value)).count()
    }

    #[test]
    fn queries_by_records_find_their_share() {
        let values: Vec<i64> = (0..1000).map(|value| value * value).collect();
        let queries = generate(&values, 0.05, QuerySize::Records, 40, 1);
        assert_eq!(queries.len(), 40);
        assert!(queries.iter().all(|query| found(&values, *query) == 50));
        assert_eq!(queries, generate(&values, 0.05, QuerySize::Records, 40, 1));
        assert_ne!(queries, generate(&values, 0.05, QuerySize::Records, 40, 2));
    }

    #[test]
    fn queries_by_values_span_their_share() {
        let values: Vec<i64> = (-500..500).map(|value| value * 10).collect();
        for query in generate(&values, 0.05, QuerySize::Values, 200, 1) {
            assert_eq!(query.upper - query.lower, 49);
            assert!(query.lower >= -5000 && query.upper <= 4990);
            assert_eq!(found(&values, query), 5);
        }
    }

    #[test]
    fn uniform_queries_are_all_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for query in uniform(-2, 2, 30_000, 1) {
            *counts.entry((query.lower, query.upper)).or_insert(0) += 1;
        }
        // Of 15 ranges, 2,000 each, standard deviation 43: six of them.
        assert_eq!(counts.len(), 15);
        assert!(counts.iter().all(|((lower, upper), count)| lower <= upper && (1740..2260).contains(count)));
        assert_eq!(uniform(3, 2, 5, 1), []);
        assert!(uniform(i64::MIN, i64::MAX, 5, 1).iter().all(|query| query.lower <= query.upper));
    }

    #[test]
    fn the_ends_of_the_numbers_and_of_the_data_are_no_trouble() {
        for size in [QuerySize::Records, QuerySize::Values] {
            assert_eq!(generate(&[], 0.5, size, 3, 1), []);
            assert_eq!(generate(&[7], 0.0, size, 2, 1), [RangeQuery { lower: 7, upper: 7 }; 2]);
            for query in generate(&[i64::MIN, 0, i64::MAX], 1.0, size, 20, 1) {
                assert!(query.lower <= query.upper);
            }
        }
    }
}
