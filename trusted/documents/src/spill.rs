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

/// Memory that all work of a process shares.
pub trait Pool: Send + Sync {
    /// Takes so many bytes of documents, as encoded; false if there are not that many left.
    fn take(&self, bytes: usize) -> bool;
    /// Gives some back.
    fn give_back(&self, bytes: usize);
}

/// Whom long work on a thread of its own asks between two steps.
pub trait Pause: Send + Sync {
    /// Lets others go first, if it is their turn.
    ///
    /// # Errors
    /// Nobody waits for the work any more.
    fn pause(&self) -> Result<(), QueryError>;
}

/// What blocking work may use.
#[derive(Clone)]
pub struct Workspace {
    /// Bytes of documents held in memory, as encoded.
    pub memory_bytes: usize,
    /// Where the rest goes; without it, more than `memory_bytes` is an error (292).
    pub spill: Option<Arc<dyn Spill>>,
    /// What other work leaves; without it, there is nobody else.
    pub pool: Option<Arc<dyn Pool>>,
    /// Who is asked between two steps; without it, the work goes on.
    pub pause: Option<Arc<dyn Pause>>,
}

/// Bytes that are taken from a pool at a time.
const TAKEN_AT_ONCE: usize = 64 * 1024;
/// Bytes that any work may hold before it asks a pool, so that what is spilled is not single documents.
const UNASKED: usize = 64 * 1024;

/// What a piece of work holds of its workspace's memory; given back when it is dropped.
pub struct Held {
    workspace: Workspace,
    taken: usize,
}

impl Held {
    /// Nothing yet.
    #[must_use]
    pub fn new(workspace: &Workspace) -> Self {
        Self { workspace: workspace.clone(), taken: 0 }
    }

    /// Whether so many bytes in all may be held in memory.
    pub(crate) fn fits(&mut self, bytes: usize) -> bool {
        bytes <= self.workspace.memory_bytes && self.granted(bytes)
    }

    /// The same beyond the work's own bound, for what cannot be spilled any more.
    pub fn granted(&mut self, bytes: usize) -> bool {
        let Some(pool) = &self.workspace.pool else {
            return true;
        };
        let missing = bytes.saturating_sub(self.taken.saturating_add(UNASKED));
        if missing == 0 {
            return true;
        }
        let missing = missing.saturating_add(TAKEN_AT_ONCE);
        let granted = pool.take(missing);
        if granted {
            self.taken += missing;
        }
        granted
    }

    /// Nothing is held any more.
    pub(crate) fn let_go(&mut self) {
        if let Some(pool) = &self.workspace.pool {
            pool.give_back(std::mem::take(&mut self.taken));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workspace({} bytes, spills: {})", self.memory_bytes, self.spill.is_some())
    }
}

impl Default for Workspace {
    /// MongoDB's bound in memory, and nothing beyond it.
    fn default() -> Self {
        Self { memory_bytes: crate::pipeline::MEMORY_BYTES_MAX, spill: None, pool: None, pause: None }
    }
}

impl Workspace {
    /// To be called between two steps of work that takes no documents from without meanwhile.
    ///
    /// # Errors
    /// As [`Pause::pause`].
    pub(crate) fn pause(&self) -> Result<(), QueryError> {
        self.pause.as_ref().map_or(Ok(()), |others| others.pause())
    }

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
            "Exceeded memory limit for {what}: more than {} bytes, or than others leave, and the disk may not be used \
             (allowDiskUse)",
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
