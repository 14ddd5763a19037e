//! What the log's records change.

use crate::checkpoint::Head;
use crate::collection::{About, Collection};
use crate::journal::Change;
use crate::policy::{POLICY_BYTES_MAX, Policy};
use crate::table::Table;
use arras_keys::Key;
use arras_protocol::iee::Fault;
use arras_schemes::bisen::message::{Refused, Reply, Request};
use std::sync::Arc;

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
    /// The newest checkpoint, of counters that are not in tables: whoever reads it, or entries that were counted beside it, holds it. When entries
    /// are replaced another takes its place, though it is the same: once nobody holds the one before, nobody reads what it counted.
    pub(crate) spilled: Arc<Head>,
}

impl State {
    pub(crate) fn named(&self, name: &str) -> Option<u32> {
        self.collections.iter().position(|collection| collection.about.name == name).map(|at| at as u32)
    }

    /// What somebody hears of a collection.
    pub(crate) fn open(&self, name: &str, may_update: bool) -> Result<Reply, Refused> {
        let number = self.named(name).ok_or(Refused::NotAllowed)?;
        Ok(Reply::Opened(self.collection(number)?.opened(number, may_update)))
    }

    pub(crate) fn collection(&self, number: u32) -> Result<&Collection, Refused> {
        self.collections.get(number as usize).ok_or(Refused::NotAllowed)
    }

    /// One that a record or a piece of the sealed state names.
    pub(crate) fn kept(&mut self, number: u32) -> Result<&mut Collection, Fault> {
        self.collections.get_mut(number as usize).ok_or(Fault::StateAltered)
    }

    /// Bytes that it takes, with all that rights and revoked certificates may take.
    pub(crate) fn bytes(&self) -> usize {
        let each = self.collections.iter().map(|collection| collection.bytes() + COLLECTION_BYTES);
        POLICY_BYTES_MAX + each.sum::<usize>()
    }

    pub(crate) fn add_collection(&mut self, root: &Key, about: About) {
        let (root, number) = (self.policy.root(root), self.collections.len() as u32);
        self.collections.push(Collection::new(&root, number, about, self.generation));
    }

    /// Keywords in tables.
    pub(crate) fn keywords(&self) -> usize {
        self.collections.iter().map(|collection| collection.table.keywords()).sum()
    }

    /// Everything that is small, of a generation.
    pub(crate) fn rest(&self, generation: u32) -> Change {
        Change::Rest {
            collections: self.collections.iter().map(|collection| collection.about.clone()).collect(),
            policy: self.policy.clone(),
            epochs: self.epochs.max(generation),
            generation,
        }
    }

    /// Another checkpoint counts from now on; the one before.
    pub(crate) fn succeed(&mut self, head: Head) -> Arc<Head> {
        let before = std::mem::replace(&mut self.spilled, Arc::new(head));
        let _ = before.next.set(Arc::clone(&self.spilled));
        before
    }

    /// What was in tables is spilled; what comes into them from now on is of this generation.
    pub(crate) fn begin_generation(&mut self, generation: u32) {
        (self.generation, self.epochs) = (generation, generation);
        self.collections.iter_mut().for_each(|collection| collection.table = Table::new(generation));
    }

    /// Carries out a change that is no update: those are staged and published.
    pub(crate) fn apply(&mut self, root: &Key, change: &Change) -> Result<(), Fault> {
        match change {
            Change::Start(owner) => self.policy.owner.clone_from(owner),
            Change::Asked(Request::Create { name, settings }) => {
                let about = About { name: name.clone(), settings: settings.clone(), revision: 0, entries: 0 };
                self.add_collection(root, about);
            }
            Change::Asked(request) => self.policy.apply(request),
            Change::Rest { collections, policy, epochs, generation } => {
                (self.policy, self.epochs, self.generation) = (policy.clone(), *epochs, *generation);
                collections.iter().for_each(|about| self.add_collection(root, about.clone()));
            }
            Change::Keywords(records) => {
                for record in records.iter() {
                    self.kept(record.collection.into())?.table.set(&record, false);
                }
            }
            Change::Versions(collection, versions) => {
                let documents = &mut self.kept(*collection)?.documents;
                versions.iter().for_each(|version| documents.restore(version));
            }
            Change::Epoch => self.epochs += 1,
            Change::Compacted { collection, revision, saved, keywords } => {
                let Collection { about, table, .. } = self.kept(*collection)?;
                (about.revision, about.entries) = (*revision, about.entries.saturating_sub(*saved));
                keywords.iter().for_each(|record| table.set(&record, true));
            }
        }
        Ok(())
    }
}
