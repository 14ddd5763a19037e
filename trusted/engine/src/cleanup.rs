//! Cleanup of equality indexes (Arx, VLDB'19, §5.3): entries of a value are numbered anew, so that searches neither
//! show nor pay for those that are gone.
//!
//! *A value of few entries* is numbered anew as a whole, under another salt, in a random order. *One of many* is cleaned
//! piece by piece: the entries left in a stretch of counters move to counters not yet taken. Each piece is one write,
//! recorded with the value's record: entries out and in, and the headers of their documents, which hold the counters.
//! A crash leaves the state before it or after it; the tokens of both find every entry.
//!
//! *What it costs.* After a search a value is cleaned if it has more holes than entries (and more than a few): so each
//! entry that moves is paid for by one that went. A value nobody searches for costs nothing but its record.

use super::channel::ServerChannel;
use super::collection::{Collection, Thinned};
use super::fetch::Absent;
use super::index::IndexPart;
use super::{Shared, error, terms};
use arras_protocol::write::Step;
use arras_protocol::{Channel, IndexId, RowId, arx_eq, documents};
use arras_records::{IndexTerms, OpenDocument};
use arras_schemes::arx_eq::occurrences::{Held, Occurrences, RUNS_MAX};
use arras_schemes::arx_eq::staging::ValueRecords;
use arras_schemes::arx_eq::{ArxEq, covered};
use arras_schemes::contract::{Released, Serves};
use arras_service::{Fault, ServiceError};
use arras_storage::{Durability, Storage};
use rand::seq::SliceRandom;
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, PoisonError, Weak};
use tokio::sync::mpsc;

/// Holes that are worth no cleanup, whatever the entries.
const HOLES_MIN: u64 = 16;
/// Most entries of a value that is numbered anew as a whole; and counters of a piece of one of more.
const PIECE: u32 = 1024;
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

impl Cleanup {
    /// True if a value is to be cleaned after a search.
    pub(super) fn due_after_search(self, occurrences: &Occurrences) -> bool {
        occurrences.holes() > occurrences.live().max(HOLES_MIN)
    }

    /// True if a value is to be cleaned after an entry went.
    fn due_after_removal(self, occurrences: &Occurrences) -> bool {
        match self {
            Self::Threshold => false,
            Self::EachDelete if occurrences.live() > u64::from(PIECE) => occurrences.holes() > 0,
            Self::EachDelete => {
                let as_new = |run: &arras_schemes::arx_eq::occurrences::Run| {
                    run.start == 0 && u64::from(run.end) == occurrences.live()
                };
                occurrences.live() > 0 && !matches!(occurrences.runs(), [only] if as_new(only))
            }
        }
    }
}

/// A value to be cleaned.
pub(super) struct Job {
    collection: Arc<Collection>,
    part: Arc<IndexPart>,
    value: Vec<u8>,
    /// The record that the search went by: entries made since were not shown by it.
    searched: Occurrences,
}

/// Cleans what is asked for, one after the other, until the engine is gone.
pub(super) async fn run<S: Storage, C: ServerChannel>(
    shared: Weak<Shared<S, C>>,
    mut jobs: mpsc::Receiver<Job>,
) {
    while let Some(Job { collection, part, value, searched }) = jobs.recv().await {
        let Some(shared) = shared.upgrade() else { return };
        let Serves::Equality(half) = part.half.serves() else { continue };
        if let Err(error) = shared
            .clean(Target { collection: &collection, part: &part, half, value: &value }, &searched)
            .await
        {
            // The next search for the value asks again.
            tracing::debug!(%error, "a value of an equality index was not cleaned");
        }
    }
}

/// How entries of a value are numbered anew.
enum Numbering {
    /// All of them, under another salt.
    Whole,
    /// Those at some counters, under counters not yet taken.
    Piece,
    /// The same, where all of these counters have an entry.
    Dense,
    /// The same; then all counters in `left` and from `next` on have one, and no others.
    LastDense { left: Vec<Range<u32>>, next: u32 },
}

impl Numbering {
    /// How many entries there must be at the counters, if that is known.
    fn entries(&self, before: &Occurrences, counters: &[Range<u32>]) -> Option<u64> {
        match self {
            Self::Whole => Some(before.live()),
            Self::Piece => None,
            Self::Dense | Self::LastDense { .. } => {
                Some(counters.iter().map(|piece| u64::from(piece.end - piece.start)).sum())
            }
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
struct Target<'t> {
    collection: &'t Collection,
    part: &'t IndexPart,
    half: &'t ArxEq,
    value: &'t [u8],
}

impl Clone for Target<'_> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for Target<'_> {}

impl Target<'_> {
    /// True if the collection still has the index.
    fn is_live(&self) -> bool {
        self.collection.parts().iter().any(|live| live.id == self.part.id)
    }
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Has a value cleaned behind the answer of a search that went by this record.
    pub(super) fn clean_behind(
        &self,
        collection: &Arc<Collection>,
        part: &Arc<IndexPart>,
        value: &[u8],
        searched: &Occurrences,
    ) {
        let (collection, part) = (Arc::clone(collection), Arc::clone(part));
        let job = Job { collection, part, value: value.to_vec(), searched: searched.clone() };
        // If there is no place, the next search asks again.
        drop(self.cleanups.try_send(job));
    }

    /// Cleans a value, as the collection's writer for each piece; not if it got entries, or began anew, since the
    /// search: the server has not been shown those.
    async fn clean(&self, target: Target<'_>, searched: &Occurrences) -> Result<(), ServiceError> {
        let due = |occurrences: &Occurrences| {
            occurrences.salt() == searched.salt()
                && occurrences.next() == searched.next()
                && self.settings.cleanup.due_after_search(occurrences)
        };
        let pieces = {
            let Some(_one_writer) = self.writer_while_live(target).await? else { return Ok(()) };
            self.clean_or_cut(target, due).await?
        };
        for piece in pieces.unwrap_or_default() {
            let Some(_one_writer) = self.writer_while_live(target).await? else { return Ok(()) };
            if self.record_of(target)?.is_none_or(|now| now.salt() != searched.salt()) {
                return Ok(());
            }
            self.clean_piece(target, piece).await?;
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
        if self.intents.in_doubt() {
            return;
        }
        for (part, released) in joined(thinned) {
            let Serves::Equality(half) = part.half.serves() else { continue };
            if let Err(error) = self.clean_removed(collection, &part, half, released).await {
                tracing::warn!(%error, "a value of an equality index was not cleaned after a deletion");
                return;
            }
        }
    }

    async fn clean_removed(
        &self,
        collection: &Collection,
        part: &IndexPart,
        half: &ArxEq,
        released: Released,
    ) -> Result<(), ServiceError> {
        for (value, released) in released {
            let target = Target { collection, part, half, value: &value };
            if !target.is_live() {
                return Ok(());
            }
            let due = |occurrences: &Occurrences| self.settings.cleanup.due_after_removal(occurrences);
            let Some(occurrences) = self.record_of(target)?.filter(due) else { continue };
            if occurrences.live() > u64::from(PIECE)
                && let Some(stretches) = occurrences.dense_stretches(&released)
            {
                self.move_least(target, stretches, occurrences.next()).await?;
                continue;
            }
            for piece in self.clean_or_cut(target, due).await?.unwrap_or_default() {
                self.clean_piece(target, piece).await?;
            }
        }
        Ok(())
    }

    /// Of a value whose entries are in these stretches, and nowhere else, moves the shortest ones to its end, `next`,
    /// until a record can name those that are left.
    async fn move_least(
        &self,
        target: Target<'_>,
        mut stretches: Vec<Range<u32>>,
        next: u32,
    ) -> Result<(), ServiceError> {
        // What moves follows on the last one, if that reaches so far.
        let last = stretches.pop_if(|last| last.end == next);
        let mut pieces = Vec::new();
        while stretches.len() >= RUNS_MAX {
            let shortest = (0..stretches.len()).min_by_key(|place| stretches.get(*place).map(Range::len));
            let moved = stretches.remove(shortest.unwrap_or_default());
            let begins = moved.clone().step_by(PIECE as usize);
            pieces.extend(begins.map(|begin| begin..moved.end.min(begin.saturating_add(PIECE))));
        }
        stretches.extend(last);
        let last_piece = pieces.pop().into_iter().collect();
        for piece in pieces {
            self.renumber(target, vec![piece], Numbering::Dense).await?;
        }
        self.renumber(target, last_piece, Numbering::LastDense { left: stretches, next }).await
    }

    /// Cleans a value of few entries as a whole; the pieces of one of many; none if nothing is to be done. The caller
    /// holds the collection's write lock.
    async fn clean_or_cut(
        &self,
        target: Target<'_>,
        due: impl Fn(&Occurrences) -> bool,
    ) -> Result<Option<Vec<Range<u32>>>, ServiceError> {
        let Some(occurrences) = self.record_of(target)?.filter(due) else { return Ok(None) };
        if occurrences.live() <= u64::from(PIECE) {
            let counters = occurrences.runs().iter().map(|run| run.start..run.end).collect();
            self.renumber(target, counters, Numbering::Whole).await?;
            return Ok(None);
        }
        let sparse = occurrences.runs().iter().filter(|run| run.live < run.end - run.start);
        let pieces = sparse.flat_map(|run| {
            let begins = (run.start..run.end).step_by(PIECE as usize);
            begins.map(|begin| begin..run.end.min(begin.saturating_add(PIECE)))
        });
        Ok(Some(pieces.collect()))
    }

    /// Moves what is left in some counters of a value to counters not yet taken.
    async fn clean_piece(&self, target: Target<'_>, piece: Range<u32>) -> Result<(), ServiceError> {
        self.renumber(target, vec![piece], Numbering::Piece).await
    }

    fn record_of(&self, target: Target<'_>) -> Result<Option<Occurrences>, ServiceError> {
        self.occurrences(&target.half.record_name(target.value))
    }

    /// Numbers anew the entries at some counters: under another salt (they are all of the value's entries then), or
    /// under counters not yet taken. One write. The caller holds the collection's write lock.
    async fn renumber(
        &self,
        target: Target<'_>,
        counters: Vec<Range<u32>>,
        numbering: Numbering,
    ) -> Result<(), ServiceError> {
        let Target { collection, half, value, .. } = target;
        let Some(before) = self.record_of(target)? else { return Ok(()) };
        let mut rows = self.rows_at(target, &before, counters.clone()).await?;
        if numbering.entries(&before, &counters).is_some_and(|entries| entries != rows.len() as u64) {
            return Err(error::lying(&collection.ns, "an equality index lacks entries of a value"));
        }
        rows.shuffle(&mut self.settings.random.rng());
        let mut records = ValueRecords::default();
        let whole = matches!(numbering, Numbering::Whole);
        let mut fresh = whole.then(|| Occurrences::new(&mut self.settings.random.rng()));
        let (mut entries, mut headers, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        for rows in rows.chunks(DOCUMENTS_PER_READ) {
            let watch = self.intents.ledger.watch();
            for document in self.read_rows(collection, rows, Absent::Named(&watch)).await? {
                let record = records.of(half, value, &*self.local).map_err(error::index)?;
                let (place, held) = self.held(target, &document)?;
                let named = counters.iter().any(|piece| piece.contains(&held.counter));
                if !named || !before.may_hold(held) || !record.release(held.counter) {
                    return Err(error::lying(
                        &collection.ns,
                        "an equality index names documents under other counters than theirs",
                    ));
                }
                removed.push(Step::ArxEq(half.remove(value, before.salt(), held.counter)));
                let to = fresh.as_mut().unwrap_or(record);
                let entry = to
                    .take_held()
                    .ok_or_else(|| error::of(Fault::Internal, "a value has used all its counters"))?;
                entries.push(Step::ArxEq(half.insert(value, to.salt(), entry.counter, document.row)));
                let header = renumbered(&document.terms, half.index(), place, entry);
                let header = collection.sealer.header(&document, header, &mut self.settings.random.rng());
                let (collection, row) = (collection.id, document.row);
                headers.push(Step::Documents(documents::Change::PutHeader { collection, row, header }));
            }
        }
        let record = records.of(half, value, &*self.local).map_err(error::index)?;
        match fresh {
            Some(fresh) => *record = fresh,
            None => counters.iter().for_each(|piece| record.vacate(piece)),
        }
        if let Numbering::LastDense { mut left, next } = numbering {
            left.push(next..record.next());
            record.know_dense(&left);
        }
        // Each kind in an order of its own: what is new is not to be told by its place.
        for steps in [&mut entries, &mut headers, &mut removed] {
            steps.shuffle(&mut self.settings.random.rng());
        }
        let steps = [entries, headers, removed].concat();
        let changes = self.state_changes(records.changes());
        if steps.is_empty() {
            return self.local.apply(&changes, Durability::Durable).map_err(error::local);
        }
        self.intents.perform(&*self.channel, steps, changes).await.map_err(error::write)
    }

    /// The rows of a value's entries at some counters, each once.
    async fn rows_at(
        &self,
        target: Target<'_>,
        occurrences: &Occurrences,
        counters: Vec<Range<u32>>,
    ) -> Result<Vec<RowId>, ServiceError> {
        let Target { collection, half, value, .. } = target;
        let tokens = counters.into_iter().flat_map(|piece| half.tokens_of(value, occurrences.salt(), piece));
        let mut rows = Vec::new();
        for values in arras_schemes::arx_eq::searches(vec![tokens.collect()]) {
            let asked: u64 = values.iter().map(|tokens| covered(tokens)).sum();
            let request = arx_eq::Request { index: half.index(), values };
            let reply =
                Channel::<arx_eq::ArxEq>::call(&*self.channel, request).await.map_err(error::channel)?;
            rows.extend(reply.values.into_iter().flat_map(|matches| matches.rows));
            if rows.len() as u64 > asked.saturating_add(occurrences.live()) {
                return Err(error::not_of_protocol());
            }
        }
        let mut seen = HashSet::with_capacity(rows.len());
        if !rows.iter().all(|row| seen.insert(*row)) {
            return Err(error::lying(&collection.ns, "an equality index repeats entries of a value"));
        }
        Ok(rows)
    }

    /// Where a document's header names the entry of the value, and the entry.
    fn held(&self, target: Target<'_>, document: &OpenDocument) -> Result<(usize, Held), ServiceError> {
        let values = terms::of(target.part, &document.document);
        let values = values.map_err(|error| error::too_many_entries(&error))?.terms;
        let place = values.keys().position(|value| value.as_slice() == target.value);
        let entry = place.and_then(|place| document.terms.of(target.half.index()).get(place).copied());
        place.zip(entry).ok_or_else(|| {
            error::lying(&target.collection.ns, "an index names a document for a value that it does not hold")
        })
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
