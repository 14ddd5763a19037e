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

#[cfg(feature = "bisen-client")]
pub use client::Unreadable;
use serde::{Deserialize, Serialize};

/// Bytes of a keyword's hash.
pub const KEYWORD_BYTES: usize = 16;

/// Longest name of a collection, in bytes.
pub const COLLECTION_NAME_BYTES_MAX: usize = 128;

/// Declared fields of a document, at most.
pub const FIELDS_MAX: usize = 4;

/// Fixes what the hash of a keyword is in a collection: derived by the enclave from its root, told to those who may use the collection.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Salt(pub [u8; 16]);

/// H(w): a keyword at a fixed size, so that no message's length depends on it. The first half of SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeywordHash(#[serde(with = "serde_bytes")] pub [u8; KEYWORD_BYTES]);

/// The application's name of a document: chosen by the client, unique in its collection. A hash of a path, a row's id.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DocumentName(#[serde(with = "serde_bytes")] pub [u8; 16]);

crate::opaque::opaque!(Salt, KeywordHash, DocumentName, update::Metadata, update::Update, message::Page);
