//! Searches: the ends of a range become stored neighbours, and what comes back is opened and checked entry by entry.
//!
//! *Between the ends.* Where an end is stored, it is asked for with its entries; else the nearest stored value outside of the
//! range, without them: what is written while the client looks for the ends is found, and what lies outside of the range is
//! dropped here. If an end has left the tree in between (where values leave it), the server says so, and the client looks again:
//! first whether it was an end, or what the last page ended with.
//!
//! *Going on.* A page goes on behind the last entry, under its ciphertext; or, if that has left the tree, behind its value.
//!
//! *Checked* of every entry: that it was sealed for this index and the ciphertext it lies under, that it is in the order of
//! values and names, and comes once. That the server leaves no entry out, and brings back none that was removed, is not: tags
//! authenticate the values and their order, not the rows of each.

use super::{End, Index};
use crate::contract::{KeysAndRows, Pending, RangeCursor, RangePage, Repair};
use crate::error::{IndexError, OpenFailed};
use arras_protocol::Order;
use arras_protocol::mope::index::{Bound, Group, Mope, Request, Response, SealedRow, Search, Side};
use arras_protocol::{Blob, Channel, ChannelError, Refusal};
use std::sync::Arc;

/// Times that a search looks for its ends anew because they have left the tree.
const TRIES: usize = 8;

/// The entry that came last.
#[derive(Clone)]
struct Last {
    ciphertext: Blob,
    sealed: SealedRow,
    value: u64,
}

/// What of a range is still to come.
pub(super) struct Range {
    pub(super) lower: u64,
    pub(super) upper: u64,
    pub(super) order: Order,
    /// The neighbours outside of it; none: they are to be looked for.
    ends: Option<(Option<Bound>, Option<Bound>)>,
    last: Option<Last>,
}

/// True if the server says that the table is without a ciphertext that it was asked about.
pub(super) fn is_other_version(error: &IndexError) -> bool {
    matches!(error, IndexError::Channel(ChannelError::Refused(Refusal::OtherVersion { .. })))
}

impl Range {
    pub(super) fn new((lower, upper): (u64, u64), order: Order) -> Self {
        Self { lower, upper, order, ends: None, last: None }
    }

    /// What is left of the range if the last entry's ciphertext has left the tree: the values behind it. False: nothing.
    fn forget_last(&mut self) -> bool {
        self.ends = None;
        let Some(last) = self.last.take() else { return true };
        let rest = match self.order {
            Order::Ascending => last.value.checked_add(1).map(|lower| self.lower = lower),
            Order::Descending => last.value.checked_sub(1).map(|upper| self.upper = upper),
        };
        rest.is_some() && self.lower <= self.upper
    }

    /// Both ends as the server is asked for them.
    fn bounds(
        &self,
        (mut lower, mut upper): (Option<Bound>, Option<Bound>),
    ) -> (Option<Bound>, Option<Bound>) {
        if let Some(Last { ciphertext, sealed, .. }) = &self.last {
            let behind = Some(Bound { ciphertext: ciphertext.clone(), side: Side::After(*sealed) });
            match self.order {
                Order::Ascending => lower = behind,
                Order::Descending => upper = behind,
            }
        }
        (lower, upper)
    }

    /// Whether an entry comes after the last one.
    fn follows(&self, ciphertext: &Blob, name: &[u8; SealedRow::BYTES], value: u64) -> bool {
        let Some(last) = &self.last else { return true };
        if last.ciphertext == *ciphertext {
            return last.value == value
                && match self.order {
                    Order::Ascending => last.sealed.0 < *name,
                    Order::Descending => *name < last.sealed.0,
                };
        }
        match self.order {
            Order::Ascending => last.value < value,
            Order::Descending => value < last.value,
        }
    }
}

impl<C: Channel<Mope>> Index<C> {
    /// The stored neighbours outside of a range.
    async fn ends(&self, range: &Range) -> Result<(Option<Bound>, Option<Bound>), IndexError> {
        let bound = |end: End| {
            let side = if end.is_value { Side::With } else { Side::Beyond };
            Bound { ciphertext: end.ciphertext, side }
        };
        let [lower, upper] = self.neighbours([range.lower, range.upper]).await?;
        Ok((lower.below.map(bound), upper.above.map(bound)))
    }

    /// Asks once; whether the reply goes on, and what came of the range.
    async fn ask(&self, range: &mut Range, limit: Option<usize>) -> Result<(KeysAndRows, bool), IndexError> {
        let ends = match &range.ends {
            Some(ends) => ends.clone(),
            None => range.ends.insert(self.ends(range).await?).clone(),
        };
        let (lower, upper) = range.bounds(ends);
        let most = limit.map(|limit| limit as u64);
        let search = Search { lower, upper, order: range.order, limit: most };
        let request = Request::Search { index: self.id(), search };
        let Response::Found { groups, more } = self.channel().call(request).await? else {
            return Err(IndexError::Peer("not the answer to a search"));
        };
        let names: usize = groups.iter().map(|group| group.sealed.len() / SealedRow::BYTES).sum();
        if limit.is_some_and(|limit| names > limit) {
            return Err(IndexError::Peer("more entries than asked for"));
        }
        if more && names == 0 {
            return Err(IndexError::Peer("more to come after nothing"));
        }
        let mut found = Vec::with_capacity(names);
        for group in groups {
            self.take(range, &group, &mut found)?;
        }
        // The limit is one of a page: there may be more behind it.
        Ok((found, more || limit == Some(names)))
    }

    /// Opens the entries of one ciphertext.
    fn take(&self, range: &mut Range, group: &Group, found: &mut KeysAndRows) -> Result<(), IndexError> {
        let Group { ciphertext, sealed } = group;
        if ciphertext.len() != self.tree.layout.ciphertext_bytes {
            return Err(OpenFailed.into());
        }
        let (value, rows) = self.rows.open(ciphertext.as_slice(), sealed.as_slice())?;
        let (names, _) = sealed.as_slice().as_chunks::<{ SealedRow::BYTES }>();
        let (Some(first), Some(last)) = (names.first(), names.last()) else { return Err(OpenFailed.into()) };
        let in_order = match range.order {
            Order::Ascending => names.is_sorted_by(|one, next| one < next),
            Order::Descending => names.is_sorted_by(|one, next| one > next),
        };
        if !in_order || !range.follows(ciphertext, first, value) {
            return Err(IndexError::Peer("entries out of order, or twice"));
        }
        range.last = Some(Last { ciphertext: ciphertext.clone(), sealed: SealedRow(*last), value });
        if (range.lower..=range.upper).contains(&value) {
            let key = self.width.key(value);
            found.extend(rows.into_iter().map(|row| (key.clone(), row)));
        }
        Ok(())
    }

    /// Is the last entry's ciphertext still its value's? Then it was an end that has left the tree. True if there is no last entry.
    async fn has_last(&self, range: &Range) -> Result<bool, IndexError> {
        let Some(last) = &range.last else { return Ok(true) };
        let [place, _] = self.neighbours([last.value, last.value]).await?;
        Ok(place.below.is_some_and(|end| end.is_value && end.ciphertext == last.ciphertext))
    }

    /// The next entries of a range: none only if there are none. Whether there may be more.
    pub(super) async fn page(
        &self,
        range: &mut Range,
        limit: Option<usize>,
    ) -> Result<(KeysAndRows, bool), IndexError> {
        let mut tries = 0;
        loop {
            match self.ask(range, limit).await {
                // What came was written beside the range after its ends were found.
                Ok((found, true)) if found.is_empty() => {}
                Ok(page) => return Ok(page),
                Err(error) if is_other_version(&error) && tries < TRIES => {
                    tries += 1;
                    range.ends = None;
                    if !self.has_last(range).await? && !range.forget_last() {
                        return Ok((Vec::new(), false));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Where a search left off, and in which index.
pub(super) struct Cursor<C> {
    pub(super) index: Arc<Index<C>>,
    pub(super) range: Range,
}

impl<C> std::fmt::Debug for Cursor<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cursor({:?})", self.index)
    }
}

impl<C: Channel<Mope> + 'static> Cursor<C> {
    pub(super) async fn page(mut self, limit: Option<usize>) -> Result<RangePage, IndexError> {
        if limit == Some(0) {
            return Ok(RangePage { entries: Vec::new(), more: Some(Box::new(self)), repair: Repair::none() });
        }
        let (entries, more) = self.index.page(&mut self.range, limit).await?;
        let more = more.then(|| Box::new(self) as Box<dyn RangeCursor>);
        Ok(RangePage { entries, more, repair: Repair::none() })
    }
}

impl<C: Channel<Mope> + 'static> RangeCursor for Cursor<C> {
    fn next(self: Box<Self>, limit: Option<usize>) -> Pending<'static, Result<RangePage, IndexError>> {
        Box::pin(self.page(limit))
    }
}
