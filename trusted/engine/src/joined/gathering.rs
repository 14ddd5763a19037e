//! Waiting for the rest of a crowd.
//!
//! Clients that write one document after the other come back soon after they were told. Whoever gets the lock first
//! would go alone, or with the few that came while the last joined write was under way: the crowd falls into halves
//! that take turns, and pays for two joined writes where one would do. So as many as there were are waited for, for a
//! moment. A writer without company never waits; where those waited for do not come, nobody is waited for for longer
//! and longer.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a crowd is waited for; the timer's own step is as long.
const MOMENT: Duration = Duration::from_millis(1);

/// Joined writes that wait for nobody after those waited for did not come: at first, and at most.
const APART_FIRST: u32 = 16;
const APART_MOST: u32 = 1024;

/// How the holder of the write lock waits for other writers.
#[derive(Default)]
pub(super) struct Gathering {
    /// How many writers the last joined write had, with those that waited at its end.
    crowd: AtomicUsize,
    /// How many are waited for now.
    wanted: AtomicUsize,
    arrived: Notify,
    /// How many of the next joined writes wait for nobody.
    apart: AtomicU32,
    /// How many it was the last time.
    apart_before: AtomicU32,
}

impl Gathering {
    /// A joined write is done and nobody has been told: so many writers there are.
    pub(super) fn note_crowd(&self, writers: usize) {
        self.crowd.store(writers, Ordering::Relaxed);
    }

    /// A writer has come, and so many wait.
    pub(super) fn note_arrival(&self, waiting: usize) {
        let wanted = self.wanted.load(Ordering::SeqCst);
        if wanted > 0 && waiting >= wanted {
            self.arrived.notify_one();
        }
    }

    /// Waits until as many wait as there were the last time, `most` at most, but not for long. Called by the holder of
    /// the write lock alone.
    pub(super) async fn gather(&self, most: usize, waiting: impl Fn() -> usize) {
        let crowd = self.crowd.load(Ordering::Relaxed).min(most);
        if crowd < 2 || waiting() >= crowd {
            return;
        }
        let apart = self.apart.load(Ordering::Relaxed);
        if apart > 0 {
            return self.apart.store(apart - 1, Ordering::Relaxed);
        }
        self.wanted.store(crowd, Ordering::SeqCst);
        let come = async {
            while waiting() < crowd {
                self.arrived.notified().await;
            }
        };
        let have_come = tokio::time::timeout(MOMENT, come).await.is_ok();
        self.wanted.store(0, Ordering::SeqCst);
        if have_come {
            return self.apart_before.store(0, Ordering::Relaxed);
        }
        let before = self.apart_before.load(Ordering::Relaxed);
        let apart = (before * 2).clamp(APART_FIRST, APART_MOST);
        self.apart.store(apart, Ordering::Relaxed);
        self.apart_before.store(apart, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
