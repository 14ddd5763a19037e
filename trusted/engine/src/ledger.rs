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
use std::collections::hash_map::Entry;
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

    fn touches(&self, one: &Touched, is_gone: bool) -> bool {
        match one {
            Touched::Row(collection, row) => {
                self.rows.get(&(*collection, *row)).is_some_and(|gone| *gone || !is_gone)
            }
            Touched::Value(name) => self.values.contains(name),
        }
    }

    /// What it touches, and whether that went.
    fn touched(self) -> Vec<(Touched, bool)> {
        let rows =
            self.rows.into_iter().map(|((collection, row), gone)| (Touched::Row(collection, row), gone));
        rows.chain(self.values.into_iter().map(|name| (Touched::Value(name), false))).collect()
    }
}

/// What a write touches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Touched {
    Row(CollectionId, RowId),
    /// The record of a value, by its name.
    Value(Vec<u8>),
}

/// The last of the kept writes that touched something, and that took it away, by their numbers.
#[derive(Clone, Copy, Debug)]
struct Last {
    touched: u64,
    gone: Option<u64>,
}

#[derive(Debug, Default)]
struct State {
    tallies: HashMap<CollectionId, Tally>,
    under_way: HashMap<OperationId, Effects>,
    /// What writes touched that ended while somebody watched, oldest first, each with its number among all that ended.
    ended: VecDeque<(u64, Vec<(Touched, bool)>)>,
    /// The last of them for each.
    last: HashMap<Touched, Last>,
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
            if let Some((number, touched)) = self.ended.pop_front() {
                self.kept -= touched.len();
                touched.into_iter().for_each(|(one, _)| self.forget(one, number));
            }
        }
    }

    /// Keeps what the write of a number touched.
    fn keep(&mut self, number: u64, touched: Vec<(Touched, bool)>) {
        self.kept += touched.len();
        for (one, gone) in &touched {
            let last = self.last.entry(one.clone()).or_insert(Last { touched: number, gone: None });
            last.touched = number;
            last.gone = if *gone { Some(number) } else { last.gone };
        }
        self.ended.push_back((number, touched));
    }

    fn forget(&mut self, one: Touched, number: u64) {
        let Entry::Occupied(mut last) = self.last.entry(one) else { return };
        if last.get().touched == number {
            last.remove();
        } else if last.get().gone == Some(number) {
            last.get_mut().gone = None;
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
            state.keep(number, effects.touched());
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
    /// Whether a write that is under way or was since the beginning touched something, or took it away.
    fn explained(&self, one: Touched, is_gone: bool) -> Explained {
        let state = self.ledger.state();
        let last = state.last.get(&one).copied();
        let ended = last.and_then(|last| if is_gone { last.gone } else { Some(last.touched) });
        if ended.is_some_and(|number| number >= self.began)
            || state.under_way.values().any(|effects| effects.touches(&one, is_gone))
        {
            Explained::Yes
        } else if state.dropped_below > self.began {
            Explained::Unknown
        } else {
            Explained::No
        }
    }

    /// Whether a write explains that a row an index named is not there.
    pub(super) fn deleted(&self, collection: CollectionId, row: RowId) -> Explained {
        self.explained(Touched::Row(collection, row), true)
    }

    /// Whether a write explains that a value's entries are not as many as its record says.
    pub(super) fn entered(&self, value_record: &[u8]) -> Explained {
        self.explained(Touched::Value(value_record.to_vec()), false)
    }

    /// Whether a write explains that a document is not what an index said of it.
    pub(super) fn written(&self, collection: CollectionId, row: RowId) -> Explained {
        self.explained(Touched::Row(collection, row), false)
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

#[cfg(test)]
mod tests {
    use super::*;

    const COLLECTION: CollectionId = CollectionId([1; 8]);

    fn row(number: u8) -> RowId {
        RowId([number; 16])
    }

    fn ledger() -> Arc<Ledger> {
        Arc::new(Ledger { value_records: COUNTS, state: Mutex::default() })
    }

    /// A write of some rows that ends.
    fn end(ledger: &Ledger, rows: &[(u8, bool)]) {
        let mut state = ledger.state();
        let number = state.ends;
        state.ends += 1;
        if !state.watches.is_empty() {
            let touched = rows.iter().map(|(number, gone)| (Touched::Row(COLLECTION, row(*number)), *gone));
            state.keep(number, touched.collect());
            state.prune();
        }
    }

    #[test]
    fn a_watch_sees_what_ended_since_it_began_and_nothing_before() {
        let ledger = ledger();
        let first = ledger.watch();
        end(&ledger, &[(1, true), (2, false)]);
        let second = ledger.watch();
        end(&ledger, &[(1, false)]);
        let deleted = |watch: &Watch, number| watch.deleted(COLLECTION, row(number));
        let written = |watch: &Watch, number| watch.written(COLLECTION, row(number));
        assert_eq!((deleted(&first, 1), deleted(&first, 2)), (Explained::Yes, Explained::No));
        assert_eq!((written(&first, 1), written(&first, 2)), (Explained::Yes, Explained::Yes));
        assert_eq!((deleted(&second, 1), written(&second, 1)), (Explained::No, Explained::Yes));
        assert_eq!(written(&second, 2), Explained::No);
        drop(first);
        assert_eq!((deleted(&second, 1), written(&second, 1)), (Explained::No, Explained::Yes));
        drop(second);
        let state = ledger.state();
        assert_eq!((state.kept, state.ended.len(), state.last.len()), (0, 0, 0), "nobody asks any more");
    }

    #[test]
    fn a_watch_beside_too_many_writes_cannot_tell() {
        let ledger = ledger();
        let watch = ledger.watch();
        end(&ledger, &[(1, true)]);
        for _ in 0..KEPT_MAX {
            end(&ledger, &[(2, false)]);
        }
        assert_eq!(watch.deleted(COLLECTION, row(1)), Explained::Unknown);
        assert_eq!(watch.written(COLLECTION, row(2)), Explained::Yes);
        assert_eq!(ledger.watch().written(COLLECTION, row(2)), Explained::No);
        assert_eq!(ledger.state().last.len(), 1);
    }

    #[test]
    fn a_write_under_way_explains_a_difference() {
        let ledger = ledger();
        let watch = ledger.watch();
        let rows = HashMap::from([((COLLECTION, row(1)), true)]);
        let effects = Effects { rows, values: vec![b"value".to_vec()], ..Effects::default() };
        ledger.note(OperationId { epoch: 1, sequence: 7 }, effects);
        assert_eq!(watch.deleted(COLLECTION, row(1)), Explained::Yes);
        assert_eq!((watch.entered(b"value"), watch.entered(b"other")), (Explained::Yes, Explained::No));
    }
}
