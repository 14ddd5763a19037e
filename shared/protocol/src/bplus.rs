//! B+ tree over any OPE or ORE scheme: the tree compares ciphertexts and holds no key.
//!
//! *Paper.* Bogatov, Kollios, Reyzin, VLDB 2019, §4.1; the tree is Comer's (1979), with deletion.
//!
//! An entry is a stored ciphertext, and value and row sealed beside it ([`SealedEntry`]). Sealing is deterministic, so
//! what is sealed also names the entry: it is found, removed and known again by that. Entries are ordered by value and,
//! where equal values compare as equal, by what is sealed. So one entry has one place, however often its value occurs,
//! and comes in once.
//!
//! Where stored ciphertexts show nothing by themselves ([`Scheme::breaks_ties`]) the entries of one value are ordered by
//! a key of that value, which comes with the requests that need it and is not stored: names in their own order would
//! show where a value ends. To who has a copy of the tree their sequence is as random as that of different values.
//!
//! *Leakage.* Per scheme: [`crate::leakage::bplus::bplus`]. What is sealed adds one thing: an entry that is removed and
//! comes again, with the same value and row, is known again. It says nothing of which document an entry belongs to, and
//! entries of different indexes have nothing in common; but a step of a write is in one transaction with its document's.
//!
//! *Cost.* One round for each operation, of O(log_B N) page accesses and the pages of the result.

use crate::arx_range::Order;
use crate::bytes::Blob;
use crate::channel::{Protocol, ProtocolId};
use crate::ids::IndexId;
use crate::ore::Scheme;
use serde::{Deserialize, Serialize};

/// Largest page, in bytes.
pub const PAGE_BYTES_MAX: u32 = 1 << 20;

/// Most entries in one insertion, and most targets in one removal.
pub const ENTRIES_MAX: usize = 1 << 16;

/// The protocol.
#[derive(Debug)]
pub struct BPlus;

/// Value and row of an entry, sealed deterministically under a key of the index (`arras_primitives::det_pair`): the
/// entry's name on the server, equal for equal pairs of value and row and random besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SealedEntry(pub [u8; Self::BYTES]);

impl SealedEntry {
    /// Length in bytes.
    pub const BYTES: usize = 32;

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

/// What orders the entries of one value: `arras_primitives::tie` under this key. The same for the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TieToken(pub [u8; 16]);

/// An entry to insert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewEntry {
    /// Finds the place.
    pub query: Blob,
    /// Is stored.
    pub stored: Blob,
    /// Is stored beside it.
    pub sealed: SealedEntry,
    /// For schemes that hide equality: query ciphertexts of the lower and upper end of the value. An entry of
    /// this name between them is the same entry.
    pub equals: Option<(Blob, Blob)>,
    /// For schemes that break ties by a key: that of the value.
    pub tie: Option<TieToken>,
}

/// An entry to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Query ciphertext of the lower end of its value.
    pub lower: Blob,
    /// For schemes that hide equality: that of the upper end.
    pub upper: Option<Blob>,
    /// Its name.
    pub sealed: SealedEntry,
    /// For schemes that break ties by a key: that of the value.
    pub tie: Option<TieToken>,
}

/// Where a search goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct After {
    /// The name of the entry that came last.
    pub sealed: SealedEntry,
    /// For schemes that break ties by a key: that of its value.
    pub tie: Option<TieToken>,
}

/// Stored ciphertexts that change without changing their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// The version of the index's ciphertexts after it: one more than before. Without effect if the index is at
    /// this version, so that it can be sent again.
    pub version: u64,
    /// Old and new ciphertext in turn, ascending. Stored ciphertexts that are no old one stay.
    pub pairs: Blob,
}

/// One end of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Its query ciphertext.
    pub query: Blob,
    /// For the end where the search starts: it goes on after the entry of an equal ciphertext and this name.
    pub after: Option<After>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Makes an index; no effect on one of the same scheme and page size.
    CreateIndex {
        /// Its name.
        index: IndexId,
        /// The scheme of its ciphertexts.
        scheme: Scheme,
        /// Bytes of a page: at least three entries, and three separators.
        page_bytes: u32,
    },
    /// Drops an index; no effect if there is none.
    DropIndex {
        /// Its name.
        index: IndexId,
    },
    /// Adds entries; those that are there stay as they are.
    Insert {
        /// Where.
        index: IndexId,
        /// Version of the ciphertexts below, after `replacement`.
        version: u64,
        /// Comes first.
        replacement: Option<Replacement>,
        /// What to add.
        entries: Vec<NewEntry>,
    },
    /// Adds entries that are greater than all that are there, ascending, and fills the pages.
    Load {
        /// Where.
        index: IndexId,
        /// Version of the ciphertexts.
        version: u64,
        /// What to add.
        entries: Vec<NewEntry>,
    },
    /// Takes entries out.
    Remove {
        /// Where.
        index: IndexId,
        /// Version of the ciphertexts.
        version: u64,
        /// What to take out.
        targets: Vec<Target>,
    },
    /// Changes stored ciphertexts.
    Replace {
        /// Where.
        index: IndexId,
        /// How.
        replacement: Replacement,
    },
    /// Finds the entries of a range.
    Search {
        /// Where.
        index: IndexId,
        /// Smallest value.
        lower: Bound,
        /// Greatest value.
        upper: Bound,
        /// From which end.
        order: Order,
        /// At most so many.
        limit: Option<u64>,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// Of a creation.
    Created {
        /// Whether the index was there and is not empty.
        filled: bool,
    },
    /// Of a drop, a load and a replacement.
    Done,
    /// Of an insertion.
    Inserted {
        /// Positions of the entries that were there before.
        present: Vec<u32>,
    },
    /// Of a removal.
    Removed {
        /// For each target the stored ciphertext that is gone, if there was one.
        stored: Vec<Option<Blob>>,
    },
    /// Of a search.
    Found {
        /// Stored ciphertext and name of one entry after the other.
        entries: Blob,
        /// Whether there is more in the range, and the limit allows it: search again after the last entry.
        more: bool,
    },
}

impl Protocol for BPlus {
    const ID: ProtocolId = ProtocolId(7);
    const NAME: &'static str = "bplus";
    type Request = Request;
    type Response = Response;

    fn result_bytes(response: &Response) -> usize {
        match response {
            Response::Found { entries, .. } => entries.len(),
            _ => 0,
        }
    }
}
