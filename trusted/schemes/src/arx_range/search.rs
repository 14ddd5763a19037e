//! Searches.

use super::ArxRange;
use super::directory::Directory;
use super::entry::Entry;
use super::garbling::{Job, Repair};
use super::locate::{Bounds, Located, LockedTree};
use super::secrets::{Place, TIE_BYTES};
use crate::error::IndexError;
use arras_protocol::arx_range::{ArxRange as Protocol, FoundBucket, Order, Request, Response};
use arras_protocol::write::Write;
use arras_protocol::{Channel, NodeId, RowId};
use std::sync::Arc;

/// Buckets asked for beyond what a limit needs on average: the two that are cut by the bounds.
const SPARE_BUCKETS: u64 = 2;

/// What a search found.
#[derive(Debug)]
pub struct RangeFound {
    /// Keys and rows, in the order asked for; rows of equal keys in an order that means nothing.
    pub entries: Vec<(Vec<u8>, RowId)>,
    /// How to go on, if there may be more.
    pub more: Option<Continuation>,
}

/// Where a search left off.
pub struct Continuation {
    lower: Vec<u8>,
    upper: Vec<u8>,
    order: Order,
    /// The last entry returned.
    last: Option<(Place, RowId)>,
    from: NodeId,
    until: NodeId,
    version: u64,
}

impl std::fmt::Debug for Continuation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Continuation({:?})", self.from)
    }
}

/// A search under way: what it is for, and what it has.
struct Gathering {
    range: Continuation,
    limit: Option<usize>,
    entries: Vec<(Vec<u8>, RowId)>,
    /// The last entry seen, in the range or not: buckets must go on from there.
    seen: Option<(Place, RowId)>,
}

impl Gathering {
    fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.entries.len() >= limit)
    }

    /// Buckets to ask for.
    fn buckets_max(&self, bucket_factor: u64) -> u32 {
        let Some(limit) = self.limit else { return u32::MAX };
        let missing = limit.saturating_sub(self.entries.len()) as u64;
        let buckets = (missing / bucket_factor.max(1)).saturating_add(SPARE_BUCKETS);
        u32::try_from(buckets).unwrap_or(u32::MAX)
    }

    /// Takes an entry if it is wanted. False if it is out of order.
    fn take(&mut self, entry: &Entry) -> bool {
        let rank = entry.rank();
        let goes_on = |last: &Option<(Place, RowId)>| match (last, self.range.order) {
            (None, _) => true,
            (Some((place, row)), Order::Ascending) => rank > (&**place, *row),
            (Some((place, row)), Order::Descending) => rank < (&**place, *row),
        };
        if !goes_on(&self.seen) {
            return false;
        }
        let wanted = goes_on(&self.range.last);
        self.seen = Some((entry.place.clone(), entry.row));
        let value = entry.value();
        if wanted && *self.range.lower <= *value && *value <= *self.range.upper && !self.is_full() {
            self.range.last = self.seen.clone();
            self.entries.push((value.to_vec(), entry.row));
        }
        true
    }
}

impl<C: Channel<Protocol> + Channel<Write> + 'static> ArxRange<C> {
    /// The entries with `lower <= key <= upper`, from the end that `order` says, at most `limit`.
    ///
    /// Without a limit, what fits one reply; [`RangeFound::more`] says how to go on.
    ///
    /// # Errors
    /// [`IndexError`]; nothing is returned in part.
    pub async fn search(
        self: &Arc<Self>,
        lower: Vec<u8>,
        upper: Vec<u8>,
        order: Order,
        limit: Option<usize>,
    ) -> Result<(RangeFound, Repair), IndexError> {
        self.check_value(&lower)?;
        self.check_value(&upper)?;
        let (from, until) = (NodeId::HEAD, NodeId::HEAD);
        let range = Continuation { lower, upper, order, last: None, from, until, version: 0 };
        self.start(range, limit).await
    }

    /// Goes on with a search. If the index has changed since, from the last entry returned: no entry that was
    /// there all the time is left out or returned twice.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn continue_search(
        self: &Arc<Self>,
        continuation: Continuation,
        limit: Option<usize>,
    ) -> Result<RangeFound, IndexError> {
        let directory = self.lock_shared().await?;
        if directory.version == continuation.version {
            let next = Some(continuation.from);
            let until = continuation.until;
            let gathering = Gathering { range: continuation, limit, entries: Vec::new(), seen: None };
            return self.gather(&directory, gathering, Vec::new(), next, until).await;
        }
        drop(directory);
        let (found, repair) = self.start(continuation, limit).await?;
        // A failed repair leaves trees unready, not answers wrong.
        let _ = repair.run().await;
        Ok(found)
    }

    /// Searches what is left of a range.
    async fn start(
        self: &Arc<Self>,
        range: Continuation,
        limit: Option<usize>,
    ) -> Result<(RangeFound, Repair), IndexError> {
        let [lower, upper] = self.places(&range);
        if lower > upper || limit == Some(0) {
            return Ok((RangeFound { entries: Vec::new(), more: None }, Repair::none()));
        }
        let directory = self.lock_shared().await?;
        let generation = self.generation();
        let gathering = Gathering { range, limit, entries: Vec::new(), seen: None };
        let bounds = Bounds {
            lower: &lower,
            upper: Some(&upper),
            order: gathering.range.order,
            buckets_max: gathering.buckets_max(self.parameters().bucket_factor),
            change: false,
        };
        let located = self.locate(&directory, &generation, &bounds).await?;
        let Located { trees, lower_bucket, upper_bucket, buckets, next, .. } = located;
        let (first, until) = match gathering.range.order {
            Order::Ascending => (lower_bucket, upper_bucket),
            Order::Descending => (upper_bucket, lower_bucket),
        };
        if buckets.first().is_none_or(|bucket| bucket.node != first) {
            return Err(IndexError::Peer("the buckets do not begin where the range does"));
        }
        let found = self.gather(&directory, gathering, buckets, next, until).await?;
        let jobs = self.jobs(&generation, trees);
        let channel = Arc::clone(&self.channel);
        Ok((found, Repair::new(channel, self.index(), generation, jobs, directory)))
    }

    /// The places a range is between. What was returned already is left out.
    fn places(&self, range: &Continuation) -> [Place; 2] {
        let end =
            |value: &[u8], fill: u8| -> Place { value.iter().copied().chain([fill; TIE_BYTES]).collect() };
        let mut places = [end(&range.lower, 0), end(&range.upper, u8::MAX)];
        if let Some((last, _)) = &range.last {
            let place = match range.order {
                Order::Ascending => 0,
                Order::Descending => 1,
            };
            places[place] = last.clone();
        }
        places
    }

    pub(super) fn jobs(&self, generation: &super::epoch::Generation, trees: Vec<LockedTree>) -> Vec<Job> {
        trees.into_iter().filter_map(|tree| self.job(generation, tree)).collect()
    }

    /// Takes entries out of buckets, and fetches further ones while a limit is not met.
    async fn gather(
        &self,
        directory: &Directory,
        mut gathering: Gathering,
        mut buckets: Vec<FoundBucket>,
        mut next: Option<NodeId>,
        until: NodeId,
    ) -> Result<RangeFound, IndexError> {
        let order = gathering.range.order;
        let mut fetched = !buckets.is_empty();
        loop {
            let full_at = self.take_buckets(&mut gathering, &buckets, next, until)?;
            let from = full_at.or(next);
            let wants_more = !fetched || (gathering.limit.is_some() && !gathering.is_full());
            let Some(from) = from.filter(|_| wants_more) else {
                let version = directory.version;
                let Gathering { range, entries, .. } = gathering;
                let more = from.map(|from| Continuation { from, until, version, ..range });
                return Ok(RangeFound { entries, more });
            };
            let buckets_max = gathering.buckets_max(self.parameters().bucket_factor);
            let request = Request::Continue { index: self.index(), from, until, order, buckets_max };
            let Response::Found { buckets: further, next: after, .. } = self.ask(request).await? else {
                return Err(IndexError::Peer("not the range asked for"));
            };
            if further.first().is_none_or(|bucket| bucket.node != from) {
                return Err(IndexError::Peer("the buckets do not go on where they were cut"));
            }
            (buckets, next, fetched) = (further, after, true);
        }
    }

    /// Takes what is wanted out of a reply's buckets, which must hang together. Returns the bucket in which the
    /// limit was met, if what is left of it may be wanted later.
    fn take_buckets(
        &self,
        gathering: &mut Gathering,
        buckets: &[FoundBucket],
        next: Option<NodeId>,
        until: NodeId,
    ) -> Result<Option<NodeId>, IndexError> {
        let neighbour = |found: &FoundBucket| match gathering.range.order {
            Order::Ascending => found.bucket.next,
            Order::Descending => found.bucket.previous,
        };
        let followers = buckets.iter().skip(1).map(|bucket| Some(bucket.node)).chain([next]);
        for (found, follower) in buckets.iter().zip(followers) {
            let chained = match follower {
                Some(_) => found.node != until && neighbour(found) == follower,
                None => found.node == until,
            };
            if !chained {
                return Err(IndexError::Peer("the buckets do not hang together"));
            }
        }
        let mut full_at = None;
        for found in buckets {
            let mut entries = self.open_bucket(found)?;
            if gathering.range.order == Order::Descending {
                entries.reverse();
            }
            for entry in &entries {
                let was_full = gathering.is_full();
                if !gathering.take(entry) {
                    return Err(IndexError::Peer("entries are out of order"));
                }
                if was_full {
                    full_at.get_or_insert(found.node);
                }
            }
        }
        Ok(full_at)
    }
}
