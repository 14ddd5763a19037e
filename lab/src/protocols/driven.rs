//! Range indexes of any kind behind one pointer.

use arras_protocol::Order;
use arras_protocol::RowId;
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::error::IndexError;
use arras_schemes::traits::RangeIndex;
use std::future::Future;
use std::pin::Pin;

/// What a search answers.
pub type Answer = Vec<(Vec<u8>, RowId)>;

/// A call of a [`Driven`] index.
pub type DrivenFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, IndexError>> + Send + 'a>>;

/// [`RangeIndex`] for trait objects.
pub trait Driven: Send + Sync {
    /// [`RangeIndex::insert`].
    fn insert(&self, entries: Vec<RangeEntry>) -> DrivenFuture<'_, ()>;

    /// [`RangeIndex::remove`].
    fn remove(&self, entries: Vec<RangeEntry>) -> DrivenFuture<'_, ()>;

    /// [`RangeIndex::search`], everything in ascending order.
    fn search(&self, lower: Vec<u8>, upper: Vec<u8>) -> DrivenFuture<'_, Answer>;
}

impl<I: RangeIndex> Driven for I {
    fn insert(&self, entries: Vec<RangeEntry>) -> DrivenFuture<'_, ()> {
        Box::pin(RangeIndex::insert(self, entries))
    }

    fn remove(&self, entries: Vec<RangeEntry>) -> DrivenFuture<'_, ()> {
        Box::pin(RangeIndex::remove(self, entries))
    }

    fn search(&self, lower: Vec<u8>, upper: Vec<u8>) -> DrivenFuture<'_, Answer> {
        Box::pin(RangeIndex::search(self, lower, upper, Order::Ascending, None))
    }
}
