//! What a transaction sees: a state of the engine, and over it what is committed and not there yet.

use super::memtable::View;
use super::places::{self, definition};
use super::recovering::Origin;
use super::{Embedded, checked};
use crate::range::borrowed;
use crate::staged::merge;
use crate::{Direction, KeyRange, Read, StorageError, Table, Take, Visit, selects_nothing};
use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable};
use std::sync::{Arc, Mutex, PoisonError};

type ReadOnlyTable = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A snapshot of an [`Embedded`].
pub struct EmbeddedSnapshot<'a> {
    view: View,
    engine: EngineSnapshot<'a>,
}

impl<'a> EmbeddedSnapshot<'a> {
    pub(super) fn new(store: &'a Embedded, transaction: ReadTransaction, view: View, origin: Origin) -> Self {
        Self { view, engine: EngineSnapshot { store, transaction, origin, opened: Mutex::default() } }
    }

    pub(super) fn generation(&self) -> u64 {
        self.engine.origin.generation()
    }
}

impl Read for EmbeddedSnapshot<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        match self.view.get(table, key) {
            Some(value) => Ok(value),
            None => self.engine.get(table, key),
        }
    }

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

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        if self.view.is_empty() || selects_nothing(&range) {
            return self.engine.scan(table, range, direction, visit);
        }
        merge(&self.engine, table, range, direction, self.view.changes(table, range, direction), visit)
    }
}

/// A table by name; none if it is not there.
type LookedInto = (&'static str, Option<Arc<ReadOnlyTable>>);

/// A state of the engine.
struct EngineSnapshot<'a> {
    store: &'a Embedded,
    transaction: ReadTransaction,
    origin: Origin,
    /// Tables that were looked into, and those that are not there.
    opened: Mutex<Vec<LookedInto>>,
}

impl EngineSnapshot<'_> {
    fn guarded<T>(&self, run: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, StorageError> {
        self.store.guarded(&self.origin, run)
    }

    fn table(&self, table: Table) -> Result<Option<Arc<ReadOnlyTable>>, redb::Error> {
        let name = places::engine_name(table);
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = opened.iter().find(|(of, _)| *of == name) {
            return Ok(found.clone());
        }
        let found = match self.transaction.open_table(definition(table)) {
            Ok(table) => Some(Arc::new(table)),
            Err(redb::TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(error.into()),
        };
        opened.push((name, found.clone()));
        Ok(found)
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        let prefix = places::prefix(table);
        self.guarded(|| {
            let Some(entries) = self.table(table)? else {
                return Ok(None);
            };
            let key = places::key(&prefix, key);
            let Some(stored) = ReadableTable::get(&*entries, &*key)? else {
                return Ok(None);
            };
            Ok(Some(Bytes::copy_from_slice(checked(places::engine_name(table), &key, stored.value())?)))
        })
    }
}

impl Read for EngineSnapshot<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        EngineSnapshot::get(self, table, key)
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        if selects_nothing(&range) {
            return Ok(());
        }
        let Some(stored) = self.guarded(|| self.table(table))? else {
            return Ok(());
        };
        let (name, prefix) = (places::engine_name(table), places::prefix(table));
        let placed;
        let range = if prefix.is_empty() {
            range
        } else {
            placed = places::range(&prefix, range);
            borrowed(&placed)
        };
        let mut entries = self.guarded(|| Ok(ReadableTable::range::<&[u8]>(&*stored, range)?))?;
        // `visit` runs outside the guard: its panics are not the engine's.
        while let Some((key, value)) = self.guarded(|| {
            let next = match direction {
                Direction::Ascending => entries.next(),
                Direction::Descending => entries.next_back(),
            };
            Ok(next.transpose()?)
        })? {
            let (key, value) = self.guarded(|| {
                let key = key.value();
                Ok((key, checked(name, key, value.value())?))
            })?;
            if visit(key.get(prefix.len()..).unwrap_or_default(), value).is_break() {
                break;
            }
        }
        Ok(())
    }
}
