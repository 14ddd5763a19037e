//! Counts and sums of ranges (§6): the two boundary buckets are read, what lies between is in the records along
//! the two paths and in the directory. O(log n).

use super::ArxRange;
use super::aggregate::Aggregate;
use super::directory::Directory;
use super::entry::Entry;
use super::garbling::Repair;
use super::locate::{Bounds, Located};
use super::secrets::TIE_BYTES;
use super::treap::Link;
use crate::error::IndexError;
use arras_numbers::NumberSum;
use arras_protocol::arx_range::{ArxRange as Protocol, Order};
use arras_protocol::write::Write;
use arras_protocol::{Channel, NodeId};
use std::sync::Arc;

/// Count and sums of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeSums {
    /// Entries in the range.
    pub count: u64,
    /// For each summed field.
    pub sums: Vec<NumberSum>,
    /// Entries that were opened for it: those of the buckets at the ends of the range.
    pub opened: usize,
}

impl<C: Channel<Protocol> + Channel<Write> + 'static> ArxRange<C> {
    /// Counts and sums the entries with `lower <= key <= upper`.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if the index keeps no aggregates; else as [`Self::search`].
    pub async fn sums(
        self: &Arc<Self>,
        lower: Vec<u8>,
        upper: Vec<u8>,
    ) -> Result<(RangeSums, Repair), IndexError> {
        self.check_value(&lower)?;
        self.check_value(&upper)?;
        if !self.parameters().aggregated() {
            return Err(IndexError::Caller("the index keeps no aggregates"));
        }
        let mut total = Aggregate::zero(self.parameters());
        if lower > upper {
            return Ok((total.into(), Repair::none()));
        }
        let end = |value: &[u8], fill: u8| -> Vec<u8> { [value, &[fill; TIE_BYTES]].concat() };
        let (lower_place, upper_place) = (end(&lower, 0), end(&upper, u8::MAX));
        let directory = self.lock_shared().await?;
        let generation = self.generation();
        let bounds = Bounds {
            lower: &lower_place,
            upper: Some(&upper_place),
            order: Order::Ascending,
            buckets_max: 0,
            change: false,
        };
        let located = self.locate(&directory, &generation, &bounds).await?;
        let ends = self.boundary_buckets(&located)?;
        let within = |entry: &&Entry| *lower <= *entry.value() && *entry.value() <= *upper;
        total.merge(&Aggregate::of(self.parameters(), ends.iter().flatten().filter(within)));
        if located.lower_bucket != located.upper_bucket {
            between(&directory, &located, [&lower_place, &upper_place], &mut total)?;
        }
        let jobs = self.jobs(&generation, located.trees);
        let repair = Repair::new(Arc::clone(&self.channel), self.index(), generation, jobs, directory);
        Ok((RangeSums { opened: ends.iter().map(Vec::len).sum(), ..total.into() }, repair))
    }

    /// The entries of the buckets the bounds fall in.
    fn boundary_buckets(&self, located: &Located) -> Result<Vec<Vec<Entry>>, IndexError> {
        let mut names: Vec<NodeId> = vec![located.lower_bucket, located.upper_bucket];
        names.dedup();
        if located.buckets.iter().map(|bucket| bucket.node).ne(names) {
            return Err(IndexError::Peer("not the buckets the bounds fall in"));
        }
        located.buckets.iter().map(|found| self.open_bucket(found)).collect()
    }
}

impl From<Aggregate> for RangeSums {
    fn from(aggregate: Aggregate) -> Self {
        Self { count: aggregate.count, sums: aggregate.sums, opened: 0 }
    }
}

/// Adds the buckets strictly between the boundary buckets.
fn between(
    directory: &Directory,
    located: &Located,
    places: [&[u8]; 2],
    total: &mut Aggregate,
) -> Result<(), IndexError> {
    let empty = Link::Empty;
    let tree =
        |gap: usize| located.trees.iter().find(|tree| tree.gap == gap).map_or(&empty, |tree| &tree.link);
    // The separator of a boundary bucket, if it is in the tree and not the bucket the gap begins with.
    let boundary = |gap: usize, place: &[u8]| {
        Ok::<_, IndexError>(tree(gap).floor(place)?.map(|node| node.separator.clone()))
    };
    let (first, last) = (located.lower_gap, located.upper_gap);
    let lower = boundary(first, places[0])?;
    let upper = boundary(last, places[1])?;
    if first == last {
        return tree(first).sum_between(lower.as_deref(), upper.as_deref(), total);
    }
    tree(first).sum_between(lower.as_deref(), None, total)?;
    for gap in first + 1..last {
        total.merge(&directory.gap(gap).own);
        total.merge(&directory.gap(gap).total);
    }
    if let Some(upper) = upper {
        total.merge(&directory.gap(last).own);
        tree(last).sum_between(None, Some(&upper), total)?;
    }
    Ok(())
}
