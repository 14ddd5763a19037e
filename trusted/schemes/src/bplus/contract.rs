//! B+ trees over schemes without state under the one contract of indexes.

use super::reply::{Last, Range};
use super::search::ends;
use super::{BPlus, plaintext, refused};
use crate::arx_range::Repair;
use crate::contract::{
    EncryptedIndex, KeysAndRows, Pending, Place, RangeCursor, RangePage, RangeQuery, RangeSearch, RowChange,
    Serves, Staged, State, Steps, range_entries,
};
use crate::error::IndexError;
use crate::ore::{End, OrderScheme};
use arras_protocol::bplus::{After, BPlus as Protocol, Bound, Change, Request, Response, SealedEntry};
use arras_protocol::ore::Scheme;
use arras_protocol::write::Step;
use arras_protocol::{Channel, IndexId};
use std::sync::Arc;

/// Most entries of a page.
const PAGE_ENTRIES_MAX: usize = 2000;
/// Pages of a whole index: at some thousand entries each, more than fits in memory.
const PAGES_MAX: usize = 1 << 20;
/// What an entry counts for whose place takes a second to find.
const ENTRY_BYTES_OF_PAIRINGS: usize = 1 << 20;
/// Bytes of a step, besides its entry.
const STEP_BYTES: usize = 16;

impl<S: OrderScheme + Sync + 'static, C: Channel<Protocol> + 'static> EncryptedIndex for BPlus<S, C> {
    fn index(&self) -> IndexId {
        self.index
    }

    /// Where a comparison takes pairings an entry counts as much as what a write of its time carries else: writes are cut by
    /// what they come to.
    fn entry_bytes(&self) -> usize {
        if matches!(self.public, Scheme::Cloz(_)) {
            return ENTRY_BYTES_OF_PAIRINGS;
        }
        let bytes = |bytes: Option<usize>| bytes.unwrap_or(0);
        let ciphertexts = bytes(self.public.stored_bytes()).saturating_add(bytes(self.public.query_bytes()));
        ciphertexts.saturating_add(SealedEntry::BYTES).saturating_add(STEP_BYTES)
    }

    fn serves(&self) -> Serves {
        Serves::Range
    }

    fn range(self: Arc<Self>) -> Option<Arc<dyn RangeSearch>> {
        Some(self)
    }

    /// One step an entry: their order in the write says nothing of that of the entries.
    fn stage(
        self: Arc<Self>,
        _place: Place,
        changes: Vec<RowChange>,
        _state: Arc<dyn State>,
    ) -> Pending<'static, Result<Staged, IndexError>> {
        let staged = || {
            let (insert, remove) = range_entries(changes);
            let mut random = self.random();
            let index = self.index;
            let mut steps = Steps::default();
            for (value, row) in super::values(self.public, &insert)? {
                let entries = vec![self.new_entry((value, row), &mut random)?];
                steps.entries.push(Step::Bplus(Change::Insert { index, entries }));
            }
            for (value, row) in super::values(self.public, &remove)? {
                let targets = vec![self.target((value, row), &mut random)?];
                steps.removed.push(Step::Bplus(Change::Remove { index, targets }));
            }
            Ok(Staged { steps, ..Staged::default() })
        };
        Box::pin(std::future::ready(staged()))
    }
}

impl<S: OrderScheme + Sync + 'static, C: Channel<Protocol> + 'static> RangeSearch for BPlus<S, C> {
    fn search(self: Arc<Self>, range: RangeQuery) -> Pending<'static, Result<RangePage, IndexError>> {
        Box::pin(async move {
            let lower = plaintext(self.public, &range.lower)?;
            let upper = plaintext(self.public, &range.upper)?;
            if lower > upper || range.limit == Some(0) {
                return Ok(RangePage { entries: Vec::new(), more: None, repair: Repair::none() });
            }
            self.page(&range, (lower, upper), None, range.limit).await
        })
    }

    fn inspect(self: Arc<Self>) -> Pending<'static, Result<KeysAndRows, IndexError>> {
        Box::pin(async move {
            let width = self.public.width();
            let (lower, upper) = (vec![0; width.bytes()], vec![u8::MAX; width.bytes()]);
            let order = arras_protocol::Order::Ascending;
            let mut page = RangeSearch::search(self, RangeQuery { lower, upper, order, limit: None }).await?;
            let mut all = std::mem::take(&mut page.entries);
            for _ in 0..PAGES_MAX {
                let Some(more) = page.more.take() else { return Ok(all) };
                page = more.next(None).await?;
                all.append(&mut page.entries);
            }
            Err(IndexError::Peer("a search without an end"))
        })
    }

    /// Each entry is a step of its own in any order.
    fn entries_per_write(&self, write_bytes: usize) -> usize {
        (write_bytes / self.entry_bytes().max(1)).max(1)
    }
}

impl<S: OrderScheme + Sync + 'static, C: Channel<Protocol> + 'static> BPlus<S, C> {
    /// The entries behind `last`: one reply, or as many as the limit says.
    async fn page(
        self: Arc<Self>,
        query: &RangeQuery,
        values: (u64, u64),
        last: Option<Last>,
        limit: Option<usize>,
    ) -> Result<RangePage, IndexError> {
        let order = query.order;
        let limit = limit.unwrap_or(PAGE_ENTRIES_MAX).clamp(1, PAGE_ENTRIES_MAX);
        let (mut lower, mut upper) = ends(&*self.scheme(), values, &mut self.random())?;
        if let Some(last) = &last {
            let from = self.behind(last)?;
            match order {
                arras_protocol::Order::Ascending => lower = from,
                arras_protocol::Order::Descending => upper = from,
            }
        }
        let request =
            Request::Search { index: self.index, version: 0, lower, upper, order, limit: Some(limit as u64) };
        let Response::Found { entries, more } = self.channel.call(request).await? else {
            return Err(IndexError::Peer("not the answer to a search"));
        };
        let mut range = Range::new(self.public, values, order, Some(limit));
        range.last = last;
        {
            let scheme = self.scheme();
            let agrees = |stored: &[u8], value: u64| scheme.decrypt(stored) == Ok(value);
            range.take(&self.names, entries.as_slice(), agrees, |value| scheme.tie(value))?;
        }
        let is_full = range.remaining() == Some(0);
        if more && range.found.is_empty() {
            return Err(IndexError::Peer("more to come after nothing"));
        }
        let more = (more || is_full).then_some(range.last).flatten();
        let at = more.map(|last| Cursor { index: self, query: query.clone(), values, last });
        let more = at.map(|cursor| Box::new(cursor) as Box<dyn RangeCursor>);
        Ok(RangePage { entries: range.found, more, repair: Repair::none() })
    }

    /// Where a search goes on behind an entry.
    fn behind(&self, last: &Last) -> Result<Bound, IndexError> {
        let scheme = self.scheme();
        let query = scheme.bound(last.value, End::Lower, &mut self.random()).map_err(refused)?.into();
        let after = After { sealed: last.sealed, tie: scheme.tie(last.value) };
        Ok(Bound { query, after: Some(after) })
    }
}

/// Where a search left off.
struct Cursor<S, C> {
    index: Arc<BPlus<S, C>>,
    query: RangeQuery,
    values: (u64, u64),
    last: Last,
}

impl<S, C> std::fmt::Debug for Cursor<S, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cursor({:?})", self.index)
    }
}

impl<S: OrderScheme + Sync + 'static, C: Channel<Protocol> + 'static> RangeCursor for Cursor<S, C> {
    fn next(self: Box<Self>, limit: Option<usize>) -> Pending<'static, Result<RangePage, IndexError>> {
        Box::pin(async move {
            let Self { index, query, values, last } = *self;
            index.page(&query, values, Some(last), limit).await
        })
    }
}
