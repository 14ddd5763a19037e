//! Counts messages, rounds and bytes as encoded.

use arras_protocol::frame::HEADER_BYTES;
use arras_protocol::{Channel, ChannelError, Protocol, codec};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Requests and replies: two a call.
    pub messages: u64,
    /// Times something was sent while no call was under way: what a distant client waits for.
    pub rounds: u64,
    /// Bytes of the requests' frames, headers included.
    pub sent_bytes: u64,
    /// Bytes of the replies' frames, headers included.
    pub received_bytes: u64,
    /// Bytes among those received that are the very records asked for ([`Protocol::result_bytes`]).
    pub result_bytes: u64,
}

impl Traffic {
    /// Bytes both ways without the records asked for: what the literature compares.
    #[must_use]
    pub fn overhead_bytes(&self) -> u64 {
        (self.sent_bytes + self.received_bytes).saturating_sub(self.result_bytes)
    }
}

impl std::ops::Sub for Traffic {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            messages: self.messages - before.messages,
            rounds: self.rounds - before.rounds,
            sent_bytes: self.sent_bytes - before.sent_bytes,
            received_bytes: self.received_bytes - before.received_bytes,
            result_bytes: self.result_bytes - before.result_bytes,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    traffic: Traffic,
    under_way: u64,
}

/// The counts of a [`Counting`] channel.
#[derive(Clone, Debug, Default)]
pub struct TrafficTally(Arc<Mutex<State>>);

impl TrafficTally {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has passed so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.lock().traffic
    }

    fn began(&self, body_bytes: usize) {
        let mut state = self.lock();
        state.traffic.rounds += u64::from(state.under_way == 0);
        state.traffic.messages += 1;
        state.traffic.sent_bytes += (HEADER_BYTES + body_bytes) as u64;
        state.under_way += 1;
    }

    fn replied(&self, body_bytes: usize, result_bytes: usize) {
        let mut state = self.lock();
        state.traffic.messages += 1;
        state.traffic.received_bytes += (HEADER_BYTES + body_bytes) as u64;
        state.traffic.result_bytes += result_bytes as u64;
    }
}

/// A call under way; dropped when it ended, however it did.
struct UnderWay<'a>(&'a TrafficTally);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.lock().under_way -= 1;
    }
}

/// A channel that counts.
#[derive(Clone, Debug)]
pub struct Counting<C> {
    channel: C,
    tally: TrafficTally,
}

impl<C> Counting<C> {
    /// Counts what passes over `channel`.
    pub fn new(channel: C) -> Self {
        Self { channel, tally: TrafficTally::default() }
    }

    /// The counts, now and later.
    #[must_use]
    pub fn tally(&self) -> TrafficTally {
        self.tally.clone()
    }
}

impl<P: Protocol, C: Channel<P>> Channel<P> for Counting<C> {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        self.tally.began(codec::encoded_bytes(&request));
        let under_way = UnderWay(&self.tally);
        let answered = self.channel.call(request).await;
        drop(under_way);
        match &answered {
            Ok(response) => self.tally.replied(codec::encoded_bytes(response), P::result_bytes(response)),
            Err(ChannelError::Refused(refusal)) => self.tally.replied(codec::encoded_bytes(refusal), 0),
            Err(_) => {}
        }
        answered
    }
}
