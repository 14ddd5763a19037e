//! The sealed store beside a plain map.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::tests::randomly;
use arras_storage::{Failing, Memory};
use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::sync::Arc;

const RECORDS: Table = Table("records");
const OTHERS: Table = Table("others");

fn store() -> LocalStore<Memory> {
    LocalStore::open(Memory::new(), &Key::generate()).unwrap()
}

/// Names of few bytes, many of which begin as others do.
fn name(rng: &mut StdRng) -> Vec<u8> {
    (0..rng.random_range(2..5)).map(|_| [0, 1, u8::MAX][rng.random_range(0..3)]).collect()
}

fn apply(local: &LocalStore<impl Storage>, changes: &[Change]) {
    local.apply(changes, Durability::Relaxed).unwrap();
}

/// What is stored under a name that is kept as it is.
fn raw<S: Storage>(local: &LocalStore<S>, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    local
        .store
        .read()
        .unwrap()
        .scan(table, all, Direction::Ascending, &mut |name, sealed| {
            found.push((name.to_vec(), sealed.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

#[test]
fn records_are_those_that_were_set_last_whether_their_names_are_hidden_or_not() {
    let (mut rng, local) = (randomly(), store());
    let (mut hidden, mut named) = (BTreeMap::new(), BTreeMap::new());
    for turn in 0..600_u64 {
        let mut changes = Vec::new();
        for _ in 0..rng.random_range(1..4) {
            let name = name(&mut rng);
            changes.push(match rng.random_range(0..4) {
                0 => {
                    hidden.remove(&name);
                    local.unset(OTHERS, &name)
                }
                1 => {
                    named.remove(&name);
                    local.unset_as_named(RECORDS, name)
                }
                2 => {
                    hidden.insert(name.clone(), turn);
                    local.set(OTHERS, &name, &turn)
                }
                _ => {
                    named.insert(name.clone(), turn);
                    local.set_as_named(RECORDS, name, &turn)
                }
            });
        }
        apply(&local, &changes);
        let asked = name(&mut rng);
        assert_eq!(local.get(OTHERS, &asked).unwrap(), hidden.get(&asked).copied());
        assert_eq!(local.get_as_named(RECORDS, &asked).unwrap(), named.get(&asked).copied());
    }
    let mut all: Vec<u64> = local.all(OTHERS).unwrap();
    all.sort_unstable();
    let mut expected: Vec<u64> = hidden.into_values().collect();
    expected.sort_unstable();
    assert_eq!(all, expected);
    let names: Vec<Vec<u8>> = (0..50).map(|_| name(&mut rng)).collect();
    let found: Vec<Option<u64>> = local.get_many_as_named(RECORDS, &names).unwrap();
    assert_eq!(found, names.iter().map(|name| named.get(name).copied()).collect::<Vec<_>>());
    let stored: Vec<Vec<u8>> = raw(&local, RECORDS).into_iter().map(|(name, _)| name).collect();
    assert_eq!(stored, named.into_keys().collect::<Vec<_>>(), "these names are kept");
    assert!(raw(&local, OTHERS).iter().all(|(name, _)| name.len() == 16), "those are hidden");
}

#[test]
fn what_begins_alike_is_visited_named_once_and_removed_together() {
    let mut rng = randomly();
    for _ in 0..40 {
        let (local, mut model) = (store(), BTreeMap::new());
        for number in 0..rng.random_range(0..30_u64) {
            let name = name(&mut rng);
            apply(&local, &[local.set_as_named(RECORDS, name.clone(), &number)]);
            model.insert(name, number);
        }
        let mut beginnings: Vec<Vec<u8>> = model.keys().map(|name| name[..2].to_vec()).collect();
        beginnings.dedup();
        assert_eq!(local.beginnings_as_named(RECORDS, 2).unwrap(), beginnings);
        for prefix in [vec![], vec![1], vec![u8::MAX], vec![0, u8::MAX]] {
            let mut visited = Vec::new();
            local
                .each_as_named(RECORDS, &prefix, &mut |name, record: u64| {
                    visited.push((name.to_vec(), record));
                })
                .unwrap();
            let expected = model.iter().filter(|(name, _)| name.starts_with(&prefix));
            assert_eq!(visited, expected.map(|(name, record)| (name.clone(), *record)).collect::<Vec<_>>());
        }
        let prefix = [u8::MAX];
        local.remove_as_named(RECORDS, &prefix).unwrap();
        model.retain(|name, _| !name.starts_with(&prefix));
        let left: Vec<Vec<u8>> = raw(&local, RECORDS).into_iter().map(|(name, _)| name).collect();
        assert_eq!(left, model.into_keys().collect::<Vec<_>>());
    }
}

#[test]
fn more_records_than_one_transaction_removes_go_all_the_same() {
    let local = store();
    let count = REMOVED_AT_ONCE as u64 + 1;
    let set = |number: u64| local.set_as_named(RECORDS, number.to_be_bytes().to_vec(), &());
    let changes: Vec<Change> = (0..count).map(set).collect();
    apply(&local, &changes);
    apply(&local, &[local.set_as_named(RECORDS, vec![1], &())]);
    local.remove_as_named(RECORDS, &[0]).unwrap();
    assert_eq!(raw(&local, RECORDS).len(), 1);
}

#[test]
fn a_record_says_its_length_in_steps_only_and_opens_nowhere_else() {
    let local = store();
    let lengths: Vec<usize> = (0..40)
        .map(|length| {
            apply(&local, &[local.set_as_named(RECORDS, vec![1], &vec![7_u8; length])]);
            raw(&local, RECORDS)[0].1.len()
        })
        .collect();
    let mut steps = lengths.clone();
    steps.dedup();
    assert!(steps.windows(2).all(|pair| pair[1] - pair[0] == 16), "{lengths:?}");
    assert!(steps.len() > 2);
    let sealed = raw(&local, RECORDS)[0].1.clone();
    let moved = |table, name: &[u8], sealed: &[u8]| {
        apply(&local, &[Change::sealed(table, name.to_vec(), Some(sealed.to_vec()))]);
        local.get_as_named::<Vec<u8>>(table, name)
    };
    assert_eq!(moved(RECORDS, &[1], &sealed).unwrap(), Some(vec![7; 39]), "it is where it was");
    assert!(matches!(moved(RECORDS, &[2], &sealed), Err(LocalError::Damaged("records"))));
    assert!(matches!(moved(OTHERS, &[1], &sealed), Err(LocalError::Damaged("others"))));
    let mut altered = sealed.clone();
    altered[20] ^= 1;
    assert!(matches!(moved(RECORDS, &[1], &altered), Err(LocalError::Damaged("records"))));
    assert!(local.all::<Vec<u8>>(RECORDS).is_err(), "one that is damaged is not left out");
}

#[test]
fn what_one_key_made_no_other_opens() {
    let (key, memory) = (Key::take_from(&mut [3; Key::BYTES]), Arc::new(Memory::new()));
    let local = LocalStore::open(Arc::clone(&memory), &key).unwrap();
    apply(&local, &[local.set(RECORDS, b"name", &5_u64)]);
    drop(local);
    let other = LocalStore::open(Arc::clone(&memory), &Key::generate());
    assert!(matches!(other, Err(LocalError::WrongKeyring)));
    let again = LocalStore::open(memory, &Key::take_from(&mut [3; Key::BYTES])).unwrap();
    assert_eq!(again.get(RECORDS, b"name").unwrap(), Some(5_u64));
}

#[test]
fn what_the_server_acknowledged_is_recorded_with_the_next_change_and_never_falls_by_itself() {
    let memory = Arc::new(Memory::new());
    let key = || Key::take_from(&mut [3; Key::BYTES]);
    let local = LocalStore::open(Arc::clone(&memory), &key()).unwrap();
    local.acknowledged(9);
    assert_eq!(local.acknowledged_before().unwrap(), 0, "with the next change");
    apply(&local, &[]);
    assert_eq!(local.acknowledged_before().unwrap(), 9);
    local.acknowledged(4);
    apply(&local, &[local.set(RECORDS, b"name", &5_u64)]);
    assert_eq!(local.acknowledged_before().unwrap(), 9);
    // A start that knows of none yet leaves it.
    let again = LocalStore::open(memory, &key()).unwrap();
    apply(&again, &[again.set(OTHERS, b"name", &6_u64)]);
    assert_eq!(again.acknowledged_before().unwrap(), 9);
    again.forget(&[RECORDS], 3).unwrap();
    assert_eq!(again.acknowledged_before().unwrap(), 3, "a restore may set it back");
    assert_eq!(again.get::<u64>(RECORDS, b"name").unwrap(), None);
    assert_eq!(again.get(OTHERS, b"name").unwrap(), Some(6_u64));
    apply(&again, &[]);
    assert_eq!(again.acknowledged_before().unwrap(), 3);
}

#[test]
fn changes_are_applied_all_or_none() {
    let store = Failing::new(Memory::new());
    let faults = store.faults();
    let local = LocalStore::open(store, &Key::generate()).unwrap();
    apply(&local, &[local.set(RECORDS, b"one", &1_u64)]);
    let before = faults.operations();
    apply(&local, &[local.unset(RECORDS, b"one"), local.set(RECORDS, b"two", &2_u64)]);
    let operations = faults.operations() - before;
    apply(&local, &[local.unset(RECORDS, b"two"), local.set(RECORDS, b"one", &1_u64)]);
    for failing in 0..operations {
        faults.fail_operation_after(failing);
        let changes = [local.unset(RECORDS, b"one"), local.set(RECORDS, b"two", &2_u64)];
        let failed = local.apply(&changes, Durability::Durable).unwrap_err();
        assert!(!failed.is_undecided());
        faults.heal();
        let found = [b"one", b"two"].map(|name| local.get::<u64>(RECORDS, name).unwrap());
        assert_eq!(found, [Some(1), None], "the operation {failing} of {operations}");
    }
    assert!(operations > 2);
}

#[test]
fn a_change_says_what_takes_it_back_in_its_own_table() {
    let local = store();
    let set = |number: u64| local.set_as_named(RECORDS, vec![1], &number);
    let plain = set(1);
    assert_eq!(plain.undo_in(RECORDS), None, "what it made of the record stays");
    let undone = set(1).or_else(set(2));
    assert_eq!((undone.name_in(RECORDS), undone.name_in(OTHERS)), (Some(&[1][..]), None));
    assert_eq!(undone.undo_in(OTHERS), None);
    let (name, sealed) = undone.undo_in(RECORDS).unwrap();
    apply(&local, &[undone]);
    assert_eq!(local.get_as_named(RECORDS, &[1]).unwrap(), Some(1_u64));
    apply(&local, &[Change::sealed(RECORDS, name, sealed)]);
    assert_eq!(local.get_as_named(RECORDS, &[1]).unwrap(), Some(2_u64));
    let (name, sealed) = set(3).or_else(local.unset_as_named(RECORDS, vec![1])).undo_in(RECORDS).unwrap();
    apply(&local, &[Change::sealed(RECORDS, name, sealed)]);
    assert_eq!(local.get_as_named::<u64>(RECORDS, &[1]).unwrap(), None);
}
