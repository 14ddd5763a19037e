//! Every protocol that a field may have its order by: the same answers as a scan, before and after a restart.

use crate::world::{namespace, run};
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_documents::update::{ArrayFilters, Update};
use arras_engine::{Engine, Settings};
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_lab::plain_store::PlainStore;
use arras_lab::seed;
use arras_planner::kinds;
use arras_planner::schema::Schema;
use arras_primitives::prg::Prg;
use arras_server::Backend;
use arras_service::interrupt::Interrupt;
use arras_service::store::{
    Cursor, DeleteStatement, IndexDefinition, InsertStatement, Query, Store, UpdateStatement,
};
use arras_storage::Memory;
use bson::{Bson, Document, doc};
use std::path::Path;
use std::sync::Arc;

/// Commands of a session.
const COMMANDS: usize = 150;
/// Those of one whose comparisons take pairings.
const COMMANDS_OF_PAIRINGS: usize = 12;

type Direct1 = Direct<Arc<Memory>>;

/// An engine over stores that outlive it.
struct Restarted<'w> {
    local: &'w Arc<Memory>,
    server: &'w Arc<Memory>,
    directory: &'w Path,
    schema: &'w str,
}

impl Restarted<'_> {
    async fn engine(&self) -> Engine<Arc<Memory>, Direct1> {
        let backend =
            Arc::new(Backend::open(Arc::clone(self.server), [1; 16]).expect("memory does not fail"));
        let schema = Schema::parse(self.schema, "schema.toml").expect("a schema");
        let settings = Settings { schema, ..Settings::default() };
        let channel = Arc::new(Direct::new(backend));
        let engine = one_process::open(self.directory, Arc::clone(self.local), channel, settings).await;
        engine.expect("an engine")
    }
}

fn query(filter: &Document, sort: &Document, limit: Option<u64>) -> Query {
    Query {
        filter: Filter::parse(filter).expect("a filter"),
        sort: Sort::parse(sort).expect("a sort"),
        skip: 0,
        limit,
        hint: None,
        allow_disk_use: true,
    }
}

async fn found<S: Store>(store: &S, query: Query) -> Vec<Document> {
    let mut cursor = store.find(&namespace(), query).await.expect("a cursor");
    let mut documents = Vec::new();
    loop {
        let batch = cursor.next_batch(7, 1 << 20).await.expect("documents");
        if batch.is_empty() {
            return documents;
        }
        documents.extend(batch);
    }
}

/// A number from `low` to before `high`.
fn between(dice: &mut Prg, low: i32, high: i32) -> i32 {
    low + i32::try_from(seed::below(dice, u64::from(low.abs_diff(high)))).expect("small")
}

/// A document, now and then without the field, with several values of it or, where any type is allowed, with others.
fn odd(id: i32, value: i32, is_typed: bool) -> Document {
    match value.rem_euclid(7) {
        0 => doc! { "_id": id },
        1 => doc! { "_id": id, "v": [value, value + 1] },
        2 if !is_typed => doc! { "_id": id, "v": format!("a string that is longer than a key, {value}") },
        3 if !is_typed => doc! { "_id": id, "v": f64::from(value) + 0.3 },
        _ => doc! { "_id": id, "v": value },
    }
}

/// A write, on the engine and on the plaintext.
async fn change<S: Store>(store: &S, dice: &mut Prg, next_id: i32, is_typed: bool) {
    let value = between(dice, -50, 50);
    match between(dice, 0, 6) {
        0..=2 => {
            let other = between(dice, -50, 50);
            let documents = vec![doc! { "_id": next_id, "v": value }, odd(next_id + 1, other, is_typed)];
            let inserted = store
                .insert(&namespace(), InsertStatement::of(documents, true).expect("documents"))
                .await
                .expect("an insert");
            assert_eq!(inserted.count, 2);
        }
        3 | 4 => {
            let update = doc! { "$set": { "v": between(dice, -60, 60) } };
            let statement = UpdateStatement {
                filter: Filter::parse(&doc! { "v": { "$gte": value, "$lt": value + 6 } }).expect("a filter"),
                update: Update::parse(&Bson::Document(update)).expect("an update"),
                hint: None,
                array_filters: ArrayFilters::default(),
                multi: true,
                upsert: None,
                interrupt: Default::default(),
            };
            store.update(&namespace(), statement).await.expect("an update");
        }
        _ => {
            let filter = Filter::parse(&doc! { "v": value }).expect("a filter");
            let statement =
                DeleteStatement { filter, hint: None, multi: true, interrupt: Default::default() };
            store.delete(&namespace(), statement).await.expect("a delete");
        }
    }
}

async fn compare<S: Store>(engine: &S, plain: &PlainStore, dice: &mut Prg) {
    let (lower, width) = (between(dice, -60, 60), between(dice, 0, 40));
    let direction = if between(dice, 0, 2) == 0 { 1 } else { -1 };
    let limit = (between(dice, 0, 2) == 0).then(|| seed::below(dice, 8) + 1);
    let filter = doc! { "v": { "$gte": lower, "$lte": lower.saturating_add(width) } };
    let sort = if between(dice, 0, 10) < 7 {
        doc! { "v": direction }
    } else {
        Document::new()
    };
    let own = found(engine, query(&filter, &sort, limit)).await;
    let expected = found(plain, query(&filter, &sort, limit)).await;
    assert_eq!(own.len(), expected.len(), "{filter} by {sort}, {limit:?}");
    if !sort.is_empty() {
        let sort = Sort::parse(&sort).expect("a sort");
        for (own, expected) in own.iter().zip(&expected) {
            let order = sort.compare_values(
                &sort.values(own).expect("one array at most"),
                &sort.values(expected).expect("one array at most"),
            );
            assert!(order.is_eq(), "{own} in the place of {expected}");
        }
    }
    let all = found(plain, query(&filter, &Document::new(), None)).await;
    assert!(own.iter().all(|document| all.contains(document)), "each as it is");
}

async fn session(order: &str, schema: &str, commands: usize) {
    let (local, server) = (Arc::new(Memory::new()), Arc::new(Memory::new()));
    let directory = tempfile::tempdir().expect("a folder");
    let world = Restarted { local: &local, server: &server, directory: directory.path(), schema };
    let plain = PlainStore::new();
    plain.create_collection(&namespace()).await.expect("there is none");
    let is_typed = !schema.is_empty();
    let mut engine = world.engine().await;
    engine.create_collection(&namespace()).await.expect("there is none");
    let options = doc! { "storageEngine": { "arras": { "order": order, "operations": ["range", "order"] } } };
    let request =
        IndexDefinition { name: "by_v".into(), key: doc! { "v": 1 }, unique: false, sparse: false, options };
    engine.create_indexes(&namespace(), vec![request], Interrupt::default()).await.expect("an index");
    let narrow = query(&doc! { "v": { "$gt": 3, "$lt": 5 } }, &Document::new(), None);
    let explained = engine.explain(&namespace(), narrow, &[]).await.expect("an explanation");
    let title = kinds::kind_of(order).expect("a kind").title;
    assert!(explained.indexes.iter().any(|used| used.index.contains(title)), "{explained} names {title}");
    for number in 0..commands {
        let dice = |usage| seed::prg(number as u64, usage);
        let next_id = i32::try_from(number).expect("few") * 2;
        change(&engine, &mut dice("change"), next_id, is_typed).await;
        change(&plain, &mut dice("change"), next_id, is_typed).await;
        compare(&engine, &plain, &mut dice("compare")).await;
        if number % 50 == 49 {
            drop(engine);
            engine = world.engine().await;
        }
    }
    let everything = found(&engine, query(&Document::new(), &doc! { "v": 1 }, None)).await;
    assert_eq!(everything.len(), found(&plain, query(&Document::new(), &Document::new(), None)).await.len());
}

#[test]
fn every_order_that_a_field_may_have_answers_as_a_scan_does() {
    let available = kinds::of_orders().filter(|order| order.kind().is_available());
    let names: Vec<&str> = available.map(|order| order.name()).collect();
    assert!(names.len() > 1, "{names:?}");
    for order in names {
        eprintln!("{order}");
        let commands = if order.contains("cloz") { COMMANDS_OF_PAIRINGS } else { COMMANDS };
        let typed = "[collections.\"lab.things\".fields]\nv = { type = \"int32\", operations = [] }\n";
        run(session(order, typed, commands));
        if !order.contains("cloz") {
            run(session(order, "", commands));
        }
    }
}

const DECLARED: &str =
    "[collections.\"lab.things\".fields]\nv = { operations = [\"range\"], order = \"bplus_clww\" }\n";

fn order_of(field: &str, order: Option<&str>) -> IndexDefinition {
    let own =
        order.map(|order| doc! { "storageEngine": { "arras": { "order": order, "operations": ["range"] } } });
    IndexDefinition {
        name: format!("{field}_1"),
        key: doc! { field: 1 },
        unique: false,
        sparse: false,
        options: own.unwrap_or_default(),
    }
}

#[test]
fn an_index_does_not_change_its_protocol_and_says_how_it_is_done() {
    run(async {
        let directory = tempfile::tempdir().expect("a directory");
        let (local, server) = (Arc::new(Memory::new()), Arc::new(Memory::new()));
        let world =
            |schema| Restarted { local: &local, server: &server, directory: directory.path(), schema };
        let engine = world("").engine().await;
        let rows: Vec<Document> = (0..40).map(|id| doc! { "_id": id, "v": id % 7 }).collect();
        let rows = InsertStatement::of(rows, true).expect("documents");
        engine.insert(&namespace(), rows).await.expect("an insert");
        engine
            .create_indexes(&namespace(), vec![order_of("v", Some("arx_range"))], Interrupt::default())
            .await
            .expect("an index");
        for order in [Some("bplus_clww"), Some("bplus_lewi_wu")] {
            let refused = engine
                .create_indexes(&namespace(), vec![order_of("v", order)], Interrupt::default())
                .await
                .expect_err("another");
            assert_eq!(arras_mongo::error::code_of(refused.fault).0, 85, "{refused}");
            for word in ["'v'", "by arx_range", "dropIndex(\"v_1\")", "create it again"] {
                assert!(refused.message.contains(word), "{word}: {refused}");
            }
        }
        engine
            .create_indexes(&namespace(), vec![order_of("v", Some("auto"))], Interrupt::default())
            .await
            .expect("the same");
        drop(engine);

        // A schema that calls for another one is told, too, and changes nothing.
        let engine = world(DECLARED).engine().await;
        let unmet = engine.apply_schema().await;
        assert_eq!(unmet.len(), 1, "{unmet:?}");
        assert!(!unmet[0].transient && unmet[0].why.contains("dropIndex(\"v_1\")"), "{unmet:?}");
        let between = query(&doc! { "v": { "$gte": 2, "$lte": 3 } }, &doc! {}, None);
        let by = async |engine: &Engine<Arc<Memory>, Direct1>| {
            let explained = engine.explain(&namespace(), between.clone(), &[]).await.expect("a plan");
            (explained.to_string(), found(engine, between.clone()).await.len())
        };
        let (explained, count) = by(&engine).await;
        assert!(explained.contains("ArxRange(v)") && count == 12, "{explained}");

        // Dropped and created, as it was told.
        engine.drop_index(&namespace(), "v_1").await.expect("it is there");
        assert_eq!(engine.apply_schema().await, []);
        let (explained, count) = by(&engine).await;
        assert!(explained.contains("B+ tree over CLWW(v)") && count == 12, "{explained}");
        let names: Vec<String> = engine
            .indexes(&namespace())
            .await
            .expect("indexes")
            .into_iter()
            .map(|index| index.name)
            .collect();
        assert!(names.contains(&"arras_bplus_clww_v_1".to_owned()), "{names:?}");
        drop(engine);

        // Taken out of the schema, it stays, and an application's index beside it is refused another protocol.
        let engine = world("").engine().await;
        let refused = engine
            .create_indexes(&namespace(), vec![order_of("v", None)], Interrupt::default())
            .await
            .expect_err("another");
        assert_eq!(arras_mongo::error::code_of(refused.fault).0, 85, "{refused}");
        let (explained, count) = by(&engine).await;
        assert!(explained.contains("B+ tree over CLWW(v)") && count == 12, "{explained}");
    });
}
