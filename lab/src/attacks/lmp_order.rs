//! Lacharité, Minaud, Paterson, *Improved reconstruction attacks on encrypted data using range query leakage*
//! (S&P 2018), §3: dense data from access patterns alone.
//!
//! *Has.* Which items each search returned; that every value of the span occurs. Nothing about the distribution of
//! queries.
//!
//! *Method.* Items that no search tells apart are a *class*. Searches return runs of classes that are neighbours, so the
//! classes are put in order, up to reflection, by partition refinement: two searches that overlap give three blocks in
//! a row; each further search that reaches over an end adds a block there, and each one that ends within a block
//! splits it, until nothing changes. With as many classes as values, the place is the value.
//!
//! *Cost.* Of the order of N log N queries. *Deviations.* The paper finds an end first and grows from it; what is
//! deduced is the same. If there are fewer classes than values, values are spread over them evenly: approximate.

use super::observed::Returned;
use super::span::{Estimates, Span};
use std::collections::{HashMap, HashSet};

/// Most pairs of searches that are looked at for a beginning.
const PAIRS_MAX: usize = 200_000;

/// Items in the order of their values, up to reflection: classes of items that cannot be told apart, in blocks of
/// classes whose order is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ordered {
    /// Blocks of classes of items.
    pub blocks: Vec<Vec<Vec<u32>>>,
    /// Classes that were not placed.
    pub unplaced: usize,
}

/// Estimates the items' values, up to reflection.
#[must_use]
pub fn recover(searches: &[Returned], items: usize, span: Span) -> Estimates {
    let ordered = order(searches, items);
    let classes: usize = ordered.blocks.iter().map(Vec::len).sum();
    let mut estimates = vec![None; items];
    let mut before = 0;
    for block in &ordered.blocks {
        let place = spread(before, block.len(), classes + ordered.unplaced, span);
        for item in block.iter().flatten() {
            estimates[*item as usize] = Some(span.value(place));
        }
        before += block.len();
    }
    estimates
}

/// The place in the span of the middle of `count` classes after `before` others, of `all`.
pub(super) fn spread(before: usize, count: usize, all: usize, span: Span) -> u64 {
    let middle = u128::from(span.count()) * (2 * before + count) as u128 / (2 * all.max(1)) as u128;
    u64::try_from(middle).unwrap_or(u64::MAX)
}

/// Puts the items that were returned in order.
#[must_use]
pub fn order(searches: &[Returned], items: usize) -> Ordered {
    let (classes, sets) = classes(searches, items);
    let blocks = place(classes.len(), &sets);
    let placed: usize = blocks.iter().map(Vec::len).sum();
    let unplaced = classes.len() - placed;
    let named = |block: Vec<usize>| block.into_iter().map(|class| classes[class].clone()).collect();
    Ordered { blocks: blocks.into_iter().map(named).collect(), unplaced }
}

/// The classes of items, and the searches as sets of classes, each once; not those that say nothing of an order.
fn classes(searches: &[Returned], items: usize) -> (Vec<Vec<u32>>, Vec<Vec<usize>>) {
    // Classes are split by each search: (class before, within the search) is the class after.
    let mut distinct: HashSet<Vec<u32>> = HashSet::new();
    for search in searches {
        let mut set = search.items.clone();
        set.sort_unstable();
        set.dedup();
        distinct.insert(set);
    }
    let mut distinct: Vec<_> = distinct.into_iter().collect();
    distinct.sort_unstable();
    let (mut class_of, mut sizes) = (vec![0usize; items], vec![items]);
    for set in &distinct {
        let mut within: HashMap<usize, Vec<u32>> = HashMap::new();
        set.iter().for_each(|item| within.entry(class_of[*item as usize]).or_default().push(*item));
        for (class, members) in within {
            if members.len() < sizes[class] {
                sizes[class] -= members.len();
                members.iter().for_each(|item| class_of[*item as usize] = sizes.len());
                sizes.push(members.len());
            }
        }
    }
    // Items that were never returned are of no class.
    let mut seen = vec![false; items];
    distinct.iter().flatten().for_each(|item| seen[*item as usize] = true);
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    let mut classes: Vec<Vec<u32>> = Vec::new();
    for (item, class) in class_of.iter().enumerate().filter(|(item, _)| seen[*item]) {
        let number = *numbers.entry(*class).or_insert(classes.len());
        if number == classes.len() {
            classes.push(Vec::new());
        }
        classes[number].push(u32::try_from(item).unwrap_or(u32::MAX));
    }
    let mut sets: Vec<Vec<usize>> = distinct
        .iter()
        .map(|set| {
            let mut set: Vec<_> = set.iter().map(|item| numbers[&class_of[*item as usize]]).collect();
            set.sort_unstable();
            set.dedup();
            set
        })
        .filter(|set| set.len() > 1 && set.len() < classes.len())
        .collect();
    // Long ones first: they give the first blocks.
    sets.sort_by_key(|set| std::cmp::Reverse(set.len()));
    (classes, sets)
}

/// Blocks in a row, while they are refined.
struct Row {
    blocks: Vec<Vec<usize>>,
    /// The block of each class, if it is placed.
    block_of: Vec<Option<usize>>,
}

/// Blocks of classes in order, of `classes` classes.
fn place(classes: usize, sets: &[Vec<usize>]) -> Vec<Vec<usize>> {
    if classes <= 2 {
        return (0..classes).map(|class| vec![class]).collect();
    }
    let Some(blocks) = first_blocks(classes, sets) else { return Vec::new() };
    let mut row = Row { blocks, block_of: vec![None; classes] };
    row.number();
    loop {
        let mut changed = false;
        for set in sets {
            changed |= row.refine(set);
        }
        if !changed {
            return row.blocks;
        }
    }
}

/// What two searches that overlap have apart and together.
fn first_blocks(classes: usize, sets: &[Vec<usize>]) -> Option<Vec<Vec<usize>>> {
    let mut pairs = 0;
    for (at, one) in sets.iter().enumerate() {
        let mut is_in = vec![false; classes];
        one.iter().for_each(|class| is_in[*class] = true);
        for other in &sets[at + 1..] {
            pairs += 1;
            if pairs > PAIRS_MAX {
                return None;
            }
            let (both, beyond): (Vec<_>, Vec<_>) = other.iter().partition(|class| is_in[**class]);
            if !both.is_empty() && !beyond.is_empty() {
                let alone = one.iter().copied().filter(|class| !both.contains(class)).collect::<Vec<_>>();
                if !alone.is_empty() {
                    return Some(vec![alone, both, beyond]);
                }
            }
        }
    }
    None
}

impl Row {
    fn number(&mut self) {
        for (at, block) in self.blocks.iter().enumerate() {
            block.iter().for_each(|class| self.block_of[*class] = Some(at));
        }
    }

    /// Uses one search; whether it changed anything.
    fn refine(&mut self, set: &[usize]) -> bool {
        let places = || set.iter().filter_map(|class| self.block_of[*class]);
        let (Some(low), Some(high)) = (places().min(), places().max()) else { return false };
        let last = self.blocks.len() - 1;
        let beyond: Vec<usize> =
            set.iter().copied().filter(|class| self.block_of[*class].is_none()).collect();
        let is_whole = |at: usize| places().filter(|place| *place == at).count() == self.blocks[at].len();
        // Which way the search goes on, seen from the blocks it meets.
        let upwards = high == last && (low > 0 || !is_whole(0));
        let downwards = low == 0 && (high < last || !is_whole(last));
        let count = self.blocks.len();
        if beyond.is_empty() {
            if low < high {
                self.split(high, set, true);
                self.split(low, set, false);
            }
        } else if upwards && !downwards {
            self.split(low, set, false);
            self.blocks.push(beyond);
        } else if downwards && !upwards {
            self.split(high, set, true);
            self.blocks.insert(0, beyond);
        }
        if self.blocks.len() == count {
            return false;
        }
        self.number();
        true
    }

    /// Splits a block; the search's part comes first or last.
    fn split(&mut self, at: usize, set: &[usize], comes_first: bool) {
        let (within, without): (Vec<_>, Vec<_>) =
            self.blocks[at].iter().copied().partition(|class| set.binary_search(class).is_ok());
        if within.is_empty() || without.is_empty() {
            return;
        }
        let (first, second) = if comes_first { (within, without) } else { (without, within) };
        self.blocks[at] = first;
        self.blocks.insert(at + 1, second);
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
    fn a_few_times_n_log_n_queries_give_every_value() {
        for (count, times, seed) in [(3, 2, 1), (20, 1, 2), (50, 3, 3), (200, 1, 4)] {
            let n = count as f64;
            let queries = (4.0 * n * n.ln()).ceil() as usize + 20;
            assert_eq!(exact(&Ideal::new(dense(count, times, seed), queries, seed)), 1.0, "{count}");
        }
    }

    #[test]
    fn few_queries_give_less() {
        let few = exact(&Ideal::new(dense(200, 1, 1), 50, 1));
        assert!(few < 0.5, "{few}");
    }

    #[test]
    fn items_with_other_names_each_time_give_a_guess() {
        let rate = exact(&Ideal::new(dense(12, 10, 1), 5000, 1).renamed(1));
        assert!(rate < 0.25, "{rate}");
    }

    #[test]
    fn searches_that_say_nothing_are_no_trouble() {
        let search = |items: &[u32]| Returned { volume: items.len() as u64, items: items.to_vec() };
        assert_eq!(order(&[], 4), Ordered::default());
        assert_eq!(order(&[search(&[])], 4), Ordered::default());
        assert_eq!(order(&[search(&[0, 1, 2, 3])], 4).blocks, [[[0, 1, 2, 3]]]);
        // Apart, but nothing says which is between the others.
        assert_eq!(order(&[search(&[0]), search(&[1]), search(&[2, 2])], 4).unplaced, 3);
        // No order has these as runs: whatever comes of it, it ends.
        let circle = [search(&[0, 1]), search(&[1, 2]), search(&[2, 3]), search(&[3, 0]), search(&[0, 2])];
        assert!(order(&circle, 4).blocks.len() <= 4);
    }
}
