//! What exists: collections and their indexes, as records of the proxy's own store.

mod stored;

use super::local::{Change, LocalError, LocalStore};
use arras_planner::kinds::Availability;
use arras_planner::physical::PhysicalIndex;
use arras_protocol::{CollectionId, IndexId};
use arras_service::store::{IndexDefinition, Namespace};
use arras_storage::{Storage, Table};
use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};

/// Namespace to [`CollectionRecord`].
const COLLECTIONS: Table = Table("collections");
/// The same, of before a server was accepted that was restored alone, until their indexes are made again.
const SET_ASIDE: Table = Table("collections_set_aside");

/// A collection as recorded.
#[derive(Clone, Debug)]
pub struct CollectionRecord {
    /// Database name.
    pub database: String,
    /// Collection name.
    pub collection: String,
    /// Its name on the server.
    pub id: CollectionId,
    /// Version of the root its keys are derived from.
    pub key_version: u32,
    /// Its indexes, without the `_id` index, which is the document store itself.
    pub indexes: Vec<IndexRecord>,
}

/// An index the application asked for.
#[derive(Clone, Debug)]
pub struct IndexRecord {
    /// The request, as BSON.
    request: Vec<u8>,
    /// The encrypted indexes that serve it.
    pub parts: Vec<IndexPartRecord>,
    /// False while it is being filled; such an index is dropped at the next start.
    pub ready: bool,
}

/// What is recorded of a text index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRecord {
    /// Its name at the search service.
    pub id: [u8; 8],
    /// Of the analysis it was made by.
    pub fingerprint: [u8; 8],
}

/// One encrypted index.
#[derive(Clone, Debug)]
pub struct IndexPartRecord {
    /// Its name on the server.
    pub id: IndexId,
    /// What it holds.
    pub physical: PhysicalIndex,
    /// Documents without any of its fields are left out.
    pub sparse: bool,
    /// `B` of a range index, which is fixed for its life whatever the settings become.
    pub bucket_factor: u64,
}

impl IndexRecord {
    /// Records a request that `parts` will serve, not filled yet.
    #[must_use]
    pub fn new(request: &IndexDefinition, parts: Vec<IndexPartRecord>) -> Self {
        let document = doc! {
            "name": &request.name,
            "key": request.key.clone(),
            "unique": request.unique,
            "sparse": request.sparse,
            "options": request.options.clone(),
        };
        Self { request: document.to_vec().unwrap_or_default(), parts, ready: false }
    }

    /// The same record, of a text index.
    #[must_use]
    pub fn with_text(mut self, text: Option<TextRecord>) -> Self {
        if let (Some(TextRecord { id, fingerprint }), Ok(mut document)) =
            (text, Document::from_reader(self.request.as_slice()))
        {
            document.insert("text", doc! { "id": binary(&id), "analysis": binary(&fingerprint) });
            self.request = document.to_vec().unwrap_or_default();
        }
        self
    }

    /// What is recorded of a text index; none of others.
    #[must_use]
    pub fn text(&self) -> Option<TextRecord> {
        let document = Document::from_reader(self.request.as_slice()).ok()?;
        let text = document.get_document("text").ok()?;
        let bytes = |name| text.get_binary_generic(name).ok()?.as_slice().try_into().ok();
        Some(TextRecord { id: bytes("id")?, fingerprint: bytes("analysis")? })
    }

    /// The request.
    ///
    /// # Errors
    /// [`LocalError::Damaged`] if the record does not parse.
    pub fn request(&self) -> Result<IndexDefinition, LocalError> {
        let damaged = || LocalError::Damaged(COLLECTIONS.0);
        let document = Document::from_reader(self.request.as_slice()).map_err(|_| damaged())?;
        Ok(IndexDefinition {
            name: document.get_str("name").map_err(|_| damaged())?.to_owned(),
            key: document.get_document("key").map_err(|_| damaged())?.clone(),
            unique: document.get_bool("unique").unwrap_or(false),
            sparse: document.get_bool("sparse").unwrap_or(false),
            options: document.get_document("options").cloned().unwrap_or_default(),
        })
    }
}

impl CollectionRecord {
    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> Namespace {
        Namespace { database: self.database.clone(), collection: self.collection.clone() }
    }

    /// # Errors
    /// [`LocalError::NotBuilt`] if an index is by a protocol that this build was made without.
    pub(super) fn built(&self) -> Result<(), LocalError> {
        for part in self.indexes.iter().flat_map(|index| &index.parts) {
            let PhysicalIndex::Range { protocol, range, .. } = &part.physical else { continue };
            if let Availability::Refused(reason) = protocol.kind().availability {
                return Err(LocalError::NotBuilt {
                    collection: format!("{}.{}", self.database, self.collection),
                    field: range.clone(),
                    protocol: protocol.name(),
                    reason,
                });
            }
        }
        Ok(())
    }
}

fn binary(bytes: &[u8]) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() }
}

fn name(ns: &Namespace) -> Vec<u8> {
    format!("{}\0{}", ns.database, ns.collection).into_bytes()
}

/// Every collection.
///
/// # Errors
/// [`LocalError`] if the store fails, or holds an index of a protocol that this build does not know.
pub fn all<S: Storage>(local: &LocalStore<S>) -> Result<Vec<CollectionRecord>, LocalError> {
    read(local, COLLECTIONS)
}

fn read<S: Storage>(local: &LocalStore<S>, table: Table) -> Result<Vec<CollectionRecord>, LocalError> {
    let stored: Vec<stored::Collection> = local.all(table)?;
    stored.into_iter().map(stored::Collection::read).collect()
}

/// Every collection as it was set aside.
///
/// # Errors
/// Those of [`all`].
pub(super) fn set_aside<S: Storage>(local: &LocalStore<S>) -> Result<Vec<CollectionRecord>, LocalError> {
    read(local, SET_ASIDE)
}

/// The change that sets a collection aside.
pub(super) fn keep_aside<S: Storage>(local: &LocalStore<S>, collection: &CollectionRecord) -> Change {
    local.set(SET_ASIDE, &name(&collection.namespace()), &stored::Collection::of(collection))
}

/// The change that forgets a collection that was set aside.
pub(super) fn forget_aside<S: Storage>(local: &LocalStore<S>, ns: &Namespace) -> Change {
    local.unset(SET_ASIDE, &name(ns))
}

/// The change that records a collection.
pub fn record<S: Storage>(local: &LocalStore<S>, collection: &CollectionRecord) -> Change {
    local.set(COLLECTIONS, &name(&collection.namespace()), &stored::Collection::of(collection))
}

/// The change that forgets a collection.
pub fn forget<S: Storage>(local: &LocalStore<S>, ns: &Namespace) -> Change {
    local.unset(COLLECTIONS, &name(ns))
}

#[cfg(test)]
mod tests;
