//! What a transaction sees: a state of the engine, and over it what is committed and not there yet.

use super::filter::Filter;
use super::filters::{Filters, Known, fill_in_background};
use super::memtable::View;
use super::opening::Opened;
use super::places::{self, definition};
use super::recovering::Origin;
use super::values::{State, Values};
use super::{Embedded, checked};
use crate::range::borrowed;
use crate::staged::merge;
use crate::{Direction, KeyRange, Read, StorageError, Table, Take, Visit, selects_nothing};
use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata};
use std::sync::{Arc, Mutex, PoisonError};

type ReadOnlyTable = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A snapshot of an [`Embedded`].
pub struct EmbeddedSnapshot<'a> {
    view: View,
    engine: EngineSnapshot<'a>,
}

impl<'a> EmbeddedSnapshot<'a> {
    pub(super) fn new(view: View, engine: EngineSnapshot<'a>) -> Self {
        Self { view, engine }
    }

    pub(super) fn generation(&self) -> u64 {
        self.engine.origin.generation()
    }

    /// True if it is known without a look at the engine's pages that the engine does not have `key`.
    #[cfg(test)]
    pub(crate) fn is_denied(&self, table: Table, key: &[u8]) -> bool {
        let denies =
            |found: &mut LookedInto| found.filter.as_ref().is_some_and(|filter| !filter.may_hold(key));
        self.engine.looked_into(table, denies).is_ok_and(|is_denied| is_denied)
    }
}

impl Read for EmbeddedSnapshot<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        match self.view.get(table, key) {
            Some(value) => Ok(value),
            None => self.engine.get(table, key),
        }
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, StorageError> {
        match self.view.get(table, key) {
            Some(value) => Ok(value.is_some()),
            None => self.engine.contains(table, key),
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

/// A table that was looked into.
struct LookedInto {
    /// The engine's name of it.
    name: &'static str,
    /// None if it is not there.
    entries: Option<Arc<ReadOnlyTable>>,
    filter: Option<Arc<Filter>>,
    /// How many keys were looked for that it does not have, for want of a filter.
    absent: u64,
}

/// What saves a snapshot looking at the engine.
pub(super) struct Beside {
    /// Who is told of absent keys.
    filters: Arc<Filters>,
    /// Those that were complete before the snapshot was opened.
    known: Known,
    /// See [`super::LogLimits`].
    absent_min: u64,
    values: Arc<Values>,
    /// Of which state of the engine the snapshot is, if that is known.
    state: Option<State>,
}

impl Beside {
    pub(super) fn new(opened: &Opened, known: Known, state: Option<State>) -> Self {
        let (filters, values) = (Arc::clone(&opened.filters), Arc::clone(&opened.values));
        Self { filters, known, absent_min: opened.limits.absent_min, values, state }
    }
}

/// A state of the engine.
pub(super) struct EngineSnapshot<'a> {
    store: &'a Embedded,
    transaction: ReadTransaction,
    origin: Origin,
    beside: Beside,
    /// Tables that were looked into, and those that are not there.
    opened: Mutex<Vec<LookedInto>>,
}

impl<'a> EngineSnapshot<'a> {
    pub(super) fn new(
        store: &'a Embedded,
        transaction: ReadTransaction,
        origin: Origin,
        beside: Beside,
    ) -> Self {
        Self { store, transaction, origin, beside, opened: Mutex::default() }
    }

    fn guarded<T>(&self, run: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, StorageError> {
        self.store.guarded(&self.origin, run)
    }

    /// Runs `look` on a table.
    fn looked_into<T>(
        &self,
        table: Table,
        look: impl FnOnce(&mut LookedInto) -> T,
    ) -> Result<T, redb::Error> {
        let name = places::engine_name(table);
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = opened.iter_mut().find(|of| of.name == name) {
            return Ok(look(found));
        }
        let entries = match self.transaction.open_table(definition(table)) {
            Ok(table) => Some(Arc::new(table)),
            Err(redb::TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let filter = self.beside.known.of(name).cloned();
        let mut found = LookedInto { name, entries, filter, absent: 0 };
        let looked = look(&mut found);
        opened.push(found);
        Ok(looked)
    }

    fn table(&self, table: Table) -> Result<Option<Arc<ReadOnlyTable>>, redb::Error> {
        self.looked_into(table, |found| found.entries.clone())
    }

    /// A table that may have `key`; none if it is known that it has not.
    fn table_with(&self, table: Table, key: &[u8]) -> Result<Option<Arc<ReadOnlyTable>>, redb::Error> {
        self.looked_into(table, |found| match &found.filter {
            Some(filter) if !filter.may_hold(key) => None,
            Some(_) => found.entries.clone(),
            None => {
                found.absent += u64::from(found.entries.is_none());
                found.entries.clone()
            }
        })
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        let (name, prefix) = (places::engine_name(table), places::prefix(table));
        let key = places::key(&prefix, key);
        let Beside { values, state, .. } = &self.beside;
        if let Some(value) = state.and_then(|state| values.get(name, &key, state)) {
            return Ok(Some(value));
        }
        let found =
            self.find(table, &key, |stored| Ok(Bytes::copy_from_slice(checked(name, &key, stored)?)))?;
        if let (Some(value), Some(state)) = (&found, state) {
            values.keep(name, &key, value, *state);
        }
        Ok(found)
    }
}

impl EngineSnapshot<'_> {
    /// What the engine's table has of a key, if it has it.
    fn find<T>(
        &self,
        table: Table,
        key: &[u8],
        take: impl FnOnce(&[u8]) -> Result<T, redb::Error>,
    ) -> Result<Option<T>, StorageError> {
        self.guarded(|| {
            let Some(entries) = self.table_with(table, key)? else {
                return Ok(None);
            };
            if let Some(stored) = ReadableTable::get(&*entries, key)? {
                return take(stored.value()).map(Some);
            }
            self.looked_into(table, |found| found.absent += u64::from(found.filter.is_none()))?;
            Ok(None)
        })
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, StorageError> {
        let prefix = places::prefix(table);
        Ok(self.find(table, &places::key(&prefix, key), |_| Ok(()))?.is_some())
    }
}

impl Drop for EngineSnapshot<'_> {
    /// Tells of what was looked for in vain.
    fn drop(&mut self) {
        let opened = std::mem::take(self.opened.get_mut().unwrap_or_else(PoisonError::into_inner));
        let Beside { filters, absent_min, .. } = &self.beside;
        for LookedInto { name, entries, absent, .. } in opened.into_iter().filter(|of| of.absent > 0) {
            let keys = entries.map_or(Ok(0), |entries| self.guarded(|| Ok(entries.len()?)));
            // Who reads meets the error, if there is one.
            if keys.is_ok_and(|keys| filters.missed(name, absent, keys, *absent_min)) {
                fill_in_background(&self.store.engine, name);
            }
        }
    }
}

impl Read for EngineSnapshot<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        EngineSnapshot::get(self, table, key)
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, StorageError> {
        EngineSnapshot::contains(self, table, key)
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
