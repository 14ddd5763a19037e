//! Keyed half of POPE (Roche, Apon, Choi, Yerukhimovich, CCS 2016; VLDB'19 comparison, §4.3), a buffer tree sorted
//! by queries. [`arras_protocol::pope`] says what the tree is and what a search does to it.
//!
//! *Elements* hold value, row and a tie-break and are sealed one by one; all of one index are of one
//! length. Equal values stand apart by their ties, so that any of them can be a label, and the ends of a range
//! come before or after all elements of their value. A leaf is not sorted: what it has outside of the range is
//! dropped here.
//!
//! *A set out of a bag.* An element says that its entry is in the set, or, a *tombstone*, that it is not, and holds the number
//! of the operation that said so. Changes are appended without a look at what is there. Of an entry's elements a search goes by
//! the newest, whatever came twice or in another order, and has the server take out the others and the tombstones that it
//! meets.
//!
//! *Numbers* are the caller's epoch, which must rise whenever the half is opened anew, and a count. Nothing else is kept: a
//! half opened afresh answers like the one before. Changes of the same entry must be staged in the order in which they take
//! effect.
//!
//! *At the same time* any number of changes and searches run. Of one half's searches one at a time changes the tree; one that
//! reads it meanwhile starts again. Insertions disturb no search.
//!
//! *Parameters.* `page_bytes` and the width give L ([`arras_protocol::pope::labels_per_node`]): 60 for 32-bit values
//! and pages of 4 KiB.
//!
//! *Leakage.* [`arras_protocol::leakage::pope::POPE`].
//!
//! *Cost.* Insertion and removal: one message. Search: one message a level and one for the results if nothing is to be sorted;
//! else one more for each chunk of a buffer on the way, and one if something is to be taken out. With a limit: once more for
//! the way to where about as many entries end.
//!
//! *Errors.* An element that was altered does not open; labels out of order, elements of another index and replies
//! of the wrong kind are errors. POPE has no authenticated state: a server that leaves elements out or shows an
//! old state is not found out.
//!
//! *Deviations* from the paper. Both ends of a range go down together. Buffers are streamed in chunks of pages, not
//! element by element. Removals, which the paper has not. A tree with nothing but removed elements keeps its nodes.

mod contract;
mod descend;
mod element;
mod found;
mod standalone;
#[cfg(test)]
mod tests;

pub use element::page_bytes_min;
pub use standalone::Standalone;

use crate::contract::Order;
use crate::error::IndexError;
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::ore::Width;
use arras_protocol::pope::{Change, Pope as Protocol, Request, labels_per_node};
use arras_protocol::write::Step;
use arras_protocol::{Channel, IndexId, RowId};
use descend::Search;
use element::{EPOCHS, Elements, Kind, Numbers};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Entries that a leaf brings a search with a limit, at least about: half of those of a leaf after a split.
const ENTRIES_PER_LEAF: usize = 16;

/// Most entries that a search holds, about, where its caller can ask for more later: those of a reply. And the largest limit that
/// is worth a way of its own.
const ENTRIES_MAX: usize = 1 << 16;

/// An index: its name, its key, and the width of its values.
#[derive(Clone, Copy)]
pub struct Keyed<'a> {
    /// What the server knows it by.
    pub index: IndexId,
    /// What the keys of its elements are derived from.
    pub key: &'a Key,
    /// The width of its values.
    pub width: Width,
}

impl std::fmt::Debug for Keyed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyed({:?})", self.index)
    }
}

/// What a search has found, and how many tombstones it has left in place.
type EntriesAndTombstones = (Vec<(u64, RowId)>, usize);

/// The client half of one index.
pub struct Pope<C> {
    channel: C,
    index: IndexId,
    elements: Elements,
    /// Where numbers begin, and how many were given.
    epoch: AtomicU64,
    sequence: AtomicU64,
    random: Mutex<Prg>,
    /// Held by the search that changes the tree.
    turn: tokio::sync::Mutex<()>,
}

impl<C> std::fmt::Debug for Pope<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pope({:?})", self.index)
    }
}

/// Bytes of an index's elements.
fn element_bytes(width: Width, page_bytes: u32) -> Result<u16, IndexError> {
    let element_bytes = element::element_bytes(width);
    labels_per_node(page_bytes as usize, element_bytes)
        .ok_or(IndexError::Caller("a POPE page must hold 3 labels"))?;
    u16::try_from(element_bytes).map_err(|_| IndexError::Caller("a POPE element is at most 65,535 bytes"))
}

impl Pope<()> {
    /// The steps that make an empty index.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if a page holds fewer than 3 labels.
    pub fn create(index: IndexId, width: Width, page_bytes: u32) -> Result<Vec<Step>, IndexError> {
        let element_bytes = element_bytes(width, page_bytes)?;
        Ok(vec![Step::Pope(Change::CreateIndex { index, page_bytes, element_bytes })])
    }

    /// The step that drops an index.
    #[must_use]
    pub fn drop_step(index: IndexId) -> Step {
        Step::Pope(Change::DropIndex { index })
    }
}

impl<C> Pope<C> {
    /// Opens an index. Changes of `epoch`, below 2^24, must not have been staged before but by this half, and are newer than
    /// those of lower epochs.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if the epoch is too great.
    pub fn open(channel: C, keyed: Keyed<'_>, epoch: u64, random: Prg) -> Result<Self, IndexError> {
        if epoch >= EPOCHS {
            return Err(IndexError::Caller("a POPE index was opened 2^24 times"));
        }
        Ok(Self {
            channel,
            index: keyed.index,
            elements: Elements::new(keyed.index, keyed.key, keyed.width),
            epoch: AtomicU64::new(epoch),
            sequence: AtomicU64::new(0),
            random: Mutex::new(random),
            turn: tokio::sync::Mutex::new(()),
        })
    }

    fn with_random<T>(&self, draw: impl FnOnce(&mut Prg) -> T) -> T {
        draw(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the server draws labels with.
    fn seed(&self) -> [u8; 16] {
        let mut seed = [0; 16];
        self.with_random(|prg| prg.fill(&mut seed));
        seed
    }

    /// The plaintext of a key.
    fn plaintext(&self, encoded: &[u8]) -> Result<u64, IndexError> {
        self.elements
            .width()
            .plaintext(encoded)
            .ok_or(IndexError::Caller("a key of the index's width is needed"))
    }

    /// The elements of a change, one after the other. An entry that is both removed and inserted is there afterwards.
    fn seal(&self, insert: &[(u64, RowId)], remove: &[(u64, RowId)]) -> Result<Vec<u8>, IndexError> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let count = insert.len() + remove.len();
        let mut sequence = self.sequence.fetch_add(count as u64, Ordering::Relaxed);
        let mut sealed = Vec::with_capacity(count * self.elements.sealed_bytes());
        for (entries, kind) in [(remove, Kind::Tombstone), (insert, Kind::Insertion)] {
            if entries.is_empty() {
                continue;
            }
            let numbers = Numbers::new(epoch, sequence, entries.len())
                .ok_or(IndexError::Caller("a POPE index has no number left"))?;
            self.with_random(|prg| self.elements.seal(entries, (kind, numbers), prg, &mut sealed))?;
            sequence += entries.len() as u64;
        }
        Ok(sealed)
    }
}

impl<C: Channel<Protocol>> Pope<C> {
    /// Entries with `lower <= value <= upper`, in order of value from the end that `order` says, at most `limit`.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn search_values(
        &self,
        lower: u64,
        upper: u64,
        order: Order,
        limit: Option<usize>,
    ) -> Result<Vec<(u64, RowId)>, IndexError> {
        self.search_below(u64::MAX, (lower, upper), order, limit).await.map(|(entries, _)| entries)
    }

    /// The same, and how many tombstones it has left in place: those of epochs from `tombstones_below` on.
    async fn search_below(
        &self,
        tombstones_below: u64,
        (mut lower, mut upper): (u64, u64),
        order: Order,
        limit: Option<usize>,
    ) -> Result<EntriesAndTombstones, IndexError> {
        upper = upper.min(self.elements.width().greatest());
        let Some(limit) = limit.filter(|limit| *limit <= ENTRIES_MAX) else {
            let whole = self.search_range(tombstones_below, (lower, upper), usize::MAX).await?;
            let (mut found, tombstones) = whole.unwrap_or_default();
            if order == Order::Descending {
                found.reverse();
            }
            found.truncate(limit.unwrap_or(usize::MAX));
            return Ok((found, tombstones));
        };
        let (mut found, mut tombstones) = (Vec::new(), 0);
        let mut leaves = limit / ENTRIES_PER_LEAF + 1;
        while found.len() < limit && lower <= upper {
            let mut search = Search::new(self);
            let (from, to) = if order == Order::Ascending { (lower, upper) } else { (upper, lower) };
            let beyond = search.value_beyond(from, order, leaves).await?.unwrap_or(to).clamp(lower, upper);
            drop(search);
            let part = (from.min(beyond), from.max(beyond));
            let part = self.search_range(tombstones_below, part, usize::MAX).await?;
            let (part, left) = part.unwrap_or_default();
            tombstones += left;
            match order {
                Order::Ascending => found.extend(part),
                Order::Descending => found.extend(part.into_iter().rev()),
            }
            if beyond == to {
                break;
            }
            (lower, upper) =
                if order == Order::Ascending { (beyond + 1, upper) } else { (lower, beyond - 1) };
            leaves = leaves.saturating_mul(2);
        }
        found.truncate(limit);
        Ok((found, tombstones))
    }

    /// All entries of a range, ascending by value and row; none if their elements are more than `most`.
    async fn search_range(
        &self,
        tombstones_below: u64,
        (lower, upper): (u64, u64),
        most: usize,
    ) -> Result<Option<EntriesAndTombstones>, IndexError> {
        if lower > upper {
            return Ok(Some((Vec::new(), 0)));
        }
        let mut search = Search::new(self);
        let found = search.run(lower, upper, most).await?;
        if found.is_too_many() {
            return Ok(None);
        }
        let found = found.settled(&self.elements, tombstones_below)?;
        if !found.purge.is_empty() {
            let (index, version) = (self.index, search.version());
            // What could not be taken out is met again.
            let _ = self.channel.call(Request::Purge { index, version, elements: found.purge }).await;
        }
        Ok(Some((found.entries, found.tombstones)))
    }
}
