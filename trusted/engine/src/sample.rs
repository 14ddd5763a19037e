//! What the keys of a range index are like, where the index cannot say it: the keys of the documents whose rows come first.
//! Rows are pseudorandom, so these are a fair sample of all, whatever comes and goes. The server sees that a collection's
//! first rows are read, once in a run of the engine.

use super::Shared;
use super::apply::Revision;
use super::channel::ServerChannel;
use super::collection::Collection;
use super::error;
use super::index::IndexPart;
use super::terms;
use arras_protocol::{Channel, RowId, documents};
use arras_records::OpenDocument;
use arras_service::ServiceError;
use arras_storage::Storage;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Documents of a sample when it is begun. It is thinned when there are twice as many, and taken anew when a quarter is left of
/// what it had then.
const ROWS: usize = 512;
/// Most keys of a sample: documents with arrays have many.
const KEYS_MAX: usize = 8192;

/// The sample of one index; none while nobody has asked for it.
#[derive(Default)]
pub struct LiveSample(Mutex<Option<Sample>>);

#[derive(Default)]
struct Sample {
    /// The last row that would be in it; none: all are.
    upto: Option<RowId>,
    /// Rows that it had when it was begun or thinned.
    begun: usize,
    rows: BTreeMap<RowId, Vec<Vec<u8>>>,
    /// How many entries each key has.
    keys: BTreeMap<Vec<u8>, u64>,
    entries: usize,
    /// Keys with one entry.
    single: u64,
}

impl Sample {
    fn has_room_for(&self, row: RowId) -> bool {
        self.upto.is_none_or(|upto| row <= upto)
    }

    /// Takes a document's keys in place of those it had; none if it is gone.
    fn set(&mut self, row: RowId, keys: Option<Vec<Vec<u8>>>) {
        if !self.has_room_for(row) {
            return;
        }
        for key in self.rows.remove(&row).unwrap_or_default() {
            self.entries = self.entries.saturating_sub(1);
            let Some(count) = self.keys.get_mut(&key) else { continue };
            *count = count.saturating_sub(1);
            match *count {
                0 => {
                    self.keys.remove(&key);
                    self.single = self.single.saturating_sub(1);
                }
                1 => self.single += 1,
                _ => {}
            }
        }
        let Some(keys) = keys else { return };
        for key in &keys {
            self.entries += 1;
            let count = self.keys.entry(key.clone()).or_default();
            *count += 1;
            match *count {
                1 => self.single += 1,
                2 => self.single = self.single.saturating_sub(1),
                _ => {}
            }
        }
        self.rows.insert(row, keys);
        while self.rows.len() > 1 && (self.rows.len() > 2 * ROWS || self.entries > KEYS_MAX) {
            self.thin();
        }
    }

    /// Leaves the lower half of the rows.
    fn thin(&mut self) {
        let gone: Vec<RowId> = self.rows.keys().skip(self.rows.len() / 2).copied().collect();
        for row in gone {
            self.set(row, None);
        }
        self.end_at(self.rows.keys().next_back().copied());
    }

    /// It has what there is of rows up to one.
    fn end_at(&mut self, upto: Option<RowId>) {
        self.upto = upto;
        self.begun = self.rows.len();
    }

    /// Too much of it is gone to say anything.
    fn is_worn(&self) -> bool {
        self.upto.is_some() && self.rows.len() < (self.begun / 4).max(1)
    }

    /// How many of all stand for one of the sample.
    fn scale(&self, documents: u64) -> f64 {
        if self.upto.is_none() { 1.0 } else { documents as f64 / self.rows.len().max(1) as f64 }
    }

    /// About how many entries have a key from `lower` to `upper`, of so many documents.
    fn between(&self, lower: &[u8], upper: &[u8], documents: u64) -> u64 {
        if lower > upper {
            return 0;
        }
        let range = (Bound::Included(lower), Bound::Included(upper));
        let met: u64 = self.keys.range::<[u8], _>(range).map(|(_, count)| count).sum();
        // What a sample does not have may be there all the same.
        let unseen = if self.upto.is_some() { 0.5 } else { 0.0 };
        ((met as f64).max(unseen) * self.scale(documents)).round() as u64
    }

    /// About how many keys there are, of so many documents: the estimator Duj1 of Haas and Stokes (JASA 1998), which
    /// PostgreSQL's planner goes by.
    fn distinct(&self, documents: u64) -> u64 {
        let met = self.keys.len() as f64;
        if self.upto.is_none() {
            return self.keys.len() as u64;
        }
        let (sampled, single) = (self.entries as f64, self.single as f64);
        let all = (sampled * self.scale(documents)).max(met).max(1.0);
        let distinct = sampled * met / (sampled - single + single * sampled / all).max(1.0);
        distinct.clamp(met, all).round() as u64
    }
}

impl LiveSample {
    fn lock(&self) -> MutexGuard<'_, Option<Sample>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_wanted(&self) -> bool {
        self.lock().as_ref().is_none_or(Sample::is_worn)
    }

    /// About how many of the entries of so many documents have a key from `lower` to `upper`.
    pub(super) fn between(&self, lower: &[u8], upper: &[u8], documents: u64) -> Option<u64> {
        self.lock().as_ref().map(|sample| sample.between(lower, upper, documents))
    }

    /// About how many keys so many documents have.
    pub(super) fn distinct(&self, documents: u64) -> Option<u64> {
        self.lock().as_ref().map(|sample| sample.distinct(documents))
    }

    fn begin(&self, rows: impl Iterator<Item = (RowId, Vec<Vec<u8>>)>, all: bool) {
        let mut sample = Sample::default();
        let mut last = None;
        for (row, keys) in rows {
            sample.set(row, Some(keys));
            last = Some(row);
        }
        if !all && sample.upto.is_none() {
            sample.end_at(last);
        }
        *self.lock() = Some(sample);
    }
}

/// What a write makes of a sample.
pub(super) struct SampleChange {
    part: Arc<IndexPart>,
    rows: Vec<(RowId, Option<Vec<Vec<u8>>>)>,
}

impl SampleChange {
    /// Of a write with these entries before and after; none if the sample has nothing of its documents.
    pub(super) fn of(
        part: &Arc<IndexPart>,
        revisions: &[Revision],
        entries: &[(terms::Entries, terms::Entries)],
    ) -> Option<Self> {
        let sample = part.sample.lock();
        let live = sample.as_ref()?;
        let concerned = revisions.iter().zip(entries).filter(|(revision, _)| live.has_room_for(revision.row));
        let after =
            concerned.map(|(revision, (_, new))| (revision.row, revision.new.as_ref().map(|_| keys(new))));
        let rows: Vec<_> = after.collect();
        (!rows.is_empty()).then(|| Self { part: Arc::clone(part), rows })
    }

    /// What became of the write: `applied`, none if nobody knows. Of what nobody knows a sample is taken anew.
    pub(super) fn end(self, applied: Option<bool>) {
        let mut sample = self.part.sample.lock();
        match (&mut *sample, applied) {
            (Some(sample), Some(true)) => {
                for (row, keys) in self.rows {
                    sample.set(row, keys);
                }
            }
            (_, None) => *sample = None,
            (_, Some(_)) => {}
        }
    }
}

fn keys(entries: &terms::Entries) -> Vec<Vec<u8>> {
    entries.terms.keys().cloned().collect()
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Sees that the planner has samples of the range indexes that cannot say what they hold. What is written meanwhile may
    /// be missing in them; what cannot be read is said by the query itself.
    pub(super) async fn sample(&self, collection: &Collection) {
        let is_wanted = |part: &Arc<IndexPart>| {
            let range = Arc::clone(&part.half).range();
            range.is_some_and(|range| !range.estimates()) && part.sample.is_wanted()
        };
        // Before every plan: most have nothing to do here.
        if !collection.indexes().iter().flat_map(|index| &index.parts).any(is_wanted) {
            return;
        }
        // Who comes meanwhile goes by what is known.
        let Ok(_turn) = collection.sampling.try_lock() else { return };
        let wanted: Vec<Arc<IndexPart>> = collection.parts().into_iter().filter(is_wanted).collect();
        if wanted.is_empty() {
            return;
        }
        match self.first_rows(collection).await {
            Ok((documents, all)) => {
                for part in wanted {
                    let entries = documents.iter().filter_map(|document| {
                        let entries = terms::of(&part, &document.document).ok()?;
                        Some((document.row, keys(&entries)))
                    });
                    part.sample.begin(entries, all);
                }
            }
            Err(error) => tracing::debug!(%error, "no sample could be taken of a collection"),
        }
    }

    /// The documents of the lowest rows, as many as fit one reply; whether those are all.
    async fn first_rows(&self, collection: &Collection) -> Result<(Vec<OpenDocument>, bool), ServiceError> {
        let request =
            documents::Request::Scan { collection: collection.id, after: None, documents_max: ROWS as u32 };
        let reply =
            Channel::<documents::Documents>::call(&*self.channel, request).await.map_err(error::channel)?;
        let documents::Response::Documents { documents, more, .. } = reply else {
            return Err(error::not_of_protocol());
        };
        if !documents.is_sorted_by(|left, right| left.row < right.row) {
            return Err(error::lying(&collection.ns, "documents are repeated or out of order in a scan"));
        }
        Ok((collection.open_all(documents).await?, !more))
    }
}

#[cfg(test)]
mod tests;
