//! A keeper in this process, that counts.

use arras_protocol::mope::{Fetch, Fetched, Round, TreeChange, TreeStore};
use arras_schemes::mope::memory::MemoryStore;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// See the module.
#[derive(Clone, Default)]
pub(super) struct Keeper {
    pub(super) store: Arc<MemoryStore>,
    rounds: Arc<AtomicUsize>,
    /// Of each change that rewrites labels: how many.
    rewritten: Arc<Mutex<Vec<u64>>>,
    /// Of each call.
    round_trip: Duration,
}

impl Keeper {
    /// The same keeper, each of whose calls takes so much longer.
    pub(super) fn at(self, round_trip: Duration) -> Self {
        Self { round_trip, ..self }
    }

    /// Rounds that only read, since this was asked last.
    pub(super) fn rounds(&self) -> usize {
        self.rounds.swap(0, Ordering::Relaxed)
    }

    /// Labels that changes rewrote since this was asked last, in ascending order.
    pub(super) fn rewritten(&self) -> Vec<u64> {
        let mut rewritten =
            std::mem::take(&mut *self.rewritten.lock().unwrap_or_else(PoisonError::into_inner));
        rewritten.sort_unstable();
        rewritten
    }
}

impl TreeStore for Keeper {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        if self.round_trip.is_zero() {
            return self.store.fetch(fetch);
        }
        Box::pin(async move {
            tokio::time::sleep(self.round_trip).await;
            self.store.fetch(fetch).await
        })
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        let rewrites = !change.summaries.is_empty();
        if self.round_trip.is_zero() && !rewrites {
            return self.store.commit(change);
        }
        Box::pin(async move {
            if !self.round_trip.is_zero() {
                tokio::time::sleep(self.round_trip).await;
            }
            let before = self.store.kept().rewritten;
            let applied = self.store.commit(change).await?;
            if rewrites {
                let rewritten = self.store.kept().rewritten - before;
                self.rewritten.lock().unwrap_or_else(PoisonError::into_inner).push(rewritten);
            }
            Ok(applied)
        })
    }
}
