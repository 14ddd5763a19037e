//! The B+ tree in the ORAM.

use super::bucket::largest_block;
use super::node::{Inner, Layout, overwrite};
use super::oram::{BlockId, Oram, OramParameters};
use crate::arx_range::RangeEntry;
use crate::error::IndexError;
use crate::traits::RangeIndex;
use arras_keys::{Key, Purpose};
use arras_primitives::prg::Prg;
use arras_protocol::Order;
use arras_protocol::path_oram::PathOram;
use arras_protocol::{Channel, IndexId, RowId};
use std::collections::{HashMap, VecDeque};
use tokio::sync::Mutex;

/// What a tree is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OramTreeParameters {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// How many levels of the tree, from the leaves on, are in the ORAM; the inner nodes above are at the client. 1 at
    /// least: the leaves are always in the ORAM.
    pub oram_levels: usize,
    /// The ORAM's parameters; a block is a node.
    pub oram: OramParameters,
}

impl OramTreeParameters {
    /// Keys of `key_bytes`, buckets of four pages of `page_bytes`, the inner nodes at the client.
    #[must_use]
    pub fn of_pages(key_bytes: usize, page_bytes: usize) -> Self {
        let block_bytes = largest_block(4 * page_bytes);
        Self { key_bytes, oram_levels: 1, oram: OramParameters::of_blocks(block_bytes) }
    }
}

/// A range index whose searches show the number of nodes they read, and whose changes show nothing but when it grows.
///
/// An insert reads one path at each level in the ORAM, a removal two (one at the root), whether or not anything changes,
/// splits or merges. A search reads the nodes that overlap the range, level by level, as many as fit at once.
pub struct OramTree<C> {
    tree: Mutex<Tree<C>>,
}

impl<C> std::fmt::Debug for OramTree<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OramTree(..)")
    }
}

/// A node's name: in the ORAM, or at the client, as its level says.
pub(super) type NodeName = BlockId;

/// Where a walk went at an inner node.
pub(super) struct Step {
    pub(super) level: usize,
    pub(super) name: NodeName,
    /// Index of the child.
    pub(super) child: usize,
}

/// The tree, and the client's part of its nodes.
pub(super) struct Tree<C> {
    pub(super) channel: C,
    pub(super) index: IndexId,
    /// From which each of this index's ORAMs has its own.
    pub(super) oram_key: Key,
    pub(super) parameters: OramTreeParameters,
    pub(super) layout: Layout,
    pub(super) random: Prg,
    pub(super) oram: Oram<C>,
    /// Nodes of the levels above the ORAM's.
    pub(super) upper: HashMap<NodeName, Vec<u8>>,
    pub(super) next_upper: NodeName,
    pub(super) root: NodeName,
    /// Level of the root, leaves being at level 0.
    pub(super) root_level: usize,
    /// The tree was empty, and making its ORAM anew was begun and not finished.
    pub(super) unmade: bool,
}

impl<C: Channel<PathOram> + Clone> OramTree<C> {
    /// Makes an empty tree, whatever was there under this name before. `random` must be seeded uniformly, and never the
    /// same for two trees.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if a block is too small for nodes, and what the channel reports.
    pub async fn create(
        channel: C,
        index: IndexId,
        key: &Key,
        parameters: OramTreeParameters,
        mut random: Prg,
    ) -> Result<Self, IndexError> {
        let layout = Layout::new(parameters.key_bytes, parameters.oram.block_bytes)
            .ok_or(IndexError::Caller("the ORAM's blocks are too small for nodes of a tree"))?;
        if parameters.oram_levels == 0 {
            return Err(IndexError::Caller("the tree's leaves are always in the ORAM"));
        }
        let oram_key = key.child(Purpose::PathOramSeal);
        let mut seed = [0; 16];
        random.fill(&mut seed);
        let oram = Oram::create(
            channel.clone(),
            index,
            &oram_key,
            parameters.oram,
            Prg::new(&seed),
            1,
            &mut |_, block| overwrite(block, &layout.leaf(&[])),
        )
        .await?;
        let tree = Tree {
            channel,
            index,
            oram_key,
            parameters,
            layout,
            random,
            oram,
            upper: HashMap::new(),
            next_upper: 0,
            root: 0,
            root_level: 0,
            unmade: false,
        };
        Ok(Self { tree: Mutex::new(tree) })
    }

    /// Level of the root, the leaves being at level 0.
    pub async fn height(&self) -> usize {
        self.tree.lock().await.root_level
    }

    /// Bytes of the client's state: the ORAM's, and the nodes above it.
    pub async fn client_bytes(&self) -> usize {
        let tree = self.tree.lock().await;
        tree.oram.client_bytes() + tree.upper.values().map(Vec::len).sum::<usize>()
    }

    /// Drops the tree on the server.
    ///
    /// # Errors
    /// What the channel reports.
    pub async fn drop_index(self) -> Result<(), IndexError> {
        let tree = self.tree.into_inner();
        let request = arras_protocol::path_oram::Request::Drop { index: tree.index };
        tree.channel.call(request).await?;
        Ok(())
    }
}

impl<C: Channel<PathOram> + Clone> Tree<C> {
    pub(super) fn in_oram(&self, level: usize) -> bool {
        level < self.parameters.oram_levels
    }

    /// A node at the client.
    pub(super) fn node(&self, level: usize, name: NodeName) -> Result<&[u8], IndexError> {
        let node = if self.in_oram(level) {
            self.oram.block(name)
        } else {
            self.upper.get(&name).map(Vec::as_slice)
        };
        node.ok_or_else(|| IndexError::State("a node of the tree is missing".into()))
    }

    pub(super) fn inner(&self, level: usize, name: NodeName) -> Result<Inner, IndexError> {
        Ok(self.layout.inner(self.node(level, name)?))
    }

    /// Overwrites a node that is at the client.
    pub(super) fn put(&mut self, level: usize, name: NodeName, node: &[u8]) {
        if !self.in_oram(level) {
            self.upper.insert(name, node.to_vec());
        } else if let Some(block) = self.oram.block_mut(name) {
            overwrite(block, node);
        }
    }

    /// Makes a node.
    pub(super) fn add(&mut self, level: usize, node: &[u8]) -> NodeName {
        if self.in_oram(level) {
            return self.oram.add(node);
        }
        let name = self.next_upper;
        self.next_upper += 1;
        self.upper.insert(name, node.to_vec());
        name
    }

    pub(super) fn discard(&mut self, level: usize, name: NodeName) {
        if self.in_oram(level) {
            self.oram.discard(name);
        } else {
            self.upper.remove(&name);
        }
    }

    pub(super) async fn fetch(&mut self, level: usize, names: &[NodeName]) -> Result<(), IndexError> {
        if self.in_oram(level) { self.oram.fetch(names).await } else { Ok(()) }
    }

    /// Walks to the leaf of `record`, pinning the nodes; with `siblings`, also one sibling of each node that has one,
    /// of those in the ORAM. The steps, and the leaf.
    pub(super) async fn walk(
        &mut self,
        record: &[u8],
        siblings: bool,
    ) -> Result<(Vec<Step>, NodeName), IndexError> {
        let mut steps = Vec::with_capacity(self.root_level);
        let mut name = self.root;
        self.fetch(self.root_level, &[name]).await?;
        for level in (1..=self.root_level).rev() {
            let inner = self.inner(level, name)?;
            let child = inner.child_of(record);
            steps.push(Step { level, name, child });
            name = inner.children[child];
            match inner.children.get(sibling(&inner, child)) {
                Some(sibling) if siblings => self.fetch(level - 1, &[name, *sibling]).await?,
                _ => self.fetch(level - 1, &[name]).await?,
            }
        }
        Ok((steps, name))
    }

    /// Inserts one record. On an error, nothing changed.
    async fn insert(&mut self, record: &[u8]) -> Result<(), IndexError> {
        // A split of every level in the ORAM, and a root.
        self.oram.reserve(self.parameters.oram_levels.min(self.root_level + 1) + 1).await?;
        let (steps, leaf) = self.walk(record, false).await?;
        let Err(at) = self.layout.find(self.node(0, leaf)?, record) else { return Ok(()) };
        if self.layout.leaf_len(self.node(0, leaf)?) < self.layout.leaf_max {
            if let Some(block) = self.oram.block_mut(leaf) {
                self.layout.insert(block, at, record);
            }
            return Ok(());
        }
        let mut records = self.layout.records(self.node(0, leaf)?).to_vec();
        let start = at * self.layout.record_bytes;
        records.splice(start..start, record.iter().copied());
        let middle = self.layout.leaf_max.div_ceil(2) * self.layout.record_bytes;
        let (left, right) = records.split_at(middle);
        self.put(0, leaf, &self.layout.leaf(left));
        let added = self.add(0, &self.layout.leaf(right));
        self.insert_child(steps, right[..self.layout.record_bytes].to_vec(), added)
    }

    /// Hangs a node in beside the one that `steps` led to, and splits what becomes too full.
    fn insert_child(
        &mut self,
        mut steps: Vec<Step>,
        mut separator: Vec<u8>,
        mut added: NodeName,
    ) -> Result<(), IndexError> {
        while let Some(Step { level, name, child }) = steps.pop() {
            let mut inner = self.inner(level, name)?;
            inner.insert(child, &separator, added);
            if inner.children.len() <= self.layout.children_max {
                self.put(level, name, &inner.to_bytes());
                return Ok(());
            }
            let right;
            (separator, right) = inner.split(inner.children.len().div_ceil(2));
            self.put(level, name, &inner.to_bytes());
            added = self.add(level, &right.to_bytes());
        }
        let mut root = Inner::of(self.root, self.layout.record_bytes);
        root.insert(0, &separator, added);
        self.root_level += 1;
        self.root = self.add(self.root_level, &root.to_bytes());
        Ok(())
    }

    /// Children of an inner node whose subtrees overlap the range, from the end that `order` says.
    fn overlapping(inner: &Inner, lower: &[u8], upper: &[u8], order: Order) -> Vec<NodeName> {
        let mut names = inner.children[inner.child_of(lower)..=inner.child_of(upper)].to_vec();
        if order == Order::Descending {
            names.reverse();
        }
        names
    }

    /// The next nodes of one level to read at once: as many as fit, and no more leaves than a limit can need.
    fn batch(
        &self,
        waiting: &mut VecDeque<(usize, NodeName)>,
        missing: Option<usize>,
    ) -> Option<(usize, Vec<NodeName>)> {
        let level = waiting.front()?.0;
        let most = match missing {
            Some(missing) if level == 0 => missing.div_ceil(self.layout.leaf_max).max(1),
            Some(_) => 1,
            None => usize::MAX,
        };
        let most = most.min(self.oram.fetch_max());
        let mut names = Vec::new();
        while names.len() < most
            && let Some((other, name)) = waiting.front()
            && *other == level
        {
            names.push(*name);
            waiting.pop_front();
        }
        Some((level, names))
    }

    /// Records between two records, both included.
    async fn search(
        &mut self,
        lower: &[u8],
        upper: &[u8],
        order: Order,
        limit: Option<usize>,
    ) -> Result<Vec<Vec<u8>>, IndexError> {
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut waiting = VecDeque::from([(self.root_level, self.root)]);
        while limit.is_none_or(|limit| found.len() < limit)
            && let Some((level, names)) = self.batch(&mut waiting, limit.map(|limit| limit - found.len()))
        {
            self.fetch(level, &names).await?;
            let mut below = Vec::new();
            for name in names {
                let node = self.node(level, name)?;
                if level == 0 {
                    let records = self.layout.records(node).chunks_exact(self.layout.record_bytes);
                    let records =
                        records.filter(|record| (lower..=upper).contains(record)).map(<[u8]>::to_vec);
                    match order {
                        Order::Ascending => found.extend(records),
                        Order::Descending => found.extend(records.rev()),
                    }
                } else {
                    let inner = self.layout.inner(node);
                    below.extend(Self::overlapping(&inner, lower, upper, order));
                }
            }
            for name in below.into_iter().rev() {
                waiting.push_front((level - 1, name));
            }
            self.oram.release();
        }
        found.truncate(limit.unwrap_or(usize::MAX));
        Ok(found)
    }

    pub(super) fn record(&self, entry: &RangeEntry) -> Result<Vec<u8>, IndexError> {
        if entry.value.len() == self.layout.key_bytes {
            Ok([entry.value.as_slice(), entry.row.as_bytes()].concat())
        } else {
            Err(IndexError::Caller("a key of another length than the index's"))
        }
    }
}

/// The child beside child `at`: the right one, or the left one of the last.
pub(super) fn sibling(inner: &Inner, at: usize) -> usize {
    if at + 1 < inner.children.len() { at + 1 } else { at.wrapping_sub(1) }
}

impl<C: Channel<PathOram> + Clone> RangeIndex for OramTree<C> {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        let mut tree = self.tree.lock().await;
        let records: Vec<_> = entries.iter().map(|entry| tree.record(entry)).collect::<Result<_, _>>()?;
        if tree.is_worth_loading(records.len()).await? {
            return tree.bulk_load(records).await;
        }
        tree.remake().await?;
        for record in records {
            let result = tree.insert(&record).await;
            tree.oram.release();
            result?;
        }
        Ok(())
    }

    async fn remove(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        let mut tree = self.tree.lock().await;
        let records: Vec<_> = entries.iter().map(|entry| tree.record(entry)).collect::<Result<_, _>>()?;
        tree.remake().await?;
        for record in records {
            let result = tree.remove(&record).await;
            tree.oram.release();
            result?;
        }
        Ok(())
    }

    async fn search(
        &self,
        lower: Vec<u8>,
        upper: Vec<u8>,
        order: Order,
        limit: Option<usize>,
    ) -> Result<Vec<(Vec<u8>, RowId)>, IndexError> {
        let mut tree = self.tree.lock().await;
        let key_bytes = tree.layout.key_bytes;
        if lower.len() != key_bytes || upper.len() != key_bytes {
            return Err(IndexError::Caller("a bound of another length than the index's keys"));
        }
        if lower > upper {
            return Ok(Vec::new());
        }
        let lower = [lower.as_slice(), &[0; RowId::BYTES]].concat();
        let upper = [upper.as_slice(), &[u8::MAX; RowId::BYTES]].concat();
        tree.remake().await?;
        let found = tree.search(&lower, &upper, order, limit).await;
        tree.oram.release();
        let split = |record: Vec<u8>| {
            let (key, row) = record.split_at(key_bytes);
            let row = row.try_into().map_err(|_| IndexError::State("a record of another length".into()))?;
            Ok((key.to_vec(), RowId(row)))
        };
        found?.into_iter().map(split).collect()
    }
}

#[cfg(test)]
mod tests;
