//! A store that takes its time: deadlines, and commands under way when the server stops.

use crate::client::{Running, insert_numbers};
use arras_documents::filter::Filter;
use arras_lab::plain_store::{PlainCursor, PlainStore};
use arras_mongo::Options;
use arras_planner::explain::Explanation;
use arras_planner::store::{
    Aggregate, CollectionSize, Cursor, FoundAndModified, IndexRequest, Inserted, Modification, Namespace,
    Query, Store, StoreError, UpdateStatement, Updated,
};
use bson::{Document, doc};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

type Answer<T> = Result<T, StoreError>;

/// Waits in `find`, `insert` and between batches until told to go on.
struct Slow {
    inner: PlainStore,
    gate: Gate,
}

#[derive(Clone)]
struct Gate {
    /// Told each time something waits.
    waiting: mpsc::UnboundedSender<()>,
    /// One permit lets one wait end.
    open: Arc<Semaphore>,
}

impl Gate {
    async fn pass(&self) {
        self.waiting.send(()).ok();
        self.open.acquire().await.unwrap().forget();
    }
}

struct SlowCursor {
    inner: PlainCursor,
    gate: Gate,
}

impl Cursor for SlowCursor {
    async fn next_batch(&mut self, documents_max: usize, bytes_max: usize) -> Answer<Vec<Document>> {
        self.gate.pass().await;
        self.inner.next_batch(documents_max, bytes_max).await
    }
}

impl Store for Slow {
    type Cursor = SlowCursor;

    async fn databases(&self) -> Answer<Vec<String>> {
        self.inner.databases().await
    }
    async fn collections(&self, database: &str) -> Answer<Vec<String>> {
        self.inner.collections(database).await
    }
    async fn create_collection(&self, ns: &Namespace) -> Answer<()> {
        self.inner.create_collection(ns).await
    }
    async fn drop_collection(&self, ns: &Namespace) -> Answer<bool> {
        self.inner.drop_collection(ns).await
    }
    async fn size(&self, ns: &Namespace) -> Answer<CollectionSize> {
        self.inner.size(ns).await
    }
    async fn create_indexes(&self, ns: &Namespace, indexes: Vec<IndexRequest>) -> Answer<(usize, usize)> {
        self.inner.create_indexes(ns, indexes).await
    }
    async fn indexes(&self, ns: &Namespace) -> Answer<Vec<IndexRequest>> {
        self.inner.indexes(ns).await
    }
    async fn drop_index(&self, ns: &Namespace, name: &str) -> Answer<()> {
        self.inner.drop_index(ns, name).await
    }
    async fn insert(&self, ns: &Namespace, documents: Vec<Document>, ordered: bool) -> Answer<Inserted> {
        self.gate.pass().await;
        self.inner.insert(ns, documents, ordered).await
    }
    async fn find(&self, ns: &Namespace, query: Query) -> Answer<SlowCursor> {
        Ok(SlowCursor { inner: self.inner.find(ns, query).await?, gate: self.gate.clone() })
    }
    async fn count(&self, ns: &Namespace, query: Query) -> Answer<u64> {
        self.inner.count(ns, query).await
    }
    async fn aggregate(
        &self,
        ns: &Namespace,
        filter: &Filter,
        wanted: &[Aggregate],
    ) -> Answer<Option<Document>> {
        self.inner.aggregate(ns, filter, wanted).await
    }
    async fn update(&self, ns: &Namespace, statement: UpdateStatement) -> Answer<Updated> {
        self.inner.update(ns, statement).await
    }
    async fn delete(&self, ns: &Namespace, filter: Filter, multi: bool) -> Answer<u64> {
        self.inner.delete(ns, filter, multi).await
    }
    async fn find_and_modify(
        &self,
        ns: &Namespace,
        query: Query,
        how: Modification,
    ) -> Answer<FoundAndModified> {
        self.inner.find_and_modify(ns, query, how).await
    }
    async fn explain(&self, ns: &Namespace, query: Query, wanted: &[Aggregate]) -> Answer<Explanation> {
        self.inner.explain(ns, query, wanted).await
    }
}

async fn slow_server() -> (Running, Arc<Semaphore>, mpsc::UnboundedReceiver<()>) {
    let (waiting, waits) = mpsc::unbounded_channel();
    let open = Arc::new(Semaphore::new(0));
    let store = Slow { inner: PlainStore::new(), gate: Gate { waiting, open: Arc::clone(&open) } };
    (Running::start(store, Options::default()).await, open, waits)
}

#[tokio::test]
async fn a_command_under_way_is_answered_before_the_server_stops() {
    let (server, open, mut waits) = slow_server().await;
    let mut client = server.connect().await;
    let request = client.send(insert_numbers(3)).await;
    waits.recv().await.unwrap();
    let ended = server.stop();
    open.add_permits(1);
    let (answered, reply) = client.receive().await.unwrap();
    assert_eq!((answered, reply.get_i32("n").unwrap()), (request, 3));
    assert!(client.receive().await.is_none());
    ended.await.unwrap();
}

#[tokio::test]
async fn a_read_past_its_deadline_is_abandoned() {
    let (server, open, _waits) = slow_server().await;
    let mut client = server.connect().await;
    open.add_permits(1);
    client.ok(insert_numbers(3)).await;
    for command in [
        doc! { "find": "c", "maxTimeMS": 20 },
        doc! { "distinct": "c", "key": "_id", "maxTimeMS": 20 },
        doc! { "aggregate": "c", "pipeline": [{ "$group": { "_id": "$a" } }], "cursor": {}, "maxTimeMS": 20 },
    ] {
        assert_eq!(client.code(command).await, 50);
    }
    client.ok(doc! { "ping": 1 }).await;
}

#[tokio::test]
async fn a_cursor_keeps_the_deadline_of_its_find() {
    let (server, open, _waits) = slow_server().await;
    let mut client = server.connect().await;
    open.add_permits(2);
    client.ok(insert_numbers(9)).await;
    let reply = client.ok(doc! { "find": "c", "batchSize": 2, "maxTimeMS": 60_000 }).await;
    let unhurried = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    open.add_permits(1);
    client.ok(doc! { "getMore": unhurried, "collection": "c", "batchSize": 2 }).await;

    let reply = client.ok(doc! { "find": "c", "batchSize": 0, "maxTimeMS": 500 }).await;
    let hurried = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    let more = doc! { "getMore": hurried, "collection": "c" };
    assert_eq!(client.code(more.clone()).await, 50);
    assert_eq!(client.code(more).await, 43, "and is closed by it");
}

#[tokio::test]
async fn a_cursor_in_use_is_not_shared_and_may_be_killed() {
    let (server, open, mut waits) = slow_server().await;
    let mut client = server.connect().await;
    open.add_permits(1);
    client.ok(insert_numbers(9)).await;
    waits.recv().await.unwrap();
    let reply = client.ok(doc! { "find": "c", "batchSize": 0 }).await;
    let id = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    let more = doc! { "getMore": id, "collection": "c", "batchSize": 2 };
    client.send(more.clone()).await;
    waits.recv().await.unwrap();

    let mut other = server.connect().await;
    assert_eq!(other.code(more.clone()).await, 12051);
    other.ok(doc! { "killCursors": "c", "cursors": [id] }).await;
    open.add_permits(1);
    assert!(client.receive().await.is_some());
    assert_eq!(client.code(more).await, 43);
}
