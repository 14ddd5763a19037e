//! Answers are those of a sorted list.

use crate::world::{Client, World, cases, entry, parameters, run};
use arras_documents::accumulate;
use arras_numbers::{Number, NumberSum};
use arras_protocol::Order;
use arras_schemes::arx_range::{ArxRangeParameters, RangeEntry};
use arras_schemes::traits::{RangeIndex, SortedList};
use bson::Bson;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// One operation of a history.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Change { insert: Vec<(u16, u8, i32)>, remove: Vec<(u16, u8)> },
    Search { lower: u16, upper: u16, descending: bool, limit: Option<usize> },
    Sums { lower: u16, upper: u16 },
    NewEpoch,
    Restart,
    Crash { lost: usize },
}

fn key() -> impl Strategy<Value = u16> {
    prop_oneof![8 => 0_u16..40, 1 => Just(u16::MAX), 1 => Just(0), 2 => any::<u16>()]
}

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let size = || prop_oneof![4 => 0_usize..2, 2 => 0_usize..4, 1 => 0_usize..40];
    let change = (size(), size()).prop_flat_map(|(insert, remove)| {
        let insert = proptest::collection::vec((key(), 0_u8..4, -9_i32..10), insert);
        let remove = proptest::collection::vec((key(), 0_u8..4), remove);
        (insert, remove).prop_map(|(insert, remove)| Operation::Change { insert, remove })
    });
    let limit = proptest::option::of(0_usize..20);
    let search = (key(), key(), any::<bool>(), limit)
        .prop_map(|(lower, upper, descending, limit)| Operation::Search { lower, upper, descending, limit });
    prop_oneof![
        6 => change,
        6 => search,
        2 => (key(), key()).prop_map(|(lower, upper)| Operation::Sums { lower, upper }),
        1 => Just(Operation::NewEpoch),
        1 => Just(Operation::Restart),
        1 => (0_usize..4).prop_map(|lost| Operation::Crash { lost }),
    ]
}

pub(crate) fn any_parameters() -> impl Strategy<Value = ArxRangeParameters> {
    let factor = prop_oneof![Just(1_u64), Just(2), Just(16)];
    let top_nodes = prop_oneof![Just(0_usize), Just(4), Just(1024)];
    (factor, top_nodes, 0_usize..2, any::<bool>()).prop_map(|(factor, top_nodes, sums, aggregates)| {
        ArxRangeParameters { aggregates, ..parameters(factor, top_nodes, sums) }
    })
}

/// The plaintext twin: the list, and the amounts.
#[derive(Default)]
pub(crate) struct Twin {
    pub(crate) list: SortedList,
    pub(crate) amounts: BTreeMap<(u16, u8), i32>,
}

impl Twin {
    pub(crate) async fn change(&mut self, parameters: &ArxRangeParameters, change: &Entries) {
        let (insert, remove) = change;
        let kept: Vec<_> = remove.iter().filter(|(key, row)| !has(insert, *key, *row)).copied().collect();
        for (key, row) in kept {
            self.amounts.remove(&(key, row));
        }
        let removed = remove.iter().map(|(key, row)| entry(parameters, *key, *row, 0)).collect();
        let inserted = insert.iter().map(|(key, row, amount)| entry(parameters, *key, *row, *amount));
        RangeIndex::remove(&self.list, removed).await.expect("a list does not fail");
        RangeIndex::insert(&self.list, inserted.collect()).await.expect("a list does not fail");
        let mut seen = std::collections::BTreeSet::new();
        for &(key, row, amount) in insert {
            let first = seen.insert((key, row));
            if first && remove.contains(&(key, row)) {
                self.amounts.insert((key, row), amount);
            } else {
                self.amounts.entry((key, row)).or_insert(amount);
            }
        }
    }

    fn sums(&self, lower: u16, upper: u16) -> (u64, Bson) {
        let mut sum = NumberSum::new();
        let within = self.amounts.iter().filter(|((key, _), _)| lower <= *key && *key <= upper);
        let amounts: Vec<i32> = within.map(|(_, amount)| *amount).collect();
        amounts.iter().for_each(|amount| sum.add(Number::Int(*amount)));
        (amounts.len() as u64, accumulate::total(&sum))
    }
}

/// What a change inserts and removes.
pub(crate) type Entries = (Vec<(u16, u8, i32)>, Vec<(u16, u8)>);

fn has(insert: &[(u16, u8, i32)], key: u16, row: u8) -> bool {
    insert.iter().any(|(k, r, _)| (*k, *r) == (key, row))
}

pub(crate) fn entries(
    parameters: &ArxRangeParameters,
    change: &Entries,
) -> (Vec<RangeEntry>, Vec<RangeEntry>) {
    let insert = change.0.iter().map(|(key, row, amount)| entry(parameters, *key, *row, *amount)).collect();
    let remove = change.1.iter().map(|(key, row)| entry(parameters, *key, *row, 0)).collect();
    (insert, remove)
}

/// Rows of equal keys come in an order that means nothing: compare keys in order, and each key's rows as a set.
/// With a limit, the last key's rows may be any of those there are.
fn agree(
    mut found: Vec<(Vec<u8>, arras_protocol::RowId)>,
    mut all: Vec<(Vec<u8>, arras_protocol::RowId)>,
    descending: bool,
    limit: Option<usize>,
) {
    let expected_len = all.len().min(limit.unwrap_or(usize::MAX));
    assert_eq!(found.len(), expected_len, "number of entries");
    let keys: Vec<_> = found.iter().map(|(key, _)| key.clone()).collect();
    let expected: Vec<_> = all.iter().map(|(key, _)| key.clone()).take(expected_len).collect();
    assert_eq!(keys, expected, "keys in order");
    if let Some(last) = keys.last() {
        assert!(found.iter().all(|entry| all.contains(entry)), "no entry of its own");
        let beyond = |key: &Vec<u8>| if descending { key > last } else { key < last };
        found.retain(|(key, _)| beyond(key));
        all.retain(|(key, _)| beyond(key));
        found.sort();
        all.sort();
        assert_eq!(found, all, "rows of all keys but the last");
    }
}

/// Searches both and compares.
pub(crate) async fn compare(
    client: &impl RangeIndex,
    twin: &Twin,
    range: (u16, u16),
    descending: bool,
    limit: Option<usize>,
) {
    let order = if descending { Order::Descending } else { Order::Ascending };
    let [lower, upper] = [range.0, range.1].map(|key| key.to_be_bytes().to_vec());
    let found = client.search(lower.clone(), upper.clone(), order, limit).await.expect("no fault is planned");
    let mut unique = found.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), found.len(), "no entry twice");
    let all = RangeIndex::search(&twin.list, lower, upper, order, None).await.expect("a list does not fail");
    agree(found, all, descending, limit);
}

pub(crate) async fn compare_sums(client: &Client, twin: &Twin, lower: u16, upper: u16) {
    let [low, high] = [lower, upper].map(|key| key.to_be_bytes().to_vec());
    let result = client.own.index.sums(low, high).await;
    if client.parameters.sums == 0 && !client.parameters.aggregates {
        result.expect_err("no aggregates are kept");
        return;
    }
    let (sums, repair) = result.expect("no fault is planned");
    repair.run().await.expect("no fault is planned");
    let (count, sum) = twin.sums(lower, upper);
    assert_eq!(sums.count, count);
    for found in &sums.sums {
        assert_eq!(accumulate::total(found), sum);
    }
}

async fn play(parameters: ArxRangeParameters, history: Vec<Operation>) {
    let world = World::new();
    let mut client = Client::create(&world, parameters).await;
    let mut twin = Twin::default();
    for operation in history {
        match operation {
            Operation::Change { insert, remove } => {
                let change = (insert, remove);
                twin.change(&parameters, &change).await;
                let (insert, remove) = entries(&parameters, &change);
                client.own.change(insert, remove).await.expect("no fault is planned");
            }
            Operation::Search { lower, upper, descending, limit } => {
                compare(&client.own, &twin, (lower, upper), descending, limit).await;
            }
            Operation::Sums { lower, upper } => compare_sums(&client, &twin, lower, upper).await,
            Operation::NewEpoch => client.own.index.new_epoch().await,
            Operation::Restart => client.restart().await.expect("no fault is planned"),
            Operation::Crash { lost } => world.crash(lost),
        }
    }
    compare(&client.own, &twin, (0, u16::MAX), false, None).await;
    compare_sums(&client, &twin, 0, u16::MAX).await;
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn any_history_answers_like_a_sorted_list(
        parameters in any_parameters(),
        history in proptest::collection::vec(operation(), 1..40),
    ) {
        run(play(parameters, history));
    }
}

/// The shared test body: what every range index must do.
async fn range_index_body(index: &impl RangeIndex) {
    let sample = |key: u16, row: u8| entry(&parameters(1, 0, 0), key, row, 0);
    let all = |order, limit| index.search(vec![0, 0], vec![255, 255], order, limit);
    let keys = |found: Vec<(Vec<u8>, arras_protocol::RowId)>| -> Vec<u16> {
        found.iter().map(|(key, _)| u16::from_be_bytes([key[0], key[1]])).collect()
    };
    assert!(all(Order::Ascending, None).await.expect("searches").is_empty());
    let entries = [5, 3, 9, 3, 0, 65535].into_iter().zip(0..).map(|(key, row)| sample(key, row));
    index.insert(entries.collect()).await.expect("inserts");
    index.insert(vec![sample(5, 0)]).await.expect("inserts what is there");
    index.remove(vec![sample(5, 1), sample(77, 0)]).await.expect("removes what is not there");
    let found = all(Order::Ascending, None).await.expect("searches");
    assert_eq!(keys(found), [0, 3, 3, 5, 9, 65535]);
    let found = all(Order::Descending, Some(2)).await.expect("searches");
    assert_eq!(keys(found), [65535, 9]);
    let found = index.search(vec![0, 4], vec![0, 3], Order::Ascending, None).await.expect("searches");
    assert!(found.is_empty());
    let found = index.search(vec![0, 3], vec![0, 5], Order::Ascending, None).await.expect("searches");
    assert_eq!(keys(found), [3, 3, 5]);
    index.remove(vec![sample(3, 1), sample(0, 4)]).await.expect("removes");
    let found = all(Order::Ascending, None).await.expect("searches");
    assert_eq!(keys(found), [3, 5, 9, 65535]);
}

#[test]
fn every_range_index_passes_one_body() {
    run(async {
        range_index_body(&SortedList::default()).await;
        for top_nodes in [0, 4, 1024] {
            for factor in [1, 2, 16] {
                let client = Client::create(&World::new(), parameters(factor, top_nodes, 0)).await;
                range_index_body(&client.own).await;
            }
        }
    });
}

#[test]
fn a_long_search_goes_on_through_changes() {
    run(async {
        let parameters = parameters(2, 4, 0);
        let client = Client::create(&World::new(), parameters).await;
        let even = (0..400_u16).map(|key| entry(&parameters, key * 2, 0, 0)).collect();
        client.own.insert(even).await.expect("inserts");
        for order in [Order::Ascending, Order::Descending] {
            let (low, high) = (vec![0, 0], vec![255, 255]);
            let (found, repair) = client.own.index.search(low, high, order, Some(7)).await.expect("searches");
            repair.run().await.expect("repairs");
            let (mut keys, mut more) = (found.entries, found.more);
            let mut turn = 0_u16;
            while let Some(continuation) = more {
                let odd = vec![entry(&parameters, 2 * (turn * 37 % 400) + 1, 1, 0)];
                client.own.change(odd.clone(), Vec::new()).await.expect("inserts");
                let found = client.own.index.continue_search(continuation, Some(7)).await.expect("goes on");
                keys.extend(found.entries);
                more = found.more;
                client.own.change(Vec::new(), odd).await.expect("removes");
                turn += 1;
            }
            keys.retain(|(_, row)| row.0[0] == 0);
            let mut found: Vec<u16> =
                keys.iter().map(|(key, _)| u16::from_be_bytes([key[0], key[1]])).collect();
            if order == Order::Descending {
                found.reverse();
            }
            assert_eq!(found, (0..400).map(|key| key * 2).collect::<Vec<u16>>());
        }
    });
}
