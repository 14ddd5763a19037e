//! ArxEq: equality index with forward privacy (Arx, VLDB'19, §5).
//!
//! A value's occurrences are numbered by counters. Counter `c` has the leaf `c` of a 32-level tree of
//! one-way steps below the value's root (figure 3); a search sends the covering set of the counters that may have
//! entries, and the server expands it. An entry is stored under a label derived from its leaf, and its row id is masked by a
//! second derivation, so a snapshot shows neither equality nor which document an entry is for.
//!
//! *Leakage.* Snapshot: number of entries. Search: search pattern, matching rows, and which past writes they
//! were (write history of the searched value: also how many removed entries lie between those that are left). Insert
//! and remove: nothing about the value. Cleanup: the entries of one value; behind a search those it has shown already.

use crate::channel::Protocol;
use crate::ids::{IndexId, RowId};
use crate::table::{self, Row};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The protocol.
#[derive(Debug)]
pub struct ArxEq;

/// A node of a value's token tree: capability to derive every leaf below it. `height` 0 is a leaf.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchToken {
    /// The node's 16 bytes.
    pub node: [u8; 16],
    /// Levels above the leaves: the node covers `2^height` counters. At most [`crate::limits::ARX_EQ_LEVELS`].
    pub height: u8,
}

impl fmt::Debug for SearchToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SearchToken(2^{} counters)", self.height)
    }
}

/// Where an entry is stored: a one-way derivation of its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Label(pub [u8; 16]);

/// Row id, exclusive-or a mask derived from the entry's leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskedRow(pub [u8; 16]);

/// Finds the rows of one or more values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Where.
    pub index: IndexId,
    /// For each value, the covering set of its counters. The counters covered in all are at most
    /// [`crate::limits::STEPS_MAX`].
    pub values: Vec<Vec<SearchToken>>,
}

/// What was found for one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matches {
    /// Rows, ordered by counter.
    pub rows: Vec<RowId>,
    /// Covered counters that have no entry (deleted ones).
    pub missing: u32,
}

/// One [`Matches`] for each value asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// In the order of the request.
    pub values: Vec<Matches>,
}

/// A change, as a step of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Makes an index; no effect if it exists.
    CreateIndex {
        /// Drawn by the client; no index of the server has it yet, or this one.
        index: IndexId,
    },
    /// Drops an index and its entries.
    DropIndex {
        /// Which one.
        index: IndexId,
    },
    /// Adds an entry.
    Insert {
        /// Where.
        index: IndexId,
        /// The entry's label.
        label: Label,
        /// The entry's row.
        row: MaskedRow,
    },
    /// Removes an entry; no effect if there is none.
    Remove {
        /// Where.
        index: IndexId,
        /// The entry's label.
        label: Label,
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
            | Self::Remove { index, .. } => *index,
        }
    }
}

impl Protocol for ArxEq {
    const ROW: &'static Row = &table::ARX_EQ;
    type Request = Request;
    type Response = Response;
}

/// The entries of an index, counted page by page in the order of their labels: how many there are besides those that
/// searches find is seen in no other way.
#[derive(Debug)]
pub struct Entries;

/// Counts the entries of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntriesRequest {
    /// Where.
    pub index: IndexId,
    /// Those after this label; from the first if none.
    pub after: Option<Label>,
}

/// One page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntriesResponse {
    /// How many entries it has; at most [`crate::limits::ENTRIES_COUNTED_MAX`].
    pub entries: u32,
    /// The last one, if there may be more.
    pub last: Option<Label>,
}

impl Protocol for Entries {
    const ROW: &'static Row = &table::ARX_EQ_ENTRIES;
    type Request = EntriesRequest;
    type Response = EntriesResponse;
}
