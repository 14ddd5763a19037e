//! A collection read from one end to the other, and what a server's replies to that must be.

use super::Shared;
use super::channel::ServerChannel;
use super::collection::Collection;
use super::error;
use super::ledger::{Ledger, Mark};
use arras_protocol::{Channel, RowId, documents};
use arras_records::OpenDocument;
use arras_service::examined;
use arras_service::{Fault, ServiceError};
use arras_storage::Storage;
use std::sync::Arc;

/// Reads a collection from one end to the other.
///
/// Rows ascend strictly past the last one, over all replies, or the reply is refused: so no document comes twice,
/// and as each reply but the last brings one at least, a scan ends. At its end the documents are as many as the
/// proxy counts, but for those that were written meanwhile: so none is withheld.
pub(super) struct Scan {
    collection: Arc<Collection>,
    ledger: Arc<Ledger>,
    began: Mark,
    after: Option<RowId>,
    documents: u64,
    documents_max: u32,
    /// Documents that it will have met, if nobody but who reads writes meanwhile: what he writes he has met.
    exactly: Option<u64>,
    ended: bool,
}

impl Scan {
    /// A scan whose steps bring at most `documents_max` documents.
    pub(super) fn new<S: Storage, C: ServerChannel>(
        shared: &Shared<S, C>,
        collection: &Arc<Collection>,
        documents_max: u32,
    ) -> Self {
        let ledger = Arc::clone(&shared.intents.ledger);
        let began = ledger.mark(collection.id);
        let collection = Arc::clone(collection);
        Self {
            collection,
            ledger,
            began,
            after: None,
            documents: 0,
            documents_max,
            exactly: None,
            ended: false,
        }
    }

    /// With `alone`, a scan of the collection's writer.
    pub(super) fn alone(self, alone: bool) -> Self {
        // Not where a write is under way all the same: one of whose outcome nobody will know.
        let bounds = self.ledger.bounds(self.began).filter(|(fewest, most)| alone && fewest == most);
        Self { exactly: bounds.map(|(count, _)| count), ..self }
    }

    /// Sets how many documents the next step brings at most.
    pub(super) fn set_step(&mut self, documents_max: usize) {
        self.documents_max = u32::try_from(documents_max).unwrap_or(u32::MAX);
    }

    /// The next documents; none at the end.
    pub(super) async fn next<C: ServerChannel>(
        &mut self,
        channel: &C,
    ) -> Result<Vec<OpenDocument>, ServiceError> {
        if self.ended {
            return Ok(Vec::new());
        }
        let collection = self.collection.id;
        let request =
            documents::Request::Scan { collection, after: self.after, documents_max: self.documents_max };
        let reply = Channel::<documents::Documents>::call(channel, request).await.map_err(error::channel)?;
        let documents::Response::Documents { documents, more, .. } = reply else {
            return Err(error::not_of_protocol());
        };
        examined::documents(documents.len());
        self.accept(documents.iter().map(|document| document.row), more)?;
        self.collection.open_all(documents).await
    }

    /// Takes the rows of a reply, and whether more follow.
    fn accept(&mut self, rows: impl Iterator<Item = RowId>, more: bool) -> Result<(), ServiceError> {
        let before = self.documents;
        for row in rows {
            if self.after.is_some_and(|after| row <= after) {
                return Err(self.lying("documents are repeated or out of order in a scan"));
            }
            self.after = Some(row);
            self.documents += 1;
        }
        if more && self.documents == before {
            return Err(self.lying("a scan does not go on"));
        }
        self.ended = !more;
        if self.ended
            && let Some((fewest, most)) =
                self.exactly.map(|count| (count, count)).or_else(|| self.ledger.bounds(self.began))
            && !(fewest..=most).contains(&self.documents)
        {
            let documents = self.documents;
            return Err(self.lying(&format!("a scan met {documents} documents of {fewest} to {most}")));
        }
        Ok(())
    }

    fn lying(&self, what: &str) -> ServiceError {
        error::lying(&self.collection.ns, what)
    }
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Number of documents of a collection, by what was written: the server is not asked.
    pub(super) fn document_count(&self, collection: &Collection) -> Result<u64, ServiceError> {
        self.intents.ledger.documents(collection.id).ok_or_else(|| {
            let ns = &collection.ns;
            let message = format!("{}.{} was dropped meanwhile", ns.database, ns.collection);
            error::of(Fault::NamespaceNotFound, message)
        })
    }

    /// Counts a collection that has no count on record.
    pub(super) async fn count_once(&self, collection: &Arc<Collection>) -> Result<(), ServiceError> {
        if self.intents.ledger.documents(collection.id).is_some() {
            return Ok(());
        }
        let mut scan = Scan::new(self, collection, u32::MAX);
        while !scan.next(&*self.channel).await?.is_empty() {}
        self.intents.counted(collection.id, scan.documents);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
