//! A server that is away: an index of the schema that cannot be made then is made when it is back, and what a write did that was
//! in doubt is done before a cursor reads on.

use crate::world::{namespace, run};
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_engine::{Engine, Settings};
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_planner::schema::Schema;
use arras_protocol::{Channel, ChannelError, Protocol, write};
use arras_server::Backend;
use arras_service::Fault;
use arras_service::interrupt::Interrupt;
use arras_service::store::{Cursor, DeleteStatement, IndexDefinition, InsertStatement, Query, Store};
use arras_storage::{Embedded, Memory};
use bson::{Document, doc};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Loses writes, so many.
struct Losing {
    server: Direct<Memory>,
    losses: AtomicUsize,
}

impl<P: Protocol> Channel<P> for Losing {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        let is_write = (&request as &dyn Any).downcast_ref::<write::Request>().is_some();
        let less = |left: usize| left.checked_sub(1);
        if is_write && self.losses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
            return Err(ChannelError::Lost("the server is away".into()));
        }
        Channel::<P>::call(&self.server, request).await
    }
}

async fn open(
    directory: &tempfile::TempDir,
    channel: &Arc<Losing>,
    schema: &str,
) -> Engine<Embedded, Losing> {
    let local = loop {
        match Embedded::open(&directory.path().join("local")) {
            Ok(local) => break local,
            // What the engine before had begun in the background lets go of the store.
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let schema = Schema::parse(schema, "schema.toml").expect("a schema");
    let settings = Settings { schema, patience: Duration::ZERO, ..Settings::default() };
    one_process::open(directory.path(), local, Arc::clone(channel), settings).await.expect("an engine")
}

#[test]
fn a_unique_index_that_could_not_be_made_is_made_without_a_restart() {
    run(async {
        let server =
            Direct::new(Arc::new(Backend::open(Memory::new(), [1; 16]).expect("memory does not fail")));
        let channel = Arc::new(Losing { server, losses: AtomicUsize::new(0) });
        let directory = tempfile::tempdir().expect("a folder");
        let engine = open(&directory, &channel, "").await;
        let documents = vec![doc! { "_id": 1, "u": 1 }, doc! { "_id": 2, "u": 2 }];
        engine
            .insert(&namespace(), InsertStatement::of(documents, true).expect("documents"))
            .await
            .expect("documents");
        drop(engine);
        channel.losses.store(2, Ordering::SeqCst);
        let unique = "[collections.\"lab.things\".fields]\nu = { unique = true }\n";
        let engine = open(&directory, &channel, unique).await;
        // Nobody asks for it.
        while !engine.lacking().is_empty() || !engine.index_builds().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(channel.losses.load(Ordering::SeqCst), 0, "it failed first");
        let twice = engine
            .insert(
                &namespace(),
                InsertStatement::of(vec![doc! { "_id": 3, "u": 1 }], true).expect("documents"),
            )
            .await
            .expect("an answer");
        assert_eq!(
            twice.failures.first().map(|failure| arras_mongo::error::code_of(failure.error.fault).0),
            Some(11000)
        );
    });
}

#[test]
fn a_cursor_reads_on_behind_the_write_that_was_in_doubt() {
    run(async {
        for (sort, limit) in [(doc! { "v": 1 }, Some(500)), (doc! { "v": -1 }, Some(1000))] {
            let server =
                Direct::new(Arc::new(Backend::open(Memory::new(), [1; 16]).expect("memory does not fail")));
            let channel = Arc::new(Losing { server, losses: AtomicUsize::new(0) });
            let directory = tempfile::tempdir().expect("a folder");
            let engine = open(&directory, &channel, "").await;
            let documents = (0..1000).map(|id| doc! { "_id": id, "v": id }).collect();
            let documents = InsertStatement::of(documents, true).expect("documents");
            engine.insert(&namespace(), documents).await.expect("documents");
            let key = doc! { "v": 1 };
            let index = IndexDefinition {
                name: "v".into(),
                key,
                unique: false,
                sparse: false,
                options: Document::new(),
            };
            engine.create_indexes(&namespace(), vec![index], Interrupt::default()).await.expect("an index");
            let query = |filter: Document| Query {
                filter: Filter::parse(&filter).expect("a filter"),
                sort: Sort::parse(&sort).expect("a sort"),
                skip: 0,
                limit,
                hint: None,
                allow_disk_use: true,
            };
            let mut cursor = engine.find(&namespace(), query(doc! {})).await.expect("a cursor");
            let mut came = cursor.next_batch(10, 1 << 20).await.expect("a batch");
            assert_eq!(came.len(), 10);
            let seen: Vec<i32> = came.iter().map(|one| one.get_i32("_id").expect("an id")).collect();
            let gone: Vec<i32> = (0..1000).filter(|id| !seen.contains(id)).step_by(3).collect();
            channel.losses.store(1, Ordering::SeqCst);
            let filter = Filter::parse(&doc! { "_id": { "$in": &gone } }).expect("a filter");
            let delete = DeleteStatement { filter, hint: None, multi: true, interrupt: Interrupt::default() };
            let failure = engine.delete(&namespace(), delete).await.expect_err("the server is away");
            assert_eq!(failure.fault, Fault::InDoubt);
            loop {
                let batch = cursor.next_batch(100, 1 << 20).await;
                // Just after the server was waited for in vain nobody waits for it.
                if batch.as_ref().is_err_and(|error| error.fault == Fault::Unreachable) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
                let batch = batch.expect("a batch");
                if batch.is_empty() {
                    break;
                }
                came.extend(batch);
            }
            let shown = came.iter().filter(|one| gone.contains(&one.get_i32("_id").expect("an id"))).count();
            assert_eq!(shown, 0, "sorted by {sort}");
        }
    });
}
