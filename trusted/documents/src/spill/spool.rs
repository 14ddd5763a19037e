//! A list of documents, of which what does not fit memory is spilled.

use super::{Held, Run, RunReader, RunWriter, Workspace, decode, encode, held_bytes};
use crate::QueryError;
use bson::Document;
use std::collections::VecDeque;
use std::sync::Arc;

/// Documents in the order in which they were added.
pub struct Spool {
    workspace: Workspace,
    /// What there is an error about if it does not fit.
    what: &'static str,
    memory: Vec<Document>,
    held_bytes: usize,
    held: Held,
    writer: Option<Box<dyn RunWriter>>,
}

impl Spool {
    /// An empty list; `what` it is, for the error if it does not fit.
    #[must_use]
    pub fn new(workspace: Workspace, what: &'static str) -> Self {
        let held = Held::new(&workspace);
        Self { workspace, what, memory: Vec::new(), held_bytes: 0, held, writer: None }
    }

    /// Adds a document.
    ///
    /// # Errors
    /// 292 if it does not fit and nothing may be spilled; 14031 if it cannot be.
    pub fn push(&mut self, document: Document) -> Result<(), QueryError> {
        if let Some(writer) = &mut self.writer {
            return writer.append(&encode(&document)?);
        }
        self.held_bytes = self.held_bytes.saturating_add(held_bytes(&document)?);
        if self.held.fits(self.held_bytes) {
            self.memory.push(document);
            return Ok(());
        }
        let mut writer = self.workspace.run(self.what)?;
        writer.append(&encode(&document)?)?;
        self.writer = Some(writer);
        Ok(())
    }

    /// The list, to be read once.
    ///
    /// # Errors
    /// 14031 if it cannot be spilled.
    pub fn finish(self) -> Result<SpoolReader, QueryError> {
        let run = self.writer.map(RunWriter::finish).transpose()?;
        Ok(SpoolReader { memory: self.memory.into(), _held: self.held, run: run.map(Run::reader) })
    }

    /// The list, to be read any number of times.
    pub(crate) fn finish_shared(self) -> Result<SharedSpool, QueryError> {
        let run = self.writer.map(RunWriter::finish).transpose()?;
        Ok(SharedSpool { memory: self.memory, _held: self.held, run })
    }
}

/// Takes the documents of a [`Spool`].
pub struct SpoolReader {
    memory: VecDeque<Document>,
    _held: Held,
    run: Option<Box<dyn RunReader>>,
}

impl SpoolReader {
    /// Whether some of it was spilled.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        self.run.is_some()
    }

    /// The next document; none at the end.
    ///
    /// # Errors
    /// 14031 if it cannot be read back.
    #[allow(clippy::should_implement_trait, reason = "an iterator would have to go on after an error")]
    pub fn next(&mut self) -> Result<Option<Document>, QueryError> {
        if let Some(document) = self.memory.pop_front() {
            return Ok(Some(document));
        }
        let record = self.run.as_mut().map_or(Ok(None), |run| run.next())?;
        record.map(|record| decode(&record)).transpose()
    }
}

/// See [`Spool::finish_shared`].
pub(crate) struct SharedSpool {
    memory: Vec<Document>,
    _held: Held,
    run: Option<Arc<dyn Run>>,
}

impl SharedSpool {
    /// Its documents, from the first.
    pub(crate) fn documents(&self) -> impl Iterator<Item = Result<Document, QueryError>> + '_ {
        let mut reader = self.run.clone().map(Run::reader);
        let spilled = std::iter::from_fn(move || {
            let record = reader.as_mut()?.next().transpose()?;
            if record.is_err() {
                reader = None;
            }
            Some(record.and_then(|record| decode(&record)))
        });
        self.memory.iter().cloned().map(Ok).chain(spilled)
    }
}
