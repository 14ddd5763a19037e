//! Why the server declined a request. Carries no plaintext: the server has none. Its words are cut to a line when they
//! are decoded ([`crate::text`]).

use crate::ids::NodeId;
use crate::text::decode_line;
use serde::{Deserialize, Serialize};

/// The server's refusal, assigning blame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The peer speaks another version of the protocol.
    #[error("protocol version {asked} is not served here (version {served} is)")]
    Version {
        /// The version asked for.
        asked: u16,
        /// The version served.
        served: u16,
    },
    /// The request does not parse or breaks a rule of its protocol.
    #[error("malformed request: {0}")]
    Malformed(#[serde(deserialize_with = "decode_line")] String),
    /// A bound of [`crate::limits`] is exceeded.
    #[error("over a limit: {0}")]
    Limit(#[serde(deserialize_with = "decode_line")] String),
    /// No such collection.
    #[error("unknown collection")]
    UnknownCollection,
    /// No such index.
    #[error("unknown index")]
    UnknownIndex,
    /// A step asked for a row or label that must not exist yet, and it does. Nothing of the write was applied.
    #[error("step {step} conflicts with what is stored")]
    Conflict {
        /// Position of the step in the write.
        step: u32,
    },
    /// A circuit is not the one the labels are for (a repair was lost). Nothing was evaluated from there on.
    #[error("stale circuit")]
    Stale {
        /// The node whose circuit it is.
        node: NodeId,
    },
    /// The index's ciphertexts are of another version than the request's. Nothing was applied.
    #[error("the index is at version {version} of its ciphertexts, not the request's")]
    OtherVersion {
        /// The version it has.
        version: u64,
    },
    /// The index's stored structure contradicts itself.
    #[error("damaged index: {0}")]
    Damaged(#[serde(deserialize_with = "decode_line")] String),
    /// The write's id is below what the proxy has finished with: a late duplicate, or a proxy that was set back.
    #[error("a write of this name was finished with before")]
    Finished,
    /// A part of the write is not there (a crash took it back): all of them are to be sent again. Nothing was applied.
    #[error("a part of the write is missing")]
    Incomplete,
    /// The store failed; the write was not applied.
    #[error("storage: {0}")]
    Storage(#[serde(deserialize_with = "decode_line")] String),
    /// The store failed while the write was committed, and cannot be read to see whether it is there.
    #[error("storage: {0}")]
    Undecided(#[serde(deserialize_with = "decode_line")] String),
    /// Another proxy holds the database and is connected.
    #[error("another proxy holds this database and is connected")]
    Leased,
    /// Another proxy has taken the database over since this connection's greeting. Nothing was applied, and nothing will
    /// be answered here.
    #[error("another proxy has taken this database over")]
    Fenced,
    /// The server has lost writes that it acknowledged: its data is a copy from an earlier time. Nothing was applied.
    #[error("the server's data is older than what it acknowledged")]
    SetBack,
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
    /// The store has no room for the write; it was not applied.
    #[error("storage: {0}")]
    Full(#[serde(deserialize_with = "decode_line")] String),
}
