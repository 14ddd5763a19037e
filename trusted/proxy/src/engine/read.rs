//! Reads: rows from an index, documents by row, opened and checked again in plaintext.

use super::apply::{COUNTERS, counter_name};
use super::channel::ServerChannel;
use super::collection::Collection;
use super::index::{Half, Part};
use super::{Shared, error};
use arras_client::OpenDocument;
use arras_client::arx_eq::searches;
use arras_client::arx_range::{Continuation, RangeFound};
use arras_documents::filter::{Expr, Filter};
use arras_documents::limits;
use arras_documents::sort::Sort;
use arras_planner::access::{Access, RangeAccess};
use arras_planner::store::{Query, StoreError};
use arras_planner::terms::equality_bytes;
use arras_protocol::arx_range::Order;
use arras_protocol::{Channel, CollectionId, IndexId, RowId, arx_eq, documents, unique};
use arras_storage::Storage;
use bson::{Bson, Document};
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
}

impl<'q> Selection<'q> {
    pub(super) fn of(query: &'q Query) -> Self {
        let Query { filter, sort, skip, limit, hint } = query;
        Self { filter, sort, skip: *skip, limit: *limit, hint: hint.as_ref() }
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

/// Reads a collection from one end to the other.
pub(super) struct Scan<C> {
    collection: Arc<Collection<C>>,
    after: Option<RowId>,
    documents_max: u32,
    ended: bool,
}

impl<C: ServerChannel> Scan<C> {
    pub(super) fn new(collection: &Arc<Collection<C>>, documents_max: u32) -> Self {
        Self { collection: Arc::clone(collection), after: None, documents_max, ended: false }
    }

    /// The next documents; none at the end.
    pub(super) async fn next(&mut self, channel: &C) -> Result<Vec<OpenDocument>, StoreError> {
        if self.ended {
            return Ok(Vec::new());
        }
        let collection = self.collection.id;
        let request =
            documents::Request::Scan { collection, after: self.after, documents_max: self.documents_max };
        let reply = Channel::<documents::Documents>::call(channel, request).await.map_err(error::channel)?;
        let documents::Response::Documents { documents, more, .. } = reply else {
            return Err(not_of_protocol());
        };
        self.after = documents.last().map(|document| document.row);
        self.ended = !more || documents.is_empty();
        self.collection.open_all(documents).await
    }
}

impl<C: ServerChannel> Collection<C> {
    /// Opens documents, off the event loop if they are many.
    async fn open_all(
        &self,
        sealed: Vec<documents::SealedDocument>,
    ) -> Result<Vec<OpenDocument>, StoreError> {
        let sealer = Arc::clone(&self.sealer);
        let open = move || sealed.iter().map(|sealed| sealer.open(sealed)).collect::<Result<Vec<_>, _>>();
        let opened = tokio::task::spawn_blocking(open).await;
        opened.map_err(|error| error::of(8, "UnknownError", error.to_string()))?.map_err(error::open)
    }
}

fn not_of_protocol() -> StoreError {
    error::of(8, "UnknownError", "the server's reply is not of the protocol")
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
        if plan.access == Access::Scan && self.may_stop_early(collection, selection).await? {
            return self.first_of_scan(collection, selection).await;
        }
        let mut held = Held::new();
        self.collect(collection, &plan.access, selection.filter, &mut held).await?;
        let mut documents = held.documents;
        documents.sort_by_key(|document| document.sequence);
        if !selection.sort.is_empty() {
            documents = sort_by(documents, selection.sort);
        }
        Ok(selection.cut(documents))
    }

    async fn may_stop_early(
        &self,
        collection: &Collection<C>,
        selection: Selection<'_>,
    ) -> Result<bool, StoreError> {
        let unordered = selection.sort.is_empty() && matches!(selection.filter.expr(), Expr::Always);
        Ok(unordered
            && selection.limit.is_some()
            && self.document_count(collection.id).await? > NATURAL_ORDER_MAX)
    }

    async fn first_of_scan(
        &self,
        collection: &Arc<Collection<C>>,
        selection: Selection<'_>,
    ) -> Result<Vec<OpenDocument>, StoreError> {
        let wanted = selection.wanted().unwrap_or(usize::MAX);
        let mut scan =
            Scan::new(collection, u32::try_from(wanted.min(DOCUMENTS_PER_READ)).unwrap_or(u32::MAX));
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

    /// Number of documents of a collection.
    pub(super) async fn document_count(&self, collection: CollectionId) -> Result<u64, StoreError> {
        let request = documents::Request::Count { collection };
        match Channel::<documents::Documents>::call(&*self.channel, request).await.map_err(error::channel)? {
            documents::Response::Count(count) => Ok(count),
            documents::Response::Documents { .. } => Err(not_of_protocol()),
        }
    }

    /// Every match an access leads to, in no order.
    async fn collect(
        &self,
        collection: &Arc<Collection<C>>,
        access: &Access,
        filter: &Filter,
        held: &mut Held,
    ) -> Result<(), StoreError> {
        match access {
            Access::Scan => {
                let mut scan = Scan::new(collection, u32::MAX);
                loop {
                    let documents = scan.next(&*self.channel).await?;
                    if documents.is_empty() {
                        return Ok(());
                    }
                    held.add(documents, filter)?;
                }
            }
            Access::Union(branches) => {
                for branch in branches {
                    Box::pin(self.collect(collection, branch, filter, held)).await?;
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
                    held.add(self.read_rows(collection, rows).await?, filter)?;
                }
                Ok(())
            }
            Access::Rows { ids } => {
                let rows: Vec<RowId> = ids.iter().map(|id| collection.sealer.row_id(id)).collect();
                held.add(self.read_rows(collection, &rows).await?, filter)
            }
            Access::Unique { index, values } => {
                let rows = self.unique_rows(collection, *index, values).await?;
                held.add(self.read_rows(collection, &rows).await?, filter)
            }
            Access::Eq { index, values } => {
                let rows = self.equal_rows(collection, *index, values).await?;
                for rows in rows.chunks(DOCUMENTS_PER_READ) {
                    held.add(self.read_rows(collection, rows).await?, filter)?;
                }
                Ok(())
            }
        }
    }

    /// Documents by row, in an order of its own; those that do not exist (any more) are left out. The order in
    /// which an index named them is the order of their values and not for the server to see (Arx, §4.3): they are
    /// asked for in that of their rows, which are pseudorandom.
    async fn read_rows(
        &self,
        collection: &Collection<C>,
        rows: &[RowId],
    ) -> Result<Vec<OpenDocument>, StoreError> {
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        let asked: HashSet<&RowId> = rows.iter().collect();
        let mut found = Vec::with_capacity(rows.len());
        let mut rest = rows.as_slice();
        while !rest.is_empty() {
            let request = documents::Request::Read { collection: collection.id, rows: rest.to_vec() };
            let reply = Channel::<documents::Documents>::call(&*self.channel, request).await;
            let documents::Response::Documents { documents, served, .. } = reply.map_err(error::channel)?
            else {
                return Err(not_of_protocol());
            };
            let served = usize::try_from(served).unwrap_or(usize::MAX);
            if served == 0 || documents.iter().any(|document| !asked.contains(&document.row)) {
                return Err(not_of_protocol());
            }
            rest = rest.get(served..).unwrap_or_default();
            found.extend(collection.open_all(documents).await?);
        }
        Ok(found)
    }

    async fn unique_rows(
        &self,
        collection: &Collection<C>,
        index: IndexId,
        values: &[Vec<Bson>],
    ) -> Result<Vec<RowId>, StoreError> {
        let part = part(collection, index)?;
        let Half::Unique(half) = &part.half else {
            return Err(unknown_index());
        };
        let labels = values.iter().map(|term| half.label(&equality_bytes(term))).collect();
        let request = unique::Request { index, labels };
        let reply = Channel::<unique::Unique>::call(&*self.channel, request).await.map_err(error::channel)?;
        Ok(reply.rows.into_iter().flatten().collect())
    }

    async fn equal_rows(
        &self,
        collection: &Collection<C>,
        index: IndexId,
        values: &[Vec<Bson>],
    ) -> Result<Vec<RowId>, StoreError> {
        let part = part(collection, index)?;
        let Half::Eq(half) = &part.half else {
            return Err(unknown_index());
        };
        let mut tokens = Vec::with_capacity(values.len());
        for term in values {
            let term = equality_bytes(term);
            let name = counter_name(index, &half.slot(&term).0);
            let count: Option<u32> = self.local.get_as_named(COUNTERS, &name).map_err(error::local)?;
            tokens.extend(count.map(|count| half.tokens(&term, count)));
        }
        let mut rows: Vec<RowId> = Vec::new();
        for values in searches(tokens) {
            let request = arx_eq::Request { index, values };
            let reply =
                Channel::<arx_eq::ArxEq>::call(&*self.channel, request).await.map_err(error::channel)?;
            rows.extend(reply.values.into_iter().flat_map(|matches| matches.rows));
        }
        let mut seen = HashSet::with_capacity(rows.len());
        rows.retain(|row| seen.insert(*row));
        Ok(rows)
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
            for document in in_order_of(&found, self.read_rows(collection, &found).await?) {
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

fn unknown_index() -> StoreError {
    error::of(27, "IndexNotFound", "the index was dropped while the query ran")
}

fn part<C: ServerChannel>(collection: &Collection<C>, index: IndexId) -> Result<Arc<Part<C>>, StoreError> {
    collection.parts().into_iter().find(|part| part.id == index).ok_or_else(unknown_index)
}

/// Rows of a range, fetched as they are asked for.
struct RangeRows<C> {
    half: Option<Arc<arras_client::arx_range::ArxRange<C>>>,
    ready: Option<RangeFound>,
    more: Option<Continuation>,
    /// Entries the last step asked for.
    step: usize,
}

impl<C: ServerChannel> RangeRows<C> {
    /// Searches; `wanted` is how many rows may do.
    async fn begin<S: Storage>(
        shared: &Shared<S, C>,
        collection: &Collection<C>,
        range: &RangeAccess,
        wanted: Option<usize>,
    ) -> Result<Self, StoreError> {
        let part = part(collection, range.index)?;
        let Half::Range(half) = &part.half else {
            return Err(unknown_index());
        };
        let Some(bounds) = range.key_bounds(&part.physical) else {
            return Ok(Self { half: None, ready: None, more: None, step: 0 });
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
        Ok(Self { half: Some(Arc::clone(half)), ready: Some(found), more, step })
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
