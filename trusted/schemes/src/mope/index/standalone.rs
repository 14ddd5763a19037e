//! The index by itself, without documents: each change is a request of its own. For the laboratory and its tests.

use super::search::{Range, is_other_version};
use super::{Index, Making, ValueAndRow, Worked};
use crate::contract::KeysAndRows;
use crate::error::IndexError;
use crate::traits::RangeIndex;
use arras_protocol::Order;
use arras_protocol::mope::index::{Change, Mope, Request, Response};
use arras_protocol::write::Step;
use arras_protocol::{Channel, RowId};

/// Entries of one request.
const REQUEST_ENTRIES_MAX: usize = 4096;

/// Times that a change is begun anew because the tree is at another version.
const TRIES: usize = 4;

/// Replies that one search may take: at some megabytes each, more than fits in memory.
const REPLIES_MAX: usize = 1 << 14;

impl<C: Channel<Mope>> Index<C> {
    /// Makes an index, or opens the one that is there.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn create(channel: C, making: &Making<'_>) -> Result<Self, IndexError> {
        for step in making.create()? {
            let Step::Mope(change) = step else { continue };
            done(&channel, change).await?;
        }
        Self::open(channel, making, None)
    }

    /// Makes a change by itself, outside any write.
    async fn change(&self, insert: &[ValueAndRow], remove: &[ValueAndRow]) -> Result<(), IndexError> {
        let _alone = self.alone().await;
        for _ in 0..TRIES {
            let Worked { update, staged, .. } = self.work(insert, remove).await?;
            let mut outcome = Ok(());
            for change in self.changes(update) {
                outcome = done(self.channel(), change).await;
                if outcome.is_err() {
                    break;
                }
            }
            match outcome {
                Ok(()) => {
                    if let Some(staged) = staged {
                        let _ = staged.finish();
                    }
                    return Ok(());
                }
                Err(error) if is_other_version(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(IndexError::Peer("a version that does not stay"))
    }

    /// All entries of a range, up to a limit.
    pub(super) async fn all(
        &self,
        (lower, upper): (u64, u64),
        order: Order,
        limit: Option<usize>,
    ) -> Result<KeysAndRows, IndexError> {
        let mut range = Range::new((lower, upper), order);
        let mut found = KeysAndRows::new();
        for _ in 0..REPLIES_MAX {
            let rest = limit.map(|limit| limit - found.len());
            let (page, more) = self.page(&mut range, rest).await?;
            found.extend(page);
            if !more || limit.is_some_and(|limit| found.len() >= limit) {
                return Ok(found);
            }
        }
        Err(IndexError::Peer("a search without an end"))
    }
}

async fn done<C: Channel<Mope>>(channel: &C, change: Change) -> Result<(), IndexError> {
    match channel.call(Request::Change(change)).await? {
        Response::Done => Ok(()),
        _ => Err(IndexError::Peer("not the answer to a change")),
    }
}

impl<C: Channel<Mope>> RangeIndex for Index<C> {
    async fn insert(&self, entries: Vec<crate::arx_range::RangeEntry>) -> Result<(), IndexError> {
        for chunk in self.values(&entries)?.chunks(REQUEST_ENTRIES_MAX) {
            self.change(chunk, &[]).await?;
        }
        Ok(())
    }

    async fn remove(&self, entries: Vec<crate::arx_range::RangeEntry>) -> Result<(), IndexError> {
        for chunk in self.values(&entries)?.chunks(REQUEST_ENTRIES_MAX) {
            self.change(&[], chunk).await?;
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
        if lower > upper || limit == Some(0) {
            return Ok(Vec::new());
        }
        self.all((lower, upper), order, limit).await
    }
}
