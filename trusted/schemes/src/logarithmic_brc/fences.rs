//! Fences: what proves that no list of a range was denied.
//!
//! In the first cell of a list stand the values that its instance has next to the list's node, below and above it. The
//! lists that were found of a range's cover are all there are if nothing of the instance lies between the range's lower end and
//! the first of them, between one and the next, and between the last and the upper end: [`are_all`].
//!
//! If none was found, the fences of another list show that the range is empty: of the nodes beside the path from the range to the
//! root ([`beside`]) the lowest that has records is next to the range, as are the records at that side of it. A
//! list begins with its records at the side of its parent's other half ([`in_order`]), so its first cell is enough: [`Head::shows_empty`].

use super::cover::Node;
use super::record::Record;

/// Values of an instance next to a node, outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fences {
    /// The greatest below.
    pub(super) below: Option<u64>,
    /// The least above.
    pub(super) above: Option<u64>,
}

/// Bytes of the fences in a domain of so many bits.
pub(super) fn fence_bytes(domain_bits: u8) -> usize {
    2 * usize::from(domain_bits.div_ceil(8))
}

impl Fences {
    /// Their bytes, in a cell that has `bytes` for them. A value of the node itself, its least, stands for none.
    pub(super) fn encode(self, node: Node, bytes: usize) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(bytes);
        for fence in [self.below, self.above] {
            let fence = fence.unwrap_or(node.least()).to_be_bytes();
            encoded.extend_from_slice(fence.get(fence.len().saturating_sub(bytes / 2)..).unwrap_or_default());
        }
        encoded
    }

    /// Reads what [`Self::encode`] wrote.
    pub(super) fn decode(node: Node, bytes: &[u8]) -> Self {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let (below, above) = bytes.split_at(bytes.len() / 2);
        let outside = |value: u64| (!node.covers(value)).then_some(value);
        Self { below: outside(number(below)), above: outside(number(above)) }
    }
}

/// A list's records, which are ordered by value, in the order in which its cells have them: its first is the one next to its
/// parent's other half.
pub(super) fn in_order(node: Node, position: usize, records: &[Record]) -> Option<&Record> {
    let from_end = records.len().checked_sub(position + 1)?;
    records.get(if node.is_lower_half() { from_end } else { position })
}

/// What was found under a node.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) records: Vec<Record>,
    /// Of a list that has them.
    pub(super) fences: Option<Fences>,
}

impl Found {
    /// The least and the greatest value; none if there are no records.
    fn ends(&self) -> Option<(u64, u64)> {
        let values = || self.records.iter().map(|record| record.value);
        Some((values().min()?, values().max()?))
    }
}

/// What is known of a range in one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// What was found is all there is.
    All,
    /// Nothing was found: that there is nothing is to be shown.
    Nothing,
    /// A list was denied.
    Denied,
}

/// Are the lists found of a cover of `lower..=upper`, in the cover's order, all there are?
pub(super) fn are_all(lists: &[Found], lower: u64, upper: u64) -> Known {
    // The greatest value so far, and the fence above its list.
    let mut last: Option<(u64, Option<u64>)> = None;
    for list in lists {
        let Some((least, greatest)) = list.ends() else { continue };
        let Some(fences) = list.fences else { return Known::Denied };
        let joins = match last {
            Some((value, above)) => fences.below == Some(value) && above == Some(least),
            None => fences.below.is_none_or(|below| below < lower),
        };
        if !joins {
            return Known::Denied;
        }
        last = Some((greatest, fences.above));
    }
    match last {
        None => Known::Nothing,
        Some((_, above)) if above.is_none_or(|above| above > upper) => Known::All,
        Some(_) => Known::Denied,
    }
}

/// The nodes beside the path from a cover's first node to the root, without those of the cover.
pub(super) fn beside(cover: &[Node], domain_bits: u8) -> Vec<Node> {
    let Some(first) = cover.first() else { return Vec::new() };
    let path = (first.level..domain_bits).map(|level| Node::above(first.least(), level));
    path.map(Node::other_half).filter(|node| !cover.contains(node)).collect()
}

/// The first cell of a list.
pub(super) struct Head {
    pub(super) node: Node,
    pub(super) first: Record,
    pub(super) fences: Fences,
}

impl Head {
    /// Is nothing of the instance in `lower..=upper`, because it lies between the list and the value next to it?
    pub(super) fn shows_empty(&self, lower: u64, upper: u64) -> bool {
        let (below, above) = if self.node.is_lower_half() {
            (Some(self.first.value), self.fences.above)
        } else {
            (self.fences.below, Some(self.first.value))
        };
        below.is_none_or(|below| below < lower) && above.is_none_or(|above| upper < above)
    }
}
