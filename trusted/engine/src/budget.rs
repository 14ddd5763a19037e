//! The proxy's budget for memory, as far as queries go.
//!
//! A quarter is for what is held from one step to the next. Half of it at most for documents that cursors keep at hand
//! while nobody asks for them: what there is no share for is read again, or spilled. All of it for what queries cannot
//! do without: names of rows, and the working memory of sorts and groups, which spill sooner when little is left; what
//! can be neither spilled nor held is an error. A half is for steps under way: they wait for a share in turn, and end
//! by themselves, so that nobody waits for ever. The rest is the front end's, for messages and replies.

use super::error;
use arras_documents::spill::Pool;
use arras_protocol::limits::REPLY_BYTES_SOFT;
use arras_service::{Fault, ServiceError};
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

/// What a step reads is there so many times at most: as a reply, and opened twice.
const COPIES: usize = 3;

/// Decoded documents take about so many times their encoded length.
const DECODED: usize = 4;

/// A query that is let go on when there is little memory asks for so many bytes more at a time.
const ASKED_AT_ONCE: usize = 16 * 1024;

/// Bytes that may be held, and are.
#[derive(Debug)]
pub(super) struct Budget {
    held: Arc<Holdings>,
    steps: Semaphore,
}

/// Bytes held by everybody.
#[derive(Debug)]
struct Holdings {
    bytes: AtomicUsize,
    limit: usize,
}

impl Holdings {
    /// Takes so many bytes unless more than `limit` were held with them.
    fn take(&self, bytes: usize, limit: usize) -> bool {
        let take = |held: usize| held.checked_add(bytes).filter(|held| *held <= limit);
        self.bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// Working memory of sorts and groups, in bytes of documents as encoded.
impl Pool for Holdings {
    fn take(&self, bytes: usize) -> bool {
        Holdings::take(self, bytes.saturating_mul(DECODED), self.limit)
    }

    fn give_back(&self, bytes: usize) {
        Holdings::give_back(self, bytes.saturating_mul(DECODED));
    }
}

/// Bytes of a budget in use; given back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    held: Arc<Holdings>,
    bytes: usize,
}

impl Share {
    /// Has `bytes` bytes of decoded documents more; false if others leave less, of which a quarter is not for this.
    pub(super) fn grow(&mut self, encoded: usize) -> bool {
        let bytes = encoded.saturating_mul(DECODED);
        let granted = self.held.take(bytes, self.held.limit / 4 * 3);
        if granted {
            self.bytes += bytes;
        }
        granted
    }

    /// Has no more than decoded documents of `encoded` bytes need.
    pub(super) fn shrink(&mut self, encoded: usize) {
        let left = encoded.saturating_mul(DECODED).min(self.bytes);
        self.held.give_back(self.bytes - left);
        self.bytes = left;
    }

    /// Whether it may be kept while nobody asks for what it is for: reading documents again costs less than memory that
    /// idle cursors keep from others.
    pub(super) fn may_rest(&self) -> bool {
        self.held.bytes.load(Ordering::SeqCst) <= self.held.limit / 4
    }
}

/// Bytes of what a query cannot do without, as many as it needs at a time; given back when dropped.
#[derive(Debug)]
pub(super) struct Claim {
    share: Share,
}

impl Claim {
    /// Has at least `bytes` bytes. Error 146 if others leave less.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), ServiceError> {
        let limit = self.share.held.limit;
        self.hold_of(bytes, limit)
    }

    fn hold_of(&mut self, bytes: usize, limit: usize) -> Result<(), ServiceError> {
        let missing = bytes.saturating_sub(self.share.bytes);
        if missing == 0 {
            return Ok(());
        }
        let missing = missing.saturating_add(ASKED_AT_ONCE);
        if !self.share.held.take(missing, limit) {
            let message = "the proxy's memory for what queries have found is used up: narrow the filter, try again \
                           when other queries are done, or raise `memory` in the configuration";
            return Err(error::of(Fault::MemoryExceeded, message));
        }
        self.share.bytes += missing;
        Ok(())
    }

    /// The same for documents of `encoded` bytes, decoded; a quarter is left for names.
    pub(super) fn hold_documents(&mut self, encoded: usize) -> Result<(), ServiceError> {
        let limit = self.share.held.limit / 4 * 3;
        self.hold_of(encoded.saturating_mul(DECODED), limit)
    }

    /// Has no more than so many bytes.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let left = bytes.min(self.share.bytes);
        self.share.held.give_back(self.share.bytes - left);
        self.share.bytes = left;
    }

    /// Has no more than decoded documents of `encoded` bytes need.
    pub(super) fn shrink_documents(&mut self, encoded: usize) {
        self.share.shrink(encoded);
    }
}

impl Budget {
    /// A budget of `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        let shares = (limit / 2 / SHARE_BYTES).clamp(SHARES_OF_LARGE as usize, Semaphore::MAX_PERMITS);
        let held = Arc::new(Holdings { bytes: AtomicUsize::new(0), limit: limit / 4 });
        Self { held, steps: Semaphore::new(shares) }
    }

    /// Waits for its turn to read so many documents, of so many bytes on average, from the server; the share is for the
    /// time until they are opened and looked at.
    pub(super) async fn step(&self, documents: usize, mean: Option<u64>) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.steps.acquire_many(shares(documents, mean)).await.ok()
    }

    /// A share for decoded documents of `encoded` bytes; `None` if there is none left.
    pub(super) fn share(&self, encoded: usize) -> Option<Share> {
        let bytes = encoded.saturating_mul(DECODED);
        self.held.take(bytes, self.held.limit / 2).then(|| Share { held: Arc::clone(&self.held), bytes })
    }

    /// A share of nothing yet.
    pub(super) fn no_share(&self) -> Share {
        Share { held: Arc::clone(&self.held), bytes: 0 }
    }

    /// Nothing yet of what a query cannot do without.
    pub(super) fn claim(&self) -> Claim {
        Claim { share: self.no_share() }
    }

    /// What sorts and groups share.
    pub(super) fn pool(&self) -> Arc<dyn Pool> {
        Arc::clone(&self.held) as Arc<dyn Pool>
    }

    /// Bytes held now.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.bytes.load(Ordering::SeqCst)
    }
}

/// Shares that a step takes which reads so many documents.
fn shares(documents: usize, mean: Option<u64>) -> u32 {
    if documents > SMALL_STEP {
        return SHARES_OF_LARGE;
    }
    let mean = usize::try_from(mean.unwrap_or(0)).unwrap_or(usize::MAX);
    // Of those a reply has room for one more, at most.
    let read = documents.saturating_mul(mean).min(REPLY_BYTES_SOFT.saturating_add(mean));
    let shares = read.saturating_mul(COPIES).div_ceil(SHARE_BYTES);
    u32::try_from(shares).unwrap_or(u32::MAX).clamp(1, SHARES_OF_LARGE)
}

impl Drop for Share {
    fn drop(&mut self) {
        self.held.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_large_documents_are_no_small_step() {
        assert_eq!(
            (shares(15, None), shares(15, Some(1000)), shares(1000, Some(10))),
            (1, 1, SHARES_OF_LARGE)
        );
        assert_eq!((shares(1, Some(1 << 20)), shares(15, Some(1 << 20))), (3, SHARES_OF_LARGE));
        assert_eq!(shares(SMALL_STEP, Some(u64::MAX)), SHARES_OF_LARGE);
    }

    #[test]
    fn shares_never_exceed_the_budget_and_come_back() {
        let budget = Budget::new(4 * 2 * 100 * DECODED);
        let first = budget.share(60).expect("there is room");
        assert!(budget.share(41).is_none());
        let second = budget.share(40);
        assert!(second.is_some() && budget.share(1).is_none());
        drop(first);
        assert!(budget.share(60).is_some());
        assert!(budget.share(usize::MAX).is_none());
    }

    #[test]
    fn what_cannot_be_done_without_goes_beyond_what_can_and_is_refused_at_the_limit() {
        let budget = Budget::new(4 * 1024 * 1024);
        let cursors = budget.share(512 * 1024 / DECODED).expect("half of the quarter");
        assert!(budget.share(1).is_none());
        let mut rows = budget.claim();
        rows.hold(100_000).expect("the other half");
        rows.hold(100_000).expect("held already");
        assert!(budget.pool().take(50_000));
        assert_eq!(rows.hold(500_000).expect_err("too much").fault, Fault::MemoryExceeded);
        budget.pool().give_back(50_000);
        drop(cursors);
        assert_eq!(
            rows.hold_documents(900_000 / DECODED).expect_err("some is left for names").fault,
            Fault::MemoryExceeded
        );
        rows.hold_documents(500_000 / DECODED).expect("there is room again");
        drop(rows);
        assert_eq!(budget.held_bytes(), 0);
    }
}
