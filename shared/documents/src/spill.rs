//! What does not fit memory: where blocking work (sorts, groups, facets, results) puts the rest.
//!
//! This crate does no I/O: whoever runs the work gives it a [`Workspace`], with somewhere to [`Spill`] to or without.

mod spool;

pub use spool::{Spool, SpoolReader};

use crate::QueryError;
use crate::limits;
use bson::Document;
use std::fmt;
use std::sync::Arc;

/// Somewhere to put records that are read back in their order: a file, say.
pub trait Spill: Send + Sync {
    /// A new, empty run of records.
    ///
    /// # Errors
    /// 14031 `OutOfDiskSpace` if there is no room.
    fn run(&self) -> Result<Box<dyn RunWriter>, QueryError>;
}

/// A run that is being written. Dropped, it is gone.
pub trait RunWriter: Send {
    /// Adds a record.
    ///
    /// # Errors
    /// As [`Spill::run`].
    fn append(&mut self, record: &[u8]) -> Result<(), QueryError>;
    /// Ends the writing.
    ///
    /// # Errors
    /// As [`Spill::run`].
    fn finish(self: Box<Self>) -> Result<Arc<dyn Run>, QueryError>;
}

/// A run that is written. Dropped, it is gone.
pub trait Run: Send + Sync {
    /// Reads it from its beginning.
    fn reader(self: Arc<Self>) -> Box<dyn RunReader>;
}

/// Reads a run.
pub trait RunReader: Send {
    /// The next record; none at the end.
    ///
    /// # Errors
    /// 14031 if it cannot be read back.
    fn next(&mut self) -> Result<Option<Vec<u8>>, QueryError>;
}

/// What blocking work may use.
#[derive(Clone)]
pub struct Workspace {
    /// Bytes of documents held in memory, as encoded.
    pub memory_bytes: usize,
    /// Where the rest goes; without it, more than `memory_bytes` is an error (292).
    pub spill: Option<Arc<dyn Spill>>,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workspace({} bytes, spills: {})", self.memory_bytes, self.spill.is_some())
    }
}

impl Default for Workspace {
    /// MongoDB's bound in memory, and nothing beyond it.
    fn default() -> Self {
        Self { memory_bytes: crate::pipeline::MEMORY_BYTES_MAX, spill: None }
    }
}

impl Workspace {
    /// A new run for what does not fit.
    ///
    /// # Errors
    /// 292 if nothing may be spilled.
    pub(crate) fn run(&self, what: &str) -> Result<Box<dyn RunWriter>, QueryError> {
        self.spill.as_ref().map_or_else(|| Err(self.over_limit(what)), |spill| spill.run())
    }

    /// The error for what does not fit and may not be spilled.
    pub(crate) fn over_limit(&self, what: &str) -> QueryError {
        QueryError::memory(format!(
            "Exceeded memory limit for {what}: more than {} bytes, and the disk may not be used (allowDiskUse)",
            self.memory_bytes
        ))
    }
}

/// A document as a record.
pub(crate) fn encode(document: &Document) -> Result<Vec<u8>, QueryError> {
    document.to_vec().map_err(|error| QueryError::bad_value(format!("a document cannot be encoded: {error}")))
}

/// A document that [`encode`] wrote.
pub(crate) fn decode(mut record: &[u8]) -> Result<Document, QueryError> {
    Document::from_reader(&mut record)
        .map_err(|error| QueryError::invalid_bson(format!("a spilled document cannot be read back: {error}")))
}

/// Bytes of a document a stage holds.
pub(crate) fn held_bytes(document: &Document) -> Result<usize, QueryError> {
    limits::document_bytes(document, limits::DEPTH_MAX)
}

#[cfg(test)]
pub(crate) mod tests;
