//! The reference implementation: maps in memory, gone with the process.

use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock};

use crate::staged::{Changes, Engine, Staged, Turn};
use crate::{
    Direction, Durability, KeyRange, Read, Storage, StorageError, Table, Take, Visit, selects_nothing,
};

/// Keys of this length or less lie within the map: comparing them follows no pointer.
const INLINE_BYTES: usize = 32;

type Entries = BTreeMap<SmallVec<[u8; INLINE_BYTES]>, Bytes>;
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
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        Ok(self.tables.get(&table).and_then(|entries| entries.get(key)).cloned())
    }

    fn get_many(
        &self,
        table: Table,
        keys: &mut dyn Iterator<Item = Vec<u8>>,
        take: &mut Take<'_>,
    ) -> Result<(), StorageError> {
        let entries = self.tables.get(&table);
        let value = |key: Vec<u8>| entries.and_then(|entries| entries.get(key.as_slice())).cloned();
        let _ended = keys.map(value).try_for_each(take);
        Ok(())
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

    fn apply(&self, changes: Changes, _durability: Durability, _setbacks: u64) -> Result<(), StorageError> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let tables = Arc::make_mut(&mut tables);
        for (table, changes) in changes {
            let entries = Arc::make_mut(tables.entry(table).or_default());
            for (key, value) in replace_in_a_row(entries, changes) {
                match value {
                    Some(value) => drop(entries.insert(SmallVec::from_slice(&key), value)),
                    None => drop(entries.remove(key.as_slice())),
                }
            }
        }
        Ok(())
    }
}

type TableChanges = BTreeMap<Vec<u8>, Option<Bytes>>;

/// Fewest changes of a table that are worth a walk.
const ROW_MIN: usize = 8;

/// Replaces values along one walk over the entries, as long as the changes lie close to each other: whoever writes
/// an array anew writes row after row, and looking each key up would be most of the work. The changes that are left.
fn replace_in_a_row(
    entries: &mut Entries,
    changes: TableChanges,
) -> impl Iterator<Item = (Vec<u8>, Option<Bytes>)> + use<> {
    let mut left = Vec::new();
    let (is_row, steps_max) = (changes.len() >= ROW_MIN, changes.len().saturating_mul(2));
    let mut changes = changes.into_iter().peekable();
    if is_row && let Some((first, _)) = changes.peek() {
        let from = (Bound::Included(first.as_slice()), Bound::Unbounded);
        let walk = entries.range_mut::<[u8], _>(from).take(steps_max);
        for (key, old) in walk {
            while changes.peek().is_some_and(|(change, _)| change.as_slice() < key.as_slice()) {
                left.extend(changes.next());
            }
            let replaced =
                changes.next_if(|(change, value)| value.is_some() && change.as_slice() == key.as_slice());
            if let Some((_, Some(value))) = replaced {
                *old = value;
            } else if changes.peek().is_none() {
                break;
            }
        }
    }
    left.into_iter().chain(changes)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Many changes at once, of rows and of single keys, do what they do one by one.
        #[test]
        fn changes_in_a_row_are_those_one_by_one(
            before in prop::collection::btree_map(0..60_u8, any::<u8>(), 0..60),
            changes in prop::collection::btree_map(0..60_u8, any::<Option<u8>>(), 0..60),
        ) {
            let shared = |value: u8| Bytes::from(vec![value]);
            let mut entries: Entries =
                before.iter().map(|(key, value)| (SmallVec::from_slice(&[*key]), shared(*value))).collect();
            let staged = changes.iter().map(|(key, value)| (vec![*key], value.map(shared))).collect();
            for (key, value) in replace_in_a_row(&mut entries, staged) {
                match value {
                    Some(value) => drop(entries.insert(SmallVec::from_slice(&key), value)),
                    None => drop(entries.remove(key.as_slice())),
                }
            }
            let mut expected = before;
            for (key, value) in changes {
                match value {
                    Some(value) => drop(expected.insert(key, value)),
                    None => drop(expected.remove(&key)),
                }
            }
            let found: BTreeMap<u8, u8> = entries.iter().map(|(key, value)| (key[0], value[0])).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
