//! Rows of values, from equality and unique indexes, beside writes.

use super::channel::ServerChannel;
use super::collection::Collection;
use super::fetch::explain;
use super::index::IndexPart;
use super::ledger::{Explained, Watch};
use super::read::{part, unknown_index};
use super::rows::Rows;
use super::{Shared, error, terms};
use arras_planner::terms::equality_bytes;
use arras_protocol::{IndexId, RowId};
use arras_records::OpenDocument;
use arras_schemes::contract::{EqualityAnswer, EqualitySearch, UniqueSearch};
use arras_schemes::error::IndexError;
use arras_service::ServiceError;
use arras_service::examined;
use arras_storage::Storage;
use bson::Bson;
use std::collections::BTreeSet;
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
        let half = || Arc::clone(&part.half);
        let (rows, watch) = if let Some(half) = half().equality() {
            self.exact_rows(collection, &part, &half, &values, alone).await?
        } else {
            let half = half().unique().ok_or_else(unknown_index)?;
            let watch = self.intents.ledger.watch();
            (self.unique_rows(collection, half, &values).await?, watch)
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
        half: Arc<dyn UniqueSearch>,
        values: &BTreeSet<Vec<u8>>,
    ) -> Result<Vec<RowId>, ServiceError> {
        let holders = half.holders(values.iter().cloned().collect()).await.map_err(|error| match error {
            IndexError::Peer(what) => error::lying(&collection.ns, what),
            error => error::index(error),
        })?;
        Ok(holders.into_iter().flatten().collect())
    }

    /// The rows of exactly the entries on record, asked for until no write comes in between, in the end as the
    /// collection's writer; and a watch of writes since before they were.
    async fn exact_rows(
        &self,
        collection: &Arc<Collection>,
        part: &Arc<IndexPart>,
        half: &Arc<dyn EqualitySearch>,
        values: &BTreeSet<Vec<u8>>,
        alone: bool,
    ) -> Result<(Vec<RowId>, Watch), ServiceError> {
        for answers in 0..=ANSWERS_BESIDE_WRITES {
            let last = alone || answers == ANSWERS_BESIDE_WRITES;
            let _one_writer = if last && !alone { Some(self.writer(collection).await?) } else { None };
            // One that was dropped meanwhile has no records: that is not an empty answer.
            self::part(collection, part.id)?;
            let watch = self.intents.ledger.watch();
            let answer = Arc::clone(half).search(values, &*self.local).await;
            match answer.map_err(|error| error::answer(&collection.ns, error))? {
                EqualityAnswer::Exact { rows, worn } => {
                    worn.into_iter().for_each(|worn| self.clean_behind(collection, part, worn));
                    return Ok((rows, watch));
                }
                EqualityAnswer::Differs(record) if last || watch.entered(&record) == Explained::No => {
                    return Err(missing_entries(collection, part.id));
                }
                EqualityAnswer::Differs(_) => {}
            }
        }
        Err(missing_entries(collection, part.id))
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
