//! Keyed half of POPE (Roche, Apon, Choi, Yerukhimovich, CCS 2016; VLDB'19 comparison, §4.3), a buffer tree sorted
//! by queries. [`arras_protocol::pope`] says what the tree is and what a search does to it.
//!
//! *Elements* hold value, row and a random tie-break and are sealed one by one; all of one index are of one
//! length. Equal values stand apart by their ties, so that any of them can be a label, and the ends of a range
//! come before or after all elements of their value. A leaf is not sorted: what it has outside of the range is
//! dropped here.
//!
//! *A set out of a bag.* An insertion does not look whether the entry is there. A search returns an entry once
//! however often it is stored; a removal removes all of its elements.
//!
//! *Parameters.* `page_bytes` and the width give L ([`arras_protocol::pope::labels_per_node`]): 60 for 32-bit values
//! and pages of 4 KiB.
//!
//! *Leakage.* [`arras_protocol::leakage::POPE`].
//!
//! *Cost.* Insertion: one message. Search: one message a level and one for the results if nothing is to be sorted;
//! else one more for each chunk of a buffer on the way.
//!
//! *Errors.* An element that was altered does not open; labels out of order, elements of another index and replies
//! of the wrong kind are errors. POPE has no authenticated state: a server that leaves elements out or shows an
//! old state is not found out.
//!
//! *Deviations* from the paper. Both ends of a range go down together. Buffers are streamed in chunks of pages, not
//! element by element. A tree with nothing but removed elements keeps its nodes.

mod descend;
mod element;
#[cfg(test)]
mod tests;

pub use element::page_bytes_min;

use crate::arx_range::RangeEntry;
use crate::error::IndexError;
use crate::ore::domain::plaintext_key;
use crate::traits::RangeIndex;
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::arx_range::Order;
use arras_protocol::limits::REPLY_BYTES_SOFT;
use arras_protocol::ore::Width;
use arras_protocol::pope::{Located, Pope as Protocol, Request, Response, labels_per_node};
use arras_protocol::{Blob, Channel, IndexId, RowId};
use descend::Search;
use element::Elements;
use tokio::sync::Mutex;

/// Entries of a search that may be held before copies among them are dropped: a server that returns the same elements
/// again and again has no more entries held than about twice what it was ever given.
const ENTRIES_AT_FIRST: usize = 1 << 20;

/// The client half of one index.
pub struct Pope<C> {
    channel: C,
    index: IndexId,
    elements: Elements,
    /// Held through an operation: while a search moves elements nothing else of this client reads them.
    random: Mutex<Prg>,
}

impl<C> std::fmt::Debug for Pope<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pope({:?})", self.index)
    }
}

impl<C: Channel<Protocol>> Pope<C> {
    /// Makes the index on the server, if it is not there, and opens it.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if a page holds fewer than 3 labels; else of the channel.
    pub async fn create(
        channel: C,
        index: IndexId,
        key: &Key,
        width: Width,
        page_bytes: u32,
        random: Prg,
    ) -> Result<Self, IndexError> {
        let pope = Self::open(channel, index, key, width, random);
        let element_bytes = pope.elements.sealed_bytes();
        labels_per_node(page_bytes as usize, element_bytes)
            .ok_or(IndexError::Caller("a POPE page must hold 3 labels"))?;
        let element_bytes = u16::try_from(element_bytes)
            .map_err(|_| IndexError::Caller("a POPE element is at most 65,535 bytes"))?;
        pope.done(Request::CreateIndex { index, page_bytes, element_bytes }).await?;
        Ok(pope)
    }

    /// Opens an index that is there. `key` is the index's.
    #[must_use]
    pub fn open(channel: C, index: IndexId, key: &Key, width: Width, random: Prg) -> Self {
        Self { channel, index, elements: Elements::new(index, key, width), random: Mutex::new(random) }
    }

    /// Adds entries, as (plaintext, row): [`RangeIndex::insert`] without its byte strings.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn insert_plain(&self, entries: &[(u64, RowId)]) -> Result<(), IndexError> {
        let mut random = self.random.lock().await;
        let per_request = (REPLY_BYTES_SOFT / self.elements.sealed_bytes()).max(1);
        for entries in entries.chunks(per_request) {
            let elements = Blob(self.elements.seal(entries, &mut random)?);
            self.done(Request::Insert { index: self.index, elements }).await?;
        }
        Ok(())
    }

    /// Entries with `lower <= plaintext <= upper`, ascending by plaintext and row, each once.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn search_plain(&self, lower: u64, upper: u64) -> Result<Vec<(u64, RowId)>, IndexError> {
        if lower > upper || lower > self.elements.width().greatest() {
            return Ok(Vec::new());
        }
        let mut random = self.random.lock().await;
        let mut search = Search::new(&self.channel, self.index, &self.elements);
        let mut found: Vec<(u64, RowId)> = Vec::new();
        let mut room = ENTRIES_AT_FIRST;
        search
            .run(lower, upper, &mut random, |reply, opened| {
                found.reserve(opened.count());
                let mut rest = opened.all();
                for run in reply.runs {
                    // Leaves come in order: sorting within each is mostly all there is to do.
                    let leaf = found.len();
                    let (plains, others) = rest.split_at(run.count as usize);
                    for plain in plains.iter() {
                        if lower <= plain.value && plain.value <= upper {
                            found.push((plain.value, plain.row));
                        }
                    }
                    found[leaf..].sort_unstable_by_key(|(value, _)| *value);
                    rest = others;
                }
                if !rest.is_empty() {
                    return Err(IndexError::Peer("elements that are nowhere"));
                }
                if found.len() > room {
                    settle(&mut found);
                    room = (2 * found.len()).max(ENTRIES_AT_FIRST);
                }
                Ok(())
            })
            .await?;
        settle(&mut found);
        Ok(found)
    }

    /// Takes one entry out, with all elements that hold it.
    async fn remove_plain(&self, value: u64, row: RowId) -> Result<(), IndexError> {
        let mut random = self.random.lock().await;
        let mut search = Search::new(&self.channel, self.index, &self.elements);
        let sealed_bytes = self.elements.sealed_bytes();
        let mut removed: Vec<Located> = Vec::new();
        let mut room = ENTRIES_AT_FIRST;
        search
            .run(value, value, &mut random, |found, opened| {
                let places = found.runs.iter().flat_map(|run| std::iter::repeat_n(run, run.count as usize));
                let elements = found.elements.chunks_exact(sealed_bytes);
                for ((run, element), plain) in places.zip(elements).zip(opened.iter()) {
                    if (plain.value, plain.row) == (value, row) {
                        let element = Blob(element.to_vec());
                        removed.push(Located { node: run.node, page: run.page, element });
                    }
                }
                if removed.len() > room {
                    removed
                        .sort_unstable_by(|one, other| one.element.as_slice().cmp(other.element.as_slice()));
                    removed.dedup_by(|one, other| one.element == other.element);
                    room = (2 * removed.len()).max(ENTRIES_AT_FIRST);
                }
                Ok(())
            })
            .await?;
        if removed.is_empty() {
            return Ok(());
        }
        self.done(Request::Remove { index: self.index, elements: removed }).await
    }

    async fn done(&self, request: Request) -> Result<(), IndexError> {
        match self.channel.call(request).await? {
            Response::Done => Ok(()),
            _ => Err(IndexError::Peer("a change was answered by something else")),
        }
    }

    fn plaintext(&self, number: &[u8]) -> Result<u64, IndexError> {
        crate::ore::domain::key_plaintext(self.elements.width(), number)
            .ok_or(IndexError::Caller("a key of the index's width is needed"))
    }
}

/// Sorts entries by value and row and keeps each once. They come nearly sorted by value.
fn settle(found: &mut Vec<(u64, RowId)>) {
    if !found.is_sorted_by_key(|(value, _)| *value) {
        found.sort_unstable_by_key(|(value, _)| *value);
    }
    found.chunk_by_mut(|one, other| one.0 == other.0).for_each(<[_]>::sort_unstable);
    found.dedup();
}

impl<C: Channel<Protocol>> RangeIndex for Pope<C> {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        let entries: Vec<_> = entries
            .iter()
            .map(|entry| Ok((self.plaintext(&entry.value)?, entry.row)))
            .collect::<Result<_, IndexError>>()?;
        self.insert_plain(&entries).await
    }

    async fn remove(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        for entry in entries {
            self.remove_plain(self.plaintext(&entry.value)?, entry.row).await?;
        }
        Ok(())
    }

    async fn search(
        &self,
        lower: Vec<u8>,
        upper: Vec<u8>,
        order: Order,
        limit: Option<usize>,
    ) -> Result<Vec<(Vec<u8>, RowId)>, IndexError> {
        let (lower, upper) = (self.plaintext(&lower)?, self.plaintext(&upper)?);
        let found = self.search_plain(lower, upper).await?;
        let limit = limit.unwrap_or(usize::MAX);
        let width = self.elements.width();
        let entry = |&(value, row): &(u64, RowId)| (plaintext_key(width, value), row);
        Ok(match order {
            Order::Ascending => found.iter().take(limit).map(entry).collect(),
            Order::Descending => found.iter().rev().take(limit).map(entry).collect(),
        })
    }
}
