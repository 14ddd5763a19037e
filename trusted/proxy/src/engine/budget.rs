//! The proxy's budget for memory, as far as queries go.
//!
//! A quarter is for what is held between two steps, by cursors that wait and by sorts: a share is taken or not, and
//! what there is no share for is not held, or is spilled. A half is for steps under way: they wait for a share in
//! turn, and end by themselves, so that nobody waits for ever. The rest is the front end's, for messages and replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Steps that look at so few documents are small.
const SMALL_STEP: usize = 32;
/// Shares of the budget's half a step takes: of a megabyte, about. A large step has a reply of the server and what is
/// decoded of it in memory.
const SHARES_OF_LARGE: u32 = 24;
/// Bytes of a share.
const SHARE_BYTES: usize = 1024 * 1024;

/// Decoded documents take about so many times their encoded length.
const DECODED: usize = 4;

/// Bytes that may be held, and are.
#[derive(Debug)]
pub(super) struct Budget {
    held: Arc<AtomicUsize>,
    limit: usize,
    steps: Semaphore,
}

/// Bytes of a budget in use; given back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    held: Arc<AtomicUsize>,
    bytes: usize,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        let shares = (limit / 2 / SHARE_BYTES).clamp(SHARES_OF_LARGE as usize, Semaphore::MAX_PERMITS);
        Self { held: Arc::default(), limit: limit / 4, steps: Semaphore::new(shares) }
    }

    /// Waits for its turn to read so many documents from the server; the share is for the time until they are opened
    /// and looked at.
    pub(super) async fn step(&self, documents: usize) -> Option<SemaphorePermit<'_>> {
        let shares = if documents <= SMALL_STEP { 1 } else { SHARES_OF_LARGE };
        // It is never closed.
        self.steps.acquire_many(shares).await.ok()
    }

    /// A share for decoded documents of `encoded` bytes; `None` if there is none left.
    pub(super) fn share(&self, encoded: usize) -> Option<Share> {
        let bytes = encoded.saturating_mul(DECODED);
        let take = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.limit);
        self.held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).ok()?;
        Some(Share { held: Arc::clone(&self.held), bytes })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_exceed_the_budget_and_come_back() {
        let budget = Budget::new(4 * 100 * DECODED);
        let first = budget.share(60).expect("there is room");
        assert!(budget.share(41).is_none());
        let second = budget.share(40);
        assert!(second.is_some() && budget.share(1).is_none());
        drop(first);
        assert!(budget.share(60).is_some());
        assert!(budget.share(usize::MAX).is_none());
    }
}
