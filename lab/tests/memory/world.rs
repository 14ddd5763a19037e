//! An engine over a channel that counts the documents that come back.

use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_documents::update::{ArrayFilters, Update};
use arras_engine::{Engine, EngineCursor, Settings};
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_protocol::{Channel, ChannelError, Protocol};
use arras_server::Backend;
use arras_service::ServiceError;
use arras_service::interrupt::Interrupt;
use arras_service::store::{
    Cursor, DeleteStatement, IndexDefinition, InsertStatement, Namespace, Query, Store, UpdateStatement,
    Updated,
};
use arras_storage::Memory;
use bson::{Document, doc};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Passes everything on, and counts documents in replies.
pub(crate) struct Counting {
    server: Direct<Memory>,
    documents: AtomicUsize,
}

impl<P: Protocol> Channel<P> for Counting {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        let response = Channel::<P>::call(&self.server, request).await?;
        let any: &dyn Any = &response;
        let documents = any.downcast_ref::<<arras_protocol::documents::Documents as Protocol>::Response>();
        if let Some(arras_protocol::documents::Response::Documents { documents, .. }) = documents {
            self.documents.fetch_add(documents.len(), Ordering::SeqCst);
        }
        Ok(response)
    }
}

pub(crate) struct World {
    channel: Arc<Counting>,
    pub(crate) engine: Engine<Memory, Counting>,
    _directory: tempfile::TempDir,
}

pub(crate) fn namespace() -> Namespace {
    Namespace { database: "d".into(), collection: "c".into() }
}

pub(crate) fn query(filter: Document) -> Query {
    let filter = Filter::parse(&filter).unwrap();
    Query { filter, sort: Sort::default(), skip: 0, limit: None, hint: None, allow_disk_use: true }
}

pub(crate) fn request(name: &str, key: Document) -> IndexDefinition {
    IndexDefinition { name: name.to_owned(), key, unique: false, sparse: false, options: Document::new() }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let server = Arc::new(Backend::open(Memory::new(), [1; 16]).unwrap());
        let channel = Arc::new(Counting { server: Direct::new(server), documents: AtomicUsize::new(0) });
        let directory = tempfile::tempdir().unwrap();
        let engine = one_process::open(directory.path(), Memory::new(), Arc::clone(&channel), settings).await;
        Self { channel, engine: engine.unwrap(), _directory: directory }
    }

    /// Documents read from the server while something is done.
    pub(crate) fn documents_read(&self) -> usize {
        self.channel.documents.swap(0, Ordering::SeqCst)
    }

    pub(crate) async fn insert(&self, documents: Vec<Document>) {
        let inserted = self
            .engine
            .insert(&namespace(), InsertStatement::of(documents, true).expect("documents"))
            .await
            .unwrap();
        assert!(inserted.failures.is_empty());
        self.documents_read();
    }

    pub(crate) async fn create_index(&self, key: Document) -> Result<(usize, usize), ServiceError> {
        let name = key.keys().cloned().collect::<Vec<_>>().join("_");
        self.engine.create_indexes(&namespace(), vec![request(&name, key)], Interrupt::default()).await
    }

    pub(crate) async fn cursor(&self, query: Query) -> EngineCursor<Memory, Counting> {
        self.engine.find(&namespace(), query).await.unwrap()
    }

    /// The `_id`s of a result, in its order, in batches as a driver asks for them.
    pub(crate) async fn ids(&self, query: Query) -> Vec<i32> {
        let mut cursor = self.cursor(query).await;
        let (mut ids, mut size) = (Vec::new(), 101);
        loop {
            let batch = cursor.next_batch(size, 16 << 20).await.unwrap();
            if batch.is_empty() {
                return ids;
            }
            ids.extend(batch.iter().map(|document| document.get_i32("_id").unwrap()));
            size = 1000;
        }
    }

    pub(crate) async fn update_all(&self, filter: Document, update: Document) -> Updated {
        let statement = UpdateStatement {
            filter: Filter::parse(&filter).unwrap(),
            update: Update::parse(&bson::Bson::Document(update)).unwrap(),
            hint: None,
            array_filters: ArrayFilters::default(),
            multi: true,
            upsert: None,
            interrupt: Interrupt::default(),
        };
        self.engine.update(&namespace(), statement).await.unwrap()
    }

    pub(crate) async fn delete_all(&self, filter: Document) -> u64 {
        let filter = Filter::parse(&filter).unwrap();
        let statement = DeleteStatement { filter, hint: None, multi: true, interrupt: Interrupt::default() };
        self.engine.delete(&namespace(), statement).await.unwrap()
    }

    pub(crate) async fn count(&self, filter: Document) -> u64 {
        self.engine.count(&namespace(), query(filter)).await.unwrap()
    }
}

/// Documents of about `bytes` bytes, in an order that is not that of their ids.
pub(crate) fn documents(count: i32, bytes: usize) -> Vec<Document> {
    let body = "x".repeat(bytes);
    (0..count)
        .map(|place| doc! { "_id": place * 7919 % count, "n": place % 10, "body": body.as_str() })
        .collect()
}
