//! The client's end of a channel; and both ends of one that protects nothing from the host, for tests and the laboratory: what is said is
//! bare, and its sequence numbers catch a host that drops, repeats or reorders messages, not one that alters them.

use crate::bisen::channel::{EnclaveChannel, Named, Said};
use arras_protocol::iee::IDENTITY_BYTES_MAX;

/// What a client of a plain channel says first, before its name.
const GREETING: &[u8] = b"arras bisen plain 1 ";

/// Bytes of a sequence number.
const SEQUENCE_BYTES: usize = 8;

/// Why a channel ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelBroken {
    /// The first message is not a greeting.
    #[error("the channel does not begin with a greeting")]
    Greeting,
    /// A message is missing, comes again, or comes too early.
    #[error("a message of the channel is missing, comes again or comes too early")]
    Sequence,
    /// A message is shorter than what every message holds.
    #[error("a message of the channel is cut off")]
    Short,
    /// What came is no record of the channel in its turn: altered, left out, repeated, out of order, or of another channel.
    #[error("a message of the channel was altered, left out, repeated or put out of order on its way")]
    Altered,
    /// The messages' bounds are not where they were: the host has cut or joined them.
    #[error("a message of the channel was cut or joined on its way")]
    Reframed,
    /// The other end says that something of ours came to it altered, left out, repeated or out of order.
    #[error("a message of ours was altered, left out, repeated or put out of order on its way")]
    ReceivedAltered,
}

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

/// One end of a channel without protection.
#[derive(Debug, Default)]
pub struct Plain {
    greeting: Vec<u8>,
    sent: u64,
    received: u64,
}

impl Plain {
    /// Who speaks, from its first message.
    ///
    /// # Errors
    /// [`ChannelBroken::Greeting`] if it is none, or the name is not one.
    pub fn greeted(message: &[u8]) -> Result<String, ChannelBroken> {
        let name = message.strip_prefix(GREETING).and_then(|name| std::str::from_utf8(name).ok());
        let name = name.filter(|name| (1..=IDENTITY_BYTES_MAX).contains(&name.len()));
        name.map(String::from).ok_or(ChannelBroken::Greeting)
    }

    /// A message as it is sent.
    #[must_use]
    pub fn wrap(&mut self, message: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SEQUENCE_BYTES + message.len());
        bytes.extend_from_slice(&self.sent.to_le_bytes());
        bytes.extend_from_slice(message);
        self.sent += 1;
        bytes
    }

    /// A message from how it came.
    ///
    /// # Errors
    /// [`ChannelBroken`] if it is not the next one; the channel is of no more use then.
    pub fn unwrap<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], ChannelBroken> {
        let (sequence, message) = bytes.split_first_chunk::<SEQUENCE_BYTES>().ok_or(ChannelBroken::Short)?;
        if u64::from_le_bytes(*sequence) != self.received {
            return Err(ChannelBroken::Sequence);
        }
        self.received += 1;
        Ok(message)
    }
}

impl Plain {
    /// The client's end.
    #[must_use]
    pub fn client(identity: &str) -> Self {
        Self { greeting: Self::greet(identity), ..Self::default() }
    }

    /// The enclave's end.
    #[must_use]
    pub fn enclave() -> Box<dyn EnclaveChannel> {
        Box::<Unprotected>::default()
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

/// The enclave's end: nothing before the client has greeted. Whether it is taken it is not told.
#[derive(Default)]
struct Unprotected {
    channel: Option<Plain>,
    is_admitted: bool,
    pending: Vec<u8>,
}

impl EnclaveChannel for Unprotected {
    fn receive(&mut self, bytes: &[u8]) -> Option<Said> {
        if let Some(plain) = &mut self.channel {
            return Plain::unwrap(plain, bytes).ok().map(|message| Said::Message(message.to_vec()));
        }
        let name = Plain::greeted(bytes).ok()?;
        self.channel = Some(Plain::default());
        Some(Said::Client(Named { name, serial: Vec::new() }))
    }

    fn send(&mut self, message: &[u8]) {
        if std::mem::replace(&mut self.is_admitted, true) {
            self.pending = self.channel.as_mut().map(|plain| Plain::wrap(plain, message)).unwrap_or_default();
        }
    }

    fn pending(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_once_and_in_order() {
        let (mut client, mut enclave) = (Plain::default(), Plain::default());
        assert_eq!(Plain::greeted(&Plain::greet("ada")).unwrap(), "ada");
        let (first, second) = (client.wrap(b"one"), client.wrap(b"two"));
        assert_eq!(enclave.unwrap(&second), Err(ChannelBroken::Sequence));
        assert_eq!(enclave.unwrap(&first).unwrap(), b"one");
        assert_eq!(enclave.unwrap(&first), Err(ChannelBroken::Sequence));
        assert_eq!(enclave.unwrap(&second).unwrap(), b"two");
        assert_eq!(enclave.unwrap(&second[..7]), Err(ChannelBroken::Short));
        for greeting in [&b""[..], b"arras bisen plain 1 ", b"arras bisen plain 1 \xff", b"hello"] {
            assert_eq!(Plain::greeted(greeting), Err(ChannelBroken::Greeting));
        }
    }
}
