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
//! *State.* The ciphertexts of a scheme that hides equality are the client's state, which changes with every
//! insertion. So its index has a version, which every change raises and every message carries: a message that is late,
//! or of a client that does not know yet what became of its last change, is refused and told the version.
//!
//! *Leakage.* Per scheme: [`crate::leakage::bplus::bplus`]. What is sealed adds one thing: an entry that is removed and
//! comes again, with the same value and row, is known again. It says nothing of which document an entry belongs to, and
//! entries of different indexes have nothing in common; but a step of a write is in one transaction with its document's.
//!
//! *Cost.* One round for each operation, of O(log_B N) page accesses and the pages of the result.

use crate::Order;
use crate::bytes::Blob;
use crate::channel::Protocol;
use crate::ids::IndexId;
use crate::ore::Scheme;
use crate::table::{self, Row};
use serde::{Deserialize, Serialize};

/// Largest page, in bytes.
pub const PAGE_BYTES_MAX: u32 = 1 << 20;

/// Most entries in one insertion, most targets in one removal, and most of each that a revision changes.
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
    /// For schemes that break ties by a key: that of the value.
    pub tie: Option<TieToken>,
}

/// An entry to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Query ciphertext of its value.
    pub query: Blob,
    /// Value and row, sealed: what tells it from entries of the same value.
    pub sealed: SealedEntry,
    /// For schemes that break ties by a key: that of the value.
    pub tie: Option<TieToken>,
}

/// An entry of a scheme that hides equality: its ciphertext is its own, and says where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Its stored ciphertext.
    pub stored: Blob,
    /// Value and row, sealed: what tells it from entries of the same value. The client knows which entries there are, and puts none in again.
    pub sealed: SealedEntry,
}

/// One step in the life of an index whose ciphertexts the client keeps (schemes that hide equality): all of it or
/// nothing, from one version to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// The version the index must have.
    pub from: u64,
    /// The version it has afterwards: greater, and of this revision alone, so that a client which does not know what
    /// became of it can ask.
    pub to: u64,
    /// Ciphertexts that change without changing their order: old and new in turn, ascending in both. Comes first.
    pub moves: Blob,
    /// Entries that go, under their ciphertexts after the moves.
    pub removed: Vec<Placed>,
    /// Entries that come.
    pub inserted: Vec<Placed>,
}

/// What a write does to an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Makes an index; no effect on one of the same scheme and page size.
    CreateIndex {
        /// Drawn by the client; no index of the server has it yet, or this one.
        index: IndexId,
        /// The scheme of its ciphertexts.
        scheme: Scheme,
        /// Bytes of a page: at least three entries, and three separators.
        page_bytes: u32,
    },
    /// Drops an index; no effect if there is none.
    DropIndex {
        /// Which one.
        index: IndexId,
    },
    /// Adds entries; those that are there stay as they are. Not for schemes that hide equality.
    Insert {
        /// Where.
        index: IndexId,
        /// What to add.
        entries: Vec<NewEntry>,
    },
    /// Takes entries out; without effect for those that are not there. Not for schemes that hide equality.
    Remove {
        /// Where.
        index: IndexId,
        /// What to take out.
        targets: Vec<Target>,
    },
    /// Takes an index to its next version; [`crate::Refusal::OtherVersion`] if it has another. For schemes that hide
    /// equality.
    Revise {
        /// Where.
        index: IndexId,
        /// How.
        revision: Revision,
    },
}

impl Change {
    /// The index that it changes.
    #[must_use]
    pub fn index(&self) -> IndexId {
        match self {
            Self::CreateIndex { index, .. }
            | Self::DropIndex { index, .. }
            | Self::Insert { index, .. }
            | Self::Remove { index, .. }
            | Self::Revise { index, .. } => *index,
        }
    }
}

/// An entry that is looked for, of a scheme that hides equality.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Query ciphertext of the lower end of its value.
    pub lower: Blob,
    /// That of the upper end.
    pub upper: Blob,
    /// Value and row, sealed: what tells it from entries of the same value.
    pub sealed: SealedEntry,
}

/// Where a search goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct After {
    /// The name of the entry that came last.
    pub sealed: SealedEntry,
    /// For schemes that break ties by a key: that of its value.
    pub tie: Option<TieToken>,
}

/// One end of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Its query ciphertext.
    pub query: Blob,
    /// For the end where the search starts: it goes on after the entry of an equal ciphertext and this name (any name, where
    /// a ciphertext is one entry's own).
    pub after: Option<After>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Makes one change, outside any write.
    Change(Change),
    /// Adds entries that are greater than all that are there, ascending, and fills the pages. Not for schemes that hide
    /// equality.
    Load {
        /// Where.
        index: IndexId,
        /// What to add.
        entries: Vec<NewEntry>,
    },
    /// Tells where entries are, and that the index has this version. For schemes that hide equality.
    Locate {
        /// Where.
        index: IndexId,
        /// Version of the ciphertexts; [`crate::Refusal::OtherVersion`] if it is another.
        version: u64,
        /// Which.
        wanted: Vec<Wanted>,
    },
    /// Finds the entries of a range.
    Search {
        /// Where.
        index: IndexId,
        /// Version of the ciphertexts, 0 where they never change; [`crate::Refusal::OtherVersion`] if it is another.
        version: u64,
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
    /// Of another change, and of a load.
    Done,
    /// Of a look for entries.
    Located {
        /// For each the stored ciphertext, if it is there.
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
    const ROW: &'static Row = &table::BPLUS;
    type Request = Request;
    type Response = Response;

    fn result_bytes(response: &Response) -> usize {
        match response {
            Response::Found { entries, .. } => entries.len(),
            _ => 0,
        }
    }
}
