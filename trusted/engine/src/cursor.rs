//! Results of a query, fetched as they are asked for: a cursor holds where it stands and at most what is left of a
//! batch.

use super::Shared;
use super::beside::{self, Begun};
use super::budget::Share;
use super::channel::ServerChannel;
use super::collection::Collection;
use super::leftover::Leftover;
use super::matches::{DOCUMENTS_PER_STEP, Matches};
use super::merged;
use super::natural::Natural;
use super::planning;
use super::point::Point;
use super::read::Selection;
use super::slices;
use super::spill::Spilling;
use super::walk::Walk;
use arras_documents::filter::Filter;
use arras_documents::limits;
use arras_documents::sort::external::{Sorted, Sorter};
use arras_documents::spill::{Spill, Workspace};
use arras_planner::plan::Plan;
use arras_records::OpenDocument;
use arras_service::ServiceError;
use arras_service::store::{Cursor, Fetched, Query, Turn};
use arras_storage::Storage;
use bson::{Bson, Document};
use std::sync::Arc;

/// A limited query without an order returns the first documents inserted in collections up to this size, and reads no
/// further than its limit in larger ones.
const SMALL_COLLECTION: u64 = 1000;
/// Bytes of sorted documents taken at a time.
const SORTED_PER_STEP: usize = 1024 * 1024;

/// Where documents come from.
enum Feed {
    Nothing,
    Point(Point),
    Natural(Box<Natural>),
    Walk(Box<Walk>),
    Sorted(Box<Put>),
}

/// Sorted results, put down.
struct Put {
    sorted: Sorted,
    /// For what of them is in memory while nobody asks for them.
    share: Option<Share>,
}

/// Results of a query.
pub struct EngineCursor<S: Storage, C: ServerChannel> {
    shared: Arc<Shared<S, C>>,
    feed: Feed,
    /// What it may be reading; none if there is no collection.
    begun: Option<Begun>,
    /// Fetched and not handed out yet.
    ready: Leftover,
    /// Documents to pass over.
    skip: u64,
    /// Documents that may still be handed out.
    left: u64,
}

impl<S: Storage, C: ServerChannel> Cursor for EngineCursor<S, C> {
    async fn turn() -> Option<Turn> {
        slices::turn().await
    }

    fn is_on_disk(&self) -> bool {
        let is_sorted_there = matches!(&self.feed, Feed::Sorted(put) if put.sorted.is_on_disk());
        is_sorted_there || self.ready.is_on_disk()
    }

    async fn next_batch(
        &mut self,
        documents_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<Document>, ServiceError> {
        if self.feed.asks_the_server() {
            self.shared.settled_for_a_read().await?;
        } else {
            self.shared.standing()?;
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < documents_max && bytes < bytes_max && self.left > 0 {
            if let Some(document) = self.ready.pop()? {
                let length = limits::check_built(&document)?;
                if bytes.saturating_add(length) > bytes_max && !batch.is_empty() {
                    self.ready.put_back(document);
                    break;
                }
                bytes += length;
                batch.push(document);
                self.left -= 1;
            } else if !self.advance(documents_max - batch.len()).await? {
                break;
            }
        }
        match &mut self.feed {
            Feed::Natural(natural) => natural.rest()?,
            Feed::Walk(walk) => walk.rest(),
            Feed::Sorted(put) => {
                put.share = None;
                put.share = self.shared.budget.share(put.sorted.held_bytes());
                if put.share.is_none() {
                    while put.sorted.let_go()? {
                        // Between two of its steps others may have the processor.
                        drop(slices::turn().await);
                        tokio::task::yield_now().await;
                    }
                }
            }
            Feed::Nothing | Feed::Point(_) => {}
        }
        self.ready.rest(&self.shared)?;
        Ok(batch)
    }

    async fn next_fetched(
        &mut self,
        documents_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<Fetched>, ServiceError> {
        if let Some(found) = self.point(documents_max, bytes_max).await? {
            return Ok(found);
        }
        let documents = self.next_batch(documents_max, bytes_max).await?;
        Ok(documents.into_iter().map(Fetched::Decoded).collect())
    }
}

impl<S: Storage, C: ServerChannel> EngineCursor<S, C> {
    /// The one document of a read by `_id`, if that is what this is and it is to be handed out now.
    async fn point(
        &mut self,
        documents_max: usize,
        bytes_max: usize,
    ) -> Result<Option<Vec<Fetched>>, ServiceError> {
        let Feed::Point(point) = &mut self.feed else {
            return Ok(None);
        };
        if self.skip > 0 || self.left == 0 || documents_max == 0 || bytes_max == 0 {
            return Ok(None);
        }
        self.shared.settled_for_a_read().await?;
        let found = point.next_fetched(&self.shared).await?;
        self.feed = Feed::Nothing;
        self.left -= found.len() as u64;
        Ok(Some(found))
    }

    /// A cursor over nothing.
    pub(super) fn empty(shared: &Arc<Shared<S, C>>) -> Self {
        let (shared, feed) = (Arc::clone(shared), Feed::Nothing);
        Self { shared, feed, begun: None, ready: Leftover::default(), skip: 0, left: 0 }
    }

    /// Begins a query.
    pub(super) async fn open(
        shared: &Arc<Shared<S, C>>,
        collection: &Arc<Collection>,
        query: &Query,
    ) -> Result<Self, ServiceError> {
        let hinted = planning::hinted_order(collection, query);
        let mut selection = Selection::of(query);
        if let Some(order) = &hinted {
            selection.sort = order;
        }
        let begun = Some(Begun::now(collection));
        let feed = shared.feed(collection, selection).await?;
        let (skip, left) = (query.skip, query.limit.unwrap_or(u64::MAX));
        Ok(Self { shared: Arc::clone(shared), feed, begun, ready: Leftover::default(), skip, left })
    }

    /// Reads on; false at the end.
    async fn advance(&mut self, wanted: usize) -> Result<bool, ServiceError> {
        let passed_over = usize::try_from(self.skip).unwrap_or(usize::MAX);
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let wanted = wanted.min(left).saturating_add(passed_over);
        let blamed = |failure| match &self.begun {
            Some(begun) => begun.blamed(self.shared.unless_dropped(begun.collection(), failure)),
            None => failure,
        };
        let Some(mut documents) = self.feed.next(&self.shared, wanted).await.map_err(blamed)? else {
            self.feed = Feed::Nothing;
            return Ok(false);
        };
        let skipped = passed_over.min(documents.len());
        documents.drain(..skipped);
        self.skip -= skipped as u64;
        self.ready.extend(documents);
        Ok(true)
    }
}

impl Feed {
    /// Whether what is to come is not all here: then a write that is in doubt since the query began is completed before.
    fn asks_the_server(&self) -> bool {
        match self {
            Self::Nothing | Self::Sorted(_) => false,
            Self::Point(_) | Self::Natural(_) | Self::Walk(_) => true,
        }
    }

    async fn next<S: Storage, C: ServerChannel>(
        &mut self,
        shared: &Shared<S, C>,
        wanted: usize,
    ) -> Result<Option<Vec<Document>>, ServiceError> {
        let plain = |found: Option<Vec<OpenDocument>>| {
            found.map(|documents| documents.into_iter().map(|document| document.document).collect())
        };
        match self {
            Self::Nothing => Ok(None),
            Self::Point(point) => point.next(shared).await.map(plain),
            Self::Natural(natural) => natural.next(shared, wanted).await.map(plain),
            Self::Walk(walk) => walk.next(shared, wanted).await.map(plain),
            Self::Sorted(put) => {
                let (mut documents, mut bytes) = (Vec::new(), 0);
                while documents.len() < wanted
                    && bytes < SORTED_PER_STEP
                    && let Some(document) = put.sorted.next()?
                {
                    bytes += limits::check_built(&document)?;
                    documents.push(document);
                }
                Ok((!documents.is_empty()).then_some(documents))
            }
        }
    }
}

/// Documents on their way into a sort, and whether there is something to be done before the next.
type Sorting = (Sorter, std::vec::IntoIter<OpenDocument>, bool);

/// A step of taking them in; false behind the last.
fn take_in((sorter, documents, is_due): &mut Sorting) -> Result<bool, ServiceError> {
    if *is_due {
        *is_due = sorter.advance()?;
    } else if let Some(document) = documents.next() {
        *is_due = sorter.push(document.document, document.sequence)?;
    }
    Ok(*is_due || documents.len() > 0)
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Sets up where a selection's documents come from, in its order.
    async fn feed(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        selection: Selection<'_>,
    ) -> Result<Feed, ServiceError> {
        match Point::of_selection(collection, selection) {
            Some(point) => Ok(Feed::Point(point)),
            // Much larger than a read by `_id` needs, and so not a part of it.
            None => {
                let feed =
                    Box::pin(beside::drops(collection, || self.planned_feed(collection, selection))).await;
                feed.map_err(|failure| self.unless_dropped(collection, failure))
            }
        }
    }

    /// The same, by a plan.
    async fn planned_feed(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        selection: Selection<'_>,
    ) -> Result<Feed, ServiceError> {
        let plan = self.plan_read(collection, selection).await?;
        let filter = Arc::new(selection.filter.clone());
        if let Some(ranges) = merged::ordered(&plan.access)
            && selection.wanted().is_some()
        {
            return Ok(Feed::Walk(Box::new(
                Walk::begin(self, collection, &ranges, selection, filter).await?,
            )));
        }
        if selection.sort.is_empty() {
            if let Some(point) = Point::of(collection, &plan.access, &filter) {
                return Ok(Feed::Point(point));
            }
            let natural = self.natural(collection, &plan, selection, filter).await?;
            return Ok(Feed::Natural(Box::new(natural)));
        }
        let matches = Matches::open(self, collection, &plan.access, filter, selection.alone).await?;
        let sorted = self.sorted(matches, selection).await?;
        Ok(Feed::Sorted(Box::new(Put { sorted, share: None })))
    }

    /// What work on documents may use.
    pub(super) fn workspace(&self, allow_disk_use: bool) -> Workspace {
        let pool = Some(self.budget.pool());
        if !allow_disk_use {
            return Workspace { pool, ..Workspace::default() };
        }
        let spill: Arc<dyn Spill> = Arc::new(Spilling(Arc::clone(&self.spill)));
        // Decoded documents are larger, and several operations do this at a time.
        let memory_bytes = (self.settings.memory_bytes / 64).max(1024 * 1024);
        Workspace { memory_bytes, spill: Some(spill), pool, pause: None }
    }

    /// The matches of a selection without an order.
    pub(super) async fn natural(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        plan: &Plan,
        selection: Selection<'_>,
        filter: Arc<Filter>,
    ) -> Result<Natural, ServiceError> {
        let matches =
            Matches::open(self, collection, &plan.access, Arc::clone(&filter), selection.alone).await?;
        if selection.limit.is_some() && self.document_count(collection)? > SMALL_COLLECTION {
            return Ok(Natural::as_it_comes(self, collection, filter, matches));
        }
        Natural::gather(self, collection, filter, matches).await
    }

    /// Matches sorted; no more of them than are asked for.
    async fn sorted(&self, mut matches: Matches, selection: Selection<'_>) -> Result<Sorted, ServiceError> {
        let workspace = self.workspace(selection.allow_disk_use);
        let mut sorter = Sorter::new(selection.sort.clone(), selection.wanted(), workspace);
        while let Some(found) = matches.next(self, DOCUMENTS_PER_STEP).await? {
            sorter = slices::steps((sorter, found.into_iter(), false), take_in).await?.0;
        }
        // It has nothing left to do but to take in the last few documents.
        slices::steps(sorter.finish()?, |sorted| Ok(sorted.open()?)).await
    }

    /// The first document of a selection, in its order.
    pub(super) async fn first(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        selection: Selection<'_>,
    ) -> Result<Option<OpenDocument>, ServiceError> {
        let selection = Selection { skip: 0, limit: Some(1), ..selection };
        let plan = self.plan_read(collection, selection).await?;
        let filter = Arc::new(selection.filter.clone());
        let first = |found: Vec<OpenDocument>| found.into_iter().next();
        if let Some(ranges) = merged::ordered(&plan.access) {
            let mut walk = Walk::begin(self, collection, &ranges, selection, filter).await?;
            return Ok(walk.next(self, 1).await?.and_then(first));
        }
        if selection.sort.is_empty() {
            let mut natural = self.natural(collection, &plan, selection, filter).await?;
            while let Some(found) = natural.next(self, 1).await? {
                if let Some(first) = first(found) {
                    return Ok(Some(first));
                }
            }
            return Ok(None);
        }
        let mut matches = Matches::open(self, collection, &plan.access, filter, selection.alone).await?;
        let mut best: Option<(Vec<Bson>, OpenDocument)> = None;
        while let Some(found) = matches.next(self, DOCUMENTS_PER_STEP).await? {
            let sort = selection.sort.clone();
            let better = move |best: &mut Option<(Vec<Bson>, OpenDocument)>, document: OpenDocument| {
                let values = sort.values(&document.document)?;
                let is_better = best.as_ref().is_none_or(|(others, other)| {
                    let order = sort.compare_values(&values, others);
                    order.then_with(|| sort.compare_places(document.sequence, other.sequence)).is_lt()
                });
                if is_better {
                    *best = Some((values, document));
                }
                Ok(())
            };
            best = slices::fold(found, best, better).await?;
        }
        Ok(best.map(|(_, document)| document))
    }

    /// How many documents match, counted as far as the query asks.
    pub(super) async fn count_matches(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        query: &Query,
    ) -> Result<u64, ServiceError> {
        let selection = Selection::of(query);
        if let Some(count) = self.count_by_index(collection, selection).await? {
            let limited = query.limit.unwrap_or(u64::MAX).saturating_add(query.skip).min(count);
            return Ok(limited.saturating_sub(query.skip));
        }
        let plan = self.plan_read(collection, selection).await?;
        let filter = Arc::new(query.filter.clone());
        let mut matches = Matches::open(self, collection, &plan.access, filter, selection.alone).await?;
        let wanted = selection.wanted().unwrap_or(usize::MAX);
        let mut count: usize = 0;
        while count < wanted
            && let Some(found) = matches.next(self, wanted - count).await?
        {
            count += found.len();
        }
        Ok((count.min(wanted) as u64).saturating_sub(query.skip))
    }
}
