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
pub mod message;
pub mod query;
pub mod update;

use arras_primitives::hash::sha256_framed;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a keyword's hash.
pub const KEYWORD_BYTES: usize = 16;

/// Longest name of a collection, in bytes.
pub const COLLECTION_NAME_BYTES_MAX: usize = 128;

/// Declared fields of a document, at most.
pub const FIELDS_MAX: usize = 4;

/// Fixes what the hash of a keyword is in a collection: drawn by the enclave when the collection is made, told to those who
/// may use it.
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

impl KeywordHash {
    /// The hash of a keyword of a collection. What belongs to a field says so in its bytes.
    #[must_use]
    pub fn of(salt: &Salt, keyword: &[u8]) -> Self {
        let hash = sha256_framed(&[b"arras bisen keyword", &salt.0, keyword]);
        let (halves, _) = hash.as_chunks::<KEYWORD_BYTES>();
        Self(halves[0])
    }
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It does not decode.
    #[error("the message does not decode")]
    Malformed,
    /// Something in it is longer than its bound.
    #[error("the message holds more than its bound of {0}")]
    TooLong(&'static str),
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_keyword_s_hash_is_that_of_its_collection() {
        let (one, other) = (Salt([1; 16]), Salt([2; 16]));
        assert_eq!(KeywordHash::of(&one, b"whale"), KeywordHash::of(&one, b"whale"));
        assert_ne!(KeywordHash::of(&one, b"whale"), KeywordHash::of(&other, b"whale"));
        assert_ne!(KeywordHash::of(&one, b"whale"), KeywordHash::of(&one, b"whales"));
        assert_eq!(format!("{:?}", KeywordHash::of(&one, b"whale")), "KeywordHash(..)");
    }
}
