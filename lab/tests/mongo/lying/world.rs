//! An engine over a lying channel, behind the MongoDB front end.

use super::Outcome;
use super::channel::Lying;
use crate::client::{Client, Running};
use arras_engine::{Engine, Settings};
use arras_keys::{Keyring, Unlock, create_key_file};
use arras_lab::channel::Direct;
use arras_mongo::Options;
use arras_protocol::Channel;
use arras_protocol::hello::{self, Hello};
use arras_protocol::limits::PROTOCOL_VERSION;
use arras_server::Backend;
use arras_storage::{Memory, Storage, StorageError};
use bson::{Document, doc};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A proxy's own store that outlives the proxy.
#[derive(Clone)]
pub(super) struct Kept(Arc<Memory>);

impl Storage for Kept {
    type Reader<'a> = <Memory as Storage>::Reader<'a>;
    type Writer<'a> = <Memory as Storage>::Writer<'a>;

    fn read(&self) -> Result<Self::Reader<'_>, StorageError> {
        self.0.read()
    }

    fn write(&self) -> Result<Self::Writer<'_>, StorageError> {
        self.0.write()
    }

    fn engine(&self) -> String {
        self.0.engine()
    }
}

pub(super) struct World {
    directory: TempDir,
    pub(super) local: Kept,
    settings: Settings,
    pub(super) channel: Arc<Lying>,
    running: Running,
}

/// `insert` of documents of these numbers.
pub(super) fn insert(numbers: impl IntoIterator<Item = i32>) -> Document {
    let document = |number| doc! { "_id": number, "a": number % 5, "u": number, "n": number, "m": 0 };
    doc! { "insert": "c", "documents": numbers.into_iter().map(document).collect::<Vec<_>>() }
}

impl World {
    /// A collection of so many documents, with an index of each kind.
    pub(super) async fn new(documents: i32) -> Self {
        Self::with(documents, Settings { patience: Duration::ZERO, ..Settings::default() }).await
    }

    /// The same under other settings.
    pub(super) async fn with(documents: i32, settings: Settings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("key");
        create_key_file(&key).unwrap();
        Keyring::create(&directory.path().join("keyring"), Unlock::KeyFile(key), 1).unwrap();
        let backend = Backend::open(Memory::new(), [7; 16]).unwrap();
        let channel = Arc::new(Lying::new(Direct::new(Arc::new(backend))));
        let local = Kept(Arc::new(Memory::new()));
        let running = start(&directory, &local, &channel, &settings).await;
        let world = Self { directory, local, settings, channel, running };
        let mut client = world.connect().await;
        let unique = doc! { "key": { "u": 1 }, "name": "u", "unique": true };
        let indexes = [doc! { "key": { "a": 1 }, "name": "a" }, unique];
        client.ok(doc! { "createIndexes": "c", "indexes": indexes.to_vec() }).await;
        if documents > 0 {
            client.ok(insert(0..documents)).await;
        }
        world
    }

    /// Starts another proxy over the same stores.
    pub(super) async fn restart(self) -> Self {
        let Self { directory, local, settings, channel, running } = self;
        running.stop().await.unwrap();
        let running = start(&directory, &local, &channel, &settings).await;
        Self { directory, local, settings, channel, running }
    }

    pub(super) async fn connect(&self) -> Client {
        self.running.connect().await
    }

    /// What a command comes to.
    pub(super) async fn outcome(&self, client: &mut Client, command: &Document) -> Outcome {
        let reply = client.run(command.clone()).await;
        let failed = reply.get_f64("ok").unwrap() != 1.0 || reply.contains_key("writeErrors");
        if failed { Outcome::Error(reply.to_string()) } else { Outcome::Answer(reply) }
    }

    /// The documents, by an honest scan.
    pub(super) async fn all(&self, client: &mut Client) -> Vec<Document> {
        let reply = client.ok(doc! { "find": "c", "batchSize": 100_000 }).await;
        let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        batch.iter().map(|document| document.as_document().unwrap().clone()).collect()
    }

    /// The same, once the proxy asks again after it waited for its server in vain.
    pub(super) async fn all_in_the_end(&self, client: &mut Client) -> Vec<Document> {
        while let Outcome::Error(_) = self.outcome(client, &doc! { "find": "c", "limit": 1 }).await {}
        self.all(client).await
    }

    /// The sum of a field over all documents, by an honest scan.
    pub(super) async fn sum(&self, client: &mut Client, field: &str) -> i32 {
        self.all(client).await.iter().map(|document| document.get_i32(field).unwrap()).sum()
    }
}

async fn start(directory: &TempDir, local: &Kept, channel: &Arc<Lying>, settings: &Settings) -> Running {
    let key = directory.path().join("key");
    let keyring = Keyring::open(&directory.path().join("keyring"), Unlock::KeyFile(key)).unwrap();
    let request = hello::Request { protocol_version: PROTOCOL_VERSION, purpose: hello::Purpose::Observe };
    let server = Channel::<Hello>::call(&**channel, request).await.unwrap();
    let engine =
        Engine::open(local.clone(), keyring, Arc::clone(channel), &server, settings.clone()).await.unwrap();
    Running::start(engine, Options::default()).await
}
