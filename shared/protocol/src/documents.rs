//! Sealed documents of a collection, by row id.
//!
//! *Leakage.* Snapshot: number of documents, the lengths of the two parts of each. Reads: which rows, how often. Field
//! names and values are hidden.

use crate::bytes::Blob;
use crate::channel::Protocol;
use crate::ids::{CollectionId, RowId};
use crate::table::{self, Row};
use serde::{Deserialize, Serialize};

/// The document store.
#[derive(Debug)]
pub struct Documents;

/// A document as the server stores it: one AEAD ciphertext for the values of its fields (BASE), and a sealed header that
/// lists the names in order and what the indexes hold, each with associated data (collection, row, version).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedDocument {
    /// Drawn at its insertion, kept by its later versions.
    pub row: RowId,
    /// Sealed header.
    pub header: Blob,
    /// Sealed values, in the order of the names.
    pub values: Blob,
}

/// A [`SealedDocument`] out of a store, on its way into a reply: encoded as that is, from the bytes that are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoredDocument<'s> {
    /// Drawn at its insertion, kept by its later versions.
    pub row: RowId,
    /// Header and values.
    pub parts: StoredParts<'s>,
}

/// A document as it is stored, under its row: header and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredParts<'s> {
    /// Sealed header.
    #[serde(with = "serde_bytes", borrow)]
    pub header: &'s [u8],
    /// Sealed values.
    #[serde(with = "serde_bytes", borrow)]
    pub values: &'s [u8],
}

impl<'s> StoredParts<'s> {
    /// The parts that `stored` encodes, without a copy; none if it encodes no document.
    #[must_use]
    pub fn decode(stored: &'s [u8]) -> Option<Self> {
        let (parts, rest) = postcard::take_from_bytes(stored).ok()?;
        rest.is_empty().then_some(parts)
    }
}

/// What may be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Number of documents.
    Count {
        /// Where.
        collection: CollectionId,
    },
    /// Documents by row; rows that do not exist are absent from the reply.
    Read {
        /// Where.
        collection: CollectionId,
        /// Which, in the order in which they are to come.
        rows: Vec<RowId>,
    },
    /// Which rows exist, without their documents.
    Exist {
        /// Where.
        collection: CollectionId,
        /// Which.
        rows: Vec<RowId>,
    },
    /// Documents in row order (which is pseudorandom).
    Scan {
        /// Where.
        collection: CollectionId,
        /// Start after this row; from the beginning if none.
        after: Option<RowId>,
        /// Most documents in the reply; it may hold fewer ([`crate::limits::REPLY_BYTES_SOFT`]).
        documents_max: u32,
    },
}

/// What comes back. A server encodes documents as [`StoredDocument`]s, which is to the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response<D = SealedDocument> {
    /// To `Count`.
    Count(u64),
    /// To `Exist`: of each row, in the order asked for, whether it is there.
    Exist(Vec<bool>),
    /// To `Read` and `Scan`.
    Documents {
        /// The documents.
        documents: Vec<D>,
        /// True if the reply was cut: ask again for the rows not yet served (`Read`: those after the last one
        /// served; `Scan`: after the last row).
        more: bool,
        /// How many of the asked rows the reply has dealt with, absent ones included (`Read` only).
        served: u32,
    },
}

/// A change to a collection, as a step of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Makes a collection; no effect if it exists.
    CreateCollection {
        /// Drawn by the client; no collection of the server has it yet, or this one.
        collection: CollectionId,
    },
    /// Drops a collection and its documents (its indexes are dropped by their own steps).
    DropCollection {
        /// Which one.
        collection: CollectionId,
    },
    /// Stores a document.
    Put {
        /// Where.
        collection: CollectionId,
        /// The document.
        document: SealedDocument,
        /// True: the row must not exist ([`crate::Refusal::Conflict`] if it does). False: replace or insert.
        insert: bool,
    },
    /// Replaces the header of a document, which must be there ([`crate::Refusal::Conflict`] if it is not).
    PutHeader {
        /// Where.
        collection: CollectionId,
        /// Which.
        row: RowId,
        /// The sealed header.
        header: Blob,
    },
    /// Removes a document; no effect if there is none.
    Delete {
        /// Where.
        collection: CollectionId,
        /// Which.
        row: RowId,
    },
}

impl Protocol for Documents {
    const ROW: &'static Row = &table::DOCUMENTS;
    type Request = Request;
    type Response = Response;
}
