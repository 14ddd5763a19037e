//! The test body of range indexes: what goes in and out is that of a sorted list.

use crate::world::{Wire, World, blames_caller, cases, embedded, memory, prg, run};
use arras_protocol::Order;
use arras_protocol::RowId;
use arras_protocol::ore::Width;
use arras_schemes::IndexError;
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::ore::domain::{Domain, plaintext_key};
use arras_schemes::traits::{RangeIndex, SortedList};
use arras_storage::Storage;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What an index makes of replies that were tampered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each protocol is one of them")]
pub(crate) enum Tampering {
    /// Every alteration is an error, or without effect.
    Detected,
    /// Contents are not authenticated: answers stay within the range, in order and within the limit, no more.
    Bounded,
}

/// How much of an index a test can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Operations take microseconds.
    Full,
    /// Operations take seconds: a handful of entries.
    Few,
}

/// A protocol under test: how an empty index is made.
pub(crate) trait Subject {
    /// The index's client half.
    type Index<S: Storage>: RangeIndex;

    /// Width of its keys.
    fn width(&self) -> Width;

    /// Makes an empty index over the wire. Replayable: all randomness from fixed seeds.
    fn open<S: Storage>(&self, wire: Wire<S>) -> impl Future<Output = Result<Self::Index<S>, IndexError>>;

    /// What becomes of tampered replies.
    fn tampering(&self) -> Tampering {
        Tampering::Detected
    }

    /// How much it can bear.
    fn effort(&self) -> Effort {
        Effort::Full
    }
}

/// Puts a [`Subject`] through the body, in a module of the name given.
macro_rules! range_tests {
    ($name:ident, $subject:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "whatever the subject is made of")]
            use super::*;

            #[test]
            fn answers_are_those_of_a_sorted_list() {
                $crate::body::histories(&$subject);
            }

            #[test]
            fn answers_stay_right_as_an_index_grows_and_shrinks() {
                $crate::body::long_run(&$subject);
            }

            #[test]
            fn every_query_shape_is_answered() {
                $crate::body::shapes(&$subject);
            }

            #[test]
            fn any_order_of_insertion_will_do() {
                $crate::body::insertion_orders(&$subject);
            }

            #[test]
            fn negative_numbers_sort_below() {
                $crate::body::negative_numbers(&$subject);
            }

            #[test]
            fn an_index_on_the_disk_answers_alike() {
                $crate::body::on_the_disk(&$subject);
            }

            #[test]
            fn keys_of_another_length_are_the_callers_fault() {
                $crate::body::wrong_lengths(&$subject);
            }

            #[test]
            fn tampered_replies_do_no_harm() {
                $crate::hostile::tampered(&$subject);
            }

            #[test]
            fn lost_replies_are_made_good_by_asking_again() {
                $crate::hostile::lost_replies(&$subject);
            }

            #[test]
            fn failures_of_the_store_are_made_good_by_asking_again() {
                $crate::hostile::store_faults(&$subject);
            }
        }
    };
}

/// A key and which of the rows with that key.
pub(crate) type Item = (u64, u8);

/// One operation of a history.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Insert(Vec<Item>),
    Remove(Vec<Item>),
    Search { lower: u64, upper: u64, descending: bool, limit: Option<usize> },
}

/// The row of a number: row ids look random.
fn row(number: u8) -> RowId {
    RowId([number.wrapping_mul(167); 16])
}

pub(crate) fn entries(width: Width, items: &[Item]) -> Vec<RangeEntry> {
    let entry = |&(value, number): &Item| RangeEntry {
        value: plaintext_key(width, value),
        row: row(number),
        sums: Vec::new(),
    };
    items.iter().map(entry).collect()
}

/// An index and the list it should equal.
pub(crate) struct Pair<I> {
    pub(crate) index: I,
    pub(crate) list: SortedList,
    pub(crate) width: Width,
}

impl<I: RangeIndex> Pair<I> {
    pub(crate) async fn open<S: Storage, T: Subject<Index<S> = I>>(subject: &T, world: &World<S>) -> Self {
        let index = subject.open(world.wire.clone()).await.expect("an empty index");
        Self { index, list: SortedList::default(), width: subject.width() }
    }

    pub(crate) async fn insert(&self, items: &[Item]) {
        self.index.insert(entries(self.width, items)).await.expect("inserts");
        self.list.insert(entries(self.width, items)).await.expect("a list does not fail");
    }

    pub(crate) async fn remove(&self, items: &[Item]) {
        self.index.remove(entries(self.width, items)).await.expect("removes");
        self.list.remove(entries(self.width, items)).await.expect("a list does not fail");
    }

    pub(crate) async fn apply(&self, operation: &Operation) {
        match operation {
            Operation::Insert(items) => self.insert(items).await,
            Operation::Remove(items) => self.remove(items).await,
            Operation::Search { lower, upper, descending, limit } => {
                self.check(*lower, *upper, order(*descending), *limit).await;
            }
        }
    }

    /// Searches both and compares.
    pub(crate) async fn check(&self, lower: u64, upper: u64, order: Order, limit: Option<usize>) {
        let [low, high] = [lower, upper].map(|value| plaintext_key(self.width, value));
        let found = self.index.search(low, high, order, limit).await.expect("searches");
        self.compare(&found, (lower, upper), order, limit).await;
    }

    /// Compares what was found with the list: the same keys in the same order; rows of equal keys in any order,
    /// and any of them where the limit cuts through.
    pub(crate) async fn compare(
        &self,
        found: &[(Vec<u8>, RowId)],
        (lower, upper): (u64, u64),
        order: Order,
        limit: Option<usize>,
    ) {
        let what = format!("{lower}..={upper} {order:?} limit {limit:?}");
        let [low, high] = [lower, upper].map(|value| plaintext_key(self.width, value));
        let all = self.list.search(low, high, order, None).await.expect("a list does not fail");
        let count = all.len().min(limit.unwrap_or(usize::MAX));
        let keys = |pairs: &[(Vec<u8>, RowId)]| pairs.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
        assert_eq!(keys(found), keys(&all[..count]), "keys of {what}");
        let distinct: BTreeSet<_> = found.iter().cloned().collect();
        assert_eq!(distinct.len(), found.len(), "an entry twice in {what}");
        assert!(distinct.is_subset(&all.into_iter().collect()), "rows of {what}");
    }

    /// Compares everything, from both ends.
    pub(crate) async fn check_all(&self) {
        self.check(0, self.width.greatest(), Order::Ascending, None).await;
        self.check(0, self.width.greatest(), Order::Descending, None).await;
    }
}

fn order(descending: bool) -> Order {
    if descending { Order::Descending } else { Order::Ascending }
}

fn value(width: Width) -> impl Strategy<Value = u64> {
    let greatest = width.greatest();
    prop_oneof![
        8 => 0_u64..24,
        1 => Just(greatest),
        1 => Just(0_u64),
        1 => (0..3_u64).prop_map(move |below| greatest / 2 + below),
        2 => 0..=greatest,
    ]
}

pub(crate) fn operation(width: Width, effort: Effort) -> impl Strategy<Value = Operation> {
    let items = match effort {
        Effort::Full => prop_oneof![4 => 1_usize..3, 2 => 0..5_usize, 1 => 0..60_usize].boxed(),
        Effort::Few => (0_usize..2).boxed(),
    };
    let items = items.prop_flat_map(move |count| proptest::collection::vec((value(width), 0_u8..5), count));
    let search = (value(width), value(width), any::<bool>(), proptest::option::of(0_usize..20));
    prop_oneof![
        4 => items.clone().prop_map(Operation::Insert),
        3 => items.prop_map(Operation::Remove),
        4 => search.prop_map(|(lower, upper, descending, limit)| {
            Operation::Search { lower, upper, descending, limit }
        }),
    ]
}

/// Random histories.
pub(crate) fn histories<T: Subject>(subject: &T) {
    let (count, length) = match subject.effort() {
        Effort::Full => (24, 40),
        Effort::Few => (1, 5),
    };
    let history = proptest::collection::vec(operation(subject.width(), subject.effort()), 1..length);
    proptest!(cases(count), |(history in history)| {
        run(async {
            let world = memory();
            let pair = Pair::open(subject, &world).await;
            for operation in &history {
                pair.apply(operation).await;
            }
            pair.check_all().await;
        });
    });
}

/// Grows to some hundreds of entries, many of equal keys, shrinks to nothing, and grows again.
pub(crate) fn long_run<T: Subject>(subject: &T) {
    let steps: usize = match subject.effort() {
        Effort::Full => 240,
        Effort::Few => 3,
    };
    run(async {
        let world = memory();
        let pair = Pair::open(subject, &world).await;
        let mut random = prg(subject.width().bits().into());
        for turn in 0..3 {
            let mut there: Vec<Item> = Vec::new();
            for step in 0..steps {
                let value = random.next_u64() % (steps as u64 / 2 + 1);
                let item = (value * (subject.width().greatest() / steps as u64), random.next_u64() as u8);
                there.push(item);
                let batch = &there[there.len() - 1 - (step % 3).min(there.len() - 1)..];
                pair.insert(batch).await;
                if step % 16 == 0 {
                    let lower = random.next_u64() & subject.width().greatest();
                    let upper =
                        lower.saturating_add(random.next_u64() >> (turn * 4)).min(subject.width().greatest());
                    pair.check(lower, upper, order(step % 32 == 0), None).await;
                    pair.check(lower, upper, order(step % 32 != 0), Some(step % 20)).await;
                }
            }
            pair.check_all().await;
            while let Some(place) = random.next_u64().checked_rem(there.len() as u64) {
                let item = there.swap_remove(place as usize);
                pair.remove(&[item]).await;
                if there.len().is_multiple_of(16) {
                    pair.check(0, subject.width().greatest() / 2, Order::Ascending, None).await;
                }
            }
            pair.check_all().await;
        }
    });
}

/// Points, ranges, open ends, empty and crossed ranges, limits; from both ends.
pub(crate) fn shapes<T: Subject>(subject: &T) {
    let greatest = subject.width().greatest();
    let mut items: Vec<Item> =
        vec![(0, 1), (5, 1), (5, 2), (9, 1), (greatest - 1, 1), (greatest, 1), (greatest, 2)];
    if subject.effort() == Effort::Full {
        items.extend((0..40).map(|number| (1000 + number, 3)));
        items.extend((0..40).map(|number| (2000, number as u8)));
    }
    run(async {
        let world = memory();
        let pair = Pair::open(subject, &world).await;
        for order in [Order::Ascending, Order::Descending] {
            pair.check(0, greatest, order, None).await;
            pair.check(3, 3, order, Some(1)).await;
        }
        pair.insert(&items).await;
        let all = [0, 1, 4, 5, 6, 9, 1010, 1999, 2000, 2001, greatest / 2, greatest - 1, greatest];
        let bounds = match subject.effort() {
            Effort::Full => &all[..],
            Effort::Few => &[0, 5, greatest][..],
        };
        for lower in bounds {
            for upper in bounds {
                pair.check(*lower, *upper, Order::Ascending, None).await;
                pair.check(*lower, *upper, Order::Descending, None).await;
                if subject.effort() == Effort::Full {
                    for limit in [0, 1, 3, 1000, usize::MAX] {
                        pair.check(*lower, *upper, Order::Ascending, Some(limit)).await;
                        pair.check(*lower, *upper, Order::Descending, Some(limit)).await;
                    }
                }
            }
        }
    });
}

/// Ascending, descending, all keys equal, from both ends to the middle; each taken out again in the same order.
pub(crate) fn insertion_orders<T: Subject>(subject: &T) {
    let count: u8 = match subject.effort() {
        Effort::Full => 120,
        Effort::Few => 3,
    };
    let zigzag = |n: u8| if n.is_multiple_of(2) { n / 2 } else { count - 1 - n / 2 };
    let orders: [Vec<Item>; 4] = [
        (0..count).map(|n| (n.into(), n)).collect(),
        (0..count).rev().map(|n| (n.into(), n)).collect(),
        (0..count).map(|n| (77, n)).collect(),
        (0..count).map(|n| (zigzag(n).into(), n)).collect(),
    ];
    run(async {
        let world = memory();
        let pair = Pair::open(subject, &world).await;
        for items in orders {
            for item in &items {
                pair.insert(&[*item]).await;
            }
            pair.insert(&items[..items.len() / 2]).await;
            pair.check_all().await;
            pair.check(10, 80, Order::Descending, Some(30)).await;
            let (first, rest) = items.split_at(items.len() / 2);
            for item in first {
                pair.remove(&[*item]).await;
            }
            pair.check_all().await;
            pair.remove(rest).await;
            pair.remove(&items).await;
            pair.check_all().await;
        }
    });
}

/// Signed numbers through the domain.
pub(crate) fn negative_numbers<T: Subject>(subject: &T) {
    let domain = Domain { width: subject.width(), signed: true };
    let (least, greatest) = domain.limits();
    let plaintext = |number: i128| domain.plaintext(number).expect("within the limits");
    let numbers = match subject.effort() {
        Effort::Full => vec![least, least + 1, -70_000, -5, -1, 0, 1, 5, 70_000, greatest],
        Effort::Few => vec![least, -1, 0],
    };
    run(async {
        let world = memory();
        let pair = Pair::open(subject, &world).await;
        let items: Vec<Item> = numbers.iter().map(|number| (plaintext(*number), 1)).collect();
        pair.insert(&items).await;
        let [low, high] = [least, -1].map(|number| domain.key(plaintext(number)));
        let found = pair.index.search(low, high, Order::Ascending, None).await.expect("searches");
        let expected = numbers.iter().filter(|number| **number < 0);
        let keys: Vec<_> = found.into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, expected.map(|number| domain.key(plaintext(*number))).collect::<Vec<_>>());
        pair.check(plaintext(-5), plaintext(5), Order::Descending, None).await;
    });
}

/// The same over the embedded store.
pub(crate) fn on_the_disk<T: Subject>(subject: &T) {
    let directory = tempfile::tempdir().expect("a directory");
    run(async {
        let world = embedded(directory.path());
        let pair = Pair::open(subject, &world).await;
        let count = if subject.effort() == Effort::Full { 60_u8 } else { 3 };
        let items: Vec<Item> = (0..count).map(|number| (u64::from(number) * 7 % 31, number)).collect();
        for batch in items.chunks(8) {
            pair.insert(batch).await;
        }
        pair.check_all().await;
        pair.check(3, 20, Order::Descending, Some(7)).await;
        pair.remove(&items[items.len() / 3..]).await;
        pair.check_all().await;
    });
}

/// A key that is not of the width.
pub(crate) fn wrong_lengths<T: Subject>(subject: &T) {
    run(async {
        let world = memory();
        let pair = Pair::open(subject, &world).await;
        let right = plaintext_key(subject.width(), 1);
        for wrong in
            [Vec::new(), vec![0], vec![0; subject.width().bytes() - 1], vec![0; subject.width().bytes() + 1]]
        {
            let entry = RangeEntry { value: wrong.clone(), row: row(1), sums: Vec::new() };
            assert!(blames_caller(&pair.index.insert(vec![entry.clone()]).await));
            assert!(blames_caller(&pair.index.remove(vec![entry]).await));
            let low = pair.index.search(wrong.clone(), right.clone(), Order::Ascending, None).await;
            assert!(blames_caller(&low));
            assert!(blames_caller(&pair.index.search(right.clone(), wrong, Order::Ascending, None).await));
        }
        pair.check_all().await;
    });
}
