//! The part of the budget for memory that is the front end's: messages under way, in and out.
//!
//! Messages that come in and replies that go out have an eighth of the budget each, or room for a few of the largest. They
//! are waited for in turn. Whoever holds a share of the first waits for the second at most, and whoever holds one of
//! the second waits for its client alone, for whom there is a time limit: so nobody waits in a circle. A message takes its share once
//! its first part has come, of a large one a MiB, for which there is room beside; and it gives it up if the rest comes slowly while
//! others wait. So does a reply that is taken slowly.

use crate::error::CommandError;
use crate::wire::{DOCUMENT_BYTES_MAX, MESSAGE_BYTES_MAX};
pub(crate) use arras_transport::room::{BEGINNING_BYTES, Beginning, Share, UNCOUNTED_BYTES};
use arras_transport::room::{MessageRoom, Refused};
use std::time::Duration;

/// How long a request waits for a share: as much as its client's patience, which is not known.
const REQUEST_PATIENCE: Duration = Duration::from_secs(120);
/// How long a reply waits for one.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that messages may hold.
#[derive(Debug)]
pub(crate) struct Memory {
    requests: MessageRoom,
    replies: MessageRoom,
}

impl Memory {
    /// A budget of so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let share = (bytes / 8).max(6 * DOCUMENT_BYTES_MAX);
        let room = || MessageRoom::new(share, MESSAGE_BYTES_MAX);
        Self {
            requests: room().with_middle().with_patience(REQUEST_PATIENCE),
            // What waits is there already, whatever is waited for.
            replies: room().with_patience(PATIENCE).with_holders(),
        }
    }

    /// Waits for room for the beginning of a request; `None` if it is not of the largest.
    ///
    /// # Errors
    /// There is none for too long.
    pub(crate) async fn beginning(&self, bytes: usize) -> Result<Option<Beginning>, Refused> {
        self.requests.beginning(bytes).await
    }

    /// Does what waits for that beginning.
    ///
    /// # Errors
    /// As of [`Self::receiving`].
    pub(crate) async fn beginning_with<T>(
        &self,
        beginning: &Beginning,
        work: impl Future<Output = T>,
    ) -> Result<T, Refused> {
        self.requests.beginning_with(beginning, work).await
    }

    /// Waits for room for a request; `None` if it is too small to count.
    ///
    /// # Errors
    /// There is none for too long.
    pub(crate) async fn request(&self, bytes: usize) -> Result<Option<Share>, Refused> {
        self.requests.share(bytes).await
    }

    /// Does what waits for the rest of a request.
    ///
    /// # Errors
    /// Its share is to be given up, as it has been had for long, or little of it has come for a while, and others wait.
    pub(crate) async fn receiving<T>(
        &self,
        share: &Share,
        work: impl Future<Output = T>,
    ) -> Result<T, Refused> {
        self.requests.coming(Some(share), work).await
    }

    /// The same of what waits for a client to take a reply, from now on.
    ///
    /// # Errors
    /// As of [`Self::receiving`].
    pub(crate) async fn sending<T>(
        &self,
        mut share: Option<Share>,
        work: impl Future<Output = T>,
    ) -> Result<T, Refused> {
        if let Some(share) = &mut share {
            share.begin();
        }
        self.replies.giving_up(share.as_ref(), work).await
    }

    /// How large a batch may be, the less is left for replies the smaller, and the room for it, unless it is too small to
    /// count.
    pub(crate) fn batch(&self) -> (usize, Option<Share>) {
        let bytes = (self.replies.free() / 4).clamp(UNCOUNTED_BYTES, DOCUMENT_BYTES_MAX);
        match self.replies.try_message(bytes) {
            Ok(share) => (bytes, share),
            // Others were quicker.
            Err(_) => (UNCOUNTED_BYTES, None),
        }
    }

    /// Waits for room for a reply of so many bytes; `None` if it is too small to count. Error 146 if there is none
    /// for too long, or too much waits already.
    pub(crate) async fn reply(&self, bytes: usize) -> Result<Option<Share>, CommandError> {
        self.replies.share(bytes).await.map_err(|_| {
            let text = "the proxy's memory is full of replies that their clients do not read; try again";
            CommandError::new(146, "ExceededMemoryLimit", text)
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::time::{Instant, sleep, timeout};

    const MIB: usize = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn a_share_is_given_up_when_its_message_is_slow_and_others_wait() {
        let memory = Arc::new(Memory::new(1));
        let held = memory.request(MESSAGE_BYTES_MAX).await.unwrap().unwrap();
        let nothing = std::future::pending::<()>;
        let hour = Duration::from_secs(3600);
        assert!(timeout(hour, memory.receiving(&held, nothing())).await.is_err(), "nobody waits");
        let other = tokio::spawn({
            let memory = Arc::clone(&memory);
            async move { memory.request(MESSAGE_BYTES_MAX).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(memory.receiving(&held, nothing()).await, Err(Refused::GivenUp));
        drop(held);
        assert!(other.await.unwrap().unwrap().is_some());
    }

    /// However many announce much and send little, or do not read.
    #[tokio::test(start_paused = true)]
    async fn many_who_are_slow_do_not_keep_others_from_being_served() {
        let memory = Arc::new(Memory::new(512 * MIB));
        for number in 0..100 {
            let memory = Arc::clone(&memory);
            tokio::spawn(async move {
                let nothing = std::future::pending::<()>;
                loop {
                    if number % 2 == 0 {
                        let Ok(Some(share)) = memory.request(47 * MIB).await else { continue };
                        let _ = memory.receiving(&share, nothing()).await;
                    } else {
                        let share = memory.batch().1;
                        let _ = memory.sending(share, nothing()).await;
                        sleep(Duration::from_millis(10)).await;
                    }
                }
            });
        }
        sleep(Duration::from_secs(30)).await;
        for _ in 0..20 {
            let began = Instant::now();
            assert!(memory.request(100 * 1024).await.unwrap().is_some());
            assert!(memory.reply(100 * 1024).await.unwrap().is_some());
            assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        }
    }

    /// What waits for room is in memory itself.
    #[tokio::test(start_paused = true)]
    async fn no_more_waits_than_there_is_room_for() {
        let memory = Arc::new(Memory::new(1));
        let mut held = Vec::new();
        while let Ok(share) = memory.replies.try_message(8 * MIB) {
            held.push(share);
        }
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let memory = Arc::clone(&memory);
                tokio::spawn(async move { memory.reply(8 * MIB).await.is_ok() })
            })
            .collect();
        sleep(Duration::from_millis(1)).await;
        let refused = waiting.iter().filter(|one| one.is_finished()).count();
        assert!(refused >= 90, "{refused}");
        drop(held);
        let mut served = 0;
        for one in waiting {
            served += usize::from(one.await.unwrap());
        }
        assert_eq!(served, 100 - refused);
    }

    #[tokio::test]
    async fn batches_shrink_as_replies_pile_up_and_grow_again() {
        let memory = Memory::new(512 * MIB);
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
        let left = memory.replies.free();
        let mut share = share.unwrap();
        share.shrink(MIB);
        assert_eq!(memory.replies.free(), left + 15 * MIB, "what a batch does not need is given back");
    }
}
