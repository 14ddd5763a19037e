//! Enclave and host: the narrow interface of BISEN's isolated execution environment (Ferreira et al., IEEE TDSC; its
//! `uInit`, `uPut`, `uGet` and the channel's `Send` and `Receive`).
//!
//! The host is not trusted. It moves bytes: between clients and enclave (opaque, by connection), and between enclave and
//! storage, where it sees labels and sealed entries of one length. What the enclave asks of it has a number, and each
//! number is answered once; answers come in any order.
//!
//! *Framing*, on whatever pair of streams the enclave inherits: the length of the body as `u32`, little endian, at most
//! [`FRAME_BYTES_MAX`], then the body, an [`Incoming`] or an [`Outgoing`] in the codec of this crate. The first frame is
//! [`Incoming::Launch`]; the enclave then loads its state and says [`Outgoing::Ready`]. There are no clients
//! before that.
//!
//! *What the host sees.* Of an update: its numbers of documents and of pairs, from the length of the client's message, of
//! the log's record and of the puts, which are one entry a pair in a random order; nothing of keywords, documents or
//! operations. Of a search: how many entries its keywords have in all, which (labels in a random order over all
//! keywords), so which searches and compactions touch the same ones; the length of the message, which grows with the number of
//! keywords and steps in coarse classes; the number and lengths of the pages of its results, which the padding
//! policy decides; and, where counters of keywords are more than memory holds, that all pieces of them are loaded, in order. Of a compaction: how many entries a round reads, how many it writes back and removes. Of a checkpoint: the size of the enclave's
//! state. [`crate::leakage::BISEN`] says it in the words of the other protocols.
//!
//! *Durability.* [`Outgoing::Put`], [`Outgoing::Save`] and [`Outgoing::RaiseCounter`] are answered when what they say
//! survives a crash. Within one number nothing is atomic: a put of which a part was done is sent again.

mod fault;

pub use fault::Fault;

use crate::bytes::Blob;
use crate::codec::{self, DecodeError};
use crate::evidence::EVIDENCE_BYTES_MAX;
use serde::{Deserialize, Serialize};

/// Bytes of a label.
pub const LABEL_BYTES: usize = 16;

/// Bytes of a sealed entry without its label.
pub const SEALED_BYTES: usize = 32;

/// Bytes that a pair of keyword and document takes in storage: label and sealed entry.
pub const ENTRY_BYTES: usize = LABEL_BYTES + SEALED_BYTES;

/// Most labels in one [`Outgoing::Get`] or [`Outgoing::Remove`], and most entries in one [`Outgoing::Put`].
pub const BATCH_MAX: usize = 8192;

/// Largest frame body.
pub const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most bytes of sealed state under one name.
pub const STATE_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Most bytes of one message of a client, in either direction, as the channel carries it.
pub const CLIENT_BYTES_MAX: usize = 1024 * 1024 + 512 * 1024;

/// Most requests of one client that the host has passed on and the enclave not answered. It reads no further from a client that
/// has so many, or that does not read what it was answered; what the enclave takes beyond is bounded by its memory.
pub const CLIENT_REQUESTS_MAX: usize = 4;

/// Longest name of an identity, in bytes: more than a common name may have characters (RFC 5280, appendix A).
pub const IDENTITY_BYTES_MAX: usize = 100;

/// Longest certificate of an authority, in bytes of DER.
pub const AUTHORITY_BYTES_MAX: usize = 8 * 1024;

/// Most connections at a time.
pub const CONNECTIONS_MAX: usize = 4096;

/// Most bytes that the enclave holds of a connection whose channel is not open yet: TLS takes so much of a handshake's message that is not
/// whole. The host sees to it that there are not too many of them, and that none takes too long.
pub const HANDSHAKE_BYTES: usize = 64 * 1024;

/// Longest certificate of the enclave, in bytes of DER.
pub const CERTIFICATE_BYTES_MAX: usize = EVIDENCE_BYTES_MAX + 1024;

/// Longest quote of the enclave's own: as long as Gramine makes room for.
pub const QUOTE_BYTES_MAX: usize = 8 * 1024;

/// Number of a connection: chosen by the host, greater than those of all connections before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConnectionId(pub u64);

/// Number of something that the enclave asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AskId(pub u64);

/// Where a sealed piece of the enclave's state lies. The host keeps what was saved last under each name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StateName {
    /// Which checkpoint is the newest.
    Head,
    /// A record of the log: an update, or a change of collections or policy.
    Log(u64),
    /// A piece of a checkpoint.
    Checkpoint {
        /// Which checkpoint: the number of the last record of the log that is in it.
        generation: u64,
        /// Which piece of it, from 0.
        piece: u32,
    },
}

/// From the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Incoming {
    /// The first message.
    Launch {
        /// Most bytes that the enclave may take for counters, documents and searches.
        memory_bytes: u64,
        /// Who may make collections and say what others may do: the name in its certificate. What the first launch says stands for
        /// good; one that says something else is refused.
        administrator: String,
        /// The administrator's authority (DER), whose certificates clients have; empty where channels are plain. It stands for good, too.
        authority: Blob,
    },
    /// A client has connected.
    Connected {
        /// Its number.
        connection: ConnectionId,
        /// The host's clock, in seconds since 1970. Nobody vouches for it.
        seconds: u64,
    },
    /// A message of a client's channel.
    FromClient {
        /// Whose.
        connection: ConnectionId,
        /// As it came.
        bytes: Blob,
    },
    /// A client is gone.
    Disconnected(ConnectionId),
    /// What the enclave asked for is there, or done.
    Answer {
        /// The question's number.
        ask: AskId,
        /// To [`Outgoing::Get`] [`SEALED_BYTES`] a label, in the order of the labels, zeros where there is none; to [`Outgoing::Load`] what is
        /// there, if anything; to [`Outgoing::ReadCounter`] and [`Outgoing::RaiseCounter`] the value ([`counter_value`]); to others nothing.
        bytes: Option<Blob>,
    },
    /// The certificate that the enclave shows from now on, of what [`Outgoing::Attest`] says: with evidence that is new. Clients judge it.
    Certificate(Blob),
    /// [`Outgoing::Again`] comes back, after whatever else had arrived meanwhile.
    Again,
}

/// To the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outgoing {
    /// The state is loaded: clients are answered from now on.
    Ready,
    /// A message for a client's channel.
    ToClient {
        /// Whose.
        connection: ConnectionId,
        /// As it is to be sent.
        bytes: Blob,
    },
    /// A message for a client's channel, behind which others answer the same request: answered by [`Incoming::Answer`] when the client has
    /// taken it.
    Part {
        /// The question's number.
        ask: AskId,
        /// Whose.
        connection: ConnectionId,
        /// As it is to be sent.
        bytes: Blob,
    },
    /// A client's channel is open: it has shown a certificate that is taken.
    Opened(ConnectionId),
    /// A client broke the channel's rules: what was sent to it before may be delivered, then the connection ends.
    Close(ConnectionId),
    /// Entries are wanted: answered by [`Incoming::Answer`].
    Get {
        /// The question's number.
        ask: AskId,
        /// Labels, [`LABEL_BYTES`] each, at most [`BATCH_MAX`].
        labels: Blob,
    },
    /// Entries are to be stored: answered by [`Incoming::Answer`]. The same entry may come again, after a restart.
    Put {
        /// The question's number.
        ask: AskId,
        /// Label and sealed entry, [`ENTRY_BYTES`] together, at most [`BATCH_MAX`] times.
        entries: Blob,
    },
    /// Entries are of no more use: answered by [`Incoming::Answer`]. Some may not be there.
    Remove {
        /// The question's number.
        ask: AskId,
        /// Labels, as in [`Outgoing::Get`].
        labels: Blob,
    },
    /// Sealed state is to be kept: answered by [`Incoming::Answer`].
    Save {
        /// The question's number.
        ask: AskId,
        /// Under which name, in place of what is there.
        name: StateName,
        /// At most [`STATE_BYTES_MAX`].
        state: Blob,
    },
    /// Sealed state is wanted: answered by [`Incoming::Answer`].
    Load {
        /// The question's number.
        ask: AskId,
        /// Under which name.
        name: StateName,
    },
    /// Sealed state is of no more use: answered by [`Incoming::Answer`]. All of the log's records up to this number, and
    /// all checkpoints of lower generations.
    Forget {
        /// The question's number.
        ask: AskId,
        /// Up to which record.
        until: u64,
    },
    /// The monotonic counter is to be read: answered by [`Incoming::Answer`]. One that was never raised is 0.
    ReadCounter(AskId),
    /// The monotonic counter is to be raised, if it stands where the enclave left it: answered by [`Incoming::Answer`] with
    /// the value that it had. One that stands elsewhere is left there: of two enclaves that raise from one value, one learns that it is not alone.
    RaiseCounter {
        /// The question's number.
        ask: AskId,
        /// From which value.
        from: u64,
        /// To which value.
        to: u64,
    },
    /// A certificate is wanted, with evidence of what runs here: [`Incoming::Certificate`], now and whenever the evidence is to be renewed.
    /// Before the first one comes the enclave is not [`Outgoing::Ready`].
    Attest {
        /// The channel's key (`SubjectPublicKeyInfo`).
        public: Blob,
        /// What is to be attested: the hash of the channel's key, of the authority and of the administrator's name.
        binding: [u8; 32],
        /// Whether the enclave runs without its walls, so that a debugger can look into it.
        debug: bool,
        /// Its security version: rises with each release that mends a flaw.
        version: u32,
        /// The enclave's own quote of that, report data of the binding and zeros, where it runs in SGX under Gramine: at most
        /// [`QUOTE_BYTES_MAX`]. Empty elsewhere.
        quote: Blob,
    },
    /// There is more to compute: to be answered by [`Incoming::Again`] once nothing else waits. So a long search lets
    /// others go between.
    Again,
}

impl Incoming {
    /// Reads a frame's body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is not one, or a string in it is longer than its bound.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let message: Self = bounded(body)?;
        let fits = match &message {
            Self::Launch { administrator, authority, .. } => {
                administrator.len() <= IDENTITY_BYTES_MAX && authority.len() <= AUTHORITY_BYTES_MAX
            }
            Self::Certificate(certificate) => certificate.len() <= CERTIFICATE_BYTES_MAX,
            Self::FromClient { bytes, .. } => bytes.len() <= CLIENT_BYTES_MAX,
            Self::Answer { bytes, .. } => bytes.as_ref().is_none_or(|bytes| bytes.len() <= STATE_BYTES_MAX),
            Self::Connected { .. } | Self::Disconnected(_) | Self::Again => true,
        };
        if fits { Ok(message) } else { Err(DecodeError("message of the host")) }
    }
}

impl Outgoing {
    /// Reads a frame's body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is not one, or a string in it is longer than its bound.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let message: Self = bounded(body)?;
        let whole = |bytes: &Blob, each: usize| {
            bytes.len().is_multiple_of(each) && bytes.len() <= each.saturating_mul(BATCH_MAX)
        };
        let fits = match &message {
            Self::ToClient { bytes, .. } | Self::Part { bytes, .. } => bytes.len() <= CLIENT_BYTES_MAX,
            Self::Get { labels, .. } | Self::Remove { labels, .. } => whole(labels, LABEL_BYTES),
            Self::Put { entries, .. } => whole(entries, ENTRY_BYTES),
            Self::Save { state, .. } => state.len() <= STATE_BYTES_MAX,
            Self::Ready
            | Self::Opened(_)
            | Self::Close(_)
            | Self::Load { .. }
            | Self::Forget { .. }
            | Self::ReadCounter(_)
            | Self::RaiseCounter { .. }
            | Self::Again => true,
            Self::Attest { quote, .. } => quote.len() <= QUOTE_BYTES_MAX,
        };
        if fits { Ok(message) } else { Err(DecodeError("message of the enclave")) }
    }
}

fn bounded<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, DecodeError> {
    if body.len() > FRAME_BYTES_MAX {
        return Err(DecodeError("frame: it is too long"));
    }
    codec::decode(body)
}

/// The bytes of an answer that says what the monotonic counter's value is, or was before it was to be raised.
#[must_use]
pub fn counter_value(value: u64) -> Option<Blob> {
    Some(Blob(value.to_le_bytes().to_vec()))
}

/// Bytes of the labels of a [`Outgoing::Get`] or [`Outgoing::Remove`] of so many.
#[must_use]
pub const fn labels_bytes(count: usize) -> usize {
    count.saturating_mul(LABEL_BYTES)
}

/// Bytes of the entries of a [`Outgoing::Put`] of so many.
#[must_use]
pub const fn put_bytes(count: usize) -> usize {
    count.saturating_mul(ENTRY_BYTES)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::codec::encode;

    #[test]
    fn the_longest_messages_fit_a_frame() {
        let ask = AskId(u64::MAX);
        let connection = ConnectionId(u64::MAX);
        let bytes = Blob(vec![1; CLIENT_BYTES_MAX]);
        let incoming = [
            Incoming::Answer { ask, bytes: Some(Blob(vec![1; STATE_BYTES_MAX])) },
            Incoming::FromClient { connection, bytes: bytes.clone() },
        ];
        for message in incoming {
            assert_eq!(Incoming::decode(&encode(&message)).as_ref(), Ok(&message));
        }
        let name = StateName::Checkpoint { generation: u64::MAX, piece: u32::MAX };
        let outgoing = [
            Outgoing::Get { ask, labels: Blob(vec![1; labels_bytes(BATCH_MAX)]) },
            Outgoing::Put { ask, entries: Blob(vec![1; put_bytes(BATCH_MAX)]) },
            Outgoing::Save { ask, name, state: Blob(vec![1; STATE_BYTES_MAX]) },
            Outgoing::Part { ask, connection, bytes },
        ];
        for message in outgoing {
            assert_eq!(Outgoing::decode(&encode(&message)).as_ref(), Ok(&message));
        }
    }

    #[test]
    fn broken_and_overlong_messages_are_refused() {
        let ask = AskId(1);
        let bytes = Some(Blob(vec![1; STATE_BYTES_MAX + 1]));
        assert!(Incoming::decode(&encode(&Incoming::Answer { ask, bytes })).is_err());
        for length in [LABEL_BYTES + 1, labels_bytes(BATCH_MAX + 1)] {
            let labels = Blob(vec![1; length]);
            assert!(Outgoing::decode(&encode(&Outgoing::Get { ask, labels })).is_err(), "{length}");
        }
        for (bytes, fits) in [(QUOTE_BYTES_MAX, true), (QUOTE_BYTES_MAX + 1, false)] {
            let (public, quote) = (Blob::default(), Blob(vec![1; bytes]));
            let attest = Outgoing::Attest { public, binding: [1; 32], debug: true, version: 1, quote };
            assert_eq!(Outgoing::decode(&encode(&attest)).is_ok(), fits, "{bytes}");
        }
        let long = "a".repeat(IDENTITY_BYTES_MAX + 1);
        let launch = Incoming::Launch { memory_bytes: 1, administrator: long, authority: Blob::default() };
        assert!(Incoming::decode(&encode(&launch)).is_err());
        assert!(Incoming::decode(&vec![0; FRAME_BYTES_MAX + 1]).is_err());
    }
}
