//! Writes: what a document, its indexes and their circuits need, as one atomic transaction.
//!
//! Steps are applied in order in one storage transaction. A durable write is remembered by its operation id
//! until the proxy says that it has finished with it, so that a replay after a crash of either side changes
//! nothing twice.

use crate::channel::{Protocol, ProtocolId};
use crate::ids::OperationId;
use crate::{arx_eq, arx_range, documents, unique};
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
}

/// A write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// `Some`: durable; acknowledged only when it will survive a crash; applied at most once under this id.
    /// `None`: relaxed; may be rolled back by a crash (repaired circuits, which can be remade).
    pub operation: Option<OperationId>,
    /// Every durable operation below this one is finished with; the server forgets their ids.
    pub finished_below: OperationId,
    /// What to do, in order; all or nothing.
    pub steps: Vec<Step>,
}

/// The acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// False if this operation id had been applied before and nothing was done now.
    pub applied: bool,
}

impl Protocol for Write {
    const ID: ProtocolId = ProtocolId(3);
    const NAME: &'static str = "write";
    type Request = Request;
    type Response = Response;
}
