//! How what is committed comes from the memtable into the engine.

use super::background;
use super::committing::{Source, commit_all};
use super::memtable::Share;
use super::opening::Opened;
use super::recovering::{Origin, Recovering};
use super::sums::BLOCK_BYTES;
use super::wal::{Mark, WriteAheadLog};
use crate::{Changes, Durability, StorageError};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use tracing::error;

/// What is held while nothing is committed and nothing merged.
pub(super) struct Settled<'o> {
    pub(super) log: MutexGuard<'o, WriteAheadLog>,
    _merging: MutexGuard<'o, ()>,
}

impl Opened {
    /// Held while nothing is merged.
    pub(super) fn merging(&self) -> MutexGuard<'_, ()> {
        self.merging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing is committed or merged, for as long as this is held; none without a log.
    pub(super) fn settled(&self) -> Option<Settled<'_>> {
        let merging = self.merging();
        Some(Settled { log: self.log()?, _merging: merging })
    }

    /// Has the engine make everything durable by itself, after which nothing needs the log.
    pub(super) fn checkpoint(&self) -> Result<(), redb::Error> {
        self.settled().map_or(Ok(()), |mut settled| self.settle(&mut settled))
    }

    /// The same.
    pub(super) fn settle(&self, settled: &mut Settled<'_>) -> Result<(), redb::Error> {
        if settled.log.is_idle() && self.memtable.is_empty() {
            return Ok(());
        }
        self.merge_frozen()?;
        let next = settled.log.start_anew();
        self.memtable.freeze(next);
        self.relaxed_bytes.store(0, Ordering::Release);
        self.write(next, Durability::Durable)?;
        settled.log.started(next);
        Ok(())
    }

    /// Bytes that settling has to move to the engine or write to its file, about.
    pub(super) fn unsettled_bytes(&self, log: &WriteAheadLog) -> u64 {
        // Relaxed commits are in both counts until they are merged.
        let relaxed = self.relaxed_bytes.load(Ordering::Acquire);
        log.held() + self.memtable.active_bytes().max(relaxed) as u64
    }

    /// Has the engine have everything, in memory.
    pub(super) fn merge_all(&self, settled: &mut Settled<'_>) -> Result<(), redb::Error> {
        self.merge_frozen()?;
        self.memtable.freeze(settled.log.reached().0);
        self.merge_frozen()
    }

    /// Has the engine have what is committed now: durably, so that the log's records of it are free, if that is asked for,
    /// if those are many, and if relaxed commits changed much.
    fn merge(&self, wanted: Durability) -> Result<(), redb::Error> {
        let _merging = self.merging();
        // What is left of an attempt that failed.
        self.merge_frozen()?;
        let released = {
            // No commit is made meanwhile.
            let Some(log) = self.log() else { return Ok(()) };
            let (mark, place) = log.reached();
            self.memtable.freeze(mark);
            let relaxed_bytes = self.relaxed_bytes.load(Ordering::Acquire);
            let is_durable = wanted == Durability::Durable
                || log.held() >= self.limits.log_bytes / 3
                || relaxed_bytes >= self.limits.relaxed_bytes;
            if is_durable {
                // What commits change from now on is not written yet.
                self.relaxed_bytes.store(0, Ordering::Release);
            }
            is_durable.then_some((mark, place))
        };
        let Some((mark, place)) = released else { return self.merge_frozen() };
        self.write(mark, Durability::Durable)?;
        if let Some(mut log) = self.log() {
            log.release(place);
        }
        Ok(())
    }

    fn merge_frozen(&self) -> Result<(), redb::Error> {
        match self.memtable.frozen() {
            Some((_, mark)) => self.write(mark, Durability::Relaxed),
            None => Ok(()),
        }
    }

    /// Commits the frozen layer, if there is one, in the engine, whose state then says `mark`.
    ///
    /// The engine keeps the pages that a transaction has changed in half of its cache. Of one that changes more it writes
    /// pages to the file before they are done, and at the commit reads and writes each of them once more. So it is given
    /// the layer in shares; none is durable before the last one, which has the mark.
    fn write(&self, mark: Mark, durability: Durability) -> Result<(), redb::Error> {
        let mut marked = Changes::new();
        mark.mark(&mut marked);
        let marked = Source::Changes(&marked);
        let Some((layer, _)) = self.memtable.frozen() else {
            return commit_all(self, &[marked], durability);
        };
        let of = (layer.bytes() + layer.keys() * BLOCK_BYTES).div_ceil(self.limits.share_bytes.max(1));
        let of = of.clamp(1, layer.keys().max(1));
        // A share by itself is what no commit has left.
        let in_part = (of > 1).then(|| self.state.in_part());
        for number in 0..of - 1 {
            commit_all(self, &[Source::Layer(&layer, Share { number, of })], Durability::Relaxed)?;
        }
        commit_all(self, &[Source::Layer(&layer, Share { number: of - 1, of }), marked], durability)?;
        if let Some(in_part) = in_part {
            in_part.finish();
        }
        self.memtable.merged();
        Ok(())
    }
}

impl Recovering {
    /// Merges now, or waits for who does.
    pub(super) fn merge(&self, opened: &Opened, origin: &Origin) -> Result<(), StorageError> {
        self.guarded_write(origin, || opened.merge(Durability::Relaxed))
    }

    /// Has the engine make durable what is committed now, while commits go on.
    pub(super) fn merge_durably(&self, opened: &Opened, origin: &Origin) -> Result<(), StorageError> {
        self.guarded_write(origin, || opened.merge(Durability::Durable))
    }
}

/// Has a thread merge; one at a time, which ends then.
pub(super) fn merge_in_background(engine: &Arc<Recovering>) {
    if engine.is_merging.swap(true, Ordering::AcqRel) {
        return;
    }
    let merging = Arc::clone(engine);
    let begun = background::begin("arras-merge", move || {
        let merged = merging.with_current(|opened, origin| merging.merge(opened, &origin));
        merging.is_merging.store(false, Ordering::Release);
        // Whoever commits next tries again, and is told.
        if let Some(Err(failure)) = merged {
            error!("what is in memory cannot be taken into the store's file: {failure}");
        }
    });
    if begun.is_err() {
        // The next commit tries again.
        engine.is_merging.store(false, Ordering::Release);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::checked::InPart;
    use super::*;
    use crate::{Embedded, Read, Storage, Table, Write};

    const TABLE: Table = Table("t");
    const KEYS: u8 = 100;

    fn put_all(store: &Embedded, value: u8, durability: Durability) {
        let mut writer = store.write().unwrap();
        (0..KEYS).for_each(|key| writer.put(TABLE, &[key], &[value]).unwrap());
        writer.commit(durability).unwrap();
    }

    fn values(store: &Embedded) -> Vec<u8> {
        let reader = store.read().unwrap();
        (0..KEYS).map(|key| reader.get(TABLE, &[key]).unwrap().unwrap()[0]).collect()
    }

    /// What a store has after one share of two came into the engine, which then contradicts itself, and an opening.
    fn after_one_share(ends: impl FnOnce(InPart<'_>)) -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        let store = Embedded::open(directory.path()).unwrap();
        put_all(&store, 1, Durability::Durable);
        store.checkpoint().unwrap();
        put_all(&store, 2, Durability::Relaxed);
        let take_one = |opened: &Opened, _| {
            opened.memtable.freeze(opened.log().unwrap().reached().0);
            let (layer, _) = opened.memtable.frozen().unwrap();
            let in_part = opened.state.in_part();
            let share = Source::Layer(&layer, Share { number: 0, of: 2 });
            commit_all(opened, &[share], Durability::Relaxed).unwrap();
            ends(in_part);
            Ok(())
        };
        store.engine.with(take_one).unwrap();
        assert_eq!(values(&store), [2; KEYS as usize], "what is not in the engine is in memory");
        store.engine.broken.store(true, Ordering::Release);
        drop(store);
        values(&Embedded::open(directory.path()).unwrap())
    }

    #[test]
    fn a_share_whose_others_failed_does_not_reach_the_file() {
        assert_eq!(after_one_share(|in_part| drop(in_part)), [1; KEYS as usize]);
        // The engine would have written it when it was closed.
        let mixed = after_one_share(|in_part| in_part.finish());
        assert!(mixed.contains(&1) && mixed.contains(&2));
    }

    #[test]
    fn a_layer_of_many_shares_comes_into_the_engine_whole() {
        let directory = tempfile::tempdir().unwrap();
        let store = Embedded::open(directory.path()).unwrap();
        let changes: Vec<(u32, Vec<u8>)> = (0..40_000_u32).map(|key| (key, vec![key as u8; 20])).collect();
        let mut writer = store.write().unwrap();
        for (key, value) in &changes {
            let table = Table(["one", "two", "each_write.three"][*key as usize % 3]);
            writer.put(table, &key.to_be_bytes(), value).unwrap();
        }
        writer.commit(Durability::Durable).unwrap();
        store.checkpoint().unwrap();
        let is_empty = |opened: &Opened, _| Ok(opened.memtable.is_empty());
        assert!(store.engine.with(is_empty).unwrap());
        let mut store = store;
        let counts = store.verify().unwrap();
        assert_eq!(counts.get("one"), Some(&13_334));
        let reader = store.read().unwrap();
        for (key, value) in &changes {
            let table = Table(["one", "two", "each_write.three"][*key as usize % 3]);
            assert_eq!(reader.get(table, &key.to_be_bytes()).unwrap().as_deref(), Some(value.as_slice()));
        }
    }
}
