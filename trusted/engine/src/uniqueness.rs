//! What must be unique: `_id`s, and the values of unique indexes.

use super::Shared;
use super::apply::Revision;
use super::channel::ServerChannel;
use super::collection::Collection;
use super::index::{IndexPart, LiveIndex};
use super::{error, terms};
use arras_documents::shown::shown_document;
use arras_planner::terms::{self as planner, equality_bytes};
use arras_protocol::{Channel, IndexId, RowId, documents, unique};
use arras_schemes::contract::Serves;
use arras_service::store::Namespace;
use arras_service::{Fault, ServiceError};
use arras_storage::Storage;
use bson::{Bson, Document, doc};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Labels and rows that a write has claimed so far.
#[derive(Default)]
pub(super) struct Claims {
    pub(super) rows: HashSet<RowId>,
    pub(super) labels: HashMap<(IndexId, unique::Label), RowId>,
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
        let mut labelled = Vec::new();
        for index in collection.indexes().iter() {
            for part in &index.parts {
                let Serves::Unique(labels) = part.half.serves() else {
                    continue;
                };
                let labels = |document: Option<&Document>| {
                    let terms = document.map(|document| terms::of(part, document)).transpose();
                    let terms = terms.map_err(|error| error::too_many_entries(&error))?.unwrap_or_default();
                    Ok::<_, ServiceError>(
                        terms.terms.keys().map(|value| labels.label(value)).collect::<Vec<_>>(),
                    )
                };
                let mut of_revisions = Vec::with_capacity(revisions.len());
                for revision in revisions {
                    let old = labels(revision.old.as_ref().map(|old| &old.document))?;
                    let taken = labels(revision.new.as_deref())?;
                    let freed = old.into_iter().filter(|label| !taken.contains(label)).collect();
                    of_revisions.push(Labels { taken, freed });
                }
                labelled.push((Arc::clone(index), part.id, of_revisions));
            }
        }
        let asked = tokio::try_join!(self.existing_rows(collection, new_rows), self.taken_labels(&labelled));
        let (rows, labels) = asked.map_err(error::not_recorded)?;
        let mut claims = Claims { rows, labels };
        for (position, revision) in revisions.iter().enumerate() {
            let misfit = self.misfit(collection, revision);
            conflicts
                .push(misfit.or_else(|| conflict(collection, position, revision, &labelled, &mut claims)));
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

    /// Which rows hold the labels on the server. The indexes are asked side by side.
    async fn taken_labels(
        &self,
        labelled: &[Labelled],
    ) -> Result<HashMap<(IndexId, unique::Label), RowId>, ServiceError> {
        let mut asking = tokio::task::JoinSet::new();
        for (_, index, labels) in labelled {
            let mut labels: Vec<unique::Label> =
                labels.iter().flat_map(|labels| &labels.taken).copied().collect();
            if labels.is_empty() {
                continue;
            }
            // In their own order, which is pseudorandom: not in that of their values, nor document by document.
            labels.sort_unstable();
            labels.dedup();
            let (index, channel) = (*index, Arc::clone(&self.channel));
            asking.spawn(async move {
                let request = unique::Request { index, labels: labels.clone() };
                let reply = Channel::<unique::Unique>::call(&*channel, request).await;
                reply.map(|reply| (index, labels, reply.rows))
            });
        }
        let mut taken = HashMap::new();
        while let Some(asked) = asking.join_next().await {
            let asked = asked.map_err(|error| error::of(Fault::Internal, error.to_string()))?;
            let (index, labels, rows) = asked.map_err(error::channel)?;
            if rows.len() != labels.len() {
                return Err(error::not_of_protocol());
            }
            let held = labels.into_iter().zip(rows);
            taken.extend(held.filter_map(|(label, row)| Some(((index, label), row?))));
        }
        Ok(taken)
    }
}

/// Labels of a unique index that one revision takes, and those it gives up.
#[derive(Default)]
pub(super) struct Labels {
    pub(super) taken: Vec<unique::Label>,
    pub(super) freed: Vec<unique::Label>,
}

/// A unique index, and the labels of each revision.
pub(super) type Labelled = (Arc<LiveIndex>, IndexId, Vec<Labels>);

/// The uniqueness one revision breaks; if none, its claims are noted.
pub(super) fn conflict(
    collection: &Collection,
    position: usize,
    revision: &Revision,
    labelled: &[Labelled],
    claims: &mut Claims,
) -> Option<ServiceError> {
    let Some(document) = revision.new.as_ref() else {
        free(position, revision, labelled, claims);
        return None;
    };
    if revision.old.is_none() && claims.rows.contains(&revision.row) {
        let id = document.get("_id").cloned().unwrap_or(Bson::Null);
        return Some(duplicate(&collection.ns, "_id_", doc! { "_id": 1 }, doc! { "_id": id }));
    }
    for (index, id, labels) in labelled {
        let is_taken = |label| claims.labels.get(&(*id, label)).is_some_and(|row| *row != revision.row);
        let taken = labels
            .get(position)
            .and_then(|labels| labels.taken.iter().copied().find(|label| is_taken(*label)));
        if let Some(label) = taken {
            let values = values_of(index, *id, label, document);
            let (name, key) = (&index.request.name, index.request.key.clone());
            return Some(duplicate(&collection.ns, name, key, values));
        }
    }
    claims.rows.insert(revision.row);
    for (_, id, labels) in labelled {
        let taken = labels.get(position).map(|labels| labels.taken.as_slice()).unwrap_or_default();
        for label in taken {
            claims.labels.insert((*id, *label), revision.row);
        }
    }
    free(position, revision, labelled, claims);
    None
}

/// The values of a document by which it has a label in an index: of an array, the element.
fn values_of(index: &LiveIndex, part: IndexId, label: unique::Label, document: &Document) -> Document {
    let part = index.parts.iter().find(|of| of.id == part);
    let named = part.and_then(|part: &Arc<IndexPart>| {
        let Serves::Unique(labels) = part.half.serves() else { return None };
        let is_it = |tuple: &Vec<Bson>| labels.label(&equality_bytes(tuple)) == label;
        let found =
            planner::terms(document, &part.physical, part.sparse).ok()?.tuples.into_iter().find(is_it)?;
        let fields = part.physical.fields().into_iter().map(str::to_owned);
        Some(fields.zip(found).collect::<Document>())
    });
    let value =
        |field: &String| named.as_ref().and_then(|named| named.get(field)).cloned().unwrap_or(Bson::Null);
    index.request.key.keys().map(|field| (field.clone(), value(field))).collect()
}

/// What one document gives up a later one of the same write may take: the steps free before they claim.
fn free(position: usize, revision: &Revision, labelled: &[Labelled], claims: &mut Claims) {
    for (_, id, labels) in labelled {
        let freed = labels.get(position).map(|labels| labels.freed.as_slice()).unwrap_or_default();
        for label in freed {
            if claims.labels.get(&(*id, *label)) == Some(&revision.row) {
                claims.labels.remove(&(*id, *label));
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
