//! A whole index read and checked against itself: for `doctor`. No circuit is opened and nothing is written.

use super::ArxRange;
use super::directory::Directory;
use super::load::{Wanted, within};
use super::secrets::Place;
use super::treap::{Link, Stub};
use crate::error::IndexError;
use arras_protocol::arx_range::ArxRange as Protocol;
use arras_protocol::{Channel, NodeId, RowId};

/// Buckets fetched at once.
const BUCKETS_AT_ONCE: usize = 4096;

/// A bucket's name, and the separator it must begin with; none for the head.
type Expected = (NodeId, Option<Place>);

/// The buckets of a tree, in key order.
fn in_order(link: Link, order: &mut Vec<Expected>) {
    // Trees are as deep as a treap is: some dozens.
    if let Link::Node(node) = link {
        in_order(node.left, order);
        order.push((node.node, Some(node.separator)));
        in_order(node.right, order);
    }
}

impl<C: Channel<Protocol>> ArxRange<C> {
    /// Every entry, as value and row, in order. Checks that each separator has a bucket, that the buckets are linked in
    /// the order of their separators, and that every entry lies in its bucket and none twice.
    ///
    /// # Errors
    /// [`IndexError`], naming the first thing that is not as it must be.
    pub async fn inspect(&self) -> Result<Vec<(Vec<u8>, RowId)>, IndexError> {
        let directory = self.lock_shared().await?;
        let order = self.buckets_in_order(&directory).await?;
        let separators = order.len().saturating_sub(1) as u64;
        if separators != directory.levels.from(0) {
            return Err(IndexError::Peer("the trees have not as many nodes as their head says"));
        }
        let mut entries: Vec<(Vec<u8>, RowId)> = Vec::new();
        let mut last: Option<(Place, RowId)> = None;
        for (chunk, first) in order.chunks(BUCKETS_AT_ONCE).zip((0_usize..).step_by(BUCKETS_AT_ONCE)) {
            let found = self.load_buckets(chunk.iter().map(|(node, _)| *node).collect()).await?;
            for ((bucket, (_, separator)), place) in found.iter().zip(chunk).zip(first..) {
                let name = |place: usize| order.get(place).map(|(node, _)| *node);
                let before = place.checked_sub(1).and_then(name);
                if bucket.bucket.previous != before || bucket.bucket.next != name(place + 1) {
                    return Err(IndexError::Peer("buckets are not linked in the order of their separators"));
                }
                let held = self.open_bucket(bucket)?;
                let begins = held.first().map(|entry| &entry.place);
                if separator.is_some() && begins != separator.as_ref() {
                    return Err(IndexError::Peer("a bucket does not begin with its separator"));
                }
                let end = order.get(place + 1).and_then(|(_, separator)| separator.as_ref());
                for entry in held {
                    let rank = entry.rank();
                    let ascends = last.as_ref().is_none_or(|(place, row)| (&**place, *row) < rank);
                    if !ascends || end.is_some_and(|end| entry.place >= *end) {
                        return Err(IndexError::Peer("an entry is twice or out of its bucket"));
                    }
                    entries.push((entry.value().to_vec(), entry.row));
                    last = Some((entry.place, entry.row));
                }
            }
        }
        Ok(entries)
    }

    async fn buckets_in_order(&self, directory: &Directory) -> Result<Vec<Expected>, IndexError> {
        let mut order = Vec::new();
        for gap in 0..directory.gap_count() {
            let top = gap.checked_sub(1).and_then(|top| directory.tops.get(top));
            order.push(top.map_or((NodeId::HEAD, None), |top| (top.node, Some(top.separator.clone()))));
            let held = directory.gap(gap);
            let mut link = held.root.map_or(Link::Empty, |node| {
                Link::Stub(Box::new(Stub { node, total: held.total.clone(), nonces: [None; 2] }))
            });
            self.load_trees(&mut [(&mut link, within(directory, gap))], Wanted::Whole).await?;
            in_order(link, &mut order);
        }
        Ok(order)
    }
}
