//! What the proxy knows of the server's collections without asking: how many documents each has, and what was
//! written while a query read.
//!
//! *Counts.* The number of documents of a collection is the proxy's own. A write changes it when its outcome is
//! known, in the transaction that strikes its intent: a crash in between has the write sent again, which applies it
//! once, and then counted once.
//!
//! *Watches.* An answer that lacks what an index named, or an index that lacks what was entered, is a lie unless a
//! write came in between. A query watches from before its first request: every write that was under way then or
//! began later may explain a difference, no other does.

use super::local::{Change, LocalError, LocalStore, Sealed};
use arras_protocol::write::Step;
use arras_protocol::{CollectionId, OperationId, RowId, documents};
use arras_storage::{Storage, Table};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Collection id to itself and its number of documents.
pub(super) const COUNTS: Table = Table("each_write.document_counts");
/// Changes kept for queries that watch. A query that lasts beside more is told to start over if it meets a
/// difference.
const KEPT_MAX: usize = 250_000;

/// Documents that came and went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moved {
    inserted: u64,
    deleted: u64,
}

impl Moved {
    fn add(&mut self, other: Self) {
        self.inserted += other.inserted;
        self.deleted += other.deleted;
    }
}

/// What is known of one collection.
#[derive(Debug, Default)]
struct Tally {
    /// Its documents by all writes that ended; none if nobody has counted them.
    documents: Option<u64>,
    /// By writes that began, whatever became of them.
    begun: Moved,
    /// By writes that ended, whatever became of them.
    ended: Moved,
}

/// What one write does.
#[derive(Debug, Default)]
struct Effects {
    moved: BTreeMap<CollectionId, Moved>,
    made: Option<CollectionId>,
    dropped: Option<CollectionId>,
    /// Rows written, and whether they went.
    rows: HashMap<(CollectionId, RowId), bool>,
    /// Names of the records of values whose entries it adds or removes.
    values: Vec<Vec<u8>>,
    /// These records, if it is not applied.
    undo: Sealed,
}

impl Effects {
    fn of(steps: &[Step], changes: &[Change], value_records: Table) -> Self {
        let mut effects = Self::default();
        for step in steps {
            let Step::Documents(change) = step else { continue };
            match change {
                documents::Change::CreateCollection { collection } => effects.made = Some(*collection),
                documents::Change::DropCollection { collection } => effects.dropped = Some(*collection),
                documents::Change::Put { collection, document, insert } => {
                    effects.moved.entry(*collection).or_default().inserted += u64::from(*insert);
                    effects.rows.insert((*collection, document.row), false);
                }
                documents::Change::PutHeader { collection, row, .. } => {
                    effects.rows.insert((*collection, *row), false);
                }
                documents::Change::Delete { collection, row } => {
                    effects.moved.entry(*collection).or_default().deleted += 1;
                    effects.rows.insert((*collection, *row), true);
                }
            }
        }
        effects.values =
            changes.iter().filter_map(|change| change.name_in(value_records)).map(<[u8]>::to_vec).collect();
        effects.undo = changes.iter().filter_map(|change| change.undo_in(value_records)).collect();
        effects
    }

    fn size(&self) -> usize {
        self.rows.len() + self.values.len()
    }
}

#[derive(Debug, Default)]
struct State {
    tallies: HashMap<CollectionId, Tally>,
    under_way: HashMap<OperationId, Effects>,
    /// Writes that ended while somebody watched, oldest first, each with its number among all that ended.
    ended: VecDeque<(u64, Effects)>,
    /// Changes in `ended`.
    kept: usize,
    /// Number of the next write that ends.
    ends: u64,
    /// The effects of a write of this number were dropped although somebody watched; of all before it, too.
    dropped_below: u64,
    /// Where watches began, in numbers of ended writes, and how many at each.
    watches: BTreeMap<u64, usize>,
}

impl State {
    /// Drops what no watch can ask for any more, and the oldest of what is too much.
    fn prune(&mut self) {
        let first = self.watches.keys().next().copied().unwrap_or(u64::MAX);
        while let Some((number, _)) = self.ended.front()
            && (*number < first || self.kept > KEPT_MAX)
        {
            self.dropped_below = if *number < first { self.dropped_below } else { number + 1 };
            if let Some((_, effects)) = self.ended.pop_front() {
                self.kept -= effects.size();
            }
        }
    }
}

/// Whether a write explains a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Explained {
    /// A write under way since the watch began does.
    Yes,
    /// No write does.
    No,
    /// The watch has lasted beside too many writes to tell.
    Unknown,
}

/// Counts of documents and writes under way.
#[derive(Debug)]
pub struct Ledger {
    /// The table whose records stand for values with entries.
    value_records: Table,
    state: Mutex<State>,
}

impl Ledger {
    /// Takes up the recorded counts. A change of a record of `value_records` says that the entries of its value
    /// change.
    ///
    /// # Errors
    /// [`LocalError`] if they cannot be read.
    pub fn open<S: Storage>(local: &LocalStore<S>, value_records: Table) -> Result<Self, LocalError> {
        let mut state = State::default();
        for (collection, documents) in local.all::<(CollectionId, u64)>(COUNTS)? {
            state.tallies.insert(collection, Tally { documents: Some(documents), ..Tally::default() });
        }
        Ok(Self { value_records, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a write before anything of it is recorded or sent; the records of values to go back to if it comes to
    /// nothing.
    pub fn begin(&self, operation: OperationId, steps: &[Step], changes: &[Change]) -> Sealed {
        let effects = Effects::of(steps, changes, self.value_records);
        let undo = effects.undo.clone();
        self.note(operation, effects);
        undo
    }

    /// Notes a write that an earlier start left, and what takes it back.
    pub fn left(&self, operation: OperationId, steps: &[Step], undo: Sealed) {
        self.note(operation, Effects { undo, ..Effects::of(steps, &[], self.value_records) });
    }

    fn note(&self, operation: OperationId, effects: Effects) {
        let mut state = self.state();
        for (collection, moved) in &effects.moved {
            state.tallies.entry(*collection).or_default().begun.add(*moved);
        }
        state.under_way.insert(operation, effects);
    }

    /// What takes back the records of values that a write changed, which is not applied and has not ended yet.
    pub fn undo(&self, operation: OperationId) -> Vec<Change> {
        let state = self.state();
        let undo = state.under_way.get(&operation).map(|effects| effects.undo.as_slice()).unwrap_or_default();
        undo.iter()
            .map(|(name, sealed)| Change::sealed(self.value_records, name.clone(), sealed.clone()))
            .collect()
    }

    /// Notes that the outcome of a write is known; the changes that record the counts it leaves, to be applied with
    /// its strike and in the order of these calls.
    pub fn end<S: Storage>(
        &self,
        operation: OperationId,
        applied: bool,
        local: &LocalStore<S>,
    ) -> Vec<Change> {
        let mut state = self.state();
        let Some(effects) = state.under_way.remove(&operation) else {
            return Default::default();
        };
        let mut changes = Vec::new();
        if let Some(made) = effects.made.filter(|_| applied) {
            let tally = state.tallies.entry(made).or_default();
            tally.documents = Some(0);
            changes.push(record(local, made, tally));
        }
        for (collection, moved) in &effects.moved {
            let tally = state.tallies.entry(*collection).or_default();
            tally.ended.add(*moved);
            if applied && let Some(documents) = &mut tally.documents {
                *documents = documents.saturating_add(moved.inserted).saturating_sub(moved.deleted);
                if moved.inserted != moved.deleted {
                    changes.push(record(local, *collection, tally));
                }
            }
        }
        if let Some(dropped) = effects.dropped.filter(|_| applied) {
            state.tallies.remove(&dropped);
            changes.push(local.unset(COUNTS, dropped.as_bytes()));
        }
        let number = state.ends;
        state.ends += 1;
        if !state.watches.is_empty() {
            state.kept += effects.size();
            state.ended.push_back((number, effects));
            state.prune();
        }
        changes
    }

    /// Documents of a collection by all writes that ended; none if nobody has counted them.
    pub(super) fn documents(&self, collection: CollectionId) -> Option<u64> {
        self.state().tallies.get(&collection).and_then(|tally| tally.documents)
    }

    /// Takes a collection's count from a scan beside which nothing was written; the change that records it.
    pub(super) fn counted<S: Storage>(
        &self,
        collection: CollectionId,
        documents: u64,
        local: &LocalStore<S>,
    ) -> Change {
        let mut state = self.state();
        let tally = state.tallies.entry(collection).or_default();
        tally.documents = Some(documents);
        record(local, collection, tally)
    }

    /// Where the count of a collection stands.
    pub(super) fn mark(&self, collection: CollectionId) -> Mark {
        let state = self.state();
        let tally = state.tallies.get(&collection);
        Mark {
            collection,
            documents: tally.and_then(|tally| tally.documents),
            ended: tally.map(|tally| tally.ended).unwrap_or_default(),
        }
    }

    /// How many documents a scan that began at `mark` and ends now may have met, from and to: exactly the
    /// collection's if nothing was written meanwhile. None if the collection is not counted, or is gone.
    pub(super) fn bounds(&self, mark: Mark) -> Option<(u64, u64)> {
        let state = self.state();
        let documents = mark.documents?;
        let begun = state.tallies.get(&mark.collection)?.begun;
        // What was under way at the mark is not in its count and may have been applied.
        let inserted = begun.inserted.saturating_sub(mark.ended.inserted);
        let deleted = begun.deleted.saturating_sub(mark.ended.deleted);
        Some((documents.saturating_sub(deleted), documents.saturating_add(inserted)))
    }

    /// Changes of ended writes that are kept for queries that watch.
    pub(super) fn kept(&self) -> usize {
        self.state().kept
    }

    /// Watches writes from now on.
    pub(super) fn watch(self: &Arc<Self>) -> Watch {
        let mut state = self.state();
        let began = state.ends;
        *state.watches.entry(began).or_default() += 1;
        Watch { ledger: Arc::clone(self), began }
    }
}

fn record<S: Storage>(local: &LocalStore<S>, collection: CollectionId, tally: &Tally) -> Change {
    match tally.documents {
        Some(documents) => local.set(COUNTS, collection.as_bytes(), &(collection, documents)),
        None => local.unset(COUNTS, collection.as_bytes()),
    }
}

/// See [`Ledger::mark`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    collection: CollectionId,
    documents: Option<u64>,
    ended: Moved,
}

/// Sees every write that is under way from its beginning to its end.
#[derive(Debug)]
pub(super) struct Watch {
    ledger: Arc<Ledger>,
    began: u64,
}

impl Watch {
    fn any(&self, touches: impl Fn(&Effects) -> bool) -> Explained {
        let state = self.ledger.state();
        let since =
            state.ended.iter().filter(|(number, _)| *number >= self.began).map(|(_, effects)| effects);
        if state.under_way.values().chain(since).any(touches) {
            Explained::Yes
        } else if state.dropped_below > self.began {
            Explained::Unknown
        } else {
            Explained::No
        }
    }

    /// Whether a write explains that a row an index named is not there.
    pub(super) fn deleted(&self, collection: CollectionId, row: RowId) -> Explained {
        self.any(|effects| effects.rows.get(&(collection, row)) == Some(&true))
    }

    /// Whether a write explains that a value's entries are not as many as its record says.
    pub(super) fn entered(&self, value_record: &[u8]) -> Explained {
        self.any(|effects| effects.values.iter().any(|value| value == value_record))
    }

    /// Whether a write explains that a document is not what an index said of it.
    pub(super) fn written(&self, collection: CollectionId, row: RowId) -> Explained {
        self.any(|effects| effects.rows.contains_key(&(collection, row)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.ledger.state();
        if let Some(watches) = state.watches.get_mut(&self.began) {
            *watches -= 1;
            if *watches == 0 {
                state.watches.remove(&self.began);
            }
        }
        state.prune();
    }
}
