//! Token tree: a tree of one-way steps whose inner nodes are capabilities for the leaves below them
//! (Goldreich, Goldwasser, Micali 1986; as used for ArxEq, Arx, VLDB'19, §5.2, figure 3).
//!
//! The children of a node are `AES_node(0)` and `AES_node(1)`; a leaf gives a label and a mask,
//! `AES_leaf(2)` and `AES_leaf(3)`. Inputs are little-endian 128-bit integers. Leaves are numbered from the
//! left, the counter's most significant bit choosing at the root.
//!
//! *Leakage.* A node tells all below it and, under AES as a pseudorandom function, nothing of the rest.

use crate::{BLOCK_BYTES, Block, lanes};
use std::iter::FusedIterator;

const LEFT: u128 = 0;
const RIGHT: u128 = 1;
const LABEL: u128 = 2;
const MASK: u128 = 3;

/// Most levels of a tree: leaves are counted in 64 bits.
pub const HEIGHT_MAX: u8 = 63;

/// Levels expanded breadth first, so that many independent keys are at work at once.
const BATCH_LEVELS: u8 = 6;

fn two(node: &Block, inputs: (u128, u128)) -> (Block, Block) {
    let mut output = [[[0; BLOCK_BYTES]; 2]];
    lanes::encrypt_two(std::slice::from_ref(node), inputs, &mut output);
    let [[first, second]] = output;
    (first, second)
}

/// The left (`bit` false) or right child of a node.
#[must_use]
pub fn child(node: &Block, bit: bool) -> Block {
    let (left, right) = both(node);
    if bit { right } else { left }
}

/// Both children of a node.
#[must_use]
pub fn both(node: &Block) -> (Block, Block) {
    two(node, (LEFT, RIGHT))
}

/// Leaf `counter` of the tree of `height` levels below `root`.
///
/// # Panics
///
/// If the tree has no such leaf, or is higher than [`HEIGHT_MAX`].
#[must_use]
pub fn leaf(root: &Block, height: u8, counter: u64) -> Block {
    assert!(counter < leaf_count(height), "no such leaf");
    (0..height).rev().fold(*root, |node, level| child(&node, (counter >> level) & 1 == 1))
}

/// The fewest nodes whose leaves are exactly the leaves `0..count`, from left to right, each with its height
/// above the leaves: at most `height` of them.
///
/// # Panics
///
/// If the tree has fewer leaves, or is higher than [`HEIGHT_MAX`].
#[must_use]
pub fn cover(root: &Block, height: u8, count: u64) -> Vec<(Block, u8)> {
    assert!(count <= leaf_count(height), "more leaves than the tree has");
    if count == leaf_count(height) {
        return vec![(*root, height)];
    }
    let mut nodes = Vec::with_capacity(count.count_ones() as usize);
    let mut node = *root;
    // The path to leaf `count`, the first not covered: what hangs off it to the left is the cover.
    for level in (0..height).rev() {
        if count.trailing_zeros() > u32::from(level) {
            break;
        }
        let (left, right) = both(&node);
        if (count >> level) & 1 == 1 {
            nodes.push((left, level));
            node = right;
        } else {
            node = left;
        }
    }
    nodes
}

/// The fewest nodes whose leaves are exactly the leaves of `counters`, from left to right, each with its height above
/// the leaves: fewer than twice `height` of them.
///
/// # Panics
///
/// If the tree has not all these leaves, or is higher than [`HEIGHT_MAX`].
#[must_use]
pub fn cover_range(root: &Block, height: u8, counters: std::ops::Range<u64>) -> Vec<(Block, u8)> {
    assert!(counters.end <= leaf_count(height), "more leaves than the tree has");
    let mut nodes = Vec::new();
    cover_below(root, height, 0, &counters, &mut nodes);
    nodes
}

/// [`cover_range`] of the leaves below `node`, whose first is leaf `first`.
fn cover_below(
    node: &Block,
    height: u8,
    first: u64,
    counters: &std::ops::Range<u64>,
    nodes: &mut Vec<(Block, u8)>,
) {
    let end = first + leaf_count(height);
    if counters.start >= end || first >= counters.end || counters.is_empty() {
        return;
    }
    if counters.start <= first && end <= counters.end {
        nodes.push((*node, height));
        return;
    }
    let (left, right) = both(node);
    cover_below(&left, height - 1, first, counters, nodes);
    cover_below(&right, height - 1, first + leaf_count(height - 1), counters, nodes);
}

fn leaf_count(height: u8) -> u64 {
    assert!(height <= HEIGHT_MAX, "tree too high");
    1 << height
}

/// Where a leaf's entry is stored: one way, and independent of [`leaf_mask`].
#[must_use]
pub fn leaf_label(leaf: &Block) -> Block {
    leaf_label_and_mask(leaf).0
}

/// What hides a leaf's entry: one way, and independent of [`leaf_label`].
#[must_use]
pub fn leaf_mask(leaf: &Block) -> Block {
    leaf_label_and_mask(leaf).1
}

/// [`leaf_label`] and [`leaf_mask`], for little more than the price of one.
#[must_use]
pub fn leaf_label_and_mask(leaf: &Block) -> (Block, Block) {
    two(leaf, (LABEL, MASK))
}

/// The leaves below a node of `height` levels above them, from the left, at most `limit`.
///
/// *Cost.* Amortised two AES calls and one key expansion a leaf, on several leaves at once; memory for
/// at most 64 leaves and one node a level.
#[must_use]
pub fn expand(node: &Block, height: u8, limit: u64) -> Leaves {
    Leaves { pending: vec![(*node, height)], ready: Vec::new(), taken: 0, limit }
}

/// Iterator over leaves; see [`expand`].
#[derive(Clone)]
pub struct Leaves {
    /// Subtrees not yet expanded, the next one last.
    pending: Vec<(Block, u8)>,
    ready: Vec<Block>,
    taken: usize,
    limit: u64,
}

impl std::fmt::Debug for Leaves {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Leaves(at most {})", self.limit)
    }
}

impl Leaves {
    /// The next leaves, as many as are made at once; empty at the end.
    pub fn next_batch(&mut self) -> &[Block] {
        if self.taken == self.ready.len() {
            self.make_ready();
        }
        let from = self.taken;
        self.taken = self.ready.len();
        self.limit -= (self.taken - from) as u64;
        &self.ready[from..]
    }

    fn make_ready(&mut self) {
        self.ready.clear();
        self.taken = 0;
        if self.limit == 0 {
            return;
        }
        let Some((mut node, mut height)) = self.pending.pop() else {
            return;
        };
        while height > BATCH_LEVELS {
            let (left, right) = both(&node);
            height -= 1;
            self.pending.push((right, height));
            node = left;
        }
        let wanted = self.limit.min(1 << height) as usize;
        self.ready.push(node);
        for level in (0..height).rev() {
            self.ready = children(&self.ready);
            self.ready.truncate(wanted.div_ceil(1 << level));
        }
    }
}

fn children(nodes: &[Block]) -> Vec<Block> {
    let mut pairs = vec![[[0; BLOCK_BYTES]; 2]; nodes.len()];
    lanes::encrypt_two(nodes, (LEFT, RIGHT), &mut pairs);
    pairs.into_flattened()
}

impl Iterator for Leaves {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        if self.taken == self.ready.len() {
            self.make_ready();
        }
        let leaf = *self.ready.get(self.taken)?;
        self.taken += 1;
        self.limit -= 1;
        Some(leaf)
    }
}

impl FusedIterator for Leaves {}

/// Labels and masks of `leaves`, in their order ([`leaf_label_and_mask`] on several leaves at once).
#[must_use]
pub fn labels_and_masks(leaves: &[Block]) -> Vec<(Block, Block)> {
    let mut pairs = vec![[[0; BLOCK_BYTES]; 2]; leaves.len()];
    lanes::encrypt_two(leaves, (LABEL, MASK), &mut pairs);
    pairs.into_iter().map(|[label, mask]| (label, mask)).collect()
}

#[cfg(test)]
mod tests;
