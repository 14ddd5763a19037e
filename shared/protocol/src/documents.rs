//! Sealed documents of a collection, by row id.
//!
//! *Leakage.* Snapshot: number of documents, number of fields of each, their lengths. Reads: which rows, how
//! often. Field names and values are hidden.

use crate::bytes::Blob;
use crate::channel::{Protocol, ProtocolId};
use crate::ids::{CollectionId, FieldLabel, RowId};
use serde::{Deserialize, Serialize};

/// The document store.
#[derive(Debug)]
pub struct Documents;

/// A document as the server stores it: one AEAD ciphertext a top-level field (BASE), associated data
/// (collection, row, field), and a sealed header that lists the names in order and what the indexes hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedDocument {
    /// Its name.
    pub row: RowId,
    /// Sealed header.
    pub header: Blob,
    /// Sealed fields, ordered by label.
    pub fields: Vec<(FieldLabel, Blob)>,
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

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// To `Count`.
    Count(u64),
    /// To `Exist`: of each row, in the order asked for, whether it is there.
    Exist(Vec<bool>),
    /// To `Read` and `Scan`.
    Documents {
        /// The documents.
        documents: Vec<SealedDocument>,
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
        /// Its name.
        collection: CollectionId,
    },
    /// Drops a collection and its documents (its indexes are dropped by their own steps).
    DropCollection {
        /// Its name.
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
    const ID: ProtocolId = ProtocolId(2);
    const NAME: &'static str = "documents";
    type Request = Request;
    type Response = Response;
}
