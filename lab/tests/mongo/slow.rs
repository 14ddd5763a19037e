//! A store that takes its time: deadlines, and commands under way when the server stops.

use crate::client::{Running, insert_numbers};
use arras_lab::plain_store::{PlainCursor, PlainStore};
use arras_mongo::Options;
use arras_service::ServiceError;
use arras_service::explanation::Explanation;
use arras_service::interrupt::Interrupt;
use arras_service::store::{
    Aggregate, CollectionSize, Cursor, DeleteStatement, FoundAndModified, IndexBuild, IndexDefinition,
    InsertStatement, Inserted, Modification, Namespace, Query, Store, UpdateStatement, Updated,
};
use bson::{Document, doc};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

type Answer<T> = Result<T, ServiceError>;

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
    async fn create_indexes(
        &self,
        ns: &Namespace,
        indexes: Vec<IndexDefinition>,
        interrupt: Interrupt,
    ) -> Answer<(usize, usize)> {
        self.gate.pass().await;
        self.inner.create_indexes(ns, indexes, interrupt).await
    }
    fn index_builds(&self) -> Vec<IndexBuild> {
        let ns = |collection: &str| Namespace { database: "d".into(), collection: collection.into() };
        vec![
            IndexBuild { ns: ns("other"), done: 1, total: 2 },
            IndexBuild { ns: ns("c"), done: 30, total: 700 },
        ]
    }
    async fn indexes(&self, ns: &Namespace) -> Answer<Vec<IndexDefinition>> {
        self.inner.indexes(ns).await
    }
    async fn drop_index(&self, ns: &Namespace, name: &str) -> Answer<()> {
        self.inner.drop_index(ns, name).await
    }
    async fn insert(&self, ns: &Namespace, statement: InsertStatement) -> Answer<Inserted> {
        self.gate.pass().await;
        self.inner.insert(ns, statement).await
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
        query: &Query,
        wanted: &[Aggregate],
    ) -> Answer<Option<Document>> {
        self.inner.aggregate(ns, query, wanted).await
    }
    async fn update(&self, ns: &Namespace, statement: UpdateStatement) -> Answer<Updated> {
        self.inner.update(ns, statement).await
    }
    async fn delete(&self, ns: &Namespace, statement: DeleteStatement) -> Answer<u64> {
        self.inner.delete(ns, statement).await
    }
    async fn find_and_modify(
        &self,
        ns: &Namespace,
        query: Query,
        how: Modification,
        interrupt: Interrupt,
    ) -> Answer<FoundAndModified> {
        self.inner.find_and_modify(ns, query, how, interrupt).await
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

/// The numbers of the operations of a command under way.
async fn under_way(client: &mut crate::client::Client, command: &str) -> Vec<i32> {
    let filter = format!("command.{command}");
    let reply = client.ok(doc! { "currentOp": 1, filter: { "$exists": true }, "$db": "admin" }).await;
    let operations = reply.get_array("inprog").unwrap();
    operations.iter().map(|found| found.as_document().unwrap().get_i32("opid").unwrap()).collect()
}

#[tokio::test]
async fn an_operation_is_listed_and_killed() {
    let (server, open, mut waits) = slow_server().await;
    let mut client = server.connect().await;
    open.add_permits(1);
    client.ok(insert_numbers(3)).await;
    waits.recv().await.unwrap();
    client.send(doc! { "find": "c" }).await;
    waits.recv().await.unwrap();
    let mut other = server.connect().await;
    let listed = under_way(&mut other, "find").await;
    assert_eq!(listed.len(), 1);
    other.ok(doc! { "killOp": 1, "op": listed[0], "$db": "admin" }).await;
    assert_eq!(client.receive().await.unwrap().1.get_i32("code").unwrap(), 11601);
    assert!(under_way(&mut other, "find").await.is_empty());
    client.ok(doc! { "ping": 1 }).await;
}

#[tokio::test]
async fn an_index_build_is_listed_with_how_far_it_is() {
    let (server, open, mut waits) = slow_server().await;
    let mut client = server.connect().await;
    let index = doc! { "key": { "n": 1 }, "name": "n_1" };
    client.send(doc! { "createIndexes": "c", "indexes": [index] }).await;
    waits.recv().await.unwrap();
    let mut other = server.connect().await;
    let listed = other.ok(doc! { "currentOp": 1, "$db": "admin" }).await;
    let operations: Vec<&Document> =
        listed.get_array("inprog").unwrap().iter().filter_map(|found| found.as_document()).collect();
    let build = operations.iter().find(|found| found.get_str("ns").unwrap() == "d.c").unwrap();
    assert_eq!(build.get_str("msg").unwrap(), "Index Build: 30 of 700 documents");
    assert_eq!(build.get_document("progress").unwrap(), &doc! { "done": 30_i64, "total": 700_i64 });
    // Who only looks builds nothing.
    assert!(
        operations
            .iter()
            .all(|found| found.contains_key("progress") == (found.get_str("ns").unwrap() == "d.c"))
    );
    open.add_permits(1);
    assert!(client.receive().await.is_some());
}

#[tokio::test]
async fn a_read_ends_with_its_client() {
    let (server, open, mut waits) = slow_server().await;
    let mut client = server.connect().await;
    open.add_permits(1);
    client.ok(insert_numbers(3)).await;
    waits.recv().await.unwrap();
    client.send(doc! { "find": "c" }).await;
    waits.recv().await.unwrap();
    let mut other = server.connect().await;
    assert_eq!(under_way(&mut other, "find").await.len(), 1);
    drop(client);
    // Ends only if the read does: nothing opens the gate.
    while !under_way(&mut other, "find").await.is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_read_ends_when_the_server_stops() {
    let (server, open, mut waits) = slow_server().await;
    let mut client = server.connect().await;
    open.add_permits(1);
    client.ok(insert_numbers(3)).await;
    waits.recv().await.unwrap();
    client.send(doc! { "find": "c" }).await;
    waits.recv().await.unwrap();
    let ended = server.stop();
    assert_eq!(client.receive().await.unwrap().1.get_i32("code").unwrap(), 11600);
    ended.await.unwrap();
}

#[tokio::test]
async fn requests_sent_ahead_are_answered_in_turn() {
    let (server, open, mut waits) = slow_server().await;
    let mut client = server.connect().await;
    let first = client.send(insert_numbers(3)).await;
    waits.recv().await.unwrap();
    let second = client.send(doc! { "ping": 1 }).await;
    let third = client.send(doc! { "count": "c" }).await;
    open.add_permits(1);
    assert_eq!(client.receive().await.unwrap().0, first);
    assert_eq!(client.receive().await.unwrap().0, second);
    let (answered, reply) = client.receive().await.unwrap();
    assert_eq!((answered, reply.get_i32("n").unwrap()), (third, 3));
}
