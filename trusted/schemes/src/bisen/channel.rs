//! The channel between a client and the enclave, as far as it does not depend on attestation: who speaks, and that what it
//! says arrives once, in order and without gaps.
//!
//! [`Plain`] protects nothing from the host and is for tests and the laboratory: what is said is bare, and its sequence numbers catch a
//! host that drops, repeats or reorders messages, not one that alters them.

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
}

/// One end of a channel without protection.
#[derive(Debug, Default)]
pub struct Plain {
    sent: u64,
    received: u64,
}

impl Plain {
    /// The client's first message.
    #[must_use]
    pub fn greet(identity: &str) -> Vec<u8> {
        [GREETING, identity.as_bytes()].concat()
    }

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
