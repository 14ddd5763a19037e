//! The counting and the failing wrapper.

use std::ops::{Bound, ControlFlow};

use crate::{
    Accounted, Counts, Direction, Durability, Failing, Memory, Read, Storage, StorageError, Table, Write,
};

const TABLE: Table = Table("table");

#[test]
fn counts_are_exact() {
    let store = Accounted::new(Memory::new());
    let tally = store.tally();
    let mut writer = store.write().unwrap();
    writer.put(TABLE, b"a", b"12345").unwrap();
    writer.put(TABLE, b"bb", b"").unwrap();
    writer.put(TABLE, b"c", b"1").unwrap();
    assert!(writer.delete(TABLE, b"c").unwrap());
    assert!(!writer.delete(TABLE, b"c").unwrap());
    writer.commit(Durability::Durable).unwrap();
    let loaded = tally.counts();
    assert_eq!(
        loaded,
        Counts { puts: 3, deletes: 1, durable_commits: 1, bytes_written: 10, ..Counts::default() }
    );
    let reader = store.read().unwrap();
    assert_eq!(reader.get(TABLE, b"a").unwrap().as_deref(), Some(&b"12345"[..]));
    assert_eq!(reader.get(TABLE, b"z").unwrap(), None);
    let everything = (Bound::Unbounded, Bound::Unbounded);
    reader.scan(TABLE, everything, Direction::Ascending, &mut |_, _| ControlFlow::Break(())).unwrap();
    assert_eq!(
        tally.counts() - loaded,
        Counts { gets: 2, scans: 1, scanned: 1, bytes_read: 11, ..Counts::default() }
    );
    let (before, mut keys) = (tally.counts(), ["a", "z", "a", "bb"].into_iter().map(Vec::from));
    let mut left = 3;
    reader
        .get_many(TABLE, &mut keys, &mut |_| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(tally.counts() - before, Counts { gets: 3, bytes_read: 10, ..Counts::default() });
    drop(store.write().unwrap());
    let mut writer = store.write().unwrap();
    assert_eq!(writer.delete_prefix(TABLE, b"", usize::MAX).unwrap(), 2);
    writer.commit(Durability::Relaxed).unwrap();
    let counts = tally.counts();
    assert_eq!((counts.deletes, counts.durable_commits, counts.relaxed_commits), (3, 1, 1));
}

/// Two puts in one transaction, then one in another.
fn work(store: &impl Storage) -> Result<(), StorageError> {
    let mut writer = store.write()?;
    writer.put(TABLE, b"a", b"1")?;
    writer.put(TABLE, b"b", b"1")?;
    writer.commit(Durability::Durable)?;
    let mut writer = store.write()?;
    writer.put(TABLE, b"c", b"1")?;
    writer.commit(Durability::Relaxed)
}

fn present(store: &Memory) -> String {
    let reader = store.read().unwrap();
    ["a", "b", "c"].into_iter().filter(|key| reader.get(TABLE, key.as_bytes()).unwrap().is_some()).collect()
}

#[test]
fn each_operation_can_fail_once() {
    // write, put, put, commit | write, put, commit
    for (fault, left) in [(0, ""), (1, ""), (2, ""), (3, ""), (4, "ab"), (5, "ab"), (6, "ab"), (7, "abc")] {
        let store = Failing::new(Memory::new());
        let faults = store.faults();
        faults.fail_operation_after(fault);
        let outcome = work(&store);
        assert_eq!(matches!(outcome, Err(StorageError::Environment(_))), fault < 7, "fault {fault}");
        if fault < 7 {
            work(&store).expect("a fault strikes once");
            assert_eq!(faults.operations(), fault + 1 + 7);
        } else {
            assert_eq!(faults.operations(), 7);
        }
        let store = Failing::new(Memory::new());
        store.faults().fail_operation_after(fault);
        let _outcome = work(&store);
        assert_eq!(present(&store.into_inner()), left, "fault {fault}");
    }
}

#[test]
fn each_of_many_look_ups_can_fail() {
    let store = Failing::new(Memory::new());
    work(&store).unwrap();
    let reader = store.read().unwrap();
    for fault in 0..4 {
        store.faults().fail_operation_after(fault);
        let mut answered = 0;
        let mut keys = ["a", "b", "c"].into_iter().map(Vec::from);
        let outcome = reader.get_many(TABLE, &mut keys, &mut |value| {
            assert_eq!(value.as_deref(), Some(&b"1"[..]));
            answered += 1;
            ControlFlow::Continue(())
        });
        assert_eq!((outcome.is_err(), answered), (fault < 3, fault.min(3)), "fault {fault}");
    }
}

#[test]
fn commits_fail_whole() {
    for (fault, left) in [(0, ""), (1, "ab"), (2, "abc")] {
        let store = Failing::new(Memory::new());
        let faults = store.faults();
        faults.fail_commit_after(fault);
        assert_eq!(work(&store).is_err(), fault < 2);
        assert_eq!(faults.commits(), 2.min(fault + 1));
        assert_eq!(present(&store.into_inner()), left);
    }
}

#[test]
fn a_device_that_went_away_stays_away_until_healed() {
    let store = Failing::new(Memory::new());
    let reader = store.read().unwrap();
    store.faults().fail_all();
    assert!(store.read().is_err());
    assert!(store.write().is_err());
    assert!(reader.get(TABLE, b"a").is_err());
    store.faults().heal();
    drop(reader);
    work(&store).unwrap();
    assert_eq!(present(&store.into_inner()), "abc");
}
