//! An index of the schema that cannot be made while the server is away is made when it is back.

use crate::world::{namespace, run};
use arras_engine::{Engine, Settings};
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_planner::schema::Schema;
use arras_protocol::{Channel, ChannelError, Protocol, write};
use arras_server::Backend;
use arras_service::store::InsertStatement;
use arras_service::store::Store;
use arras_storage::{Embedded, Memory};
use bson::doc;
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
