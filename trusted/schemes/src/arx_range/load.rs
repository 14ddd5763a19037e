//! Loading the directory, trees and buckets, each checked against what it must be.

use super::ArxRange;
use super::adding::Added;
use super::aggregate::Aggregate;
use super::directory::{Directory, Gap, LEVELS, LEVELS_BYTES, Levels, Top, TreeLock, level};
use super::entry::{Entry, Record, decode_bucket};
use super::secrets::Kind;
use super::treap::{Link, Node, Stub, side_index};
use crate::error::{IndexError, OpenFailed};
use arras_protocol::arx_range::{
    ArxRange as Protocol, FoundBucket, Links, Request, Response, Side, TopNode, TreeNode,
};
use arras_protocol::{Blob, Channel, NodeId};
use std::collections::HashMap;

/// Deepest tree that is followed. A treap of 2^40 nodes is about a hundred deep.
const DEPTH_MAX: usize = 512;

/// Most trees or buckets asked for at once.
const NAMES_MAX: usize = 1 << 16;

/// A node as the server sent it, opened.
pub(super) struct Raw {
    pub(super) children: [Option<NodeId>; 2],
    pub(super) record: Record,
    /// What its circuits lead to, where that was reported.
    pub(super) links: [Option<Links>; 2],
    /// Which of its circuits were opened.
    pub(super) walked: [bool; 2],
}

/// Nodes that arrived and have no place yet.
pub(super) type Arrived = HashMap<NodeId, Raw>;

/// Where a subtree must lie.
#[derive(Clone, Copy, Default)]
pub(super) struct Within<'a> {
    pub(super) after: Option<&'a [u8]>,
    pub(super) before: Option<&'a [u8]>,
    /// Its root is below this priority and separator.
    pub(super) parent: Option<(u64, &'a [u8])>,
}

/// How much of a tree is to be in hand.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    /// All nodes of at least this level, and those next to them.
    Level(usize),
    /// All.
    Whole,
}

impl Within<'_> {
    fn holds(&self, priority: u64, separator: &[u8]) -> bool {
        self.after.is_none_or(|after| after < separator)
            && self.before.is_none_or(|before| separator < before)
            && self.parent.is_none_or(|parent| (priority, separator) < parent)
    }
}

/// Names the stubs that must be in hand and are not.
fn missing(link: &Link, wanted: Wanted, parent_wanted: bool, names: &mut Vec<NodeId>) {
    match link {
        Link::Stub(stub) if parent_wanted => names.push(stub.node),
        Link::Node(node) => {
            let children_wanted = match wanted {
                Wanted::Level(least) => level(node.priority) >= least,
                Wanted::Whole => true,
            };
            missing(&node.left, wanted, children_wanted, names);
            missing(&node.right, wanted, children_wanted, names);
        }
        Link::Empty | Link::Stub(_) => {}
    }
}

/// Bounds of each gap's tree.
pub(super) fn within(directory: &Directory, gap: usize) -> Within<'_> {
    Within {
        after: gap.checked_sub(1).and_then(|top| directory.tops.get(top)).map(|top| &*top.separator),
        before: directory.tops.get(gap).map(|top| &*top.separator),
        parent: None,
    }
}

/// Trees of the old directory that are there under the same root stay as ready as they were. That is right
/// whether or not the change was made: a tree it walks or gives another shape is marked unready before the change
/// is sent.
fn keep_readiness(old: &Directory, loaded: &mut Directory) {
    let old_gaps = (0..old.gap_count()).map(|gap| old.gap(gap));
    let mut trees: HashMap<NodeId, &TreeLock> =
        old_gaps.filter_map(|gap| Some((gap.root?, &gap.tree))).collect();
    for gap in 0..loaded.gap_count() {
        let gap = loaded.gap_mut(gap);
        if let Some(tree) = gap.root.and_then(|root| trees.remove(&root)) {
            gap.tree = tree.clone();
        }
    }
}

impl<C: Channel<Protocol>> ArxRange<C> {
    pub(super) fn raw(&self, node: NodeId, record: &TreeNode) -> Result<Raw, OpenFailed> {
        let opened = self.secrets.open(Kind::Node, node, &record.sealed)?;
        Ok(Raw {
            children: [record.left, record.right],
            record: Record::decode(self.parameters(), &opened)?,
            links: [None, None],
            walked: [false; 2],
        })
    }

    /// Puts nodes that arrived in the place of their stubs.
    pub(super) fn fill(
        &self,
        link: &mut Link,
        arrived: &mut Arrived,
        within: Within<'_>,
        depth: usize,
    ) -> Result<(), IndexError> {
        if let Link::Stub(stub) = link
            && let Some(raw) = arrived.remove(&stub.node)
        {
            let node = self.node(stub, raw);
            if depth >= DEPTH_MAX || !within.holds(node.priority, &node.separator) {
                return Err(IndexError::Peer("a tree is out of order"));
            }
            *link = Link::Node(Box::new(node));
        }
        if let Link::Node(node) = link {
            let Node { left, right, separator, priority, .. } = &mut **node;
            let parent = Some((*priority, &**separator));
            self.fill(left, arrived, Within { before: Some(separator), parent, ..within }, depth + 1)?;
            self.fill(right, arrived, Within { after: Some(separator), parent, ..within }, depth + 1)?;
        }
        Ok(())
    }

    fn node(&self, stub: &Stub, raw: Raw) -> Node {
        let Raw { children, record, links, walked } = raw;
        let child = |right: usize, total: &Aggregate| {
            children[right].map_or(Link::Empty, |node| {
                let nonce = |side: Side| {
                    let links = links[side_index(side)].as_ref()?;
                    if right == 0 { links.left } else { links.right }
                };
                let nonces = [nonce(Side::Lower), nonce(Side::Upper)];
                Link::Stub(Box::new(Stub { node, total: total.clone(), nonces }))
            })
        };
        let unused = |side: usize| stub.nonces[side].filter(|_| !walked[side]);
        Node {
            node: stub.node,
            priority: self.secrets.priority(&record.separator),
            left: child(0, &record.left),
            right: child(1, &record.right),
            stored: Some(children),
            aggregate_changed: false,
            nonces: [unused(0), unused(1)],
            separator: record.separator,
            own: record.own,
            left_total: record.left,
            right_total: record.right,
        }
    }

    /// Brings what is wanted of some trees in hand.
    pub(super) async fn load_trees(
        &self,
        trees: &mut [(&mut Link, Within<'_>)],
        wanted: Wanted,
    ) -> Result<(), IndexError> {
        let depth = match wanted {
            Wanted::Level(_) => 2,
            Wanted::Whole => u32::MAX,
        };
        loop {
            let mut roots = Vec::new();
            trees.iter().for_each(|(link, _)| missing(link, wanted, true, &mut roots));
            roots.truncate(NAMES_MAX);
            let Some(&first) = roots.first() else {
                return Ok(());
            };
            let request = Request::LoadTrees { index: self.secrets.index, roots, depth };
            let Response::Trees(nodes) = self.ask(request).await? else {
                return Err(IndexError::Peer("not the trees asked for"));
            };
            let mut arrived = Arrived::with_capacity(nodes.len());
            for (node, record) in &nodes {
                if arrived.insert(*node, self.raw(*node, record)?).is_some() {
                    return Err(IndexError::Peer("a node is in two places"));
                }
            }
            // Without the first there is no progress, and asking again would go on for ever.
            if !arrived.contains_key(&first) {
                return Err(IndexError::Peer("not the trees asked for"));
            }
            for (link, within) in trees.iter_mut() {
                self.fill(link, &mut arrived, *within, 0)?;
            }
            if !arrived.is_empty() {
                return Err(IndexError::Peer("a node without a place"));
            }
        }
    }

    /// Fetches buckets by name.
    pub(super) async fn load_buckets(&self, mut nodes: Vec<NodeId>) -> Result<Vec<FoundBucket>, IndexError> {
        let mut found: Vec<FoundBucket> = Vec::with_capacity(nodes.len());
        while !nodes.is_empty() {
            let asked: Vec<NodeId> = nodes.iter().copied().take(NAMES_MAX).collect();
            let request = Request::Buckets { index: self.secrets.index, nodes: asked };
            let Response::Buckets(buckets) = self.ask(request).await? else {
                return Err(IndexError::Peer("not the buckets asked for"));
            };
            let as_asked = buckets.iter().zip(&nodes).all(|(bucket, node)| bucket.node == *node);
            if buckets.is_empty() || buckets.len() > nodes.len() || !as_asked {
                return Err(IndexError::Peer("not the buckets asked for"));
            }
            nodes.drain(..buckets.len());
            found.extend(buckets);
        }
        Ok(found)
    }

    /// Opens a bucket, with what was added to it. Every bucket but the head's begins with its separator, and no other
    /// entry is one.
    pub(super) fn open_bucket(&self, found: &FoundBucket) -> Result<Vec<Entry>, IndexError> {
        let opened = self.secrets.open(Kind::Bucket, found.node, &found.bucket.sealed)?;
        let mut entries = decode_bucket(self.parameters(), &opened)?;
        if found.node != NodeId::HEAD && entries.is_empty() {
            return Err(IndexError::Peer("a bucket without its separator"));
        }
        for sealed in &found.added {
            let opened = self.secrets.open(Kind::Added, found.node, sealed)?;
            entries.extend(decode_bucket(self.parameters(), &opened)?);
        }
        if !found.added.is_empty() {
            entries.sort_unstable_by(|left, right| left.rank().cmp(&right.rank()));
            // What is added may be there already: nobody looked.
            entries.dedup_by(|left, right| left.rank() == right.rank());
        }
        Ok(entries)
    }

    /// Loads the directory in place of `old`, whose change has an unknown outcome or none.
    pub(super) async fn load_directory(&self, old: &Directory) -> Result<Directory, IndexError> {
        let mut tops: Vec<Top> = Vec::new();
        let mut after = None;
        loop {
            let request = Request::LoadTop { index: self.secrets.index, after };
            let Response::Top { head_gap, head_sealed, nodes, more } = self.ask(request).await? else {
                return Err(IndexError::Peer("not the directory asked for"));
            };
            // A reply that is cut before its first entry would be asked for for ever.
            if more && nodes.is_empty() {
                return Err(IndexError::Peer("the directory does not end"));
            }
            for (node, record) in nodes {
                if after.is_some_and(|after| node <= after) {
                    return Err(IndexError::Peer("the directory is out of order"));
                }
                after = Some(node);
                tops.push(self.top(node, &record)?);
            }
            if !more {
                let mut loaded = self.directory(old.version + 1, head_gap, &head_sealed, tops)?;
                keep_readiness(old, &mut loaded);
                return Ok(loaded);
            }
        }
    }

    fn top(&self, node: NodeId, record: &TopNode) -> Result<Top, IndexError> {
        let opened = self.secrets.open(Kind::Top, node, &record.sealed)?;
        let Record { separator, own, right, .. } = Record::decode(self.parameters(), &opened)?;
        let priority = self.secrets.priority(&separator);
        Ok(Top { node, separator, priority, gap: Gap::new(record.gap, own, right) })
    }

    fn directory(
        &self,
        version: u64,
        gap: Option<NodeId>,
        sealed: &Blob,
        mut tops: Vec<Top>,
    ) -> Result<Directory, IndexError> {
        let opened = self.secrets.open(Kind::Head, NodeId::HEAD, sealed)?;
        let (levels, mut rest) = opened.split_at_checked(LEVELS_BYTES).ok_or(OpenFailed)?;
        let levels = Levels::decode(levels);
        let own = Aggregate::decode(self.parameters(), &mut rest)?;
        let total = Aggregate::decode(self.parameters(), &mut rest)?;
        // The stored state's own: `top_nodes` may have changed since; the next change moves to it.
        let configured = levels.threshold(self.parameters().top_nodes);
        let stored = |threshold: &usize| levels.from(*threshold) == tops.len() as u64;
        let threshold = [configured].into_iter().chain(0..=LEVELS).find(stored).unwrap_or(configured);
        tops.sort_unstable_by(|left, right| left.separator.cmp(&right.separator));
        let distinct =
            tops.iter().zip(tops.iter().skip(1)).all(|(left, right)| left.separator < right.separator);
        if !distinct || tops.len() as u64 != levels.from(threshold) {
            return Err(IndexError::Peer("the directory is not what its head says"));
        }
        let head = Gap::new(gap, own, total);
        let added = Added::default();
        Ok(Directory { valid: true, version, levels, threshold, head, tops, added })
    }
}
