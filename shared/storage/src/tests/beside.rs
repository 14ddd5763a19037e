//! What is said of a key without a look at the engine, by filters of absent ones and by values that were read before:
//! what the snapshot has that is asked, and nothing else.

use super::power::{Disk, Images, NARROW, empty_image};
use crate::embedded::LogLimits;
use crate::{Durability, Embedded, Read, Storage, Table, Write};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const TABLE: Table = Table("t");

fn disk(limits: LogLimits) -> Disk {
    Disk::holding(Images { file: empty_image(), log: Some(Vec::new()) }).with(limits)
}

/// Distinct keys that say nothing of their order.
fn key(number: u64) -> [u8; 16] {
    u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835).to_be_bytes()
}

fn put(store: &Embedded, numbers: impl Iterator<Item = u64>) {
    let mut writer = store.write().unwrap();
    numbers.for_each(|number| writer.put(TABLE, &key(number), &number.to_be_bytes()).unwrap());
    writer.commit(Durability::Durable).unwrap();
}

fn is_there(reader: &impl Read, number: u64) -> bool {
    let found = reader.get(TABLE, &key(number)).unwrap();
    assert!(found.as_ref().is_none_or(|found| **found == number.to_be_bytes()));
    found.is_some()
}

/// How many of a hundred absent keys are known to be absent.
fn denied(store: &Embedded) -> usize {
    let reader = store.read().unwrap();
    (0..100).filter(|number| reader.is_denied(TABLE, &key((1 << 40) + number))).count()
}

#[test]
fn absent_keys_of_a_table_with_a_filter_are_denied_and_no_others() {
    let disk = disk(LogLimits::default());
    let store = disk.open().unwrap();
    put(&store, 0..500);
    store.merge();
    assert_eq!(denied(&store), 0, "no filter yet");
    store.fill_filter(TABLE);
    assert_eq!(denied(&store), 100);
    // What comes afterwards, in the engine and before it is there.
    put(&store, 500..600);
    let earlier = store.read().unwrap();
    assert!((0..600).all(|number| is_there(&earlier, number)));
    drop(earlier);
    store.merge();
    let reader = store.read().unwrap();
    assert!((0..600).all(|number| is_there(&reader, number) && !reader.is_denied(TABLE, &key(number))));
    assert!(!(600..2000).any(|number| is_there(&reader, number)));
    drop(reader);
    drop(store);
    // Opened again, the store knows of none, and fills another.
    let store = disk.open().unwrap();
    assert_eq!(store.filter_keys(TABLE), None);
    store.fill_filter(TABLE);
    assert_eq!(denied(&store), 100);
    let reader = store.read().unwrap();
    assert!((0..600).all(|number| is_there(&reader, number)));
}

/// Of keys that come while a filter is filled, some are where its thread has been.
#[test]
fn what_comes_into_the_engine_while_a_filter_is_filled_is_in_it() {
    let store = disk(LogLimits::default()).open().unwrap();
    put(&store, 0..500);
    store.merge();
    let mut steps = 0;
    store.fill_filter_while(TABLE, &mut || {
        steps += 1;
        put(&store, 1000 * steps..1000 * steps + 10);
        store.merge();
    });
    assert!(steps > 20);
    let reader = store.read().unwrap();
    assert!((1..=steps).all(|step| (0..10).all(|number| is_there(&reader, 1000 * step + number))));
    assert!((0..500).all(|number| is_there(&reader, number)));
    assert_eq!(denied(&store), 100);
}

#[test]
fn a_filter_is_filled_by_itself_when_absent_keys_are_looked_for() {
    let store = disk(LogLimits { absent_min: 50, ..LogLimits::default() }).open().unwrap();
    put(&store, 0..100);
    store.merge();
    let reader = store.read().unwrap();
    assert!(!(1000..1030).any(|number| is_there(&reader, number)));
    drop(reader);
    assert_eq!(store.filter_keys(TABLE), None);
    // It ends when the filter is there.
    while store.filter_keys(TABLE).is_none() {
        let reader = store.read().unwrap();
        assert!(!(1000..1030).any(|number| is_there(&reader, number)));
        assert!((0..100).all(|number| is_there(&reader, number)));
    }
    assert_eq!(denied(&store), 100);
}

/// One that was opened before the filter was complete has what was removed before the filter's thread came by.
#[test]
fn a_snapshot_older_than_a_filter_does_not_use_it() {
    let store = disk(LogLimits::default()).open().unwrap();
    put(&store, 0..100);
    store.merge();
    let older = store.read().unwrap();
    let mut writer = store.write().unwrap();
    (0..50).for_each(|number| assert!(writer.delete(TABLE, &key(number)).unwrap()));
    writer.commit(Durability::Durable).unwrap();
    store.merge();
    store.fill_filter(TABLE);
    assert!((0..100).all(|number| is_there(&older, number)));
    let newer = store.read().unwrap();
    assert!((0..100).all(|number| is_there(&newer, number) == (number >= 50)));
    assert!((0..50).all(|number| newer.is_denied(TABLE, &key(number))), "they were gone before");
}

/// A device that fails and is opened again has, in place of later commits, what an earlier one left.
#[test]
fn what_a_failed_device_goes_back_to_is_not_denied() {
    let disk = disk(LogLimits::default());
    let store = disk.open().unwrap();
    put(&store, 0..100);
    store.merge();
    store.fill_filter(TABLE);
    disk.file.fail_after(0);
    let mut writer = store.write().unwrap();
    (0..100).for_each(|number| assert!(writer.delete(TABLE, &key(number)).unwrap()));
    assert!(writer.commit(Durability::Durable).is_err());
    disk.file.heal();
    let reader = loop {
        // Until the pause after the failure is over.
        match store.read() {
            Ok(reader) => break reader,
            Err(_) => std::thread::yield_now(),
        }
    };
    assert_eq!(store.filter_keys(TABLE), None, "it is another opening");
    assert!((0..100).all(|number| is_there(&reader, number)));
}

/// Filters are filled, and given up, while keys come, go and are merged; whoever reads finds each key
/// that was acknowledged before, and stays.
#[test]
fn no_reader_misses_a_key_while_filters_are_filled() {
    let store = disk(NARROW).open().unwrap();
    let (acknowledged, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    let there = acknowledged.load(Ordering::Acquire);
                    let reader = store.read().unwrap();
                    for number in (0..there).rev().step_by(7) {
                        assert!(is_there(&reader, number), "{number} of {there}");
                    }
                    assert!(!is_there(&reader, (1 << 40) + there));
                }
            });
        }
        for batch in 0..150_u64 {
            put(&store, batch * 20..(batch + 1) * 20);
            acknowledged.store((batch + 1) * 20, Ordering::Release);
            // Some come and go, too.
            let passing = (1 << 50) + batch;
            put(&store, std::iter::once(passing));
            let mut writer = store.write().unwrap();
            assert!(writer.delete(TABLE, &key(passing)).unwrap());
            writer.commit(Durability::Relaxed).unwrap();
            if batch % 10 == 9 {
                store.merge();
            }
            if batch % 30 == 29 {
                store.forget_filters();
            }
        }
        is_over.store(true, Ordering::Release);
    });
}

#[derive(Clone, Debug)]
enum Happening {
    Put(u8),
    Delete(u8),
    Commit(bool),
    Merge,
    Fill,
    Forget,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (0..60_u8).prop_map(Happening::Put),
        3 => (0..60_u8).prop_map(Happening::Delete),
        3 => any::<bool>().prop_map(Happening::Commit),
        2 => Just(Happening::Merge),
        2 => Just(Happening::Fill),
        1 => Just(Happening::Forget),
    ]
}

/// What keys are; none where they were removed.
type Model = BTreeMap<u8, Option<u64>>;

fn commit(store: &Embedded, changes: &Model, is_durable: bool) {
    let mut writer = store.write().unwrap();
    for (number, value) in changes {
        let name = key(u64::from(*number));
        match value {
            Some(value) => writer.put(TABLE, &name, &value.to_be_bytes()).unwrap(),
            None => drop(writer.delete(TABLE, &name).unwrap()),
        }
    }
    writer.commit(if is_durable { Durability::Durable } else { Durability::Relaxed }).unwrap();
}

fn check(reader: &impl Read, expected: &Model) -> Result<(), TestCaseError> {
    for number in 0..60_u8 {
        let found = reader.get(TABLE, &key(u64::from(number))).unwrap();
        prop_assert_eq!(reader.contains(TABLE, &key(u64::from(number))).unwrap(), found.is_some());
        let found = found.map(|found| u64::from_be_bytes(found.as_ref().try_into().unwrap()));
        prop_assert_eq!(found, expected.get(&number).copied().flatten());
    }
    Ok(())
}

/// What happens between an opening of the store and its closing.
fn live(store: &Embedded, happenings: Vec<Happening>, committed: &mut Model) -> Result<(), TestCaseError> {
    let (mut pending, mut older) = (Model::new(), VecDeque::new());
    for (happening, value) in happenings.into_iter().zip(0_u64..) {
        match happening {
            Happening::Put(number) => drop(pending.insert(number, Some(value))),
            Happening::Delete(number) => drop(pending.insert(number, None)),
            Happening::Commit(is_durable) => {
                commit(store, &pending, is_durable);
                committed.append(&mut pending);
            }
            Happening::Merge => store.merge(),
            Happening::Fill => store.fill_filter(TABLE),
            Happening::Forget => store.forget_filters(),
        }
        older.push_back((store.read().unwrap(), committed.clone()));
        if older.len() > 5 {
            older.pop_front();
        }
        // The newest first: what it reads and keeps is not for those before it.
        older.iter().rev().try_for_each(|(reader, expected)| check(reader, expected))?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Whatever happens in whatever order, every snapshot has what was committed when it was opened, and nothing else.
    #[test]
    fn snapshots_have_what_was_committed(
        lives in prop::collection::vec(prop::collection::vec(happening(), 1..40), 1..4),
    ) {
        let disk = disk(LogLimits { absent_min: 20, ..LogLimits::default() });
        let mut committed = Model::new();
        for happenings in lives {
            let store = disk.open().unwrap();
            check(&store.read().unwrap(), &committed)?;
            live(&store, happenings, &mut committed)?;
        }
    }
}
