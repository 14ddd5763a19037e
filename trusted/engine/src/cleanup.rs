//! Cleanup of equality indexes (Arx, VLDB'19, §5.3): entries of a value are numbered anew, so that searches neither
//! show nor pay for those that are gone. Which entries, and how, the index says ([`arras_schemes::contract::Renumbering`]); when, and as whose write, is
//! here. Each piece is one write, recorded with the value's record: entries out and in, and the headers of their documents, which
//! hold where they are. A crash leaves the state before it or after it.

use super::apply::Steps;
use super::channel::ServerChannel;
use super::collection::{Collection, Thinned};
use super::fetch::Absent;
use super::index::IndexPart;
use super::read::unknown_index;
use super::{Shared, error, terms};
use arras_protocol::write::Step;
use arras_protocol::{IndexId, documents};
use arras_records::{IndexTerms, OpenDocument};
use arras_schemes::contract::{EqualitySearch, Held, Occasion, Released, Renumbered, Worn};
use arras_service::ServiceError;
use arras_storage::{Durability, Storage};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, Weak};
use tokio::sync::mpsc;

/// Documents read at a time.
const DOCUMENTS_PER_READ: usize = 64;
/// Cleanups that wait; one that finds no place is asked for again by the next search.
pub(super) const WAITING_MAX: usize = 1024;

/// When the entries of a value are numbered anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cleanup {
    /// Behind a search that met more holes than entries. Shows nothing that the search has not shown.
    #[default]
    Threshold,
    /// With each deletion (and each change of an indexed value), which then shows the server the entries of the value;
    /// later searches show nothing of it. Values of many entries are cleaned of their holes only.
    EachDelete,
}

/// A value to be cleaned.
pub(super) struct Job {
    collection: Arc<Collection>,
    part: Arc<IndexPart>,
    worn: Worn,
}

/// Cleans what is asked for, one after the other, until the engine is gone.
pub(super) async fn run<S: Storage, C: ServerChannel>(
    shared: Weak<Shared<S, C>>,
    mut jobs: mpsc::Receiver<Job>,
) {
    while let Some(Job { collection, part, worn: Worn { value, searched } }) = jobs.recv().await {
        let Some(shared) = shared.upgrade() else { return };
        let target = Target { collection: &collection, part: &part, value: &value };
        if let Err(error) = shared.clean(target, searched).await {
            // The next search for the value asks again.
            tracing::debug!(%error, "a value of an equality index was not cleaned");
        }
    }
}

/// What went of each index, in one.
fn joined(thinned: Vec<Thinned>) -> Vec<Thinned> {
    let mut by_index: BTreeMap<IndexId, Thinned> = BTreeMap::new();
    for (part, released) in thinned {
        let (_, all) = by_index.entry(part.id).or_insert_with(|| (part, Released::new()));
        for (value, counters) in released {
            all.entry(value).or_default().extend(counters);
        }
    }
    by_index.into_values().collect()
}

/// A value of an index.
#[derive(Clone, Copy)]
struct Target<'t> {
    collection: &'t Collection,
    part: &'t IndexPart,
    value: &'t [u8],
}

impl Target<'_> {
    /// True if the collection still has the index.
    fn is_live(&self) -> bool {
        self.collection.parts().iter().any(|live| live.id == self.part.id)
    }

    fn half(&self) -> Result<Arc<dyn EqualitySearch>, ServiceError> {
        Arc::clone(&self.part.half).equality().ok_or_else(unknown_index)
    }

    /// Where a document's header names the entry of the value, and the entry.
    fn held(&self, document: &OpenDocument) -> Result<(usize, Held), ServiceError> {
        let values = terms::of(self.part, &document.document);
        let values = values.map_err(|error| error::too_many_entries(&error))?.terms;
        let place = values.keys().position(|value| value.as_slice() == self.value);
        let entry = place.and_then(|place| document.terms.of(self.part.id).get(place).copied());
        place.zip(entry).ok_or_else(|| {
            error::lying(&self.collection.ns, "an index names a document for a value that it does not hold")
        })
    }
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Has a value cleaned behind the answer of the search that found it worn.
    pub(super) fn clean_behind(&self, collection: &Arc<Collection>, part: &Arc<IndexPart>, worn: Worn) {
        let (collection, part) = (Arc::clone(collection), Arc::clone(part));
        // If there is no place, the next search asks again.
        drop(self.cleanups.try_send(Job { collection, part, worn }));
    }

    /// Cleans a value, as the collection's writer for each piece; not if it got entries, or began anew, since the
    /// search: the server has not been shown those.
    async fn clean(&self, target: Target<'_>, searched: Vec<u8>) -> Result<(), ServiceError> {
        let answer = |error| error::answer(&target.collection.ns, error);
        let Some(mut writer) = self.writer_while_live(target).await? else { return Ok(()) };
        let (value, occasion) = (target.value.to_vec(), Occasion::Searched(searched));
        let mut pieces = target.half()?.renumbering(value, occasion, self.state()).map_err(answer)?;
        while let Some(piece) = pieces.next().await.map_err(answer)? {
            self.renumber(target, piece).await?;
            // Others may write in between.
            drop(writer);
            let Some(again) = self.writer_while_live(target).await? else { return Ok(()) };
            writer = again;
        }
        Ok(())
    }

    /// Waits to be the one writer of the collection; none if it no longer has the index.
    async fn writer_while_live<'c>(
        &self,
        target: Target<'c>,
    ) -> Result<Option<tokio::sync::MutexGuard<'c, ()>>, ServiceError> {
        let writer = self.writer(target.collection).await?;
        Ok(target.is_live().then_some(writer))
    }

    /// Cleans, at the end of a statement that took entries away, the values whose policy is not to wait for a search.
    /// The caller holds the collection's write lock, and no document read before: cleaning changes their counters. At
    /// the first failure it ends, since what comes after one whose outcome is not known must wait for that; a value
    /// that stays as it is is cleaned with its next entry that goes.
    pub(super) async fn clean_after_statement(&self, collection: &Collection) {
        let thinned = std::mem::take(&mut *collection.thinned.lock().unwrap_or_else(PoisonError::into_inner));
        if self.intents.in_doubt() || self.settings.cleanup != Cleanup::EachDelete {
            return;
        }
        for (part, released) in joined(thinned) {
            if let Err(error) = self.clean_removed(collection, &part, released).await {
                tracing::warn!(%error, "a value of an equality index was not cleaned after a deletion");
                return;
            }
        }
    }

    async fn clean_removed(
        &self,
        collection: &Collection,
        part: &IndexPart,
        released: Released,
    ) -> Result<(), ServiceError> {
        let answer = |error| error::answer(&collection.ns, error);
        for (value, released) in released {
            let target = Target { collection, part, value: &value };
            if !target.is_live() {
                return Ok(());
            }
            let occasion = Occasion::Released(released);
            let pieces = target.half()?.renumbering(value.clone(), occasion, self.state());
            let mut pieces = pieces.map_err(answer)?;
            while let Some(piece) = pieces.next().await.map_err(answer)? {
                self.renumber(target, piece).await?;
            }
        }
        Ok(())
    }

    /// Numbers anew the entries of a piece: one write. The caller holds the collection's write lock.
    async fn renumber(&self, target: Target<'_>, mut piece: Box<dyn Renumbered>) -> Result<(), ServiceError> {
        let Target { collection, part, .. } = target;
        let rows = piece.rows().to_vec();
        // Each kind in an order of its own: what is new is not to be told by its place.
        let mut steps = Steps::default();
        for rows in rows.chunks(DOCUMENTS_PER_READ) {
            let watch = self.intents.ledger.watch();
            for document in self.read_rows(collection, rows, Absent::Named(&watch)).await? {
                let (place, held) = target.held(&document)?;
                let entry = piece.renumber(document.row, held);
                let entry = entry.map_err(|error| error::answer(&collection.ns, error))?;
                let header = renumbered(&document.terms, part.id, place, entry);
                let header = collection.sealer.header(&document, header, &mut self.settings.random.rng());
                let (collection, row) = (collection.id, document.row);
                steps.put(Step::Documents(documents::Change::PutHeader { collection, row, header }));
            }
        }
        let staged = piece.finish();
        steps.add(staged.steps);
        let steps = steps.in_order(&mut self.settings.random.rng());
        let changes = self.state_changes(staged.state);
        if steps.is_empty() {
            return self.local.apply(&changes, Durability::Durable).map_err(error::local);
        }
        self.intents.perform(&*self.channel, steps, changes).await.map_err(error::write)
    }
}

/// The terms of a document with another entry for one value of one index.
fn renumbered(terms: &IndexTerms, index: IndexId, place: usize, entry: Held) -> IndexTerms {
    let mut terms = terms.clone();
    for (_, entries) in terms.entries.iter_mut().filter(|(id, _)| *id == index) {
        if let Some(held) = entries.get_mut(place) {
            *held = entry;
        }
    }
    terms
}

#[cfg(test)]
mod tests;
