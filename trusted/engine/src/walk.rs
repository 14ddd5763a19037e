//! A walk along a range index in the order of a sort.

use super::budget::Claim;
use super::channel::ServerChannel;
use super::collection::Collection;
use super::fetch::Absent;
use super::index::IndexPart;
use super::matches::{DOCUMENTS_PER_STEP, matching};
use super::merged::OrderedRows;
use super::read::{Selection, part, unknown_index};
use super::{Shared, error};
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_planner::access::RangeAccess;
use arras_protocol::RowId;
use arras_records::OpenDocument;
use arras_service::{Fault, ServiceError};
use arras_storage::Storage;
use bson::Bson;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Bytes of documents that may be held to sort them: MongoDB's own bound.
const HELD_BYTES_MAX: usize = 100 * 1024 * 1024;
/// Bytes of documents that wait for the walk to come to their place; what is too much for that comes early.
const AHEAD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Documents of a run beyond those wanted that are gathered before the rest is cut off.
const SLACK: usize = 256;

/// Matches in the order of a sort that an index serves: documents of one run of equal keys are sorted among
/// themselves, and handed on when the run is whole.
pub(super) struct Walk {
    collection: Arc<Collection>,
    filter: Arc<Filter>,
    sort: Sort,
    range: RangeAccess,
    part: Arc<IndexPart>,
    rows: OrderedRows,
    /// Rows the index named that are not read yet, after the part of their keys that is equal within a run.
    named: VecDeque<(Vec<u8>, RowId)>,
    /// Rows the next step reads at least: the more, the fewer of them matched so far.
    step: usize,
    seen: HashSet<RowId>,
    run: Vec<OpenDocument>,
    run_place: Vec<u8>,
    run_bytes: usize,
    /// Documents that were changed behind the index's answer, and lie further on now: each waits for the walk to come there.
    ahead: BTreeMap<Vec<u8>, Vec<OpenDocument>>,
    ahead_bytes: usize,
    /// Documents that may still be asked for.
    left: usize,
    /// For the rows named and seen, and for the run.
    names: Claim,
    memory: Claim,
    ended: bool,
}

impl Walk {
    /// Begins a walk over ranges of one index for a selection.
    pub(super) async fn begin<S: Storage, C: ServerChannel>(
        shared: &Arc<Shared<S, C>>,
        collection: &Arc<Collection>,
        ranges: &[&RangeAccess],
        selection: Selection<'_>,
        filter: Arc<Filter>,
    ) -> Result<Self, ServiceError> {
        let range = *ranges.first().ok_or_else(unknown_index)?;
        let part = part(collection, range.index)?;
        let wanted = selection.wanted();
        let rows = OrderedRows::begin(shared, collection, ranges, &part.physical, wanted).await?;
        let rows = rows.ok_or_else(unknown_index)?;
        Ok(Self {
            collection: Arc::clone(collection),
            filter,
            sort: selection.sort.clone(),
            range: range.clone(),
            part,
            rows,
            named: VecDeque::new(),
            step: 1,
            seen: HashSet::new(),
            run: Vec::new(),
            run_place: Vec::new(),
            run_bytes: 0,
            ahead: BTreeMap::new(),
            ahead_bytes: 0,
            left: selection.wanted().unwrap_or(usize::MAX),
            names: shared.budget.claim(),
            memory: shared.budget.claim(),
            ended: false,
        })
    }

    /// The next runs, for somebody who wants about so many documents; `None` at the end.
    pub(super) async fn next<S: Storage, C: ServerChannel>(
        &mut self,
        shared: &Shared<S, C>,
        wanted: usize,
    ) -> Result<Option<Vec<OpenDocument>>, ServiceError> {
        let mut ordered = Vec::new();
        while ordered.is_empty() && !self.ended {
            if self.named.is_empty() {
                match self.rows.next().await? {
                    Some(rows) => self.named.extend(rows),
                    None => {
                        self.ended = true;
                        self.arrive(None, &mut ordered)?;
                        ordered.append(&mut self.whole_run()?);
                        break;
                    }
                }
            }
            // The next entry says that the run is whole, and no document has to be read for it.
            if !self.run.is_empty()
                && let Some((key, _)) = self.named.front().filter(|(key, _)| *key != self.run_place)
            {
                let key = key.clone();
                self.arrive(Some(&key), &mut ordered)?;
                ordered.append(&mut self.whole_run()?);
                break;
            }
            let rows = self.next_rows(wanted);
            let _step = shared.budget.step(rows.len(), self.collection.lengths.mean()).await;
            let absent = self.rows.watch().map_or(Absent::Allowed, Absent::Named);
            let (documents, dealt) = shared.read_in_order(&self.collection, &rows, absent).await?;
            let mut places: HashMap<RowId, Vec<u8>> =
                self.named.drain(..dealt).rev().map(|(key, row)| (row, key)).collect();
            let seen = &mut self.seen;
            let new = documents.into_iter().filter(|document| seen.insert(document.row)).collect();
            let key_bytes = self.named.front().map_or(0, |(key, _)| key.len());
            let named = self.named.capacity() * (size_of::<(Vec<u8>, RowId)>() + key_bytes);
            self.names.hold(named + self.seen.capacity() * 2 * size_of::<RowId>())?;
            let matched = matching(new, &self.filter).await?;
            // What few documents pass is better asked about many at a time, but not about twice as many as it takes.
            self.step = if matched.len() * 2 < dealt { dealt + dealt / 2 + 1 } else { 1 };
            for document in matched {
                let key = self.range.run(&document.document, &self.part.physical);
                self.take_in(places.remove(&document.row), key, document, &mut ordered)?;
            }
        }
        Ok((!ordered.is_empty()).then_some(ordered))
    }

    /// Takes in a document that the index named at one place and that lies at another now, or at the same.
    fn take_in(
        &mut self,
        named: Option<Vec<u8>>,
        place: Vec<u8>,
        document: OpenDocument,
        ordered: &mut Vec<OpenDocument>,
    ) -> Result<(), ServiceError> {
        let named = named.unwrap_or_else(|| place.clone());
        self.arrive(Some(&named), ordered)?;
        let is_ahead = self.is_before(&named, &place);
        if is_ahead && self.ahead_bytes + document.bytes <= AHEAD_BYTES_MAX {
            self.ahead_bytes += document.bytes;
            self.ahead.entry(place).or_default().push(document);
            return self.hold_run();
        }
        let is_behind = self.is_before(&place, &named);
        let is_passed = is_behind && !self.run_place.is_empty() && self.is_before(&place, &self.run_place);
        if is_ahead || is_passed {
            // Nobody would find it later: it comes late.
            self.left = self.left.saturating_sub(1);
            ordered.push(document);
            return Ok(());
        }
        self.enter(place, document, ordered)
    }

    /// Does the walk come to one place before another?
    fn is_before(&self, one: &[u8], other: &[u8]) -> bool {
        if self.range.order.is_some_and(|order| order.descending) { one > other } else { one < other }
    }

    /// Takes a document into the run of a place; the run before it is whole, if it was another's.
    fn enter(
        &mut self,
        place: Vec<u8>,
        document: OpenDocument,
        ordered: &mut Vec<OpenDocument>,
    ) -> Result<(), ServiceError> {
        if place != self.run_place {
            ordered.append(&mut self.whole_run()?);
            self.run_place = place;
        }
        self.run_bytes += document.bytes;
        self.run.push(document);
        self.hold_run()
    }

    /// The walk comes to a place, or to its end: those that wait for one before it are there.
    fn arrive(&mut self, place: Option<&[u8]>, ordered: &mut Vec<OpenDocument>) -> Result<(), ServiceError> {
        loop {
            let descending = self.range.order.is_some_and(|order| order.descending);
            let next = if descending { self.ahead.last_key_value() } else { self.ahead.first_key_value() };
            let Some((key, _)) = next.filter(|(key, _)| place.is_none_or(|place| self.is_before(key, place)))
            else {
                return Ok(());
            };
            let key = key.clone();
            for document in self.ahead.remove(&key).unwrap_or_default() {
                self.ahead_bytes = self.ahead_bytes.saturating_sub(document.bytes);
                self.enter(key.clone(), document, ordered)?;
            }
        }
    }

    /// The rows to read next, for somebody who wants about so many documents, with those of the last one's run.
    fn next_rows(&self, wanted: usize) -> Vec<RowId> {
        let least = wanted.max(self.step).clamp(1, DOCUMENTS_PER_STEP);
        let (mut rows, mut last): (Vec<RowId>, &[u8]) = (Vec::new(), &[]);
        for (key, row) in self.named.iter().take(DOCUMENTS_PER_STEP) {
            if rows.len() >= least && key != last {
                break;
            }
            rows.push(*row);
            last = key;
        }
        rows
    }

    /// The documents of the run that has ended, sorted.
    fn whole_run(&mut self) -> Result<Vec<OpenDocument>, ServiceError> {
        self.run_bytes = 0;
        self.sort_run()?;
        self.left = self.left.saturating_sub(self.run.len());
        Ok(std::mem::take(&mut self.run))
    }

    /// Has memory for the run; of what nobody will ask for, nothing is held.
    fn hold_run(&mut self) -> Result<(), ServiceError> {
        let scarce = self.memory.hold_documents(self.run_bytes + self.ahead_bytes).is_err()
            && self.run.len() > self.left;
        if scarce || self.run.len() / 2 > self.left.max(SLACK) {
            self.sort_run()?;
            self.run.truncate(self.left);
            self.run_bytes = self.run.iter().map(|document| document.bytes).sum();
            self.memory.shrink_documents(self.run_bytes + self.ahead_bytes);
        }
        self.memory.hold_documents(self.run_bytes + self.ahead_bytes)?;
        if self.run_bytes > HELD_BYTES_MAX { Err(too_much()) } else { Ok(()) }
    }

    fn sort_run(&mut self) -> Result<(), ServiceError> {
        let mut documents = std::mem::take(&mut self.run);
        documents.sort_by_key(|document| document.sequence);
        self.run = sort_by(documents, &self.sort)?;
        Ok(())
    }

    /// Gives memory back that is not in use while nobody asks.
    pub(super) fn rest(&mut self) {
        self.memory.shrink_documents(self.run_bytes + self.ahead_bytes);
    }
}

fn too_much() -> ServiceError {
    let message = format!(
        "the query holds more than {HELD_BYTES_MAX} bytes of documents in the proxy to sort them; narrow the filter, \
         add a limit, or create an index that serves its order"
    );
    error::of(Fault::DiskUseForbidden, message)
}

/// A stable sort that computes each document's sort values once.
fn sort_by(documents: Vec<OpenDocument>, sort: &Sort) -> Result<Vec<OpenDocument>, ServiceError> {
    let keyed = documents.into_iter().map(|document| Ok((sort.values(&document.document)?, document)));
    let mut keyed = keyed.collect::<Result<Vec<(Vec<Bson>, OpenDocument)>, ServiceError>>()?;
    keyed.sort_by(|(left, _), (right, _)| sort.compare_values(left, right));
    Ok(keyed.into_iter().map(|(_, document)| document).collect())
}

#[cfg(test)]
mod tests;
