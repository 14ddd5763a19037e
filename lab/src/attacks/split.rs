//! Data in two parts: one is attacked, the other is the attacker's. Whose rows belong together stay together.

use crate::seed;
use std::collections::{BTreeMap, HashSet};

/// The attacked values and the attacker's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Halves {
    pub(super) attacked: Vec<i64>,
    pub(super) auxiliary: Vec<i64>,
}

/// Splits rows at random. Rows of one group come into one part; parts are as near to a half as whole groups allow, the
/// attacked one not smaller. `groups` is by row, or empty: each row is its own.
pub(super) fn halves(values: &[i64], groups: &[u64], seed: u64) -> Halves {
    let mut members: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
    for (row, value) in values.iter().enumerate() {
        members.entry(groups.get(row).copied().unwrap_or(row as u64)).or_default().push(*value);
    }
    let mut members: Vec<Vec<i64>> = members.into_values().collect();
    let mut prg = seed::prg(seed, "split of the data");
    seed::shuffle(&mut prg, &mut members);
    let mut halves = Halves { attacked: Vec::new(), auxiliary: Vec::new() };
    for group in members {
        let half = if halves.attacked.len() <= halves.auxiliary.len() {
            &mut halves.attacked
        } else {
            &mut halves.auxiliary
        };
        half.extend(group);
    }
    if halves.attacked.len() < halves.auxiliary.len() {
        std::mem::swap(&mut halves.attacked, &mut halves.auxiliary);
    }
    // Not in the order of groups: what is attacked may be a part of the part.
    seed::shuffle(&mut prg, &mut halves.attacked);
    halves
}

/// Share of the attacked records whose value the auxiliary data hold, too.
pub(super) fn shared(attacked: &[i64], auxiliary: &[i64]) -> f64 {
    let known: HashSet<i64> = auxiliary.iter().copied().collect();
    attacked.iter().filter(|value| known.contains(value)).count() as f64 / attacked.len().max(1) as f64
}

/// Whether a value occurs more than once.
pub(super) fn repeats(values: &[i64]) -> bool {
    let mut seen = HashSet::new();
    !values.iter().all(|value| seen.insert(*value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_stay_whole_and_nothing_is_lost() {
        // Ten rows a group, each group with values of its own.
        let values: Vec<i64> = (0..1000).map(|row| row / 10 * 100 + row % 10).collect();
        let groups: Vec<u64> = (0..1000).map(|row| row / 10).collect();
        let Halves { attacked, auxiliary } = halves(&values, &groups, 1);
        assert_eq!((attacked.len(), auxiliary.len()), (500, 500));
        let of = |values: &[i64]| values.iter().map(|value| value / 100).collect::<HashSet<i64>>();
        assert!(of(&attacked).is_disjoint(&of(&auxiliary)));
        let mut all = [attacked.clone(), auxiliary].concat();
        all.sort_unstable();
        assert_eq!(all, values);
        assert_ne!(halves(&values, &groups, 2).attacked, attacked);
        let by_row = halves(&values, &[], 1);
        assert!(!of(&by_row.attacked).is_disjoint(&of(&by_row.auxiliary)));
    }

    #[test]
    fn what_both_have_is_counted_by_record() {
        assert!((shared(&[1, 1, 2, 3], &[1, 9]) - 0.5).abs() < 1e-12);
        assert!(repeats(&[3, 1, 3]) && !repeats(&[1, 2]));
    }
}
