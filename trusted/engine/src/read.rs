//! Reads: rows from an index, documents by row, opened and checked again in plaintext.

use super::channel::ServerChannel;
use super::collection::Collection;
use super::index::IndexPart;
use super::ledger::Watch;
use super::{Shared, error, slices};
use arras_documents::filter::{Expr, Filter};
use arras_documents::sort::Sort;
use arras_planner::access::{Access, RangeAccess};
use arras_planner::plan::{Plan, Request};
use arras_protocol::Order;
use arras_protocol::{IndexId, RowId, documents};
use arras_records::OpenDocument;
use arras_schemes::contract::Repair;
use arras_schemes::contract::{RangeCursor, RangePage, RangeQuery};
use arras_schemes::error::IndexError;
use arras_service::examined;
use arras_service::store::Query;
use arras_service::{Fault, ServiceError};
use arras_storage::Storage;
use bson::Bson;
use std::sync::Arc;

/// Rows of a range asked for at a time.
const ROWS_PER_STEP: usize = 2000;
/// Entries asked for beyond a limit: enough to see, mostly, that the last run of equal keys has ended.
const ENTRIES_BEYOND: usize = 16;

/// For who asks for no order.
static UNSORTED: Sort = Sort::none();

/// Which documents to select, and how many in which order.
#[derive(Clone, Copy)]
pub(super) struct Selection<'q> {
    pub(super) filter: &'q Filter,
    pub(super) sort: &'q Sort,
    pub(super) skip: u64,
    pub(super) limit: Option<u64>,
    pub(super) hint: Option<&'q Bson>,
    /// The caller is the collection's writer.
    pub(super) alone: bool,
    /// A sort may spill.
    pub(super) allow_disk_use: bool,
}

impl<'q> Selection<'q> {
    pub(super) fn of(query: &'q Query) -> Self {
        let Query { filter, sort, skip, limit, hint, allow_disk_use } = query;
        Self {
            filter,
            sort,
            skip: *skip,
            limit: *limit,
            hint: hint.as_ref(),
            alone: false,
            allow_disk_use: *allow_disk_use,
        }
    }

    /// What the planner is asked.
    pub(super) fn request(&self) -> Request<'q> {
        if self.sort.is_natural() {
            // No index has the order of insertion: all that match are read.
            return Request { filter: self.filter.expr(), sort: &UNSORTED, limit: None };
        }
        let limit = self.limit.map(|limit| limit.saturating_add(self.skip));
        Request { filter: self.filter.expr(), sort: self.sort, limit }
    }

    /// Matches after which nothing more can be asked for.
    pub(super) fn wanted(&self) -> Option<usize> {
        let wanted = self.limit?.saturating_add(self.skip);
        Some(usize::try_from(wanted).unwrap_or(usize::MAX))
    }
}

impl Collection {
    /// Opens documents, off the event loop if they are many.
    pub(super) async fn open_all(
        &self,
        sealed: Vec<documents::SealedDocument>,
    ) -> Result<Vec<OpenDocument>, ServiceError> {
        self.lengths.note(&sealed);
        let sealer = Arc::clone(&self.sealer);
        let open =
            move |sealed: documents::SealedDocument| sealer.open(&sealed).map(Some).map_err(error::open);
        slices::run(sealed, open).await
    }
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Plans a selection, and says in the log if it comes to reading everything.
    pub(super) async fn plan_read(
        &self,
        collection: &Collection,
        selection: Selection<'_>,
    ) -> Result<Plan, ServiceError> {
        self.sample(collection).await;
        let plan = self.plan(collection, selection)?;
        if plan.access == Access::Scan && !plan.ends_early && !matches!(selection.filter.expr(), Expr::Always)
        {
            tracing::info!(
                collection = %collection.id_in_log(),
                advice = plan.advice.as_deref().unwrap_or("none"),
                "no index serves the filter: reading the whole collection"
            );
        }
        Ok(plan)
    }
}

pub(super) fn unknown_index() -> ServiceError {
    error::of(Fault::IndexNotFound, "the index was dropped while the query ran")
}

pub(super) fn part(collection: &Collection, index: IndexId) -> Result<Arc<IndexPart>, ServiceError> {
    collection.parts().into_iter().find(|part| part.id == index).ok_or_else(unknown_index)
}

/// Rows of a range, fetched as they are asked for.
pub(super) struct RangeRows {
    ready: Option<Vec<(Vec<u8>, RowId)>>,
    more: Option<Box<dyn RangeCursor>>,
    /// Entries the last step asked for.
    step: usize,
    /// Of writes since before the search.
    pub(super) watch: Watch,
}

impl RangeRows {
    /// Searches; `wanted` is how many rows may do.
    pub(super) async fn begin<S: Storage, C: ServerChannel>(
        shared: &Arc<Shared<S, C>>,
        collection: &Collection,
        range: &RangeAccess,
        wanted: Option<usize>,
    ) -> Result<Self, ServiceError> {
        let watch = shared.intents.ledger.watch();
        let part = part(collection, range.index)?;
        let index = Arc::clone(&part.half).range().ok_or_else(unknown_index)?;
        let Some(bounds) = range.key_bounds(&part.physical) else {
            return Ok(Self { ready: None, more: None, step: 0, watch });
        };
        let order = match range.order {
            Some(order) if order.descending => Order::Descending,
            _ => Order::Ascending,
        };
        let first = wanted.map(|wanted| wanted.saturating_add(ENTRIES_BEYOND));
        // Runs to its end even if nobody waits for it any more: the circuits it used are to be remade.
        let shared = Arc::clone(shared);
        let range = RangeQuery { lower: bounds.lower, upper: bounds.upper, order, limit: first };
        let search = tokio::spawn(async move {
            let mut found = index.search(range).await?;
            // The results go on; the circuits they used are remade behind them.
            shared.repair(std::mem::replace(&mut found.repair, Repair::none()));
            Ok(found)
        });
        let RangePage { entries, more, .. } = finished(search.await)?;
        let step = first.unwrap_or(ROWS_PER_STEP);
        Ok(Self { ready: Some(entries), more, step, watch })
    }

    /// The next rows, in order; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<RowId>>, ServiceError> {
        let entries = self.next_entries().await?;
        Ok(entries.map(|entries| entries.into_iter().map(|(_, row)| row).collect()))
    }

    /// The next keys and rows, in order; none at the end.
    pub(super) async fn next_entries(&mut self) -> Result<Option<Vec<(Vec<u8>, RowId)>>, ServiceError> {
        loop {
            if let Some(entries) = self.ready.take()
                && !entries.is_empty()
            {
                examined::entries(entries.len());
                return Ok(Some(entries));
            }
            let Some(more) = self.more.take() else { return Ok(None) };
            // A limited search reads on in growing steps.
            self.step = self.step.saturating_mul(2).min(ROWS_PER_STEP);
            let step = self.step;
            let search = tokio::spawn(async move {
                let found = more.next(Some(step)).await?;
                // Those who read on wait for it: what they used is unready until then.
                let RangePage { entries, more, repair } = found;
                let _ = repair.run().await;
                Ok(RangePage { entries, more, repair: Repair::none() })
            });
            let RangePage { entries, more, .. } = finished(search.await)?;
            self.more = more;
            self.ready = Some(entries);
        }
    }
}

/// What a step of a search came to.
fn finished(
    step: Result<Result<RangePage, IndexError>, tokio::task::JoinError>,
) -> Result<RangePage, ServiceError> {
    step.map_err(|error| error::of(Fault::Internal, error.to_string()))?.map_err(error::index)
}

#[cfg(test)]
mod tests;
