//! What the schema declares, what the application asks for, and what is there.

use crate::world::{World, namespace, run};
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_engine::{Engine, Settings};
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_planner::schema::Schema;
use arras_server::Backend;
use arras_service::ServiceError;
use arras_service::interrupt::Interrupt;
use arras_service::store::{Cursor, IndexDefinition, InsertStatement, Namespace, Query, Store};
use arras_storage::{Embedded, Memory};
use bson::{Bson, Document, doc};
use std::sync::Arc;

const UNIQUE: &str = "[collections.\"lab.things\".fields]\nu = { unique = true }\n";
const SEARCHED: &str = "[collections.\"lab.things\".fields]\na = { operations = [\"eq\", \"range\"] }\n";

/// A proxy that can be started again with another schema.
struct Proxy {
    directory: tempfile::TempDir,
    channel: Arc<Direct<Memory>>,
    engine: Option<Engine<Embedded, Direct<Memory>>>,
}

impl Proxy {
    async fn start(schema: &str) -> Self {
        let server = Arc::new(Backend::open(Memory::new(), [1; 16]).expect("memory does not fail"));
        let channel = Arc::new(Direct::new(server));
        let mut proxy = Self { directory: tempfile::tempdir().expect("a folder"), channel, engine: None };
        proxy.restart(schema).await;
        proxy
    }

    /// Starts with a schema, and waits until what it calls for is made; what cannot be.
    async fn restart(&mut self, schema: &str) -> Vec<String> {
        drop(self.engine.take());
        let settings = || Settings {
            schema: Schema::parse(schema, "schema.toml").expect("a schema"),
            ..Settings::default()
        };
        let directory = self.directory.path();
        let local = loop {
            match Embedded::open(&directory.join("local")) {
                Ok(local) => break local,
                // What the engine before had begun in the background lets go of the store.
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let engine = one_process::open(directory, local, Arc::clone(&self.channel), settings());
        let engine = engine.await.expect("an engine");
        let unmet = engine.apply_schema().await;
        self.engine = Some(engine);
        unmet.iter().map(|unmet| format!("{}: {}", unmet.index, unmet.why)).collect()
    }

    fn engine(&self) -> &Engine<Embedded, Direct<Memory>> {
        self.engine.as_ref().expect("it is started")
    }

    async fn insert(&self, document: Document) -> Result<(), i32> {
        let inserted = self
            .engine()
            .insert(&namespace(), InsertStatement::of(vec![document], true).expect("documents"))
            .await;
        let inserted = inserted.map_err(|error| arras_mongo::error::code_of(error.fault).0)?;
        inserted
            .failures
            .into_iter()
            .next()
            .map_or(Ok(()), |failure| Err(arras_mongo::error::code_of(failure.error.fault).0))
    }

    async fn create(&self, key: Document, unique: bool) -> Result<(usize, usize), ServiceError> {
        let name = key.iter().map(|(field, way)| format!("{field}_{way}")).collect::<Vec<_>>().join("_");
        let request = IndexDefinition { name, key, unique, sparse: false, options: Document::new() };
        self.engine().create_indexes(&namespace(), vec![request], Interrupt::default()).await
    }

    async fn names(&self) -> Vec<String> {
        let indexes = self.engine().indexes(&namespace()).await.expect("indexes");
        indexes.into_iter().map(|index| index.name).collect()
    }

    async fn drop_all(&self) {
        for name in self.names().await.iter().filter(|name| *name != "_id_") {
            self.engine().drop_index(&namespace(), name).await.expect("it is there");
        }
    }

    /// How a query runs, in words, and how many it finds.
    async fn run(&self, filter: Document, hint: Option<&str>) -> (String, usize) {
        let query = query(&filter, hint);
        let explanation = self.engine().explain(&namespace(), query.clone(), &[]).await.expect("a plan");
        let mut cursor = self.engine().find(&namespace(), query).await.expect("a cursor");
        let found = cursor.next_batch(usize::MAX, usize::MAX).await.expect("documents").len();
        (explanation.to_string(), found)
    }
}

fn query(filter: &Document, hint: Option<&str>) -> Query {
    Query {
        filter: Filter::parse(filter).expect("a filter"),
        sort: Sort::default(),
        skip: 0,
        limit: None,
        hint: hint.map(|name| Bson::String(name.to_owned())),
        allow_disk_use: true,
    }
}

#[test]
fn a_unique_index_that_was_dropped_is_made_again_when_asked_for() {
    run(async {
        let proxy = Proxy::start(UNIQUE).await;
        proxy.insert(doc! { "_id": 1, "u": 1 }).await.expect("the first");
        assert_eq!(proxy.insert(doc! { "_id": 2, "u": 1 }).await, Err(11000), "as the schema declares");
        proxy.drop_all().await;
        proxy.create(doc! { "u": 1 }, true).await.expect("nothing is twice");
        assert_eq!(proxy.insert(doc! { "_id": 2, "u": 1 }).await, Err(11000), "as was asked for again");
    });
}

#[test]
fn a_unique_index_is_refused_over_duplicates() {
    run(async {
        let proxy = Proxy::start(UNIQUE).await;
        proxy.insert(doc! { "_id": 1, "u": 1 }).await.expect("the first");
        proxy.drop_all().await;
        proxy.insert(doc! { "_id": 2, "u": 1 }).await.expect("nothing forbids it");
        let refused = proxy.create(doc! { "u": 1 }, true).await.expect_err("a duplicate");
        assert_eq!(arras_mongo::error::code_of(refused.fault).0, 11000);
        assert_eq!(proxy.names().await, ["_id_"]);
    });
}

#[test]
fn what_a_schema_declares_later_is_made_at_the_next_start() {
    run(async {
        let mut proxy = Proxy::start("").await;
        for id in 0..20 {
            proxy.insert(doc! { "_id": id, "u": id, "a": id % 5 }).await.expect("a document");
        }
        assert_eq!(proxy.restart(&format!("{UNIQUE}a = {{ operations = [\"eq\"] }}\n")).await, [""; 0]);
        assert_eq!(proxy.insert(doc! { "_id": 20, "u": 3 }).await, Err(11000));
        let (plan, found) = proxy.run(doc! { "a": 2 }, None).await;
        assert!(plan.contains("ArxEq(a)"), "{plan}");
        assert_eq!(found, 4);
    });
}

#[test]
fn what_cannot_be_made_is_named() {
    run(async {
        let mut proxy = Proxy::start("").await;
        proxy.insert(doc! { "_id": 1, "u": 1 }).await.expect("a document");
        proxy.insert(doc! { "_id": 2, "u": 1 }).await.expect("another");
        let unmet = proxy.restart(UNIQUE).await;
        assert_eq!(unmet.len(), 1);
        assert!(unmet[0].starts_with("EQunique(u): E11000"), "{unmet:?}");
    });
}

#[test]
fn an_application_may_ask_for_what_the_schema_declares() {
    run(async {
        let proxy = Proxy::start(SEARCHED).await;
        for id in 0..20 {
            proxy.insert(doc! { "_id": id, "a": id % 5 }).await.expect("a document");
        }
        proxy.create(doc! { "a": 1 }, false).await.expect("no conflict with the schema's");
        proxy.create(doc! { "a": 1 }, false).await.expect("the same again");
        for name in proxy.names().await.iter().filter(|name| name.starts_with("arras_")) {
            proxy.engine().drop_index(&namespace(), name).await.expect("it is there");
        }
        assert_eq!(proxy.names().await, ["_id_", "a_1"]);
        for hint in [None, Some("a_1")] {
            let (plan, found) = proxy.run(doc! { "a": 2 }, hint).await;
            assert!(plan.contains("ArxEq(a)"), "what a_1 relied on is its own now: {plan}");
            assert_eq!(found, 4);
        }
    });
}

#[test]
fn an_index_that_no_declared_query_uses_is_made_all_the_same() {
    run(async {
        let proxy = Proxy::start(SEARCHED).await;
        proxy.insert(doc! { "_id": 1, "b": 1 }).await.expect("a document");
        proxy.create(doc! { "b": 1 }, false).await.expect("an index");
        let (plan, found) = proxy.run(doc! { "b": 1 }, None).await;
        assert!(plan.contains("ArxEq(b)"), "{plan}");
        assert_eq!(found, 1);
    });
}

#[test]
fn what_mongodb_refuses_is_refused_with_its_codes() {
    run(async {
        let proxy = Proxy::start("").await;
        for number in 0..63 {
            proxy.create(doc! { format!("f{number}"): "hashed" }, false).await.expect("an index");
        }
        let refused = proxy.create(doc! { "one more": "hashed" }, false).await.expect_err("the 65th");
        assert_eq!(arras_mongo::error::code_of(refused.fault).0, 67);
        let other = Namespace { database: "LAB".into(), collection: "things".into() };
        let refused = proxy.engine().create_collection(&other).await.expect_err("but for its case the same");
        assert_eq!(arras_mongo::error::code_of(refused.fault).0, 13297);
        proxy.drop_all().await;
        proxy.create(doc! { "a": 1, "b": 1 }, false).await.expect("an index");
        assert_eq!(proxy.insert(doc! { "_id": 1, "a": [1, 2], "b": [3] }).await, Err(171));
        proxy.insert(doc! { "_id": 1, "a": [1, 2], "b": 3 }).await.expect("one array");
    });
}

#[test]
fn a_hinted_index_gives_its_order() {
    run(async {
        let proxy = Proxy::start("").await;
        proxy.create(doc! { "a": -1 }, false).await.expect("an index");
        for id in 0..20 {
            proxy.insert(doc! { "_id": id, "a": id * 7 % 20 }).await.expect("a document");
        }
        let mut query = query(&doc! { "a": { "$gte": 3 } }, Some("a_-1"));
        query.limit = Some(5);
        let mut cursor = proxy.engine().find(&namespace(), query).await.expect("a cursor");
        let found = cursor.next_batch(usize::MAX, usize::MAX).await.expect("documents");
        let found: Vec<i32> = found.iter().map(|document| document.get_i32("a").expect("a number")).collect();
        assert_eq!(found, [19, 18, 17, 16, 15]);
    });
}

#[test]
fn a_constraint_does_not_outlive_its_index() {
    run(async {
        let proxy = Proxy::start("").await;
        proxy.create(doc! { "a": 1 }, true).await.expect("a unique index");
        proxy.create(doc! { "a": 1, "b": 1 }, false).await.expect("an index that wants equality on a");
        proxy.engine().drop_index(&namespace(), "a_1").await.expect("it is there");
        proxy.insert(doc! { "_id": 1, "a": 1 }).await.expect("the first");
        proxy.insert(doc! { "_id": 2, "a": 1 }).await.expect("nothing forbids it");
        let (plan, found) = proxy.run(doc! { "a": 1 }, None).await;
        assert!(plan.contains("ArxEq(a)"), "{plan}");
        assert_eq!(found, 2);
    });
}

#[test]
fn what_was_written_before_it_was_declared_stays_and_is_indexed() {
    run(async {
        let mut proxy = Proxy::start("").await;
        proxy.insert(doc! { "_id": 1, "a": "one" }).await.expect("nothing is declared");
        proxy.insert(doc! { "_id": 2, "a": f64::NAN }).await.expect("nothing is declared");
        let declared =
            "[collections.\"lab.things\".fields]\na = { type = \"int32\", operations = [\"eq\"] }\n";
        assert_eq!(proxy.restart(declared).await, [""; 0], "everything is made");
        let (plan, found) = proxy.run(doc! { "a": "one" }, None).await;
        assert!(plan.contains("ArxEq(a)") && found == 1, "{plan}");
        assert_eq!(proxy.insert(doc! { "_id": 3, "a": "one" }).await, Err(121));
        proxy.insert(doc! { "_id": 3, "a": 1 }).await.expect("it fits");
    });
}

#[test]
fn a_schema_gets_no_more_indexes_with_each_start() {
    run(async {
        let mut proxy = Proxy::start(UNIQUE).await;
        proxy.insert(doc! { "_id": 1, "u": 1 }).await.expect("the first");
        proxy.restart(UNIQUE).await;
        let (plan, _) = proxy.run(doc! { "u": { "$gte": 1 } }, None).await;
        assert!(plan.contains("read every document") && proxy.engine().lacking().is_empty(), "{plan}");
    });
}

/// The others would wait for hours: a build holds its collection's turn to its end.
#[test]
fn a_build_of_one_collection_keeps_nobody_from_another() {
    run(async {
        let world = Arc::new(World::new(1 << 20, 1 << 20).await);
        world.insert(vec![doc! { "_id": 1, "a": 1, "b": 2 }]).await.expect("an insert");
        world.create_index(doc! { "b": 1 }).await.expect("an index");
        let (go_on, stop) = tokio::sync::oneshot::channel();
        *world.channel.stop.lock().expect("no holder panics") = Some(stop);
        let building = Arc::clone(&world);
        let build = tokio::spawn(async move { building.create_index(doc! { "a": 1 }).await });
        while world.channel.stop.lock().expect("no holder panics").is_some() {
            tokio::task::yield_now().await;
        }
        let other = Namespace { database: "lab".into(), collection: "others".into() };
        let statement = InsertStatement::of(vec![doc! { "_id": 1 }], true).expect("documents");
        assert_eq!(world.engine.insert(&other, statement).await.expect("an insert").count, 1);
        let request = IndexDefinition {
            name: "c".into(),
            key: doc! { "c": 1 },
            unique: false,
            sparse: false,
            options: Document::new(),
        };
        world.engine.create_indexes(&other, vec![request], Interrupt::default()).await.expect("an index");
        assert!(world.engine.drop_collection(&other).await.expect("a drop"));
        // What is there already is said at once, as to an application that starts.
        world.create_index(doc! { "b": 1 }).await.expect("an index");
        assert!(!build.is_finished());
        go_on.send(()).expect("it waits");
        build.await.expect("no panic").expect("an index");
    });
}

#[test]
fn what_is_refused_of_one_index_makes_neither_the_collection_nor_the_others() {
    run(async {
        let world = World::new(1 << 20, 1 << 20).await;
        let request = |field: &str, options: Document| IndexDefinition {
            name: field.into(),
            key: doc! { field: 1 },
            unique: false,
            sparse: false,
            options,
        };
        let by_hand = doc! { "storageEngine": { "arras": { "order": "by_hand" } } };
        let requests = || vec![request("a", Document::new()), request("b", by_hand.clone())];
        let ns = namespace();
        world.engine.create_indexes(&ns, requests(), Interrupt::default()).await.expect_err("no such order");
        world.engine.create_collection(&ns).await.expect("it is not there");
        world.engine.create_indexes(&ns, requests(), Interrupt::default()).await.expect_err("no such order");
        let again = vec![request("a", Document::new())];
        let (before, now) =
            world.engine.create_indexes(&ns, again, Interrupt::default()).await.expect("an index");
        assert_eq!(now, before + 1, "it was not made");
    });
}
