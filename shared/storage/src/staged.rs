//! Write transactions held in memory over a snapshot: what an engine must bring is then only a snapshot and the
//! atomic application of a set of changes.
//!
//! Aborting touches no file, a read inside a transaction may nest in a scan, and the engine receives each table's
//! changes once, in key order, which its pages like best.

use bytes::Bytes;
use std::borrow::Borrow;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::range::borrowed;
use crate::{
    Direction, Durability, KeyRange, Read, StorageError, Table, Take, Visit, Write, prefix_range,
    selects_nothing,
};

/// What a transaction changed: each key's new value, or none if it was removed. Values are shared so that an engine
/// in memory takes them as they are.
pub type Changes = BTreeMap<Table, BTreeMap<Vec<u8>, Option<Bytes>>>;

/// What [`Staged`] needs of an engine.
pub trait Engine: Send + Sync {
    /// A view of what is committed, unmoved by later commits.
    type Snapshot<'a>: Read
    where
        Self: 'a;

    /// Opens a snapshot.
    ///
    /// # Errors
    /// [`StorageError`] if the engine fails.
    fn snapshot(&self) -> Result<Self::Snapshot<'_>, StorageError>;

    /// How often the engine had been set back when a snapshot was opened: see [`crate::Storage::setbacks`].
    fn setbacks_at(_snapshot: &Self::Snapshot<'_>) -> u64 {
        0
    }

    /// Applies `changes` atomically, which were made on a snapshot opened after so many `setbacks`. Called by one thread at
    /// a time.
    ///
    /// # Errors
    /// [`StorageError`]; nothing became visible.
    fn apply(&self, changes: Changes, durability: Durability, setbacks: u64) -> Result<(), StorageError>;
}

/// Whose turn it is to write. A writer that panics passes its turn on.
#[derive(Debug, Default)]
pub struct Turn {
    taken: Mutex<bool>,
    passed: Condvar,
}

impl Turn {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Taken<'_> {
        let mut taken = self.lock();
        while *taken {
            taken = self.passed.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken = true;
        Taken { turn: self }
    }
}

/// A turn, passed on when dropped. Unlike a mutex guard it may move to another thread.
#[derive(Debug)]
struct Taken<'a> {
    turn: &'a Turn,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.turn.lock() = false;
        self.turn.passed.notify_one();
    }
}

/// A key that was changed since the savepoint, and the change of it that stood before, if the transaction had one.
type Replaced = (Table, Vec<u8>, Option<Option<Bytes>>);

/// A write transaction: a snapshot and the changes over it.
pub struct Staged<'a, E: Engine> {
    engine: &'a E,
    snapshot: E::Snapshot<'a>,
    changes: Changes,
    /// What was replaced since the savepoint, oldest first; none while there is no savepoint.
    replaced: Option<Vec<Replaced>>,
    turn: Taken<'a>,
}

impl<'a, E: Engine> Staged<'a, E> {
    /// Begins a transaction on `engine` once `turn` is free.
    ///
    /// # Errors
    /// [`StorageError`] if the engine fails.
    pub fn begin(engine: &'a E, turn: &'a Turn) -> Result<Self, StorageError> {
        let turn = turn.take();
        Ok(Self { engine, snapshot: engine.snapshot()?, changes: Changes::new(), replaced: None, turn })
    }

    fn stage(&mut self, table: Table, key: &[u8], value: Option<Bytes>) {
        let before = self.changes.entry(table).or_default().insert(key.to_vec(), value);
        if let Some(replaced) = &mut self.replaced {
            replaced.push((table, key.to_vec(), before));
        }
    }

    /// Puts back how `key` stood before it was changed.
    fn restore(&mut self, (table, key, before): Replaced) {
        let Some(changes) = self.changes.get_mut(&table) else { return };
        match before {
            Some(value) => drop(changes.insert(key, value)),
            None => drop(changes.remove(&key)),
        }
        if changes.is_empty() {
            self.changes.remove(&table);
        }
    }
}

impl<E: Engine> Read for Staged<'_, E> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        match self.changes.get(&table).and_then(|changes| changes.get(key)) {
            Some(value) => Ok(value.clone()),
            None => self.snapshot.get(table, key),
        }
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, StorageError> {
        match self.changes.get(&table).and_then(|changes| changes.get(key)) {
            Some(value) => Ok(value.is_some()),
            None => self.snapshot.contains(table, key),
        }
    }

    fn get_many(
        &self,
        table: Table,
        keys: &mut dyn Iterator<Item = Vec<u8>>,
        take: &mut Take<'_>,
    ) -> Result<(), StorageError> {
        let Some(changes) = self.changes.get(&table) else {
            return self.snapshot.get_many(table, keys, take);
        };
        // What this transaction made of the key that is being looked up below, which changes nothing then.
        let own = RefCell::new(None);
        let mut noted = keys.inspect(|key| *own.borrow_mut() = changes.get(key).cloned());
        self.snapshot.get_many(table, &mut noted, &mut |below| take(own.take().unwrap_or(below)))
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        let Some(changes) = self.changes.get(&table) else {
            return self.snapshot.scan(table, range, direction, visit);
        };
        if selects_nothing(&range) {
            return Ok(());
        }
        let changes = changes.range::<[u8], _>(range);
        match direction {
            Direction::Ascending => merge(&self.snapshot, table, range, direction, changes, visit),
            Direction::Descending => merge(&self.snapshot, table, range, direction, changes.rev(), visit),
        }
    }
}

/// Scans `snapshot` with `changes`, which come in the same direction, laid over it.
pub(crate) fn merge<K: AsRef<[u8]>, V: Borrow<Option<Bytes>>>(
    snapshot: &impl Read,
    table: Table,
    range: KeyRange<'_>,
    direction: Direction,
    changes: impl Iterator<Item = (K, V)>,
    visit: &mut Visit<'_>,
) -> Result<(), StorageError> {
    let mut changes = changes.peekable();
    let mut flow = ControlFlow::Continue(());
    snapshot.scan(table, range, direction, &mut |key, value| {
        flow = match visit_up_to(key, direction, &mut changes, visit) {
            ControlFlow::Break(()) => ControlFlow::Break(()),
            ControlFlow::Continue(true) => ControlFlow::Continue(()),
            ControlFlow::Continue(false) => visit(key, value),
        };
        flow
    })?;
    if flow.is_continue() {
        let _ended = changes
            .try_for_each(|(key, value)| visit_present(key.as_ref(), value.borrow().as_deref(), visit));
    }
    Ok(())
}

/// Visits the changes that come before `key` and at it; true if there was one at it.
fn visit_up_to<K: AsRef<[u8]>, V: Borrow<Option<Bytes>>>(
    key: &[u8],
    direction: Direction,
    changes: &mut Peekable<impl Iterator<Item = (K, V)>>,
    visit: &mut Visit<'_>,
) -> ControlFlow<(), bool> {
    while let Some((changed, value)) = changes.peek() {
        let order = match direction {
            Direction::Ascending => changed.as_ref().cmp(key),
            Direction::Descending => key.cmp(changed.as_ref()),
        };
        if order == Ordering::Greater {
            break;
        }
        visit_present(changed.as_ref(), value.borrow().as_deref(), visit)?;
        changes.next();
        if order == Ordering::Equal {
            return ControlFlow::Continue(true);
        }
    }
    ControlFlow::Continue(false)
}

fn visit_present(key: &[u8], value: Option<&[u8]>, visit: &mut Visit<'_>) -> ControlFlow<()> {
    value.map_or(ControlFlow::Continue(()), |value| visit(key, value))
}

impl<E: Engine> Write for Staged<'_, E> {
    fn put_owned(&mut self, table: Table, key: &[u8], value: Bytes) -> Result<(), StorageError> {
        self.stage(table, key, Some(value));
        Ok(())
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, StorageError> {
        let present = self.contains(table, key)?;
        if present {
            self.stage(table, key, None);
        }
        Ok(present)
    }

    fn delete_prefix(&mut self, table: Table, prefix: &[u8], keys_max: usize) -> Result<u64, StorageError> {
        let range = prefix_range(prefix);
        let mut keys = Vec::new();
        if keys_max > 0 {
            self.scan(table, borrowed(&range), Direction::Ascending, &mut |key, _| {
                keys.push(key.to_vec());
                if keys.len() < keys_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        let removed = keys.len() as u64;
        for key in keys {
            self.stage(table, &key, None);
        }
        Ok(removed)
    }

    fn savepoint(&mut self) {
        self.replaced.get_or_insert_default().clear();
    }

    fn roll_back(&mut self) {
        match &mut self.replaced {
            None => self.changes.clear(),
            Some(replaced) => {
                for change in std::mem::take(replaced).into_iter().rev() {
                    self.restore(change);
                }
            }
        }
    }

    fn commit(self, durability: Durability) -> Result<(), StorageError> {
        let Self { engine, snapshot, changes, turn, replaced: _ } = self;
        let setbacks = E::setbacks_at(&snapshot);
        // An open snapshot would make the engine keep what the changes replace.
        drop(snapshot);
        let applied = engine.apply(changes, durability, setbacks);
        drop(turn);
        applied
    }
}
