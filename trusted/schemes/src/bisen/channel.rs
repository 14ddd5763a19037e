//! The channel between a client and the enclave: who speaks, and that what it says arrives once, in order and without gaps.
//!
//! *Attested.* TLS 1.3 with certificates on both sides, which ends inside the enclave. The evidence in the enclave's certificate binds
//! what [`binding`] says. Each of the host's messages has all records of one message of ours, which begins with its length
//! ([`framed`]): so a host that cuts or joins records is noticed, and neither end holds half a message.
//!
//! [`Plain`] protects nothing from the host and is for tests and the laboratory: what is said is bare, and its sequence numbers catch a
//! host that drops, repeats or reorders messages, not one that alters them.

use arras_primitives::hash::sha256_framed;
use arras_protocol::iee::IDENTITY_BYTES_MAX;

#[cfg(feature = "bisen-client")]
pub use super::client::ClientChannel;

/// The enclave's security version: rises with each release that mends a flaw of the enclave.
pub const SECURITY_VERSION: u32 = 1;

/// The purpose of what evidence binds.
const BINDING: &[u8] = b"arras bisen enclave 1";

/// What a client of a plain channel says first, before its name.
pub(super) const GREETING: &[u8] = b"arras bisen plain 1 ";

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

/// The enclave's first message on an attested channel: the client's certificate is taken.
pub const ADMITTED: u8 = 0;

/// The same: the client's certificate is revoked.
pub const REVOKED: u8 = 1;

/// The same: the client has as many connections as one may have.
pub const CROWDED: u8 = 2;

/// What evidence binds: the channel's public key (`SubjectPublicKeyInfo`), the authority (DER) whose certificates the enclave takes, and
/// the name of the administrator. A host that starts the enclave for another authority so starts it for nobody else's clients.
#[must_use]
pub fn binding(public: &[u8], authority: &[u8], administrator: &str) -> [u8; 32] {
    sha256_framed(&[BINDING, public, authority, administrator.as_bytes()])
}

/// A message as it goes into an attested channel's records: its length (u32, little endian) and the message.
#[must_use]
pub fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes()[..], message].concat()
}

/// A message from what came out of an attested channel's records.
///
/// # Errors
/// [`ChannelBroken::Reframed`] if it is not one whole message.
pub fn unframed(mut framed: Vec<u8>) -> Result<Vec<u8>, ChannelBroken> {
    let length = framed.first_chunk::<4>().ok_or(ChannelBroken::Reframed)?;
    if u32::from_le_bytes(*length) as usize != framed.len() - 4 {
        return Err(ChannelBroken::Reframed);
    }
    framed.drain(..4);
    Ok(framed)
}

/// One end of a channel without protection.
#[derive(Debug, Default)]
pub struct Plain {
    #[cfg(feature = "bisen-client")]
    pub(super) greeting: Vec<u8>,
    pub(super) sent: u64,
    pub(super) received: u64,
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_message_s_bounds_are_inside() {
        let joined = [framed(b"one"), framed(b"two")].concat();
        assert_eq!(unframed(joined[..7].to_vec()).unwrap(), b"one");
        for wrong in [&joined[..], &joined[..6], &joined[..3], b""] {
            assert_eq!(unframed(wrong.to_vec()), Err(ChannelBroken::Reframed));
        }
    }

    #[test]
    fn what_is_bound_is_each_of_its_parts() {
        let bound = binding(b"public", b"authority", "ada");
        let others = [
            binding(b"Public", b"authority", "ada"),
            binding(b"public", b"Authority", "ada"),
            binding(b"public", b"authority", "adam"),
            binding(b"publica", b"uthority", "ada"),
        ];
        assert!(others.iter().all(|other| *other != bound));
    }

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
