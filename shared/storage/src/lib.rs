//! Ordered transactional key-value storage, the interface both processes stand on, with two
//! implementations: [`Memory`], and [`Embedded`] (durable, crash safe).
//!
//! Tables are ordered byte-string maps. A transaction sees a snapshot; one writer at a time, readers never
//! wait. A commit is [`Durability::Durable`] (survives a crash of process and machine once it returns) or
//! [`Durability::Relaxed`] (atomic and ordered, but the latest ones may be lost together by a crash; any later
//! durable commit makes them durable). What a crash leaves is always the state after some prefix of the commits,
//! none of them in part.
//!
//! A write transaction is held in memory until it commits ([`Staged`]), so a bulk load commits in batches.
//!
//! [`Accounted`] counts what passes, [`Failing`] lets a test inject faults, and [`conformance`] is the test body
//! every implementation passes. Why the embedded engine is what it is, and what deletion leaves on the disk:
//! `docs/storage.md`.
//!
//! # Security
//! Nothing here encrypts or authenticates. What is stored is shown to whoever reads the files, with its history:
//! overwritten and deleted bytes stay in the files until their space is used again.
#![forbid(unsafe_code)]

mod accounting;
pub mod conformance;
mod embedded;
mod failing;
mod memory;
pub mod private;
mod range;
mod staged;
#[cfg(test)]
mod tests;

pub use bytes::Bytes;

pub use accounting::{Accounted, Counts, Tally};
pub use embedded::{Embedded, ScrubPace, Scrubbed, Sizes};
pub use failing::{Failing, Faults};
pub use memory::Memory;
pub use range::{prefix_range, selects_nothing};
pub use staged::{Changes, Engine, Staged, Turn};

/// File of a data directory in which the process that has it open may say of itself what it wants.
pub const RUNNING: &str = "running.json";

use std::ops::{Bound, ControlFlow};

/// Name of a table. Tables exist once named; an unwritten one is empty. Names are the program's own, never a
/// user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Table(pub &'static str);

/// When a commit survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Once the commit has returned.
    Durable,
    /// Once a later durable commit has returned.
    Relaxed,
}

/// Direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the lowest key.
    Ascending,
    /// From the highest key.
    Descending,
}

/// What went wrong.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StorageError {
    /// The environment failed (disk full, permission, device).
    #[error("{0}")]
    Environment(String),
    /// The device has no room for a change; nothing of it was tried.
    #[error("{0}")]
    Full(String),
    /// The stored bytes are not what this engine wrote.
    #[error("the data files are damaged: {0}")]
    Damaged(String),
    /// A commit failed in a way that may have left it there, whole, and the store cannot be read to find out.
    #[error("{0}; whether the change is stored is not known")]
    Undecided(String),
    /// Another process has the data directory open.
    #[error("the data directory is in use by another process")]
    InUse,
}

/// Range of keys: lower and upper bound. One whose bounds cross selects nothing. See [`prefix_range`].
pub type KeyRange<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// What a scan does with each key and value, and whether it goes on.
pub type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// What a look-up of many keys does with the value of each, and whether it goes on.
pub type Take<'t> = dyn FnMut(Option<Bytes>) -> ControlFlow<()> + 't;

/// A view of the tables. Keys order as byte strings; keys and values may be empty.
pub trait Read {
    /// The value of `key`, if any. An engine in memory hands out what it keeps, without a copy.
    ///
    /// # Errors
    /// [`StorageError`] if the engine fails.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError>;

    /// True if `key` has a value, which is neither read nor checked.
    ///
    /// # Errors
    /// [`StorageError`] if the engine fails.
    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, StorageError> {
        Ok(self.get(table, key)?.is_some())
    }

    /// The values of `keys` in their order, each handed to `take` before the next key is asked for, until it breaks. What an
    /// engine does before it can look a first key up it does once.
    ///
    /// # Errors
    /// [`StorageError`] if the engine fails; some values may have been handed over.
    fn get_many(
        &self,
        table: Table,
        keys: &mut dyn Iterator<Item = Vec<u8>>,
        take: &mut Take<'_>,
    ) -> Result<(), StorageError> {
        for key in keys {
            if take(self.get(table, &key)?).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Visits keys and values in `range` in `direction` until `visit` breaks. `visit` may read the same view.
    ///
    /// # Errors
    /// [`StorageError`] if the engine fails.
    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError>;
}

/// A write transaction: sees its own changes; dropped without [`Write::commit`] it leaves nothing.
pub trait Write: Read {
    /// Sets the value of `key`. An engine in memory keeps the value without another copy.
    ///
    /// # Errors
    /// [`StorageError`] if the engine fails.
    fn put_owned(&mut self, table: Table, key: &[u8], value: Bytes) -> Result<(), StorageError>;

    /// Sets the value of `key` to a copy of `value`.
    ///
    /// # Errors
    /// [`StorageError`] if the engine fails.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StorageError> {
        self.put_owned(table, key, Bytes::copy_from_slice(value))
    }

    /// Removes `key`; true if it was there.
    ///
    /// # Errors
    /// [`StorageError`] if the engine fails.
    fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, StorageError>;

    /// Removes the keys that start with `prefix`, the first `keys_max` of them; how many were removed. The transaction holds each
    /// until it is committed.
    ///
    /// # Errors
    /// [`StorageError`] if the engine fails.
    fn delete_prefix(&mut self, table: Table, prefix: &[u8], keys_max: usize) -> Result<u64, StorageError>;

    /// Marks what has been changed so far as what [`Write::roll_back`] leaves. A later mark takes the place of an
    /// earlier one.
    fn savepoint(&mut self);

    /// Takes back every change since the last [`Write::savepoint`], or since the transaction began.
    fn roll_back(&mut self);

    /// Makes the changes visible, all at once. Without changes, a durable commit still makes every earlier one
    /// durable.
    ///
    /// # Errors
    /// [`StorageError`]; nothing became visible. After a failed durable commit, whether a crash leaves it is open,
    /// as with any write whose acknowledgement was lost.
    fn commit(self, durability: Durability) -> Result<(), StorageError>;
}

/// A store.
pub trait Storage: Send + Sync + 'static {
    /// A snapshot.
    type Reader<'a>: Read
    where
        Self: 'a;
    /// A write transaction.
    type Writer<'a>: Write
    where
        Self: 'a;

    /// Opens a snapshot of what is committed.
    ///
    /// # Errors
    /// [`StorageError`] if the engine fails.
    fn read(&self) -> Result<Self::Reader<'_>, StorageError>;

    /// Begins a write transaction, waiting for the one under way (forever, if the same thread holds it).
    ///
    /// # Errors
    /// [`StorageError`] if the engine fails.
    fn write(&self) -> Result<Self::Writer<'_>, StorageError>;

    /// The engine's name and version.
    fn engine(&self) -> String;

    /// False while reading may take as long as opening the store again does, since its device failed.
    fn is_ready(&self) -> bool {
        true
    }

    /// How often this store went, while it was open, through what a crash does: its device failed, and it went on
    /// from the last durable commit, with none or some of the relaxed ones after it. Who relies on relaxed commits
    /// being there compares this with what it was.
    fn setbacks(&self) -> u64 {
        0
    }
}

/// A store that several hold; who is the last to let it go closes it.
impl<S: Storage> Storage for std::sync::Arc<S> {
    type Reader<'a> = S::Reader<'a>;
    type Writer<'a> = S::Writer<'a>;

    fn read(&self) -> Result<Self::Reader<'_>, StorageError> {
        S::read(self)
    }

    fn write(&self) -> Result<Self::Writer<'_>, StorageError> {
        S::write(self)
    }

    fn engine(&self) -> String {
        S::engine(self)
    }

    fn is_ready(&self) -> bool {
        S::is_ready(self)
    }

    fn setbacks(&self) -> u64 {
        S::setbacks(self)
    }
}
