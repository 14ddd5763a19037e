//! Writes: what a document, its indexes and their circuits need, as one atomic transaction.
//!
//! Steps are applied in order in one storage transaction. A durable write is remembered by its operation id
//! until the proxy says that it has finished with it, so that a replay after a crash of either side changes
//! nothing twice.
//!
//! A write whose steps are too many bytes for one request goes in *parts*: each is brought by a relaxed write of its
//! own ([`Step::Upload`]) and changes nothing but the list of parts; the durable write of the one step [`Step::Parts`]
//! applies them all, atomically. Parts whose write never comes go when the proxy has finished with it.

use crate::bytes::Blob;
use crate::channel::Protocol;
use crate::ids::{IndexId, OperationId};
use crate::table::{self, Row};
use crate::{arx_eq, arx_range, bplus, documents, mope, pope, unique};
use serde::{Deserialize, Serialize};

/// The write path.
#[derive(Debug)]
pub struct Write;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Collections and documents.
    Documents(documents::Change),
    /// Deterministic index of a unique field.
    Unique(unique::Change),
    /// Equality index.
    ArxEq(arx_eq::Change),
    /// Range index.
    ArxRange(arx_range::Change),
    /// B+ tree.
    Bplus(bplus::Change),
    /// Buffer tree.
    Pope(pope::Change),
    /// Order-preserving encoding.
    Mope(mope::index::Change),
    /// Keeps a part of a write to come. In relaxed writes only.
    Upload {
        /// The write it is a part of.
        operation: OperationId,
        /// Which part, from 0.
        part: u32,
        /// Its steps, encoded ([`crate::codec`]): none of them an `Upload` or `Parts`.
        steps: Blob,
    },
    /// The steps of the parts that were uploaded for this write, in order;
    /// [`crate::Refusal::Incomplete`] if one is missing. The only step of a durable write.
    Parts {
        /// Parts that were uploaded, numbered from 0.
        count: u32,
    },
}

impl Step {
    /// The index that it changes, if it changes one.
    #[must_use]
    pub fn index(&self) -> Option<IndexId> {
        match self {
            Self::Unique(change) => Some(change.index()),
            Self::ArxEq(change) => Some(change.index()),
            Self::ArxRange(change) => Some(change.index()),
            Self::Bplus(change) => Some(change.index()),
            Self::Pope(change) => Some(change.index()),
            Self::Mope(change) => Some(change.index()),
            Self::Documents(_) | Self::Upload { .. } | Self::Parts { .. } => None,
        }
    }

    /// True for what a relaxed write may hold: it can be done again.
    #[must_use]
    pub fn may_be_lost(&self) -> bool {
        match self {
            Self::ArxRange(change) => matches!(change, arx_range::Change::PutCircuit { .. }),
            Self::Upload { .. } => true,
            Self::Documents(_)
            | Self::Unique(_)
            | Self::ArxEq(_)
            | Self::Bplus(_)
            | Self::Pope(_)
            | Self::Mope(_)
            | Self::Parts { .. } => false,
        }
    }
}

/// A write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// `Some`: durable; acknowledged only when it will survive a crash; applied at most once under this id.
    /// `None`: relaxed; may be rolled back by a crash (repaired circuits, which can be remade, and parts, which can be sent again).
    pub operation: Option<OperationId>,
    /// Every durable operation below this one is finished with; the server forgets their ids.
    pub finished_below: OperationId,
    /// The greatest [`Response::commits`] this proxy was told; 0 in a relaxed write. A server that counts fewer was
    /// set back and applies nothing: [`crate::Refusal::SetBack`].
    #[serde(with = "postcard::fixint::be")]
    pub acknowledged: u64,
    /// What to do, in order; all or nothing.
    pub steps: Vec<Step>,
}

/// The acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// False if this operation id had been applied before and nothing was done now.
    pub applied: bool,
    /// Durable writes the server has applied since the database was made, this one included.
    #[serde(with = "postcard::fixint::be")]
    pub commits: u64,
}

impl Protocol for Write {
    const ROW: &'static Row = &table::WRITE;
    type Request = Request;
    type Response = Response;
}
