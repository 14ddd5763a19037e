//! Page I/O: a store that counts how many pages pass to and from it behind a cache.
//!
//! *Counting rule.* A value of `n` bytes, got or put under a key, is `n / page_bytes` pages, rounded up, at least
//! one (an absent value is one, too: something was looked at). A page in the cache costs nothing, read or written;
//! any other costs one read or one write and takes a place in the cache. Scanned values of more than half a page
//! have pages of their own; smaller ones share pages in the order of their keys, keys included. A removal is one
//! page written. What an engine itself reads or writes is not looked at: the count is the protocol's, the same over
//! every engine.

mod cache;
#[cfg(test)]
mod tests;

use arras_storage::{
    Bytes, Direction, Durability, KeyRange, Read, Storage, StorageError, Table, Visit, Write,
};
use cache::Cache;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which page leaves a full cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CachePolicy {
    /// The one that came first.
    Fifo,
    /// The one used least often, of those the one used least recently.
    Lfu,
    /// The one used least recently.
    #[default]
    Lru,
}

impl CachePolicy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Lru, Self::Lfu, Self::Fifo];

    /// Its name in results and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Lfu => "lfu",
            Self::Lru => "lru",
        }
    }
}

/// How pages are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSettings {
    /// Size of a page, in bytes.
    pub page_bytes: usize,
    /// Pages the cache holds.
    pub cache_pages: usize,
    /// Which page leaves it.
    pub policy: CachePolicy,
}

/// Pages cannot be counted so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageSettingsError {
    /// A cache of no page.
    #[error("a cache has at least one page")]
    NoCache,
    /// Pages of no byte.
    #[error("a page has at least one byte")]
    NoPage,
}

/// Pages that passed, cache hits not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCounts {
    /// Pages read.
    pub reads: u64,
    /// Pages written.
    pub writes: u64,
}

impl std::ops::Sub for PageCounts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { reads: self.reads - before.reads, writes: self.writes - before.writes }
    }
}

#[derive(Debug)]
struct State {
    cache: Cache,
    counts: PageCounts,
    tables: BTreeSet<Table>,
}

/// The counts of a [`Paged`] store, to be had while the store is elsewhere.
#[derive(Clone, Debug)]
pub struct PageTally {
    state: Arc<Mutex<State>>,
    page_bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl PageTally {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pages so far.
    #[must_use]
    pub fn counts(&self) -> PageCounts {
        self.lock().counts
    }

    /// Tables written to so far.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        self.lock().tables.iter().copied().collect()
    }

    fn touch(&self, table: Table, key: &[u8], value_bytes: usize, access: Access) {
        let pages = value_bytes.div_ceil(self.page_bytes).max(1);
        let mut state = self.lock();
        let missed = state.cache.touch(table, key, pages);
        match access {
            Access::Read => state.counts.reads += missed,
            Access::Write => {
                state.counts.writes += missed;
                if !state.tables.contains(&table) {
                    state.tables.insert(table);
                }
            }
        }
    }
}

/// A store that counts pages.
#[derive(Debug)]
pub struct Paged<S> {
    store: S,
    tally: PageTally,
}

impl<S: Storage> Paged<S> {
    /// Counts the pages that pass to and from `store`.
    ///
    /// # Errors
    /// [`PageSettingsError`].
    pub fn new(store: S, settings: PageSettings) -> Result<Self, PageSettingsError> {
        if settings.page_bytes == 0 {
            return Err(PageSettingsError::NoPage);
        }
        if settings.cache_pages == 0 {
            return Err(PageSettingsError::NoCache);
        }
        let cache = Cache::new(settings.cache_pages, settings.policy);
        let state = State { cache, counts: PageCounts::default(), tables: BTreeSet::new() };
        let tally = PageTally { state: Arc::new(Mutex::new(state)), page_bytes: settings.page_bytes };
        Ok(Self { store, tally })
    }

    /// The counts, now and later.
    #[must_use]
    pub fn tally(&self) -> PageTally {
        self.tally.clone()
    }

    /// Bytes of all keys and values in the tables written to. Counts no page.
    ///
    /// # Errors
    /// [`StorageError`] if the engine fails.
    pub fn stored_bytes(&self) -> Result<u64, StorageError> {
        let reader = self.store.read()?;
        let mut bytes = 0;
        for table in self.tally.tables() {
            let everything = (Bound::Unbounded, Bound::Unbounded);
            reader.scan(table, everything, Direction::Ascending, &mut |key, value| {
                bytes += (key.len() + value.len()) as u64;
                ControlFlow::Continue(())
            })?;
        }
        Ok(bytes)
    }
}

/// A transaction of a [`Paged`] store.
#[derive(Debug)]
pub struct PagedTransaction<T> {
    transaction: T,
    tally: PageTally,
}

/// Pages of a scan: which page the next entry lies on.
struct Scanned<'a> {
    tally: &'a PageTally,
    table: Table,
    /// Bytes of small entries on the page that is being filled; none if there is no such page.
    filled_bytes: Option<usize>,
}

impl Scanned<'_> {
    fn pass(&mut self, key: &[u8], value: &[u8]) {
        if value.len() > self.tally.page_bytes / 2 {
            self.tally.touch(self.table, key, value.len(), Access::Read);
            self.filled_bytes = None;
            return;
        }
        let entry_bytes = key.len() + value.len();
        match self.filled_bytes {
            Some(filled_bytes) if filled_bytes + entry_bytes <= self.tally.page_bytes => {
                self.filled_bytes = Some(filled_bytes + entry_bytes);
            }
            _ => {
                self.tally.touch(self.table, key, value.len(), Access::Read);
                self.filled_bytes = Some(entry_bytes);
            }
        }
    }
}

impl<T: Read> Read for PagedTransaction<T> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        let value = self.transaction.get(table, key)?;
        self.tally.touch(table, key, value.as_ref().map_or(0, Bytes::len), Access::Read);
        Ok(value)
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        let mut scanned = Scanned { tally: &self.tally, table, filled_bytes: None };
        self.transaction.scan(table, range, direction, &mut |key, value| {
            scanned.pass(key, value);
            visit(key, value)
        })
    }
}

impl<T: Write> Write for PagedTransaction<T> {
    fn put_owned(&mut self, table: Table, key: &[u8], value: Bytes) -> Result<(), StorageError> {
        self.tally.touch(table, key, value.len(), Access::Write);
        self.transaction.put_owned(table, key, value)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, StorageError> {
        self.tally.touch(table, key, 0, Access::Write);
        self.transaction.delete(table, key)
    }

    fn delete_prefix(&mut self, table: Table, prefix: &[u8], keys_max: usize) -> Result<u64, StorageError> {
        let removed = self.transaction.delete_prefix(table, prefix, keys_max)?;
        self.tally.lock().counts.writes += removed;
        Ok(removed)
    }

    fn savepoint(&mut self) {
        self.transaction.savepoint();
    }

    fn roll_back(&mut self) {
        self.transaction.roll_back();
    }

    fn commit(self, durability: Durability) -> Result<(), StorageError> {
        self.transaction.commit(durability)
    }
}

impl<S: Storage> Storage for Paged<S> {
    type Reader<'a> = PagedTransaction<S::Reader<'a>>;
    type Writer<'a> = PagedTransaction<S::Writer<'a>>;

    fn read(&self) -> Result<Self::Reader<'_>, StorageError> {
        Ok(PagedTransaction { transaction: self.store.read()?, tally: self.tally.clone() })
    }

    fn write(&self) -> Result<Self::Writer<'_>, StorageError> {
        Ok(PagedTransaction { transaction: self.store.write()?, tally: self.tally.clone() })
    }

    fn engine(&self) -> String {
        self.store.engine()
    }
}
