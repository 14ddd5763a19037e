//! Filling new indexes with a collection's documents.
//!
//! Equality and unique indexes take the documents in the order of the scan. Entries of range indexes are gathered first, as
//! many as memory allows. ArxRange's are put in order: neighbours share a bucket, so that each bucket is written once for all
//! of them and not once for each. It shows nothing: buckets are known to the server in order anyway, and which document an
//! entry is of is sealed in them. So are those of other protocols whose server knows the order anyway (`fills_in_order`); the rest
//! go in a random order, since it shows.

use super::apply::{Revision, Steps};
use super::channel::ServerChannel;
use super::collection::Collection;
use super::index::IndexPart;
use super::scan::Scan;
use super::{Shared, builds, cutting, error, terms};
use arras_documents::limits::Measured;
use arras_protocol::IndexId;
use arras_records::OpenDocument;
use arras_schemes::contract::RangeEntry;
use arras_schemes::contract::{EncryptedIndex, RowChange, Serves, Terms};
use arras_service::ServiceError;
use arras_storage::Storage;
use rand::seq::SliceRandom;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often the log says how far an index is filled.
const PROGRESS: Duration = Duration::from_secs(5);
/// Documents of one step.
const DOCUMENTS_PER_STEP: u32 = 1000;
/// Memory for entries that wait to be put in order, in bytes, about.
const GATHERED_BYTES: usize = 64 * 1024 * 1024;
/// Memory of one of them besides its key, in bytes, about.
const GATHERED_ENTRY_BYTES: usize = 100;
/// Most entries of one write: about 4 MB.
const ENTRIES_PER_WRITE: usize = 16 * 1024;

/// Entries of a range index that wait.
struct Gathered {
    part: Arc<IndexPart>,
    entries: Vec<RangeEntry>,
}

impl Gathered {
    fn add(&mut self, documents: &[OpenDocument]) -> Result<(), ServiceError> {
        for document in documents {
            let found =
                terms::of(&self.part, &document.document).map_err(|error| error::too_many_entries(&error))?;
            // The index is not ready: what it is gets recorded when it is.
            self.part.facts.add(&found);
            let row = document.row;
            self.entries.extend(found.terms.into_iter().map(|(value, sums)| RangeEntry { value, row, sums }));
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let key_bytes = self.part.physical.key_bytes().unwrap_or_default();
        self.entries.len().saturating_mul(key_bytes.saturating_add(GATHERED_ENTRY_BYTES))
    }
}

/// How far it is: told to whoever asks, and from time to time to the log.
struct Progress<'b> {
    build: builds::Build<'b>,
    name: String,
    total: u64,
    done: u64,
    told: Instant,
}

impl Progress<'_> {
    /// Fails if the build is to end.
    fn reach(&mut self, done: u64) -> Result<(), ServiceError> {
        self.build.advance(done.saturating_sub(self.done))?;
        self.done = self.done.max(done);
        if self.told.elapsed() >= PROGRESS {
            self.told = Instant::now();
            let (done, total) = (self.done, self.total);
            tracing::info!(collection = %self.name, done, total, "filling an index: documents done, of so many");
        }
        Ok(())
    }
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Enters every document into the indexes `filling`, which are empty. The caller holds the write lock.
    pub(super) async fn fill(
        &self,
        collection: &Arc<Collection>,
        filling: &[IndexId],
    ) -> Result<(), ServiceError> {
        let parts = collection.parts().into_iter().filter(|part| filling.contains(&part.id));
        let (ranges, others): (Vec<_>, Vec<_>) =
            parts.partition(|part: &Arc<IndexPart>| part.half.serves() == Serves::Range);
        let mut gathered: Vec<Gathered> =
            ranges.into_iter().map(|part| Gathered { part, entries: Vec::new() }).collect();
        let total = self.document_count(collection)?;
        let name = format!("{}.{}", collection.ns.database, collection.ns.collection);
        let build = self.builds.begin(&collection.ns, total);
        let began = Instant::now();
        let mut progress = Progress { build, name, total, done: 0, told: began };
        let mut scan = Scan::new(self, collection, DOCUMENTS_PER_STEP);
        let mut read = 0_u64;
        loop {
            let documents = scan.next(&*self.channel).await?;
            let is_end = documents.is_empty();
            read = read.saturating_add(documents.len() as u64);
            progress.build.advance(0)?;
            gathered.iter_mut().try_for_each(|range| range.add(&documents))?;
            if !others.is_empty() {
                self.enter(collection, &others, documents).await?;
            }
            if gathered.is_empty() {
                progress.reach(read)?;
            } else if is_end || gathered.iter().map(Gathered::bytes).sum::<usize>() >= GATHERED_BYTES {
                self.enter_gathered(&mut gathered, &mut progress, read).await?;
            }
            if is_end {
                let seconds = began.elapsed().as_secs();
                tracing::info!(collection = %progress.name, documents = read, seconds, "an index is filled");
                return Ok(());
            }
        }
    }

    /// Enters documents into indexes without order.
    async fn enter(
        &self,
        collection: &Collection,
        parts: &[Arc<IndexPart>],
        documents: Vec<OpenDocument>,
    ) -> Result<(), ServiceError> {
        let filling: Vec<IndexId> = parts.iter().map(|part| part.id).collect();
        let revision = |old: OpenDocument| {
            let new = Some(Measured::known(old.document.clone(), old.bytes));
            Revision { row: old.row, sequence: old.sequence, old: Some(old), new }
        };
        let mut revisions = documents.into_iter().map(revision).peekable();
        while revisions.peek().is_some() {
            let chunk = cutting::next_write(parts, &mut revisions, self.settings.request_bytes);
            if let Some(error) = self.conflicts(collection, &chunk).await?.into_iter().flatten().next() {
                return Err(error);
            }
            self.apply_filling(collection, &chunk, &filling).await?;
        }
        Ok(())
    }

    /// Enters what was gathered of range indexes; all documents `read` so far are done then.
    async fn enter_gathered(
        &self,
        gathered: &mut [Gathered],
        progress: &mut Progress<'_>,
        read: u64,
    ) -> Result<(), ServiceError> {
        let (before, all) =
            (progress.done, gathered.iter().map(|range| range.entries.len() as u64).sum::<u64>());
        let mut entered = 0_u64;
        for Gathered { part, entries } in gathered {
            let Some(index) = Arc::clone(&part.half).range() else { continue };
            if index.fills_in_order() {
                entries
                    .sort_unstable_by(|left, right| (&left.value, left.row).cmp(&(&right.value, right.row)));
            } else {
                // In the order of keys, pages would tell which are equal; in that of the scan, which document each is of.
                entries.shuffle(&mut self.settings.random.rng());
            }
            let most = index.entries_per_write(self.settings.request_bytes).min(ENTRIES_PER_WRITE);
            let mut waiting = std::mem::take(entries).into_iter();
            while waiting.len() > 0 {
                let insert: Vec<RangeEntry> = waiting.by_ref().take(most).collect();
                entered += insert.len() as u64;
                self.enter_entries(&part.half, insert).await?;
                let share = read.saturating_sub(before).saturating_mul(entered) / all.max(1);
                progress.reach(before.saturating_add(share))?;
            }
        }
        progress.reach(read)?;
        Ok(())
    }

    /// Enters some entries, as a write of their own.
    async fn enter_entries(
        &self,
        half: &Arc<dyn EncryptedIndex>,
        entries: Vec<RangeEntry>,
    ) -> Result<(), ServiceError> {
        let change = |RangeEntry { value, row, sums }| RowChange {
            row,
            old: Terms::new(),
            new: Terms::from([(value, sums)]),
            held: Vec::new(),
        };
        let changes = entries.into_iter().map(change).collect();
        let place = Arc::clone(half).place().await;
        let staged = Arc::clone(half).stage(place, changes, self.state()).await;
        let mut staged = staged.map_err(error::index)?;
        self.precede(&mut staged).await?;
        let mut steps = Steps::default();
        steps.add(std::mem::take(&mut staged.steps));
        let steps = steps.in_order(&mut self.settings.random.rng());
        let changes = self.state_changes(std::mem::take(&mut staged.state));
        self.intents.perform(&*self.channel, steps, changes).await.map_err(error::write)?;
        self.repair(staged.commit());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
