//! One write: what a set of document changes does to documents, indexes and counters, as one intent.

use super::channel::ServerChannel;
use super::cleanup::Cleanup;
use super::collection::{Collection, Released};
use super::facts::FactsChange;
use super::index::{Half, Part};
use super::intents::WriteError;
use super::local::{Change, LocalError, LocalStore};
use super::terms::{self, Entries};
use super::{Shared, catalog, error};
use arras_documents::limits;
use arras_protocol::write::Step;
use arras_protocol::{IndexId, RowId, documents, unique};
use arras_records::{IndexTerms, OpenDocument};
use arras_schemes::arx_eq::ArxEq;
use arras_schemes::arx_eq::occurrences::{Held, Occurrences};
use arras_schemes::arx_range::{ArxRange, RangeEntry, Staged};
use arras_service::{Fault, ServiceError};
use arras_storage::{Storage, Table};
use bson::Document;
use rand::seq::SliceRandom;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use tokio::task::JoinSet;

/// Index id and counter slot to the record of a value's entries ([`Occurrences::encode`]); none for a value without.
pub(super) const COUNTERS: Table = Table("counters");

/// Either the server showed an older state of a document, or the proxy's own store is damaged.
const NOT_ON_RECORD: &str =
    "a document's entry in an equality index is not among those on record for its value";

/// A change of one document.
pub(super) struct Revision {
    /// Which.
    pub(super) row: RowId,
    /// Its place in insertion order.
    pub(super) sequence: u64,
    /// As it is stored; none if it is new.
    pub(super) old: Option<OpenDocument>,
    /// As it will be; none if it goes.
    pub(super) new: Option<Document>,
}

/// What a revision adds to and takes from one index.
struct Difference {
    old: Entries,
    new: Entries,
}

/// Steps in the order in which they take effect: entries before the document, and out after it.
#[derive(Default)]
struct Steps {
    freed: Vec<Step>,
    entries: Vec<Step>,
    /// Of range indexes: each index's in the order it gave them, which follows from its shape.
    ranges: Vec<Step>,
    documents: Vec<Step>,
    removed: Vec<Step>,
}

impl Steps {
    /// All of them. What takes effect together is permuted: an array's elements, the values of an index and the
    /// documents of a write would otherwise come in the order of their plaintexts, and entries beside the documents
    /// they are for.
    fn in_order(mut self) -> Vec<Step> {
        for set in [&mut self.freed, &mut self.entries, &mut self.documents, &mut self.removed] {
            set.shuffle(&mut rand::rng());
        }
        [self.freed, self.entries, self.ranges, self.documents, self.removed].into_iter().flatten().collect()
    }
}

/// Records of values that one write changes: read once, recorded with the intent.
#[derive(Default)]
pub(super) struct ValueRecords {
    changed: HashMap<Vec<u8>, ValueRecord>,
}

/// The record of one value.
struct ValueRecord {
    before: Option<Occurrences>,
    now: Occurrences,
}

impl ValueRecord {
    /// The record as it becomes, and as it stays if the write is not applied: the counters it took have been shown
    /// and are not taken again.
    fn change<S: Storage>(&self, name: &[u8], local: &LocalStore<S>) -> Change {
        let set = |occurrences: &Occurrences| {
            if occurrences.live() == 0 {
                return local.unset_as_named(COUNTERS, name.to_vec());
            }
            local.set_as_named(COUNTERS, name.to_vec(), &occurrences.encode())
        };
        let undo = self.before.clone().map(|before| before.without_those_of(&self.now));
        set(&self.now)
            .or_else(undo.map_or_else(|| local.unset_as_named(COUNTERS, name.to_vec()), |undo| set(&undo)))
    }
}

pub(super) fn counter_name(index: IndexId, slot: &[u8; 16]) -> Vec<u8> {
    [index.as_bytes().as_slice(), slot].concat()
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Applies revisions atomically and durably. The caller holds the collection's write lock and has checked
    /// uniqueness.
    pub(super) async fn apply(
        &self,
        collection: &Collection<C>,
        revisions: &[Revision],
    ) -> Result<(), ServiceError> {
        self.apply_filling(collection, revisions, &[]).await
    }

    /// The same, taking the documents for new ones in the indexes that are being filled.
    pub(super) async fn apply_filling(
        &self,
        collection: &Collection<C>,
        revisions: &[Revision],
        filling: &[IndexId],
    ) -> Result<(), ServiceError> {
        let mut parts = collection.parts();
        // Documents hold the counters of equality indexes; filling others leaves them as they are.
        let is_counted = |part: &Arc<Part<C>>| filling.contains(&part.id) && matches!(part.half, Half::Eq(_));
        let rewrites = filling.is_empty() || parts.iter().any(is_counted);
        if !rewrites {
            parts.retain(|part| filling.contains(&part.id));
        }
        let mut steps = Steps::default();
        let mut values = ValueRecords::default();
        let mut headers: Vec<IndexTerms> = vec![IndexTerms::default(); revisions.len()];
        let mut changes_of_ranges = Vec::new();
        let mut facts = Vec::new();
        let mut removed = Vec::new();
        for part in &parts {
            let differences = differences(part, revisions, filling.contains(&part.id))?;
            let entries = differences.iter().map(|difference| (&difference.old, &difference.new));
            facts.extend(FactsChange::of(&self.local, part, entries).map_err(error::local)?);
            match &part.half {
                Half::Unique(labels) => {
                    unique_steps(part.id, labels, revisions, &differences, &mut steps);
                }
                Half::Eq(half) => {
                    let released =
                        self.eq_steps(half, revisions, &differences, &mut headers, &mut values, &mut steps)?;
                    removed.push((Arc::clone(part), released));
                }
                Half::Range(index) => {
                    let (insert, remove) = range_entries(revisions, differences);
                    if !insert.is_empty() || !remove.is_empty() {
                        changes_of_ranges.push((Arc::clone(index), insert, remove));
                    }
                }
            }
        }
        if rewrites {
            document_steps(collection, revisions, headers, &mut steps)?;
        }
        let mut staged = stage(changes_of_ranges).await?;
        steps.ranges.extend(staged.iter_mut().flat_map(|stage| std::mem::take(&mut stage.steps)));
        let performed = self.perform_recording(collection, &facts, steps.in_order(), &values).await;
        // A staged change that is dropped makes its index load itself again before the next use.
        performed.map_err(error::write)?;
        for stage in staged {
            self.repair(stage.commit());
        }
        if self.settings.cleanup == Cleanup::EachDelete {
            // Not here: the caller may hold documents with the counters of now.
            collection.thinned.lock().unwrap_or_else(PoisonError::into_inner).extend(removed);
        }
        Ok(())
    }

    /// Performs a write together with the facts it changes, and with the record of the collection if the one on disk is
    /// not what memory has.
    async fn perform_recording(
        &self,
        collection: &Collection<C>,
        facts: &[FactsChange<C>],
        steps: Vec<Step>,
        values: &ValueRecords,
    ) -> Result<(), WriteError> {
        let mut changes = self.value_changes(values);
        changes.extend(facts.iter().map(|change| change.begin(&self.local)));
        let was_unrecorded = collection.unrecorded.load(Ordering::SeqCst);
        if was_unrecorded {
            changes.push(catalog::record(&self.local, &collection.record()));
        }
        let performed = self.intents.perform(&*self.channel, steps, changes).await;
        let applied = match &performed {
            Ok(()) => Some(true),
            Err(failed) if failed.nothing_applied() => Some(false),
            Err(_) => None,
        };
        facts.iter().for_each(|change| change.end(applied));
        if was_unrecorded && performed.as_ref().err().is_none_or(WriteError::is_recorded) {
            collection.unrecorded.store(false, Ordering::SeqCst);
        }
        performed
    }

    /// Counters for new values, entries for them, removal of old ones: the values that lose entries, and under which
    /// counters these were.
    fn eq_steps(
        &self,
        half: &ArxEq,
        revisions: &[Revision],
        differences: &[Difference],
        headers: &mut [IndexTerms],
        values: &mut ValueRecords,
        steps: &mut Steps,
    ) -> Result<Released, ServiceError> {
        let mut released = Released::new();
        for ((revision, difference), header) in revisions.iter().zip(differences).zip(headers) {
            let held = revision.old.as_ref().map(|old| old.terms.of(half.index())).unwrap_or_default();
            let held: BTreeMap<&Vec<u8>, Held> =
                difference.old.values.iter().zip(held.iter().copied()).collect();
            let mut now = Vec::with_capacity(difference.new.values.len());
            for value in &difference.new.values {
                let entry = match held.get(value) {
                    Some(entry) => *entry,
                    None => {
                        let occurrences = self.value_record(half, value, values)?;
                        let entry = occurrences.take_held().ok_or_else(|| {
                            let message = "a value has used all its counters; rebuild the index";
                            error::of(Fault::Internal, message)
                        })?;
                        let insert = half.insert(value, occurrences.salt(), entry.counter, revision.row);
                        steps.entries.push(Step::ArxEq(insert));
                        entry
                    }
                };
                now.push(entry);
            }
            for (value, entry) in held {
                if !difference.new.values.contains(value) {
                    let occurrences = self.value_record(half, value, values)?;
                    let salt = occurrences.salt();
                    if !occurrences.may_hold(entry) || !occurrences.release(entry.counter) {
                        return Err(error::of(Fault::Corruption, NOT_ON_RECORD));
                    }
                    steps.removed.push(Step::ArxEq(half.remove(value, salt, entry.counter)));
                    released.entry(value.clone()).or_default().insert(entry.counter);
                }
            }
            if !now.is_empty() {
                header.entries.push((half.index(), now));
            }
        }
        Ok(released)
    }

    /// The record of a value as this write has made it so far.
    pub(super) fn value_record<'v>(
        &self,
        half: &ArxEq,
        value: &[u8],
        values: &'v mut ValueRecords,
    ) -> Result<&'v mut Occurrences, ServiceError> {
        Ok(match values.changed.entry(counter_name(half.index(), &half.slot(value).0)) {
            Entry::Occupied(known) => &mut known.into_mut().now,
            Entry::Vacant(place) => {
                let before = self.occurrences(place.key())?;
                let now = before.clone().unwrap_or_else(|| Occurrences::new(&mut rand::rng()));
                &mut place.insert(ValueRecord { before, now }).now
            }
        })
    }

    /// The record of a value, as it was last recorded; none if the value has no entries.
    pub(super) fn occurrences(&self, name: &[u8]) -> Result<Option<Occurrences>, ServiceError> {
        let record: Option<Vec<u8>> = self.local.get_as_named(COUNTERS, name).map_err(error::local)?;
        let record = record.map(|record| Occurrences::decode(&record)).transpose();
        record.map_err(|_| error::local(LocalError::Damaged(COUNTERS.0)))
    }

    /// The changes that record the values' records.
    pub(super) fn value_changes(&self, values: &ValueRecords) -> Vec<Change> {
        values.changed.iter().map(|(name, record)| record.change(name, &self.local)).collect()
    }
}

/// A range index, and the entries to add to it and to take from it.
type RangeChange<C> = (Arc<ArxRange<C>>, Vec<RangeEntry>, Vec<RangeEntry>);

/// Stages the changes of range indexes side by side. All are held, in the order in which every write takes them,
/// before the first is worked on: two that wait for each other's would wait for ever.
async fn stage<C: ServerChannel>(changes: Vec<RangeChange<C>>) -> Result<Vec<Staged>, ServiceError> {
    let mut held = Vec::with_capacity(changes.len());
    for (index, insert, remove) in changes {
        held.push((index.hold().await, index, insert, remove));
    }
    if held.len() <= 1 {
        let Some((held, index, insert, remove)) = held.pop() else { return Ok(Vec::new()) };
        return Ok(vec![index.stage_held(held, insert, remove).await.map_err(error::index)?]);
    }
    let mut staging = JoinSet::new();
    for (position, (held, index, insert, remove)) in held.into_iter().enumerate() {
        staging.spawn(async move { (position, index.stage_held(held, insert, remove).await) });
    }
    let mut staged = BTreeMap::new();
    while let Some(ended) = staging.join_next().await {
        let (position, stage) = ended.map_err(|error| error::of(Fault::Internal, error.to_string()))?;
        staged.insert(position, stage.map_err(error::index)?);
    }
    Ok(staged.into_values().collect())
}

fn differences<C>(
    part: &Arc<Part<C>>,
    revisions: &[Revision],
    filling: bool,
) -> Result<Vec<Difference>, ServiceError> {
    let terms = |document: Option<&Document>| match document {
        Some(document) => terms::of(part, document).map_err(|error| error::too_many_entries(&error)),
        None => Ok(Entries::default()),
    };
    revisions
        .iter()
        .map(|revision| {
            let old = terms(revision.old.as_ref().filter(|_| !filling).map(|old| &old.document))?;
            Ok(Difference { old, new: terms(revision.new.as_ref())? })
        })
        .collect()
}

fn unique_steps(
    index: IndexId,
    labels: &arras_schemes::unique::UniqueLabels,
    revisions: &[Revision],
    differences: &[Difference],
    steps: &mut Steps,
) {
    for (revision, Difference { old, new }) in revisions.iter().zip(differences) {
        for value in old.values.difference(&new.values) {
            let label = labels.label(value);
            steps.freed.push(Step::Unique(unique::Change::Remove { index, label }));
        }
        for value in new.values.difference(&old.values) {
            let label = labels.label(value);
            let row = revision.row;
            steps.entries.push(Step::Unique(unique::Change::Insert { index, label, row }));
        }
    }
}

/// Entries to add and to remove; one whose sums change is both.
fn range_entries(revisions: &[Revision], differences: Vec<Difference>) -> (Vec<RangeEntry>, Vec<RangeEntry>) {
    let (mut insert, mut remove) = (Vec::new(), Vec::new());
    for (revision, Difference { mut old, mut new }) in revisions.iter().zip(differences) {
        old.keys.retain(|key, sums| {
            let same = new.keys.get(key) == Some(sums);
            if same {
                new.keys.remove(key);
            }
            !same
        });
        let entry = |(value, sums)| RangeEntry { value, row: revision.row, sums };
        remove.extend(old.keys.into_iter().map(entry));
        insert.extend(new.keys.into_iter().map(entry));
    }
    (insert, remove)
}

fn document_steps<C: ServerChannel>(
    collection: &Collection<C>,
    revisions: &[Revision],
    headers: Vec<IndexTerms>,
    steps: &mut Steps,
) -> Result<(), ServiceError> {
    let mut rng = rand::rng();
    let id = collection.id;
    for (revision, header) in revisions.iter().zip(headers) {
        let change = match &revision.new {
            Some(document) => {
                limits::check_built(document)?;
                let insert = revision.old.is_none();
                let sealed =
                    collection.sealer.seal(revision.row, revision.sequence, header, document, &mut rng);
                let sealed = sealed.map_err(|error| error::of(Fault::BadValue, error.to_string()))?;
                documents::Change::Put { collection: id, document: sealed, insert }
            }
            None => documents::Change::Delete { collection: id, row: revision.row },
        };
        steps.documents.push(Step::Documents(change));
    }
    Ok(())
}
