//! `explain` over the engine: what it says was examined is what came from the server.

use crate::client::{Client, Running};
use arras_engine::Settings;
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_lab::plain_store::PlainStore;
use arras_mongo::Options;
use arras_protocol::documents::{Documents, Response};
use arras_protocol::{Channel, ChannelError, Protocol};
use arras_server::Backend;
use arras_storage::Memory;
use bson::{Document, doc};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// Passes everything on, and counts documents in replies.
struct Counting {
    server: Direct<Memory>,
    documents: Arc<AtomicI32>,
}

impl<P: Protocol> Channel<P> for Counting {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        let response = Channel::<P>::call(&self.server, request).await?;
        let any: &dyn Any = &response;
        if let Some(Response::Documents { documents, .. }) =
            any.downcast_ref::<<Documents as Protocol>::Response>()
        {
            self.documents.fetch_add(documents.len() as i32, Ordering::SeqCst);
        }
        Ok(response)
    }
}

const COUNT: i32 = 300;

/// An engine with 300 documents: 3 values of `kind`, ten times each of `n`, one of `email`.
async fn filled() -> (Client, Arc<AtomicI32>, tempfile::TempDir) {
    let (directory, documents) = (tempfile::tempdir().unwrap(), Arc::new(AtomicI32::new(0)));
    let server = Direct::new(Arc::new(Backend::open(Memory::new(), [1; 16]).unwrap()));
    let channel = Arc::new(Counting { server, documents: Arc::clone(&documents) });
    let engine = one_process::open(directory.path(), Memory::new(), channel, Settings::default()).await;
    let running = Running::start(engine.unwrap(), Options::default()).await;
    let mut client = running.connect().await;
    let rows: Vec<Document> = (0..COUNT)
        .map(|id| doc! { "_id": id, "kind": id % 3, "n": id / 10, "email": format!("{id}@x") })
        .collect();
    client.ok(doc! { "insert": "c", "documents": rows }).await;
    let index = |name: &str, unique: bool| doc! { "key": { name: 1 }, "name": name, "unique": unique };
    let indexes = [index("kind", false), index("n", false), index("email", true)];
    client.ok(doc! { "createIndexes": "c", "indexes": indexes.to_vec() }).await;
    // The server ends with the runtime of the test.
    std::mem::forget(running);
    (client, documents, directory)
}

fn number(stats: &Document, name: &str) -> i32 {
    stats.get_i32(name).unwrap_or_else(|error| panic!("{name}: {error}: {stats}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_query_examined_is_what_came_from_the_server() {
    let (mut client, came, _directory) = filled().await;
    let find = |filter: Document| doc! { "find": "c", "filter": filter };
    let pipeline = |stages: Vec<Document>| doc! { "aggregate": "c", "pipeline": stages, "cursor": {} };
    let group = doc! { "$group": { "_id": "$kind", "n": { "$sum": 1 } } };
    // The command; what it returns; entries and documents examined, where the data says how many those are.
    let cases = [
        (find(doc! { "kind": 1 }), 100, Some(100), Some(100)),
        (find(doc! { "n": { "$gte": 10, "$lt": 12 } }), 20, Some(20), Some(20)),
        (find(doc! { "email": "7@x", "kind": 1 }), 1, Some(1), Some(1)),
        (find(doc! { "email": "7@x", "kind": 2 }), 0, Some(1), Some(1)),
        (find(doc! { "_id": { "$in": [1, 2, 1000] } }), 2, Some(0), Some(2)),
        (find(doc! { "other": 1 }), 0, Some(0), Some(COUNT)),
        (doc! { "find": "c", "sort": { "n": -1 }, "limit": 5 }, 5, None, None),
        (doc! { "distinct": "c", "key": "n", "query": { "kind": 0 } }, 100, Some(100), Some(100)),
        (pipeline(vec![doc! { "$match": { "kind": 1 } }, group]), 1, Some(100), Some(100)),
        (pipeline(vec![doc! { "$match": { "kind": 1 } }, doc! { "$count": "n" }]), 1, Some(0), Some(0)),
    ];
    for (command, returned, entries, documents) in cases {
        let planned = client.ok(doc! { "explain": command.clone(), "verbosity": "queryPlanner" }).await;
        assert!(!planned.contains_key("executionStats"), "{planned}");
        for verbosity in ["executionStats", "allPlansExecution"] {
            came.store(0, Ordering::SeqCst);
            let reply = client.ok(doc! { "explain": command.clone(), "verbosity": verbosity }).await;
            assert_eq!(reply.get("queryPlanner"), planned.get("queryPlanner"), "{command}");
            let stats = reply.get_document("executionStats").unwrap();
            assert!(stats.get_bool("executionSuccess").unwrap() && number(stats, "executionTimeMillis") >= 0);
            assert_eq!(number(stats, "nReturned"), returned, "{command}: {stats}");
            let came = came.load(Ordering::SeqCst);
            assert_eq!(number(stats, "totalDocsExamined"), came, "{command}: {stats}");
            assert!(documents.is_none_or(|documents| documents == came), "{command}: {came}");
            let examined = number(stats, "totalKeysExamined");
            assert!(entries.is_none_or(|entries| entries == examined), "{command}: {stats}");
            let stages = stats.get_document("executionStages").unwrap();
            assert_eq!(number(stages, "docsExamined"), came);
            assert_eq!(stats.contains_key("allPlansExecution"), verbosity == "allPlansExecution");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_or_a_write_is_run_as_a_read() {
    let (mut client, came, _directory) = filled().await;
    let mut stats = async |command: Document| {
        came.store(0, Ordering::SeqCst);
        let reply = client.ok(doc! { "explain": command, "verbosity": "executionStats" }).await;
        let stats = reply.get_document("executionStats").unwrap().clone();
        assert_eq!(number(&stats, "totalDocsExamined"), came.load(Ordering::SeqCst));
        let stages = stats.get_document("executionStages").unwrap().clone();
        (stats, stages)
    };
    let (ran, stages) = stats(doc! { "count": "c", "query": { "kind": 1 } }).await;
    assert_eq!((number(&ran, "totalDocsExamined"), number(&stages, "nCounted")), (0, 100));
    let (ran, stages) = stats(doc! { "count": "c", "query": { "n": { "$lt": 5 } } }).await;
    assert_eq!((number(&ran, "totalKeysExamined"), number(&stages, "nCounted")), (50, 50));
    let (_, stages) = stats(doc! { "count": "c" }).await;
    assert!(number(&stages, "nCounted") == COUNT && !stages.contains_key("inputStage"), "{stages}");
    let delete = doc! { "delete": "c", "deletes": [{ "q": { "kind": 1 }, "limit": 0 }] };
    let (ran, stages) = stats(delete).await;
    assert_eq!((number(&ran, "nReturned"), number(&stages, "nWouldDelete")), (0, 100));
    let update = doc! { "update": "c", "updates": [{ "q": { "kind": 1 }, "u": { "$set": { "x": 1 } }, "multi": false }] };
    let (_, stages) = stats(update).await;
    assert_eq!(number(&stages, "nWouldModify"), 1);
    assert_eq!(number(&client.ok(doc! { "count": "c", "query": { "x": 1 } }).await, "n"), 0);
    assert_eq!(number(&client.ok(doc! { "count": "c" }).await, "n"), COUNT);
}

#[tokio::test]
async fn nothing_is_run_unless_it_is_asked_for() {
    let running = Running::start(PlainStore::new(), Options::default()).await;
    let mut client = running.connect().await;
    client.ok(doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }] }).await;
    let command = doc! { "find": "c", "filter": { "_id": 1 } };
    assert!(!client.ok(doc! { "explain": command.clone() }).await.contains_key("executionStats"));
    let reply = client.ok(doc! { "explain": command.clone(), "verbosity": "executionStats" }).await;
    let stats = reply.get_document("executionStats").unwrap();
    assert_eq!((number(stats, "nReturned"), number(stats, "totalDocsExamined")), (1, 1));
    assert_eq!(client.code(doc! { "explain": command, "verbosity": "everything" }).await, 2);
}

/// The estimate of a command, and all that is said of it.
async fn estimated(client: &mut Client, command: Document) -> (Document, Document) {
    let reply = client.ok(doc! { "explain": command }).await;
    let arras = reply.get_document("arras").unwrap().clone();
    (arras.get_document("estimatedCost").unwrap().clone(), arras)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_explained_is_what_runs_with_the_collections_own_numbers() {
    let (mut client, came, _directory) = filled().await;
    // Counts read no document, and are not said to.
    for query in [doc! {}, doc! { "kind": 1 }, doc! { "n": { "$lt": 5 } }] {
        let count = doc! { "count": "c", "query": query, "limit": 7 };
        let (cost, arras) = estimated(&mut client, count.clone()).await;
        came.store(0, Ordering::SeqCst);
        assert_eq!(number(&client.ok(count).await, "n"), 7);
        assert_eq!((came.load(Ordering::SeqCst), cost.get_i64("documents").unwrap()), (0, 0), "{arras}");
        assert!(!arras.get_bool("collectionScan").unwrap(), "{arras}");
    }
    // A hinted index gives its order, to a query that asks for none.
    let hinted = doc! { "find": "c", "hint": "n", "limit": 1 };
    let (_, arras) = estimated(&mut client, hinted.clone()).await;
    assert!(arras.get_str("order").unwrap().starts_with("read from the lower end"), "{arras}");
    let first = client.ok(hinted).await;
    let first = first.get_document("cursor").unwrap().get_array("firstBatch").unwrap()[0].clone();
    assert_eq!(number(first.as_document().unwrap(), "n"), 0);
    // A hint that no index has is one for sums, too.
    let group = doc! { "$group": { "_id": null, "sum": { "$sum": "$n" } } };
    let sums =
        |hint: &str| doc! { "aggregate": "c", "pipeline": [group.clone()], "cursor": {}, "hint": hint };
    for command in [sums("no_such"), doc! { "explain": sums("no_such") }] {
        assert_eq!(client.code(command).await, 2);
    }
    // Estimates are for documents as they are, a fifth of the guess.
    let (cost, _) = estimated(&mut client, doc! { "find": "c", "filter": { "kind": 1 } }).await;
    let bytes = cost.get_i64("receivedBytes").unwrap();
    assert!(cost.get_i64("documents").unwrap() == 100 && (10_000..60_000).contains(&bytes), "{cost}");
}
