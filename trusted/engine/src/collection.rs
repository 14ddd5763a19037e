//! A collection in memory: its ciphers, its indexes, and the lock its writers take.

use super::catalog::{CollectionRecord, IndexRecord, PartRecord};
use super::channel::ServerChannel;
use super::index::{Half, LiveIndex, Part};
use super::joined::Joining;
use arras_keys::{Key, Purpose};
use arras_protocol::CollectionId;
use arras_records::DocumentSealer;
use arras_service::store::Namespace;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Values of which entries went, and the counters that these were under.
pub(super) type Released = HashMap<Vec<u8>, BTreeSet<u32>>;
/// An index, and what went of it.
pub(super) type Thinned<C> = (Arc<Part<C>>, Released);

/// A collection.
pub(super) struct Collection<C> {
    /// Its name.
    pub(super) ns: Namespace,
    /// Its name on the server.
    pub(super) id: CollectionId,
    key_version: u32,
    /// Seals its documents.
    pub(super) sealer: Arc<DocumentSealer>,
    /// Held by the one writer: uniqueness checks, counters and index changes of a write belong together.
    pub(super) writes: tokio::sync::Mutex<()>,
    /// The writes of single documents that wait for it.
    pub(super) joining: Joining,
    /// Values of equality indexes that lost entries and are to be cleaned at the end of the statement.
    pub(super) thinned: Mutex<Vec<Thinned<C>>>,
    /// What is here may differ from its record: the next write records it too, before the server hears of that write.
    /// A record that differs is thus never older than a document. Changed by the one writer.
    pub(super) unrecorded: AtomicBool,
    indexes: RwLock<Arc<Vec<Arc<LiveIndex<C>>>>>,
}

impl<C: ServerChannel> Collection<C> {
    pub(super) fn new(record: &CollectionRecord, root: &Key, indexes: Vec<LiveIndex<C>>) -> Self {
        let key = root.child(Purpose::Collection(&record.id.0));
        Self {
            ns: record.namespace(),
            id: record.id,
            key_version: record.key_version,
            sealer: Arc::new(DocumentSealer::new(record.id, &key)),
            writes: tokio::sync::Mutex::default(),
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
    pub(super) fn indexes(&self) -> Arc<Vec<Arc<LiveIndex<C>>>> {
        Arc::clone(&self.indexes.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_indexes(&self, indexes: Vec<Arc<LiveIndex<C>>>) {
        *self.indexes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(indexes);
    }

    /// Every encrypted index that writes must keep.
    pub(super) fn parts(&self) -> Vec<Arc<Part<C>>> {
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

    /// Has the range indexes load themselves and remake their circuits before the next use.
    pub(super) async fn new_epoch(&self) {
        for part in self.parts() {
            if let Half::Range(index) = &part.half {
                index.new_epoch().await;
                drop(index.suspend().await);
            }
        }
    }
}

fn index_record<C>(index: &LiveIndex<C>) -> IndexRecord {
    let parts = index
        .parts
        .iter()
        .map(|part| PartRecord {
            id: part.id,
            physical: part.physical.clone(),
            sparse: part.sparse,
            bucket_factor: part.bucket_factor,
        })
        .collect();
    let mut record = IndexRecord::new(&index.request, parts);
    record.ready = index.ready.load(Ordering::SeqCst);
    record
}
