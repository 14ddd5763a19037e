//! How what is committed comes from the memtable into the engine.

use super::committing::{Source, commit_all};
use super::opening::Opened;
use super::recovering::{Origin, Recovering};
use super::wal::{Mark, WriteAheadLog};
use crate::{Changes, Durability, StorageError};
use smallvec::SmallVec;
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

    /// Has the engine have everything, in memory.
    pub(super) fn merge_all(&self, settled: &mut Settled<'_>) -> Result<(), redb::Error> {
        self.merge_frozen()?;
        self.memtable.freeze(settled.log.reached().0);
        self.merge_frozen()
    }

    /// Has the engine have what is committed now: durably, so that the log's records of it are free, if those are many or
    /// relaxed commits changed much.
    fn merge(&self) -> Result<(), redb::Error> {
        let _merging = self.merging();
        // What is left of an attempt that failed.
        self.merge_frozen()?;
        let released = {
            // No commit is made meanwhile.
            let Some(log) = self.log() else { return Ok(()) };
            let (mark, place) = log.reached();
            self.memtable.freeze(mark);
            let relaxed_bytes = self.relaxed_bytes.load(Ordering::Acquire);
            let is_durable =
                log.held() >= self.limits.log_bytes / 3 || relaxed_bytes >= self.limits.relaxed_bytes;
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
    fn write(&self, mark: Mark, durability: Durability) -> Result<(), redb::Error> {
        let mut marked = Changes::new();
        mark.mark(&mut marked);
        let frozen = self.memtable.frozen();
        let layer = frozen.as_ref().map(|(layer, _)| Source::Layer(layer));
        let sources: SmallVec<[Source<'_>; 2]> =
            layer.into_iter().chain([Source::Changes(&marked)]).collect();
        commit_all(self, &sources, durability)?;
        self.memtable.merged();
        Ok(())
    }
}

impl Recovering {
    /// Merges now, or waits for who does.
    pub(super) fn merge(&self, opened: &Opened, origin: &Origin) -> Result<(), StorageError> {
        self.guarded_write(origin, || opened.merge())
    }
}

/// Has a thread merge; one at a time, which ends then.
pub(super) fn merge_in_background(engine: &Arc<Recovering>) {
    if engine.is_merging.swap(true, Ordering::AcqRel) {
        return;
    }
    let merging = Arc::clone(engine);
    let begun = std::thread::Builder::new().name("arras-merge".into()).spawn(move || {
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
