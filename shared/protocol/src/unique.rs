//! EQunique: deterministic index of a field whose values are unique (Arx §3, §5.1).
//!
//! *Leakage.* Snapshot: number of entries (values are unique, so determinism shows no frequency).
//! Search: search pattern, the matching row.

use crate::channel::Protocol;
use crate::ids::{IndexId, RowId};
use crate::table::{self, Row};
use serde::{Deserialize, Serialize};

/// The protocol.
#[derive(Debug)]
pub struct Unique;

/// Deterministic tag of a canonical value under the index's key: search token and stored label at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Label(pub [u8; 16]);

/// Looks values up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Where.
    pub index: IndexId,
    /// The values' labels.
    pub labels: Vec<Label>,
}

/// The rows found, in the order of the labels; `None` where there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// One for each label.
    pub rows: Vec<Option<RowId>>,
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
    /// Adds an entry; [`crate::Refusal::Conflict`] if the label is taken by another row.
    Insert {
        /// Where.
        index: IndexId,
        /// The value's label.
        label: Label,
        /// The row it is for.
        row: RowId,
    },
    /// Removes the entry of a label; no effect if there is none.
    Remove {
        /// Where.
        index: IndexId,
        /// The value's label.
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

impl Protocol for Unique {
    const ROW: &'static Row = &table::UNIQUE;
    type Request = Request;
    type Response = Response;
}
