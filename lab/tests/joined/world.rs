//! An engine over a server's half in this process, behind a gate that holds writes back.

use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_engine::{Engine, Settings};
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_protocol::documents::{self, Documents};
use arras_protocol::write::{Request, Write};
use arras_protocol::{Channel, ChannelError, Refusal, hello};
use arras_server::Backend;
use arras_service::ServiceError;
use arras_service::interrupt::Interrupt;
use arras_service::store::DeleteStatement;
use arras_service::store::{
    Cursor, IndexDefinition, InsertStatement, Inserted, Namespace, Query, Store, UpdateStatement, Updated,
};
use arras_storage::{Accounted, Memory, Tally};
use bson::{Document, doc};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

/// MongoDB's code for a server that cannot be reached.
const HOST_UNREACHABLE: i32 = 6;

type Counted = Accounted<Memory>;
type Refuse = fn(&Request) -> Option<Refusal>;

/// Carries everything at once but writes, which wait until the gate is open.
pub(crate) struct Gated {
    server: Direct<Counted>,
    is_open: watch::Sender<bool>,
    writes: Mutex<Vec<usize>>,
    refuse: Mutex<Option<Refuse>>,
    /// How many replies to writes still come.
    replies: AtomicUsize,
    /// How often it was asked which rows are there.
    asked: AtomicUsize,
    /// Reads wait for a permit each, and bring one document.
    sparse: Mutex<Option<Arc<Semaphore>>>,
    /// Such reads so far.
    reads: AtomicUsize,
}

impl Gated {
    pub(crate) fn open_gate(&self) {
        self.is_open.send_replace(true);
    }

    /// The server applies what it is sent, but only so many further replies come.
    pub(crate) fn lose_all_replies_but(&self, number: usize) {
        self.replies.store(number, Ordering::SeqCst);
    }

    /// From now on a read waits for a permit, and brings one document.
    pub(crate) fn read_sparsely(&self) -> Arc<Semaphore> {
        let permits = Arc::new(Semaphore::new(0));
        *self.sparse.lock().expect("no panic") = Some(Arc::clone(&permits));
        permits
    }

    /// Reads since they wait for permits.
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    pub(crate) fn keep_replies(&self) {
        self.replies.store(usize::MAX, Ordering::SeqCst);
    }

    /// The number of steps of each durable write so far.
    pub(crate) fn writes(&self) -> Vec<usize> {
        self.writes.lock().expect("no panic").clone()
    }

    /// How often it was asked which rows are there.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Refuses some writes in the server's place.
    pub(crate) fn refuse(&self, refuse: Refuse) {
        *self.refuse.lock().expect("no panic") = Some(refuse);
    }
}

impl Channel<Write> for Gated {
    async fn call(
        &self,
        request: Request,
    ) -> Result<<Write as arras_protocol::Protocol>::Response, ChannelError> {
        if request.operation.is_some() {
            self.writes.lock().expect("no panic").push(request.steps.len());
        }
        let _ = self.is_open.subscribe().wait_for(|is_open| *is_open).await;
        let refuse = *self.refuse.lock().expect("no panic");
        if let Some(refusal) = refuse.and_then(|refuse| refuse(&request)) {
            return Err(ChannelError::Refused(refusal));
        }
        let reply = Channel::<Write>::call(&self.server, request).await;
        let comes = self.replies.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if comes.is_err() {
            return Err(ChannelError::Lost("a test".into()));
        }
        reply
    }
}

impl Channel<Documents> for Gated {
    async fn call(
        &self,
        request: <Documents as arras_protocol::Protocol>::Request,
    ) -> Result<<Documents as arras_protocol::Protocol>::Response, ChannelError> {
        if matches!(request, documents::Request::Exist { .. }) {
            self.asked.fetch_add(1, Ordering::SeqCst);
        }
        let (sparse, mut request) = (self.sparse.lock().expect("no panic").clone(), request);
        if let (Some(sparse), documents::Request::Read { rows, .. }) = (sparse, &mut request) {
            self.reads.fetch_add(1, Ordering::SeqCst);
            sparse.acquire().await.expect("it is not closed").forget();
            rows.truncate(1);
        }
        Channel::<Documents>::call(&self.server, request).await
    }
}

macro_rules! carried {
    ($($protocol:ty),*) => {$(
        impl Channel<$protocol> for Gated {
            async fn call(
                &self,
                request: <$protocol as arras_protocol::Protocol>::Request,
            ) -> Result<<$protocol as arras_protocol::Protocol>::Response, ChannelError> {
                Channel::<$protocol>::call(&self.server, request).await
            }
        }
    )*};
}

carried!(
    hello::Hello,
    arras_protocol::unique::Unique,
    arras_protocol::arx_eq::ArxEq,
    arras_protocol::arx_eq::Entries,
    arras_protocol::arx_range::ArxRange,
    arras_protocol::bplus::BPlus,
    arras_protocol::pope::Pope,
    arras_protocol::mope::index::Mope
);

pub(crate) fn namespace() -> Namespace {
    Namespace { database: "lab".into(), collection: "things".into() }
}

pub(crate) struct World {
    pub(crate) channel: Arc<Gated>,
    server: Tally,
    local: Tally,
    pub(crate) engine: Engine<Counted, Gated>,
}

fn counted() -> (Counted, Tally) {
    let store = Accounted::new(Memory::new());
    let tally = store.tally();
    (store, tally)
}

impl World {
    pub(crate) async fn new() -> Self {
        let (server, server_tally) = counted();
        let (local, local_tally) = counted();
        let server = Direct::new(Arc::new(Backend::open(server, [1; 16]).expect("memory does not fail")));
        let (is_open, _) = watch::channel(true);
        let (writes, refuse, sparse, reads) = Default::default();
        let (replies, asked) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        let channel = Arc::new(Gated { server, is_open, writes, refuse, replies, asked, sparse, reads });
        let directory = tempfile::tempdir().expect("a folder");
        // What is not answered at once is in doubt.
        let settings = Settings { patience: Duration::ZERO, ..Settings::default() };
        let engine = one_process::open(directory.path(), local, Arc::clone(&channel), settings).await;
        let engine = engine.expect("both halves are new");
        Self { channel, server: server_tally, local: local_tally, engine }
    }

    /// Begins an operation and lets it come as far as it can: one thread runs everything.
    pub(crate) async fn begin<T: Send + 'static>(
        &self,
        operation: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let begun = tokio::spawn(operation);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        begun
    }

    /// Closes the gate and begins an insert that waits there, holding the collection's lock.
    pub(crate) async fn hold_up(&self, document: Document) -> JoinHandle<Result<Inserted, ServiceError>> {
        self.channel.is_open.send_replace(false);
        let before = self.channel.writes().len();
        let begun = self.begin_insert(document).await;
        while self.channel.writes().len() == before {
            // Its record is written on another thread.
            tokio::task::yield_now().await;
        }
        begun
    }

    pub(crate) async fn begin_insert(
        &self,
        document: Document,
    ) -> JoinHandle<Result<Inserted, ServiceError>> {
        let engine = self.engine.clone();
        self.begin(async move {
            engine.insert(&namespace(), InsertStatement::of(vec![document], true).expect("documents")).await
        })
        .await
    }

    pub(crate) async fn begin_update(
        &self,
        statement: UpdateStatement,
    ) -> JoinHandle<Result<Updated, ServiceError>> {
        let engine = self.engine.clone();
        self.begin(async move { engine.update(&namespace(), statement).await }).await
    }

    pub(crate) async fn begin_delete(&self, filter: Filter) -> JoinHandle<Result<u64, ServiceError>> {
        let engine = self.engine.clone();
        let statement = DeleteStatement { filter, hint: None, multi: false, interrupt: Interrupt::default() };
        self.begin(async move { engine.delete(&namespace(), statement).await }).await
    }

    pub(crate) async fn begin_count(&self, filter: Filter) -> JoinHandle<Result<u64, ServiceError>> {
        let engine = self.engine.clone();
        let query =
            Query { filter, sort: Sort::default(), skip: 0, limit: None, hint: None, allow_disk_use: true };
        self.begin(async move { engine.count(&namespace(), query).await }).await
    }

    pub(crate) async fn insert(&self, document: Document) {
        let inserted = self
            .engine
            .insert(&namespace(), InsertStatement::of(vec![document], true).expect("documents"))
            .await
            .expect("an insert");
        assert_eq!(inserted.count, 1);
    }

    pub(crate) async fn create_index(&self, key: Document, unique: bool) {
        let name = key.keys().cloned().collect::<Vec<_>>().join("_");
        let request = IndexDefinition { name, key, unique, sparse: false, options: Document::new() };
        self.engine
            .create_indexes(&namespace(), vec![request], Interrupt::default())
            .await
            .expect("an index");
    }

    /// Durable commits so far: the server's, the proxy's.
    pub(crate) fn commits(&self) -> (u64, u64) {
        (self.server.counts().durable_commits, self.local.counts().durable_commits)
    }

    /// Every document.
    pub(crate) async fn documents(&self) -> Vec<Document> {
        let filter = Filter::parse(&doc! {}).expect("a filter");
        let query =
            Query { filter, sort: Sort::default(), skip: 0, limit: None, hint: None, allow_disk_use: true };
        // A server that was waited for in vain is left alone for a moment.
        let mut cursor = loop {
            match self.engine.find(&namespace(), query.clone()).await {
                Err(error) if arras_mongo::error::code_of(error.fault).0 == HOST_UNREACHABLE => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                found => break found.expect("a cursor"),
            }
        };
        cursor.next_batch(usize::MAX, usize::MAX).await.expect("documents")
    }

    /// Their `_id`s, in order.
    pub(crate) async fn ids(&self) -> Vec<i32> {
        let mut ids: Vec<i32> =
            self.documents().await.iter().map(|d| d.get_i32("_id").expect("an id")).collect();
        ids.sort_unstable();
        ids
    }
}
