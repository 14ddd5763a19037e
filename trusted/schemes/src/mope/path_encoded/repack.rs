//! A subtree laid out anew, with about as many children in each node as in any other, and a value that comes to it.
//!
//! Of *entries* below a node there are one more than keys: between two nodes there is a key of their parent's, which is counted to
//! the left one's. So the entries below a node are those below its children, and there are at most [`CHILDREN_MAX`] a level.

use super::change::{Paths, Visit};
use super::shape::{CHILDREN_MAX, PathChild, PathEntry, Shape, spread};
use crate::error::IndexError;
use arras_protocol::mope::{Head, Label, Node, TreeChange};
use std::collections::BTreeMap;

/// Fewest children of a node that is laid out; a leaf has a key less.
const FEWEST: u64 = 2;

/// Room for one value more below a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Full,
    /// More than three quarters of what there may be: what comes next soon finds none again.
    Scarce,
    Ample,
}

impl Room {
    /// Below a node of a level that has so many keys.
    pub(super) fn of(level: u32, keys: usize) -> Self {
        let (entries, most) = (keys as u64 + 2, (CHILDREN_MAX as u64).pow(level + 1));
        match entries {
            _ if entries > most => Self::Full,
            _ if entries > most / 4 * 3 => Self::Scarce,
            _ => Self::Ample,
        }
    }
}

/// Children of an inner node with so many entries below: as many as they will have themselves.
fn children(level: u32, entries: usize) -> usize {
    let entries = entries as u64;
    let most = CHILDREN_MAX as u64;
    let even = (FEWEST..most).find(|count| count.pow(level + 1) >= entries).unwrap_or(most);
    even.min(entries / FEWEST.pow(level)) as usize
}

/// Nodes that are made of keys.
struct Layout {
    /// Numbers that nodes had, to be given first.
    numbers: Vec<Node>,
    next: Node,
    shapes: BTreeMap<Node, Shape>,
}

impl Layout {
    fn number(&mut self) -> Node {
        self.numbers.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// A node of a level over some keys, and all below it.
    fn fill(&mut self, node: Node, level: u32, mut keys: Vec<PathEntry>) {
        let mut shape = Shape { level, keys: Vec::new(), children: Vec::new(), digits: Vec::new() };
        let entries = keys.len() + 1;
        if level == 0 {
            shape.digits = spread(keys.len(), level, None);
            shape.keys = keys;
        } else {
            let count = children(level, entries);
            shape.digits = spread(count, level, None);
            for at in (0..count).rev() {
                let child = self.number();
                self.fill(child, level - 1, keys.split_off(at * entries / count));
                shape.children.push(PathChild { node: child, was: None });
                shape.keys.extend(keys.pop());
            }
            shape.children.reverse();
            shape.keys.reverse();
        }
        self.shapes.insert(node, shape);
    }
}

/// What entering a value behind the one at a label comes to if all below a node is laid out anew, and its encoding. `below`
/// are the nodes of that, `top` among them.
pub(super) fn repack(
    head: &Head,
    top: (Node, u32, Label),
    below: Vec<Visit>,
    behind: Option<Label>,
    ciphertext: &[u8],
) -> Result<(TreeChange, Label), IndexError> {
    let (top, level, prefix) = top;
    let numbers = below.iter().map(|visit| visit.node).filter(|node| *node != top).collect();
    let mut keys: Vec<PathEntry> = below.into_iter().flat_map(|visit| visit.shape.keys).collect();
    keys.sort_unstable_by_key(|key| key.was);
    let at = keys.partition_point(|key| key.was <= behind);
    keys.insert(at, PathEntry { ciphertext: ciphertext.to_vec(), was: None });
    let mut layout = Layout { numbers, next: head.next, shapes: BTreeMap::new() };
    layout.fill(top, level, keys);
    let after = Head { version: head.version + 1, values: head.values + 1, next: layout.next, ..*head };
    let mut paths = Paths::new(&layout.shapes);
    paths.compare(top, prefix)?;
    let (mut change, label) = paths.change(head.version, after, ciphertext);
    change.nodes.extend(layout.numbers.iter().map(|gone| (*gone, None)));
    Ok((change, label))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(at: usize) -> PathEntry {
        PathEntry { ciphertext: (at as u64).to_be_bytes().to_vec(), was: None }
    }

    #[test]
    fn keys_are_laid_out_in_their_order_in_nodes_that_are_neither_empty_nor_too_full() {
        for (level, most) in [(0, 8), (1, 64), (2, 512), (3, 4096)] {
            for entries in FEWEST.pow(level + 1) as usize..=most {
                let mut layout = Layout { numbers: vec![70, 60], next: 100, shapes: BTreeMap::new() };
                layout.fill(50, level, (1..entries).map(key).collect());
                let sizes = layout.shapes.values().map(|shape| shape.keys.len());
                assert!(sizes.clone().all(|size| (1..CHILDREN_MAX).contains(&size)), "{level} {entries}");
                assert_eq!(sizes.sum::<usize>(), entries - 1);
                let mut paths = Paths::new(&layout.shapes);
                assert!(paths.compare(50, 0).is_ok());
            }
        }
    }

    #[test]
    fn room_is_scarce_above_three_quarters() {
        let rooms = [46, 47, 62, 63].map(|keys| Room::of(1, keys));
        assert_eq!(rooms, [Room::Ample, Room::Scarce, Room::Scarce, Room::Full]);
    }
}
