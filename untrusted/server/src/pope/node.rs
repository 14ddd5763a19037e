//! The header of an index and the pages of inner nodes.

use crate::backend::storage;
use crate::keyspace::key;
use arras_protocol::pope::{LABELS_MAX, Node, labels_per_node};
use arras_protocol::{IndexId, Refusal, codec};
use arras_storage::{Read, Table, Write};
use serde::{Deserialize, Serialize};

/// Index id to [`Head`].
pub(super) const HEADS: Table = Table("pope_heads");
/// Index id and node number to an inner node's page.
pub(super) const NODES: Table = Table("pope_nodes");

/// Most nodes on a path. Nodes have at least one label and are split only when full, so none is half as long.
pub(super) const PATH_MAX: usize = 64;

pub(super) fn malformed(what: &str) -> Refusal {
    Refusal::Malformed(what.into())
}

pub(super) fn damaged(what: &str) -> Refusal {
    Refusal::Damaged(what.into())
}

/// Facts about an index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) page_bytes: u32,
    pub(super) element_bytes: u16,
    pub(super) root: Node,
    /// The first node number that was never used.
    pub(super) unused: u64,
    /// Raised by whatever changes the tree's shape or takes elements out of a buffer: by one and the pages that it takes. So
    /// the pages that a buffer is given from then on have numbers that it never had.
    pub(super) version: u64,
    /// The newest epoch that a client has begun.
    pub(super) epoch: u64,
    /// Insertions of epochs below are refused.
    pub(super) superseded_below: u64,
}

/// Versions of one start of the server: more than it can come to.
const VERSIONS_PER_START: u64 = 1 << 36;

impl Head {
    /// At least 1.
    pub(super) fn element_bytes(&self) -> usize {
        usize::from(self.element_bytes).max(1)
    }

    /// Elements of a page of a buffer.
    pub(super) fn page_elements(&self) -> usize {
        (self.page_bytes as usize / self.element_bytes()).max(1)
    }

    /// L.
    pub(super) fn labels(&self) -> Result<usize, Refusal> {
        labels_per_node(self.page_bytes as usize, self.element_bytes())
            .ok_or_else(|| damaged("pages without room for labels"))
    }

    /// The index as it is made.
    pub(super) fn new(page_bytes: u32, element_bytes: u16) -> Self {
        Self {
            page_bytes,
            element_bytes,
            root: Node::leaf(0),
            unused: 1,
            version: 0,
            epoch: 0,
            superseded_below: 0,
        }
    }

    /// Raises the version for a change that takes so many pages. Changes of shape may be lost by a crash, and what a client
    /// was told of them is not: each start of the server has versions of its own.
    pub(super) fn raise(&mut self, incarnation: u64, pages: u64) {
        let first = incarnation.saturating_sub(1).saturating_mul(VERSIONS_PER_START);
        self.version = self.version.max(first).saturating_add(pages).saturating_add(1);
    }

    /// A number for a new node.
    pub(super) fn fresh(&mut self) -> Node {
        let node = Node::leaf(self.unused);
        self.unused = self.unused.saturating_add(1);
        node
    }
}

pub(super) fn save_head(writer: &mut impl Write, index: IndexId, head: &Head) -> Result<(), Refusal> {
    writer.put(HEADS, index.as_bytes(), &codec::encode(head)).map_err(storage)
}

fn node_key(index: IndexId, node: Node) -> Vec<u8> {
    key(&[index.as_bytes(), &node.number().to_be_bytes()])
}

/// An inner node.
///
/// Its page: whether it is splitting, the number of labels, the labels, the children as 8 bytes each.
#[derive(Clone, Debug)]
pub(super) struct Inner {
    /// True for a leaf on its way to be part of its parent.
    pub(super) splitting: bool,
    /// Sorted, one after the other.
    pub(super) labels: Vec<u8>,
    /// One more than labels.
    pub(super) children: Vec<Node>,
}

impl Inner {
    fn decode(page: &[u8], element_bytes: usize) -> Option<Self> {
        let (&[splitting, count], rest) = page.split_first_chunk::<2>()?;
        let (labels, rest) = rest.split_at_checked(usize::from(count).checked_mul(element_bytes)?)?;
        let (children, []) = rest.as_chunks::<8>() else { return None };
        (splitting <= 1 && children.len() == usize::from(count).saturating_add(1)).then(|| Self {
            splitting: splitting == 1,
            labels: labels.to_vec(),
            children: children.iter().map(|child| Node(u64::from_be_bytes(*child))).collect(),
        })
    }

    fn encode(&self, element_bytes: usize) -> Result<Vec<u8>, Refusal> {
        let count = self.labels.len().checked_div(element_bytes).unwrap_or_default();
        let count = u8::try_from(count.min(LABELS_MAX.saturating_add(1)))
            .map_err(|_| malformed("more labels than a node may have"))?;
        let mut page = Vec::with_capacity(self.labels.len().saturating_add(self.children.len() * 8 + 2));
        page.extend_from_slice(&[u8::from(self.splitting), count]);
        page.extend_from_slice(&self.labels);
        self.children.iter().for_each(|child| page.extend_from_slice(&child.0.to_be_bytes()));
        Ok(page)
    }

    /// Where a child stands among the children.
    pub(super) fn place(&self, child: Node) -> Option<usize> {
        self.children.iter().position(|other| *other == child)
    }

    pub(super) fn save(
        &self,
        writer: &mut impl Write,
        index: IndexId,
        head: &Head,
        node: Node,
    ) -> Result<(), Refusal> {
        writer.put(NODES, &node_key(index, node), &self.encode(head.element_bytes())?).map_err(storage)
    }
}

/// Forgets an inner node's page.
pub(super) fn forget(writer: &mut impl Write, index: IndexId, node: Node) -> Result<(), Refusal> {
    writer.delete(NODES, &node_key(index, node)).map_err(storage).map(drop)
}

/// An index as one view of the store shows it.
pub(super) struct Tree<'a, R> {
    pub(super) reader: &'a R,
    pub(super) index: IndexId,
    pub(super) head: Head,
}

impl<'a, R: Read> Tree<'a, R> {
    pub(super) fn open(reader: &'a R, index: IndexId) -> Result<Self, Refusal> {
        let bytes = reader.get(HEADS, index.as_bytes()).map_err(storage)?.ok_or(Refusal::UnknownIndex)?;
        let head = codec::decode(&bytes).map_err(|_| damaged("the header"))?;
        Ok(Self { reader, index, head })
    }

    /// An inner node; `None` for a leaf or a node that is not.
    pub(super) fn inner(&self, node: Node) -> Result<Option<Inner>, Refusal> {
        if !node.is_inner() {
            return Ok(None);
        }
        let page = self.reader.get(NODES, &node_key(self.index, node)).map_err(storage)?;
        page.map(|page| {
            Inner::decode(&page, self.head.element_bytes()).ok_or_else(|| damaged("an inner node's page"))
        })
        .transpose()
    }

    /// An inner node that another one names.
    pub(super) fn child(&self, node: Node) -> Result<Inner, Refusal> {
        self.inner(node)?.ok_or_else(|| damaged("an inner node without a page"))
    }

    /// # Errors
    /// [`Refusal::Malformed`] unless `path` leads from the root from parent to child.
    pub(super) fn check_path(&self, path: &[Node]) -> Result<(), Refusal> {
        if path.first() != Some(&self.head.root) || path.len() > PATH_MAX {
            return Err(malformed("not a path from the root"));
        }
        for (&parent, &child) in path.iter().zip(path.iter().skip(1)) {
            let parent = self.inner(parent)?.ok_or_else(|| malformed("a path through a leaf"))?;
            parent.place(child).ok_or_else(|| malformed("a path to a node that is elsewhere"))?;
        }
        Ok(())
    }
}
