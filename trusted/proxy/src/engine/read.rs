//! Reads: rows from an index, documents by row, opened and checked again in plaintext.

use super::channel::ServerChannel;
use super::collection::Collection;
use super::fetch::Absent;
use super::index::{Half, Part};
use super::ledger::Watch;
use super::scan::Scan;
use super::{Shared, error};
use arras_client::OpenDocument;
use arras_client::arx_range::{Continuation, RangeFound};
use arras_documents::filter::{Expr, Filter};
use arras_documents::limits;
use arras_documents::sort::Sort;
use arras_planner::access::{Access, RangeAccess};
use arras_planner::store::{Query, StoreError};
use arras_protocol::arx_range::Order;
use arras_protocol::{IndexId, RowId, documents};
use arras_storage::Storage;
use bson::{Bson, Document};
use rand::seq::SliceRandom;
use std::collections::HashSet;
use std::sync::Arc;

/// Documents fetched at a time.
const DOCUMENTS_PER_READ: usize = 2000;
/// Entries asked for beyond a limit: enough to see, mostly, that the last run of equal keys has ended.
const ENTRIES_BEYOND: usize = 16;
/// Bytes of documents a query may hold to sort or order them: MongoDB's own bound.
pub(super) const HELD_BYTES_MAX: usize = 100 * 1024 * 1024;
/// A limited query without filter or order reads no further than its limit in collections larger than this;
/// in smaller ones it returns the first documents inserted.
const NATURAL_ORDER_MAX: u64 = 50_000;

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
}

impl<'q> Selection<'q> {
    pub(super) fn of(query: &'q Query) -> Self {
        let Query { filter, sort, skip, limit, hint } = query;
        Self { filter, sort, skip: *skip, limit: *limit, hint: hint.as_ref(), alone: false }
    }

    /// Matches after which nothing more can be asked for.
    fn wanted(&self) -> Option<usize> {
        let wanted = self.limit?.saturating_add(self.skip);
        Some(usize::try_from(wanted).unwrap_or(usize::MAX))
    }

    /// Cuts ordered matches to what was asked for.
    fn cut(&self, documents: Vec<OpenDocument>) -> Vec<OpenDocument> {
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX);
        let limit = self.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        documents.into_iter().skip(skip).take(limit).collect()
    }
}

/// Matches held in memory, bounded.
struct Held {
    documents: Vec<OpenDocument>,
    bytes: usize,
    seen: HashSet<RowId>,
}

impl Held {
    fn new() -> Self {
        Self { documents: Vec::new(), bytes: 0, seen: HashSet::new() }
    }

    fn add(&mut self, documents: Vec<OpenDocument>, filter: &Filter) -> Result<(), StoreError> {
        for document in documents {
            if filter.matches(&document.document)? && self.seen.insert(document.row) {
                self.bytes += limits::check_built(&document.document)?;
                self.documents.push(document);
            }
        }
        if self.bytes > HELD_BYTES_MAX {
            let message = format!(
                "the query holds more than {HELD_BYTES_MAX} bytes of documents in the proxy; narrow the filter, \
                 add a limit, or create an index that serves its order"
            );
            return Err(error::of(292, "QueryExceededMemoryLimitNoDiskUseAllowed", message));
        }
        Ok(())
    }
}

impl<C: ServerChannel> Collection<C> {
    /// Opens documents, off the event loop if they are many.
    pub(super) async fn open_all(
        &self,
        sealed: Vec<documents::SealedDocument>,
    ) -> Result<Vec<OpenDocument>, StoreError> {
        let sealer = Arc::clone(&self.sealer);
        let open = move || sealed.iter().map(|sealed| sealer.open(sealed)).collect::<Result<Vec<_>, _>>();
        let opened = tokio::task::spawn_blocking(open).await;
        opened.map_err(|error| error::of(8, "UnknownError", error.to_string()))?.map_err(error::open)
    }
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// The documents a selection asks for, in its order.
    pub(super) async fn select(
        &self,
        collection: &Arc<Collection<C>>,
        selection: Selection<'_>,
    ) -> Result<Vec<OpenDocument>, StoreError> {
        let plan = self.plan(collection, selection)?;
        if plan.access == Access::Scan && !matches!(selection.filter.expr(), Expr::Always) {
            tracing::info!(
                collection = %collection.id_in_log(),
                advice = plan.advice.as_deref().unwrap_or("none"),
                "no index serves the filter: reading the whole collection"
            );
        }
        if let Access::Range(range) = &plan.access
            && range.order.is_some()
            && selection.wanted().is_some()
        {
            return self.select_in_order(collection, range, selection).await;
        }
        if plan.access == Access::Scan && self.may_stop_early(collection, selection)? {
            return self.first_of_scan(collection, selection).await;
        }
        let mut held = Held::new();
        self.collect(collection, &plan.access, selection, &mut held).await?;
        let mut documents = held.documents;
        documents.sort_by_key(|document| document.sequence);
        if !selection.sort.is_empty() {
            documents = sort_by(documents, selection.sort);
        }
        Ok(selection.cut(documents))
    }

    fn may_stop_early(
        &self,
        collection: &Collection<C>,
        selection: Selection<'_>,
    ) -> Result<bool, StoreError> {
        let unordered = selection.sort.is_empty() && matches!(selection.filter.expr(), Expr::Always);
        Ok(unordered && selection.limit.is_some() && self.document_count(collection)? > NATURAL_ORDER_MAX)
    }

    async fn first_of_scan(
        &self,
        collection: &Arc<Collection<C>>,
        selection: Selection<'_>,
    ) -> Result<Vec<OpenDocument>, StoreError> {
        let wanted = selection.wanted().unwrap_or(usize::MAX);
        let mut scan =
            Scan::new(self, collection, u32::try_from(wanted.min(DOCUMENTS_PER_READ)).unwrap_or(u32::MAX));
        let mut found = Vec::new();
        while found.len() < wanted {
            let documents = scan.next(&*self.channel).await?;
            if documents.is_empty() {
                break;
            }
            found.extend(documents);
        }
        Ok(selection.cut(found))
    }

    /// Every match an access leads to, in no order.
    async fn collect(
        &self,
        collection: &Arc<Collection<C>>,
        access: &Access,
        selection: Selection<'_>,
        held: &mut Held,
    ) -> Result<(), StoreError> {
        let filter = selection.filter;
        match access {
            Access::Scan => {
                let mut scan = Scan::new(self, collection, u32::MAX);
                loop {
                    let documents = scan.next(&*self.channel).await?;
                    if documents.is_empty() {
                        return Ok(());
                    }
                    held.add(documents, filter)?;
                }
            }
            Access::Union(branches) => {
                // Not in the order of the query, which may be that of its values.
                let mut branches: Vec<&Access> = branches.iter().collect();
                branches.shuffle(&mut rand::rng());
                for branch in branches {
                    Box::pin(self.collect(collection, branch, selection, held)).await?;
                }
                Ok(())
            }
            Access::Range(range) => {
                // All rows before the first document: which came from one reply is part of their order.
                let mut found = RangeRows::begin(self, collection, range, None).await?;
                let mut rows = Vec::new();
                while let Some(further) = found.next().await? {
                    rows.extend(further);
                }
                rows.sort_unstable();
                rows.dedup();
                for rows in rows.chunks(DOCUMENTS_PER_READ) {
                    let absent = Absent::Named(&found.watch);
                    held.add(self.read_rows(collection, rows, absent).await?, filter)?;
                }
                Ok(())
            }
            Access::Rows { ids } => {
                let rows: Vec<RowId> = ids.iter().map(|id| collection.sealer.row_id(id)).collect();
                held.add(self.read_rows(collection, &rows, Absent::Allowed).await?, filter)
            }
            Access::Unique { index, values } | Access::Eq { index, values } => {
                let found = self.rows_of_values(collection, *index, values, selection.alone).await?;
                for rows in found.rows.chunks(DOCUMENTS_PER_READ) {
                    held.add(self.read_found(collection, &found, rows).await?, filter)?;
                }
                Ok(())
            }
        }
    }

    /// The first matches in an index's order: documents of one run of equal keys are sorted among themselves,
    /// and the search ends with the run that fills the limit.
    async fn select_in_order(
        &self,
        collection: &Arc<Collection<C>>,
        range: &RangeAccess,
        selection: Selection<'_>,
    ) -> Result<Vec<OpenDocument>, StoreError> {
        let wanted = selection.wanted().unwrap_or(usize::MAX);
        let part = part(collection, range.index)?;
        let mut rows = RangeRows::begin(self, collection, range, Some(wanted)).await?;
        let (mut ordered, mut run, mut run_key) = (Vec::new(), Held::new(), Vec::new());
        let mut seen: HashSet<RowId> = HashSet::new();
        'search: while let Some(found) = rows.next().await? {
            let documents = self.read_rows(collection, &found, Absent::Named(&rows.watch)).await?;
            for document in in_order_of(&found, documents) {
                if !seen.insert(document.row) || !selection.filter.matches(&document.document)? {
                    continue;
                }
                let key = range.run(&document.document, &part.physical);
                if key != run_key {
                    ordered.extend(sort_run(std::mem::replace(&mut run, Held::new()), selection.sort));
                    run_key = key;
                    if ordered.len() >= wanted {
                        break 'search;
                    }
                }
                run.add(vec![document], selection.filter)?;
            }
        }
        ordered.extend(sort_run(run, selection.sort));
        Ok(selection.cut(ordered))
    }
}

fn sort_run(run: Held, sort: &Sort) -> Vec<OpenDocument> {
    let mut documents = run.documents;
    documents.sort_by_key(|document| document.sequence);
    sort_by(documents, sort)
}

/// A stable sort that computes each document's sort values once.
fn sort_by(documents: Vec<OpenDocument>, sort: &Sort) -> Vec<OpenDocument> {
    let mut keyed: Vec<(Vec<Bson>, OpenDocument)> =
        documents.into_iter().map(|document| (sort.values(&document.document), document)).collect();
    keyed.sort_by(|(left, _), (right, _)| sort.compare_values(left, right));
    keyed.into_iter().map(|(_, document)| document).collect()
}

/// Documents in the order of `rows`.
fn in_order_of(rows: &[RowId], documents: Vec<OpenDocument>) -> Vec<OpenDocument> {
    let mut by_row: std::collections::HashMap<RowId, OpenDocument> =
        documents.into_iter().map(|document| (document.row, document)).collect();
    rows.iter().filter_map(|row| by_row.remove(row)).collect()
}

pub(super) fn unknown_index() -> StoreError {
    error::of(27, "IndexNotFound", "the index was dropped while the query ran")
}

pub(super) fn part<C: ServerChannel>(
    collection: &Collection<C>,
    index: IndexId,
) -> Result<Arc<Part<C>>, StoreError> {
    collection.parts().into_iter().find(|part| part.id == index).ok_or_else(unknown_index)
}

/// Rows of a range, fetched as they are asked for.
struct RangeRows<C> {
    half: Option<Arc<arras_client::arx_range::ArxRange<C>>>,
    ready: Option<RangeFound>,
    more: Option<Continuation>,
    /// Entries the last step asked for.
    step: usize,
    /// Of writes since before the search.
    watch: Watch,
}

impl<C: ServerChannel> RangeRows<C> {
    /// Searches; `wanted` is how many rows may do.
    async fn begin<S: Storage>(
        shared: &Shared<S, C>,
        collection: &Collection<C>,
        range: &RangeAccess,
        wanted: Option<usize>,
    ) -> Result<Self, StoreError> {
        let watch = shared.intents.ledger.watch();
        let part = part(collection, range.index)?;
        let Half::Range(half) = &part.half else {
            return Err(unknown_index());
        };
        let Some(bounds) = range.key_bounds(&part.physical) else {
            return Ok(Self { half: None, ready: None, more: None, step: 0, watch });
        };
        let order = match range.order {
            Some(order) if order.descending => Order::Descending,
            _ => Order::Ascending,
        };
        let first = wanted.map(|wanted| wanted.saturating_add(ENTRIES_BEYOND));
        let search = half.search(bounds.lower, bounds.upper, order, first).await;
        let (mut found, repair) = search.map_err(error::index)?;
        // The results go on; the circuits they used are remade behind them.
        shared.repair(repair);
        let more = found.more.take();
        let step = first.unwrap_or(DOCUMENTS_PER_READ);
        Ok(Self { half: Some(Arc::clone(half)), ready: Some(found), more, step, watch })
    }

    /// The next rows, in order; none at the end.
    async fn next(&mut self) -> Result<Option<Vec<RowId>>, StoreError> {
        loop {
            if let Some(found) = self.ready.take()
                && !found.entries.is_empty()
            {
                return Ok(Some(found.entries.into_iter().map(|(_, row)| row).collect()));
            }
            let (Some(half), Some(more)) = (&self.half, self.more.take()) else {
                return Ok(None);
            };
            // A limited search reads on in growing steps.
            self.step = self.step.saturating_mul(2).min(DOCUMENTS_PER_READ);
            let mut found = half.continue_search(more, Some(self.step)).await.map_err(error::index)?;
            self.more = found.more.take();
            self.ready = Some(found);
        }
    }
}

/// The documents alone.
pub(super) fn plain(documents: Vec<OpenDocument>) -> Vec<Document> {
    documents.into_iter().map(|document| document.document).collect()
}
