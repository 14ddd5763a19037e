#![allow(clippy::unwrap_used)]

use super::super::checked::{Medium, Plain};
use super::*;
use crate::{Storage, Table, Write};
use std::io;
use std::sync::OnceLock;

#[test]
fn what_must_be_opened_again_is_not_ready_and_says_so_without_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let store = crate::Embedded::open(directory.path()).unwrap();
    let engine = &store.engine;
    assert!(engine.is_ready());
    // As while it is opened: nobody can read, or know of an end.
    let opening = engine.current.write().unwrap();
    assert!(!engine.is_ready());
    drop(opening);
    assert!(engine.is_ready());
    engine.setbacks.fetch_add(1, Ordering::AcqRel);
    assert!(!engine.is_ready(), "the device has failed");
    engine.with(|_, _| Ok(())).unwrap();
    assert!(engine.is_ready(), "it was opened again");
    engine.close();
    assert!(!engine.is_ready());
}

/// As when each merge takes longer than relaxed commits take to change as much again.
#[test]
fn the_log_is_cleared_while_relaxed_commits_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let store = crate::Embedded::open(directory.path()).unwrap();
    let engine = &store.engine;
    // In place of the thread that an opening and each commit have begin.
    while engine.is_waiting_for_rest.swap(true, Ordering::AcqRel) {
        std::thread::sleep(NAP / 10);
    }
    let put = |durability| {
        let mut writer = store.write().unwrap();
        (0..1000_u32).for_each(|key| writer.put(Table("t"), &key.to_be_bytes(), &[key as u8; 1000]).unwrap());
        writer.commit(durability).unwrap();
    };
    put(Durability::Durable);
    while engine.clear_log(false) != Clearing::Merged {
        std::thread::sleep(NAP / 10);
    }
    put(Durability::Relaxed);
    while engine.clear_log(true) == Clearing::InPart {}
    assert!(engine.with(|opened, _| Ok(opened.log().unwrap().is_clear())).unwrap());
}

/// A file that notes how much is written to it while nobody can commit.
#[derive(Debug)]
struct Watched {
    file: Plain,
    engine: OnceLock<Weak<Recovering>>,
    held_up: AtomicU64,
}

impl redb::StorageBackend for Watched {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let engine = self.engine.get().and_then(Weak::upgrade);
        let waits = |opened: &Opened, _| opened.log.as_ref().is_some_and(|log| log.try_lock().is_err());
        if engine.and_then(|engine| engine.with_current(waits)) == Some(true) {
            self.held_up.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
        self.file.write(offset, data)
    }
}

impl Medium for Watched {
    fn forget_cached(&self) -> io::Result<()> {
        self.file.forget_cached()
    }
}

/// Two seconds after the last durable commit, too: relaxed ones may go on.
#[test]
fn commits_do_not_wait_while_the_file_takes_what_the_log_holds() {
    let file = tempfile::NamedTempFile::new().unwrap();
    drop(redb::Database::create(file.path()).unwrap());
    let log = Arc::new(Plain(tempfile::tempfile().unwrap()));
    let file = Plain(file.into_file());
    let watched = Arc::new(Watched { file, engine: OnceLock::new(), held_up: AtomicU64::new(0) });
    let device = Arc::clone(&watched) as Arc<dyn Medium>;
    let source = Source::Device(device, Some((log, LogLimits::default())));
    let store = crate::Embedded::over(source, None).unwrap();
    watched.engine.set(Arc::downgrade(&store.engine)).unwrap();
    let mut writer = store.write().unwrap();
    for key in 0..4000_u32 {
        writer.put(Table("t"), &key.to_be_bytes(), &[key as u8; 1000]).unwrap();
    }
    writer.commit(Durability::Durable).unwrap();
    let is_clear = |opened: &Opened, _| Ok(opened.log().unwrap().is_clear() && opened.memtable.is_empty());
    while !store.engine.with(is_clear).unwrap() {
        std::thread::sleep(NAP / 10);
    }
    let held_up = watched.held_up.load(Ordering::Relaxed);
    assert!(held_up < SETTLED_BYTES, "{held_up} bytes of 4 MB were written while commits waited");
}
