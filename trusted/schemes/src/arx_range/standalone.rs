//! An index on its own: changes are written as soon as they are staged. For the lab and for tests; the proxy
//! puts a change's steps into the write of the document they belong to.

use super::{ArxRange, RangeEntry};
use crate::error::IndexError;
use crate::traits::RangeIndex;
use arras_protocol::arx_range::{ArxRange as Protocol, Order};
use arras_protocol::write::{self, Write};
use arras_protocol::{Channel, OperationId, RowId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The index and the numbering of its writes.
#[derive(Debug)]
pub struct Standalone<C> {
    /// The client half, whose steps are written here.
    pub index: Arc<ArxRange<C>>,
    channel: Arc<C>,
    epoch: u64,
    sequence: AtomicU64,
}

impl<C: Channel<Protocol> + Channel<Write> + 'static> Standalone<C> {
    /// Writes to `index` over `channel`, as operations of `epoch`.
    pub fn new(index: Arc<ArxRange<C>>, channel: Arc<C>, epoch: u64) -> Self {
        Self { index, channel, epoch, sequence: AtomicU64::new(0) }
    }

    /// Stages and writes one change, and runs its repair.
    ///
    /// # Errors
    /// [`IndexError`]; if [`arras_protocol::ChannelError::outcome_unknown`], the change may have been made.
    pub async fn change(&self, insert: Vec<RangeEntry>, remove: Vec<RangeEntry>) -> Result<(), IndexError> {
        let mut staged = self.index.stage(insert, remove).await?;
        let steps = std::mem::take(&mut staged.steps);
        if !steps.is_empty() {
            let operation =
                OperationId { epoch: self.epoch, sequence: self.sequence.fetch_add(1, Ordering::Relaxed) };
            let request = write::Request {
                operation: Some(operation),
                finished_below: operation,
                acknowledged: 0,
                steps,
            };
            Channel::<Write>::call(&*self.channel, request).await?;
        }
        // A failed repair leaves trees unready, nothing wrong.
        let _ = staged.commit().run().await;
        Ok(())
    }
}

impl<C: Channel<Protocol> + Channel<Write> + 'static> RangeIndex for Standalone<C> {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        self.change(entries, Vec::new()).await
    }

    async fn remove(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        self.change(Vec::new(), entries).await
    }

    async fn search(
        &self,
        lower: Vec<u8>,
        upper: Vec<u8>,
        order: Order,
        limit: Option<usize>,
    ) -> Result<Vec<(Vec<u8>, RowId)>, IndexError> {
        let (found, repair) = self.index.search(lower, upper, order, limit).await?;
        let _ = repair.run().await;
        let (mut entries, mut more) = (found.entries, found.more);
        while let Some(continuation) = more {
            let missing = limit.map(|limit| limit.saturating_sub(entries.len()));
            if missing == Some(0) {
                break;
            }
            let further = self.index.continue_search(continuation, missing).await?;
            entries.extend(further.entries);
            more = further.more;
        }
        Ok(entries)
    }
}
