//! A read of one document by its `_id`: the server is asked for one row, and there is nothing to gather, to order or to
//! hold between two batches.

use super::channel::ServerChannel;
use super::collection::Collection;
use super::fetch::Absent;
use super::{Shared, error};
use arras_client::OpenDocument;
use arras_documents::filter::Filter;
use arras_planner::access::Access;
use arras_planner::store::StoreError;
use arras_protocol::RowId;
use arras_storage::Storage;
use std::sync::Arc;

/// One row, not read yet or read.
pub(super) struct Point<C> {
    collection: Arc<Collection<C>>,
    filter: Arc<Filter>,
    row: Option<RowId>,
}

impl<C: ServerChannel> Point<C> {
    /// The read that an access comes to, if it is for one `_id`.
    pub(super) fn of(collection: &Arc<Collection<C>>, access: &Access, filter: &Arc<Filter>) -> Option<Self> {
        let Access::Rows { ids } = access else {
            return None;
        };
        let [id] = ids.as_slice() else {
            return None;
        };
        let row = Some(collection.sealer.row_id(id));
        Some(Self { collection: Arc::clone(collection), filter: Arc::clone(filter), row })
    }

    /// The document, if there is one and it matches; `None` once it was asked for.
    pub(super) async fn next<S: Storage>(
        &mut self,
        shared: &Shared<S, C>,
    ) -> Result<Option<Vec<OpenDocument>>, StoreError> {
        let Some(row) = self.row.take() else {
            return Ok(None);
        };
        let _step = shared.budget.step(1).await;
        // The row was computed from an `_id`, which need not exist.
        let (mut documents, served) = shared.read_some(&self.collection, &[row], Absent::Allowed).await?;
        if served != 1 {
            return Err(error::not_of_protocol());
        }
        if let Some(found) = documents.first()
            && !self.filter.matches(&found.document)?
        {
            documents.clear();
        }
        Ok(Some(documents))
    }
}
