//! What must be unique: `_id`s, and the values of unique indexes.

use super::Shared;
use super::apply::Revision;
use super::channel::ServerChannel;
use super::collection::Collection;
use super::index::{IndexPart, LiveIndex};
use super::{error, terms};
use arras_documents::order;
use arras_documents::shown::shown_document;
use arras_planner::terms::{self as planner, equality_bytes};
use arras_protocol::{Channel, IndexId, RowId, documents};
use arras_schemes::contract::Serves;
use arras_service::store::Namespace;
use arras_service::{Fault, ServiceError};
use arras_storage::Storage;
use bson::{Bson, Document, doc};
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Rows that have the values of each unique index.
pub(super) type Holders = HashMap<IndexId, HashMap<Vec<u8>, RowId>>;

/// Rows and values that a write has claimed so far.
#[derive(Default)]
pub(super) struct Claims {
    pub(super) rows: HashSet<RowId>,
    pub(super) holders: Holders,
}

impl Claims {
    fn holder(&self, index: IndexId, value: &[u8]) -> Option<RowId> {
        self.holders.get(&index)?.get(value).copied()
    }
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// For each revision, the declaration of the schema or the uniqueness it would break, given that those before it without a conflict are
    /// applied.
    pub(super) async fn conflicts(
        &self,
        collection: &Collection,
        revisions: &[Revision],
    ) -> Result<Vec<Option<ServiceError>>, ServiceError> {
        let new_rows: Vec<RowId> = revisions.iter().filter(|r| r.old.is_none()).map(|r| r.row).collect();
        let mut conflicts: Vec<Option<ServiceError>> = Vec::with_capacity(revisions.len());
        let mut constrained = Vec::new();
        for index in collection.indexes().iter() {
            for part in index.parts.iter().filter(|part| part.half.serves() == Serves::Unique) {
                let values = |document: Option<&Document>| {
                    let terms = document.map(|document| terms::of(part, document)).transpose();
                    let terms = terms.map_err(|error| error::too_many_entries(&error))?.unwrap_or_default();
                    Ok::<Vec<Vec<u8>>, ServiceError>(terms.terms.into_keys().collect())
                };
                let mut of_revisions = Vec::with_capacity(revisions.len());
                for revision in revisions {
                    let old = values(revision.old.as_ref().map(|old| &old.document))?;
                    let taken = values(revision.new.as_deref())?;
                    let freed = old.into_iter().filter(|value| !taken.contains(value)).collect();
                    of_revisions.push(Values { taken, freed });
                }
                let (index, part) = (Arc::clone(index), Arc::clone(part));
                constrained.push(Constrained { index, part, values: of_revisions });
            }
        }
        let asked = tokio::try_join!(self.existing_rows(collection, new_rows), holders(&constrained));
        let (rows, holders) = asked.map_err(error::not_recorded)?;
        let mut claims = Claims { rows, holders };
        for (position, revision) in revisions.iter().enumerate() {
            let misfit = self.misfit(collection, revision);
            conflicts
                .push(misfit.or_else(|| conflict(collection, position, revision, &constrained, &mut claims)));
        }
        Ok(conflicts)
    }

    /// Which of `rows` exist.
    async fn existing_rows(
        &self,
        collection: &Collection,
        mut rows: Vec<RowId>,
    ) -> Result<HashSet<RowId>, ServiceError> {
        if rows.is_empty() {
            return Ok(HashSet::new());
        }
        // In an order that says nothing of that of the documents.
        rows.sort_unstable();
        let request = documents::Request::Exist { collection: collection.id, rows: rows.clone() };
        let reply = Channel::<documents::Documents>::call(&*self.channel, request).await;
        match reply.map_err(error::channel)? {
            documents::Response::Exist(exist) if exist.len() == rows.len() => {
                Ok(rows.into_iter().zip(exist).filter_map(|(row, exists)| exists.then_some(row)).collect())
            }
            documents::Response::Exist(_)
            | documents::Response::Count(_)
            | documents::Response::Documents { .. } => Err(error::not_of_protocol()),
        }
    }
}

/// Which rows hold the values that are to be taken, by the server. The indexes are asked side by side.
async fn holders(constrained: &[Constrained]) -> Result<Holders, ServiceError> {
    let mut asking = tokio::task::JoinSet::new();
    for Constrained { part, values, .. } in constrained {
        let taken: BTreeSet<&Vec<u8>> = values.iter().flat_map(|values| &values.taken).collect();
        let Some(half) = Arc::clone(&part.half).unique().filter(|_| !taken.is_empty()) else { continue };
        let (index, taken) = (part.id, taken.into_iter().cloned().collect::<Vec<_>>());
        asking.spawn(async move {
            let holders = half.holders(taken.clone()).await;
            holders.map(|holders| (index, taken, holders))
        });
    }
    let mut all = Holders::new();
    while let Some(asked) = asking.join_next().await {
        let asked = asked.map_err(|error| error::of(Fault::Internal, error.to_string()))?;
        let (index, taken, holders) = asked.map_err(error::index)?;
        let held = taken.into_iter().zip(holders);
        all.insert(index, held.filter_map(|(value, row)| Some((value, row?))).collect());
    }
    Ok(all)
}

/// Values of a unique index that one revision takes, and those it gives up.
#[derive(Default)]
pub(super) struct Values {
    pub(super) taken: Vec<Vec<u8>>,
    pub(super) freed: Vec<Vec<u8>>,
}

/// A unique index, and the values of each revision.
pub(super) struct Constrained {
    pub(super) index: Arc<LiveIndex>,
    pub(super) part: Arc<IndexPart>,
    pub(super) values: Vec<Values>,
}

impl Constrained {
    fn taken(&self, position: usize) -> &[Vec<u8>] {
        self.values.get(position).map(|values| values.taken.as_slice()).unwrap_or_default()
    }
}

/// The uniqueness one revision breaks; if none, its claims are noted.
pub(super) fn conflict(
    collection: &Collection,
    position: usize,
    revision: &Revision,
    constrained: &[Constrained],
    claims: &mut Claims,
) -> Option<ServiceError> {
    let Some(document) = revision.new.as_ref() else {
        free(position, revision, constrained, claims);
        return None;
    };
    if revision.old.is_none() && claims.rows.contains(&revision.row) {
        let id = document.get("_id").cloned().unwrap_or(Bson::Null);
        return Some(duplicate(&collection.ns, "_id_", doc! { "_id": 1 }, doc! { "_id": id }));
    }
    for of in constrained {
        let is_taken = |value: &[u8]| claims.holder(of.part.id, value).is_some_and(|row| row != revision.row);
        if of.taken(position).iter().any(|value| is_taken(value)) {
            let values = values_of(of, is_taken, document);
            let request = &of.index.request;
            return Some(duplicate(&collection.ns, &request.name, request.key.clone(), values));
        }
    }
    claims.rows.insert(revision.row);
    for of in constrained {
        let claimed = claims.holders.entry(of.part.id).or_default();
        claimed.extend(of.taken(position).iter().map(|value| (value.clone(), revision.row)));
    }
    free(position, revision, constrained, claims);
    None
}

/// The values of a document's fields that are another's in an index: of an array, the element. Of several the first in the index's
/// order, as MongoDB enters them.
fn values_of(of: &Constrained, is_taken: impl Fn(&[u8]) -> bool, document: &Document) -> Document {
    let (part, key) = (&of.part, &of.index.request.key);
    let fields = part.physical.fields();
    let named = |tuple: Option<Vec<Bson>>| -> Document {
        let of_part: Document =
            fields.iter().map(|field| (*field).to_owned()).zip(tuple.unwrap_or_default()).collect();
        let value = |field: &String| of_part.get(field).cloned().unwrap_or(Bson::Null);
        key.keys().map(|field| (field.clone(), value(field))).collect()
    };
    let terms = planner::terms(document, &part.physical, part.sparse);
    let tuples = terms.map(|terms| terms.tuples).unwrap_or_default();
    let taken =
        tuples.into_iter().filter(|tuple| is_taken(&equality_bytes(tuple))).map(|tuple| named(Some(tuple)));
    taken.min_by(|left, right| in_order(key, left, right)).unwrap_or_else(|| named(None))
}

/// How two keys of an index lie.
fn in_order(key: &Document, left: &Document, right: &Document) -> Ordering {
    let compared = key.iter().map(|(field, direction)| {
        let value = |of: &Document| of.get(field).cloned().unwrap_or(Bson::Null);
        let ordering = order::compare(&value(left), &value(right));
        let is_descending = order::compare(direction, &Bson::Int32(0)).is_lt();
        if is_descending { ordering.reverse() } else { ordering }
    });
    compared.fold(Ordering::Equal, Ordering::then)
}

/// What one document gives up a later one of the same write may take: the steps free before they claim.
fn free(position: usize, revision: &Revision, constrained: &[Constrained], claims: &mut Claims) {
    for of in constrained {
        let freed = of.values.get(position).map(|values| values.freed.as_slice()).unwrap_or_default();
        for value in freed {
            if claims.holder(of.part.id, value) == Some(revision.row) {
                claims.holders.entry(of.part.id).or_default().remove(value);
            }
        }
    }
}

/// MongoDB's duplicate-key error.
fn duplicate(ns: &Namespace, index: &str, key_pattern: Document, key_value: Document) -> ServiceError {
    ServiceError {
        fault: Fault::DuplicateKey,
        message: format!(
            "E11000 duplicate key error collection: {}.{} index: {index} dup key: {}",
            ns.database,
            ns.collection,
            shown_document(&key_value)
        ),
        details: Some(Box::new(doc! { "keyPattern": key_pattern, "keyValue": key_value })),
    }
}
