//! A POPE tree: labels in order, and elements that lie between two of them. The layout is that of
//! `arras_server::pope`.

use crate::attacks::{AttackFailure, Owners, Ranks, Symmetry, WatchedRun};
use arras_protocol::codec;
use arras_protocol::pope::{Node, Pope, Request};
use arras_storage::Table;
use serde::Deserialize;
use std::collections::HashMap;

const HEADS: Table = Table("pope_heads");
const NODES: Table = Table("pope_nodes");
const BUFFERS: Table = Table("pope_buffers");
const CHILD_BYTES: usize = 8;

#[derive(Deserialize)]
#[allow(dead_code, reason = "the stored form has these fields")]
struct Head {
    page_bytes: u32,
    element_bytes: u16,
    root: Node,
    unused: u64,
    version: u64,
    epoch: u64,
    superseded_below: u64,
}

/// The tree as stored.
struct Tree {
    element_bytes: usize,
    /// Labels and children by node number.
    inner: HashMap<u64, (Vec<Vec<u8>>, Vec<Node>)>,
    /// Elements by node number.
    buffers: HashMap<u64, Vec<Vec<u8>>>,
}

/// Where elements lie: the count of elements in leaves before them and up to the end of where they may be.
struct Placed {
    places: HashMap<Vec<u8>, (usize, usize)>,
    /// How many elements leaves have.
    settled: usize,
}

const UNREADABLE: AttackFailure = AttackFailure::Unreadable("a POPE tree's nodes");

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

impl Tree {
    fn read(run: &WatchedRun) -> Result<(Self, Node), AttackFailure> {
        let head = run.table(HEADS)?.pop().ok_or(UNREADABLE)?.1;
        let head: Head = codec::decode(&head).map_err(|_| UNREADABLE)?;
        let element_bytes = usize::from(head.element_bytes).max(1);
        let mut tree = Self { element_bytes, inner: HashMap::new(), buffers: HashMap::new() };
        for (key, page) in run.table(NODES)? {
            let node = tree.node(&page).ok_or(UNREADABLE)?;
            tree.inner.insert(number(&key).ok_or(UNREADABLE)?, node);
        }
        for (key, page) in run.table(BUFFERS)? {
            let node = key.get(..8).and_then(number).ok_or(UNREADABLE)?;
            let elements = page.chunks_exact(element_bytes).map(<[u8]>::to_vec);
            tree.buffers.entry(node).or_default().extend(elements);
        }
        Ok((tree, head.root))
    }

    fn node(&self, page: &[u8]) -> Option<(Vec<Vec<u8>>, Vec<Node>)> {
        let (&[_, count], rest) = page.split_first_chunk::<2>()?;
        let (labels, children) = rest.split_at_checked(usize::from(count) * self.element_bytes)?;
        let labels = labels.chunks_exact(self.element_bytes).map(<[u8]>::to_vec).collect();
        let children = children.chunks_exact(CHILD_BYTES).filter_map(number).map(Node).collect();
        Some((labels, children))
    }

    /// Goes through a subtree from left to right.
    fn place(&self, node: Node, placed: &mut Placed) {
        let from = placed.settled;
        let mut labels_at = Vec::new();
        let buffer = self.buffers.get(&node.number()).map_or(&[][..], Vec::as_slice);
        match self.inner.get(&node.number()).filter(|_| node.is_inner()) {
            None => placed.settled += buffer.len(),
            Some((labels, children)) => {
                for (at, child) in children.iter().enumerate() {
                    self.place(*child, placed);
                    labels_at.extend(labels.get(at).map(|label| (label.clone(), placed.settled)));
                }
            }
        }
        let until = placed.settled;
        for element in buffer {
            placed.places.insert(element.clone(), (from, until));
        }
        // A label is a copy of the greatest element left of it.
        for (label, end) in labels_at {
            if placed.places.contains_key(&label) {
                placed.places.insert(label, (end.saturating_sub(1), end));
            }
        }
    }
}

/// For each element the share of the elements in leaves that are before the leaf, or the subtree, in whose buffer it is, and up
/// to its end. The elements in inner nodes' buffers, which may come between those, are taken to be spread like them.
pub(super) fn ranks(run: &WatchedRun) -> Result<Ranks, AttackFailure> {
    let owners = Owners::new(run, |exchange| match exchange.of::<Pope>()?.0 {
        Request::Insert { elements, .. } => Some(elements.0),
        _ => None,
    })?;
    let (tree, root) = Tree::read(run)?;
    let mut placed = Placed { places: HashMap::new(), settled: 0 };
    tree.place(root, &mut placed);
    let mut intervals = vec![(0.0, 1.0); owners.len()];
    for (element, (from, until)) in placed.places {
        if until > from {
            let share = |count: usize| count as f64 / placed.settled as f64;
            intervals[owners.of(&element)?] = (share(from), share(until));
        }
    }
    Ok(Ranks { intervals, symmetry: Symmetry::None, groups: None })
}
