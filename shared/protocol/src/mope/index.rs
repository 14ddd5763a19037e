//! A column's tree as an index of documents: what a server of ours keeps beside it, and is asked.
//!
//! *Entries.* An entry is a value and a row, sealed; it lies under the ciphertext of its value, not under the label, so that
//! no change of labels moves an entry, however many rows a value has. A write names ciphertexts only: the server finds their
//! labels in the write's own transaction, and a search's in the snapshot that it reads.
//!
//! *Ties.* What is sealed names the entry, and entries of one value are in the order of their names. Sealing is
//! deterministic under a key of the ciphertext: the same value and row under the same ciphertext have the same name again;
//! under another one (of another value, or of another lifetime of the same one) a name that has nothing in common with it.
//!
//! *Bounds.* A range is between stored neighbours, both left out: what is written while the client looks for them
//! is found by a search that reads it. The client drops what lies outside of what it was asked for.

use super::{Fetch, Fetched, TreeChange};
use crate::Order;
use crate::bytes::Blob;
use crate::channel::Protocol;
use crate::ids::IndexId;
use crate::table::{self, Row};
use serde::{Deserialize, Serialize};

/// Longest ciphertext of a value, in bytes.
pub const CIPHERTEXT_BYTES_MAX: u16 = 256;

/// Largest node, in bytes.
pub const NODE_BYTES_MAX: usize = 1 << 16;

/// Most nodes and most labels of one round, and most entries of one look.
pub const ASKED_MAX: usize = 4096;

/// Most entries that one change adds or takes out.
pub const ENTRIES_MAX: usize = 1 << 16;

/// The protocol.
#[derive(Debug)]
pub struct Mope;

/// Value and row of an entry, sealed deterministically under a key of its ciphertext: the entry's name on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SealedRow(pub [u8; Self::BYTES]);

impl SealedRow {
    /// Length in bytes.
    pub const BYTES: usize = 32;
}

/// An entry, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Ciphertext of its value.
    pub ciphertext: Blob,
    /// Row, sealed: what tells it from entries of the same value.
    pub sealed: SealedRow,
}

/// A change of an index: applied whole, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// Entries that go, before all else; without effect for those that are not there.
    pub removed: Vec<Listed>,
    /// How the tree changes, if it does. No ciphertext leaves it that has entries.
    pub tree: Option<Box<TreeChange>>,
    /// Entries that come, after all else, under ciphertexts that are in the table then; those that are there stay.
    pub added: Vec<Listed>,
}

/// What a write does to an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Makes an index; no effect on one whose ciphertexts are as long.
    CreateIndex {
        /// Drawn by the client; no index of the server has it yet, or this one.
        index: IndexId,
        /// Length of each ciphertext, in bytes.
        ciphertext_bytes: u16,
    },
    /// Drops an index; no effect if there is none.
    DropIndex {
        /// Which one.
        index: IndexId,
    },
    /// Changes tree and entries. [`crate::Refusal::OtherVersion`] if the tree is at another version than the change was worked out
    /// from, or the table is without the ciphertext of an entry that comes.
    Update {
        /// Where.
        index: IndexId,
        /// How.
        update: Update,
    },
}

impl Change {
    /// The index that it changes.
    #[must_use]
    pub fn index(&self) -> IndexId {
        match self {
            Self::CreateIndex { index, .. } | Self::DropIndex { index, .. } | Self::Update { index, .. } => {
                *index
            }
        }
    }
}

/// Which of the entries at an end of a range belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// None that lies under the bound's ciphertext.
    Beyond,
    /// All of them.
    With,
    /// Those that come after this one in the order of the search.
    After(SealedRow),
}

/// One end of a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// A ciphertext of the table.
    pub ciphertext: Blob,
    /// What of it belongs to the range.
    pub side: Side,
}

/// A search of a range of entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// The lower end; none: from the lowest entry.
    pub lower: Option<Bound>,
    /// The upper end; none: to the highest.
    pub upper: Option<Bound>,
    /// From which end.
    pub order: Order,
    /// At most so many entries.
    pub limit: Option<u64>,
}

/// Entries of one ciphertext, in the order of the search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The ciphertext.
    pub ciphertext: Blob,
    /// Their names, one after the other.
    pub sealed: Blob,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Makes one change, outside any write.
    Change(Change),
    /// Nodes and labels, of one version.
    Fetch {
        /// Where.
        index: IndexId,
        /// Which.
        fetch: Fetch,
    },
    /// Which of these entries are there.
    Look {
        /// Where.
        index: IndexId,
        /// Which.
        entries: Vec<Listed>,
    },
    /// Finds the entries of a range. [`crate::Refusal::OtherVersion`] if the table is without a bound's ciphertext.
    Search {
        /// Where.
        index: IndexId,
        /// Which.
        search: Search,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// Of a change.
    Done,
    /// Of a fetch.
    Fetched(Fetched),
    /// Of a look, entry by entry.
    There(Vec<bool>),
    /// Of a search.
    Found {
        /// The entries, ciphertext by ciphertext.
        groups: Vec<Group>,
        /// Whether there is more in the range, and the limit allows it: search again after the last entry.
        more: bool,
    },
}

impl Protocol for Mope {
    const ROW: &'static Row = &table::MOPE;
    type Request = Request;
    type Response = Response;

    fn result_bytes(response: &Response) -> usize {
        match response {
            Response::Found { groups, .. } => groups.iter().map(|group| group.sealed.len()).sum(),
            Response::Done | Response::Fetched(_) | Response::There(_) => 0,
        }
    }
}
