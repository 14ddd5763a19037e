//! The client's end of a channel.

use crate::bisen::channel::{ChannelBroken, GREETING, Plain};

/// A client's end of a channel. It is opened by flights, one message of the host each: [`ClientChannel::flight`] is sent whenever it is not
/// empty, and what comes taken by [`ClientChannel::take`], until [`ClientChannel::is_open`].
pub trait ClientChannel {
    /// Why the channel is of no more use.
    type Error: std::error::Error + Send + Sync + 'static;

    /// What is to be sent now so that the channel opens; empty if nothing is.
    fn flight(&mut self) -> Vec<u8>;

    /// Whether messages can be sent, once the last flight was.
    fn is_open(&self) -> bool;

    /// Takes a flight of the other end.
    ///
    /// # Errors
    /// The other end is not whom this client speaks to, or something else came.
    fn take(&mut self, flight: &[u8]) -> Result<(), Self::Error>;

    /// A message as it is sent.
    ///
    /// # Errors
    /// The channel is of no more use.
    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Self::Error>;

    /// A message from how it came.
    ///
    /// # Errors
    /// It is not the next one; the channel is of no more use then.
    fn unwrap(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Self::Error>;
}

impl Plain {
    /// The client's end.
    #[must_use]
    pub fn client(identity: &str) -> Self {
        Self { greeting: Self::greet(identity), ..Self::default() }
    }

    /// The client's first message.
    #[must_use]
    pub fn greet(identity: &str) -> Vec<u8> {
        [GREETING, identity.as_bytes()].concat()
    }
}

impl ClientChannel for Plain {
    type Error = ChannelBroken;

    fn flight(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.greeting)
    }

    fn is_open(&self) -> bool {
        true
    }

    fn take(&mut self, _flight: &[u8]) -> Result<(), ChannelBroken> {
        Err(ChannelBroken::Greeting)
    }

    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, ChannelBroken> {
        Ok(Self::wrap(self, message))
    }

    fn unwrap(&mut self, bytes: &[u8]) -> Result<Vec<u8>, ChannelBroken> {
        Self::unwrap(self, bytes).map(<[u8]>::to_vec)
    }
}
