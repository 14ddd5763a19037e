//! Which encrypted indexes are wanted, by the schema and by the application, and which are there.
//!
//! An index that stands for another is not made twice: `createIndexes` on a field that the schema declares makes what
//! the schema's index does not serve, perhaps nothing. So when an index is dropped, what others rely on goes over to
//! them. What counts as there is what the catalog says is there and filled, never what a schema says.

use super::apply::Revision;
use super::catalog::{self, IndexPartRecord, IndexRecord};
use super::channel::ServerChannel;
use super::collection::Collection;
use super::index::{IndexPart, LiveIndex};
use super::local::{LocalError, LocalStore};
use super::{Engine, Shared, error, text};
use arras_planner::indexes::physical_indexes;
use arras_planner::kinds::OrderProtocol;
use arras_planner::physical::{PhysicalIndex, minimise};
use arras_planner::request::{self, RequestError};
use arras_planner::schema::{Schema, TextSchema};
use arras_records::OpenDocument;
use arras_service::ID_INDEX;
use arras_service::store::{IndexDefinition, Namespace};
use arras_service::{Fault, ServiceError};
use arras_storage::Storage;
use bson::Bson;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// An index that the schema, or an index of the application under this schema, calls for and that could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// Of which collection.
    pub ns: Namespace,
    /// Which index.
    pub index: CalledFor,
    /// Why not.
    pub why: String,
    /// It may be made another time, though nothing about the documents or the schema changes.
    pub transient: bool,
}

/// An index that a schema calls for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CalledFor {
    /// On the server.
    Encrypted(PhysicalIndex),
    /// Of words, at the enclave of boolean search.
    Text(TextSchema),
}

impl fmt::Display for CalledFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encrypted(index) => index.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// Errors that last until somebody does something: values twice, more of them than an index takes, parallel arrays, an index of
/// another protocol.
const LASTING: [Fault; 4] =
    [Fault::BadValue, Fault::ParallelArrays, Fault::DuplicateKey, Fault::IndexOptionsConflict];
/// The first wait before what failed over something else is tried again; each is twice the one before.
const RETRY: Duration = Duration::from_millis(500);
/// The longest wait.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// A difference between what the schema calls for and what the catalog has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// An index is not there.
    Lacking {
        /// Of which collection.
        ns: Namespace,
        /// Which.
        index: CalledFor,
    },
    /// An index is there, and by another protocol than is called for.
    OtherProtocol {
        /// Of which collection.
        ns: Namespace,
        /// Which, and what to do about it.
        refusal: String,
    },
    /// An index that a schema made is there, and this one does not call for it.
    Left {
        /// Of which collection.
        ns: Namespace,
        /// As MongoDB names it, such as `age_1`.
        name: String,
    },
}

/// What an index is, if no application asked for it.
fn made_for_schema<'i>(index: &'i IndexRecord, request: &IndexDefinition) -> Option<&'i IndexPartRecord> {
    index.parts.first().filter(|part| self::request(&part.physical) == *request)
}

/// What stands against an index: one on its fields by another protocol.
fn other_protocol(there: &[(&IndexRecord, IndexDefinition)], wanted: &PhysicalIndex) -> Option<String> {
    let wanted = std::slice::from_ref(wanted);
    there.iter().find_map(|(index, request)| {
        let change = index.parts.iter().find_map(|part| request::changed_protocol(wanted, &part.physical))?;
        Some(change.refusal(&request.name))
    })
}

/// Compares a schema with the catalog in the proxy's own store. Collections that do not exist yet get their indexes when
/// they are made, and differ in nothing.
///
/// # Errors
/// [`LocalError`] if the store fails.
pub fn differences<S: Storage>(
    local: &LocalStore<S>,
    schema: &Schema,
) -> Result<Vec<Difference>, LocalError> {
    let mut differences = Vec::new();
    for record in catalog::all(local)? {
        let (ns, declared) = (record.namespace(), schema.collection(&record.database, &record.collection));
        let ready = || record.indexes.iter().filter(|index| index.ready);
        let mut requests = Vec::new();
        for index in ready() {
            requests.push((index, index.request()?));
        }
        let of_requests = requests
            .iter()
            .filter(|(index, request)| !request.sparse && made_for_schema(index, request).is_none())
            .flat_map(|(_, request)| request::indexes_for(request, declared).unwrap_or_default());
        let of_schema = declared.map(physical_indexes).unwrap_or_default();
        let wanted = minimise(of_schema.iter().cloned().chain(of_requests).collect());
        let parts = ready().flat_map(|index| &index.parts);
        let lacking = request::missing(wanted, false, parts.map(|part| (&part.physical, part.sparse)));
        for index in lacking {
            differences.push(match other_protocol(&requests, &index) {
                Some(refusal) => Difference::OtherProtocol { ns: ns.clone(), refusal },
                None => Difference::Lacking { ns: ns.clone(), index: CalledFor::Encrypted(index) },
            });
        }
        let text = text::declared::lacking(schema, &ns, requests.iter().map(|(_, request)| request));
        differences.extend(text.map(|index| Difference::Lacking { ns: ns.clone(), index }));
        for (index, request) in &requests {
            if text::declared::is_left(declared, request) {
                differences.push(Difference::Left { ns: ns.clone(), name: request.name.clone() });
            }
            let Some(made) = made_for_schema(index, request) else { continue };
            // What the schema calls for may be served by it, or be less than it.
            let called_for = of_schema.iter().any(|wanted| made.physical.implies(wanted));
            if !called_for {
                differences.push(Difference::Left { ns: ns.clone(), name: request.name.clone() });
            }
        }
    }
    Ok(differences)
}

/// How an index that no application asked for is listed.
pub(super) fn request(physical: &PhysicalIndex) -> IndexDefinition {
    let fields = physical.fields();
    let on_id = fields == ["_id"];
    // With a number after each field, as MongoDB names indexes: without it `a_b` and `a, b` would be one name. What is like
    // such a number within a field is marked: `a_1_b` and `a, b` would be one otherwise.
    let marked = |field: &str| field.replace('~', "~~").replace("_1", "_~1");
    let keys: Vec<String> = fields.iter().map(|field| format!("{}_1", marked(field))).collect();
    let kind = match physical {
        PhysicalIndex::Unique { .. } => "unique",
        PhysicalIndex::Eq { .. } => "eq",
        PhysicalIndex::Range { protocol, .. } if *protocol == OrderProtocol::default() => "range",
        PhysicalIndex::Range { protocol, .. } => protocol.name(),
    };
    IndexDefinition {
        name: if on_id { ID_INDEX.into() } else { format!("arras_{kind}_{}", keys.join("_")) },
        key: fields.iter().map(|field| ((*field).to_owned(), Bson::Int32(1))).collect(),
        unique: matches!(physical, PhysicalIndex::Unique { .. }),
        sparse: false,
        options: bson::Document::new(),
    }
}

/// Whether an index is one that no application asked for.
pub(super) fn is_declared(index: &LiveIndex) -> bool {
    index.parts.first().is_some_and(|part| request(&part.physical) == index.request)
}

/// What a request calls for under a schema, there or not.
pub(super) fn wanted(
    ns: &Namespace,
    request: &IndexDefinition,
    schema: &Schema,
) -> Result<Vec<PhysicalIndex>, RequestError> {
    let undeclared = schema.undeclared();
    request::indexes_for(
        request,
        Some(schema.collection(&ns.database, &ns.collection).unwrap_or(&undeclared)),
    )
}

/// Refuses indexes on fields that an index of another protocol gives the order of.
pub(super) fn kept_protocol(collection: &Collection, wanted: &[PhysicalIndex]) -> Result<(), ServiceError> {
    for index in collection.indexes().iter() {
        for part in &index.parts {
            if let Some(change) = request::changed_protocol(wanted, &part.physical) {
                let refusal = change.refusal(&index.request.name);
                return Err(error::of(Fault::IndexOptionsConflict, refusal));
            }
        }
    }
    Ok(())
}

/// Those of `wanted` that no filled index of the collection stands for.
pub(super) fn missing(
    collection: &Collection,
    wanted: Vec<PhysicalIndex>,
    sparse: bool,
) -> Vec<PhysicalIndex> {
    let indexes = collection.indexes();
    let filled = indexes.iter().filter(|index| index.ready.load(Ordering::SeqCst));
    let parts = filled.flat_map(|index| &index.parts);
    request::missing(wanted, sparse, parts.map(|part| (&part.physical, part.sparse)))
}

/// What an index relies on, of its own or another's: of one that a schema made, what it has.
fn relied_on(ns: &Namespace, index: &LiveIndex, schema: &Schema) -> Vec<PhysicalIndex> {
    if is_declared(index) {
        return Vec::new();
    }
    // A request that a schema of now has another order for was accepted by an earlier one.
    let without_schema = || request::indexes_for(&index.request, None).unwrap_or_default();
    wanted(ns, &index.request, schema).unwrap_or_else(|_| without_schema())
}

/// The indexes of a collection without one of them; what others rely on of it is theirs now.
pub(super) fn without(collection: &Collection, position: usize, schema: &Schema) -> Vec<Arc<LiveIndex>> {
    let mut left = collection.indexes().to_vec();
    if position >= left.len() {
        return left;
    }
    let dropped = left.remove(position);
    let mut going: Vec<Arc<IndexPart>> = dropped.parts.clone();
    for at in 0..left.len() {
        let Some(index) = left.get(at).cloned() else { break };
        let wanted = relied_on(&collection.ns, &index, schema);
        let parts = left.iter().flat_map(|index| &index.parts);
        let there = parts.map(|part| (&part.physical, part.sparse));
        let missing = request::missing(wanted, index.request.sparse, there);
        let serves = |part: &Arc<IndexPart>| {
            let own = std::iter::once((&part.physical, part.sparse));
            request::missing(missing.clone(), index.request.sparse, own).len() < missing.len()
        };
        let (taken, others): (Vec<_>, Vec<_>) = going.into_iter().partition(serves);
        going = others;
        if !taken.is_empty() {
            let ready = AtomicBool::new(index.ready.load(Ordering::SeqCst));
            let parts = index.parts.iter().cloned().chain(taken).collect();
            if let Some(place) = left.get_mut(at) {
                let (request, text) = (index.request.clone(), index.text.clone());
                *place = Arc::new(LiveIndex { request, parts, text, ready });
            }
        }
    }
    left
}

impl<S: Storage, C: ServerChannel> Engine<S, C> {
    /// Makes what the schema calls for and is not there, one index after the other, over existing documents, too;
    /// what cannot be made. It runs at every start by itself, unless [`super::Settings::keep_schema_applied`] says
    /// otherwise; another call finds nothing left to do.
    pub async fn apply_schema(&self) -> Vec<Unmet> {
        self.shared.apply_schema().await
    }

    /// What the schema and the application's indexes call for under it, and is not there.
    pub fn lacking(&self) -> Vec<(Namespace, CalledFor)> {
        let of = |collection: &Arc<Collection>| {
            let ns = collection.ns.clone();
            self.shared.called_for(collection).into_iter().map(move |index| (ns.clone(), index))
        };
        self.shared.all_collections().iter().flat_map(of).collect()
    }
}

/// Applies the schema, and tries again from time to time what could not be made for reasons that may pass: a unique index
/// enforces nothing until it is there.
pub(super) async fn keep_applied<S: Storage, C: ServerChannel>(shared: Weak<Shared<S, C>>) {
    let mut pause = RETRY;
    loop {
        let Some(applying) = shared.upgrade() else { return };
        let unmet = applying.apply_schema().await;
        drop(applying);
        if !unmet.iter().any(|unmet| unmet.transient) {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    pub(super) async fn apply_schema(&self) -> Vec<Unmet> {
        let mut unmet = Vec::new();
        for collection in self.all_collections() {
            let _turn = self.definitions.of(&collection.ns).await;
            if self.collection(&collection.ns).is_none_or(|now| now.id != collection.id) {
                continue; // dropped meanwhile
            }
            for index in self.called_for(&collection) {
                let name = collection.id_in_log();
                tracing::info!(collection = %name, %index, "making an index that is called for and not there");
                if let Err(error) = self.make_called_for(&collection, &index).await {
                    let transient = !LASTING.contains(&error.fault);
                    let (fault, why) = (error.fault, error.message);
                    // The message of one that documents forbid has their values in it: it is for who asks, not for the log.
                    tracing::error!(collection = %name, %index, ?fault, "an index that the schema calls for cannot be made");
                    unmet.push(Unmet { ns: collection.ns.clone(), index, why, transient });
                }
            }
        }
        unmet
    }

    async fn make_called_for(
        &self,
        collection: &Arc<Collection>,
        index: &CalledFor,
    ) -> Result<(), ServiceError> {
        match index {
            CalledFor::Encrypted(index) => {
                kept_protocol(collection, std::slice::from_ref(index))?;
                self.create_index(collection, request(index), vec![index.clone()]).await
            }
            CalledFor::Text(text) => self.make_declared_text(collection, text).await,
        }
    }

    /// What the schema declares of a field, or the text index of documents, that the new document of a revision does not keep to. A document that stays
    /// as it is, such as one that is entered into a new index, was not written under this schema.
    pub(super) fn misfit(&self, collection: &Collection, revision: &Revision) -> Option<ServiceError> {
        let ns = &collection.ns;
        let new = revision.new.as_ref()?;
        if let Some(error) = self.text_misfit(collection, new) {
            return Some(error);
        }
        let declared = self.settings.schema.collection(&ns.database, &ns.collection)?;
        let misfit = declared.misfit(new)?;
        let is_same = |old: &OpenDocument| arras_documents::order::identical_documents(&old.document, new);
        if revision.old.as_ref().is_some_and(is_same) {
            return None;
        }
        Some(error::misfit(&misfit, new.get("_id").unwrap_or(&Bson::Null)))
    }

    /// What the schema and the application's indexes call for under it, and is not there.
    pub(super) fn called_for(&self, collection: &Collection) -> Vec<CalledFor> {
        let ns = &collection.ns;
        let schema = &self.settings.schema;
        let declared =
            schema.collection(&ns.database, &ns.collection).map(physical_indexes).unwrap_or_default();
        let of_requests = collection
            .indexes()
            .iter()
            // One that a schema made calls for nothing beside itself.
            .filter(|index| !index.request.sparse && !is_declared(index))
            .flat_map(|index| wanted(&collection.ns, &index.request, schema).unwrap_or_default())
            .collect::<Vec<_>>();
        let all = minimise(declared.into_iter().chain(of_requests).collect());
        let encrypted = missing(collection, all, false).into_iter().map(CalledFor::Encrypted);
        encrypted.chain(self.text_called_for(collection)).collect()
    }
}

#[cfg(test)]
mod tests;
