//! What is committed and not in the engine yet is seen by whom it should be, and does not pile up.

use super::history;
use super::power::{Disk, Images, NARROW, empty_image};
use crate::conformance::entries;
use crate::embedded::LogLimits;
use crate::{Direction, Durability, Embedded, Read, Storage, Table, Write};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

const TABLE: Table = Table("t");
const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

fn store(limits: LogLimits) -> Embedded {
    Disk::holding(Images { file: empty_image(), log: Some(Vec::new()) }).with(limits).open().unwrap()
}

fn change(store: &Embedded, changes: &[(u64, Option<u64>)]) {
    let mut writer = store.write().unwrap();
    for (key, value) in changes {
        match value {
            Some(value) => writer.put(TABLE, &key.to_be_bytes(), &value.to_be_bytes()).unwrap(),
            None => assert!(writer.delete(TABLE, &key.to_be_bytes()).unwrap()),
        }
    }
    writer.commit(Durability::Durable).unwrap();
}

/// Whoever reads while commits are made and merged finds the state after one of them, whole.
#[test]
fn readers_find_one_commit_whole_while_others_are_made_and_merged() {
    let store = store(NARROW);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reached = 0;
            while !is_over.load(Ordering::Acquire) {
                let found = history::check(&store);
                assert!(found >= reached, "{found} after {reached}");
                reached = found;
            }
        });
        (1..=600).for_each(|number| history::commit(&store, number).unwrap());
        is_over.store(true, Ordering::Release);
        reader.join().unwrap();
    });
    assert_eq!(history::check(&store), 600);
}

/// A snapshot stays as it was, however often what it shows is rewritten, removed, merged and put again.
#[test]
fn a_snapshot_stays_as_it_was() {
    let store = store(LogLimits { memtable_bytes: 4 << 10, ..LogLimits::default() });
    let mut snapshots = Vec::new();
    for round in 0..40_u64 {
        let changes: Vec<_> = (0..30).map(|key| (key * 7 + round % 3, Some(round))).collect();
        change(&store, &changes);
        snapshots
            .push((store.read().unwrap(), entries(&store.read().unwrap(), TABLE, ALL, Direction::Ascending)));
        let removed: Vec<_> = (0..10).map(|key| (key * 21 + round % 3, None)).collect();
        change(&store, &removed);
        snapshots
            .push((store.read().unwrap(), entries(&store.read().unwrap(), TABLE, ALL, Direction::Ascending)));
        for (snapshot, shown) in &snapshots {
            assert_eq!(&entries(snapshot, TABLE, ALL, Direction::Ascending), shown);
            let mut descending = entries(snapshot, TABLE, ALL, Direction::Descending);
            descending.reverse();
            assert_eq!(&descending, shown);
            for (key, value) in shown {
                assert_eq!(snapshot.get(TABLE, key).unwrap().as_deref(), Some(value.as_slice()));
            }
        }
        if round % 5 == 4 {
            snapshots.drain(..5);
        }
    }
}

/// What comes and goes takes up nothing: a scan past what is gone, before every write, would grow with it.
#[test]
fn what_was_removed_again_is_forgotten() {
    let store = store(LogLimits::default());
    change(&store, &[(0, Some(0))]);
    for number in 1..2000 {
        change(&store, &[(number, Some(number))]);
        change(&store, &[(number, None)]);
    }
    let held = store.memtable_bytes();
    assert!(held < 2000, "{held} bytes");
    // One that hides what the engine has is not forgotten.
    store.merge();
    change(&store, &[(0, Some(1))]);
    change(&store, &[(0, None)]);
    (1..10).for_each(|number| change(&store, &[(number, Some(number))]));
    assert_eq!(store.read().unwrap().get(TABLE, &0_u64.to_be_bytes()).unwrap(), None);
    store.merge();
    assert_eq!(store.memtable_bytes(), 0);
    assert_eq!(store.read().unwrap().get(TABLE, &0_u64.to_be_bytes()).unwrap(), None);
    assert_eq!(entries(&store.read().unwrap(), TABLE, ALL, Direction::Ascending).len(), 9);
}

/// Nor what a reader, while it was there, could still see.
#[test]
fn what_was_rewritten_under_a_reader_is_forgotten_when_it_has_gone() {
    let store = store(LogLimits::default());
    change(&store, &[(1, Some(0)), (2, Some(0))]);
    let reader = store.read().unwrap();
    (0..1000).for_each(|value| change(&store, &[(1, Some(value))]));
    assert_eq!(reader.get(TABLE, &1_u64.to_be_bytes()).unwrap().as_deref(), Some(&[0; 8][..]));
    assert!(store.memtable_bytes() > 100_000);
    drop(reader);
    change(&store, &[(1, Some(7))]);
    change(&store, &[(2, Some(7))]);
    // The log's mark is rewritten with every commit, too.
    let held = store.memtable_bytes();
    assert!(held < 2000, "{held} bytes");
}
