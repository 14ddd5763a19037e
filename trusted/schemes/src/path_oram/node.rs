//! Nodes of the B+ tree, in blocks of one size.
//!
//! A *record* is a key and its row: records differ and order as byte strings. A leaf is a count and its records; an
//! inner node a count, its children and between each two of them the least record of the right one's subtree.

use super::oram::BlockId;
use arras_protocol::RowId;

const COUNT_BYTES: usize = 2;
const CHILD_BYTES: usize = size_of::<BlockId>();

/// Measures of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) key_bytes: usize,
    pub(super) record_bytes: usize,
    /// Most records of a leaf.
    pub(super) leaf_max: usize,
    /// Most children of an inner node.
    pub(super) children_max: usize,
}

impl Layout {
    /// For keys of `key_bytes`; none if a block does not hold a node that can be split and merged.
    pub(super) fn new(key_bytes: usize, block_bytes: usize) -> Option<Self> {
        let record_bytes = key_bytes + RowId::BYTES;
        let room = block_bytes.checked_sub(COUNT_BYTES)?.min(usize::from(u16::MAX));
        let layout = Self {
            key_bytes,
            record_bytes,
            leaf_max: room / record_bytes,
            children_max: (room + record_bytes) / (CHILD_BYTES + record_bytes),
        };
        (key_bytes > 0 && layout.leaf_max >= 4 && layout.children_max >= 4).then_some(layout)
    }

    /// Fewest records of a leaf that is not the root.
    pub(super) fn leaf_min(&self) -> usize {
        self.leaf_max / 2
    }

    /// Fewest children of an inner node that is not the root.
    pub(super) fn children_min(&self) -> usize {
        self.children_max / 2
    }

    /// The records of a leaf.
    pub(super) fn records<'b>(&self, leaf: &'b [u8]) -> &'b [u8] {
        let count = count(leaf).min(self.leaf_max);
        leaf.get(COUNT_BYTES..COUNT_BYTES + count * self.record_bytes).unwrap_or_default()
    }

    /// The place of `record` in a leaf: where it is, or where it would be.
    pub(super) fn find(&self, leaf: &[u8], record: &[u8]) -> Result<usize, usize> {
        find(self.records(leaf), self.record_bytes, record)
    }

    /// Number of records of a leaf.
    pub(super) fn leaf_len(&self, leaf: &[u8]) -> usize {
        count(leaf).min(self.leaf_max)
    }

    /// Puts a record at its place in a leaf that is not full.
    pub(super) fn insert(&self, leaf: &mut [u8], at: usize, record: &[u8]) {
        let len = self.leaf_len(leaf);
        let (start, end) = (COUNT_BYTES + at * self.record_bytes, COUNT_BYTES + len * self.record_bytes);
        leaf.copy_within(start..end, start + self.record_bytes);
        leaf[start..start + self.record_bytes].copy_from_slice(record);
        set_count(leaf, len + 1);
    }

    /// Takes the record at a place out of a leaf.
    pub(super) fn remove(&self, leaf: &mut [u8], at: usize) {
        let len = self.leaf_len(leaf);
        let (start, end) = (COUNT_BYTES + at * self.record_bytes, COUNT_BYTES + len * self.record_bytes);
        leaf.copy_within(start + self.record_bytes..end, start);
        leaf[end - self.record_bytes..end].fill(0);
        set_count(leaf, len - 1);
    }

    /// A leaf of these records, without the padding.
    pub(super) fn leaf(&self, records: &[u8]) -> Vec<u8> {
        let mut leaf = vec![0; COUNT_BYTES];
        set_count(&mut leaf, records.len() / self.record_bytes);
        leaf.extend_from_slice(records);
        leaf
    }

    /// Reads an inner node.
    pub(super) fn inner(&self, node: &[u8]) -> Inner {
        let count = count(node).min(self.children_max);
        let (children, rest) = node[COUNT_BYTES..].split_at(count * CHILD_BYTES);
        let separators = rest.get(..count.saturating_sub(1) * self.record_bytes).unwrap_or_default();
        Inner {
            record_bytes: self.record_bytes,
            children: children.as_chunks().0.iter().map(|bytes| BlockId::from_le_bytes(*bytes)).collect(),
            separators: separators.to_vec(),
        }
    }
}

fn count(node: &[u8]) -> usize {
    node.first_chunk().map_or(0, |bytes| usize::from(u16::from_le_bytes(*bytes)))
}

fn set_count(node: &mut [u8], count: usize) {
    if let Some(bytes) = node.first_chunk_mut() {
        *bytes = (count as u16).to_le_bytes();
    }
}

fn find(records: &[u8], record_bytes: usize, record: &[u8]) -> Result<usize, usize> {
    let (mut low, mut high) = (0, records.len() / record_bytes);
    while low < high {
        let middle = low.midpoint(high);
        match records[middle * record_bytes..][..record_bytes].cmp(record) {
            std::cmp::Ordering::Equal => return Ok(middle),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Err(low)
}

/// Overwrites a node with another one, padded.
pub(super) fn overwrite(block: &mut [u8], node: &[u8]) {
    let (head, rest) = block.split_at_mut(node.len());
    head.copy_from_slice(node);
    rest.fill(0);
}

/// An inner node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inner {
    record_bytes: usize,
    pub(super) children: Vec<BlockId>,
    /// One record less than there are children.
    separators: Vec<u8>,
}

impl Inner {
    /// A node of one child.
    pub(super) fn of(child: BlockId, record_bytes: usize) -> Self {
        Self { record_bytes, children: vec![child], separators: Vec::new() }
    }

    /// The node as bytes, without the padding.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut node = vec![0; COUNT_BYTES];
        set_count(&mut node, self.children.len());
        node.extend(self.children.iter().flat_map(|child| child.to_le_bytes()));
        node.extend_from_slice(&self.separators);
        node
    }

    /// Index of the child whose subtree holds `record` if any does.
    pub(super) fn child_of(&self, record: &[u8]) -> usize {
        match find(&self.separators, self.record_bytes, record) {
            Ok(at) => at + 1,
            Err(at) => at,
        }
    }

    /// The separator left of child `at + 1`.
    pub(super) fn separator(&self, at: usize) -> &[u8] {
        &self.separators[at * self.record_bytes..][..self.record_bytes]
    }

    pub(super) fn set_separator(&mut self, at: usize, separator: &[u8]) {
        self.separators[at * self.record_bytes..][..self.record_bytes].copy_from_slice(separator);
    }

    /// Puts a child to the right of child `at`.
    pub(super) fn insert(&mut self, at: usize, separator: &[u8], child: BlockId) {
        self.children.insert(at + 1, child);
        let start = at * self.record_bytes;
        self.separators.splice(start..start, separator.iter().copied());
    }

    /// Takes out child `at + 1` and the separator left of it.
    pub(super) fn remove(&mut self, at: usize) {
        self.children.remove(at + 1);
        let start = at * self.record_bytes;
        self.separators.drain(start..start + self.record_bytes);
    }

    /// Appends a node that stands to the right, `separator` being between them.
    pub(super) fn append(&mut self, separator: &[u8], right: &Self) {
        self.children.extend_from_slice(&right.children);
        self.separators.extend_from_slice(separator);
        self.separators.extend_from_slice(&right.separators);
    }

    /// Keeps the first `len` children: the separator after them, and the others.
    pub(super) fn split(&mut self, len: usize) -> (Vec<u8>, Self) {
        let children = self.children.split_off(len);
        let mut separator = self.separators.split_off((len - 1) * self.record_bytes);
        let separators = separator.split_off(self.record_bytes);
        (separator, Self { record_bytes: self.record_bytes, children, separators })
    }
}
