//! What the members of a family of indexes have in common, with a plaintext implementation of each as baseline.

use crate::arx_range::RangeEntry;
use crate::error::IndexError;
use arras_protocol::Order;
use arras_protocol::RowId;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Mutex, PoisonError};

/// A range index: a set of (key, row), searched by ranges of keys.
///
/// A key of another length than the index's is [`IndexError::Caller`]. After any other error it is open whether, or
/// how much of, the operation took effect: asked again, it takes effect once.
pub trait RangeIndex: Send + Sync {
    /// Adds entries; those that are there stay.
    ///
    /// # Errors
    /// [`IndexError`].
    fn insert(&self, entries: Vec<RangeEntry>) -> impl Future<Output = Result<(), IndexError>> + Send;

    /// Takes entries out; those that are not there are none the worse. Only key and row matter.
    ///
    /// # Errors
    /// [`IndexError`].
    fn remove(&self, entries: Vec<RangeEntry>) -> impl Future<Output = Result<(), IndexError>> + Send;

    /// Entries with `lower <= key <= upper`, in order of key from the end that `order` says, at most `limit`. Rows
    /// of equal keys come in any order, and which of them a limit keeps is open. None if the bounds cross.
    ///
    /// # Errors
    /// [`IndexError`].
    fn search(
        &self,
        lower: Vec<u8>,
        upper: Vec<u8>,
        order: Order,
        limit: Option<usize>,
    ) -> impl Future<Output = Result<Vec<(Vec<u8>, RowId)>, IndexError>> + Send;
}

/// The plaintext baseline: a sorted set in this process.
#[derive(Debug, Default)]
pub struct SortedList(Mutex<BTreeSet<(Vec<u8>, RowId)>>);

impl RangeIndex for SortedList {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.extend(entries.into_iter().map(|entry| (entry.value, entry.row)));
        Ok(())
    }

    async fn remove(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in entries {
            list.remove(&(entry.value, entry.row));
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
        if lower > upper {
            return Ok(Vec::new());
        }
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let range = list.range((lower, RowId([0; 16]))..=(upper, RowId([u8::MAX; 16]))).cloned();
        let limit = limit.unwrap_or(usize::MAX);
        Ok(match order {
            Order::Ascending => range.take(limit).collect(),
            Order::Descending => range.rev().take(limit).collect(),
        })
    }
}
