//! A tree made at once of many records.

use super::node::{Inner, overwrite};
use super::oram::{BlockId, Oram};
use super::tree::{NodeName, Tree};
use crate::error::IndexError;
use arras_primitives::prg::Prg;
use arras_protocol::Channel;
use arras_protocol::path_oram::PathOram;

/// A level's nodes: the least record of each one's subtree, and its bytes.
type Level = Vec<(Vec<u8>, Vec<u8>)>;

/// Cuts `len` items into parts of nearly the same length, about three quarters of `most` and never below half of it.
fn parts(len: usize, most: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let count = if len <= most { 1 } else { len.div_ceil((most * 3).div_ceil(4)) };
    (0..count).map(move |part| part * len / count..(part + 1) * len / count)
}

impl<C: Channel<PathOram> + Clone> Tree<C> {
    /// Whether the tree is empty and so many records more than its only leaf holds.
    pub(super) async fn is_worth_loading(&mut self, records: usize) -> Result<bool, IndexError> {
        if records <= self.layout.leaf_max || self.root_level > 0 {
            return Ok(false);
        }
        if self.unmade {
            return Ok(true);
        }
        self.oram.fetch(&[self.root]).await?;
        let is_empty = self.layout.leaf_len(self.node(0, self.root)?) == 0;
        self.oram.release();
        Ok(is_empty)
    }

    /// Replaces the tree, and its ORAM, by one of these records.
    pub(super) async fn bulk_load(&mut self, mut records: Vec<Vec<u8>>) -> Result<(), IndexError> {
        records.sort_unstable();
        records.dedup();
        let mut level: Level = parts(records.len(), self.layout.leaf_max)
            .map(|part| (records[part.start].clone(), self.layout.leaf(&records[part].concat())))
            .collect();
        drop(records);
        let mut blocks: Vec<Vec<u8>> = Vec::new();
        let mut upper: Vec<Vec<u8>> = Vec::new();
        let mut root_level = 0;
        let root = loop {
            let nodes = if self.in_oram(root_level) { &mut blocks } else { &mut upper };
            let first = nodes.len() as NodeName;
            let (least, bytes): (Vec<_>, Vec<_>) = level.into_iter().unzip();
            nodes.extend(bytes);
            if least.len() == 1 {
                break first;
            }
            level = self.parents(&least, first);
            root_level += 1;
        };
        self.make_oram(&blocks).await?;
        self.next_upper = upper.len() as NodeName;
        self.upper = (0..).zip(upper).collect();
        (self.root, self.root_level) = (root, root_level);
        Ok(())
    }

    /// Finishes what a bulk load could not: makes the empty tree anew.
    pub(super) async fn remake(&mut self) -> Result<(), IndexError> {
        if !self.unmade {
            return Ok(());
        }
        self.make_oram(&[self.layout.leaf(&[])]).await?;
        self.root = 0;
        Ok(())
    }

    /// Replaces the ORAM of an empty tree by one of these blocks.
    async fn make_oram(&mut self, blocks: &[Vec<u8>]) -> Result<(), IndexError> {
        self.unmade = true;
        let mut seed = [0; 16];
        self.random.fill(&mut seed);
        let mut fill = |id: BlockId, block: &mut [u8]| overwrite(block, &blocks[id as usize]);
        self.oram = Oram::create(
            self.channel.clone(),
            self.index,
            &self.oram_key,
            self.parameters.oram,
            Prg::new(&seed),
            blocks.len(),
            &mut fill,
        )
        .await?;
        self.unmade = false;
        Ok(())
    }

    /// The level above nodes named from `first` on.
    fn parents(&self, least: &[Vec<u8>], first: NodeName) -> Level {
        parts(least.len(), self.layout.children_max)
            .map(|part| {
                let start = part.start;
                let mut inner = Inner::of(first + start as NodeName, self.layout.record_bytes);
                for child in part.skip(1) {
                    inner.insert(child - start - 1, &least[child], first + child as NodeName);
                }
                (least[start].clone(), inner.to_bytes())
            })
            .collect()
    }
}
