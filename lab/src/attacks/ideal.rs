//! For tests: what a server shows that shows exactly the results, without a protocol.

#![allow(clippy::unwrap_used)]

use super::observed::{Grain, Observed, Returned, Sight};
use super::recording::Recording;
use super::score::{Score, up_to_symmetry};
use super::span::Estimates;
use super::{Knowledge, Recovery, Symmetry};
use crate::datasets::NumberType;
use crate::queries::{self, RangeQuery};
use crate::seed;

/// Values and the searches they are watched in.
pub(super) struct Ideal {
    pub(super) values: Vec<i64>,
    pub(super) knowledge: Knowledge,
    pub(super) recording: Recording,
}

fn searches(values: &[i64], names: &[u32], queries: &[RangeQuery]) -> Vec<Returned> {
    let mut ascending: Vec<usize> = (0..values.len()).collect();
    ascending.sort_by_key(|at| values[*at]);
    let search = |query: &RangeQuery| {
        let from = ascending.partition_point(|at| values[*at] < query.lower);
        let until = ascending.partition_point(|at| values[*at] <= query.upper);
        let items: Vec<u32> = ascending[from..until].iter().map(|at| names[*at]).collect();
        Returned { volume: items.len() as u64, items }
    };
    queries.iter().map(search).collect()
}

impl Ideal {
    /// `queries` uniform searches of these values, which are between the least and the greatest of them.
    pub(super) fn new(values: Vec<i64>, queries: usize, seed: u64) -> Self {
        let (least, greatest) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
        let mut names: Vec<u32> = (0..u32::try_from(values.len()).unwrap()).collect();
        seed::shuffle(&mut seed::prg(seed, "names"), &mut names);
        let queries = queries::uniform(least, greatest, queries, seed);
        let mut searches = searches(&values, &names, &queries);
        // An unordered set, as far as items are looked at as one.
        searches.iter_mut().for_each(|search| search.items.sort_unstable());
        let observed = Observed {
            sight: Sight { volume: Grain::Exact, items: Grain::Exact, in_order: false },
            items: values.len(),
            searches,
        };
        let truth = names.iter().copied().map(Some).collect();
        let knowledge = Knowledge {
            auxiliary: vec![least.midpoint(greatest)],
            least,
            greatest,
            numbers: NumberType::I32,
        };
        Self { values, knowledge, recording: Recording::of_items(observed, truth) }
    }

    /// The same, with the items in the order of their values.
    pub(super) fn in_order(values: Vec<i64>, queries: usize, seed: u64) -> Self {
        let mut ideal = Self::new(values, queries, seed);
        let Recording { observed, .. } = &mut ideal.recording;
        observed.sight.in_order = true;
        let mut value_of = vec![0; observed.items];
        for (value, item) in ideal.values.iter().zip(ideal.recording.truth()) {
            value_of[item.unwrap() as usize] = *value;
        }
        for search in &mut ideal.recording.observed.searches {
            search.items.sort_by_key(|item| (value_of[*item as usize], *item));
        }
        ideal
    }

    /// The same searches, in each of which every item has another name: what a server shows that hides the items and
    /// not their number.
    pub(super) fn renamed(mut self, seed: u64) -> Self {
        let mut prg = seed::prg(seed, "other names");
        let mut names: Vec<u32> = (0..u32::try_from(self.values.len()).unwrap()).collect();
        for search in &mut self.recording.observed.searches {
            seed::shuffle(&mut prg, &mut names);
            search.items.iter_mut().for_each(|item| *item = names[*item as usize]);
        }
        self
    }

    pub(super) fn span(&self) -> super::span::Span {
        super::span::Span { least: self.knowledge.least, greatest: self.knowledge.greatest }
    }

    /// How good estimates of the items are.
    pub(super) fn score(&self, items: &Estimates, symmetry: Symmetry) -> Score {
        let middle = self.knowledge.auxiliary[0];
        let guesses =
            self.recording.of_records(items).into_iter().map(|guess| guess.unwrap_or(middle)).collect();
        let recovery = Recovery { guesses, symmetry, ..Recovery::default() };
        up_to_symmetry(&self.values, &recovery, &self.knowledge)
            .unwrap_or_else(|| super::score(&self.values, &recovery.guesses))
    }
}

/// All values from 1 to `count`, each `times`, in random order.
pub(super) fn dense(count: i64, times: usize, seed: u64) -> Vec<i64> {
    let mut values: Vec<i64> = (1..=count).flat_map(|value| std::iter::repeat_n(value, times)).collect();
    seed::shuffle(&mut seed::prg(seed, "dense"), &mut values);
    values
}
