//! The channel between a client and the enclave: who speaks, and that what it says arrives once, in order and without gaps.
//!
//! *Attested.* TLS 1.3 with certificates on both sides, which ends inside the enclave. The evidence in the enclave's certificate binds
//! what [`binding`] says. Each of the host's messages has all records of one message of ours, which begins with its length
//! ([`framed`]): so a host that cuts or joins records is noticed, and neither end holds half a message.
//!
//! The laboratory has channels without protection besides ([`EnclaveChannel`] is what the enclave asks of either); its program has none.

use arras_primitives::hash::sha256_framed;

#[cfg(feature = "bisen-client")]
pub use super::client::{ChannelBroken, ClientChannel, Plain};

/// The enclave's security version: rises with each release that mends a flaw of the enclave.
pub const SECURITY_VERSION: u32 = 1;

/// The purpose of what evidence binds.
const BINDING: &[u8] = b"arras bisen enclave 1";

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
/// None if it is not one whole message: the host has cut or joined it.
#[must_use]
pub fn unframed(mut framed: Vec<u8>) -> Option<Vec<u8>> {
    let length = u32::from_le_bytes(*framed.first_chunk()?) as usize;
    framed.drain(..4);
    (framed.len() == length).then_some(framed)
}

/// A client, as its certificate has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The certificate's one common name.
    pub name: String,
    /// The certificate's serial number.
    pub serial: Vec<u8>,
}

/// What a client's bytes were.
#[derive(Debug)]
pub enum Said {
    /// A part of the handshake.
    Nothing,
    /// Who it is.
    Client(Named),
    /// A message.
    Message(Vec<u8>),
}

/// The enclave's end of a client's channel.
pub trait EnclaveChannel: Send {
    /// What is in one message of the host; none if the channel is of no more use.
    fn receive(&mut self, bytes: &[u8]) -> Option<Said>;

    /// Says a message; the first is whether the client is taken.
    fn send(&mut self, message: &[u8]);

    /// What is to be sent of what was said, and what the channel itself has to say: of the handshake, or why it ends.
    fn pending(&mut self) -> Vec<u8>;
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
            assert_eq!(unframed(wrong.to_vec()), None);
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
}
