//! What the planner is told of a collection, and counts that are known without the server.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::apply::COUNTERS;
use crate::facts::FactsChange;
use crate::index::tests::{eq_of, range_of};
use crate::local::LocalStore;
use crate::terms::Entries;
use crate::tests::{World, collection, ns, occurrences, randomly};
use arras_documents::filter::Filter;
use arras_protocol::OperationId;
use arras_storage::Durability;
use rand::RngExt;

/// Indexes on `a`, of which one is being filled, and one that others stand for.
fn indexes() -> Vec<LiveIndex> {
    let of_a = vec![IndexPart::of_test(1, eq_of(&["a"])), IndexPart::of_test(2, range_of(&["a", "b"]))];
    let filling = LiveIndex::of_test("b_1", doc! { "b": 1 }, vec![IndexPart::of_test(3, eq_of(&["b"]))]);
    filling.ready.store(false, Ordering::SeqCst);
    vec![
        LiveIndex::of_test("a_b", doc! { "a": 1, "b": 1 }, of_a),
        filling,
        LiveIndex::of_test("a_1", doc! { "a": 1 }, Vec::new()),
        LiveIndex::of_test("c_1", doc! { "c": -1 }, vec![IndexPart::of_test(4, range_of(&["c"])).sparse()]),
    ]
}

fn names(states: &[IndexState]) -> Vec<u8> {
    states.iter().map(|state| state.id.0[0]).collect()
}

#[test]
fn indexes_that_are_filled_are_planned_with_and_of_those_the_ones_that_are_hinted_at() {
    let collection = collection("c", indexes());
    let settings = Settings::default();
    let with = |hint: Bson| states(&collection, Some(&hint), &settings).map(|found| names(&found));
    assert_eq!(names(&states(&collection, None, &settings).unwrap()), [1, 2, 4]);
    let document = |document: Document| Bson::Document(document);
    for (hint, expected) in [
        ("a_b".into(), vec![1, 2]),
        (document(doc! { "a": 1_i64, "b": 1.0 }), vec![1, 2]),
        ("c_1".into(), vec![4]),
        (document(doc! { "c": -1 }), vec![4]),
        // What another index holds and stands for it: by its first field both do.
        ("a_1".into(), vec![1, 2]),
        ("b_1".into(), vec![]),
        ("_id_".into(), vec![]),
        (document(doc! { "_id": 1 }), vec![]),
        (document(doc! { "$natural": -1 }), vec![]),
    ] {
        assert_eq!(with(hint.clone()).unwrap(), expected, "{hint}");
    }
    for hint in ["b".into(), document(doc! { "c": 1 }), document(doc! { "b": 1, "a": 1 }), Bson::Int32(1)] {
        assert_eq!(with(hint.clone()).unwrap_err().fault, Fault::BadValue, "{hint}");
    }
}

#[test]
fn the_planner_is_told_what_the_documents_of_an_index_are_like() {
    let collection = collection("c", indexes());
    let settings = Settings::default();
    let told = |name: u8| {
        let states = states(&collection, None, &settings).unwrap();
        let state = states.into_iter().find(|state| state.id.0[0] == name).unwrap();
        (state.multikey, state.inexact, state.sparse, state.tuning.bucket_factor)
    };
    assert_eq!((told(1), told(4)), ((false, false, false, 32), (false, false, true, 32)));
    let several = Entries { multikey: true, ..Entries::default() };
    collection.parts()[0].facts.add(&several);
    assert_eq!((told(1), told(2)), ((true, false, false, 32), (false, false, false, 32)));
    let cut = Entries { inexact: true, ..Entries::default() };
    collection.parts()[3].facts.add(&cut);
    assert_eq!((told(1), told(4)), ((true, false, false, 32), (false, true, true, 32)));
}

fn query(filter: Document) -> Query {
    Query {
        filter: Filter::parse(&filter).unwrap(),
        sort: Sort::default(),
        skip: 0,
        limit: None,
        hint: None,
        allow_disk_use: true,
    }
}

#[test]
fn a_hinted_index_gives_its_order_to_who_asks_for_none() {
    let hashed = LiveIndex::of_test("h", doc! { "h": "hashed" }, Vec::new());
    let collection = collection("c", indexes().into_iter().chain([hashed]).collect());
    let order = |hint: Option<Bson>, sort: Document| {
        let query = Query { hint, sort: Sort::parse(&sort).unwrap(), ..query(doc! {}) };
        hinted_order(&collection, &query).map(|sort| sort.keys().len())
    };
    assert_eq!(order(Some("a_b".into()), doc! {}), Some(2));
    assert_eq!(order(Some(Bson::Document(doc! { "c": -1 })), doc! {}), Some(1));
    assert_eq!(order(Some("_id_".into()), doc! {}), Some(1), "every collection has it");
    assert_eq!(order(Some("a_b".into()), doc! { "c": 1 }), None, "one is asked for");
    assert_eq!(order(Some("h".into()), doc! {}), None);
    assert_eq!(order(Some(Bson::Document(doc! { "$natural": 1 })), doc! {}), None);
    assert_eq!(order(None, doc! {}), None);
    let query = Query { hint: Some("c_1".into()), ..query(doc! {}) };
    let sort = hinted_order(&collection, &query).unwrap();
    assert!(sort.compare(&doc! { "c": 2 }, &doc! { "c": 1 }).is_lt(), "in its direction");
}

#[test]
fn counts_are_numbers_of_the_least_type_that_holds_them() {
    for (count, value) in [
        (0, Bson::Int32(0)),
        (i32::MAX as u64, Bson::Int32(i32::MAX)),
        (i32::MAX as u64 + 1, Bson::Int64(i64::from(i32::MAX) + 1)),
        (u64::MAX, Bson::Int64(i64::MAX)),
    ] {
        assert_eq!(count_value(count), value);
    }
}

/// Notes that `a` has a value so often.
fn record(world: &World, part: &IndexPart, value: i32, entries: u64) {
    world.record(part, &equality_bytes(&[Bson::Int32(value)]), &occurrences(entries));
}

#[tokio::test]
async fn matches_of_values_are_counted_by_their_records_and_the_server_is_not_asked() {
    let (mut rng, world) = (randomly(), World::new("").await);
    let part = IndexPart::of_test(1, eq_of(&["a"]));
    let index = LiveIndex::of_test("a_1", doc! { "a": 1 }, vec![Arc::clone(&part)]);
    let collection = world.collection(vec![index], 1_000);
    let counts: Vec<u64> = (0..8).map(|_| rng.random_range(0..5)).collect();
    (0..).zip(&counts).filter(|(_, count)| **count > 0).for_each(|(value, count)| {
        record(&world, &part, value, *count);
    });
    let count = async |filter: Document| {
        let query = query(filter);
        world.shared.count_by_index(&collection, Selection::of(&query)).await.unwrap()
    };
    assert_eq!(count(doc! {}).await, Some(1_000));
    assert_eq!(count(doc! { "a": 3.0 }).await, Some(counts[3]));
    assert_eq!(count(doc! { "a": 100 }).await, Some(0));
    let several = doc! { "a": { "$in": [2, 5, 5_i64, 2.0] } };
    assert_eq!(count(several.clone()).await, Some(counts[2] + counts[5]), "equal values are counted once");
    assert_eq!(count(doc! { "a": 3, "b": 1 }).await, None, "the index does not say");
    let aggregates = [Aggregate { name: "n".into(), function: AggregateFunction::Count }];
    let counted = world.shared.aggregate(&collection, &query(doc! { "a": 3 }), &aggregates).await.unwrap();
    let group = (counts[3] > 0).then(|| doc! { "n": counts[3] as i32 });
    assert_eq!(counted, group, "there is no group of nothing");
    // While a document has several entries, entries are not documents.
    let several_entries = Entries { multikey: true, ..Entries::default() };
    part.facts.add(&several_entries);
    assert_eq!(count(doc! { "a": 3 }).await, None);
}

#[tokio::test]
async fn a_count_beside_a_write_of_its_value_is_not_believed() {
    let world = World::new("").await;
    let part = IndexPart::of_test(1, eq_of(&["a"]));
    let index = LiveIndex::of_test("a_1", doc! { "a": 1 }, vec![Arc::clone(&part)]);
    let collection = world.collection(vec![index], 1_000);
    record(&world, &part, 3, 2);
    let count = async |value: i32| {
        let query = query(doc! { "a": value });
        world.shared.count_by_index(&collection, Selection::of(&query)).await.unwrap()
    };
    let half = Arc::clone(&part.half).equality().unwrap();
    let value = equality_bytes(&[Bson::Int32(3)]);
    let name = half.on_record(&[value], &*world.shared.local).unwrap().remove(0).name;
    let change = world.shared.local.set_as_named(COUNTERS, name, &Vec::<u8>::new());
    let (ledger, operation) = (&world.shared.intents.ledger, OperationId { epoch: 9, sequence: 1 });
    ledger.begin(operation, &[], &[change]);
    assert_eq!((count(3).await, count(4).await), (None, Some(0)));
    ledger.end(operation, false, &world.shared.local);
    assert_eq!(count(3).await, Some(2));
    // And none beside one whose outcome nobody knows.
    world.shared.intents.perform(&*world.shared.channel, Vec::new(), Vec::new()).await.unwrap_err();
    assert_eq!(count(3).await, None);
}

#[test]
fn marks_tell_whether_an_index_was_as_planned_all_the_while() {
    let collection = collection("c", indexes());
    let parts = collection.parts();
    let marks = Marks::of(&collection);
    assert!(parts.iter().all(|part| marks.is_as_planned(part)));
    let local = LocalStore::open(arras_storage::Memory::new(), &arras_keys::Key::generate()).unwrap();
    let (one, several) = (Entries::default(), Entries { multikey: true, ..Entries::default() });
    let write = |part: &Arc<IndexPart>, old: &Entries, new: &Entries| {
        let change = FactsChange::of(&local, part, std::iter::once((old, new))).unwrap().unwrap();
        local.apply(&[change.begin(&local)], Durability::Relaxed).unwrap();
        change.end(Some(true));
    };
    write(&parts[0], &one, &several);
    assert!(!marks.is_as_planned(&parts[0]) && marks.is_as_planned(&parts[1]));
    assert!(!Marks::of(&collection).is_as_planned(&parts[0]), "nor is one that never was");
    write(&parts[0], &several, &one);
    assert!(!marks.is_as_planned(&parts[0]), "it is again, and was not in between");
    assert!(Marks::of(&collection).is_as_planned(&parts[0]));
    assert!(!marks.is_as_planned(&IndexPart::of_test(9, eq_of(&["a"]))), "nor one that is new");
}

#[tokio::test]
async fn a_schema_that_refuses_scans_refuses_what_no_index_serves() {
    let world = World::new("[collections.\"db.c\"]\nscan = \"refuse\"").await;
    let collection = world.collection(indexes(), 1_000);
    let plan = |filter: Document| {
        let query = query(filter);
        let plan = world.shared.plan(&collection, Selection::of(&query));
        plan.map(|plan| plan.access).map_err(|error| error.fault)
    };
    assert!(matches!(plan(doc! { "a": 5 }), Ok(Access::Eq { .. })));
    assert_eq!(plan(doc! { "b": 5 }), Err(Fault::NoPlan), "the index on it is being filled");
    assert!(matches!(plan(doc! { "_id": 5 }), Ok(Access::Rows { .. })));
    let nowhere = world.shared.explain(&ns("other"), &query(doc! {}), &[]).await.unwrap();
    assert!(nowhere.steps[0].contains("does not exist"));
}
