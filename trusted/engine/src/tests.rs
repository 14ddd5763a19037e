//! What tests of the crate stand on: engines whose server is away, so that what they answer is known here, and what they
//! would ask is an error; collections and documents out of nothing.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::apply::COUNTERS;
use crate::index::IndexPart;
use arras_keys::{Key, Unlock, create_key_file};
use arras_protocol::{Channel, ChannelError, CollectionId, OperationId, Protocol};
use arras_schemes::arx_eq::occurrences::Occurrences;
use arras_storage::Memory;
use bson::{Bson, Document};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// A server that nobody can reach.
#[derive(Debug)]
pub(crate) struct Away;

impl<P: Protocol> Channel<P> for Away {
    async fn call(&self, _: P::Request) -> Result<P::Response, ChannelError> {
        Err(ChannelError::Lost("it is away".into()))
    }
}

/// An engine whose server is away.
pub(crate) struct World {
    pub(crate) shared: Arc<Shared<Memory, Away>>,
    _folder: tempfile::TempDir,
}

/// What a server says of which nobody has made anything.
fn empty_server() -> hello::Response {
    hello::Response {
        protocol_version: 1,
        database: [7; 16],
        incarnation: 1,
        engine: "none".into(),
        newest: None,
        commits: 0,
        setbacks: 0,
        generation: 0,
    }
}

impl World {
    pub(crate) async fn new(schema: &str) -> Self {
        Self::with(Settings { schema: Schema::parse(schema, "schema").unwrap(), ..Settings::default() }).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        create_key_file(&key).unwrap();
        let keyring = Keyring::create(&folder.path().join("keyring"), Unlock::KeyFile(key), 0).unwrap();
        let settings = Settings {
            patience: Duration::ZERO,
            keep_schema_applied: false,
            spill_directory: folder.path().to_path_buf(),
            ..settings
        };
        let opened = Engine::open(Memory::new(), keyring, Arc::new(Away), &empty_server(), settings).await;
        Self { shared: opened.unwrap().shared, _folder: folder }
    }

    /// A collection, `db.c`, that has been there for long: of so many documents.
    pub(crate) fn collection(&self, indexes: Vec<LiveIndex>, documents: u64) -> Arc<Collection> {
        let collection = collection("c", indexes);
        self.shared.register(Arc::clone(&collection));
        self.shared.intents.counted(collection.id, documents);
        collection
    }
}

impl World {
    /// The record of a value of an equality index is this from now on.
    pub(crate) fn record(&self, part: &IndexPart, value: &[u8], occurrences: &Occurrences) {
        let local = &self.shared.local;
        let half = Arc::clone(&part.half).equality().expect("an equality index");
        let name = half.on_record(&[value.to_vec()], &**local).unwrap().remove(0).name;
        local
            .apply(&[local.set_as_named(COUNTERS, name, &occurrences.encode())], Durability::Relaxed)
            .unwrap();
    }
}

/// Of a value that has so many entries.
pub(crate) fn occurrences(entries: u64) -> Occurrences {
    let mut occurrences = Occurrences::new(&mut rand::rng());
    (0..entries).for_each(|_| assert!(occurrences.take().is_some()));
    occurrences
}

pub(crate) fn ns(collection: &str) -> Namespace {
    Namespace { database: "db".into(), collection: collection.into() }
}

/// A collection that no engine knows.
pub(crate) fn collection(name: &str, indexes: Vec<LiveIndex>) -> Arc<Collection> {
    let record = CollectionRecord {
        database: "db".into(),
        collection: name.into(),
        id: CollectionId([9; 8]),
        key_version: 1,
        indexes: Vec::new(),
    };
    Arc::new(Collection::new(&record, &Key::generate(), indexes))
}

/// Randomness of a test: of a fresh seed, which is printed, or of `ARRAS_TEST_SEED`.
pub(crate) fn randomly() -> StdRng {
    let chosen = std::env::var("ARRAS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = chosen.unwrap_or_else(rand::random);
    eprintln!("ARRAS_TEST_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// A value without fields or elements, of few: so that equal ones meet, of one type and of several.
pub(crate) fn scalar(rng: &mut StdRng) -> Bson {
    match rng.random_range(0..9) {
        0 | 1 => Bson::Int32(rng.random_range(-2..3)),
        2 => Bson::Int64(rng.random_range(-2..3)),
        3 => Bson::Double(f64::from(rng.random_range(-4..5)) / 2.0),
        4 | 5 => Bson::String(["", "a", "ab", "b"].choose(rng).unwrap().to_string()),
        6 => Bson::String(format!("a text longer than a key holds: {}", rng.random_range(0..2))),
        7 => Bson::Boolean(rng.random()),
        _ => Bson::DateTime(bson::DateTime::from_millis(rng.random_range(-1..2))),
    }
}

/// A value: arrays and documents, too.
pub(crate) fn value(rng: &mut StdRng, depth: u32) -> Bson {
    match rng.random_range(0..10) {
        0..2 if depth > 0 => {
            Bson::Array((0..rng.random_range(0..4)).map(|_| value(rng, depth - 1)).collect())
        }
        2..5 if depth > 0 => Bson::Document(document(rng, depth - 1)),
        5 => Bson::Null,
        _ => scalar(rng),
    }
}

/// A document with some of the fields `a`, `b` and `c`.
pub(crate) fn document(rng: &mut StdRng, depth: u32) -> Document {
    let mut made = Document::new();
    for field in ["a", "b", "c"] {
        if rng.random_range(0..4) > 0 {
            made.insert(field, value(rng, depth));
        }
    }
    made
}

#[test]
fn a_start_is_later_than_every_start_before_and_than_every_lease_that_can_be() {
    let mut rng = randomly();
    for _ in 0..1_000 {
        let last = rng.random_range(0..1_000);
        let generation = rng.random_range(0..1_000);
        let epoch = later_epoch(last, generation);
        assert!(epoch > last && epoch >= generation);
        assert!(epoch == last + 1 || epoch == generation, "none is passed over without a reason");
    }
    // A server that lies does not use the epochs up.
    assert_eq!(later_epoch(5, u64::MAX), 6);
    assert_eq!(later_epoch(5, 5 + GENERATION_LEAD_MAX - 1), 5 + GENERATION_LEAD_MAX - 1);
    assert_eq!(later_epoch(5, 5 + GENERATION_LEAD_MAX), 6);
    assert_eq!(later_epoch(u64::MAX, 0), u64::MAX);
}

#[test]
fn a_start_is_recorded_and_a_restore_passes_over_many() {
    let local = LocalStore::open(Memory::new(), &Key::generate()).unwrap();
    let settings = Settings { history: Arc::new(History::new(false)), ..Settings::default() };
    let begin = |server| {
        let begun = begin(&local, &settings, &server).unwrap();
        (begun.epoch, begun.starts, begun.restored)
    };
    assert_eq!(begin(empty_server()), (1, 1, None));
    assert_eq!(begin(hello::Response { generation: 7, ..empty_server() }), (7, 2, None));
    restore::declare(&local, Restored::BothSides).unwrap();
    let (epoch, starts, restored) = begin(empty_server());
    assert_eq!(restored, Some(Restored::BothSides));
    assert!(epoch > 1 << 32 && starts > 1 << 12, "{epoch} {starts}");
    // Nobody has dealt with it: it is not forgotten, and not believed to be dealt with.
    assert_eq!(begin(empty_server()).2, Some(Restored::BothSides));
    local.apply(&[restore::dealt_with(&local)], Durability::Durable).unwrap();
    assert_eq!(begin(empty_server()).2, None);
    let newer = hello::Response { newest: Some(OperationId { epoch: 1, sequence: 1 }), ..empty_server() };
    assert!(matches!(super::begin(&local, &settings, &newer), Err(OpenError::History(Halt::ProxyBehind))));
}
