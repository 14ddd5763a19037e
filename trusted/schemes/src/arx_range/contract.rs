//! ArxRange under the one contract of indexes.

use super::search::{Continuation, RangeFound};
use super::{ArxRange, Held, RangeSums, Repair};
use crate::contract::{
    EncryptedIndex, Pending, Place, RangeCursor, RangePage, RangeQuery, RangeSearch, RowChange, Serves,
    Staged, State, Steps, range_entries,
};
use crate::error::IndexError;
use arras_protocol::arx_range::ArxRange as Protocol;
use arras_protocol::write::Write;
use arras_protocol::{Channel, IndexId, RowId};
use std::sync::Arc;

/// Bytes of an entry, besides its key.
const ENTRY_BYTES: usize = 20;

impl<C: Channel<Protocol> + Channel<Write> + 'static> EncryptedIndex for ArxRange<C> {
    fn index(&self) -> IndexId {
        Self::index(self)
    }

    /// The entry's whole bucket is written.
    fn entry_bytes(&self) -> usize {
        let entry = self.parameters().key_bytes.saturating_add(ENTRY_BYTES);
        let entries =
            usize::try_from(self.parameters().bucket_factor).unwrap_or(usize::MAX).saturating_add(1);
        entry.saturating_mul(entries)
    }

    /// Neighbours share a bucket, which is written once for all of them; the order of buckets is known anyway.
    fn fills_in_order(&self) -> bool {
        true
    }

    fn serves(&self) -> Serves {
        Serves::Range
    }

    fn range(self: Arc<Self>) -> Option<Arc<dyn RangeSearch>> {
        Some(self)
    }

    fn place(self: Arc<Self>) -> Pending<'static, Place> {
        Box::pin(async move { Box::new(self.hold().await) as Place })
    }

    fn stage(
        self: Arc<Self>,
        place: Place,
        changes: Vec<RowChange>,
        _state: Arc<dyn State>,
    ) -> Pending<'static, Result<Staged, IndexError>> {
        Box::pin(async move {
            let (insert, remove) = range_entries(changes);
            if insert.is_empty() && remove.is_empty() {
                return Ok(Staged::default());
            }
            let held =
                place.downcast::<Held>().map_err(|_| IndexError::Caller("a place of another index"))?;
            let mut staged = self.stage_held(*held, insert, remove).await?;
            let ordered = std::mem::take(&mut staged.steps);
            let steps = Steps { ordered, ..Steps::default() };
            Ok(Staged { steps, finish: Some(Box::new(|| staged.commit())), ..Staged::default() })
        })
    }

    fn suspend(self: Arc<Self>) -> Pending<'static, Place> {
        Box::pin(async move { Box::new(Self::suspend(&self).await) as Place })
    }

    /// The index is loaded anew and its circuits are remade before the next use.
    fn server_restarted(self: Arc<Self>) -> Pending<'static, ()> {
        Box::pin(async move {
            self.new_epoch().await;
            drop(Self::suspend(&self).await);
        })
    }
}

impl<C: Channel<Protocol> + Channel<Write> + 'static> RangeSearch for ArxRange<C> {
    fn search(self: Arc<Self>, range: RangeQuery) -> Pending<'static, Result<RangePage, IndexError>> {
        Box::pin(async move {
            let RangeQuery { lower, upper, order, limit } = range;
            let (found, repair) = Self::search(&self, lower, upper, order, limit).await?;
            Ok(page(self, found, repair))
        })
    }

    fn inspect(self: Arc<Self>) -> Pending<'static, Result<Vec<(Vec<u8>, RowId)>, IndexError>> {
        Box::pin(async move { Self::inspect(&self).await })
    }

    fn sums(
        self: Arc<Self>,
        lower: Vec<u8>,
        upper: Vec<u8>,
    ) -> Pending<'static, Result<Option<(RangeSums, Repair)>, IndexError>> {
        Box::pin(async move { Self::sums(&self, lower, upper).await.map(Some) })
    }

    fn estimates(&self) -> bool {
        true
    }

    fn estimate(&self, lower: &[u8], upper: &[u8], entries: u64) -> Option<u64> {
        Self::estimate(self, lower, upper, entries)
    }

    /// Neighbours share a bucket: half a bucket more than its entries, and the node and links of each bucket.
    fn entries_per_write(&self, write_bytes: usize) -> usize {
        let entry = self.parameters().key_bytes.saturating_add(ENTRY_BYTES);
        (write_bytes / entry.saturating_mul(2).saturating_add(16)).max(1)
    }
}

/// Where a search left off, and in which index.
struct Cursor<C> {
    index: Arc<ArxRange<C>>,
    at: Continuation,
}

impl<C> std::fmt::Debug for Cursor<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.at.fmt(f)
    }
}

fn page<C: Channel<Protocol> + Channel<Write> + 'static>(
    index: Arc<ArxRange<C>>,
    found: RangeFound,
    repair: Repair,
) -> RangePage {
    let more = found.more.map(|at| Box::new(Cursor { index, at }) as Box<dyn RangeCursor>);
    RangePage { entries: found.entries, more, repair }
}

impl<C: Channel<Protocol> + Channel<Write> + 'static> RangeCursor for Cursor<C> {
    fn next(self: Box<Self>, limit: Option<usize>) -> Pending<'static, Result<RangePage, IndexError>> {
        Box::pin(async move {
            let Self { index, at } = *self;
            let found = index.continue_search(at, limit).await?;
            Ok(page(index, found, Repair::none()))
        })
    }
}
