//! How changes come into the engine and its log.

use super::places::{self, definition};
use super::recovering::{self, Origin};
use super::wal::WriteAheadLog;
use super::{CHECKSUM_BYTES, Embedded, Opened, checksum};
use crate::staged::{Changes, Engine};
use crate::{Durability, Read, StorageError};
use redb::{Database, WriteTransaction};

impl Embedded {
    /// Commits in the engine's memory, and in the log if that is to be durable; or in the engine's file if it is too much
    /// for the log, or there is little room for what the engine would still have to write.
    pub(super) fn commit_logged(
        &self,
        opened: &Opened,
        origin: &Origin,
        log: &mut WriteAheadLog,
        changes: &mut Changes,
        durability: Durability,
    ) -> Result<(), StorageError> {
        let is_durable = durability == Durability::Durable;
        if is_durable && !(log.takes(changes) && self.engine.has_ample_room()) {
            let next = log.start_anew();
            next.mark(changes);
            self.guarded_write(origin, || commit(&opened.database, changes, Durability::Durable))?;
            log.started(next);
            return Ok(());
        }
        if changes.is_empty() && !log.lacks() {
            return Ok(());
        }
        let next = log.next();
        next.mark(changes);
        self.guarded_write(origin, || {
            let transaction = prepare(&opened.database, changes, Durability::Relaxed)?;
            log.note(next, changes, is_durable);
            if !is_durable {
                return Ok(transaction.commit()?);
            }
            // Nobody sees it before it is durable.
            log.append().map_err(redb::Error::Io)?;
            // The log has it: if the engine has not, it is opened again.
            transaction.commit().map_err(|_| redb::Error::PreviousIo)
        })?;
        recovering::rest_in_background(&self.engine);
        Ok(())
    }

    /// True if what is committed is as `changes` left it.
    pub(super) fn holds(&self, changes: &Changes) -> Result<bool, StorageError> {
        let snapshot = self.snapshot()?;
        for (table, changes) in changes {
            for (key, value) in changes {
                if snapshot.get(*table, key)?.as_deref() != value.as_deref() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Commits changes.
pub(super) fn commit(
    database: &Database,
    changes: &Changes,
    durability: Durability,
) -> Result<(), redb::Error> {
    Ok(prepare(database, changes, durability)?.commit()?)
}

/// A transaction with all changes, yet to be committed.
fn prepare(
    database: &Database,
    changes: &Changes,
    durability: Durability,
) -> Result<WriteTransaction, redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(match durability {
        Durability::Durable => redb::Durability::Immediate,
        Durability::Relaxed => redb::Durability::None,
    })?;
    for (table, changes) in changes {
        let mut entries = transaction.open_table(definition(*table))?;
        let (name, prefix) = (places::engine_name(*table), places::prefix(*table));
        for (key, value) in changes {
            let key = places::key(&prefix, key);
            match value {
                Some(value) => put(&mut entries, name, &key, value)?,
                None => drop(entries.remove(&*key)?),
            }
        }
    }
    Ok(transaction)
}

/// Puts a value with its checksum into the engine's table `name`.
pub(super) fn put(
    entries: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    name: &str,
    key: &[u8],
    value: &[u8],
) -> Result<(), redb::Error> {
    let mut stored = entries.insert_reserve(key, value.len() + CHECKSUM_BYTES)?;
    let (bytes, sum) = stored.as_mut().split_at_mut(value.len());
    bytes.copy_from_slice(value);
    sum.copy_from_slice(&checksum(name, key, value));
    Ok(())
}
