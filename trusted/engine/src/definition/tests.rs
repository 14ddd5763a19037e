//! Definitions that need no server, and what is left of those that do while it is away.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::index::IndexPart;
use crate::index::tests::{eq_of, range_of};
use crate::tests::{World, collection, ns, randomly};
use bson::{Bson, Document};
use rand::RngExt;
use std::collections::BTreeSet;

fn index(name: &str, key: Document) -> LiveIndex {
    LiveIndex::of_test(name, key, Vec::new())
}

fn request(name: &str, key: Document) -> IndexDefinition {
    index(name, key).request
}

fn fault<T>(outcome: Result<T, ServiceError>) -> Option<Fault> {
    outcome.err().map(|error| error.fault)
}

#[test]
fn every_collection_lists_an_index_on_its_ids_first_and_once() {
    let names = |indexes: Vec<LiveIndex>| {
        let indexes: Vec<Arc<LiveIndex>> = indexes.into_iter().map(Arc::new).collect();
        listed(&indexes).into_iter().map(|request| request.name).collect::<Vec<_>>()
    };
    assert_eq!(names(Vec::new()), [ID_INDEX]);
    assert_eq!(names(vec![index("b", doc! { "b": 1 }), index("a", doc! { "a": 1 })]), [ID_INDEX, "b", "a"]);
    let ordered = index(ID_INDEX, doc! { "_id": 1 });
    assert_eq!(
        names(vec![index("b", doc! { "b": 1 }), ordered, index("a", doc! { "a": 1 })]),
        [ID_INDEX, "b", "a"]
    );
    assert_eq!(listed(&[])[0].key, doc! { "_id": 1 });
}

#[test]
fn an_index_is_there_if_its_name_and_all_that_it_promises_are_the_same() {
    let declared = declared::request(&eq_of(&["e"]));
    let of_schema =
        LiveIndex::of_test(&declared.name, declared.key, vec![IndexPart::of_test(1, eq_of(&["e"]))]);
    let unique = LiveIndex {
        request: IndexDefinition { unique: true, ..request("u", doc! { "u": 1 }) },
        ..index("", doc! {})
    };
    let others = vec![of_schema, index("a", doc! { "a": 1, "b": -1 }), unique];
    let collection = collection("c", others);
    let asked = |request: IndexDefinition| exists(&collection, &request).map(|found| found.is_some());
    let name_taken = Some(Fault::IndexKeySpecsConflict);
    let other_options = Some(Fault::IndexOptionsConflict);
    assert!(asked(request("a", doc! { "a": 1.0, "b": -1_i64 })).unwrap());
    assert!(!asked(request("n", doc! { "n": 1 })).unwrap());
    assert_eq!(fault(asked(request("a", doc! { "b": -1, "a": 1 }))), name_taken);
    assert_eq!(fault(asked(request("a", doc! { "a": 1, "b": 1 }))), name_taken);
    assert_eq!(fault(asked(request("x", doc! { "a": 1, "b": -1 }))), other_options);
    for name in ["a", "x"] {
        let sparse = IndexDefinition { sparse: true, ..request(name, doc! { "a": 1, "b": -1 }) };
        assert_eq!(fault(asked(sparse)), if name == "a" { name_taken } else { other_options });
    }
    assert_eq!(fault(asked(request("u", doc! { "u": 1 }))), name_taken);
    // The name says more than the keys of an index listed before.
    assert_eq!(fault(asked(request("u", doc! { "a": 1, "b": -1 }))), name_taken);
    assert!(asked(IndexDefinition { unique: true, ..request("u", doc! { "u": 1 }) }).unwrap());
    // What a schema has made stands in nobody's way, unless it is asked for by its name.
    assert!(!asked(request("e_1", doc! { "e": 1 })).unwrap());
    assert!(!asked(IndexDefinition { unique: true, ..request("e_1", doc! { "e": 1 }) }).unwrap());
    assert!(asked(request("arras_eq_e_1", doc! { "e": 1 })).unwrap());
    assert_eq!(fault(asked(request("arras_eq_e_1", doc! { "f": 1 }))), name_taken);
}

#[test]
fn nobody_waits_for_a_build_whose_indexes_are_all_there() {
    let filling = index("b", doc! { "b": 1 });
    filling.ready.store(false, Ordering::SeqCst);
    let collection = collection("c", vec![index("a", doc! { "a": 1 }), filling]);
    let (a, b, c) =
        (request("a", doc! { "a": 1 }), request("b", doc! { "b": 1 }), request("c", doc! { "c": 1 }));
    assert!(are_there(&collection, &[]).unwrap());
    assert!(are_there(&collection, &[a.clone(), a.clone()]).unwrap());
    assert!(!are_there(&collection, &[a.clone(), b]).unwrap());
    assert!(!are_there(&collection, &[c, a]).unwrap());
    assert!(are_there(&collection, &[request("a", doc! { "z": 1 })]).is_err());
}

#[tokio::test]
async fn names_of_databases_do_not_differ_by_case_alone() {
    let world = World::new("").await;
    world.collection(Vec::new(), 0);
    let check = |database: &str| {
        let ns = Namespace { database: database.into(), collection: "new".into() };
        fault(world.shared.check_case(&ns))
    };
    assert_eq!((check("db"), check("other"), check("d")), (None, None, None));
    for other in ["DB", "Db", "dB"] {
        assert_eq!(check(other), Some(Fault::DatabaseDiffersInCase), "{other}");
    }
}

#[tokio::test]
async fn records_of_indexes_that_are_gone_are_swept_and_no_others() {
    let mut rng = randomly();
    let world = World::new("").await;
    let part = IndexPart::of_test(1, eq_of(&["a"]));
    let collection = world.collection(vec![LiveIndex::of_test("a", doc! { "a": 1 }, vec![part])], 0);
    let mut names = BTreeSet::new();
    for _ in 0..200 {
        let mut name = vec![rng.random_range(0..4_u8); IndexId::BYTES];
        name.extend((0..rng.random_range(0..20)).map(|_| rng.random::<u8>()));
        names.insert(name);
    }
    let set = |name: &Vec<u8>| world.shared.local.set_as_named(COUNTERS, name.clone(), &0_u64);
    let changes: Vec<Change> = names.iter().map(set).collect();
    world.shared.local.apply(&changes, Durability::Relaxed).unwrap();
    let left = || {
        let mut left = BTreeSet::new();
        let mut visit = |name: &[u8], _: u64| assert!(left.insert(name.to_vec()));
        world.shared.local.each_as_named(COUNTERS, &[], &mut visit).unwrap();
        left
    };
    world.shared.sweep_counters().unwrap();
    names.retain(|name| name[0] == 1);
    assert_eq!(left(), names);
    world.shared.forget_counters(collection.parts()[0].id).unwrap();
    assert!(left().is_empty());
}

#[tokio::test]
async fn parts_of_indexes_have_names_of_their_own_and_the_settings_of_their_time() {
    let settings = crate::Settings {
        range: index::RangeSettings { bucket_factor: 5, ..Default::default() },
        ..Default::default()
    };
    let world = World::with(settings).await;
    let parts: Vec<IndexPartRecord> =
        (0..100).map(|number| world.shared.new_part(range_of(&["a"]), number % 2 == 0)).collect();
    assert_eq!(parts.iter().map(|part| part.id).collect::<BTreeSet<_>>().len(), 100);
    assert!(parts.iter().all(|part| part.bucket_factor == 5 && part.physical == range_of(&["a"])));
    assert_eq!(parts.iter().filter(|part| part.sparse).count(), 50);
}

#[tokio::test]
async fn what_is_not_there_or_cannot_be_is_refused_before_the_server_is_asked() {
    let world = World::new("").await;
    let many =
        (0..INDEXES_MAX - 1).map(|number| index(&format!("n{number}"), doc! { format!("n{number}"): 1 }));
    world.collection(many.collect(), 0);
    let shared = &world.shared;
    let create = async |ns: &Namespace, requests: Vec<IndexDefinition>| {
        shared.create_indexes(ns, requests, Interrupt::default()).await
    };
    assert_eq!(fault(shared.create_collection(&ns("c")).await), Some(Fault::NamespaceExists));
    assert!(!shared.drop_collection(&ns("other")).await.unwrap());
    assert_eq!(fault(shared.drop_index(&ns("c"), ID_INDEX).await), Some(Fault::InvalidOptions));
    assert_eq!(fault(shared.drop_index(&ns("c"), "none").await), Some(Fault::IndexNotFound));
    assert_eq!(fault(shared.drop_index(&ns("other"), "none").await), Some(Fault::NamespaceNotFound));
    let there = create(&ns("c"), vec![request("n7", doc! { "n7": 1 })]).await.unwrap();
    assert_eq!(there, (INDEXES_MAX, INDEXES_MAX), "the one on ids included");
    assert_eq!(
        fault(create(&ns("c"), vec![request("x", doc! { "x": 1 })]).await),
        Some(Fault::CannotCreateIndex)
    );
    let sphere = request("s", doc! { "s": "2dsphere" });
    for name in ["c", "other"] {
        assert_eq!(fault(create(&ns(name), vec![sphere.clone()]).await), Some(Fault::CannotCreateIndex));
    }
    let reserved = request(ID_INDEX, doc! { "a": 1 });
    assert_eq!(fault(create(&ns("other"), vec![reserved]).await), Some(Fault::BadValue));
    assert!(shared.collection(&ns("other")).is_none() && !shared.intents.in_doubt());
    // For equality alone documents are stored by it.
    let hashed = request("_id_hashed", doc! { "_id": "hashed" });
    let same =
        create(&ns("c"), vec![IndexDefinition { name: "n1".into(), key: doc! { "n1": 1 }, ..hashed }]).await;
    assert_eq!(same.unwrap(), (INDEXES_MAX, INDEXES_MAX));
}

#[tokio::test]
async fn an_index_that_cannot_be_made_for_now_is_not_listed() {
    let world = World::new("").await;
    let collection = world.collection(vec![index("a", doc! { "a": 1 })], 0);
    let made = world
        .shared
        .create_indexes(&collection.ns, vec![request("b", doc! { "b": 1 })], Interrupt::default())
        .await;
    assert_eq!(fault(made), Some(Fault::Unreachable));
    assert_eq!(listed(&collection.indexes()).len(), 2);
    let recorded = catalog::all(&world.shared.local).unwrap();
    let names: Vec<String> = recorded[0].indexes.iter().map(|index| index.request().unwrap().name).collect();
    assert_eq!(names, ["a"], "and no later start finds it");
}

#[tokio::test]
async fn an_index_whose_drop_is_on_record_is_listed_no_more() {
    let world = World::new("").await;
    let part = IndexPart::of_test(1, eq_of(&["a"]));
    let collection = world.collection(vec![LiveIndex::of_test("a", doc! { "a": 1 }, vec![part])], 0);
    assert_eq!(fault(world.shared.drop_index(&collection.ns, "a").await), Some(Fault::InDoubt));
    assert!(collection.indexes().is_empty() && collection.record().indexes.is_empty());
    assert!(!collection.unrecorded.load(Ordering::SeqCst));
    assert!(catalog::all(&world.shared.local).unwrap()[0].indexes.is_empty());
    assert!(world.shared.intents.in_doubt());
}

#[tokio::test]
async fn a_collection_that_is_made_while_the_server_is_away_is_on_record_for_the_next_start() {
    let world =
        World::new("[collections.\"db.new\".fields]\nage = { operations = [\"eq\", \"range\"] }").await;
    let made = world.shared.ensure_collection(&ns("new"), &Interrupt::default()).await.err().unwrap();
    assert_eq!(made.fault, Fault::Unreachable, "the write that needs it is not recorded");
    assert!(made.message.contains("not recorded"), "{}", made.message);
    assert!(world.shared.collection(&ns("new")).is_none());
    let [record] = &catalog::all(&world.shared.local).unwrap()[..] else { panic!("one collection") };
    let names: Vec<String> = record.indexes.iter().map(|index| index.request().unwrap().name).collect();
    assert_eq!(names, ["arras_eq_age_1", "arras_range_age_1"]);
    assert!(record.indexes.iter().all(|index| index.ready), "there is nothing to fill them with");
    let keys = Bson::from(record.indexes[0].request().unwrap().key);
    assert_eq!(keys, Bson::from(doc! { "age": 1 }));
}
