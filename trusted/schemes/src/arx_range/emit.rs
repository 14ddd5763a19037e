//! What a change comes to: steps for the server, and the circuits to be made.

use super::ArxRangeParameters;
use super::aggregate::Aggregate;
use super::directory::{Gap, InHand, LEVELS_BYTES, Levels, Ready};
use super::entry::{Entry, Record, encode_added, encode_bucket};
use super::epoch::Generation;
use super::garbling::Job;
use super::locate::LockedTree;
use super::secrets::{Kind, Place};
use super::stage::Changing;
use super::treap::{Link, Node};
use crate::error::IndexError;
use arras_protocol::arx_range::{ArxRange as Protocol, Change, TopNode, TreeNode};
use arras_protocol::write::Step;
use arras_protocol::{Blob, Channel, NodeId};

/// Lays out the head's record.
pub(super) fn head_record(
    parameters: &ArxRangeParameters,
    levels: &Levels,
    own: &Aggregate,
    total: &Aggregate,
) -> Vec<u8> {
    let mut output = Vec::with_capacity(LEVELS_BYTES + 2 * Aggregate::encoded_bytes(parameters));
    levels.encode(&mut output);
    own.encode(parameters, &mut output);
    total.encode(parameters, &mut output);
    output
}

impl<C: Channel<Protocol>> Changing<'_, C> {
    /// The steps, and the repair of the trees concerned. The directory is then as it will be.
    pub(super) fn emit(mut self, generation: &Generation) -> Result<(Vec<Step>, Vec<Job>), IndexError> {
        if self.index.parameters().aggregated() {
            self.count_buckets()?;
        }
        let mut changes = self.emit_added();
        let relinked = self.emit_buckets(&mut changes);
        if relinked {
            self.directory.version += 1;
        }
        let mut jobs = Vec::new();
        for gap in 0..self.directory.gap_count() {
            if self.directory.gap(gap).in_hand.is_some() {
                jobs.extend(self.emit_tree(gap, generation, &mut changes));
            }
            if self.directory.gap(gap).changed || (gap == 0 && self.levels_changed) {
                changes.push(self.emit_gap(gap));
                self.directory.gap_mut(gap).changed = false;
            }
        }
        Ok((changes.into_iter().map(Step::ArxRange).collect(), jobs))
    }

    fn seal(&self, kind: Kind, node: NodeId, plaintext: &[u8]) -> Blob {
        self.index.secrets.seal(kind, node, &self.index.random_bytes(), plaintext)
    }

    /// Brings the aggregates of changed buckets to where their records are.
    fn count_buckets(&mut self) -> Result<(), IndexError> {
        let changed: Vec<(Option<Place>, Aggregate)> = self
            .buckets
            .iter()
            .filter(|(_, bucket)| bucket.changed)
            .map(|(node, bucket)| {
                let separator = bucket.entries.first().filter(|_| *node != NodeId::HEAD);
                let aggregate = Aggregate::of(self.index.parameters(), &bucket.entries);
                (separator.map(|first| first.place.clone()), aggregate)
            })
            .collect();
        for (separator, aggregate) in changed {
            let gap = separator.as_ref().map_or(0, |separator| self.directory.gap_of(separator));
            let top = gap.checked_sub(1).and_then(|top| self.directory.tops.get(top));
            let begins_gap = match &separator {
                Some(separator) => top.is_some_and(|top| top.separator == *separator),
                None => true,
            };
            let gap = self.directory.gap_mut(gap);
            if begins_gap {
                gap.changed |= gap.own != aggregate;
                gap.own = aggregate;
                continue;
            }
            let tree = gap.in_hand.as_mut();
            let node = tree.zip(separator).and_then(|(tree, separator)| tree.link.find_mut(&separator));
            let node = node.ok_or(IndexError::Peer("a bucket without a node"))?;
            node.aggregate_changed |= node.own != aggregate;
            node.own = aggregate;
        }
        Ok(())
    }

    /// Entries that go beside their buckets.
    fn emit_added(&mut self) -> Vec<Change> {
        let mut added = std::mem::take(&mut self.added);
        // In an order that says nothing, and replays.
        added.sort_unstable_by_key(|(node, _)| *node);
        let change = |(node, entries): (NodeId, Vec<Entry>)| {
            let sealed = self.seal(Kind::Added, node, &encode_added(self.index.parameters(), &entries));
            Change::AddEntries { index: self.index.secrets.index, node, sealed }
        };
        added.into_iter().map(change).collect()
    }

    /// Buckets that went, came or changed. True if the list did.
    fn emit_buckets(&mut self, changes: &mut Vec<Change>) -> bool {
        let index = self.index.secrets.index;
        let mut relinked = !self.removed.is_empty();
        self.directory.added.note_rewritten(&self.buckets, &self.removed);
        self.removed.sort_unstable();
        changes.extend(self.removed.iter().map(|node| Change::RemoveNode { index, node: *node }));
        let mut buckets: Vec<_> = self.buckets.iter().collect();
        // In an order that replays.
        buckets.sort_unstable_by_key(|(node, _)| **node);
        for (node, bucket) in &buckets {
            if bucket.changed {
                let plaintext = encode_bucket(self.index.parameters(), &bucket.entries);
                let sealed = self.seal(Kind::Bucket, **node, &plaintext);
                changes.push(Change::PutBucket { index, node: **node, sealed });
            }
        }
        for (node, bucket) in &buckets {
            if bucket.stored_next != Some(bucket.next) {
                relinked = true;
                changes.push(Change::LinkBuckets { index, left: **node, right: bucket.next });
            }
        }
        relinked
    }

    /// Records of a tree that is in hand, and its repair. A tree that was ready and has kept its shape stays ready. One
    /// that was loaded and has another shape now is left without circuits until a search needs them.
    fn emit_tree(&mut self, gap: usize, generation: &Generation, changes: &mut Vec<Change>) -> Option<Job> {
        let mut in_hand = self.directory.gap_mut(gap).in_hand.take()?;
        let total = in_hand.link.refresh(&Aggregate::zero(self.index.parameters()));
        let root = in_hand.link.id();
        let old = self.directory.gap(gap);
        let mut reshaped = root != old.root;
        let changed = reshaped || total != old.total;
        in_hand.link.visit(&mut |node| {
            reshaped |= node.stored != Some(node.children());
            if node.is_changed() {
                changes.push(self.emit_node(node));
            }
        });
        let record = self.directory.gap_mut(gap);
        record.root = root;
        record.total = total;
        record.changed |= changed;
        let ready = in_hand.guard.take().filter(|ready: &Ready| ready.generation == generation.number);
        let InHand { link, mut guard, opened } = in_hand;
        let keeps = !reshaped && ready.is_some();
        if keeps {
            *guard = ready;
        }
        if keeps || !opened || matches!(link, Link::Empty) {
            self.directory.hold_tree(gap, link.settled());
            return None;
        }
        self.directory.gap_mut(gap).held = None;
        self.index.job(generation, LockedTree { gap, guard, link, opened })
    }

    fn emit_node(&self, node: &Node) -> Change {
        let Node { own, left_total, right_total, separator, .. } = node;
        let record = Record::encode(self.index.parameters(), separator, own, left_total, right_total);
        let [left, right] = node.children();
        let sealed = self.seal(Kind::Node, node.node, &record);
        let record = TreeNode { left, right, sealed };
        Change::PutNode { index: self.index.secrets.index, node: node.node, record }
    }

    fn emit_gap(&self, gap: usize) -> Change {
        let (index, parameters) = (self.index.secrets.index, self.index.parameters());
        let Gap { root, own, total, .. } = self.directory.gap(gap);
        let Some(top) = gap.checked_sub(1).and_then(|top| self.directory.tops.get(top)) else {
            let record = head_record(parameters, &self.directory.levels, own, total);
            let sealed = self.seal(Kind::Head, NodeId::HEAD, &record);
            return Change::PutHead { index, gap: *root, sealed };
        };
        let record = Record::encode(parameters, &top.separator, own, &Aggregate::zero(parameters), total);
        let sealed = self.seal(Kind::Top, top.node, &record);
        Change::PutTop { index, node: top.node, record: TopNode { gap: *root, sealed } }
    }
}
