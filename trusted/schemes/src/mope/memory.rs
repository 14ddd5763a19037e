//! A keeper of one column's tree in memory, which does nothing but what a keyless one can: the reference for those that keep it
//! on disk, for tests and for measurements in one process.

use arras_protocol::channel::ChannelError;
use arras_protocol::mope::{Fetch, Fetched, Head, Label, Node, Round, Summary, TreeChange, TreeStore};
use arras_protocol::{Blob, Refusal};
use std::collections::{BTreeMap, HashMap, btree_map, hash_map};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Nodes, table and head of one column.
#[derive(Default)]
pub struct MemoryStore(Mutex<Kept>);

/// What a keeper has. Copies share nothing.
#[derive(Clone, Default)]
pub struct Kept {
    /// See [`Head`].
    pub head: Head,
    /// The nodes.
    pub nodes: HashMap<Node, Blob>,
    /// The OPE table.
    pub table: HashMap<Arc<[u8]>, Label>,
    /// The same, by label.
    pub order: BTreeMap<Label, Arc<[u8]>>,
    /// Labels that summaries have changed, once for each time.
    pub rewritten: u64,
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemoryStore({:?})", self.kept().head)
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kept({:?})", self.head)
    }
}

impl MemoryStore {
    /// What is kept, for a look or a change behind the client's back.
    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of all nodes.
    #[must_use]
    pub fn node_bytes(&self) -> usize {
        self.kept().nodes.values().map(Blob::len).sum()
    }
}

impl TreeStore for MemoryStore {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        let kept = self.kept();
        let mut nodes: Vec<Option<Blob>> =
            fetch.nodes.iter().map(|node| kept.nodes.get(node).cloned()).collect();
        if fetch.root {
            nodes.push(kept.nodes.get(&kept.head.root).cloned());
        }
        let labels =
            fetch.ciphertexts.iter().map(|sought| kept.table.get(sought.as_slice()).copied()).collect();
        Box::pin(ready(Ok(Fetched { head: kept.head, nodes, labels })))
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        Box::pin(ready(self.kept().apply(change)))
    }
}

fn refused(why: &str) -> ChannelError {
    ChannelError::Refused(Refusal::Malformed(why.into()))
}

/// Entries of the table as they were before a change, to go back to.
type Undo = Vec<(Arc<[u8]>, Option<Label>)>;

impl Kept {
    /// Applies a change, or nothing of it.
    ///
    /// # Errors
    /// [`ChannelError::Refused`] if it contradicts the table.
    pub fn apply(&mut self, change: TreeChange) -> Result<bool, ChannelError> {
        if change.expected != self.head.version {
            return Ok(false);
        }
        if change.head.version != change.expected + 1 {
            return Err(refused("a change leads to the next version"));
        }
        let mut undo = Vec::new();
        if let Err(error) = self.apply_table(&change, &mut undo) {
            for (ciphertext, label) in undo.into_iter().rev() {
                self.set(&ciphertext, label);
            }
            return Err(error);
        }
        for (node, bytes) in change.nodes {
            match bytes {
                Some(bytes) => self.nodes.insert(node, bytes),
                None => self.nodes.remove(&node),
            };
        }
        self.head = change.head;
        Ok(true)
    }

    fn set(&mut self, ciphertext: &Arc<[u8]>, label: Option<Label>) {
        if let Some(old) = self.table.remove(ciphertext)
            && self.order.get(&old) == Some(ciphertext)
        {
            self.order.remove(&old);
        }
        if let Some(label) = label {
            self.table.insert(Arc::clone(ciphertext), label);
            self.order.insert(label, Arc::clone(ciphertext));
        }
    }

    fn apply_table(&mut self, change: &TreeChange, undo: &mut Undo) -> Result<(), ChannelError> {
        for ciphertext in &change.left {
            let (ciphertext, label) = self
                .table
                .remove_entry(ciphertext.as_slice())
                .ok_or_else(|| refused("a ciphertext that leaves is not there"))?;
            self.order.remove(&label);
            undo.push((ciphertext, Some(label)));
        }
        change.summaries.iter().try_for_each(|summary| self.relabel(summary, undo))?;
        let there = || refused("a ciphertext or a label that enters is there");
        self.table.reserve(change.entered.len());
        undo.reserve(change.entered.len());
        for (ciphertext, label) in &change.entered {
            let ciphertext: Arc<[u8]> = ciphertext.as_slice().into();
            let place = match self.order.entry(*label) {
                btree_map::Entry::Vacant(place) if ![0, u64::MAX].contains(label) => place,
                _ => return Err(there()),
            };
            match self.table.entry(Arc::clone(&ciphertext)) {
                hash_map::Entry::Vacant(entry) => entry.insert(*label),
                hash_map::Entry::Occupied(_) => return Err(there()),
            };
            place.insert(Arc::clone(&ciphertext));
            undo.push((ciphertext, None));
        }
        if self.table.len() as u64 != change.head.values {
            return Err(refused("the head's number of values is not the table's"));
        }
        Ok(())
    }

    fn relabel(&mut self, summary: &Summary, undo: &mut Undo) -> Result<(), ChannelError> {
        let Some((low, high)) = summary.range().filter(|(low, high)| low <= high) else { return Ok(()) };
        let old: Vec<(Label, Arc<[u8]>)> = self
            .order
            .range(low..=high)
            .map(|(label, ciphertext)| (*label, Arc::clone(ciphertext)))
            .collect();
        let new: Vec<Label> =
            (0..).zip(&old).map(|(rank, (label, _))| summary.transform(*label, rank)).collect();
        for (label, _) in &old {
            self.order.remove(label);
        }
        undo.extend(old.iter().map(|(label, ciphertext)| (Arc::clone(ciphertext), Some(*label))));
        if !new.is_sorted_by(|one, next| one < next) {
            return Err(refused("a summary changes the order"));
        }
        for (label, (before, ciphertext)) in new.into_iter().zip(old) {
            self.rewritten += u64::from(label != before);
            self.table.insert(Arc::clone(&ciphertext), label);
            if self.order.insert(label, ciphertext).is_some() {
                return Err(refused("a summary leads to a label that is taken"));
            }
        }
        Ok(())
    }
}
