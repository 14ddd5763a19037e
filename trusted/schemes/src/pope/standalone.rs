//! An index on its own: the server tells halves apart by the epochs that it gives them. For the lab and for tests; the proxy
//! puts a change's steps into the write of the document they belong to.
//!
//! Without the write of a document nothing keeps an insertion from being delivered again long after. So a tombstone goes only
//! once insertions of its epoch are refused: searches that leave several behind begin an epoch that supersedes the earlier.

use super::element::{EPOCHS, Elements};
use super::{Keyed, Pope, Protocol};
use crate::contract::{Order, RangeEntry};
use crate::error::IndexError;
use crate::traits::RangeIndex;
use arras_primitives::prg::Prg;
use arras_protocol::limits::REPLY_BYTES_SOFT;
use arras_protocol::pope::{Request, Response};
use arras_protocol::{Blob, Channel, RowId};
use std::sync::atomic::{AtomicU64, Ordering};

/// Tombstones that a search leaves behind before an epoch is begun for them.
const TOMBSTONES_MAX: usize = 16;

/// Times that a change is made anew because others have superseded its epoch.
const ATTEMPTS_MAX: usize = 64;

/// The client half, and the numbering of its own writes.
pub struct Standalone<C> {
    half: Pope<C>,
    page_bytes: u32,
    /// Insertions of epochs below are refused by the server.
    superseded_below: AtomicU64,
    /// Held while an epoch is begun and while numbers of one are given.
    opening: tokio::sync::RwLock<()>,
}

impl<C> std::fmt::Debug for Standalone<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Standalone({:?})", self.half)
    }
}

impl<C: Channel<Protocol>> Standalone<C> {
    /// Makes the index on the server, if it is not there, and opens it.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if a page holds fewer than 3 labels; else of the channel.
    pub async fn create(
        channel: C,
        keyed: Keyed<'_>,
        page_bytes: u32,
        random: Prg,
    ) -> Result<Self, IndexError> {
        let index = Self {
            half: Pope::open(channel, keyed, 0, random)?,
            page_bytes,
            superseded_below: AtomicU64::new(0),
            opening: tokio::sync::RwLock::new(()),
        };
        index.begin(false).await?;
        Ok(index)
    }

    /// Begins an epoch.
    async fn begin(&self, supersede: bool) -> Result<(), IndexError> {
        let _alone = self.opening.write().await;
        let element_bytes = super::element_bytes(self.half.elements.width(), self.page_bytes)?;
        let (index, page_bytes) = (self.half.index, self.page_bytes);
        let request = Request::CreateIndex { index, page_bytes, element_bytes, supersede };
        let Response::Epoch(epoch) = self.half.channel.call(request).await? else {
            return Err(IndexError::Peer("an opening was answered by something else"));
        };
        if epoch <= self.half.epoch.load(Ordering::Acquire) || epoch >= EPOCHS {
            return Err(IndexError::Peer("an epoch that is not new"));
        }
        self.half.epoch.store(epoch, Ordering::Release);
        self.half.sequence.store(0, Ordering::Release);
        if supersede {
            self.superseded_below.store(epoch, Ordering::Release);
        }
        Ok(())
    }

    /// Adds entries, as (plaintext, row): [`RangeIndex::insert`] without its byte strings.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn insert_plain(&self, entries: &[(u64, RowId)]) -> Result<(), IndexError> {
        for entries in self.batches(entries) {
            self.change(entries, &[]).await?;
        }
        Ok(())
    }

    /// As many entries at a time as a request holds.
    fn batches<'a>(&self, entries: &'a [(u64, RowId)]) -> std::slice::Chunks<'a, (u64, RowId)> {
        entries.chunks((REPLY_BYTES_SOFT / self.elements().sealed_bytes()).max(1))
    }

    async fn change(&self, insert: &[(u64, RowId)], remove: &[(u64, RowId)]) -> Result<(), IndexError> {
        let mut began = false;
        for _ in 0..ATTEMPTS_MAX {
            let (epoch, elements) = {
                let _opened = self.opening.read().await;
                (self.half.epoch.load(Ordering::Acquire), Blob(self.half.seal(insert, remove)?))
            };
            match self.half.channel.call(Request::Insert { index: self.half.index, epoch, elements }).await? {
                // What another has done since under a greater number was done at the same time as this.
                Response::Epoch(newest) if newest <= epoch || began => return Ok(()),
                Response::Epoch(_) | Response::Superseded => {
                    self.begin(false).await?;
                    began = true;
                }
                _ => return Err(IndexError::Peer("a change was answered by something else")),
            }
        }
        Err(IndexError::Peer("an epoch that ends again and again"))
    }

    /// Entries with `lower <= plaintext <= upper`, ascending by plaintext and row, each once.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn search_plain(&self, lower: u64, upper: u64) -> Result<Vec<(u64, RowId)>, IndexError> {
        self.find((lower, upper), Order::Ascending, None).await
    }

    async fn find(
        &self,
        range: (u64, u64),
        order: Order,
        limit: Option<usize>,
    ) -> Result<Vec<(u64, RowId)>, IndexError> {
        let superseded_below = self.superseded_below.load(Ordering::Acquire);
        let (found, tombstones) = self.half.search_below(superseded_below, range, order, limit).await?;
        if tombstones > TOMBSTONES_MAX {
            // Else the next search that leaves as many does so.
            let _ = self.begin(true).await;
        }
        Ok(found)
    }

    fn elements(&self) -> &Elements {
        &self.half.elements
    }

    fn plaintext(&self, number: &[u8]) -> Result<u64, IndexError> {
        self.half.plaintext(number)
    }

    fn plaintexts(&self, entries: &[RangeEntry]) -> Result<Vec<(u64, RowId)>, IndexError> {
        entries.iter().map(|entry| Ok((self.plaintext(&entry.value)?, entry.row))).collect()
    }
}

impl<C: Channel<Protocol>> RangeIndex for Standalone<C> {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        self.insert_plain(&self.plaintexts(&entries)?).await
    }

    async fn remove(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        let entries = self.plaintexts(&entries)?;
        for entries in self.batches(&entries) {
            self.change(&[], entries).await?;
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
        let range = (self.plaintext(&lower)?, self.plaintext(&upper)?);
        let found = self.find(range, order, limit).await?;
        let width = self.elements().width();
        Ok(found.into_iter().map(|(value, row)| (width.key(value), row)).collect())
    }
}
