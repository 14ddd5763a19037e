//! Channels of the lab: the server's half in this process or behind the real connection, counted and delayed.

mod counting;
mod delaying;
mod link;
mod network;
#[cfg(test)]
mod tests;

pub use counting::{Counting, Traffic, TrafficTally};
pub use delaying::Delaying;
pub use link::{Link, ServerMeter};
pub use network::{NetworkError, ServerProcess};

use arras_protocol::{Channel, ChannelError, Protocol, codec};
use arras_server::Backend;
use arras_storage::Storage;
use std::sync::Arc;

/// The channel of the lab's runs: any protocol, any link, counted.
pub type LabChannel = Counting<Delaying<Link>>;

/// Both halves in one process and on one thread. Messages are encoded and decoded as on the wire.
#[derive(Debug)]
pub struct Direct<S>(Arc<Backend<S>>);

impl<S> Direct<S> {
    /// A channel to this server.
    pub fn new(backend: Arc<Backend<S>>) -> Self {
        Self(backend)
    }
}

impl<S> Clone for Direct<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Storage> Direct<S> {
    fn answer<P: Protocol>(&self, request: &P::Request) -> Result<P::Response, ChannelError> {
        let reply = self.0.handle(P::ID, &codec::encode(request))?;
        codec::decode(&reply).map_err(|_| ChannelError::Malformed(format!("not a response of {}", P::NAME)))
    }
}

impl<P: Protocol, S: Storage> Channel<P> for Direct<S> {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        self.answer::<P>(&request)
    }
}
