//! POPE (Roche, Apon, Choi, Yerukhimovich, CCS 2016; VLDB'19 comparison, §4.3): a buffer tree that queries sort.
//!
//! *Shape.* The server keeps a tree. An *inner* node has sorted *labels*, one child more than labels, and a
//! *buffer* of elements on their way down; a *leaf* is a buffer alone. An element is sealed and of a fixed length;
//! a label is a copy of an element. Child `i` holds the elements greater than label `i - 1` and not greater than
//! label `i`; only the client can tell. An insertion appends to the root's buffer.
//!
//! *A search* goes down to the leaves of the range's two ends. On its way the client empties the buffers it
//! meets ([`Request::Push`]: it says for each element which child) and splits leaves of more than a node's worth of
//! elements ([`Request::Split`]: the server draws labels, the client sorts them). Then the server returns
//! all buffers between the two paths ([`Request::Collect`]), those of inner nodes as well.
//!
//! *Every request leaves a whole tree*: elements move to a child in the transaction that takes them from the
//! parent, and a leaf under split is an inner node (*splitting*) until it has no buffer left; then its labels go
//! to its parent, and nodes with too many are split upwards, without the client.
//!
//! *Randomness.* Which elements become labels is drawn from a seed the client sends, so that runs replay. The
//! server learns the order of the labels, of its choice if it does not follow the seed: the number of labels, not
//! their choice, bounds what it learns of the order, and that number it gets from the client's answers.
//!
//! *Leakage.* [`crate::leakage::POPE`].

use crate::Blob;
use crate::channel::{Protocol, ProtocolId};
use crate::ids::IndexId;
use serde::{Deserialize, Serialize};

/// Most labels of a node, whatever the page: a child is named by one byte.
pub const LABELS_MAX: usize = 255;

/// Fewest labels that a page must hold.
pub const LABELS_MIN: usize = 3;

/// Bytes of an inner node's page besides its labels and one child for each.
const NODE_OVERHEAD_BYTES: usize = 2 + CHILD_BYTES;

/// Bytes of a child's name in a page.
const CHILD_BYTES: usize = 8;

/// L: labels of an inner node, and elements of a leaf that is not split. `None` if fewer than [`LABELS_MIN`] fit.
#[must_use]
pub const fn labels_per_node(page_bytes: usize, element_bytes: usize) -> Option<usize> {
    let labels = page_bytes.saturating_sub(NODE_OVERHEAD_BYTES) / (element_bytes.saturating_add(CHILD_BYTES));
    if labels < LABELS_MIN {
        None
    } else if labels > LABELS_MAX {
        Some(LABELS_MAX)
    } else {
        Some(labels)
    }
}

/// Bytes of the smallest page for elements of one length.
#[must_use]
pub const fn page_bytes_min(element_bytes: usize) -> usize {
    NODE_OVERHEAD_BYTES.saturating_add(LABELS_MIN.saturating_mul(element_bytes.saturating_add(CHILD_BYTES)))
}

/// The protocol.
#[derive(Debug)]
pub struct Pope;

/// A node: its number, and whether it is an inner one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Node(pub u64);

impl Node {
    /// The leaf of a number below 2^63.
    #[must_use]
    pub const fn leaf(number: u64) -> Self {
        Self(number << 1)
    }

    /// Its number. A leaf that becomes an inner node keeps it.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0 >> 1
    }

    /// Whether it has labels and children.
    #[must_use]
    pub const fn is_inner(self) -> bool {
        self.0 & 1 == 1
    }

    /// The same node as an inner one.
    #[must_use]
    pub const fn inner(self) -> Self {
        Self(self.0 | 1)
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Makes an index of elements of one length; no effect if there is one of these parameters.
    CreateIndex {
        /// Its name.
        index: IndexId,
        /// Bytes of a page: of a node's labels and of a piece of a buffer.
        page_bytes: u32,
        /// Bytes of a sealed element.
        element_bytes: u16,
    },
    /// Drops an index.
    DropIndex {
        /// Its name.
        index: IndexId,
    },
    /// Appends elements to the root's buffer.
    Insert {
        /// Where.
        index: IndexId,
        /// Elements, one after the other.
        elements: Blob,
    },
    /// Shows what the client has to know and do at some nodes.
    Look {
        /// Where.
        index: IndexId,
        /// Which; none for the root.
        nodes: Vec<Node>,
        /// Most pages of a [`Chunk`].
        pages_max: u32,
        /// What labels are drawn with.
        seed: [u8; 16],
    },
    /// Moves the first elements of an inner node's buffer to its children.
    Push {
        /// Where.
        index: IndexId,
        /// From the root to the node.
        path: Vec<Node>,
        /// The page where these elements begin, as the chunk said.
        page: u64,
        /// The child of each element of the chunk, a byte each.
        children: Blob,
        /// Most pages of the next chunk.
        pages_max: u32,
    },
    /// Makes a leaf an inner node with all its elements in the buffer and empty leaves as children.
    Split {
        /// Where.
        index: IndexId,
        /// From the root to the leaf.
        path: Vec<Node>,
        /// Sorted labels, one after the other.
        labels: Blob,
        /// Most pages of the first chunk.
        pages_max: u32,
    },
    /// Returns all elements between two paths, in those of the nodes and in those of whole subtrees. If one of the paths
    /// ends in a leaf that must be split, the answer is [`Response::Looked`] with these leaves.
    Collect {
        /// Where.
        index: IndexId,
        /// From the root to the first node.
        lower: Vec<Node>,
        /// From the root to the last node.
        upper: Vec<Node>,
        /// Where an earlier reply ended; its path takes the place of `lower`.
        resume: Option<Cursor>,
        /// What labels are drawn with.
        seed: [u8; 16],
    },
    /// Takes elements out; those that are not where they are said to be are left alone.
    Remove {
        /// Where.
        index: IndexId,
        /// Which.
        elements: Vec<Located>,
    },
}

/// Elements from the front of a buffer: whole pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Number of the first page.
    pub page: u64,
    /// Elements, one after the other.
    pub elements: Blob,
}

/// What there is at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum View {
    /// A leaf with at most L elements: the way down ends here.
    Leaf,
    /// A leaf that must be split: elements drawn as labels, unsorted.
    Oversized {
        /// Elements, one after the other.
        sample: Blob,
    },
    /// An inner node.
    Inner {
        /// Sorted labels, one after the other.
        labels: Blob,
        /// One more than labels.
        children: Vec<Node>,
        /// The front of its buffer, if that is not empty.
        buffered: Option<Chunk>,
    },
}

/// Pieces of the elements of a reply, and where they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Number of the node.
    pub node: u64,
    /// Page of its buffer.
    pub page: u64,
    /// How many elements.
    pub count: u32,
}

/// An element and where it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    /// Number of the node.
    pub node: u64,
    /// Page of its buffer.
    pub page: u64,
    /// The element.
    pub element: Blob,
}

/// Where a reply was cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// From the root to the next node.
    pub path: Vec<Node>,
    /// Next page of its buffer.
    pub page: u64,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// Done.
    Done,
    /// To [`Request::Look`], and to [`Request::Collect`] between unsorted leaves.
    Looked(Vec<(Node, View)>),
    /// To [`Request::Push`] and [`Request::Split`].
    Pushed {
        /// The front of what is left of the buffer.
        next: Option<Chunk>,
        /// True if nodes were split or joined: paths found before no longer hold.
        restructured: bool,
    },
    /// To [`Request::Collect`].
    Found {
        /// Where the elements are stored, in the same order.
        runs: Vec<Run>,
        /// Where to go on.
        next: Option<Cursor>,
        /// Elements, one after the other. The last: what follows a large part is a copy of it more to encode.
        elements: Blob,
    },
}

impl Protocol for Pope {
    const ID: ProtocolId = ProtocolId(9);
    const NAME: &'static str = "pope";
    type Request = Request;
    type Response = Response;

    /// The elements returned, false positives of the two end leaves included.
    fn result_bytes(response: &Response) -> usize {
        match response {
            Response::Found { elements, .. } => elements.len(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_4_kib_holds_the_labels_of_the_paper() {
        assert_eq!(labels_per_node(4096, 60), Some(60));
        assert_eq!(labels_per_node(1 << 16, 60), Some(LABELS_MAX));
        assert_eq!(page_bytes_min(60), 214);
        assert_eq!(labels_per_node(213, 60), None);
        assert_eq!(labels_per_node(214, 60), Some(LABELS_MIN));
        assert_eq!(labels_per_node(usize::MAX, usize::MAX), None);
    }

    #[test]
    fn a_leaf_keeps_its_number() {
        let leaf = Node::leaf(7);
        assert!(!leaf.is_inner() && leaf.inner().is_inner());
        assert_eq!((leaf.number(), leaf.inner().number()), (7, 7));
    }
}
