//! Counting what passes through a store.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Direction, Durability, KeyRange, Read, Storage, StorageError, Table, Take, Visit, Write};

/// What has passed since the store was wrapped, or between two readings (`-`). Keys and values alone are counted,
/// not what an engine reads or writes to serve them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls of [`Read::get`], hit or miss.
    pub gets: u64,
    /// Calls of [`Read::scan`].
    pub scans: u64,
    /// Entries visited by scans.
    pub scanned: u64,
    /// Calls of [`Write::put`], those rolled back too.
    pub puts: u64,
    /// Keys removed by [`Write::delete`] and [`Write::delete_prefix`], those rolled back too.
    pub deletes: u64,
    /// Durable commits.
    pub durable_commits: u64,
    /// Relaxed commits.
    pub relaxed_commits: u64,
    /// Bytes of the values got, and of the keys and values scanned.
    pub bytes_read: u64,
    /// Bytes of the keys and values put, committed or not.
    pub bytes_written: u64,
}

impl std::ops::Sub for Counts {
    type Output = Self;

    /// What passed between the reading `before` and this one.
    fn sub(self, before: Self) -> Self {
        Self {
            gets: self.gets.wrapping_sub(before.gets),
            scans: self.scans.wrapping_sub(before.scans),
            scanned: self.scanned.wrapping_sub(before.scanned),
            puts: self.puts.wrapping_sub(before.puts),
            deletes: self.deletes.wrapping_sub(before.deletes),
            durable_commits: self.durable_commits.wrapping_sub(before.durable_commits),
            relaxed_commits: self.relaxed_commits.wrapping_sub(before.relaxed_commits),
            bytes_read: self.bytes_read.wrapping_sub(before.bytes_read),
            bytes_written: self.bytes_written.wrapping_sub(before.bytes_written),
        }
    }
}

#[derive(Debug, Default)]
struct Counters {
    gets: AtomicU64,
    scans: AtomicU64,
    scanned: AtomicU64,
    puts: AtomicU64,
    deletes: AtomicU64,
    durable_commits: AtomicU64,
    relaxed_commits: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

/// A handle to the counters of an [`Accounted`], which outlives the moment the store is handed over.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Counters>);

impl Tally {
    /// The counts now.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.0;
        Counts {
            gets: read(&counters.gets),
            scans: read(&counters.scans),
            scanned: read(&counters.scanned),
            puts: read(&counters.puts),
            deletes: read(&counters.deletes),
            durable_commits: read(&counters.durable_commits),
            relaxed_commits: read(&counters.relaxed_commits),
            bytes_read: read(&counters.bytes_read),
            bytes_written: read(&counters.bytes_written),
        }
    }
}

/// A store that counts what passes, in [`Tally`].
#[derive(Debug)]
pub struct Accounted<S> {
    store: S,
    tally: Tally,
}

impl<S> Accounted<S> {
    /// Counts what passes to and from `store`.
    pub fn new(store: S) -> Self {
        Self { store, tally: Tally::default() }
    }

    /// The counters.
    pub fn tally(&self) -> Tally {
        self.tally.clone()
    }

    /// The store inside.
    pub fn into_inner(self) -> S {
        self.store
    }
}

/// A transaction of an [`Accounted`] store.
#[derive(Debug)]
pub struct AccountedTransaction<T> {
    transaction: T,
    tally: Tally,
}

impl<T: Read> Read for AccountedTransaction<T> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        add(&self.tally.0.gets, 1);
        let value = self.transaction.get(table, key)?;
        add(&self.tally.0.bytes_read, value.as_ref().map_or(0, Bytes::len));
        Ok(value)
    }

    fn get_many(
        &self,
        table: Table,
        keys: &mut dyn Iterator<Item = Vec<u8>>,
        take: &mut Take<'_>,
    ) -> Result<(), StorageError> {
        self.transaction.get_many(table, keys, &mut |value| {
            add(&self.tally.0.gets, 1);
            add(&self.tally.0.bytes_read, value.as_ref().map_or(0, Bytes::len));
            take(value)
        })
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        add(&self.tally.0.scans, 1);
        self.transaction.scan(table, range, direction, &mut |key, value| {
            add(&self.tally.0.scanned, 1);
            add(&self.tally.0.bytes_read, key.len() + value.len());
            visit(key, value)
        })
    }
}

impl<T: Write> Write for AccountedTransaction<T> {
    fn put_owned(&mut self, table: Table, key: &[u8], value: Bytes) -> Result<(), StorageError> {
        add(&self.tally.0.puts, 1);
        add(&self.tally.0.bytes_written, key.len() + value.len());
        self.transaction.put_owned(table, key, value)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, StorageError> {
        let present = self.transaction.delete(table, key)?;
        add(&self.tally.0.deletes, usize::from(present));
        Ok(present)
    }

    fn delete_prefix(&mut self, table: Table, prefix: &[u8], keys_max: usize) -> Result<u64, StorageError> {
        let removed = self.transaction.delete_prefix(table, prefix, keys_max)?;
        self.tally.0.deletes.fetch_add(removed, Ordering::Relaxed);
        Ok(removed)
    }

    fn savepoint(&mut self) {
        self.transaction.savepoint();
    }

    fn roll_back(&mut self) {
        self.transaction.roll_back();
    }

    fn commit(self, durability: Durability) -> Result<(), StorageError> {
        self.transaction.commit(durability)?;
        let counter = match durability {
            Durability::Durable => &self.tally.0.durable_commits,
            Durability::Relaxed => &self.tally.0.relaxed_commits,
        };
        add(counter, 1);
        Ok(())
    }
}

impl<S: Storage> Storage for Accounted<S> {
    type Reader<'a> = AccountedTransaction<S::Reader<'a>>;
    type Writer<'a> = AccountedTransaction<S::Writer<'a>>;

    fn read(&self) -> Result<Self::Reader<'_>, StorageError> {
        Ok(AccountedTransaction { transaction: self.store.read()?, tally: self.tally.clone() })
    }

    fn write(&self) -> Result<Self::Writer<'_>, StorageError> {
        Ok(AccountedTransaction { transaction: self.store.write()?, tally: self.tally.clone() })
    }

    fn engine(&self) -> String {
        self.store.engine()
    }

    fn is_ready(&self) -> bool {
        self.store.is_ready()
    }

    fn setbacks(&self) -> u64 {
        self.store.setbacks()
    }
}
