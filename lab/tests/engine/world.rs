//! An engine over a channel that carries requests of limited size only.

use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_engine::{Engine, Settings};
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_protocol::{Channel, ChannelError, Protocol, codec};
use arras_server::Backend;
use arras_service::ServiceError;
use arras_service::interrupt::Interrupt;
use arras_service::store::{Cursor, IndexDefinition, InsertStatement, Namespace, Query, Store};
use arras_storage::Memory;
use bson::{Document, doc};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A channel that refuses what is larger than a frame may be, as the real one does, with a smaller frame.
pub(crate) struct Limited {
    server: Direct<Memory>,
    frame_bytes: usize,
    pub(crate) requests: AtomicUsize,
    /// Bytes of replies.
    pub(crate) received: AtomicUsize,
    /// The next request waits for this.
    pub(crate) stop: Mutex<Option<tokio::sync::oneshot::Receiver<()>>>,
    /// Called before each request.
    pub(crate) watch: Mutex<Option<Watch>>,
}

pub(crate) type Watch = Box<dyn FnMut() + Send>;

impl<P: Protocol> Channel<P> for Limited {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        let (request_bytes, limit_bytes) = (codec::encoded_bytes(&request), self.frame_bytes);
        if request_bytes > limit_bytes {
            return Err(ChannelError::TooLarge { request_bytes, limit_bytes });
        }
        let stop = self.stop.lock().expect("no holder panics").take();
        if let Some(stop) = stop {
            stop.await.expect("it goes on");
        }
        self.requests.fetch_add(1, Ordering::SeqCst);
        if let Some(watch) = &mut *self.watch.lock().expect("no watch panics") {
            watch();
        }
        let reply = Channel::<P>::call(&self.server, request).await?;
        self.received.fetch_add(codec::encoded_bytes(&reply), Ordering::SeqCst);
        Ok(reply)
    }
}

pub(crate) struct World {
    pub(crate) server: Arc<Backend<Memory>>,
    pub(crate) channel: Arc<Limited>,
    pub(crate) engine: Engine<Memory, Limited>,
    _directory: tempfile::TempDir,
}

impl World {
    /// Requests are cut at `request_bytes` and refused above `frame_bytes`.
    pub(crate) async fn new(request_bytes: usize, frame_bytes: usize) -> Self {
        let server = Arc::new(Backend::open(Memory::new(), [1; 16]).expect("memory does not fail"));
        let direct = Direct::new(Arc::clone(&server));
        let channel = Arc::new(Limited {
            server: direct,
            frame_bytes,
            requests: AtomicUsize::new(0),
            received: AtomicUsize::new(0),
            stop: Mutex::default(),
            watch: Mutex::default(),
        });
        let directory = tempfile::tempdir().expect("a folder");
        let settings = Settings { request_bytes, ..Settings::default() };
        let engine = one_process::open(directory.path(), Memory::new(), Arc::clone(&channel), settings);
        let engine = engine.await.expect("both halves are new");
        Self { server, channel, engine, _directory: directory }
    }

    pub(crate) async fn insert(&self, documents: Vec<Document>) -> Result<u64, ServiceError> {
        let inserted = self
            .engine
            .insert(&namespace(), InsertStatement::of(documents, true).expect("documents"))
            .await?;
        match inserted.failures.into_iter().next() {
            Some(failure) => Err(failure.error),
            None => Ok(inserted.count),
        }
    }

    pub(crate) async fn create_index(&self, key: Document) -> Result<(usize, usize), ServiceError> {
        let name = key.keys().cloned().collect::<Vec<_>>().join("_");
        let request = IndexDefinition { name, key, unique: false, sparse: false, options: Document::new() };
        self.engine.create_indexes(&namespace(), vec![request], Interrupt::default()).await
    }

    /// The `_id`s of what matches, in order.
    pub(crate) async fn ids(&self, filter: Document) -> Vec<i32> {
        let query = Query {
            filter: Filter::parse(&filter).expect("a filter"),
            sort: Sort::default(),
            skip: 0,
            limit: None,
            hint: None,
            allow_disk_use: true,
        };
        let mut cursor = self.engine.find(&namespace(), query).await.expect("a cursor");
        let documents = cursor.next_batch(usize::MAX, usize::MAX).await.expect("documents");
        let mut ids: Vec<i32> = documents.iter().map(|d| d.get_i32("_id").expect("an id")).collect();
        ids.sort_unstable();
        ids
    }
}

pub(crate) fn namespace() -> Namespace {
    Namespace { database: "lab".into(), collection: "things".into() }
}

/// A document with an array of `length` numbers, none of which another document has.
pub(crate) fn with_array(id: i32, length: i32) -> Document {
    let values: Vec<i32> = (0..length).map(|number| number.wrapping_mul(7919) % 100_000 * 100 + id).collect();
    doc! { "_id": id, "values": values }
}

pub(crate) fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}
