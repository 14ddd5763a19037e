//! Rows of values, from equality and unique indexes, and what a server's replies to that must be.

use super::channel::ServerChannel;
use super::collection::Collection;
use super::fetch::explain;
use super::index::IndexPart;
use super::ledger::{Explained, Watch};
use super::read::{part, unknown_index};
use super::rows::Rows;
use super::{Shared, error, terms};
use arras_planner::terms::equality_bytes;
use arras_protocol::{Channel, IndexId, RowId, arx_eq, unique};
use arras_records::OpenDocument;
pub(super) use arras_schemes::arx_eq::occurrences::Occurrences;
use arras_schemes::arx_eq::{ArxEq, covered, searches};
use arras_schemes::contract::Serves;
use arras_schemes::unique::UniqueLabels;
use arras_service::ServiceError;
use arras_service::examined;
use arras_storage::Storage;
use bson::Bson;
use rand::seq::SliceRandom;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Rows that an index named for some values.
pub(super) struct Found {
    /// The rows, each once, in their own order.
    pub(super) rows: Rows,
    part: Arc<IndexPart>,
    /// The values, as the index holds them.
    values: BTreeSet<Vec<u8>>,
    /// Of writes since before the index was asked.
    watch: Watch,
}

/// Answers beside writes of the same values before the next is waited for.
const ANSWERS_BESIDE_WRITES: usize = 3;

/// A value asked for, and the record of its entries.
struct Asked<'v> {
    value: &'v [u8],
    record: Vec<u8>,
    occurrences: Occurrences,
}

/// What an equality index answered.
enum Equal {
    /// Every entry on record, once.
    Exact(Vec<RowId>),
    /// Something else about the value of this record.
    Differs(Vec<u8>),
}

impl Found {
    /// Forgets what was written before `watch` began.
    pub(super) fn watch_anew(&mut self, watch: Watch) {
        self.watch = watch;
    }

    /// Looks at documents read since the index was asked: those of rows found hold one of the values each. A lie in an
    /// answer of the index is met here if not before.
    pub(super) fn check(
        &self,
        collection: &Collection,
        documents: &[OpenDocument],
    ) -> Result<(), ServiceError> {
        for document in documents {
            if self.rows.binary_search(&document.row).is_err() {
                continue;
            }
            let held = terms::of(&self.part, &document.document);
            let held = held.map_err(|error| error::too_many_entries(&error))?.terms;
            if held.keys().all(|value| !self.values.contains(value)) {
                let explained = self.watch.written(collection.id, document.row);
                explain(
                    collection,
                    explained,
                    "an index names a document for a value that it does not hold",
                )?;
            }
        }
        Ok(())
    }
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Asks an equality or unique index for the rows of `values`. `alone`: the caller is the collection's writer.
    pub(super) async fn rows_of_values(
        &self,
        collection: &Arc<Collection>,
        index: IndexId,
        values: &[Vec<Bson>],
        alone: bool,
    ) -> Result<Found, ServiceError> {
        let part = part(collection, index)?;
        let values: BTreeSet<Vec<u8>> = values.iter().map(|term| equality_bytes(term)).collect();
        let (rows, watch) = match part.half.serves() {
            Serves::Unique(half) => {
                let watch = self.intents.ledger.watch();
                (self.unique_rows(collection, index, half, &values).await?, watch)
            }
            Serves::Equality(half) => self.exact_rows(collection, &part, half, &values, alone).await?,
            Serves::Range => return Err(unknown_index()),
        };
        examined::entries(rows.len());
        // Over all of them, before they are dealt out to reads: rows of one value, or of one search, must not stay
        // together.
        let mut counted = Rows::new(&self.budget);
        counted.extend(rows.into_iter())?;
        counted.sort();
        Ok(Found { rows: counted, part, values, watch })
    }

    async fn unique_rows(
        &self,
        collection: &Collection,
        index: IndexId,
        half: &UniqueLabels,
        values: &BTreeSet<Vec<u8>>,
    ) -> Result<Vec<RowId>, ServiceError> {
        let mut labels: Vec<unique::Label> = values.iter().map(|value| half.label(value)).collect();
        // In their own order, which is pseudorandom.
        labels.sort_unstable();
        let asked = labels.len();
        let request = unique::Request { index, labels };
        let reply = Channel::<unique::Unique>::call(&*self.channel, request).await.map_err(error::channel)?;
        if reply.rows.len() != asked {
            return Err(error::lying(
                &collection.ns,
                "a unique index answers more or fewer values than it was asked",
            ));
        }
        Ok(reply.rows.into_iter().flatten().collect())
    }

    /// The rows of exactly the entries on record, asked for until no write comes in between, in the end as the
    /// collection's writer; and a watch of writes since before they were.
    async fn exact_rows(
        &self,
        collection: &Arc<Collection>,
        part: &Arc<IndexPart>,
        half: &ArxEq,
        values: &BTreeSet<Vec<u8>>,
        alone: bool,
    ) -> Result<(Vec<RowId>, Watch), ServiceError> {
        for answers in 0..=ANSWERS_BESIDE_WRITES {
            let last = alone || answers == ANSWERS_BESIDE_WRITES;
            let _one_writer = if last && !alone { Some(self.writer(collection).await?) } else { None };
            // One that was dropped meanwhile has no records: that is not an empty answer.
            self::part(collection, half.index())?;
            let watch = self.intents.ledger.watch();
            let asked = self.on_record(half, values)?;
            match self.equal_rows(half, &asked).await? {
                Equal::Exact(rows) => {
                    for asked in asked
                        .iter()
                        .filter(|asked| self.settings.cleanup.due_after_search(&asked.occurrences))
                    {
                        self.clean_behind(collection, part, asked.value, &asked.occurrences);
                    }
                    return Ok((rows, watch));
                }
                Equal::Differs(record) if last || watch.entered(&record) == Explained::No => {
                    return Err(missing_entries(collection, half.index()));
                }
                Equal::Differs(_) => {}
            }
        }
        Err(missing_entries(collection, half.index()))
    }

    /// The values that have entries, in a random order: the server sees no other.
    fn on_record<'v>(
        &self,
        half: &ArxEq,
        values: &'v BTreeSet<Vec<u8>>,
    ) -> Result<Vec<Asked<'v>>, ServiceError> {
        let records: Vec<Vec<u8>> = values.iter().map(|value| half.record_name(value)).collect();
        let found = self.occurrences_of(&records)?;
        let of_value = values.iter().zip(records).zip(found);
        let mut asked: Vec<_> = of_value
            .filter_map(|((value, record), found)| Some(Asked { value, record, occurrences: found? }))
            .collect();
        asked.shuffle(&mut self.settings.random.rng());
        Ok(asked)
    }

    /// Searches for values, and compares the answer with what is on record.
    async fn equal_rows(&self, half: &ArxEq, asked: &[Asked<'_>]) -> Result<Equal, ServiceError> {
        let tokens = asked.iter().map(|asked| half.tokens(asked.value, &asked.occurrences)).collect();
        let mut found: Vec<RowId> = Vec::new();
        let mut asked = asked.iter();
        let mut of_one: HashSet<RowId> = HashSet::new();
        let (mut current, mut left) = (None, 0);
        for values in searches(tokens) {
            let covered: Vec<u64> = values.iter().map(|tokens| covered(tokens)).collect();
            let request = arx_eq::Request { index: half.index(), values };
            let reply =
                Channel::<arx_eq::ArxEq>::call(&*self.channel, request).await.map_err(error::channel)?;
            if reply.values.len() != covered.len() {
                return Err(error::not_of_protocol());
            }
            // A value of many entries may go on in the next reply.
            for (covered, matches) in covered.into_iter().zip(reply.values) {
                if left == 0 {
                    current = asked.next();
                    left = current.map_or(0, |asked| asked.occurrences.live() + asked.occurrences.holes());
                    of_one.clear();
                }
                let Some(current) = current else { return Err(error::not_of_protocol()) };
                let answered = matches.rows.len() as u64 + u64::from(matches.missing);
                let once = matches.rows.iter().all(|row| of_one.insert(*row));
                found.extend(matches.rows);
                left = left.saturating_sub(covered);
                let all = left > 0 || of_one.len() as u64 == current.occurrences.live();
                if answered != covered || !once || !all {
                    return Ok(Equal::Differs(current.record.clone()));
                }
            }
        }
        Ok(Equal::Exact(found))
    }
}

fn missing_entries(collection: &Collection, index: IndexId) -> ServiceError {
    let indexes = collection.indexes();
    let named = indexes.iter().find(|named| named.parts.iter().any(|part| part.id == index));
    let name = named.map_or("(dropped)", |named| named.request.name.as_str());
    error::lying(&collection.ns, &format!("index {name} lacks or repeats entries of a value"))
}

#[cfg(test)]
mod tests;
