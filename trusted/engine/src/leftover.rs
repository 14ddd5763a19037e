//! What a cursor has fetched and not handed out: of one step's documents those that did not fit the batch.

use super::Shared;
use super::budget::Share;
use super::channel::ServerChannel;
use arras_documents::limits;
use arras_documents::spill::{Spool, SpoolReader, Workspace};
use arras_service::ServiceError;
use arras_storage::Storage;
use bson::Document;
use std::collections::VecDeque;

/// Documents in their order; while nobody asks for them and there is no share to hold them for, on the disk.
#[derive(Default)]
pub(super) struct Leftover {
    held: VecDeque<Document>,
    share: Option<Share>,
    /// Those that follow.
    put_down: Option<SpoolReader>,
}

impl Leftover {
    /// The next one.
    pub(super) fn pop(&mut self) -> Result<Option<Document>, ServiceError> {
        if let Some(document) = self.held.pop_front() {
            return Ok(Some(document));
        }
        let next = self.put_down.as_mut().map_or(Ok(None), SpoolReader::next)?;
        if next.is_none() {
            self.put_down = None;
        }
        Ok(next)
    }

    /// Whether some of them are on the disk.
    pub(super) fn is_on_disk(&self) -> bool {
        self.put_down.as_ref().is_some_and(SpoolReader::is_on_disk)
    }

    /// Takes one back that was popped last.
    pub(super) fn put_back(&mut self, document: Document) {
        self.held.push_front(document);
    }

    /// Adds documents; all before them were popped.
    pub(super) fn extend(&mut self, documents: impl IntoIterator<Item = Document>) {
        self.held.extend(documents);
    }

    /// Finds a share for what is held, or puts it down.
    pub(super) fn rest<S: Storage, C: ServerChannel>(
        &mut self,
        shared: &Shared<S, C>,
    ) -> Result<(), ServiceError> {
        self.share = None;
        if self.held.is_empty() {
            self.held = VecDeque::new();
            return Ok(());
        }
        let mut bytes = 0;
        for document in &self.held {
            bytes += limits::check_built(document)?;
        }
        self.share = shared.budget.share(bytes);
        if self.share.is_some() {
            return Ok(());
        }
        let mut spool = Spool::new(Workspace { memory_bytes: 0, ..shared.workspace(true) }, "a batch");
        for document in std::mem::take(&mut self.held) {
            spool.push(document)?;
        }
        // Of those put down before, the last one popped may have been taken back.
        while let Some(document) = self.put_down.as_mut().map_or(Ok(None), SpoolReader::next)? {
            spool.push(document)?;
        }
        self.put_down = Some(spool.finish()?);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
