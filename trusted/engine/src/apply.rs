//! One write: what a set of document changes does to documents, indexes and counters, as one intent.

use super::channel::ServerChannel;
use super::cleanup::Cleanup;
use super::collection::Collection;
use super::facts::FactsChange;
use super::index::IndexPart;
use super::intents::WriteError;
use super::local::{Change, LocalStore};
use super::mutations::Mutation;
use super::sample::SampleChange;
use super::terms::{self, Entries};
use super::{Shared, catalog, error};
use arras_documents::limits::Measured;
use arras_protocol::write::Step;
use arras_protocol::{IndexId, RowId, documents};
use arras_records::{IndexTerms, OpenDocument};
use arras_schemes::contract::{self, RowChange, Serves, Staged, State, StateChange};
use arras_schemes::error::IndexError;
use arras_schemes::random::Randomness;
use arras_service::{Fault, ServiceError};
use arras_storage::{Storage, Table};
use bson::Document;
use rand::CryptoRng;
use rand::seq::SliceRandom;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use tokio::task::JoinSet;

/// Index id and what the index calls it by to a record of an index: of an equality index that of a value's entries, none for a
/// value without.
pub(super) const COUNTERS: Table = Table("counters");

/// A change of one document.
pub(super) struct Revision {
    /// Which.
    pub(super) row: RowId,
    /// Its place in insertion order.
    pub(super) sequence: u64,
    /// As it is stored; none if it is new.
    pub(super) old: Option<OpenDocument>,
    /// As it will be; none if it goes.
    pub(super) new: Option<Measured>,
}

/// Steps in the order in which they take effect: entries before the document, and out after it.
#[derive(Default)]
pub(super) struct Steps {
    of_indexes: contract::Steps,
    documents: Vec<Step>,
}

impl Steps {
    pub(super) fn add(&mut self, staged: contract::Steps) {
        let contract::Steps { freed, entries, ordered, removed } = staged;
        self.of_indexes.freed.extend(freed);
        self.of_indexes.entries.extend(entries);
        self.of_indexes.ordered.extend(ordered);
        self.of_indexes.removed.extend(removed);
    }

    /// Adds a step of documents.
    pub(super) fn put(&mut self, step: Step) {
        self.documents.push(step);
    }

    /// All of them. What takes effect together is permuted: an array's elements, the values of an index and the
    /// documents of a write would otherwise come in the order of their plaintexts, and entries beside the documents
    /// they are for.
    pub(super) fn in_order(self, rng: &mut impl CryptoRng) -> Vec<Step> {
        let contract::Steps { mut freed, mut entries, ordered, mut removed } = self.of_indexes;
        let mut documents = self.documents;
        for set in [&mut freed, &mut entries, &mut documents, &mut removed] {
            set.shuffle(rng);
        }
        [freed, entries, ordered, documents, removed].into_iter().flatten().collect()
    }
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Applies revisions atomically and durably. The caller holds the collection's write lock and has checked
    /// uniqueness.
    pub(super) async fn apply(
        &self,
        collection: &Collection,
        revisions: &[Revision],
    ) -> Result<(), ServiceError> {
        self.apply_filling(collection, revisions, &[]).await
    }

    /// The same, taking the documents for new ones in the indexes that are being filled.
    pub(super) async fn apply_filling(
        &self,
        collection: &Collection,
        revisions: &[Revision],
        filling: &[IndexId],
    ) -> Result<(), ServiceError> {
        let mut parts = collection.parts();
        // Documents hold the counters of equality indexes; filling others leaves them as they are.
        let is_held = |part: &Arc<IndexPart>| filling.contains(&part.id) && part.half.keeps_in_headers();
        let rewrites = filling.is_empty() || parts.iter().any(is_held);
        if !rewrites {
            parts.retain(|part| filling.contains(&part.id));
        }
        let text = if filling.is_empty() { self.text_write(collection, revisions)? } else { None };
        let (mut facts, mut samples) = (Vec::new(), Vec::new());
        let mut changes = Vec::with_capacity(parts.len());
        for part in &parts {
            let of_part = differences(part, revisions, filling.contains(&part.id))?;
            let entries = of_part.iter().map(|(old, new)| (old, new));
            facts.extend(FactsChange::of(&self.local, part, entries).map_err(error::local)?);
            samples.extend(SampleChange::of(part, revisions, &of_part));
            changes.push((Arc::clone(part), row_changes(part, revisions, of_part)));
        }
        let mut staged = self.stage(changes).await?;
        for stage in &mut staged {
            self.precede(stage).await?;
        }
        let mut steps = Steps::default();
        let mut headers: Vec<IndexTerms> = vec![IndexTerms::default(); revisions.len()];
        let mut state = Vec::new();
        let mut removed = Vec::new();
        for (part, stage) in parts.iter().zip(&mut staged) {
            steps.add(std::mem::take(&mut stage.steps));
            state.append(&mut stage.state);
            for (header, held) in headers.iter_mut().zip(std::mem::take(&mut stage.held)) {
                if !held.is_empty() {
                    header.entries.push((part.id, held));
                }
            }
            let released = std::mem::take(&mut stage.released);
            if !released.is_empty() {
                removed.push((Arc::clone(part), released));
            }
        }
        if rewrites {
            document_steps(collection, revisions, headers, &mut steps, &mut self.settings.random.rng())?;
        }
        if self.settings.mutations.has(Mutation::RepairBeforeWrite) {
            staged.drain(..).for_each(|stage| self.repair(stage.commit()));
        }
        let mut changes = self.state_changes(state);
        changes.extend(text.iter().flat_map(|write| self.untold_records(write)));
        let steps = steps.in_order(&mut self.settings.random.rng());
        let performed = self.perform_recording(collection, &facts, steps, changes).await;
        // A staged change that is dropped makes its index load itself again before the next use.
        let applied = applied(&performed);
        samples.into_iter().for_each(|change: SampleChange| change.end(applied));
        performed.map_err(error::write)?;
        for stage in staged {
            self.repair(stage.commit());
        }
        if let Some(write) = text {
            self.tell_text(collection, write).await;
        }
        if self.settings.cleanup == Cleanup::EachDelete {
            // Not here: the caller may hold documents with the counters of now.
            collection.thinned.lock().unwrap_or_else(PoisonError::into_inner).extend(removed);
        }
        Ok(())
    }

    /// Stages the changes of indexes side by side. The places of all are taken, in the order in which every write takes
    /// them, before the first is worked on: two that wait for each other's would wait for ever.
    async fn stage(
        &self,
        changes: Vec<(Arc<IndexPart>, Vec<RowChange>)>,
    ) -> Result<Vec<Staged>, ServiceError> {
        let state = self.state();
        let mut placed = Vec::with_capacity(changes.len());
        for (part, changes) in changes {
            // One that is not changed is not waited for.
            let is_changed = changes.iter().any(|change| change.old != change.new);
            let place = if is_changed { Arc::clone(&part.half).place().await } else { Box::new(()) };
            placed.push((part, place, changes, is_changed));
        }
        let mut staged: Vec<Staged> = Vec::with_capacity(placed.len());
        let mut staging = JoinSet::new();
        let several = placed.iter().filter(|(part, _, _, changed)| *changed && is_range(part)).count() > 1;
        for (position, (part, place, mut changes, is_changed)) in placed.into_iter().enumerate() {
            if is_range(&part) && self.settings.mutations.has(Mutation::TombstoneForgotten) {
                let stays = |change: &mut RowChange| change.old.retain(|key, _| change.new.contains_key(key));
                changes.iter_mut().for_each(stays);
            }
            staged.push(Staged::default());
            // What a header keeps is kept by those who stage nothing, too.
            if !is_changed && !part.half.keeps_in_headers() {
                continue;
            }
            let stage = Arc::clone(&part.half).stage(place, changes, Arc::clone(&state));
            if several && is_range(&part) {
                staging.spawn(async move { (position, stage.await) });
            } else if let Some(place) = staged.get_mut(position) {
                *place = stage.await.map_err(error::index)?;
            }
        }
        while let Some(ended) = staging.join_next().await {
            let (position, stage) = ended.map_err(|error| error::of(Fault::Internal, error.to_string()))?;
            if let Some(place) = staged.get_mut(position) {
                *place = stage.map_err(error::index)?;
            }
        }
        Ok(staged)
    }

    /// Writes what goes before a staged change.
    pub(super) async fn precede(&self, staged: &mut Staged) -> Result<(), ServiceError> {
        let Some(mut preceding) = staged.preceding.take() else { return Ok(()) };
        while let Some((of_index, state)) = preceding.next() {
            let mut steps = Steps::default();
            steps.add(of_index);
            let steps = steps.in_order(&mut self.settings.random.rng());
            let performed = self.intents.perform(&*self.channel, steps, self.state_changes(state)).await;
            // Whatever becomes of these, nothing of the caller's write is recorded: it may be tried again.
            performed.map_err(|error| match error {
                WriteError::InDoubt(why) | WriteError::HaltedInDoubt(why) => {
                    let message = format!("the server cannot be reached ({why}); nothing was written");
                    error::of(Fault::Unreachable, message)
                }
                WriteError::Undecided(why) => error::of(
                    Fault::Unreachable,
                    format!("an index could not be made ready ({why}); nothing was written"),
                ),
                other => error::write(other),
            })?;
            preceding.acknowledged().map_err(error::index)?;
        }
        Ok(())
    }

    /// Performs a write together with the facts it changes, and with the record of the collection if the one on disk is
    /// not what memory has.
    async fn perform_recording(
        &self,
        collection: &Collection,
        facts: &[FactsChange],
        mut steps: Vec<Step>,
        mut changes: Vec<Change>,
    ) -> Result<(), WriteError> {
        changes.extend(facts.iter().map(|change| change.begin(&self.local)));
        let was_unrecorded = collection.unrecorded.load(Ordering::SeqCst);
        if was_unrecorded {
            changes.push(catalog::record(&self.local, &collection.record()));
        }
        if self.settings.mutations.has(Mutation::IndexOutsideTransaction) {
            let (documents, of_indexes) =
                steps.into_iter().partition(|step| matches!(step, Step::Documents(_)));
            steps = documents;
            self.intents.perform(&*self.channel, of_indexes, Vec::new()).await?;
        }
        let performed = self.intents.perform(&*self.channel, steps, changes).await;
        let applied = applied(&performed);
        facts.iter().for_each(|change| change.end(applied));
        if was_unrecorded && performed.as_ref().err().is_none_or(WriteError::is_recorded) {
            collection.unrecorded.store(false, Ordering::SeqCst);
        }
        performed
    }

    /// The changes of this store that record what indexes keep in it.
    pub(super) fn state_changes(&self, changes: Vec<StateChange>) -> Vec<Change> {
        let set = |name: &[u8], record: Option<&Vec<u8>>| match record {
            Some(record) => self.local.set_as_named(COUNTERS, name.to_vec(), record),
            None => self.local.unset_as_named(COUNTERS, name.to_vec()),
        };
        let again = self.settings.mutations.has(Mutation::CounterTwice);
        let change = |StateChange { name, now, otherwise }: StateChange| {
            let otherwise = match again {
                true => self.local.get_as_named(COUNTERS, &name).unwrap_or_default(),
                false => otherwise,
            };
            set(&name, now.as_ref()).or_else(set(&name, otherwise.as_ref()))
        };
        changes.into_iter().map(change).collect()
    }

    /// The same records, as indexes read them.
    pub(super) fn state(&self) -> Arc<dyn State> {
        Arc::clone(&self.local) as Arc<dyn State>
    }
}

impl<S: Storage> State for LocalStore<S> {
    fn read(&self, name: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        self.get_as_named(COUNTERS, name).map_err(|error| IndexError::State(error.to_string()))
    }

    fn read_many(&self, names: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, IndexError> {
        self.get_many_as_named(COUNTERS, names).map_err(|error| IndexError::State(error.to_string()))
    }

    fn each(&self, beginning: &[u8], visit: &mut dyn FnMut(&[u8], Vec<u8>)) -> Result<(), IndexError> {
        self.each_as_named(COUNTERS, beginning, visit).map_err(|error| IndexError::State(error.to_string()))
    }

    fn randomness(&self) -> &Randomness {
        self.randomness()
    }
}

fn is_range(part: &IndexPart) -> bool {
    part.half.serves() == Serves::Range
}

/// Whether a write was applied; none if nobody knows.
fn applied(performed: &Result<(), WriteError>) -> Option<bool> {
    match performed {
        Ok(()) => Some(true),
        Err(failed) if failed.nothing_applied() => Some(false),
        Err(_) => None,
    }
}

/// What each revision takes from an index and adds to it.
fn differences(
    part: &IndexPart,
    revisions: &[Revision],
    filling: bool,
) -> Result<Vec<(Entries, Entries)>, ServiceError> {
    let terms = |document: Option<&Document>| match document {
        Some(document) => terms::of(part, document).map_err(|error| error::too_many_entries(&error)),
        None => Ok(Entries::default()),
    };
    revisions
        .iter()
        .map(|revision| {
            let old = terms(revision.old.as_ref().filter(|_| !filling).map(|old| &old.document))?;
            Ok((old, terms(revision.new.as_deref())?))
        })
        .collect()
}

fn row_changes(
    part: &IndexPart,
    revisions: &[Revision],
    differences: Vec<(Entries, Entries)>,
) -> Vec<RowChange> {
    let changes = revisions.iter().zip(differences);
    changes
        .map(|(revision, (old, new))| RowChange {
            row: revision.row,
            old: old.terms,
            new: new.terms,
            held: revision.old.as_ref().map(|old| old.terms.of(part.id).to_vec()).unwrap_or_default(),
        })
        .collect()
}

fn document_steps(
    collection: &Collection,
    revisions: &[Revision],
    headers: Vec<IndexTerms>,
    steps: &mut Steps,
    rng: &mut impl CryptoRng,
) -> Result<(), ServiceError> {
    let id = collection.id;
    for (revision, header) in revisions.iter().zip(headers) {
        let change = match &revision.new {
            Some(document) => {
                let insert = revision.old.is_none();
                let sealed = collection.sealer.seal(revision.row, revision.sequence, header, document, rng);
                let sealed = sealed.map_err(|error| error::of(Fault::BadValue, error.to_string()))?;
                collection.lengths.note([&sealed]);
                documents::Change::Put { collection: id, document: sealed, insert }
            }
            None => documents::Change::Delete { collection: id, row: revision.row },
        };
        steps.put(Step::Documents(change));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
