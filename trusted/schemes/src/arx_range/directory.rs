//! What the client holds of the index: the top nodes, and for each gap between them the name of its tree.
//!
//! *Which nodes are top.* A treap is ordered by priority, so the nodes whose priority begins with `l` one-bits are
//! closed upwards and a function of the set alone. `l` is the least for which there are at most
//! [`super::ArxRangeParameters::top_nodes`] of them. With `l` = 0 every separator is top and no circuit exists.

use super::adding::Added;
use super::aggregate::Aggregate;
use super::secrets::Place;
use super::treap::Link;
use arras_protocol::NodeId;
use arras_protocol::arx_range::CircuitNonce;
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Levels that are told apart; a priority of more leading one-bits counts as the last.
pub(super) const LEVELS: usize = 40;

/// Bytes of the sealed level counts.
pub(super) const LEVELS_BYTES: usize = LEVELS * 8;

/// A tree's circuits as the client knows them: `Some` if those of both roots are unused.
pub(super) type Readiness = Option<Ready>;

/// Lock of a tree, held from before its circuits are opened until they are repaired.
pub(super) type TreeLock = Arc<Mutex<Readiness>>;

/// Garblings of a root's circuits (lower, upper), of which generation.
#[derive(Clone, Copy)]
pub(super) struct Ready {
    pub(super) generation: u64,
    pub(super) nonces: [CircuitNonce; 2],
}

/// How many separators there are of each level (leading one-bits of the priority).
pub(super) struct Levels([u64; LEVELS]);

/// The level of a priority.
pub(super) fn level(priority: u64) -> usize {
    (priority.leading_ones() as usize).min(LEVELS - 1)
}

impl Levels {
    pub(super) fn new() -> Self {
        Self([0; LEVELS])
    }

    pub(super) fn add(&mut self, priority: u64) {
        self.0[level(priority)] += 1;
    }

    pub(super) fn subtract(&mut self, priority: u64) {
        let count = &mut self.0[level(priority)];
        *count = count.saturating_sub(1);
    }

    /// The least level at and above which there are at most `top_nodes`.
    pub(super) fn threshold(&self, top_nodes: usize) -> usize {
        let mut count = 0_u64;
        for level in (0..LEVELS).rev() {
            count = count.saturating_add(self.0[level]);
            if count > top_nodes as u64 {
                return level + 1;
            }
        }
        0
    }

    /// How many there are at and above a level.
    pub(super) fn from(&self, level: usize) -> u64 {
        self.0.iter().skip(level).fold(0, |sum: u64, count| sum.saturating_add(*count))
    }

    pub(super) fn encode(&self, output: &mut Vec<u8>) {
        self.0.iter().for_each(|count| output.extend_from_slice(&count.to_be_bytes()));
    }

    pub(super) fn decode(bytes: &[u8]) -> Self {
        let mut levels = Self::new();
        for (count, bytes) in levels.0.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *count = u64::from_be_bytes(*bytes);
        }
        levels
    }
}

/// A tree that a change has in hand.
pub(super) struct InHand {
    pub(super) link: Link,
    pub(super) guard: OwnedMutexGuard<Readiness>,
    /// True if circuits of it were opened, so that those are to be made anew; false for a tree that was loaded, whose
    /// circuits wait for a search.
    pub(super) opened: bool,
}

/// What lies from a top node (or the head) up to the next: a bucket and a tree.
pub(super) struct Gap {
    pub(super) root: Option<NodeId>,
    /// Aggregate of the bucket.
    pub(super) own: Aggregate,
    /// Aggregate of the tree.
    pub(super) total: Aggregate,
    pub(super) tree: TreeLock,
    /// During a change only.
    pub(super) in_hand: Option<InHand>,
    /// The whole tree as the server has it, for the next change that would load it. As sound as this directory: it
    /// goes when the outcome of a change is unknown.
    pub(super) held: Option<Link>,
    /// Nodes of that tree.
    pub(super) held_nodes: usize,
    /// True if the server's record is not what it should be.
    pub(super) changed: bool,
}

impl Gap {
    pub(super) fn new(root: Option<NodeId>, own: Aggregate, total: Aggregate) -> Self {
        Self {
            root,
            own,
            total,
            tree: TreeLock::default(),
            in_hand: None,
            held: None,
            held_nodes: 0,
            changed: false,
        }
    }
}

/// A top node.
pub(super) struct Top {
    pub(super) node: NodeId,
    pub(super) separator: Place,
    pub(super) priority: u64,
    pub(super) gap: Gap,
}

/// The directory. Gap 0 is the head's; gap `i` is that of the `i`-th top node.
pub(super) struct Directory {
    /// False from when a change begins until the server has acknowledged it: then only the server knows.
    pub(super) valid: bool,
    /// Rises whenever the list of buckets may have changed.
    pub(super) version: u64,
    pub(super) levels: Levels,
    pub(super) threshold: usize,
    pub(super) head: Gap,
    /// In key order.
    pub(super) tops: Vec<Top>,
    /// What is known of entries beside their buckets.
    pub(super) added: Added,
}

impl Directory {
    /// The gap `place` falls in.
    pub(super) fn gap_of(&self, place: &[u8]) -> usize {
        self.tops.partition_point(|top| &*top.separator <= place)
    }

    pub(super) fn gap(&self, gap: usize) -> &Gap {
        match gap.checked_sub(1) {
            None => &self.head,
            Some(top) => &self.tops[top].gap,
        }
    }

    pub(super) fn gap_mut(&mut self, gap: usize) -> &mut Gap {
        match gap.checked_sub(1) {
            None => &mut self.head,
            Some(top) => &mut self.tops[top].gap,
        }
    }

    /// Holds a gap's whole tree.
    pub(super) fn hold_tree(&mut self, gap: usize, tree: Option<Link>) {
        let gap = self.gap_mut(gap);
        gap.held_nodes = tree.as_ref().map_or(0, Link::node_count);
        gap.held = tree;
    }

    /// Makes every tree unready, where something may happen to them that is not seen here.
    pub(super) fn forget_trees(&mut self) {
        for gap in 0..self.gap_count() {
            self.gap_mut(gap).tree = TreeLock::default();
        }
    }

    /// The bucket a gap begins with.
    pub(super) fn before(&self, gap: usize) -> NodeId {
        gap.checked_sub(1).map_or(NodeId::HEAD, |top| self.tops[top].node)
    }

    /// Lets go of held trees until they have no more than `nodes_max` nodes together, the first in key order first.
    pub(super) fn bound_held(&mut self, nodes_max: usize) {
        let held = |gap: &Gap| if gap.held.is_some() { gap.held_nodes } else { 0 };
        let mut nodes: usize = (0..self.gap_count()).map(|gap| held(self.gap(gap))).sum();
        for gap in 0..self.gap_count() {
            if nodes <= nodes_max {
                return;
            }
            nodes -= held(self.gap(gap));
            self.gap_mut(gap).held = None;
        }
    }

    pub(super) fn gap_count(&self) -> usize {
        self.tops.len() + 1
    }

    pub(super) fn is_top(&self, priority: u64) -> bool {
        level(priority) >= self.threshold
    }
}
