//! What the planner must know of the documents in an index: how many have several entries there, and how many have keys
//! that stand for more than one value. While there are none, the index gives an order, and counts alone.
//!
//! The counts are recorded with each write that changes them, among the records of values, so that they are taken back
//! with it if it comes to nothing. In memory they are never too low: what a write adds is added before it is sent, and
//! what it takes is taken when it is applied.

use super::apply::COUNTERS;
use super::index::IndexPart;
use super::local::{Change, LocalError, LocalStore};
use super::terms::Entries;
use arras_protocol::IndexId;
use arras_storage::Storage;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Behind an index's id: no value's record has so short a name.
const NAME: &[u8] = b"facts";

/// Counts of documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    /// Documents with an array on the way to an indexed value: they have several entries, or may.
    pub(super) multikey: u64,
    /// Documents with a key that stands for more than one value (long strings, some decimals).
    pub(super) inexact: u64,
}

impl Facts {
    fn of(entries: &Entries) -> Self {
        Self { multikey: u64::from(entries.multikey), inexact: u64::from(entries.inexact) }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            multikey: self.multikey.saturating_add(other.multikey),
            inexact: self.inexact.saturating_add(other.inexact),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            multikey: self.multikey.saturating_sub(other.multikey),
            inexact: self.inexact.saturating_sub(other.inexact),
        }
    }

    /// Each document has one entry, which tells its value.
    pub(super) fn none(self) -> bool {
        self == Self::default()
    }
}

/// The facts of an index in memory.
#[derive(Debug, Default)]
pub struct LiveFacts {
    multikey: AtomicU64,
    inexact: AtomicU64,
    /// How often they rose.
    raised: AtomicU64,
}

impl LiveFacts {
    pub(super) fn now(&self) -> Facts {
        let multikey = self.multikey.load(Ordering::SeqCst);
        Facts { multikey, inexact: self.inexact.load(Ordering::SeqCst) }
    }

    pub(super) fn set(&self, facts: Facts) {
        self.multikey.store(facts.multikey, Ordering::SeqCst);
        self.inexact.store(facts.inexact, Ordering::SeqCst);
    }

    /// Adds a document's, for an index that nobody searches yet.
    pub(super) fn add(&self, entries: &Entries) {
        self.set(self.now().plus(Facts::of(entries)));
    }

    /// How often they have risen: one who went by them while they were zero, and finds them zero again, sees by this
    /// whether they were so all the while.
    pub(super) fn raised(&self) -> u64 {
        self.raised.load(Ordering::SeqCst)
    }
}

/// What a write makes of an index's facts.
pub(super) struct FactsChange {
    part: Arc<IndexPart>,
    before: Facts,
    /// At most, until its outcome is known.
    during: Facts,
    after: Facts,
}

impl FactsChange {
    /// Of a write that takes the documents of the entries `old` and adds those of `new`; none if it changes nothing.
    pub(super) fn of<'e, S: Storage>(
        local: &LocalStore<S>,
        part: &Arc<IndexPart>,
        differences: impl Iterator<Item = (&'e Entries, &'e Entries)>,
    ) -> Result<Option<Self>, LocalError> {
        let (mut taken, mut added) = (Facts::default(), Facts::default());
        for (old, new) in differences {
            taken = taken.plus(Facts::of(old));
            added = added.plus(Facts::of(new));
        }
        if taken == added {
            return Ok(None);
        }
        // What is on record, not what is in memory: after a write in doubt that is too high.
        let before = recorded(local, part.id)?;
        let during = before.plus(added);
        Ok(Some(Self { part: Arc::clone(part), before, during, after: during.minus(taken) }))
    }

    /// Goes by the most that they may be from now on; the change that records them, to be taken back with the write.
    pub(super) fn begin<S: Storage>(&self, local: &LocalStore<S>) -> Change {
        let facts = &self.part.facts;
        if self.during != self.after || self.after != self.before {
            facts.raised.fetch_add(1, Ordering::SeqCst);
        }
        facts.set(self.during);
        record(local, self.part.id, self.after).or_else(record(local, self.part.id, self.before))
    }

    /// `applied`: none if nobody knows.
    pub(super) fn end(&self, applied: Option<bool>) {
        match applied {
            Some(true) => self.part.facts.set(self.after),
            Some(false) => self.part.facts.set(self.before),
            None => {}
        }
    }
}

fn name(index: IndexId) -> Vec<u8> {
    [index.as_bytes().as_slice(), NAME].concat()
}

/// The facts of an index on record.
pub(super) fn recorded<S: Storage>(local: &LocalStore<S>, index: IndexId) -> Result<Facts, LocalError> {
    Ok(local.get_as_named(COUNTERS, &name(index))?.unwrap_or_default())
}

/// The change that records them: nothing is kept of an index without any.
pub(super) fn record<S: Storage>(local: &LocalStore<S>, index: IndexId, facts: Facts) -> Change {
    if facts.none() {
        return local.unset_as_named(COUNTERS, name(index));
    }
    local.set_as_named(COUNTERS, name(index), &facts)
}

#[cfg(test)]
mod tests;
