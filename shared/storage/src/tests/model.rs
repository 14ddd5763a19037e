//! Random transactions against the simplest model there is: a sorted list of entries.

use proptest::prelude::*;

use super::power::{Disk, Images, empty_image};
use crate::conformance::entries;
use crate::embedded::LogLimits;
use crate::{Direction, Durability, Embedded, Memory, Read, Storage, Table, Write};

/// Two that have the engine's table to themselves, and two that share one.
const TABLES: [Table; 4] = [Table("left"), Table("right"), Table("both.a"), Table("both.ab")];

type Model = Vec<(usize, Vec<u8>, Vec<u8>)>;

#[derive(Clone, Debug)]
enum Operation {
    Put { table: usize, key: Vec<u8>, value: Vec<u8> },
    Delete { table: usize, key: Vec<u8> },
    DeletePrefix { table: usize, prefix: Vec<u8> },
    Get { table: usize, key: Vec<u8> },
    Scan { table: usize, low: std::ops::Bound<Vec<u8>>, high: std::ops::Bound<Vec<u8>> },
    Savepoint,
    RollBack,
}

#[derive(Clone, Debug)]
enum End {
    Abort,
    Commit(Durability),
    /// Closes and opens the store again, where that is possible.
    CommitAndReopen,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, 1, 0x61, 0xFE, 0xFF]), 0..4)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..20),
        1 => (any::<u8>(), 3000..20_000_usize).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn bound() -> impl Strategy<Value = std::ops::Bound<Vec<u8>>> {
    use std::ops::Bound;
    prop_oneof![Just(Bound::Unbounded), key().prop_map(Bound::Included), key().prop_map(Bound::Excluded)]
}

fn operation() -> impl Strategy<Value = Operation> {
    let table = 0..TABLES.len();
    prop_oneof![
        6 => (table.clone(), key(), value()).prop_map(|(table, key, value)| Operation::Put { table, key, value }),
        2 => (table.clone(), key()).prop_map(|(table, key)| Operation::Delete { table, key }),
        1 => (table.clone(), key()).prop_map(|(table, prefix)| Operation::DeletePrefix { table, prefix }),
        2 => (table.clone(), key()).prop_map(|(table, key)| Operation::Get { table, key }),
        3 => (table, bound(), bound()).prop_map(|(table, low, high)| Operation::Scan { table, low, high }),
        2 => Just(Operation::Savepoint),
        1 => Just(Operation::RollBack),
    ]
}

fn transactions() -> impl Strategy<Value = Vec<(Vec<Operation>, End)>> {
    let end = prop_oneof![
        1 => Just(End::Abort),
        4 => Just(End::Commit(Durability::Relaxed)),
        1 => Just(End::Commit(Durability::Durable)),
        1 => Just(End::CommitAndReopen),
    ];
    prop::collection::vec((prop::collection::vec(operation(), 0..12), end), 1..12)
}

fn select(model: &Model, table: usize, chosen: impl Fn(&[u8]) -> bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let chosen = model.iter().filter(|(owner, key, _)| *owner == table && chosen(key));
    chosen.map(|(_, key, value)| (key.clone(), value.clone())).collect()
}

fn remove(model: &mut Model, table: usize, chosen: impl Fn(&[u8]) -> bool) -> usize {
    let before = model.len();
    model.retain(|(owner, key, _)| *owner != table || !chosen(key));
    before - model.len()
}

fn perform(writer: &mut impl Write, model: &mut Model, marked: &mut Model, operation: Operation) {
    match operation {
        Operation::Savepoint => {
            writer.savepoint();
            marked.clone_from(model);
        }
        Operation::RollBack => {
            writer.roll_back();
            model.clone_from(marked);
        }
        Operation::Put { table, key, value } => {
            writer.put(TABLES[table], &key, &value).unwrap();
            remove(model, table, |other| other == key);
            model.push((table, key, value));
            model.sort();
        }
        Operation::Delete { table, key } => {
            let present = writer.delete(TABLES[table], &key).unwrap();
            assert_eq!(present, remove(model, table, |other| other == key) == 1);
        }
        Operation::DeletePrefix { table, prefix } => {
            let removed = writer.delete_prefix(TABLES[table], &prefix, usize::MAX).unwrap();
            assert_eq!(removed, remove(model, table, |other| other.starts_with(&prefix)) as u64);
        }
        Operation::Get { table, key } => {
            let expected = select(model, table, |other| other == key).pop().map(|(_, value)| value);
            assert_eq!(writer.get(TABLES[table], &key).unwrap().map(Vec::from), expected);
        }
        Operation::Scan { table, low, high } => {
            use std::ops::Bound;
            let mut expected = select(model, table, |key| {
                let above = match &low {
                    Bound::Unbounded => true,
                    Bound::Included(low) => key >= low.as_slice(),
                    Bound::Excluded(low) => key > low.as_slice(),
                };
                let below = match &high {
                    Bound::Unbounded => true,
                    Bound::Included(high) => key <= high.as_slice(),
                    Bound::Excluded(high) => key < high.as_slice(),
                };
                above && below
            });
            let range = (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
            assert_eq!(entries(writer, TABLES[table], range, Direction::Ascending), expected);
            expected.reverse();
            assert_eq!(entries(writer, TABLES[table], range, Direction::Descending), expected);
        }
    }
}

fn compare(view: &impl Read, model: &Model) {
    for (position, table) in TABLES.into_iter().enumerate() {
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        assert_eq!(entries(view, table, all, Direction::Ascending), select(model, position, |_| true));
    }
}

fn run<S: Storage>(mut store: S, mut reopen: impl FnMut(S) -> S, transactions: Vec<(Vec<Operation>, End)>) {
    let mut committed = Model::new();
    for (operations, end) in transactions {
        let (mut model, mut marked) = (committed.clone(), committed.clone());
        {
            let before = store.read().unwrap();
            let mut writer = store.write().unwrap();
            for operation in operations {
                perform(&mut writer, &mut model, &mut marked, operation);
            }
            match end {
                End::Abort => drop(writer),
                End::Commit(durability) => writer.commit(durability).unwrap(),
                End::CommitAndReopen => writer.commit(Durability::Durable).unwrap(),
            }
            compare(&before, &committed);
        }
        match end {
            End::Abort => {}
            End::Commit(_) => committed = model,
            End::CommitAndReopen => {
                committed = model;
                store = reopen(store);
            }
        }
        compare(&store.read().unwrap(), &committed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn memory_follows_the_model(transactions in transactions()) {
        run(Memory::new(), |store| store, transactions);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn embedded_follows_the_model(transactions in transactions()) {
        let directory = tempfile::tempdir().unwrap();
        let open = || Embedded::open(directory.path()).unwrap();
        run(open(), |store| { drop(store); open() }, transactions);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// What is committed is merged into the engine all the time, and the log starts over.
    #[test]
    fn embedded_that_merges_all_the_time_follows_the_model(transactions in transactions()) {
        let limits = LogLimits {
            log_bytes: 64 << 10,
            pending_bytes: 8 << 10,
            memtable_bytes: 300,
            relaxed_bytes: 1000,
            share_bytes: 10_000,
            absent_min: 1,
        };
        let disk = Disk::holding(Images { file: empty_image(), log: Some(Vec::new()) }).with(limits);
        run(disk.open().unwrap(), |store| { drop(store); disk.open().unwrap() }, transactions);
    }
}
