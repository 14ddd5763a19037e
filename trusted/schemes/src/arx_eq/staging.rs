//! What a change of documents comes to in an equality index: counters for new values, entries for them, removal of old
//! ones.

use super::ArxEq;
use super::occurrences::Occurrences;
use crate::contract::{Held, RowChange, Staged, State, StateChange};
use crate::error::IndexError;
use arras_protocol::write::Step;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Either the server showed an older state of a document, or the proxy's own store is damaged.
const NOT_ON_RECORD: &str =
    "a document's entry in an equality index is not among those on record for its value";

/// Records of values that one write changes: read once, recorded with the intent.
#[derive(Default)]
struct ValueRecords {
    changed: BTreeMap<Vec<u8>, ValueRecord>,
}

/// The record of one value.
pub(super) struct ValueRecord {
    /// As it was; none if the value had no entries.
    pub(super) before: Option<Occurrences>,
    /// As it becomes.
    pub(super) now: Occurrences,
}

impl ValueRecord {
    /// The record as it becomes, and as it stays if the write is not applied: the counters it took have been shown
    /// and are not taken again.
    pub(super) fn change(&self, name: &[u8]) -> StateChange {
        let encoded = |occurrences: &Occurrences| (occurrences.live() > 0).then(|| occurrences.encode());
        let otherwise = self.before.clone().map(|before| before.without_those_of(&self.now));
        StateChange {
            name: name.to_vec(),
            now: encoded(&self.now),
            otherwise: otherwise.as_ref().and_then(encoded),
        }
    }
}

impl ValueRecords {
    /// The record of a value as this write has made it so far.
    fn of<'v>(
        &'v mut self,
        half: &ArxEq,
        value: &[u8],
        state: &dyn State,
    ) -> Result<&'v mut Occurrences, IndexError> {
        Ok(match self.changed.entry(half.record_name(value)) {
            Entry::Occupied(known) => &mut known.into_mut().now,
            Entry::Vacant(place) => {
                let before = recorded(state, place.key())?;
                let now = before.clone().unwrap_or_else(|| Occurrences::new(&mut state.randomness().rng()));
                &mut place.insert(ValueRecord { before, now }).now
            }
        })
    }

    /// The changes that record them.
    fn changes(&self) -> Vec<StateChange> {
        self.changed.iter().map(|(name, record)| record.change(name)).collect()
    }
}

/// The record of a value's entries as it was last recorded; none if the value has no entries.
///
/// # Errors
/// [`IndexError::State`].
pub(super) fn recorded(state: &dyn State, name: &[u8]) -> Result<Option<Occurrences>, IndexError> {
    of_record(state.read(name)?.as_deref())
}

/// A value's entries by its record.
///
/// # Errors
/// [`IndexError::State`].
pub(super) fn of_record(record: Option<&[u8]>) -> Result<Option<Occurrences>, IndexError> {
    let entries = record.map(Occurrences::decode).transpose();
    entries.map_err(|_| IndexError::State("a value's record is damaged".into()))
}

impl ArxEq {
    /// The name of the record of a value (in canonical form) in the caller's state.
    #[must_use]
    pub fn record_name(&self, canonical: &[u8]) -> Vec<u8> {
        [self.index().as_bytes().as_slice(), &self.slot(canonical).0].concat()
    }

    /// Stages changes of documents.
    pub(super) fn staged(&self, changes: &[RowChange], state: &dyn State) -> Result<Staged, IndexError> {
        let mut staged = Staged::default();
        let mut values = ValueRecords::default();
        for change in changes {
            let now = self.stage_row(change, state, &mut values, &mut staged)?;
            staged.held.push(now);
        }
        staged.state = values.changes();
        Ok(staged)
    }

    /// One document; what its header is to keep.
    fn stage_row(
        &self,
        change: &RowChange,
        state: &dyn State,
        values: &mut ValueRecords,
        staged: &mut Staged,
    ) -> Result<Vec<Held>, IndexError> {
        let held: BTreeMap<&Vec<u8>, Held> = change.old.keys().zip(change.held.iter().copied()).collect();
        let mut now = Vec::with_capacity(change.new.len());
        for value in change.new.keys() {
            let entry = match held.get(value) {
                Some(entry) => *entry,
                None => {
                    let occurrences = values.of(self, value, state)?;
                    let used_up = "a value has used all its counters; rebuild the index";
                    let entry = occurrences.take_held().ok_or(IndexError::Caller(used_up))?;
                    let insert = self.insert(value, occurrences.salt(), entry.counter, change.row);
                    staged.steps.entries.push(Step::ArxEq(insert));
                    entry
                }
            };
            now.push(entry);
        }
        for (value, entry) in held {
            if !change.new.contains_key(value) {
                let occurrences = values.of(self, value, state)?;
                let salt = occurrences.salt();
                if !occurrences.may_hold(entry) || !occurrences.release(entry.counter) {
                    return Err(IndexError::Contradicted(NOT_ON_RECORD));
                }
                staged.steps.removed.push(Step::ArxEq(self.remove(value, salt, entry.counter)));
                staged.released.entry(value.clone()).or_default().insert(entry.counter);
            }
        }
        Ok(now)
    }
}
