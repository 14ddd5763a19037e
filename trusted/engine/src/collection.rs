//! A collection in memory: its ciphers, its indexes, and the lock its writers take.

use super::catalog::{CollectionRecord, IndexPartRecord, IndexRecord};
use super::index::{IndexPart, LiveIndex};
use super::joined::Joining;
use super::lengths::Lengths;
use arras_keys::{Key, Purpose};
use arras_protocol::CollectionId;
use arras_records::DocumentSealer;
use arras_schemes::contract::Released;
use arras_service::store::Namespace;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// An index, and what went of it.
pub(super) type Thinned = (Arc<IndexPart>, Released);

/// A collection.
pub(super) struct Collection {
    /// Database and collection as the application names them.
    pub(super) ns: Namespace,
    /// Its name on the server.
    pub(super) id: CollectionId,
    key_version: u32,
    /// Seals its documents.
    pub(super) sealer: Arc<DocumentSealer>,
    /// How long its documents are.
    pub(super) lengths: Lengths,
    /// Held by the one writer: uniqueness checks, counters and index changes of a write belong together.
    pub(super) writes: tokio::sync::Mutex<()>,
    /// Held by the one who takes samples of its indexes.
    pub(super) sampling: tokio::sync::Mutex<()>,
    /// The writes of single documents that wait for it.
    pub(super) joining: Joining,
    /// Values of equality indexes that lost entries and are to be cleaned at the end of the statement.
    pub(super) thinned: Mutex<Vec<Thinned>>,
    /// What is here may differ from its record: the next write records it too, before the server hears of that write.
    /// A record that differs is thus never older than a document. Changed by the one writer.
    pub(super) unrecorded: AtomicBool,
    indexes: RwLock<Arc<Vec<Arc<LiveIndex>>>>,
}

impl Collection {
    pub(super) fn new(record: &CollectionRecord, root: &Key, indexes: Vec<LiveIndex>) -> Self {
        let key = root.child(Purpose::Collection(&record.id.0));
        Self {
            ns: record.namespace(),
            id: record.id,
            key_version: record.key_version,
            sealer: Arc::new(DocumentSealer::new(record.id, &key)),
            lengths: Lengths::default(),
            writes: tokio::sync::Mutex::default(),
            sampling: tokio::sync::Mutex::default(),
            joining: Joining::default(),
            thinned: Mutex::default(),
            unrecorded: AtomicBool::new(false),
            indexes: RwLock::new(Arc::new(indexes.into_iter().map(Arc::new).collect())),
        }
    }

    /// Its name in logs: names of collections are not secret to the proxy's operator.
    pub(super) fn id_in_log(&self) -> String {
        format!("{}.{}", self.ns.database, self.ns.collection)
    }

    /// Its indexes, as they are now.
    pub(super) fn indexes(&self) -> Arc<Vec<Arc<LiveIndex>>> {
        Arc::clone(&self.indexes.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_indexes(&self, indexes: Vec<Arc<LiveIndex>>) {
        *self.indexes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(indexes);
    }

    /// Every encrypted index that writes must keep.
    pub(super) fn parts(&self) -> Vec<Arc<IndexPart>> {
        self.indexes().iter().flat_map(|index| index.parts.iter().cloned()).collect()
    }

    /// The record that describes it now.
    pub(super) fn record(&self) -> CollectionRecord {
        let indexes = self.indexes();
        CollectionRecord {
            database: self.ns.database.clone(),
            collection: self.ns.collection.clone(),
            id: self.id,
            key_version: self.key_version,
            indexes: indexes.iter().map(|index| index_record(index)).collect(),
        }
    }

    /// Tells its indexes that the server has restarted.
    pub(super) async fn server_restarted(&self) {
        for part in self.parts() {
            Arc::clone(&part.half).server_restarted().await;
        }
    }
}

fn index_record(index: &LiveIndex) -> IndexRecord {
    let parts = index
        .parts
        .iter()
        .map(|part| IndexPartRecord {
            id: part.id,
            physical: part.physical.clone(),
            sparse: part.sparse,
            bucket_factor: part.bucket_factor,
        })
        .collect();
    let mut record =
        IndexRecord::new(&index.request, parts).with_text(index.text.as_ref().map(|text| text.record()));
    record.ready = index.ready.load(Ordering::SeqCst);
    record
}

#[cfg(test)]
mod tests;
