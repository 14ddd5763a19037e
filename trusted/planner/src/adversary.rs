//! Against whom a schema's indexes are chosen, and which of two leakages tells that adversary more.

use arras_protocol::leakage::{Leakage, Pattern};
use serde::Deserialize;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// The strongest attacker that a deployment takes into account (THREATS.md, "Whom we assume").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Adversary {
    /// Has one copy of the server's store, and sees nothing of its work.
    Snapshot,
    /// Sees the store and every request, for as long as it likes.
    #[default]
    Persistent,
}

impl Adversary {
    /// As a schema names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Persistent => "persistent",
        }
    }

    /// Everything it learns in time from an index of this leakage, which is searched and changed.
    #[must_use]
    pub fn learns(self, leakage: &Leakage) -> BTreeSet<Pattern> {
        let operations = match self {
            Self::Snapshot => [].iter().chain(&[]),
            Self::Persistent => leakage.search.iter().chain(leakage.update),
        };
        leakage.snapshot.iter().chain(operations).copied().collect()
    }

    /// What a search adds to that, of an index that is there in any case.
    #[must_use]
    pub(crate) fn learns_from_search(self, search: &[Pattern]) -> BTreeSet<Pattern> {
        match self {
            Self::Snapshot => BTreeSet::new(),
            Self::Persistent => search.iter().copied().collect(),
        }
    }
}

/// Which of two sets tells less: the one whose most telling pattern is the less telling; of sets that have that in
/// common, the one whose next is. So a set never tells less than one it contains.
#[must_use]
pub fn compare(left: &BTreeSet<Pattern>, right: &BTreeSet<Pattern>) -> Ordering {
    left.iter().rev().cmp(right.iter().rev())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_sets(of: &[Pattern]) -> Vec<BTreeSet<Pattern>> {
        (0..1_u32 << of.len())
            .map(|chosen| {
                let is_in = |at: &usize| chosen & (1 << at) != 0;
                (0..of.len()).filter(is_in).map(|at| of[at]).collect()
            })
            .collect()
    }

    #[test]
    fn a_set_never_tells_less_than_one_it_contains() {
        let sets = all_sets(&[
            Pattern::Size,
            Pattern::Volume,
            Pattern::AccessPattern,
            Pattern::BucketRank,
            Pattern::Order,
            Pattern::DifferingBit,
        ]);
        let mut contained = 0;
        for left in &sets {
            for right in sets.iter().filter(|right| left.is_subset(right) && left != *right) {
                assert_eq!(compare(left, right), Ordering::Less, "{left:?} {right:?}");
                contained += 1;
            }
        }
        assert_eq!(contained, 3_usize.pow(6) - 2_usize.pow(6));
    }

    #[test]
    fn the_most_telling_pattern_decides_before_how_many_there_are() {
        let few = [Pattern::Order].into();
        let many = [Pattern::Size, Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern].into();
        assert_eq!(compare(&many, &few), Ordering::Less);
    }

    #[test]
    fn whom_searches_and_changes_tell_something() {
        let leakage = Leakage {
            protocol: "x",
            snapshot: &[Pattern::Size],
            search: &[Pattern::Volume],
            update: &[Pattern::Order],
            attacks: &[],
        };
        assert_eq!(Adversary::Snapshot.learns(&leakage), [Pattern::Size].into());
        assert_eq!(
            Adversary::Persistent.learns(&leakage),
            [Pattern::Size, Pattern::Volume, Pattern::Order].into()
        );
        assert!(Adversary::Snapshot.learns_from_search(leakage.search).is_empty());
    }
}
