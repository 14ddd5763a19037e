//! A round trip of a chosen length.

use arras_protocol::{Channel, ChannelError, Protocol};
use std::time::Duration;

/// A channel whose calls take one round trip longer. Calls in flight together wait together.
#[derive(Clone, Debug)]
pub struct Delaying<C> {
    channel: C,
    round_trip: Duration,
}

impl<C> Delaying<C> {
    /// Delays every call over `channel`; by nothing if `round_trip` is zero. The clock's grain is a millisecond.
    pub fn new(channel: C, round_trip: Duration) -> Self {
        Self { channel, round_trip }
    }
}

impl<P: Protocol, C: Channel<P>> Channel<P> for Delaying<C> {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        if !self.round_trip.is_zero() {
            tokio::time::sleep(self.round_trip).await;
        }
        self.channel.call(request).await
    }
}
