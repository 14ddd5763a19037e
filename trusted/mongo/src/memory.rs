//! The part of the budget for memory that is the front end's: messages under way, in and out.
//!
//! Messages that come in and replies that go out have an eighth of the budget each, or room for the largest two. They
//! are waited for in turn. Whoever holds a share of the first waits for the second at most, and whoever holds one of
//! the second waits for its client alone, for whom there is a time limit: so nobody waits in a circle. A message takes its share once
//! its first part has come, and gives it up if the rest comes slowly while others wait.

use crate::error::CommandError;
use crate::wire::{DOCUMENT_BYTES_MAX, MESSAGE_BYTES_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// Bytes of a permit.
const PERMIT_BYTES: usize = 1024;
/// Messages up to this size, in bytes, are not worth counting: a connection costs as much.
pub(crate) const UNCOUNTED_BYTES: usize = 64 * 1024;
/// For how long whoever sends a message slowly has its share while others wait for one.
const SLOWEST: Duration = Duration::from_secs(20);
/// How often it is looked whether others wait, then.
const LOOK: Duration = Duration::from_millis(500);
/// How long a reply waits for a share.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that messages may hold.
#[derive(Debug)]
pub(crate) struct Memory {
    requests: Arc<Semaphore>,
    replies: Arc<Semaphore>,
    /// Requests that wait for a share.
    waiting: AtomicUsize,
}

/// A request that waits, as long as it does.
struct Waiting<'m>(&'m AtomicUsize);

impl<'m> Waiting<'m> {
    fn among(all: &'m AtomicUsize) -> Self {
        all.fetch_add(1, Ordering::Relaxed);
        Self(all)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A share of them; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    permit: OwnedSemaphorePermit,
}

impl Share {
    /// Gives back what is beyond so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let beyond = self.permit.num_permits().saturating_sub(permits(bytes) as usize);
        drop(self.permit.split(beyond));
    }
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX)
}

impl Memory {
    /// A budget of so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let share = (bytes / 8).max(2 * MESSAGE_BYTES_MAX);
        let semaphore = || Arc::new(Semaphore::new((share / PERMIT_BYTES).min(Semaphore::MAX_PERMITS)));
        Self { requests: semaphore(), replies: semaphore(), waiting: AtomicUsize::new(0) }
    }

    /// Waits for room for a request; `None` if it is too small to count.
    pub(crate) async fn request(&self, bytes: usize) -> Option<Share> {
        if bytes <= UNCOUNTED_BYTES {
            return None;
        }
        if let Ok(permit) = Arc::clone(&self.requests).try_acquire_many_owned(permits(bytes)) {
            return Some(Share { permit });
        }
        let _waiting = Waiting::among(&self.waiting);
        // It is never closed.
        let permit = Arc::clone(&self.requests).acquire_many_owned(permits(bytes)).await.ok()?;
        Some(Share { permit })
    }

    /// Ends when a share that is taken now is to be given up, as its message has not come in a time and others wait.
    pub(crate) async fn to_be_given_up(&self) {
        sleep(SLOWEST).await;
        while self.waiting.load(Ordering::Relaxed) == 0 {
            sleep(LOOK).await;
        }
    }

    /// How large a batch may be, the less is left for replies the smaller, and the room for it, unless it is too small to
    /// count.
    pub(crate) fn batch(&self) -> (usize, Option<Share>) {
        let left = self.replies.available_permits().saturating_mul(PERMIT_BYTES);
        let bytes = (left / 4).clamp(UNCOUNTED_BYTES, DOCUMENT_BYTES_MAX);
        if bytes <= UNCOUNTED_BYTES {
            return (bytes, None);
        }
        match Arc::clone(&self.replies).try_acquire_many_owned(permits(bytes)) {
            Ok(permit) => (bytes, Some(Share { permit })),
            // Others were quicker.
            Err(_) => (UNCOUNTED_BYTES, None),
        }
    }

    /// Waits for room for a reply of so many bytes; `None` if it is too small to count. Error 146 if there is none
    /// for too long.
    pub(crate) async fn reply(&self, bytes: usize) -> Result<Option<Share>, CommandError> {
        if bytes <= UNCOUNTED_BYTES {
            return Ok(None);
        }
        match timeout(PATIENCE, Arc::clone(&self.replies).acquire_many_owned(permits(bytes))).await {
            Ok(Ok(permit)) => Ok(Some(Share { permit })),
            Ok(Err(_)) => Ok(None),
            Err(_) => {
                let text = "the proxy's memory is full of replies that their clients do not read; try again";
                Err(CommandError::new(146, "ExceededMemoryLimit", text))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_share_is_given_up_when_its_message_is_slow_and_others_wait() {
        let memory = Arc::new(Memory::new(1));
        let held = [memory.request(MESSAGE_BYTES_MAX).await, memory.request(MESSAGE_BYTES_MAX).await];
        assert!(held.iter().all(Option::is_some));
        // Nobody waits: it is kept for as long as it takes.
        assert!(timeout(10 * SLOWEST, memory.to_be_given_up()).await.is_err());
        let other = tokio::spawn({
            let memory = Arc::clone(&memory);
            async move { memory.request(1 << 20).await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(timeout(SLOWEST / 2, memory.to_be_given_up()).await.is_err());
        timeout(2 * SLOWEST, memory.to_be_given_up()).await.unwrap();
        drop(held);
        assert!(other.await.unwrap());
        assert!(timeout(10 * SLOWEST, memory.to_be_given_up()).await.is_err());
    }

    #[tokio::test]
    async fn batches_shrink_as_replies_pile_up_and_grow_again() {
        let memory = Memory::new(512 * 1024 * 1024);
        let mut held = Vec::new();
        let mut last = usize::MAX;
        for _ in 0..30 {
            let (bytes, share) = memory.batch();
            assert!(bytes <= last);
            last = bytes;
            held.push(share);
        }
        assert!(last < DOCUMENT_BYTES_MAX / 4, "{last}");
        held.clear();
        let (bytes, share) = memory.batch();
        assert_eq!(bytes, DOCUMENT_BYTES_MAX);
        let left = memory.replies.available_permits();
        let mut share = share.unwrap();
        share.shrink(1024 * 1024);
        assert_eq!(
            memory.replies.available_permits(),
            left + 15 * 1024,
            "what a batch does not need is given back"
        );
    }
}
