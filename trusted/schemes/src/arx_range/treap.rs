//! The treap as far as the client has it in hand: nodes along a walked path or of a whole tree, and *stubs* for
//! subtrees that stayed with the server.
//!
//! Priorities are a pseudorandom function of the separators, so the shape is a function of the set alone.
//! A change forgets the garblings of every node it passes ([`Node::nonces`]); what is then without a garbling is
//! garbled anew, and nothing else.

use super::aggregate::Aggregate;
use super::epoch::Epochs;
use super::garbling::GarbleItem;
use super::secrets::Place;
use crate::error::IndexError;
use arras_protocol::NodeId;
use arras_protocol::arx_range::{CircuitNonce, Side};
use std::cmp::Ordering;
use std::mem::replace;

/// Garblings of a node's circuits (lower, upper), where known and unused.
pub(super) type Nonces = [Option<CircuitNonce>; 2];

/// The place of a side in [`Nonces`].
pub(super) fn side_index(side: Side) -> usize {
    match side {
        Side::Lower => 0,
        Side::Upper => 1,
    }
}

/// A subtree.
pub(super) enum Link {
    Empty,
    Node(Box<Node>),
    Stub(Box<Stub>),
}

/// A subtree the client knows by name only.
pub(super) struct Stub {
    pub(super) node: NodeId,
    pub(super) total: Aggregate,
    pub(super) nonces: Nonces,
}

/// A node in hand.
pub(super) struct Node {
    pub(super) node: NodeId,
    pub(super) separator: Place,
    pub(super) priority: u64,
    /// Aggregate of the node's bucket.
    pub(super) own: Aggregate,
    pub(super) left: Link,
    pub(super) right: Link,
    pub(super) left_total: Aggregate,
    pub(super) right_total: Aggregate,
    /// Children as the server has them; `None` if it does not have this tree node.
    pub(super) stored: Option<[Option<NodeId>; 2]>,
    /// True if an aggregate is not as the server has it.
    pub(super) aggregate_changed: bool,
    pub(super) nonces: Nonces,
}

/// A change needs a subtree that is not in hand: the paths do not belong to one tree.
fn not_in_hand() -> IndexError {
    IndexError::Peer("a path leaves out part of its tree")
}

impl Node {
    fn above(&self, other: &Self) -> bool {
        (self.priority, &self.separator) > (other.priority, &other.separator)
    }

    pub(super) fn children(&self) -> [Option<NodeId>; 2] {
        [self.left.id(), self.right.id()]
    }

    /// True if the server's record is not what it should be.
    pub(super) fn is_changed(&self) -> bool {
        self.aggregate_changed || self.stored != Some(self.children())
    }

    /// Aggregate of the node's subtree.
    pub(super) fn total(&self) -> Aggregate {
        let mut total = self.left_total.clone();
        total.merge(&self.own);
        total.merge(&self.right_total);
        total
    }
}

impl Link {
    pub(super) fn id(&self) -> Option<NodeId> {
        match self {
            Self::Empty => None,
            Self::Node(node) => Some(node.node),
            Self::Stub(stub) => Some(stub.node),
        }
    }

    pub(super) fn take(&mut self) -> Self {
        replace(self, Self::Empty)
    }

    /// Adds a node whose separator is not there yet.
    pub(super) fn insert(self, mut new: Box<Node>) -> Result<Self, IndexError> {
        match self {
            Self::Empty => Ok(Self::Node(new)),
            Self::Stub(_) => Err(not_in_hand()),
            Self::Node(mut node) if node.above(&new) => {
                node.nonces = [None; 2];
                if node.separator < new.separator {
                    node.right = node.right.take().insert(new)?;
                } else {
                    node.left = node.left.take().insert(new)?;
                }
                Ok(Self::Node(node))
            }
            Self::Node(_) => {
                let (left, right) = self.split(&new.separator)?;
                new.left = left;
                new.right = right;
                Ok(Self::Node(new))
            }
        }
    }

    /// Parts the nodes below `at` from the others.
    pub(super) fn split(self, at: &[u8]) -> Result<(Self, Self), IndexError> {
        match self {
            Self::Empty => Ok((Self::Empty, Self::Empty)),
            Self::Stub(_) => Err(not_in_hand()),
            Self::Node(mut node) => {
                node.nonces = [None; 2];
                if &*node.separator < at {
                    let (below, above) = node.right.take().split(at)?;
                    node.right = below;
                    Ok((Self::Node(node), above))
                } else {
                    let (below, above) = node.left.take().split(at)?;
                    node.left = above;
                    Ok((below, Self::Node(node)))
                }
            }
        }
    }

    /// Puts two trees together, all of whose separators are in this order.
    pub(super) fn join(self, other: Self) -> Result<Self, IndexError> {
        match (self, other) {
            (Self::Empty, link) | (link, Self::Empty) => Ok(link),
            (Self::Node(mut left), Self::Node(right)) if left.above(&right) => {
                left.nonces = [None; 2];
                left.right = left.right.take().join(Self::Node(right))?;
                Ok(Self::Node(left))
            }
            (left @ Self::Node(_), Self::Node(mut right)) => {
                right.nonces = [None; 2];
                right.left = left.join(right.left.take())?;
                Ok(Self::Node(right))
            }
            _ => Err(not_in_hand()),
        }
    }

    /// Removes the node of a separator, which must be there.
    pub(super) fn remove(self, separator: &[u8]) -> Result<Self, IndexError> {
        match self {
            Self::Empty | Self::Stub(_) => Err(not_in_hand()),
            Self::Node(node) if &*node.separator == separator => node.left.join(node.right),
            Self::Node(mut node) => {
                node.nonces = [None; 2];
                if &*node.separator < separator {
                    node.right = node.right.take().remove(separator)?;
                } else {
                    node.left = node.left.take().remove(separator)?;
                }
                Ok(Self::Node(node))
            }
        }
    }

    /// The node with the greatest separator that is not above `place`.
    pub(super) fn floor(&self, place: &[u8]) -> Result<Option<&Node>, IndexError> {
        let (mut link, mut found) = (self, None);
        loop {
            match link {
                Self::Empty => return Ok(found),
                Self::Stub(_) => return Err(not_in_hand()),
                Self::Node(node) if place < &*node.separator => link = &node.left,
                Self::Node(node) => {
                    found = Some(&**node);
                    link = &node.right;
                }
            }
        }
    }

    /// The node of a separator.
    pub(super) fn find_mut(&mut self, separator: &[u8]) -> Option<&mut Node> {
        let Self::Node(node) = self else { return None };
        match separator.cmp(&node.separator) {
            Ordering::Less => node.left.find_mut(separator),
            Ordering::Equal => Some(node),
            Ordering::Greater => node.right.find_mut(separator),
        }
    }

    /// Brings the aggregates of all nodes in hand up to date; `zero` is the aggregate of nothing.
    pub(super) fn refresh(&mut self, zero: &Aggregate) -> Aggregate {
        match self {
            Self::Empty => zero.clone(),
            Self::Stub(stub) => stub.total.clone(),
            Self::Node(node) => {
                let (left, right) = (node.left.refresh(zero), node.right.refresh(zero));
                if left != node.left_total || right != node.right_total {
                    node.left_total = left;
                    node.right_total = right;
                    node.aggregate_changed = true;
                }
                node.total()
            }
        }
    }

    /// Adds the buckets of all separators strictly between the ends; no end, no bound.
    pub(super) fn sum_between(
        &self,
        above: Option<&[u8]>,
        below: Option<&[u8]>,
        sum: &mut Aggregate,
    ) -> Result<(), IndexError> {
        match self {
            Self::Empty => Ok(()),
            Self::Stub(stub) if above.is_none() && below.is_none() => {
                sum.merge(&stub.total);
                Ok(())
            }
            Self::Stub(_) => Err(not_in_hand()),
            Self::Node(node) => {
                let separator = &*node.separator;
                let after_start = above.is_none_or(|above| above < separator);
                let before_end = below.is_none_or(|below| separator < below);
                // An end at the separator itself bounds neither subtree.
                if after_start {
                    let below = below.filter(|below| *below < separator);
                    node.left.sum_between(above, below, sum)?;
                }
                if after_start && before_end {
                    sum.merge(&node.own);
                }
                if before_end {
                    let above = above.filter(|above| *above > separator);
                    node.right.sum_between(above, below, sum)?;
                }
                Ok(())
            }
        }
    }

    /// Names garblings for the circuits of one side that have none, children before parents, and lists what is
    /// to be garbled. Returns the root's garbling; nothing is listed twice.
    pub(super) fn renew(
        &mut self,
        side: Side,
        epochs: &Epochs,
        items: &mut Vec<GarbleItem>,
    ) -> Result<Option<CircuitNonce>, IndexError> {
        match self {
            Self::Empty => Ok(None),
            Self::Stub(stub) => stub.nonces[side_index(side)].map(Some).ok_or_else(not_in_hand),
            Self::Node(node) => {
                if let Some(nonce) = node.nonces[side_index(side)] {
                    return Ok(Some(nonce));
                }
                let left = node.left.renew(side, epochs, items)?;
                let right = node.right.renew(side, epochs, items)?;
                let nonce = epochs.next();
                node.nonces[side_index(side)] = Some(nonce);
                let separator = node.separator.clone();
                items.push(GarbleItem { node: node.node, side, separator, nonce, left, right });
                Ok(Some(nonce))
            }
        }
    }

    /// Nodes in hand.
    pub(super) fn node_count(&self) -> usize {
        match self {
            Self::Empty | Self::Stub(_) => 0,
            Self::Node(node) => 1 + node.left.node_count() + node.right.node_count(),
        }
    }

    /// The tree as the server has it once a change is made, without garblings; none if part of it is not in hand.
    pub(super) fn settled(mut self) -> Option<Self> {
        self.settle().then_some(self)
    }

    fn settle(&mut self) -> bool {
        match self {
            Self::Empty => true,
            Self::Stub(_) => false,
            Self::Node(node) => {
                node.stored = Some(node.children());
                node.aggregate_changed = false;
                node.nonces = [None; 2];
                node.left.settle() && node.right.settle()
            }
        }
    }

    /// Visits the nodes in hand, in key order.
    pub(super) fn visit(&self, visit: &mut impl FnMut(&Node)) {
        if let Self::Node(node) = self {
            node.left.visit(visit);
            visit(node);
            node.right.visit(visit);
        }
    }

    /// Parts off the nodes for which `is_top`, which must be closed upwards and in hand: they and the trees
    /// between them, in key order.
    pub(super) fn part(
        self,
        is_top: &impl Fn(u64) -> bool,
        parts: &mut Vec<(Self, Box<Node>)>,
    ) -> Result<Self, IndexError> {
        match self {
            Self::Node(mut node) if is_top(node.priority) => {
                let left = node.left.take().part(is_top, parts)?;
                let right = node.right.take();
                parts.push((left, node));
                right.part(is_top, parts)
            }
            link => Ok(link),
        }
    }

    /// The reverse: a tree of `parts` and the trees between, where every part is above every tree.
    pub(super) fn assemble(mut parts: Vec<(Self, Box<Node>)>, last: Self) -> Self {
        let highest = (0..parts.len())
            .reduce(|best, other| if parts[other].1.above(&parts[best].1) { other } else { best });
        let Some(highest) = highest else { return last };
        let after = parts.split_off(highest + 1);
        let Some((between, mut root)) = parts.pop() else {
            return last;
        };
        root.left = Self::assemble(parts, between);
        root.right = Self::assemble(after, last);
        Self::Node(root)
    }
}
