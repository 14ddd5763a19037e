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
//! *Versions.* What changes the tree's shape or takes elements out of a buffer raises the index's version, and is done
//! only if it names the version that the client has seen; so does [`Request::Collect`]. Otherwise
//! [`Response::Changed`] is the answer and nothing happened: a request that is late, repeated or crossed by another's
//! cannot touch other elements than it was made for. Appending raises no version: it adds to the end of the root's buffer,
//! and what was at the front stays there, so any number of insertions leave a search its way.
//!
//! *A removal* is an appended element, too, a *tombstone*, and looks like an insertion. Which of an entry's elements counts
//! is sealed in them; searches that meet the others have them taken out ([`Request::Purge`]).
//!
//! *As the index of a document's field* it changes in the document's write ([`Change`]). By itself
//! ([`Request::CreateIndex`], [`Request::Insert`]) the server gives each client that opens it an *epoch*, from which the
//! numbers of its changes follow.
//!
//! *Randomness.* Which elements become labels is drawn from a seed the client sends, so that runs replay. The
//! server learns the order of the labels, of its choice if it does not follow the seed: the number of labels, not
//! their choice, bounds what it learns of the order, and that number it gets from the client's answers.
//!
//! *Leakage.* [`crate::leakage::pope::POPE`].

use crate::Blob;
use crate::channel::Protocol;
use crate::ids::IndexId;
use crate::table::{self, Row};
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

/// What a write does to an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Makes an index of elements of one length; no effect if there is one of these parameters.
    CreateIndex {
        /// Drawn by the client; no index of the server has it yet, or this one.
        index: IndexId,
        /// Bytes of a page: of a node's labels and of a piece of a buffer.
        page_bytes: u32,
        /// Bytes of a sealed element.
        element_bytes: u16,
    },
    /// Drops an index.
    DropIndex {
        /// Which one.
        index: IndexId,
    },
    /// Appends elements to the root's buffer.
    Append {
        /// Where.
        index: IndexId,
        /// Elements, one after the other.
        elements: Blob,
    },
}

impl Change {
    /// The index that it changes.
    #[must_use]
    pub fn index(&self) -> IndexId {
        match self {
            Self::CreateIndex { index, .. } | Self::DropIndex { index, .. } | Self::Append { index, .. } => {
                *index
            }
        }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Makes an index of elements of one length, or opens the one of these parameters that is there, for a client of its
    /// own: begins an epoch.
    CreateIndex {
        /// Drawn by the client; no index of the server has it yet, or this one.
        index: IndexId,
        /// Bytes of a page: of a node's labels and of a piece of a buffer.
        page_bytes: u32,
        /// Bytes of a sealed element.
        element_bytes: u16,
        /// Whether insertions of earlier epochs are refused from here on, so that none of them comes late.
        supersede: bool,
    },
    /// Drops an index.
    DropIndex {
        /// Which one.
        index: IndexId,
    },
    /// Appends elements to the root's buffer.
    Insert {
        /// Where.
        index: IndexId,
        /// The client's epoch.
        epoch: u64,
        /// Elements, one after the other.
        elements: Blob,
    },
    /// Shows what the client has to know and do at some nodes.
    Look {
        /// Where.
        index: IndexId,
        /// Which, and the version that they were found in; none for the root of any version.
        nodes: Option<(u64, Vec<Node>)>,
        /// Most pages of a [`Chunk`].
        pages_max: u32,
        /// What labels are drawn with.
        seed: [u8; 16],
    },
    /// Moves the first elements of an inner node's buffer to its children.
    Push {
        /// Where.
        index: IndexId,
        /// The version of the chunk and of the node's labels.
        version: u64,
        /// From the root to the node.
        path: Vec<Node>,
        /// The child of each element of the chunk, a byte each.
        children: Blob,
        /// Most pages of the next chunk; 0 if none is asked for.
        pages_max: u32,
    },
    /// Makes a leaf an inner node with all its elements in the buffer and empty leaves as children.
    Split {
        /// Where.
        index: IndexId,
        /// The version of the sample.
        version: u64,
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
        /// The version of the paths.
        version: u64,
        /// From the root to the first node.
        lower: Vec<Node>,
        /// From the root to the last node.
        upper: Vec<Node>,
        /// Where an earlier reply ended; its path takes the place of `lower`.
        resume: Option<Cursor>,
        /// What labels are drawn with.
        seed: [u8; 16],
    },
    /// Takes elements out that no longer count: all of them, or none.
    Purge {
        /// Where.
        index: IndexId,
        /// The version that they were found in.
        version: u64,
        /// Which.
        elements: Vec<Located>,
    },
}

/// Elements from the front of a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Whether these were all of the buffer's elements for sure. What insertions add later is not part of the search that
    /// reads this.
    pub is_last: bool,
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

/// A piece of the elements of a reply, and the node in whose buffer it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Number of the node.
    pub node: u64,
    /// How many elements.
    pub count: u32,
}

/// An element and the node in whose buffer it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    /// Number of the node.
    pub node: u64,
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
    /// The index's version is another than the request names: nothing was done. The paths and chunks of that
    /// version hold no longer; a search begins anew.
    Changed,
    /// To [`Request::CreateIndex`]: the epoch that begins. To [`Request::Insert`], which was done: the newest epoch; if
    /// that is not the client's own, another client may have changed the same entries under a greater number.
    Epoch(u64),
    /// To [`Request::Insert`] of an epoch that was superseded: nothing was done.
    Superseded,
    /// To [`Request::Look`], and to [`Request::Collect`] between unsorted leaves.
    Looked {
        /// The index's version.
        version: u64,
        /// The nodes, in the order of the request.
        views: Vec<(Node, View)>,
    },
    /// To [`Request::Push`] and [`Request::Split`].
    Pushed {
        /// The version that it made: greater than the one before.
        version: u64,
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
    const ROW: &'static Row = &table::POPE;
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
