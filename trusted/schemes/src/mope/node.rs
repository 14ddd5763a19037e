//! Nodes of the tree: columns of fixed width, and their bytes.
//!
//! A B+ tree. A leaf's entries are the keys: ciphertext, label and, in stOPE, the number of occurrences. An inner node has an
//! entry for each child: ciphertext and label of the child's first key, the child's number and, in a tree that is protected
//! against a malicious server, the child's tag. So a walk that reads the inner nodes on its way knows the neighbours, and the
//! labels, at both ends of a leaf.
//!
//! *Bytes.* Level (0: a leaf), number of entries (16 bits), then the columns one after the other; numbers are big-endian. A
//! 64-bit value takes 24 bytes in a leaf of mOPE, 36 in one of stOPE; inner nodes come to less than one more.
//!
//! What a store returns is not trusted: lengths, counts and the order of labels are checked, and nothing panics.

use super::cipher::Cipher;
use crate::error::{IndexError, OpenFailed};
use arras_primitives::Block;
use arras_primitives::wipe::Wiped;
use arras_protocol::mope::{Label, Node};
use std::ops::Range;

/// Most entries of a node, where it is not to be small.
pub(super) const ENTRIES_MAX: usize = 128;

/// Most entries of a small node.
pub(super) const SMALL_ENTRIES_MAX: usize = 4;

/// Highest level of a root: 64^9 values.
pub(super) const LEVEL_MAX: u8 = 8;

/// Bytes before the columns.
const HEADER_BYTES: usize = 3;

const NUMBER_BYTES: usize = 8;
const COUNT_BYTES: usize = 4;

/// A keyed tag of a node's bytes.
pub(super) type Tag = Block;

/// What the nodes of a column's tree are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) ciphertext_bytes: usize,
    pub(super) plain_bytes: usize,
    /// Leaves have numbers of occurrences.
    pub(super) counts: bool,
    /// Inner nodes have tags.
    pub(super) tags: bool,
    /// Most entries of a node.
    pub(super) entries_max: usize,
}

/// A node's columns. Those that it has not are empty.
#[derive(Default)]
pub(super) struct Body {
    pub(super) level: u8,
    pub(super) ciphertexts: Vec<u8>,
    /// Of inner nodes always; of leaves while they are searched. Not stored.
    pub(super) plains: Wiped,
    pub(super) labels: Vec<Label>,
    pub(super) counts: Vec<u32>,
    pub(super) children: Vec<Node>,
    pub(super) tags: Vec<Tag>,
}

/// A child as its parent knows it.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) ciphertext: &'a [u8],
    pub(super) plain: &'a [u8],
    pub(super) label: Label,
    pub(super) child: Node,
    pub(super) tag: Tag,
}

impl Layout {
    /// Fewest entries of a node, but for the root.
    pub(super) fn entries_min(&self) -> usize {
        self.entries_max / 2
    }

    /// How so many entries are shared out among nodes, evenly: the ranges of their places. Nodes that are some of many made at once have
    /// room for some more.
    pub(super) fn shares(&self, entries: usize) -> impl Iterator<Item = Range<usize>> + Clone + use<> {
        let fill = self.entries_max / 4 * 3;
        let nodes = if entries <= self.entries_max { entries.min(1) } else { entries.div_ceil(fill) };
        (0..nodes).map(move |node| node * entries / nodes..(node + 1) * entries / nodes)
    }

    /// Bytes of an entry of a level.
    fn entry_bytes(&self, level: u8) -> usize {
        let rest = match (level, self.counts, self.tags) {
            (0, true, _) => COUNT_BYTES,
            (0, false, _) => 0,
            (_, _, true) => NUMBER_BYTES + size_of::<Tag>(),
            (_, _, false) => NUMBER_BYTES,
        };
        self.ciphertext_bytes + NUMBER_BYTES + rest
    }

    /// Bytes of the largest node.
    pub(super) fn node_bytes_max(&self) -> usize {
        HEADER_BYTES + self.entries_max * self.entry_bytes(0).max(self.entry_bytes(1))
    }

    /// A node of a store.
    pub(super) fn decode(&self, bytes: &[u8]) -> Result<Body, IndexError> {
        const NOT_A_NODE: IndexError = IndexError::Peer("a node of an order-preserving tree is malformed");
        let Some(([level, high, low], columns)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(NOT_A_NODE);
        };
        let entries = usize::from(u16::from_be_bytes([*high, *low]));
        let whole = columns.len() == entries * self.entry_bytes(*level);
        if *level > LEVEL_MAX || entries == 0 || entries > self.entries_max || !whole {
            return Err(NOT_A_NODE);
        }
        let mut columns = Columns(columns);
        let ciphertexts = columns.take(entries * self.ciphertext_bytes).to_vec();
        let labels = columns.numbers(entries);
        let (mut counts, mut children, mut tags) = (Vec::new(), Vec::new(), Vec::new());
        if *level > 0 {
            children = columns.numbers(entries);
            if self.tags {
                tags = columns.take(entries * size_of::<Tag>()).as_chunks().0.to_vec();
            }
        } else if self.counts {
            let (column, _) = columns.take(entries * COUNT_BYTES).as_chunks();
            counts = column.iter().map(|count| u32::from_be_bytes(*count)).collect();
        }
        let ascending = labels.is_sorted_by(|one, next| one < next);
        let given = labels.first().is_some_and(|first| *first > 0) && labels.last() != Some(&u64::MAX);
        if !ascending || !given {
            return Err(NOT_A_NODE);
        }
        Ok(Body { level: *level, ciphertexts, plains: Wiped::default(), labels, counts, children, tags })
    }
}

/// Columns yet to be read, of which there are enough bytes.
struct Columns<'a>(&'a [u8]);

impl<'a> Columns<'a> {
    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (column, rest) = self.0.split_at_checked(bytes).unwrap_or_default();
        self.0 = rest;
        column
    }

    fn numbers(&mut self, entries: usize) -> Vec<u64> {
        let (column, _) = self.take(entries * NUMBER_BYTES).as_chunks();
        column.iter().map(|number| u64::from_be_bytes(*number)).collect()
    }
}

impl Body {
    /// Entries.
    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    /// The bytes that a store keeps. There are at most as many entries as the layout has.
    pub(super) fn encode(&self, layout: &Layout) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.len() * layout.entry_bytes(self.level));
        bytes.push(self.level);
        bytes.extend_from_slice(&(self.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&self.ciphertexts);
        self.labels.iter().for_each(|label| bytes.extend_from_slice(&label.to_be_bytes()));
        self.counts.iter().for_each(|count| bytes.extend_from_slice(&count.to_be_bytes()));
        self.children.iter().for_each(|child| bytes.extend_from_slice(&child.to_be_bytes()));
        bytes.extend_from_slice(self.tags.as_flattened());
        bytes
    }

    /// A ciphertext.
    pub(super) fn ciphertext(&self, at: usize, layout: &Layout) -> &[u8] {
        &self.ciphertexts[at * layout.ciphertext_bytes..(at + 1) * layout.ciphertext_bytes]
    }

    /// A plain of those that were opened.
    pub(super) fn plain(&self, at: usize, layout: &Layout) -> &[u8] {
        &self.plains[at * layout.plain_bytes..(at + 1) * layout.plain_bytes]
    }

    /// Opens all plains, once.
    pub(super) fn open(&mut self, cipher: &Cipher) -> Result<(), OpenFailed> {
        if !self.plains.is_empty() {
            return Ok(());
        }
        let mut plains = Wiped::with_capacity(self.len() * cipher.plain_bytes());
        cipher.open_each(&self.ciphertexts, &mut plains)?;
        self.plains = plains;
        Ok(())
    }

    /// A child as this inner node knows it.
    pub(super) fn entry(&self, at: usize, layout: &Layout) -> Entry<'_> {
        Entry {
            ciphertext: self.ciphertext(at, layout),
            plain: self.plain(at, layout),
            label: self.labels[at],
            child: self.children[at],
            tag: self.tags.get(at).copied().unwrap_or_default(),
        }
    }

    /// Appends a child to an inner node.
    pub(super) fn push(&mut self, entry: Entry<'_>, layout: &Layout) {
        self.ciphertexts.extend_from_slice(entry.ciphertext);
        self.plains.extend_from_slice(entry.plain);
        self.labels.push(entry.label);
        self.children.push(entry.child);
        if layout.tags {
            self.tags.push(entry.tag);
        }
    }

    /// Appends entries of a node of the same level.
    pub(super) fn append(&mut self, other: &Self, entries: Range<usize>, layout: &Layout) {
        let bytes = |range: &Range<usize>, each: usize| range.start * each..range.end * each;
        self.ciphertexts.extend_from_slice(&other.ciphertexts[bytes(&entries, layout.ciphertext_bytes)]);
        // Of a node that has entries: one that all went of tells nothing.
        if other.plains.is_empty() && !other.labels.is_empty() {
            self.plains.clear();
        } else {
            self.plains.extend_from_slice(&other.plains[bytes(&entries, layout.plain_bytes)]);
        }
        self.labels.extend_from_slice(&other.labels[entries.clone()]);
        if !other.counts.is_empty() {
            self.counts.extend_from_slice(&other.counts[entries.clone()]);
        }
        if !other.children.is_empty() {
            self.children.extend_from_slice(&other.children[entries.clone()]);
        }
        if !other.tags.is_empty() {
            self.tags.extend_from_slice(&other.tags[entries]);
        }
    }

    /// Appends a key to a leaf whose plains are not opened.
    pub(super) fn enter(&mut self, ciphertext: &[u8], label: Label, count: u32, layout: &Layout) {
        self.ciphertexts.extend_from_slice(ciphertext);
        self.labels.push(label);
        if layout.counts {
            self.counts.push(count);
        }
    }

    /// A copy without the entries of some places, which ascend.
    pub(super) fn without(&self, places: &[usize], layout: &Layout) -> Self {
        let mut kept = Self::with_capacity(self.level, self.len() - places.len(), layout);
        let mut from = 0;
        for place in places {
            kept.append(self, from..*place, layout);
            from = place + 1;
        }
        kept.append(self, from..self.len(), layout);
        kept
    }

    /// An empty node with room for `entries`.
    pub(super) fn with_capacity(level: u8, entries: usize, layout: &Layout) -> Self {
        Self {
            level,
            ciphertexts: Vec::with_capacity(entries * layout.ciphertext_bytes),
            plains: Wiped::with_capacity(entries * layout.plain_bytes),
            labels: Vec::with_capacity(entries),
            counts: Vec::with_capacity(if layout.counts && level == 0 { entries } else { 0 }),
            children: Vec::with_capacity(if level > 0 { entries } else { 0 }),
            tags: Vec::with_capacity(if layout.tags && level > 0 { entries } else { 0 }),
        }
    }

    /// A copy of some of the entries.
    pub(super) fn part(&self, entries: Range<usize>, layout: &Layout) -> Self {
        let mut part = Self::with_capacity(self.level, entries.len(), layout);
        part.append(self, entries, layout);
        part
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LAYOUT: Layout =
        Layout { ciphertext_bytes: 16, plain_bytes: 8, counts: true, tags: true, entries_max: ENTRIES_MAX };

    #[test]
    fn shares_are_whole_even_and_within_bounds() {
        for entries_max in [ENTRIES_MAX, SMALL_ENTRIES_MAX] {
            let layout = Layout { entries_max, ..LAYOUT };
            assert_eq!(layout.shares(0).count(), 0);
            for entries in 1..2000 {
                let shares: Vec<Range<usize>> = layout.shares(entries).collect();
                assert_eq!((shares[0].start, shares.last().unwrap().end), (0, entries));
                assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start));
                let few = entries > entries_max;
                for share in shares {
                    assert!(
                        share.len() <= entries_max && (!few || share.len() >= layout.entries_min()),
                        "{entries}: {share:?}"
                    );
                }
            }
        }
    }

    fn body(level: u8, labels: &[u64]) -> Body {
        let mut body = Body { level, ..Body::default() };
        for (at, label) in (0_u8..).zip(labels) {
            body.ciphertexts.extend_from_slice(&[at; 16]);
            body.labels.push(*label);
            if level == 0 {
                body.counts.push(u32::from(at) + 1);
            } else {
                body.children.push(u64::from(at) + 7);
                body.tags.push([at; 16]);
            }
        }
        body
    }

    #[test]
    fn a_64_bit_value_takes_24_bytes_in_a_leaf_and_its_share_above_less_than_one() {
        let layout = Layout { counts: false, ..LAYOUT };
        assert_eq!((layout.entry_bytes(0), layout.entry_bytes(1)), (24, 48));
        let fresh = Layout { ciphertext_bytes: 24, ..LAYOUT };
        assert_eq!(fresh.entry_bytes(0), 36);
        assert!(fresh.entry_bytes(1) < fresh.entries_min(), "even in the emptiest tree");
    }

    proptest! {
        #[test]
        fn nodes_come_back_and_are_refused_at_another_length(
            labels in proptest::collection::btree_set(1..u64::MAX, 1..=ENTRIES_MAX), level in 0..=LEVEL_MAX,
        ) {
            let labels: Vec<u64> = labels.into_iter().collect();
            let node = body(level, &labels);
            let bytes = node.encode(&LAYOUT);
            prop_assert!(bytes.len() <= LAYOUT.node_bytes_max());
            let back = LAYOUT.decode(&bytes).unwrap();
            prop_assert_eq!(back.encode(&LAYOUT), &bytes[..]);
            prop_assert_eq!((back.level, back.len()), (level, labels.len()));
            prop_assert!(LAYOUT.decode(&bytes[..bytes.len() - 1]).is_err());
            prop_assert!(LAYOUT.decode(&[&bytes[..], &[0]].concat()).is_err());
        }

        #[test]
        fn any_bytes_are_a_node_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), entries in 0..4_u8) {
            let _ = LAYOUT.decode(&bytes);
            let mut bytes = bytes;
            bytes.resize(HEADER_BYTES + usize::from(entries) * LAYOUT.entry_bytes(0), 9);
            bytes[..HEADER_BYTES].copy_from_slice(&[0, 0, entries]);
            if let Ok(body) = LAYOUT.decode(&bytes) {
                prop_assert_eq!(body.encode(&LAYOUT), bytes);
            }
        }
    }

    #[test]
    fn labels_out_of_order_or_never_given_are_refused() {
        for labels in [&[5, 5][..], &[6, 5], &[0, 1], &[1, u64::MAX]] {
            assert!(LAYOUT.decode(&body(0, labels).encode(&LAYOUT)).is_err(), "{labels:?}");
        }
    }
}
