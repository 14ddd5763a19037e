//! What the log's records change.

use crate::checkpoint::Head;
use crate::collection::Collection;
use crate::fault::Fault;
use crate::journal::Change;
use crate::policy::Policy;
use arras_keys::Key;
use arras_schemes::bisen::message::{Refused, Reply, Request};

/// Most collections.
pub(crate) const COLLECTIONS_MAX: usize = 64;

/// Bytes that a collection takes beside what is in it, about.
pub(crate) const COLLECTION_BYTES: usize = 96 * 1024;

/// Everything that a restart must find again.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) collections: Vec<Collection>,
    pub(crate) policy: Policy,
    /// Epoch numbers that were used up.
    pub(crate) epochs: u32,
    /// The epoch of the last spill: that of keywords that come into a table.
    pub(crate) generation: u32,
    /// The checkpoint with counters that are not in tables, if there are any.
    pub(crate) spilled: Option<Head>,
}

impl State {
    pub(crate) fn named(&self, name: &str) -> Option<u32> {
        self.collections.iter().position(|collection| collection.name == name).map(|at| at as u32)
    }

    pub(crate) fn open(&self, name: &str) -> Result<Reply, Refused> {
        let number = self.named(name).ok_or(Refused::NotAllowed)?;
        Ok(Reply::Opened(self.collection(number)?.opened(number)))
    }

    pub(crate) fn collection(&self, number: u32) -> Result<&Collection, Refused> {
        self.collections.get(number as usize).ok_or(Refused::NotAllowed)
    }

    pub(crate) fn collection_mut(&mut self, number: u32) -> Result<&mut Collection, Refused> {
        self.collections.get_mut(number as usize).ok_or(Refused::NotAllowed)
    }

    /// One that a record or a piece of the sealed state names.
    pub(crate) fn kept(&mut self, number: u32) -> Result<&mut Collection, Fault> {
        self.collection_mut(number).map_err(|_| Fault::StateAltered)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.collections.iter().map(|collection| collection.bytes() + COLLECTION_BYTES).sum()
    }

    /// Keywords in tables.
    pub(crate) fn keywords(&self) -> usize {
        self.collections.iter().map(|collection| collection.table.keywords()).sum()
    }

    /// What was in tables is spilled; what comes into them from now on is of this generation.
    pub(crate) fn begin_generation(&mut self, generation: u32) {
        (self.generation, self.epochs) = (generation, generation);
        self.collections.iter_mut().for_each(|collection| collection.table.empty(generation));
    }

    /// Carries out a change that is no update: those are staged and published.
    pub(crate) fn apply(&mut self, root: &Key, change: &Change) {
        match change {
            Change::Start { administrator, authority, .. } => self.policy.begin(administrator, *authority),
            Change::Asked(Request::Create { name, settings }) => {
                let described = (name.clone(), settings.clone());
                let (root, at) = (self.policy.root(root), self.collections.len());
                self.collections.push(Collection::new(&root, at, described, self.generation));
            }
            Change::Asked(request) => self.policy.apply(request),
            Change::Generation(_) => {}
            Change::Epoch => self.epochs += 1,
            Change::Compacted { collection, epoch, revision, saved, keywords } => {
                if let Ok(collection) = self.collection_mut(*collection) {
                    collection.revision = u128::from_le_bytes(*revision);
                    let table = &mut collection.table;
                    table.entries = table.entries.saturating_sub(u64::from_le_bytes(*saved));
                    for (stem, count) in keywords {
                        table.set(stem, u32::from_le_bytes(*count), *epoch, true);
                    }
                }
            }
        }
    }
}
