//! How changes come into the log and the memtable, and into the engine.

use super::filters::{Filters, Known};
use super::memtable::{Layer, Newest, Share, bytes_of};
use super::merging::merge_in_background;
use super::places::{self, definition};
use super::recovering::{self, Origin};
use super::wal::Mark;
use super::{CHECKSUM_BYTES, Embedded, Opened, checksum, contained};
use crate::staged::{Changes, Engine};
use crate::{Durability, Read, StorageError, Table};
use bytes::Bytes;
use redb::{ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, WriteTransaction};
use std::sync::atomic::Ordering;

/// Fewer keys are not worth a thread.
const KEYS_FOR_THREAD: usize = if cfg!(test) { 4 } else { 1000 };

impl Embedded {
    /// Commits in memory, and in the log if that is to be durable; or in the engine's file if it is too much for the
    /// log, or there is little room for what the engine would still have to write.
    pub(super) fn commit_logged(
        &self,
        opened: &Opened,
        origin: &Origin,
        commit: &mut Commit,
    ) -> Result<(), StorageError> {
        if opened.memtable.active_bytes() >= 2 * opened.limits.memtable_bytes {
            self.engine.merge(opened, origin)?;
        }
        let is_durable = commit.durability == Durability::Durable;
        if is_durable
            && !self.is_for_log(opened, &commit.changes)
            && self.commit_beside_log(opened, origin, commit)?
        {
            return Ok(());
        }
        let Some(mut log) = opened.log() else { return Ok(()) };
        if commit.changes.is_empty() && !log.lacks() {
            return Ok(());
        }
        let next = log.next();
        commit.mark = Some(next);
        let changes = &mut commit.changes;
        self.engine.guarded_write(origin, || {
            if is_durable {
                // Nobody sees it before it is durable.
                return log.append(next, changes).map_err(redb::Error::Io);
            }
            log.note(next, changes);
            let bytes = changes.values().flatten().map(|(key, value)| bytes_of(key, value.as_ref())).sum();
            opened.relaxed_bytes.fetch_add(bytes, Ordering::AcqRel);
            Ok(())
        })?;
        let mut below = None;
        opened
            .memtable
            .publish(std::mem::take(changes), &mut |table, key| is_in_engine(opened, &mut below, table, key));
        let is_log_long = log.held() >= opened.limits.log_bytes / 2;
        drop(log);
        recovering::rest_in_background(&self.engine);
        if is_log_long || opened.memtable.active_bytes() >= opened.limits.memtable_bytes {
            merge_in_background(&self.engine);
        }
        Ok(())
    }

    fn is_for_log(&self, opened: &Opened, changes: &Changes) -> bool {
        opened.log().is_some_and(|log| log.takes(changes)) && self.engine.has_ample_room()
    }

    /// Has the log start over, and the engine commit if it is not for the log even then: true if it has. Only one
    /// thread commits: its changes are still the next ones.
    fn commit_beside_log(
        &self,
        opened: &Opened,
        origin: &Origin,
        own: &mut Commit,
    ) -> Result<bool, StorageError> {
        let Some(mut settled) = opened.settled() else { return Ok(false) };
        if settled.log.takes_anew(&own.changes) && self.engine.has_ample_room() {
            return self.engine.guarded_write(origin, || opened.settle(&mut settled)).map(|()| false);
        }
        let next = settled.log.start_anew();
        own.mark = Some(next);
        next.mark(&mut own.changes);
        self.engine.guarded_write(origin, || {
            // Then nothing lies over what the engine has, and its commit is seen all at once.
            opened.merge_all(&mut settled)?;
            commit(opened, &own.changes, Durability::Durable)
        })?;
        settled.log.started(next);
        Ok(true)
    }

    /// True if what is committed is as this commit left it.
    pub(super) fn holds(&self, commit: &Commit) -> Result<bool, StorageError> {
        let snapshot = self.snapshot()?;
        for (table, changes) in &commit.changes {
            for (key, value) in changes {
                if snapshot.get(*table, key)?.as_deref() != value.as_deref() {
                    return Ok(false);
                }
            }
        }
        // Also what was as it left it before: with this commit go those before it.
        let last = self.engine.with(|opened, _| Ok(opened.log().map(|log| log.reached().0)))?;
        Ok(match (last, commit.mark) {
            (Some(last), Some(mark)) => (last.number, last.round) == (mark.number, mark.round),
            // It did not come so far.
            (Some(_), None) => false,
            (None, _) => true,
        })
    }
}

/// A commit under way.
pub(super) struct Commit {
    pub(super) changes: Changes,
    pub(super) durability: Durability,
    /// Its number, once it has one.
    pub(super) mark: Option<Mark>,
}

/// True unless it is known that the engine does not have `key`. `state` is kept for the next question.
fn is_in_engine(
    opened: &Opened,
    state: &mut Option<(Known, ReadTransaction)>,
    table: Table,
    key: &[u8],
) -> bool {
    let mut look = || {
        if state.is_none() {
            *state = Some((opened.filters.known(), opened.database.begin_read()?));
        }
        let Some((known, transaction)) = state else { return Ok(true) };
        let prefix = places::prefix(table);
        let key = places::key(&prefix, key);
        if known.of(places::engine_name(table)).is_some_and(|filter| !filter.may_hold(&key)) {
            return Ok(false);
        }
        let entries = match transaction.open_table(definition(table)) {
            Ok(entries) => entries,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        Ok::<bool, redb::Error>(ReadableTable::get(&entries, &*key)?.is_some())
    };
    // An error is met, and told, by who needs the key.
    contained(|| Ok(look().unwrap_or(true))).unwrap_or(true)
}

/// Commits changes.
pub(super) fn commit(opened: &Opened, changes: &Changes, durability: Durability) -> Result<(), redb::Error> {
    commit_all(opened, &[Source::Changes(changes)], durability)
}

/// Commits all changes of these, the later ones over the earlier ones. Nothing that they replace is known any more then.
pub(super) fn commit_all(
    opened: &Opened,
    sources: &[Source<'_>],
    durability: Durability,
) -> Result<(), redb::Error> {
    let transaction = put_all(opened, sources, durability)?;
    let change = opened.values.change();
    let committed = transaction.commit();
    for source in sources {
        source.each_key(|table, key| {
            let prefix = places::prefix(table);
            change.drop_value(places::engine_name(table), &places::key(&prefix, key));
        });
    }
    drop(change);
    Ok(committed?)
}

/// What is put into the engine.
#[derive(Clone, Copy)]
pub(super) enum Source<'s> {
    /// A transaction's changes.
    Changes(&'s Changes),
    /// The newest of a share of a layer of the memtable.
    Layer(&'s Layer, Share),
}

impl Source<'_> {
    /// Names every key that is changed.
    fn each_key(self, mut name: impl FnMut(Table, &[u8])) {
        match self {
            Self::Changes(changes) => {
                for (table, changes) in changes {
                    changes.keys().for_each(|key| name(*table, key));
                }
            }
            Self::Layer(layer, share) => layer.with_share(share, |tables| {
                for (table, newest) in tables {
                    newest.iter().for_each(|(key, _)| name(*table, key));
                }
            }),
        }
    }
}

/// A transaction with all changes of these, yet to be committed.
fn put_all(
    opened: &Opened,
    sources: &[Source<'_>],
    durability: Durability,
) -> Result<WriteTransaction, redb::Error> {
    let mut transaction = opened.database.begin_write()?;
    transaction.set_durability(match durability {
        Durability::Durable => redb::Durability::Immediate,
        Durability::Relaxed => redb::Durability::None,
    })?;
    for source in sources {
        match source {
            Source::Changes(changes) => put_changes(&transaction, &opened.filters, changes)?,
            Source::Layer(layer, share) => {
                layer.with_share(*share, |tables| put_tables(&transaction, &opened.filters, tables))?;
            }
        }
    }
    Ok(transaction)
}

/// Puts what a layer has of these tables: of the one that changed most on this thread, of the others on one beside it if
/// they are worth it. (The engine lets each table of a transaction be changed by a thread of its own.)
fn put_tables(
    transaction: &WriteTransaction,
    filters: &Filters,
    tables: &[(Table, Newest<'_>)],
) -> Result<(), redb::Error> {
    let put = |tables: &[(Table, Newest<'_>)]| {
        let put = |(table, newest): &(Table, Newest<'_>)| {
            put_table(transaction, filters, *table, &mut newest.iter())
        };
        tables.iter().try_for_each(put)
    };
    let largest = tables.iter().max_by_key(|(_, newest)| newest.keys());
    let Some(largest) = largest.map(|(table, _)| places::engine_name(*table)) else { return Ok(()) };
    let is_of_largest = |(table, _): &(Table, Newest<'_>)| places::engine_name(*table) == largest;
    let (largest, others): (Vec<_>, Vec<_>) = tables.iter().copied().partition(is_of_largest);
    if others.iter().map(|(_, newest)| newest.keys()).sum::<usize>() < KEYS_FOR_THREAD {
        return put(tables);
    }
    std::thread::scope(|threads| {
        let builder = std::thread::Builder::new().name("arras-merge-2".into());
        let Ok(beside) = builder.spawn_scoped(threads, || put(&others)) else { return put(tables) };
        put(&largest)?;
        beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Puts all of `changes`.
pub(super) fn put_changes(
    transaction: &WriteTransaction,
    filters: &Filters,
    changes: &Changes,
) -> Result<(), redb::Error> {
    for (table, changes) in changes {
        let mut changes = changes.iter().map(|(key, value)| (key.as_slice(), value.as_ref()));
        put_table(transaction, filters, *table, &mut changes)?;
    }
    Ok(())
}

fn put_table(
    transaction: &WriteTransaction,
    filters: &Filters,
    table: Table,
    changes: &mut dyn Iterator<Item = (&[u8], Option<&Bytes>)>,
) -> Result<(), redb::Error> {
    let mut entries = transaction.open_table(definition(table))?;
    let (name, prefix) = (places::engine_name(table), places::prefix(table));
    let taking = filters.taking(name);
    for (key, value) in changes {
        let key = places::key(&prefix, key);
        if value.is_some() {
            taking.iter().for_each(|filter| filter.add(&key));
        }
        match value {
            Some(value) => put(&mut entries, name, &key, value)?,
            None => drop(entries.remove(&*key)?),
        }
    }
    if !taking.is_empty() {
        filters.give_up_if_stale(name, entries.len()?);
    }
    Ok(())
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
