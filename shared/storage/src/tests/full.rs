//! A device that is full for a while: nothing acknowledged is lost, reading goes on, and writing goes on once there
//! is room, all in one opening of the store.

use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::history;
use super::power::{Device, Disk, Images, NARROW, empty_image};
use crate::embedded::LogLimits;
use crate::{Direction, Durability, Embedded, Read, Storage, StorageError, Table, Write};

/// Writes `number` as soon as the store takes it: it leaves a device that failed alone for a moment.
fn commit_when_taken(store: &Embedded, number: u64) {
    for _ in 0..1000 {
        match history::commit(store, number) {
            Ok(()) => return,
            Err(StorageError::Environment(_)) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => panic!("commit {number}: {error}"),
        }
    }
    panic!("the store takes no writes although its device works again");
}

/// Waits until the store is open again: one that could not be opened is left alone for a moment, too.
fn wait_until_open(store: &Embedded) {
    for _ in 0..1000 {
        if store.read().is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the store cannot be read although its device works again");
}

/// The device fails at each of its changes in turn, in every stage of a commit.
fn fail_for_a_while(log: Option<LogLimits>) {
    let (with_log, limits) = (log.is_some(), log.unwrap_or_default());
    // Of these a log changes the device in one of five, and once.
    let commits = if with_log { 400 } else { 40 };
    let images = Images { file: empty_image(), log: with_log.then(Vec::new) };
    let (mut setbacks, mut lost) = (0, 0);
    for passing in 0..120 {
        let disk = Disk::holding(images.clone()).with(limits);
        let store = disk.open().unwrap();
        history::commit(&store, 1).unwrap();
        disk.file.fail_after(passing);
        let mut acknowledged = 1;
        let failure = loop {
            match history::commit(&store, acknowledged + 1) {
                Ok(()) if acknowledged == commits => break None,
                Ok(()) => acknowledged += 1,
                Err(error) => break Some(error),
            }
        };
        disk.file.heal();
        if failure.is_none() {
            continue;
        }
        wait_until_open(&store);
        let found = history::check(&store);
        match failure {
            // It was looked for, and is not there.
            Some(StorageError::Environment(_)) => assert!(found <= acknowledged, "{passing}"),
            Some(StorageError::Undecided(_)) => {}
            failure => panic!("{failure:?}"),
        }
        let durable =
            (1..=acknowledged).rev().find(|number| history::durability(*number) == Durability::Durable);
        assert!(found >= durable.unwrap_or(0), "{passing}: durable {durable:?} lost, found {found}");
        // Whether the commit that failed is there is open only while the store cannot be opened to find out.
        assert!(found <= acknowledged + 1, "{passing}: commit {found} was never made");
        if found == acknowledged + 1 {
            assert_eq!(history::durability(found), Durability::Durable, "{passing}: a relaxed commit failed");
        }
        assert!(store.setbacks() > 0 || found >= acknowledged, "{passing}: a loss that nobody was told of");
        setbacks += store.setbacks();
        lost += acknowledged.saturating_sub(found);
        for number in found + 1..found + 30 {
            commit_when_taken(&store, number);
        }
        assert_eq!(history::check(&store), found + 29);
        drop(store);
        assert_eq!(history::check(&disk.open().unwrap()), found + 29, "{passing}");
    }
    assert!(
        setbacks > 20 && lost > 0,
        "{setbacks} setbacks, {lost} relaxed commits lost: too little happened"
    );
}

#[test]
fn a_device_that_fails_for_a_while_costs_nothing_acknowledged() {
    fail_for_a_while(None);
}

#[test]
fn a_device_with_a_log_that_fails_for_a_while_costs_nothing_acknowledged() {
    fail_for_a_while(Some(LogLimits::default()));
}

#[test]
fn a_device_with_a_log_that_starts_over_and_fails_for_a_while_costs_nothing_acknowledged() {
    fail_for_a_while(Some(NARROW));
}

/// A sync fails, and what it was to bring to the device is in memory alone, where it counts as written: a commit that
/// was acknowledged, also one that was looked for after the failure, survives a loss of power all the same.
fn fail_a_sync(with_log: bool) {
    let images = Images { file: empty_image(), log: with_log.then(Vec::new) };
    let mut failures = 0;
    for passing in 0..12 {
        let disk = Disk::holding(images.clone());
        let store = disk.open().unwrap();
        history::commit(&store, 1).unwrap();
        disk.log.as_ref().unwrap_or(&disk.file).lose_at_sync_after(passing);
        let mut durable = 0;
        for number in 2..60 {
            match history::commit(&store, number) {
                Ok(()) if history::durability(number) == Durability::Durable => durable = number,
                Ok(()) => {}
                Err(_) => {
                    failures += 1;
                    break;
                }
            }
        }
        let left = disk.after_power_loss(|| false);
        let found = history::check(&Disk::holding(left).open().unwrap());
        assert!(found >= durable, "sync {passing}: {durable} was acknowledged as durable, {found} is there");
    }
    assert!(failures >= 10, "{failures} failures: too little happened");
}

#[test]
fn what_a_failed_sync_left_in_memory_alone_does_not_count_as_durable() {
    fail_a_sync(false);
}

#[test]
fn what_a_failed_sync_of_the_log_left_in_memory_alone_does_not_count_as_durable() {
    fail_a_sync(true);
}

/// While the device fails, what is committed can be read.
#[test]
fn a_device_that_takes_no_writes_is_read() {
    let device = Device::holding(empty_image());
    let store = Embedded::open_backend(device.clone()).unwrap();
    let mut number = 0;
    for _ in 0..30 {
        number += 1;
        history::commit(&store, number).unwrap();
    }
    while history::durability(number) != Durability::Durable {
        number += 1;
        history::commit(&store, number).unwrap();
    }
    let open = store.read().unwrap();
    device.refuse_new_blocks(true);
    while history::commit(&store, number + 1).is_ok() {
        number += 1;
    }
    let found = history::check(&store);
    assert!(found > 0);
    // A snapshot from before either still answers or says that it cannot; it never answers with less.
    let answered = open.get(Table("number"), b"");
    assert!(!matches!(answered, Err(StorageError::Damaged(_))), "{answered:?}");
    device.refuse_new_blocks(false);
    commit_when_taken(&store, found + 1);
}

/// A small file system of its own, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// None, and a note, where this process may not mount.
    fn mount(mebibytes: u32) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"])
            .arg(directory.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(directory)),
            refused => {
                eprintln!("SKIPPED: no small file system can be mounted here: {refused:?}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves `kibibytes` free.
    fn fill_up_to(&self, kibibytes: u64) -> PathBuf {
        let system = rustix::fs::statvfs(self.path()).unwrap();
        let free = system.f_bavail * system.f_frsize;
        let ballast = self.path().join("ballast");
        std::fs::write(&ballast, vec![1; usize::try_from(free - (kibibytes << 10)).unwrap()]).unwrap();
        ballast
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

fn put(store: &Embedded, number: u64, bytes: usize, durability: Durability) -> Result<(), StorageError> {
    let mut writer = store.write()?;
    writer.put(Table("rows"), &number.to_be_bytes(), &vec![number as u8; bytes])?;
    writer.commit(durability)
}

fn rows(store: &Embedded) -> u64 {
    let mut rows = 0;
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let reader = store.read().unwrap();
    reader
        .scan(Table("rows"), everything, Direction::Ascending, &mut |_, _| {
            rows += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    rows
}

#[test]
fn a_full_disk_refuses_durable_writes_until_there_is_room() {
    let Some(disk) = SmallDisk::mount(16) else { return };
    let store = Embedded::open(&disk.path().join("data")).unwrap();
    put(&store, 0, 1000, Durability::Durable).unwrap();
    let ballast = disk.fill_up_to(1500);
    let mut written = 1;
    let refusal = loop {
        match put(&store, written, 20_000, Durability::Durable) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(refusal.to_string().contains("no space left"), "{refusal}");
    assert_eq!((rows(&store), store.setbacks()), (written, 0), "refused before the engine met the end");
    std::fs::remove_file(ballast).unwrap();
    put(&store, written, 20_000, Durability::Durable).unwrap();
    drop(store);
    assert_eq!(rows(&Embedded::open(&disk.path().join("data")).unwrap()), written + 1);
}

#[test]
fn a_disk_that_fills_up_under_the_engine_is_lived_through() {
    let Some(disk) = SmallDisk::mount(16) else { return };
    let store = Embedded::open(&disk.path().join("data")).unwrap();
    put(&store, 0, 1000, Durability::Durable).unwrap();
    let ballast = disk.fill_up_to(3000);
    // Held in memory by the engine until a durable commit, for which alone there would be room.
    for number in 1..=300 {
        put(&store, number, 20_000, Durability::Relaxed).unwrap();
    }
    let failure = put(&store, 301, 10, Durability::Durable);
    assert!(matches!(failure, Err(StorageError::Environment(_))), "{failure:?}");
    assert_eq!((rows(&store), store.setbacks()), (1, 1), "back at the last durable commit, and told so");
    std::fs::remove_file(ballast).unwrap();
    let mut taken = false;
    for _ in 0..1000 {
        taken = put(&store, 1, 20_000, Durability::Durable).is_ok();
        if taken {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(taken, "there is room again");
    assert_eq!(rows(&store), 2);
    drop(store);
    assert_eq!(rows(&Embedded::open(&disk.path().join("data")).unwrap()), 2);
}
