//! BISEN, boolean search by an isolated execution environment (Ferreira et al., IEEE TDSC): what a client and the enclave share.
//!
//! A client hashes keywords ([`KeywordHash`]), sends updates and searches as [`message::Request`]s through its attested
//! channel, and reads [`message::Reply`]s; the enclave program (`enclave/iee`) does the rest. `docs/bisen.md` has the whole construction.
//!
//! *Names.* A *pair* is an occurrence of a keyword in a document with its metadata: what the paper calls (w, id, md). A
//! document has a [`DocumentName`] that its client chose; each version of it gets a dense number inside the enclave, which nobody
//! else sees. A version is *published* when searches find it, a *draft* before, *retired* when the next one is published or
//! the document is removed.

pub mod channel;
#[cfg(feature = "bisen-client")]
mod client;
pub mod message;
pub mod query;
pub mod update;

use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a keyword's hash.
pub const KEYWORD_BYTES: usize = 16;

/// Longest name of a collection, in bytes.
pub const COLLECTION_NAME_BYTES_MAX: usize = 128;

/// Declared fields of a document, at most.
pub const FIELDS_MAX: usize = 4;

/// Fixes what the hash of a keyword is in a collection: derived by the enclave from its root, told to those who may use the collection.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Salt(pub [u8; 16]);

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt(..)")
    }
}

/// H(w): a keyword at a fixed size, so that no message's length depends on it. The first half of SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeywordHash(pub [u8; KEYWORD_BYTES]);

impl fmt::Debug for KeywordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeywordHash(..)")
    }
}

/// The application's name of a document: chosen by the client, unique in its collection. A hash of a path, a row's id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DocumentName(pub [u8; 16]);

impl fmt::Debug for DocumentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DocumentName(..)")
    }
}

/// Why a message could not be read: never by what is in it, as it may be anybody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It does not decode.
    Malformed,
    /// Something in it is longer than its bound.
    TooLong(&'static str),
}
