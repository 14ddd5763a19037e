//! POPE under the one contract of indexes. A change is appended in the document's write and reads nothing before; what searches
//! do to the tree are calls of their own, which the server leaves undone if they are late or come twice.

use super::{ENTRIES_MAX, Pope, Protocol};
use crate::contract::{
    EncryptedIndex, KeysAndRows, Order, Pending, Place, RangeCursor, RangeEntry, RangePage, RangeQuery,
    RangeSearch, Repair, RowChange, Serves, Staged, State, Steps, range_entries,
};
use crate::error::IndexError;
use arras_primitives::uniform::shuffle;
use arras_protocol::pope::Change;
use arras_protocol::write::Step;
use arras_protocol::{Blob, Channel, IndexId, RowId};
use std::sync::Arc;

/// Bytes of a step besides its elements, about.
const STEP_BYTES: usize = 24;

/// Bytes of the elements of one step, about.
const ELEMENTS_BYTES_MAX: usize = 1 << 20;

impl<C> Pope<C> {
    /// The steps of a change. Elements come in a random order, so that neither values nor which of them are tombstones shows.
    ///
    /// # Errors
    /// [`IndexError::Caller`] for a key of another width.
    pub fn steps(&self, insert: &[RangeEntry], remove: &[RangeEntry]) -> Result<Vec<Step>, IndexError> {
        let plaintexts = |entries: &[RangeEntry]| {
            let pairs = entries.iter().map(|entry| Ok((self.plaintext(&entry.value)?, entry.row)));
            pairs.collect::<Result<Vec<(u64, RowId)>, IndexError>>()
        };
        let sealed = self.seal(&plaintexts(insert)?, &plaintexts(remove)?)?;
        let mut elements: Vec<&[u8]> = sealed.chunks_exact(self.elements.sealed_bytes()).collect();
        self.with_random(|prg| shuffle(&mut elements, prg));
        let per_step = (ELEMENTS_BYTES_MAX / self.elements.sealed_bytes()).max(1);
        let append = |elements: &[&[u8]]| {
            Step::Pope(Change::Append { index: self.index, elements: Blob(elements.concat()) })
        };
        Ok(elements.chunks(per_step).map(append).collect())
    }
}

impl<C: Channel<Protocol> + 'static> EncryptedIndex for Pope<C> {
    fn index(&self) -> IndexId {
        self.index
    }

    fn entry_bytes(&self) -> usize {
        self.elements.sealed_bytes() + STEP_BYTES
    }

    fn serves(&self) -> Serves {
        Serves::Range
    }

    fn range(self: Arc<Self>) -> Option<Arc<dyn RangeSearch>> {
        Some(self)
    }

    fn stage(
        self: Arc<Self>,
        _place: Place,
        changes: Vec<RowChange>,
        _state: Arc<dyn State>,
    ) -> Pending<'static, Result<Staged, IndexError>> {
        let (insert, remove) = range_entries(changes);
        let staged = self
            .steps(&insert, &remove)
            .map(|entries| Staged { steps: Steps { entries, ..Steps::default() }, ..Staged::default() });
        Box::pin(std::future::ready(staged))
    }
}

impl<C: Channel<Protocol> + 'static> RangeSearch for Pope<C> {
    fn search(self: Arc<Self>, range: RangeQuery) -> Pending<'static, Result<RangePage, IndexError>> {
        Box::pin(async move {
            let (lower, upper) = (self.plaintext(&range.lower)?, self.plaintext(&range.upper)?);
            let rest = Rest { lower, upper, order: range.order, last: None, equal: 0 };
            Cursor { half: self, rest }.page(range.limit).await
        })
    }

    fn inspect(self: Arc<Self>) -> Pending<'static, Result<KeysAndRows, IndexError>> {
        Box::pin(async move {
            let found = self.search_values(0, u64::MAX, Order::Ascending, None).await?;
            let width = self.elements.width();
            Ok(found.into_iter().map(|(value, row)| (width.key(value), row)).collect())
        })
    }

    fn entries_per_write(&self, write_bytes: usize) -> usize {
        (write_bytes / self.entry_bytes()).max(1)
    }
}

/// What of a range is still to come.
struct Rest {
    lower: u64,
    upper: u64,
    order: Order,
    /// The last entry that came: the next is behind it, by value and row.
    last: Option<(u64, RowId)>,
    /// Entries of its value that may come again, at most.
    equal: usize,
}

/// Where a search left off, and in which index.
struct Cursor<C> {
    half: Arc<Pope<C>>,
    rest: Rest,
}

impl<C> std::fmt::Debug for Cursor<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cursor({:?})", self.half)
    }
}

impl<C: Channel<Protocol> + 'static> Cursor<C> {
    /// Entries from the end of the rest that the order says, and whether they are all.
    async fn entries(&self, limit: Option<usize>) -> Result<(Vec<(u64, RowId)>, bool), IndexError> {
        let Rest { lower, upper, order, .. } = self.rest;
        let Some(limit) = limit.filter(|limit| *limit <= ENTRIES_MAX) else {
            let upper = upper.min(self.half.elements.width().greatest());
            let whole = self.half.search_range(u64::MAX, (lower, upper), 2 * ENTRIES_MAX).await?;
            if let Some((mut found, _)) = whole {
                if order == Order::Descending {
                    found.reverse();
                }
                return Ok((found, true));
            }
            // More than that if it is asked for: so many have come before, and none of them is new.
            let most = limit.unwrap_or(ENTRIES_MAX);
            let found = self.half.search_values(lower, upper, order, Some(most)).await?;
            let is_all = found.len() < most;
            return Ok((found, is_all));
        };
        let found = self.half.search_values(lower, upper, order, Some(limit)).await?;
        let is_all = found.len() < limit;
        Ok((found, is_all))
    }

    async fn page(mut self, limit: Option<usize>) -> Result<RangePage, IndexError> {
        if limit == Some(0) {
            return Ok(RangePage { entries: Vec::new(), more: None, repair: Repair::none() });
        }
        let is_again = self.rest.equal > 0;
        let limit = limit.or(is_again.then_some(ENTRIES_MAX));
        let asked = limit.map(|limit| limit.saturating_add(self.rest.equal));
        let (mut found, mut is_all) = self.entries(asked).await?;
        let read = found.len();
        if let Some(last) = self.rest.last {
            match self.rest.order {
                Order::Ascending => found.retain(|entry| *entry > last),
                Order::Descending => found.retain(|entry| *entry < last),
            }
        }
        if let Some(limit) = limit.filter(|limit| *limit < found.len()) {
            found.truncate(limit);
            is_all = false;
        }
        match found.last() {
            // All that was read had come before: the next page asks for more.
            None => self.rest.equal = read,
            Some(last) => {
                let equal = found.iter().rev().take_while(|entry| entry.0 == last.0).count();
                let goes_on = self.rest.last.is_some_and(|before| before.0 == last.0);
                self.rest.equal = if goes_on { self.rest.equal + equal } else { equal };
                self.rest.last = Some(*last);
                match self.rest.order {
                    Order::Ascending => self.rest.lower = last.0,
                    Order::Descending => self.rest.upper = last.0,
                }
            }
        }
        let width = self.half.elements.width();
        let entries = found.into_iter().map(|(value, row)| (width.key(value), row)).collect();
        let more = (!is_all).then(|| Box::new(self) as Box<dyn RangeCursor>);
        Ok(RangePage { entries, more, repair: Repair::none() })
    }
}

impl<C: Channel<Protocol> + 'static> RangeCursor for Cursor<C> {
    fn next(self: Box<Self>, limit: Option<usize>) -> Pending<'static, Result<RangePage, IndexError>> {
        Box::pin(self.page(limit))
    }
}
