//! What the makers of several protocols share.

use super::{Made, Making, StateBytes};
use arras_protocol::Order;
use arras_protocol::RowId;
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::error::IndexError;
use arras_schemes::traits::RangeIndex;
use std::sync::Arc;

pub(super) fn page_bytes(making: &Making) -> u32 {
    u32::try_from(making.page_bytes).unwrap_or(u32::MAX)
}

/// For client halves that keep nothing but their keys.
pub(super) fn no_state() -> StateBytes {
    Box::new(|| Box::pin(async { 0 }))
}

/// An index of such a client half, over no scheme.
pub(super) fn stateless(index: impl RangeIndex + 'static) -> Made {
    Made { index: Box::new(index), scheme: None, ciphertext_bytes: None, state_bytes: no_state() }
}

/// An index shared between the run that uses it and whoever measures its state.
pub(super) struct SharedIndex<I>(pub(super) Arc<I>);

impl<I: RangeIndex> RangeIndex for SharedIndex<I> {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        self.0.insert(entries).await
    }

    async fn remove(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        self.0.remove(entries).await
    }

    async fn search(
        &self,
        lower: Vec<u8>,
        upper: Vec<u8>,
        order: Order,
        limit: Option<usize>,
    ) -> Result<Vec<(Vec<u8>, RowId)>, IndexError> {
        self.0.search(lower, upper, order, limit).await
    }
}
