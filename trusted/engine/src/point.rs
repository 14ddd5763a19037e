//! A read of one document by its `_id`: the server is asked for one row, and there is nothing to gather, to order or to
//! hold between two batches.

use super::channel::ServerChannel;
use super::collection::Collection;
use super::fetch::Absent;
use super::read::Selection;
use super::{Shared, error};
use arras_documents::filter::Filter;
use arras_documents::order;
use arras_planner::access::Access;
use arras_planner::plan::only_id;
use arras_protocol::RowId;
use arras_protocol::documents::SealedDocument;
use arras_records::OpenDocument;
use arras_service::ServiceError;
use arras_service::store::Fetched;
use arras_storage::Storage;
use bson::{Bson, Document, RawDocument};
use std::sync::Arc;

/// What the document must be.
enum Wanted {
    /// The one with this `_id`, and nothing else was asked.
    Id(Bson),
    /// One that passes.
    Passing(Arc<Filter>),
}

impl Wanted {
    /// Whether a document is it. Which row it came from says so already; it is looked at all the same.
    fn is(&self, document: &Document) -> Result<bool, ServiceError> {
        match self {
            Self::Id(id) => Ok(document.get("_id").is_some_and(|found| order::equal(found, id))),
            Self::Passing(filter) => Ok(filter.matches(document)?),
        }
    }

    /// The same of a document with this `_id`; none if more of it has to be looked at.
    fn is_of_id(&self, document: &RawDocument) -> Option<bool> {
        match self {
            Self::Id(id) => {
                let found = document.get("_id").ok().flatten();
                let found = found.and_then(|found| Bson::try_from(found).ok());
                Some(found.is_some_and(|found| order::equal(&found, id)))
            }
            Self::Passing(_) => None,
        }
    }
}

/// One row, not read yet or read.
pub(super) struct Point {
    collection: Arc<Collection>,
    wanted: Wanted,
    row: Option<RowId>,
}

impl Point {
    /// The read that a selection comes to, if all it asks for is one `_id`, whatever indexes there are: nothing is
    /// planned.
    pub(super) fn of_selection(collection: &Arc<Collection>, selection: Selection<'_>) -> Option<Self> {
        if selection.hint.is_some() || !selection.sort.is_empty() {
            return None;
        }
        let id = only_id(selection.filter.expr())?;
        let row = Some(collection.sealer.row_id(id));
        Some(Self { collection: Arc::clone(collection), wanted: Wanted::Id(id.clone()), row })
    }

    /// The read that an access comes to, if it is for one `_id`.
    pub(super) fn of(collection: &Arc<Collection>, access: &Access, filter: &Arc<Filter>) -> Option<Self> {
        let Access::Rows { ids } = access else {
            return None;
        };
        let [id] = ids.as_slice() else {
            return None;
        };
        let row = Some(collection.sealer.row_id(id));
        let wanted = Wanted::Passing(Arc::clone(filter));
        Some(Self { collection: Arc::clone(collection), wanted, row })
    }

    /// The document, if there is one and it matches; `None` once it was asked for.
    pub(super) async fn next<S: Storage, C: ServerChannel>(
        &mut self,
        shared: &Shared<S, C>,
    ) -> Result<Option<Vec<OpenDocument>>, ServiceError> {
        let Some(row) = self.row.take() else {
            return Ok(None);
        };
        let _step = shared.budget.step(1, self.collection.lengths.mean()).await;
        let sealed = self.read(shared, row).await?;
        let mut found = Vec::with_capacity(sealed.len());
        for sealed in &sealed {
            let opened = self.collection.sealer.open(sealed).map_err(error::open)?;
            if self.wanted.is(&opened.document)? {
                found.push(opened);
            }
        }
        Ok(Some(found))
    }

    /// The same of a document that is only to be handed on: as BSON, if nothing else of it has to be looked at.
    pub(super) async fn next_fetched<S: Storage, C: ServerChannel>(
        &mut self,
        shared: &Shared<S, C>,
    ) -> Result<Vec<Fetched>, ServiceError> {
        let Some(row) = self.row.take() else {
            return Ok(Vec::new());
        };
        let _step = shared.budget.step(1, self.collection.lengths.mean()).await;
        let sealed = self.read(shared, row).await?;
        let mut found = Vec::with_capacity(sealed.len());
        for sealed in &sealed {
            let opened = self.collection.sealer.open_encoded(sealed).map_err(error::open)?;
            let (is_wanted, fetched) = match self.wanted.is_of_id(&opened) {
                Some(is_wanted) => (is_wanted, Fetched::Encoded(opened)),
                None => {
                    let document = Fetched::Encoded(opened).into_document()?;
                    (self.wanted.is(&document)?, Fetched::Decoded(document))
                }
            };
            if is_wanted {
                found.push(fetched);
            }
        }
        Ok(found)
    }

    /// What the server has in a row: one document or none.
    async fn read<S: Storage, C: ServerChannel>(
        &self,
        shared: &Shared<S, C>,
        row: RowId,
    ) -> Result<Vec<SealedDocument>, ServiceError> {
        // The row was computed from an `_id`, which need not exist.
        let (documents, served) = shared.read_sealed(&self.collection, &[row], Absent::Allowed).await?;
        if served == 1 { Ok(documents) } else { Err(error::not_of_protocol()) }
    }
}

#[cfg(test)]
mod tests;
