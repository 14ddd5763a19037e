//! ArxRange: range index of garbled circuits chained down a history-independent treap (Arx, VLDB'19, §4),
//! with buckets.
//!
//! *Shape.* Entries are `key || tie-break`, fixed width, compared as big-endian byte strings. A pseudorandom
//! one in `B` is a *separator*: it has a [`NodeId`], a place in the treap, and the bucket of the entries from
//! itself up to the next separator. [`NodeId::HEAD`] is the bucket below the first separator. Buckets form a
//! doubly linked list in key order. The separators of highest priority are *top nodes*: the client holds
//! them in the clear, no circuit exists for them, and what lies between two of them is one tree of the forest.
//! The *gap* of a top node (or of `HEAD`) is the root of the tree right after it.
//!
//! *Circuits.* Each tree node has two, one for each side of a range ([`Side`]), so that both bounds walk at
//! once. A circuit compares the input `a` with its hidden separator `v`: outcome `a < v` goes left, else
//! right. It may be evaluated once. Circuits are soft state: written relaxed, remade by the client.
//!
//! *Links.* A circuit names the garblings of the children it leads to, under a tag only the client can make
//! ([`Links`]). The client knows the roots' garblings; so a path reported from a root is authenticated down to
//! the garblings of the siblings it passes, and no server can make the client lead two walks into one circuit.
//!
//! *Leakage.* Snapshot: number of buckets, their padded sizes and their order, which is that of the keys and in which
//! every node has its place, treap shape; how many entries many-entry inserts added to each bucket since it was last
//! rewritten, and with which others of the bucket they came. Search: bucket ranks of the
//! bounds, the buckets returned. Insert and remove: rank of the bucket.

pub use crate::order::Order;

use crate::bytes::Blob;
use crate::channel::Protocol;
use crate::ids::{IndexId, NodeId};
use crate::table::{self, Row};
use serde::{Deserialize, Serialize};

/// The protocol.
#[derive(Debug)]
pub struct ArxRange;

/// Which of a node's two circuits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Side {
    /// Walks to a range's lower bound; also used by inserts and removals.
    Lower,
    /// Walks to a range's upper bound.
    Upper,
}

/// Name of one garbling of one circuit: the client never opens labels under a nonce twice. A
/// permuted counter: it comes once and shows no order. Also the AES key of the circuit's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CircuitNonce(pub [u8; 16]);

/// What the outcome of a circuit unlocks for one child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The garbling of the child's circuit (same side) whose input labels are unlocked.
    pub child: CircuitNonce,
    /// 16 bytes for each input bit, least significant bit of the key first: child label xor own label,
    /// encrypted under the outcome label.
    pub rows: Blob,
}

/// One garbled comparator of `n` input bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circuit {
    /// Which garbling this is.
    pub nonce: CircuitNonce,
    /// The select bit (least significant bit) that the outcome label for "right" (`a >= v`) carries.
    pub right_select: bool,
    /// Label of the constant-zero carry input, 16 bytes.
    pub carry: [u8; 16],
    /// Half-gates: 2 x 16 bytes a bit (generator half, evaluator half), least significant bit first.
    pub gates: Blob,
    /// For the left child, where there is one.
    pub left: Option<Transition>,
    /// For the right child, where there is one.
    pub right: Option<Transition>,
    /// The client's tag over node, side and garblings named here ([`Links::tag`]).
    pub tag: [u8; 16],
}

/// What a circuit leads to: its garbling and the children's, authenticated by the client to itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    /// The circuit's own garbling.
    pub nonce: CircuitNonce,
    /// The left child's (same side), where there is one.
    pub left: Option<CircuitNonce>,
    /// The right child's.
    pub right: Option<CircuitNonce>,
    /// The client's tag over index, node, side and the garblings.
    pub tag: [u8; 16],
}

impl Circuit {
    /// What the circuit leads to.
    #[must_use]
    pub fn links(&self) -> Links {
        Links {
            nonce: self.nonce,
            left: self.left.as_ref().map(|transition| transition.child),
            right: self.right.as_ref().map(|transition| transition.child),
            tag: self.tag,
        }
    }
}

/// A [`Transition`] as it lies in the bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct TransitionRef<'b> {
    /// [`Transition::child`].
    pub child: CircuitNonce,
    /// [`Transition::rows`].
    pub rows: &'b [u8],
}

/// A [`Circuit`] as it lies in the bytes that [`crate::codec::encode`] made of it: most of it is read once, where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct CircuitRef<'b> {
    /// [`Circuit::nonce`].
    pub nonce: CircuitNonce,
    /// [`Circuit::right_select`].
    pub right_select: bool,
    /// [`Circuit::carry`].
    pub carry: [u8; 16],
    /// [`Circuit::gates`].
    pub gates: &'b [u8],
    /// [`Circuit::left`].
    #[serde(borrow)]
    pub left: Option<TransitionRef<'b>>,
    /// [`Circuit::right`].
    pub right: Option<TransitionRef<'b>>,
    /// [`Circuit::tag`].
    pub tag: [u8; 16],
}

impl CircuitRef<'_> {
    /// What the circuit leads to.
    #[must_use]
    pub fn links(&self) -> Links {
        Links {
            nonce: self.nonce,
            left: self.left.as_ref().map(|transition| transition.child),
            right: self.right.as_ref().map(|transition| transition.child),
            tag: self.tag,
        }
    }
}

/// Structure of a tree node: durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeNode {
    /// Left child.
    pub left: Option<NodeId>,
    /// Right child.
    pub right: Option<NodeId>,
    /// Sealed separator and partial aggregates of the bucket and of both subtrees.
    pub sealed: Blob,
}

/// A top node: durable. Its place among the others is not recorded here; the list of buckets shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopNode {
    /// Root of the tree right after it.
    pub gap: Option<NodeId>,
    /// Sealed separator and partial aggregates of the bucket and of the gap's tree.
    pub sealed: Blob,
}

/// A bucket: durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// The bucket before; none for `HEAD`.
    pub previous: Option<NodeId>,
    /// The bucket after.
    pub next: Option<NodeId>,
    /// Sealed entries, padded in steps of 256 bytes or of eight entries, whichever is more.
    pub sealed: Blob,
}

/// Where a range ends: at a bucket the client knows, or wherever a walk leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// This bucket.
    Bucket(NodeId),
    /// The bucket a walk ends in.
    Walk(Walk),
}

/// A walk down one tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    /// Where to start.
    pub root: NodeId,
    /// Which circuits to use.
    pub side: Side,
    /// The garbling of the root's circuit the labels are for; the server answers
    /// [`crate::Refusal::Stale`] if it holds another.
    pub nonce: CircuitNonce,
    /// Active input labels, 16 bytes a bit, least significant bit of the key first. One-shot capability.
    pub labels: Blob,
    /// Report the links of both of a node's circuits, not only of the one walked: what a change of the tree
    /// needs.
    pub both_sides: bool,
    /// The bucket the walk ends in if it only ever goes left: that of the top node before the tree, or `HEAD`.
    pub before: NodeId,
}

/// What may be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The head's gap and all top nodes: the client's directory.
    LoadTop {
        /// Where.
        index: IndexId,
        /// Only those named after this one (a reply that was cut is continued so).
        after: Option<NodeId>,
    },
    /// Nodes of some trees (to remake their circuits, or to place many entries at once).
    LoadTrees {
        /// Where.
        index: IndexId,
        /// Their roots; any node will do as the root of its subtree.
        roots: Vec<NodeId>,
        /// Levels to return: 1 is the roots alone.
        depth: u32,
    },
    /// Buckets by name.
    Buckets {
        /// Where.
        index: IndexId,
        /// Which, in the order in which they are to come.
        nodes: Vec<NodeId>,
    },
    /// Finds both bounds and returns the buckets between, bounds included.
    Search {
        /// Where.
        index: IndexId,
        /// Lower end.
        lower: Bound,
        /// Upper end; none if it is the lower end's bucket (a point).
        upper: Option<Bound>,
        /// From which end, if cut.
        order: Order,
        /// Most buckets in the reply; it may hold fewer ([`crate::limits::REPLY_BYTES_SOFT`]). With 0 the two
        /// bounding buckets only are returned (both once if they are one): what an aggregate needs.
        buckets_max: u32,
    },
    /// Further buckets of a search that was cut.
    Continue {
        /// Where.
        index: IndexId,
        /// First bucket to return.
        from: NodeId,
        /// Last bucket to return.
        until: NodeId,
        /// Direction.
        order: Order,
        /// Most buckets in the reply.
        buckets_max: u32,
    },
}

/// One node of a walked path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathStep {
    /// The node.
    pub node: NodeId,
    /// Its stored structure.
    pub record: TreeNode,
    /// True if the walk went right (`a >= v`).
    pub went_right: bool,
    /// What its circuit for lower bounds leads to, if it was walked or asked for, and exists.
    pub lower: Option<Links>,
    /// The same of its circuit for upper bounds.
    pub upper: Option<Links>,
}

/// A bucket in a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundBucket {
    /// Node whose bucket it is.
    pub node: NodeId,
    /// The bucket.
    pub bucket: Bucket,
    /// Sealed entries that were added since it was stored ([`Change::AddEntries`]), in no order that means anything.
    pub added: Vec<Blob>,
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// To `LoadTop`.
    Top {
        /// Root of the tree before the first top node.
        head_gap: Option<NodeId>,
        /// Sealed aggregates of the head bucket and of the head gap's tree; as last written.
        head_sealed: Blob,
        /// The top nodes, in no order that means anything.
        nodes: Vec<(NodeId, TopNode)>,
        /// True if the reply was cut and there are further ones.
        more: bool,
    },
    /// To `LoadTrees`: parents before children, at least one node. A reply at
    /// [`crate::limits::REPLY_BYTES_SOFT`] is cut: what is missing is asked for again.
    Trees(Vec<(NodeId, TreeNode)>),
    /// To `Buckets`: the first of those asked for, at least one.
    Buckets(Vec<FoundBucket>),
    /// To `Search` and `Continue`.
    Found {
        /// Path of the lower bound's walk from its root, if it walked.
        lower: Vec<PathStep>,
        /// The bucket the lower bound is in.
        lower_bucket: NodeId,
        /// Path of the upper bound's walk.
        upper: Vec<PathStep>,
        /// The bucket the upper bound is in.
        upper_bucket: NodeId,
        /// Buckets in the order asked for.
        buckets: Vec<FoundBucket>,
        /// Where to continue if the reply was cut.
        next: Option<NodeId>,
    },
}

/// A change, as a step of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Makes an index with an empty head bucket; no effect if it exists.
    CreateIndex {
        /// Drawn by the client; no index of the server has it yet, or this one.
        index: IndexId,
        /// Width of a key with its tie-break, in bytes.
        key_bytes: u8,
        /// The empty head bucket, sealed.
        head_bucket: Blob,
        /// The head's sealed aggregates.
        head_sealed: Blob,
    },
    /// Drops an index.
    DropIndex {
        /// Which one.
        index: IndexId,
    },
    /// Root of the tree before the first top node, and the head's sealed aggregates.
    PutHead {
        /// Where.
        index: IndexId,
        /// The root.
        gap: Option<NodeId>,
        /// Sealed aggregates.
        sealed: Blob,
    },
    /// Stores a top node (and removes a tree node of that name).
    PutTop {
        /// Where.
        index: IndexId,
        /// Which.
        node: NodeId,
        /// The node.
        record: TopNode,
    },
    /// Stores a tree node (and removes a top node of that name).
    PutNode {
        /// Where.
        index: IndexId,
        /// Which.
        node: NodeId,
        /// The node.
        record: TreeNode,
    },
    /// Removes a node, its bucket and its circuits.
    RemoveNode {
        /// Where.
        index: IndexId,
        /// Which.
        node: NodeId,
    },
    /// Stores a bucket's entries, and removes what was added to it; its place among the others stays.
    PutBucket {
        /// Where.
        index: IndexId,
        /// Which.
        node: NodeId,
        /// Sealed entries.
        sealed: Blob,
    },
    /// Adds entries to a stored bucket without rewriting it: one sealed record beside it. Added again, it is there once.
    /// That the bucket is there is looked at; what is in it is not read.
    AddEntries {
        /// Where.
        index: IndexId,
        /// Which bucket.
        node: NodeId,
        /// Sealed entries, padded to a power of two of them. Its first 12 bytes, the nonce, are its name.
        sealed: Blob,
    },
    /// Makes two stored buckets neighbours.
    LinkBuckets {
        /// Where.
        index: IndexId,
        /// The one before.
        left: NodeId,
        /// The one after; none if `left` is the last.
        right: Option<NodeId>,
    },
    /// Stores one circuit of a tree node. Steps of this kind alone make up relaxed writes.
    PutCircuit {
        /// Where.
        index: IndexId,
        /// Which node.
        node: NodeId,
        /// Which of its two.
        side: Side,
        /// The circuit.
        circuit: Circuit,
    },
}

impl Change {
    /// The index that it changes.
    #[must_use]
    pub fn index(&self) -> IndexId {
        match self {
            Self::CreateIndex { index, .. }
            | Self::DropIndex { index, .. }
            | Self::PutHead { index, .. }
            | Self::PutTop { index, .. }
            | Self::PutNode { index, .. }
            | Self::RemoveNode { index, .. }
            | Self::PutBucket { index, .. }
            | Self::AddEntries { index, .. }
            | Self::LinkBuckets { index, .. }
            | Self::PutCircuit { index, .. } => *index,
        }
    }
}

impl Protocol for ArxRange {
    const ROW: &'static Row = &table::ARX_RANGE;
    type Request = Request;
    type Response = Response;
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;
    use crate::codec;

    #[test]
    fn a_circuit_is_read_where_it_lies_as_it_is_decoded() {
        let rows = |byte: u8| Blob(vec![byte; 2048]);
        let transition = |byte| Transition { child: CircuitNonce([byte; 16]), rows: rows(byte) };
        for (left, right) in [(None, None), (Some(1), None), (None, Some(2)), (Some(3), Some(4))] {
            let circuit = Circuit {
                nonce: CircuitNonce([7; 16]),
                right_select: left.is_some(),
                carry: [8; 16],
                gates: Blob((0..4096_u32).map(|gate| gate.to_le_bytes()[0]).collect()),
                left: left.map(transition),
                right: right.map(transition),
                tag: [9; 16],
            };
            let encoded = codec::encode(&circuit);
            let found: CircuitRef<'_> =
                codec::decode_borrowed(&encoded, codec::EXPANSION).expect("a circuit");
            assert_eq!(found.links(), circuit.links());
            assert_eq!((found.nonce, found.right_select), (circuit.nonce, circuit.right_select));
            assert_eq!((found.carry, found.gates), (circuit.carry, circuit.gates.as_slice()));
            for (found, expected) in [(found.left, &circuit.left), (found.right, &circuit.right)] {
                let expected = expected.as_ref().map(|expected| (expected.child, expected.rows.as_slice()));
                assert_eq!(found.map(|found| (found.child, found.rows)), expected);
            }
            let cut = encoded.get(..encoded.len() - 1).expect("it is not empty");
            assert!(codec::decode_borrowed::<CircuitRef<'_>>(cut, codec::EXPANSION).is_err());
        }
    }
}
