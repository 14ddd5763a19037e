//! The reference implementation: maps in memory, gone with the process.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::staged::{Changes, Engine, Staged, Turn};
use crate::{Direction, Durability, KeyRange, Read, Storage, StorageError, Table, Visit, selects_nothing};

type Entries = BTreeMap<Arc<[u8]>, Arc<[u8]>>;
type Tables = BTreeMap<Table, Arc<Entries>>;

/// A store in memory. Durability means nothing to it.
///
/// A commit while a snapshot is open copies the maps (not the keys and values) of the tables it changes.
#[derive(Debug, Default)]
pub struct Memory {
    tables: RwLock<Arc<Tables>>,
    turn: Turn,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

/// A snapshot of a [`Memory`].
#[derive(Clone, Debug)]
pub struct MemorySnapshot {
    tables: Arc<Tables>,
}

impl Read for MemorySnapshot {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.tables.get(&table).and_then(|entries| entries.get(key)).map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        let Some(entries) = self.tables.get(&table).filter(|_| !selects_nothing(&range)) else {
            return Ok(());
        };
        let mut entries = entries.range::<[u8], _>(range);
        let _ended = match direction {
            Direction::Ascending => entries.try_for_each(|(key, value)| visit(key, value)),
            Direction::Descending => entries.rev().try_for_each(|(key, value)| visit(key, value)),
        };
        Ok(())
    }
}

impl Engine for Memory {
    type Snapshot<'a> = MemorySnapshot;

    fn snapshot(&self) -> Result<MemorySnapshot, StorageError> {
        Ok(MemorySnapshot { tables: Arc::clone(&self.tables.read().unwrap_or_else(PoisonError::into_inner)) })
    }

    fn apply(&self, changes: Changes, _durability: Durability) -> Result<(), StorageError> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let tables = Arc::make_mut(&mut tables);
        for (table, changes) in changes {
            let entries = Arc::make_mut(tables.entry(table).or_default());
            for (key, value) in changes {
                match (value, entries.get_mut(key.as_slice())) {
                    (Some(value), Some(old)) => *old = value,
                    (Some(value), None) => drop(entries.insert(key.into(), value)),
                    (None, _) => drop(entries.remove(key.as_slice())),
                }
            }
        }
        Ok(())
    }
}

impl Storage for Memory {
    type Reader<'a> = MemorySnapshot;
    type Writer<'a> = Staged<'a, Self>;

    fn read(&self) -> Result<MemorySnapshot, StorageError> {
        self.snapshot()
    }

    fn write(&self) -> Result<Staged<'_, Self>, StorageError> {
        Staged::begin(self, &self.turn)
    }

    fn engine(&self) -> String {
        "memory".to_owned()
    }
}
