//! A device that loses power: of what was written since the last sync, any part may be missing, by sectors.

use std::io;
use std::sync::{Arc, Mutex};

use redb::StorageBackend;

use super::history;
use crate::embedded::LogLimits;
use crate::embedded::checked::Medium;
use crate::{Durability, Embedded, Read, Storage, StorageError, Table, Write};

const SECTOR: usize = 512;

#[derive(Debug)]
enum Change {
    Len(usize),
    Bytes { offset: usize, bytes: Vec<u8> },
}

#[derive(Debug, Default)]
struct State {
    synced: Vec<u8>,
    /// What a reader sees: the synced bytes with every change.
    seen: Vec<u8>,
    changes: Vec<Change>,
    syncs: u64,
    /// Takes writes of its first block only, as a full disk on which every write takes new space.
    full: bool,
    /// Syncs that succeed before one fails, after which what was to be synced counts as written: only memory has it.
    syncs_left: Option<u64>,
}

impl State {
    /// Brings what was written to the device.
    fn write_back(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            match change {
                Change::Len(len) => self.synced.resize(len, 0),
                Change::Bytes { offset, bytes } => apply(&mut self.synced, offset, &bytes),
            }
        }
    }
}

fn apply(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[offset..end].copy_from_slice(bytes);
}

#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    file: Arc<Mutex<State>>,
    /// Changes still accepted before the device fails, shared by the files on it.
    left: Arc<Mutex<Option<u64>>>,
}

impl Device {
    /// Fails every change after the next `passing` ones, until [`Device::heal`].
    pub(super) fn fail_after(&self, passing: u64) {
        *self.left.lock().unwrap() = Some(passing);
    }

    pub(super) fn heal(&self) {
        *self.left.lock().unwrap() = None;
    }

    /// Loses what is written until the sync after the next `passing` ones, which fails.
    pub(super) fn lose_at_sync_after(&self, passing: u64) {
        self.file.lock().unwrap().syncs_left = Some(passing);
    }

    pub(super) fn refuse_new_blocks(&self, refuse: bool) {
        self.file.lock().unwrap().full = refuse;
    }

    pub(super) fn holding(image: Vec<u8>) -> Self {
        let state = State { synced: image.clone(), seen: image, ..State::default() };
        Self { file: Arc::new(Mutex::new(state)), left: Arc::default() }
    }

    /// Another file on the same device.
    pub(super) fn beside(&self, image: Vec<u8>) -> Self {
        Self { left: Arc::clone(&self.left), ..Self::holding(image) }
    }

    fn is_gone(&self) -> bool {
        *self.left.lock().unwrap() == Some(0)
    }

    fn syncs(&self) -> u64 {
        self.file.lock().unwrap().syncs
    }

    /// What a power loss leaves now: each sector written since the last sync is kept if `keep` says so.
    pub(super) fn after_power_loss(&self, mut keep: impl FnMut() -> bool) -> Vec<u8> {
        let state = self.file.lock().unwrap();
        let mut image = state.synced.clone();
        for change in &state.changes {
            match change {
                Change::Len(len) if keep() => image.resize(*len, 0),
                Change::Len(_) => {}
                Change::Bytes { offset, bytes } => {
                    for (position, sector) in bytes.chunks(SECTOR).enumerate() {
                        if keep() {
                            apply(&mut image, offset + position * SECTOR, sector);
                        }
                    }
                }
            }
        }
        image
    }

    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.file.lock().unwrap();
        match &mut *self.left.lock().unwrap() {
            Some(0) => return Err(io::Error::other("the device is gone")),
            Some(left) => *left -= 1,
            None => {}
        }
        if state.full && !matches!(&change, Change::Bytes { offset: 0, .. }) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match &change {
            Change::Len(len) => state.seen.resize(*len, 0),
            Change::Bytes { offset, bytes } => apply(&mut state.seen, *offset, bytes),
        }
        state.changes.push(change);
        Ok(())
    }
}

impl Medium for Device {
    fn forget_cached(&self) -> io::Result<()> {
        let mut state = self.file.lock().unwrap();
        if !self.is_gone() {
            state.write_back();
        }
        state.seen = state.synced.clone();
        Ok(())
    }
}

impl StorageBackend for Device {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.lock().unwrap().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.file.lock().unwrap();
        let offset = usize::try_from(offset).unwrap();
        let bytes = state.seen.get(offset..offset + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::Len(usize::try_from(len).unwrap()))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.file.lock().unwrap();
        if self.is_gone() {
            return Err(io::Error::other("the device is gone"));
        }
        state.syncs += 1;
        match &mut state.syncs_left {
            Some(0) => {
                state.syncs_left = None;
                // As Linux has it: what could not be written counts as written.
                state.changes.clear();
                return Err(io::Error::other("the device lost what was written"));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        state.write_back();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Change::Bytes { offset: usize::try_from(offset).unwrap(), bytes: data.to_vec() })
    }
}

/// What a store's files hold.
#[derive(Clone)]
pub(super) struct Images {
    pub(super) file: Vec<u8>,
    pub(super) log: Option<Vec<u8>>,
}

/// A store's file, and its log if it has one, on one device.
pub(super) struct Disk {
    pub(super) file: Device,
    pub(super) log: Option<Device>,
    pub(super) limits: LogLimits,
}

/// A log that starts over all the time.
pub(super) const NARROW: LogLimits = LogLimits {
    log_bytes: 256 << 10,
    pending_bytes: 24 << 10,
    memtable_bytes: 32 << 10,
    relaxed_bytes: 80 << 10,
    share_bytes: 64 << 10,
    absent_min: 1,
};

impl Disk {
    pub(super) fn holding(images: Images) -> Self {
        let file = Device::holding(images.file);
        let log = images.log.map(|log| file.beside(log));
        Self { file, log, limits: LogLimits::default() }
    }

    pub(super) fn with(self, limits: LogLimits) -> Self {
        Self { limits, ..self }
    }

    pub(super) fn open(&self) -> Result<Embedded, StorageError> {
        match &self.log {
            Some(log) => Embedded::open_backends(self.file.clone(), log.clone(), self.limits),
            None => Embedded::open_backend(self.file.clone()),
        }
    }

    pub(super) fn after_power_loss(&self, mut keep: impl FnMut() -> bool) -> Images {
        let log = self.log.as_ref().map(|log| log.after_power_loss(&mut keep));
        Images { file: self.file.after_power_loss(keep), log }
    }
}

/// A small generator (splitmix64).
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// An empty store's file, synced.
pub(super) fn empty_image() -> Vec<u8> {
    let device = Device::default();
    drop(Embedded::open_backend(device.clone()).unwrap());
    device.after_power_loss(|| true)
}

#[test]
fn relaxed_commits_wait_for_no_device_and_durable_ones_do() {
    let device = Device::holding(empty_image());
    let store = Embedded::open_backend(device.clone()).unwrap();
    // The first commit after an opening marks the file as open, and waits for that mark.
    history::commit(&store, 1).unwrap();
    let mut relaxed = 0;
    for number in 2..=120 {
        let before = (device.syncs(), device.len().unwrap());
        history::commit(&store, number).unwrap();
        let grown = device.len().unwrap() > before.1;
        match history::durability(number) {
            Durability::Durable => assert!(device.syncs() > before.0, "commit {number}"),
            // The engine waits for the file's new length; it doubles each time.
            Durability::Relaxed if grown => {}
            Durability::Relaxed => {
                assert_eq!(device.syncs(), before.0, "commit {number}");
                relaxed += 1;
            }
        }
    }
    assert!(relaxed > 80, "the file grew in most commits");
}

#[test]
fn what_many_relaxed_commits_changed_is_written() {
    let limits = LogLimits { relaxed_bytes: 20 << 10, ..LogLimits::default() };
    let disk = Disk::holding(Images { file: empty_image(), log: Some(Vec::new()) }).with(limits);
    let store = disk.open().unwrap();
    let merge = |number: u8| {
        let mut writer = store.write().unwrap();
        writer.put(Table("t"), &[number], &[number; 8 << 10]).unwrap();
        writer.commit(Durability::Relaxed).unwrap();
        store.merge();
        let left = Disk::holding(disk.after_power_loss(|| false)).with(limits).open().unwrap();
        let reader = left.read().unwrap();
        (0..=number).filter(|of| reader.contains(Table("t"), &[*of]).unwrap()).count()
    };
    // Of three times 8 KiB.
    assert_eq!([0, 1, 2, 3, 4, 5].map(merge), [0, 0, 3, 3, 3, 6]);
}

/// Power goes at a random change to the device, in the middle of a commit as well as between commits.
fn survive_power_losses(log: Option<LogLimits>) {
    let (with_log, limits) = (log.is_some(), log.unwrap_or_default());
    let mut seed = 7;
    let empty = Images { file: empty_image(), log: with_log.then(Vec::new) };
    let mut images = empty.clone();
    let (mut last, mut lost) = (0, 0);
    for round in 0..120 {
        if round % 20 == 0 {
            (images, last) = (empty.clone(), 0);
        }
        let disk = Disk::holding(images).with(limits);
        let store = disk.open().unwrap();
        assert_eq!(history::check(&store), last);
        disk.file.fail_after(next(&mut seed) % 120);
        let mut acknowledged = last;
        while history::commit(&store, acknowledged + 1).is_ok() && acknowledged < last + 40 {
            acknowledged += 1;
        }
        let percent = [0, 10, 50, 90, 100][round % 5];
        images = disk.after_power_loss(|| next(&mut seed) % 100 < percent);
        drop(store);
        let found = history::check(&Disk::holding(images.clone()).with(limits).open().unwrap());
        let durable =
            (last..=acknowledged).rev().find(|&number| history::durability(number) == Durability::Durable);
        assert!(
            found >= durable.unwrap_or(last),
            "round {round}: durable {durable:?} was lost, found {found}"
        );
        assert!(found <= acknowledged + 1, "round {round}: commit {found} was never made");
        lost += acknowledged.saturating_sub(found);
        last = found;
    }
    assert!(lost > 0, "no relaxed commit was ever lost: the test shows nothing");
}

#[test]
fn durable_commits_survive_power_losses() {
    survive_power_losses(None);
}

#[test]
fn durable_commits_of_a_log_survive_power_losses() {
    survive_power_losses(Some(LogLimits::default()));
}

#[test]
fn durable_commits_of_a_log_that_starts_over_survive_power_losses() {
    survive_power_losses(Some(NARROW));
}

#[test]
fn a_failing_device_is_the_environments_fault() {
    let device = Device::holding(empty_image());
    let store = Embedded::open_backend(device.clone()).unwrap();
    history::commit(&store, 1).unwrap();
    device.fail_after(0);
    let outcome = (2..=5).try_for_each(|number| history::commit(&store, number));
    // Nobody can look whether the commit is there.
    assert!(matches!(outcome, Err(StorageError::Undecided(_))), "{outcome:?}");
    let outcome = history::commit(&store, 5);
    assert!(matches!(outcome, Err(StorageError::Environment(_))), "{outcome:?}");
}
