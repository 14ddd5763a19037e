//! The budget for memory of all connections together.
//!
//! Half of it is for requests: from the first byte of a body until the request was worked on, its length and what is
//! made of it, and the parts of a large write while they are applied. The other half is for replies: for one that is
//! being built a share, so that as many can be built as are worked on at once; for one that waits for its peer, its
//! length. Room is granted in the order in which it was asked for, whatever the size; who asks for more than there is in
//! all is granted it alone.
//!
//! *Nobody waits in a circle.* Who has room for a request waits for its peer's bytes, for a worker, for room for its
//! reply, or, in the same queue as everybody, for more of it; those who wait so are not in each other's way
//! (`State::active`). Who has room for a reply waits for its peer only. A peer that is too slow is given up
//! (`super::pace`).
//!
//! A reply that comes to more than its share is counted once it is there, above the budget if need be: as many as are
//! worked on at once may, and nothing more is granted until there is room again. So it is with the reply to a look at
//! single records, which takes no share and waits only while the budget is used up.

use arras_protocol::limits::REPLY_BYTES_SOFT;
use arras_protocol::{Protocol, ProtocolId, write};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// What a reply may come to, but for one with a large document: its parts, and their encoding.
const BUILT_BYTES: usize = 2 * REPLY_BYTES_SOFT;

/// One half of the budget.
#[derive(Debug)]
struct Half {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct Waiting {
    /// What it holds already, and goes on to hold.
    has: usize,
    /// What it asks for beside that.
    wants: usize,
    grant: oneshot::Sender<Room>,
}

#[derive(Debug, Default)]
struct State {
    held: usize,
    /// Most that was ever held.
    peak: usize,
    /// Those who wait, in the order in which they came.
    waiting: VecDeque<Waiting>,
}

impl State {
    fn hold(&mut self, bytes: usize) {
        self.held = self.held.saturating_add(bytes);
        self.peak = self.peak.max(self.held);
    }

    /// What those hold who do not wait for more: it comes back whoever waits.
    fn active(&self) -> usize {
        let live = self.waiting.iter().filter(|waiting| !waiting.grant.is_closed());
        self.held.saturating_sub(live.map(|waiting| waiting.has).sum())
    }

    /// Whether there is room for the first that waits; who is alone is granted whatever it asks for.
    fn is_next(&self, wants: usize, limit: usize) -> bool {
        self.held.saturating_add(wants) <= limit || self.active() == 0
    }
}

/// Room that is held until this is dropped.
#[derive(Debug)]
pub(super) struct Room {
    half: Arc<Half>,
    bytes: usize,
}

/// Lets the next one have its turn when this ends, granted or given up.
struct Turn<'h>(&'h Arc<Half>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.grant();
    }
}

impl Half {
    fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room(self: &Arc<Self>, bytes: usize) -> Room {
        Room { half: Arc::clone(self), bytes }
    }

    /// Counts without waiting.
    fn count(self: &Arc<Self>, bytes: usize) -> Room {
        self.state().hold(bytes);
        self.room(bytes)
    }

    /// Waits for room, in turn; who asks `has` so much already.
    async fn take(self: &Arc<Self>, has: usize, wants: usize) -> Room {
        match self.try_take(has, wants) {
            Ok(room) => room,
            Err(granted) => {
                let _turn = Turn(self);
                // The one who joined may be what the first was waiting for.
                self.grant();
                // Whoever waits is granted room once those before it have had it, and given it back.
                granted.await.unwrap_or_else(|_| self.room(0))
            }
        }
    }

    /// Room, if it is this one's turn; otherwise its place in the queue.
    fn try_take(self: &Arc<Self>, has: usize, wants: usize) -> Result<Room, oneshot::Receiver<Room>> {
        let mut state = self.state();
        let fits = state.held.saturating_add(wants) <= self.limit || state.held == has;
        if state.waiting.is_empty() && fits {
            state.hold(wants);
            return Ok(self.room(wants));
        }
        let (grant, granted) = oneshot::channel();
        state.waiting.push_back(Waiting { has, wants, grant });
        Err(granted)
    }

    /// Grants what there is room for now to those who wait.
    fn grant(self: &Arc<Self>) {
        loop {
            let (grant, room) = {
                let mut state = self.state();
                // Who has gone meanwhile is passed over.
                while state.waiting.front().is_some_and(|first| first.grant.is_closed()) {
                    state.waiting.pop_front();
                }
                let wants = state.waiting.front().map(|first| first.wants);
                if !wants.is_some_and(|wants| state.is_next(wants, self.limit)) {
                    return;
                }
                let Some(Waiting { wants, grant, .. }) = state.waiting.pop_front() else { return };
                state.hold(wants);
                (grant, self.room(wants))
            };
            // If it has gone since, the room comes back with its end.
            drop(grant.send(room));
        }
    }
}

impl Room {
    /// Waits for so many bytes more, in turn.
    pub(super) async fn grow(&mut self, bytes: usize) {
        let mut more = self.half.take(self.bytes, bytes).await;
        self.bytes = self.bytes.saturating_add(std::mem::take(&mut more.bytes));
    }

    /// Holds so many bytes from now on, fewer or more than before, without waiting.
    pub(super) fn resize(&mut self, bytes: usize) {
        {
            let mut state = self.half.state();
            state.held = state.held.saturating_sub(self.bytes);
            state.hold(bytes);
        }
        self.bytes = bytes;
        self.half.grant();
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        {
            let mut state = self.half.state();
            state.held = state.held.saturating_sub(self.bytes);
        }
        self.half.grant();
    }
}

/// What all connections of a listener may hold.
#[derive(Clone, Debug)]
pub struct Memory {
    requests: Arc<Half>,
    replies: Arc<Half>,
    /// What is set aside for a reply that is being built.
    share: usize,
}

impl Memory {
    /// A budget of so many bytes, where so many requests are worked on at once.
    pub(super) fn new(bytes: usize, workers: usize) -> Self {
        let half = bytes / 2;
        let share = BUILT_BYTES.min(half / workers.max(1));
        Self { requests: Half::new(half), replies: Half::new(half), share }
    }

    /// Waits for room for a request with a body of so many bytes: for those, what is decoded of them and, of a write, what
    /// the store holds until its commit.
    pub(super) async fn request(&self, protocol: ProtocolId, body_bytes: usize) -> Room {
        let times = if protocol == write::Write::ID { 3 } else { 2 };
        self.requests.take(0, body_bytes.saturating_mul(times)).await
    }

    /// Waits for room for a reply that is about to be built.
    pub(super) async fn reply(&self) -> Room {
        self.replies.take(0, self.share).await
    }

    /// Waits, in turn, until the budget for replies is not used up.
    pub(super) async fn small_reply(&self) -> Room {
        self.replies.take(0, 0).await
    }

    /// Counts a reply that is there already, without waiting.
    pub(super) fn made(&self, bytes: usize) -> Room {
        self.replies.count(bytes)
    }

    /// How many requests wait for room.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.requests.state().waiting.len().saturating_add(self.replies.state().waiting.len())
    }

    /// The most that was ever held at once for requests, and for replies, in bytes.
    #[must_use]
    pub fn peaks(&self) -> (usize, usize) {
        (self.requests.state().peak, self.replies.state().peak)
    }
}

#[cfg(test)]
mod tests;
