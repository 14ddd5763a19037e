//! Rows of values, from equality and unique indexes, and what a server's replies to that must be.

use super::apply::{COUNTERS, counter_name};
use super::channel::ServerChannel;
use super::collection::Collection;
use super::fetch::{Absent, explain};
use super::index::{Half, Part};
use super::ledger::Watch;
use super::read::{part, unknown_index};
use super::{Shared, error, terms};
use arras_client::OpenDocument;
use arras_client::arx_eq::{ArxEq, searches};
use arras_client::unique::UniqueLabels;
use arras_planner::store::StoreError;
use arras_planner::terms::equality_bytes;
use arras_protocol::{Channel, IndexId, RowId, arx_eq, unique};
use arras_storage::Storage;
use bson::Bson;
use rand::seq::SliceRandom;
use std::collections::HashSet;
use std::sync::Arc;

/// Rows that an index named for some values.
pub(super) struct Found<C> {
    /// The rows, each once.
    pub(super) rows: Vec<RowId>,
    part: Arc<Part<C>>,
    /// The values, as the index holds them.
    values: HashSet<Vec<u8>>,
    /// Of writes since before the index was asked.
    watch: Watch,
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Asks an equality or unique index for the rows of `values`.
    pub(super) async fn rows_of_values(
        &self,
        collection: &Collection<C>,
        index: IndexId,
        values: &[Vec<Bson>],
    ) -> Result<Found<C>, StoreError> {
        let watch = self.intents.ledger.watch();
        let part = part(collection, index)?;
        let values: HashSet<Vec<u8>> = values.iter().map(|term| equality_bytes(term)).collect();
        let mut rows = match &part.half {
            Half::Unique(half) => self.unique_rows(collection, index, half, &values).await?,
            Half::Eq(half) => self.equal_rows(half, &values).await?,
            Half::Range(_) => return Err(unknown_index()),
        };
        let mut seen = HashSet::with_capacity(rows.len());
        rows.retain(|row| seen.insert(*row));
        // Over all of them, before they are dealt out to reads: rows of one value, or of one search, must not stay
        // together.
        rows.sort_unstable();
        Ok(Found { rows, part, values, watch })
    }

    /// The documents of some of the rows found, which hold one of the values each: a lie in an answer of the index is
    /// met here if not before.
    pub(super) async fn read_found(
        &self,
        collection: &Collection<C>,
        found: &Found<C>,
        rows: &[RowId],
    ) -> Result<Vec<OpenDocument>, StoreError> {
        let documents = self.read_rows(collection, rows, Absent::Named(&found.watch)).await?;
        for document in &documents {
            let held = terms::of(&found.part, &document.document);
            let held = held.map_err(|error| error::too_many_entries(&error))?.values;
            if held.iter().all(|value| !found.values.contains(value)) {
                let explained = found.watch.written(collection.id, document.row);
                explain(
                    collection,
                    explained,
                    "an index names a document for a value that it does not hold",
                )?;
            }
        }
        Ok(documents)
    }

    async fn unique_rows(
        &self,
        collection: &Collection<C>,
        index: IndexId,
        half: &UniqueLabels,
        values: &HashSet<Vec<u8>>,
    ) -> Result<Vec<RowId>, StoreError> {
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

    async fn equal_rows(&self, half: &ArxEq, values: &HashSet<Vec<u8>>) -> Result<Vec<RowId>, StoreError> {
        let index = half.index();
        let mut tokens = Vec::with_capacity(values.len());
        for value in values {
            let name = counter_name(index, &half.slot(value).0);
            let count: Option<u32> = self.local.get_as_named(COUNTERS, &name).map_err(error::local)?;
            tokens.extend(count.map(|count| half.tokens(value, count)));
        }
        // Over all searches: neither one search's values nor all of them come in an order that says something.
        tokens.shuffle(&mut rand::rng());
        let mut rows: Vec<RowId> = Vec::new();
        for values in searches(tokens) {
            let request = arx_eq::Request { index, values };
            let reply =
                Channel::<arx_eq::ArxEq>::call(&*self.channel, request).await.map_err(error::channel)?;
            rows.extend(reply.values.into_iter().flat_map(|matches| matches.rows));
        }
        Ok(rows)
    }
}
