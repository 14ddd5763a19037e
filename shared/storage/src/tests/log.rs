//! The write-ahead log: what it holds is there after a crash, what is missing in it is noticed, and it does not stay.

use super::history;
use super::power::{Disk, Images, empty_image};
use crate::embedded::LogLimits;
use crate::{Durability, Embedded, Read, Storage, StorageError, Table, Write};
use std::path::Path;
use std::time::Duration;

/// Length of a record's header, and what it begins with.
const HEADER_BYTES: usize = 48;
const MAGIC: &[u8] = b"ARRASWAL";

/// What a crash leaves of a store with `commits` commits, the file behind the log, and where the log's records begin.
fn crashed(commits: u64) -> (Images, Vec<usize>) {
    let disk = Disk::holding(Images { file: empty_image(), log: Some(Vec::new()) });
    let store = disk.open().unwrap();
    (1..=commits).for_each(|number| history::commit(&store, number).unwrap());
    let images = disk.after_power_loss(|| true);
    let log = images.log.as_deref().unwrap();
    let records = (0..log.len()).step_by(8).filter(|at| log[*at..].starts_with(MAGIC)).collect();
    (images, records)
}

fn opened(images: &Images) -> Result<u64, StorageError> {
    Ok(history::check(&Disk::holding(images.clone()).open()?))
}

#[test]
fn a_log_cut_in_its_last_record_gives_what_is_before_it_and_a_hole_before_the_last_is_damage() {
    let (images, records) = crashed(60);
    assert!(records.len() >= 10, "{records:?}");
    assert_eq!(opened(&images).unwrap(), 60);
    let last = *records.last().unwrap();
    let before = |record: usize| 5 * (records.iter().position(|at| *at == record).unwrap() as u64);
    for at in [last, last + 9, last + HEADER_BYTES - 1, last + HEADER_BYTES, last + HEADER_BYTES + 500] {
        let mut torn = images.clone();
        torn.log.as_mut().unwrap()[at] ^= 1;
        assert_eq!(opened(&torn).unwrap(), before(last), "byte {at}");
    }
    for record in records.iter().rev().skip(1) {
        for at in [0, 9, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 60] {
            let mut damaged = images.clone();
            damaged.log.as_mut().unwrap()[record + at] ^= 1;
            let outcome = opened(&damaged);
            assert!(
                matches!(outcome, Err(StorageError::Damaged(_))),
                "byte {at} of the record at {record}: {outcome:?}"
            );
        }
    }
}

#[test]
fn a_log_of_another_time_is_not_taken_for_this_ones() {
    let (images, _) = crashed(60);
    let disk = Disk::holding(images.clone());
    drop(disk.open().unwrap());
    let closed = disk.after_power_loss(|| true);
    assert_eq!(closed.log.as_deref(), Some([].as_slice()), "it is cut");
    // What was left over: all of it is in the file.
    assert_eq!(opened(&Images { log: images.log.clone(), ..closed.clone() }).unwrap(), 60);
    // One of a later time than the file, and one of another store.
    let disk = Disk::holding(closed.clone());
    let store = disk.open().unwrap();
    (61..=80).for_each(|number| history::commit(&store, number).unwrap());
    drop(store);
    let disk = Disk::holding(disk.after_power_loss(|| true));
    let store = disk.open().unwrap();
    (81..=90).for_each(|number| history::commit(&store, number).unwrap());
    let later = disk.after_power_loss(|| true);
    let (others, _) = crashed(100);
    for log in [later.log, others.log] {
        let outcome = opened(&Images { file: closed.file.clone(), log });
        assert!(matches!(outcome, Err(StorageError::Damaged(_))), "{outcome:?}");
    }
}

/// A transaction that began before the store went back to an earlier commit was made of what is gone.
#[test]
fn a_transaction_that_spans_a_setback_is_refused() {
    let disk = Disk::holding(Images { file: empty_image(), log: Some(Vec::new()) });
    let store = disk.open().unwrap();
    let put = |key: &[u8], durability| {
        let mut writer = store.write().unwrap();
        writer.put(Table("t"), key, b"x").unwrap();
        writer.commit(durability)
    };
    put(b"1", Durability::Durable).unwrap();
    put(b"2", Durability::Relaxed).unwrap();
    let mut writer = store.write().unwrap();
    assert!(writer.get(Table("t"), b"2").unwrap().is_some());
    writer.put(Table("t"), b"3", b"made of 2").unwrap();
    // The device fails under what the engine does when nothing is written for a while.
    disk.file.fail_after(0);
    while store.is_ready() {
        std::thread::sleep(Duration::from_millis(20));
    }
    disk.file.heal();
    while store.read().is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Past the pause in which every write is refused.
    std::thread::sleep(Duration::from_secs(3));
    let outcome = writer.commit(Durability::Durable);
    assert!(matches!(outcome, Err(StorageError::Environment(_))), "{outcome:?}");
}

/// Without changes of its own, it makes the relaxed ones before it durable, or says that it did not.
#[test]
fn an_empty_durable_commit_is_not_acknowledged_if_what_it_is_for_is_lost() {
    let disk = Disk::holding(Images { file: empty_image(), log: Some(Vec::new()) });
    let store = disk.open().unwrap();
    (1..=4).for_each(|number| history::commit(&store, number).unwrap());
    disk.file.lose_at_sync_after(0);
    disk.log.as_ref().unwrap().lose_at_sync_after(0);
    let outcome = store.write().unwrap().commit(Durability::Durable);
    let left = disk.after_power_loss(|| false);
    let found = history::check(&Disk::holding(left).open().unwrap());
    assert!(outcome.is_err() || found == 4, "{outcome:?}: {found} of 4 are there");
}

#[test]
fn a_log_that_is_full_starts_over() {
    let disk = Disk::holding(Images { file: empty_image(), log: Some(Vec::new()) });
    let store = disk.open().unwrap();
    let value = vec![7; 1 << 20];
    let longest = LogLimits::default().log_bytes + (4 << 20);
    let durable = |number: u64| {
        let mut writer = store.write().unwrap();
        writer.put(Table("large"), &(number % 3).to_be_bytes(), &value).unwrap();
        writer.put(Table("large"), b"number", &number.to_be_bytes()).unwrap();
        writer.commit(Durability::Durable).unwrap();
    };
    for number in 1..=250 {
        durable(number);
        let images = disk.after_power_loss(|| false);
        assert!(images.log.as_ref().unwrap().len() as u64 <= longest);
        if number % 20 == 0 {
            let store = Disk::holding(images).open().unwrap();
            let found = store.read().unwrap().get(Table("large"), b"number").unwrap();
            assert_eq!(found.as_deref(), Some(number.to_be_bytes().as_slice()));
        }
    }
}

fn log(directory: &Path) -> Vec<u8> {
    std::fs::read(directory.join("arras.wal")).unwrap()
}

/// It shows in which order things were written.
#[test]
fn a_log_is_cleared_when_nothing_is_written_any_more_and_cut_when_the_store_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path()).unwrap();
    (1..=10).for_each(|number| history::commit(&store, number).unwrap());
    assert!(log(directory.path()).iter().any(|byte| *byte != 0), "it was not written to");
    while log(directory.path()).iter().any(|byte| *byte != 0) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(history::check(&store), 10);
    (11..=20).for_each(|number| history::commit(&store, number).unwrap());
    drop(store);
    assert!(log(directory.path()).is_empty());
    assert_eq!(history::check(&Embedded::open(directory.path()).unwrap()), 20);
}

/// Where the records are, with the number of the first commit of each.
fn records(log: &[u8]) -> Vec<(usize, u64)> {
    let at = (0..log.len()).step_by(8).filter(|at| log[*at..].starts_with(MAGIC));
    at.map(|at| (at, u64::from_le_bytes(log[at + 16..at + 24].try_into().unwrap()))).collect()
}

/// While commits go on the engine makes earlier ones durable, and the log goes on where theirs were, never the whole
/// of it at once free.
#[test]
fn a_log_goes_on_at_its_beginning_as_far_as_that_is_free() {
    let limits = LogLimits {
        log_bytes: 64 << 10,
        pending_bytes: 4 << 10,
        memtable_bytes: 1 << 20,
        ..LogLimits::default()
    };
    let disk = Disk::holding(Images { file: empty_image(), log: Some(Vec::new()) }).with(limits);
    let store = disk.open().unwrap();
    let value = |number: u64| vec![number.to_le_bytes()[0]; 1000 + (number * 7919 % 3000) as usize];
    let (mut laps, mut wrapped) = (0, 0);
    for number in 1..=200_u64 {
        let mut writer = store.write().unwrap();
        writer.put(Table("t"), &(number % 50).to_be_bytes(), &value(number)).unwrap();
        writer.commit(Durability::Durable).unwrap();
        if number % 5 == 0 {
            store.merge();
        }
        let images = disk.after_power_loss(|| false);
        let log = images.log.clone().unwrap();
        assert!(log.len() <= 1 << 20);
        let records = records(&log);
        let (newest, _) = *records.iter().max_by_key(|(_, first)| *first).unwrap();
        laps += u64::from(newest == 0);
        wrapped += u64::from(records.iter().any(|(at, _)| *at > newest));
        let crashed = Disk::holding(images).with(limits);
        // Twice: also what the first opening leaves is opened.
        for opening in 1..=2 {
            let store = crashed.open().unwrap();
            let reader = store.read().unwrap();
            for kept in number.saturating_sub(49).max(1)..=number {
                let found = reader.get(Table("t"), &(kept % 50).to_be_bytes()).unwrap();
                assert_eq!(found.as_deref(), Some(value(kept).as_slice()), "{kept} of {number}, {opening}");
            }
        }
    }
    assert!(laps > 2 && wrapped > 50, "{laps} laps, {wrapped} times within one");
}
