//! Changes of labels: how many each one rewrites, whatever the order of insertion, and that order is kept by every single one.

use super::support::{Values, bytes, key, run, settings};
use crate::mope::labels::MOVED_MAX;
use crate::mope::memory::{Kept, MemoryStore};
use crate::mope::sweep::PIECE_MAX;
use crate::mope::{Kind, Tree};
use crate::random::Randomness;
use arras_protocol::ChannelError;
use arras_protocol::mope::{Fetch, Fetched, Round, Summary, TreeChange, TreeStore, Tried};
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How changes of labels are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taking {
    Free,
    /// Others always hold what can wait.
    Busy,
    /// Each change is a part of a write of the caller's.
    Within,
}

/// The keeper, which looks at every change.
#[derive(Clone)]
struct Strict {
    store: Arc<MemoryStore>,
    taking: Taking,
    /// Of changes that rewrite labels: how many.
    rewritten: Arc<Mutex<Vec<usize>>>,
}

impl Strict {
    fn new(taking: Taking) -> Self {
        Self { store: Arc::default(), taking, rewritten: Arc::default() }
    }

    fn open(&self, kind: Kind, verified: bool) -> Tree<Self> {
        Tree::open(self.clone(), &key(), settings(kind, verified), None, Randomness::default()).unwrap()
    }

    /// Applies a change; what stays is in the same order after it, and not too many labels are others.
    fn committed(&self, change: TreeChange) -> Result<bool, ChannelError> {
        let mut kept = self.store.kept();
        if change.summaries.is_empty() {
            return kept.apply(change);
        }
        let ranges: Vec<(u64, u64)> = change.summaries.iter().filter_map(Summary::range).collect();
        let low = ranges.iter().map(|range| range.0).min().unwrap();
        let high = ranges.iter().map(|range| range.1).max().unwrap();
        let comes: HashSet<Vec<u8>> = change.entered.iter().map(|(new, _)| new.as_slice().to_vec()).collect();
        let goes: HashSet<Vec<u8>> = change.left.iter().map(|left| left.as_slice().to_vec()).collect();
        // From the last key below what changes to the first one above it: these stay where they are.
        let low =
            kept.order.range(..low).rfind(|(_, key)| !goes.contains(&key[..])).map_or(0, |(label, _)| *label);
        let above = kept.order.range(high..).skip(1).find(|(_, key)| !goes.contains(&key[..]));
        let high = above.map_or(u64::MAX, |(label, _)| *label);
        let order = |kept: &Kept, but: &HashSet<Vec<u8>>| -> Vec<Arc<[u8]>> {
            kept.order
                .range(low..=high)
                .map(|(_, key)| key.clone())
                .filter(|key| !but.contains(&key[..]))
                .collect()
        };
        let (before, rewritten) = (order(&kept, &goes), kept.rewritten);
        let applied = kept.apply(change)?;
        assert!(!applied || before == order(&kept, &comes), "a change of labels changes the order");
        self.rewritten.lock().unwrap().push((kept.rewritten - rewritten) as usize);
        Ok(applied)
    }

    /// The most labels that one change rewrote, and how many all did.
    fn most_and_all(&self) -> (usize, usize) {
        let rewritten = self.rewritten.lock().unwrap();
        (rewritten.iter().max().copied().unwrap_or(0), rewritten.iter().sum())
    }

    /// Checks that labels are in the order of the values.
    fn check(&self, tree: &Tree<Self>, values: &Values) {
        let kept = self.store.kept();
        let stored: Vec<Vec<u8>> =
            kept.order.values().map(|key| tree.value(&key.to_vec().into()).unwrap()).collect();
        assert!(stored.iter().eq(values.keys()));
        assert_eq!(kept.table.len(), values.len());
    }
}

impl TreeStore for Strict {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        self.store.fetch(fetch)
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        Box::pin(std::future::ready(self.committed(change)))
    }

    fn commit_within(&self, change: TreeChange, _: Duration) -> Round<'_, Tried> {
        let tried = match self.taking {
            Taking::Busy => Ok(Tried::Busy),
            Taking::Free | Taking::Within => self
                .committed(change)
                .map(|applied| if applied { Tried::Applied } else { Tried::OtherVersion }),
        };
        Box::pin(std::future::ready(tried))
    }

    fn is_alone(&self) -> bool {
        self.taking != Taking::Within
    }
}

/// Values one after the other, or in batches.
fn enter(tree: &Tree<Strict>, values: &[u64], batch: usize) -> Values {
    values.chunks(batch).for_each(|batch| drop(run(tree.encode(&bytes(batch.iter().copied()))).unwrap()));
    bytes(values.iter().copied()).into_iter().map(|value| (value, 1)).collect()
}

/// Each value the median of those before it and itself.
fn medians(count: u64) -> Vec<u64> {
    (0..count / 2).flat_map(|at| [at, u64::MAX - at]).collect()
}

/// As good as random.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    (1..=count).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[test]
fn no_change_rewrites_more_labels_than_is_stated_whatever_the_order_of_insertion() {
    const COUNT: u64 = 10_000;
    let runs: Vec<u64> =
        scattered(COUNT / 1000).flat_map(|from| (0..1000).map(move |at| (from >> 1) + at)).collect();
    let below_fixed: Vec<u64> = std::iter::once(u64::MAX).chain(0..COUNT).collect();
    let orders: [(&str, Vec<u64>, usize, f64); 8] = [
        ("random", scattered(COUNT).collect(), 1, 0.3),
        ("ascending", (0..COUNT).collect(), 1, 0.0),
        ("descending", (0..COUNT).rev().collect(), 1, 0.0),
        ("ascending below a fixed last value", below_fixed, 1, 0.0),
        ("runs at random places", runs, 1, 1.0),
        ("random, in batches", scattered(COUNT).collect(), 700, 0.3),
        ("medians", medians(COUNT), 1, 60.0),
        ("medians, in batches", medians(COUNT), 500, 60.0),
    ];
    for (name, values, batch, mean) in orders {
        let keeper = Strict::new(Taking::Free);
        let tree = keeper.open(Kind::Mope, false);
        let entered = enter(&tree, &values, batch);
        keeper.check(&tree, &entered);
        let (most, all) = keeper.most_and_all();
        assert!(most <= MOVED_MAX, "{name}: {most} labels in one change");
        assert!(all as f64 <= mean * values.len() as f64, "{name}: {all} labels rewritten");
        let pieces = keeper.rewritten.lock().unwrap().iter().filter(|keys| **keys == PIECE_MAX).count();
        assert!(pieces > 0 || !name.starts_with("medians"), "{name}: a wide range was spread");
    }
}

#[test]
fn labels_held_by_others_clients_that_forget_and_writes_that_tend_themselves_keep_the_bound() {
    for (taking, forgets) in [(Taking::Busy, false), (Taking::Free, true), (Taking::Within, false)] {
        let keeper = Strict::new(taking);
        let mut tree = keeper.open(Kind::Stope, true);
        let values = medians(6_000);
        for (at, value) in values.iter().enumerate() {
            if forgets && at % 40 == 0 {
                tree = keeper.open(Kind::Stope, true);
            }
            run(tree.encode(&bytes([*value]))).unwrap();
        }
        keeper.check(&tree, &bytes(values).into_iter().map(|value| (value, 1)).collect());
        let found = keeper.most_and_all().0;

        assert!(found > 1000 && found <= MOVED_MAX, "{taking:?}: {found}");
    }
}

#[test]
fn a_bulk_load_into_a_full_place_makes_room_in_pieces_first() {
    let keeper = Strict::new(Taking::Free);
    let tree = keeper.open(Kind::Mope, true);
    let mut values = enter(&tree, &medians(4_000), 1);
    let middle: Vec<u64> = (0..30_000).map(|at| (1 << 62) + at).collect();
    values.extend(enter(&tree, &middle, 15_000));
    values.extend(enter(&tree, &(0..20_000).map(|at| (1 << 61) + at * 3).collect::<Vec<_>>(), 20_000));
    keeper.check(&tree, &values);
    assert!(keeper.most_and_all().0 <= MOVED_MAX);
}

#[test]
fn early_changes_leave_hardly_a_value_without_room_unless_others_keep_them_from_being_made() {
    // What a value needs at once is in the change that enters it.
    let waited = |taking| {
        let keeper = Strict::new(taking);
        let tree = keeper.open(Kind::Mope, false);
        let mut waited = 0;
        for value in medians(4000) {
            let mut staged = run(tree.stage(&bytes([value]), &[])).unwrap();
            waited += usize::from(staged.rewritten() > 0);
            assert!(run(keeper.commit(staged.take().unwrap())).unwrap());
            let _ = staged.finish();
        }
        assert!(keeper.most_and_all().1 > 0, "labels did change");
        waited
    };
    assert_eq!(waited(Taking::Free), 0);
    assert!(waited(Taking::Busy) > 40);
}

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// Values at one place.
    Cluster(u64, usize),
    /// A run from one place on.
    Run(u64, usize),
    /// Part of the values of a range go.
    Remove(u64, u64),
    /// The other client goes on.
    Switch,
    /// It forgets all.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || prop::sample::select(vec![1 << 20, 1 << 40, 1 << 62, u64::MAX >> 1, u64::MAX - (1 << 30)]);
    let cluster = (place(), 200..2500_usize).prop_map(|(at, count)| Step::Cluster(at, count));
    let along = (place(), 200..2500_usize).prop_map(|(at, count)| Step::Run(at, count));
    let remove = (any::<u64>(), 1..=u64::MAX / 2).prop_map(|(at, length)| Step::Remove(at, length));
    let other = prop_oneof![Just(Step::Switch), Just(Step::Restart)];
    prop::collection::vec(prop_oneof![4 => cluster, 2 => along, 1 => remove, 1 => other], 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_piece_keeps_the_order_with_deletions_restarts_and_other_clients(
        steps in steps(), verified: bool, within: bool,
    ) {
        let keeper = Strict::new(if within { Taking::Within } else { Taking::Free });
        let open = || keeper.open(Kind::Stope, verified);
        let (mut tree, mut other) = (open(), open());
        let mut values = Values::new();
        for step in steps {
            let mut new: Vec<u64> = Vec::new();
            match step {
                // Closer and closer, from both sides in turns.
                Step::Cluster(at, count) => {
                    let from = |rank: u64| ((count as u64 - rank) << 8) | 7;
                    new.extend((0..count as u64).map(|rank| {
                        if rank % 2 == 0 { at.wrapping_sub(from(rank)) } else { at.wrapping_add(from(rank)) }
                    }));
                }
                Step::Run(at, count) => new.extend((0..count as u64).map(|rank| at.wrapping_add(rank * 3))),
                Step::Remove(at, length) => {
                    let (low, high) = (at.to_be_bytes().to_vec(), at.saturating_add(length).to_be_bytes().to_vec());
                    let gone: Vec<Vec<u8>> = values.range(low..=high).map(|(value, _)| value.clone()).step_by(2).collect();
                    run(tree.remove(&gone)).unwrap();
                    values.retain(|value, _| gone.binary_search(value).is_err());
                }
                Step::Switch => std::mem::swap(&mut tree, &mut other),
                Step::Restart => tree = open(),
            }
            for value in bytes(new).into_iter() {
                if values.insert(value.clone(), 1).is_none() {
                    run(tree.encode(&[value])).unwrap();
                }
            }
            keeper.check(&tree, &values);
        }
        prop_assert!(keeper.most_and_all().0 <= MOVED_MAX);
    }
}
