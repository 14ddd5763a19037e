//! What one small commit asks of the device.

use crate::embedded::checked::Medium;
use crate::{Durability, Embedded, Storage, Table, Write};
use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls so far.
#[derive(Debug, Default)]
struct Calls {
    lens: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
}

impl Calls {
    /// Of length, reads, writes and syncs.
    fn all(&self) -> [u64; 4] {
        [&self.lens, &self.reads, &self.writes, &self.syncs].map(|calls| calls.load(Ordering::Relaxed))
    }
}

#[derive(Debug)]
struct Device {
    memory: InMemoryBackend,
    calls: Arc<Calls>,
}

impl StorageBackend for Device {
    fn len(&self) -> io::Result<u64> {
        self.calls.lens.fetch_add(1, Ordering::Relaxed);
        self.memory.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.calls.reads.fetch_add(1, Ordering::Relaxed);
        self.memory.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.memory.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.calls.syncs.fetch_add(1, Ordering::Relaxed);
        self.memory.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.calls.writes.fetch_add(1, Ordering::Relaxed);
        self.memory.write(offset, data)
    }
}

impl Medium for Device {
    /// It holds nothing that is not on it.
    fn forget_cached(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The calls of ten durable commits that each change a record of every table.
fn calls_of_ten(tables: [Table; 3]) -> [u64; 4] {
    let calls = Arc::new(Calls::default());
    let device = Device { memory: InMemoryBackend::new(), calls: Arc::clone(&calls) };
    let store = Embedded::open_backend(device).unwrap();
    let commit = |number: u8| {
        let mut writer = store.write().unwrap();
        tables.iter().for_each(|table| writer.put(*table, b"key", &[number]).unwrap());
        writer.commit(Durability::Durable).unwrap();
    };
    (0..10).for_each(commit);
    let before = calls.all();
    (10..20).for_each(commit);
    let after = calls.all();
    std::array::from_fn(|position| after[position] - before[position])
}

#[test]
fn a_commit_only_writes_and_syncs_once() {
    let [lens, reads, _, syncs] = calls_of_ten([Table("a"), Table("b"), Table("c")]);
    assert_eq!((lens, reads, syncs), (0, 0, 10));
}

#[test]
fn tables_of_a_group_are_written_as_one_page() {
    let [_, _, apart, _] = calls_of_ten([Table("a"), Table("b"), Table("c")]);
    let [_, _, together, _] = calls_of_ten([Table("group.a"), Table("group.b"), Table("group.c")]);
    assert_eq!(apart - together, 20, "two pages less a commit of {apart}");
}
