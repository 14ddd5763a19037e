//! Removal: a node that becomes too empty takes from its sibling or merges with it.

use super::oram::BlockId;
use super::tree::{NodeName, Step, Tree, sibling};
use crate::error::IndexError;
use arras_protocol::Channel;
use arras_protocol::path_oram::PathOram;

impl<C: Channel<PathOram> + Clone> Tree<C> {
    /// Removes one record. On an error, nothing changed.
    pub(super) async fn remove(&mut self, record: &[u8]) -> Result<(), IndexError> {
        let (mut steps, leaf) = self.walk(record, true).await?;
        let Ok(at) = self.layout.find(self.node(0, leaf)?, record) else { return Ok(()) };
        if let Some(block) = self.oram.block_mut(leaf) {
            self.layout.remove(block, at);
        }
        let mut sparse = self.layout.leaf_len(self.node(0, leaf)?) < self.layout.leaf_min();
        while sparse && let Some(step) = steps.pop() {
            sparse = self.refill(&step)?;
        }
        // A root of one child gives way to it.
        while self.root_level > 0 {
            let inner = self.inner(self.root_level, self.root)?;
            let [only]: [BlockId; 1] = match inner.children.try_into() {
                Ok(only) => only,
                Err(_) => break,
            };
            self.discard(self.root_level, self.root);
            (self.root, self.root_level) = (only, self.root_level - 1);
        }
        Ok(())
    }

    /// Fills up the too empty child that `step` led to. Whether its parent is too empty now.
    fn refill(&mut self, step: &Step) -> Result<bool, IndexError> {
        let mut parent = self.inner(step.level, step.name)?;
        let other = sibling(&parent, step.child);
        if other >= parent.children.len() {
            return Ok(false);
        }
        let at = step.child.min(other);
        let (left, right) = (parent.children[at], parent.children[at + 1]);
        let between = if step.level == 1 {
            self.even_leaves(left, right)?
        } else {
            self.even_inner(step.level - 1, left, right, parent.separator(at))?
        };
        match between {
            Some(separator) => parent.set_separator(at, &separator),
            None => {
                parent.remove(at);
                self.discard(step.level - 1, right);
            }
        }
        self.put(step.level, step.name, &parent.to_bytes());
        Ok(parent.children.len() < self.layout.children_min())
    }

    /// Merges two leaves into the left one, or else shares their records: the separator then.
    fn even_leaves(&mut self, left: NodeName, right: NodeName) -> Result<Option<Vec<u8>>, IndexError> {
        let mut records = self.layout.records(self.node(0, left)?).to_vec();
        records.extend_from_slice(self.layout.records(self.node(0, right)?));
        let len = records.len() / self.layout.record_bytes;
        if len <= self.layout.leaf_max {
            self.put(0, left, &self.layout.leaf(&records));
            return Ok(None);
        }
        let (first, second) = records.split_at(len.div_ceil(2) * self.layout.record_bytes);
        self.put(0, left, &self.layout.leaf(first));
        self.put(0, right, &self.layout.leaf(second));
        Ok(Some(second[..self.layout.record_bytes].to_vec()))
    }

    /// The same for two inner nodes with `separator` between them.
    fn even_inner(
        &mut self,
        level: usize,
        left: NodeName,
        right: NodeName,
        separator: &[u8],
    ) -> Result<Option<Vec<u8>>, IndexError> {
        let mut inner = self.inner(level, left)?;
        inner.append(separator, &self.inner(level, right)?);
        if inner.children.len() <= self.layout.children_max {
            self.put(level, left, &inner.to_bytes());
            return Ok(None);
        }
        let (separator, second) = inner.split(inner.children.len().div_ceil(2));
        self.put(level, left, &inner.to_bytes());
        self.put(level, right, &second.to_bytes());
        Ok(Some(separator))
    }
}
