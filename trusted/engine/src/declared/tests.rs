//! Which indexes are there, called for and left, whatever is made and dropped.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::index::tests::{eq_of, range_of, unique_of};
use crate::tests::{World, ns, randomly};
use arras_planner::kinds::{Availability, of_orders};
use arras_protocol::IndexId;
use arras_storage::{Durability, Memory};
use bson::{Document, doc};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use std::collections::BTreeSet;

/// Schemas of `db.c` that declare nothing, queries, a constraint.
const SCHEMAS: [&str; 3] = [
    "",
    "[collections.\"db.c\"]\nindexes = [[\"a\", \"b\"]]\n[collections.\"db.c\".fields]\n\
     a = { operations = [\"eq\", \"range\"] }\nc = { unique = true }\n\
     [[collections.\"db.c\".patterns]]\nname = \"both\"\neq = [\"a\"]\nrange = [\"b\"]\n",
    "[collections.\"db.c\".fields]\na = { unique = true }\nb = { type = \"int32\" }\n",
];

async fn worlds() -> [World; 3] {
    let [first, second, third] = SCHEMAS.map(World::new);
    [first.await, second.await, third.await]
}

/// An index as an application may ask for it.
fn asked(rng: &mut StdRng, number: usize) -> IndexDefinition {
    let mut fields = vec!["a", "b", "c"];
    fields.shuffle(rng);
    fields.truncate(rng.random_range(1..4));
    let hashed = rng.random_range(0..6) == 0;
    let kind = |_| if hashed { Bson::String("hashed".into()) } else { Bson::Int32(1) };
    let key: Document = fields.iter().map(|field| ((*field).to_owned(), kind(field))).collect();
    let few = |rng: &mut StdRng| rng.random_range(0..5) == 0;
    let (unique, sparse) = (few(rng) && !hashed, few(rng));
    let wishes = ["eq", "range", "order"].choose(rng).unwrap();
    let options = match rng.random_range(0..4) {
        0 if !hashed => doc! { "storageEngine": { "arras": { "operations": [*wishes] } } },
        _ => Document::new(),
    };
    IndexDefinition { name: format!("index {number}"), key, unique, sparse, options }
}

/// Makes an index as `createIndexes` does.
fn make(collection: &Collection, schema: &Schema, request: &IndexDefinition, next: &mut u8) {
    let wanted = wanted(&collection.ns, request, schema).unwrap();
    let part = |physical| {
        *next += 1;
        let part = IndexPart::of_test(*next, physical);
        if request.sparse { part.sparse() } else { part }
    };
    let parts = missing(collection, wanted, request.sparse).into_iter().map(part).collect();
    let index = LiveIndex { request: request.clone(), ..LiveIndex::of_test("", doc! {}, parts) };
    let indexes = collection.indexes();
    collection.set_indexes(indexes.iter().cloned().chain([Arc::new(index)]).collect());
}

fn ids(collection: &Collection) -> BTreeSet<IndexId> {
    collection.parts().iter().map(|part| part.id).collect()
}

#[tokio::test]
async fn what_an_index_serves_stays_when_others_are_dropped_and_goes_with_the_last_that_needs_it() {
    let (mut rng, worlds) = (randomly(), worlds().await);
    for turn in 0..600 {
        let world = &worlds[turn % worlds.len()];
        let schema = &world.shared.settings.schema;
        let (collection, mut next) = (world.collection(Vec::new(), 0), 0);
        for number in 0..rng.random_range(1..7) {
            make(&collection, schema, &asked(&mut rng, number), &mut next);
        }
        assert_eq!(ids(&collection).len(), usize::from(next));
        while !collection.indexes().is_empty() {
            let position = rng.random_range(0..collection.indexes().len());
            let (before, dropped) = (ids(&collection), collection.indexes()[position].request.name.clone());
            collection.set_indexes(without(&collection, position, schema));
            let parts = collection.parts();
            assert_eq!(parts.len(), ids(&collection).len(), "no part is two indexes'");
            assert!(ids(&collection).is_subset(&before));
            for index in collection.indexes().iter() {
                assert_ne!(index.request.name, dropped);
                let wanted = wanted(&collection.ns, &index.request, schema).unwrap();
                let lacking = missing(&collection, wanted.clone(), index.request.sparse);
                assert!(lacking.is_empty(), "{:?} lacks {lacking:?}", index.request);
                for part in &index.parts {
                    let alone = std::iter::once((&part.physical, part.sparse));
                    let served = request::missing(wanted.clone(), index.request.sparse, alone);
                    assert!(served.len() < wanted.len(), "{:?} keeps {}", index.request, part.physical);
                }
            }
        }
        assert!(ids(&collection).is_empty());
    }
}

#[tokio::test]
async fn an_index_that_is_none_of_them_is_not_dropped() {
    let world = World::new("").await;
    let index = LiveIndex::of_test("a_1", doc! { "a": 1 }, vec![IndexPart::of_test(1, eq_of(&["a"]))]);
    let collection = world.collection(vec![index], 0);
    assert_eq!(without(&collection, 1, &world.shared.settings.schema).len(), 1);
}

/// Every kind of index that a schema makes.
fn kinds() -> Vec<PhysicalIndex> {
    let mut kinds =
        vec![unique_of(&["a"]), eq_of(&["a"]), eq_of(&["a", "b"]), eq_of(&["b", "a"]), eq_of(&["a.b"])];
    kinds.extend([range_of(&["a"]), range_of(&["a", "b"]), range_of(&["b"]), range_of(&["_id"])]);
    kinds.extend([
        eq_of(&["a_1_b"]),
        eq_of(&["a_1", "b"]),
        eq_of(&["a", "1_b"]),
        eq_of(&["a_~1_b"]),
        eq_of(&["a_", "_1"]),
    ]);
    for protocol in of_orders() {
        if matches!(protocol.kind().availability, Availability::Refused(_)) {
            continue;
        }
        let PhysicalIndex::Range { equal, range, width, typed, aggregates, .. } = range_of(&["c"]) else {
            unreachable!()
        };
        kinds.push(PhysicalIndex::Range { protocol, equal, range, width, typed, aggregates });
    }
    kinds
}

#[test]
fn indexes_that_a_schema_makes_have_names_of_their_own_and_are_known_by_them() {
    let names: BTreeSet<String> = kinds().iter().map(|kind| request(kind).name).collect();
    assert_eq!(names.len(), kinds().len(), "{names:?}");
    for physical in kinds() {
        let made = request(&physical);
        assert_eq!(made.unique, matches!(physical, PhysicalIndex::Unique { .. }));
        assert_eq!(made.key.keys().map(String::as_str).collect::<Vec<_>>(), physical.fields());
        assert_eq!(made.name == ID_INDEX, physical.fields() == ["_id"]);
        let part = IndexPart::of_test(1, physical.clone());
        let of_schema =
            |request| LiveIndex { request, ..LiveIndex::of_test("", doc! {}, vec![Arc::clone(&part)]) };
        assert!(is_declared(&of_schema(made.clone())), "{made:?}");
        assert!(!is_declared(&of_schema(IndexDefinition { name: "other".into(), ..made.clone() })));
        assert!(!is_declared(&of_schema(IndexDefinition { sparse: true, ..made.clone() })));
        assert!(!is_declared(&LiveIndex::of_test(&made.name, made.key.clone(), Vec::new())));
    }
}

#[tokio::test]
async fn one_that_is_being_filled_stands_for_nothing_yet() {
    let world = World::new("").await;
    let index =
        LiveIndex::of_test("a_1", doc! { "a": 1 }, vec![IndexPart::of_test(1, range_of(&["a", "b"]))]);
    let collection = world.collection(vec![index], 0);
    let lacking = |sparse| missing(&collection, vec![range_of(&["a"]), eq_of(&["a"])], sparse);
    assert_eq!(lacking(false), [eq_of(&["a"])]);
    assert_eq!(lacking(true), [eq_of(&["a"])], "what holds more finds all the same");
    collection.indexes()[0].ready.store(false, Ordering::SeqCst);
    assert_eq!(lacking(false), [range_of(&["a"]), eq_of(&["a"])]);
}

#[tokio::test]
async fn an_order_that_is_there_by_one_protocol_is_refused_by_another() {
    let world = World::new("").await;
    let there = LiveIndex::of_test("there", doc! { "c": 1 }, vec![IndexPart::of_test(1, range_of(&["c"]))]);
    let collection = world.collection(vec![there], 0);
    let (mut kept, mut refused) = (0, 0);
    for physical in kinds() {
        let outcome = kept_protocol(&collection, std::slice::from_ref(&physical));
        let by_other = physical.fields() == ["c"] && !physical.implies(&range_of(&["c"]));
        assert_eq!(outcome.is_err(), by_other, "{physical}");
        match outcome {
            Ok(()) => kept += 1,
            Err(error) => {
                refused += 1;
                assert_eq!(error.fault, Fault::IndexOptionsConflict);
                assert!(error.message.contains("'there'") && error.message.contains(physical.kind().name));
            }
        }
    }
    assert!(kept > 5 && refused > 3, "{kept} {refused}");
}

#[tokio::test]
async fn what_the_store_lacks_of_a_schema_is_what_the_running_engine_calls_for() {
    let (mut rng, worlds) = (randomly(), worlds().await);
    let mut lacking = 0;
    for turn in 0..200 {
        let world = &worlds[turn % worlds.len()];
        let schema = &world.shared.settings.schema;
        let (collection, mut next) = (world.collection(Vec::new(), 0), 0);
        let declared = schema.collection("db", "c").map(physical_indexes).unwrap_or_default();
        let mut indexes = Vec::new();
        for physical in declared.iter().filter(|_| rng.random()) {
            next += 1;
            let request = request(physical);
            let parts = vec![IndexPart::of_test(next, physical.clone())];
            indexes.push(Arc::new(LiveIndex { request, ..LiveIndex::of_test("", doc! {}, parts) }));
        }
        collection.set_indexes(indexes);
        for number in 0..rng.random_range(0..3) {
            // Made under another schema, perhaps, or none.
            let other = if rng.random() { schema.clone() } else { Schema::default() };
            make(&collection, &other, &asked(&mut rng, number), &mut next);
        }
        for index in collection.indexes().iter() {
            // What is being filled is as if it were not there, and is asked for by nobody.
            index.ready.store(true, Ordering::SeqCst);
        }
        let record = catalog::record(&world.shared.local, &collection.record());
        world.shared.local.apply(&[record], Durability::Relaxed).unwrap();
        let mut found: Vec<String> = Vec::new();
        for difference in differences(&world.shared.local, schema).unwrap() {
            match difference {
                Difference::Lacking { ns: of, index } => {
                    assert_eq!(of, ns("c"));
                    found.push(index.to_string());
                }
                Difference::OtherProtocol { .. } | Difference::Left { .. } => panic!("{difference:?}"),
            }
        }
        let mut called_for: Vec<String> =
            world.shared.called_for(&collection).iter().map(ToString::to_string).collect();
        found.sort();
        called_for.sort();
        assert_eq!(found, called_for);
        lacking += found.len();
    }
    assert!(lacking > 50, "{lacking}");
}

#[tokio::test]
async fn what_an_earlier_schema_made_and_this_one_does_not_call_for_is_left() {
    let world = World::new(SCHEMAS[1]).await;
    let declared = physical_indexes(world.shared.settings.schema.collection("db", "c").unwrap());
    let made = (1..).zip(&declared).map(|(name, physical)| {
        let request = request(physical);
        LiveIndex {
            request,
            ..LiveIndex::of_test("", doc! {}, vec![IndexPart::of_test(name, physical.clone())])
        }
    });
    let of_application = LiveIndex::of_test("a_1", doc! { "a": 1 }, Vec::new());
    let collection = world.collection(made.chain([of_application]).collect(), 0);
    let record = catalog::record(&world.shared.local, &collection.record());
    world.shared.local.apply(&[record], Durability::Relaxed).unwrap();
    let left = |schema: &str| -> BTreeSet<String> {
        let schema = Schema::parse(schema, "schema").unwrap();
        let of = |difference| match difference {
            Difference::Left { name, .. } => Some(name),
            Difference::Lacking { .. } | Difference::OtherProtocol { .. } => None,
        };
        differences(&world.shared.local, &schema).unwrap().into_iter().filter_map(of).collect()
    };
    assert_eq!(left(SCHEMAS[1]), BTreeSet::new());
    assert_eq!(left(""), declared.iter().map(|physical| request(physical).name).collect());
    let less = "[collections.\"db.c\".fields]\na = { operations = [\"eq\"] }\nc = { unique = true }\n";
    let expected = left("").into_iter().filter(|name| name != "arras_eq_a_1" && name != "arras_unique_c_1");
    assert_eq!(left(less), expected.collect());
}

#[tokio::test]
async fn what_a_schema_calls_for_and_cannot_be_made_for_now_is_tried_again() {
    let world = World::new(SCHEMAS[1]).await;
    let engine: Engine<Memory, _> = Engine { shared: Arc::clone(&world.shared) };
    assert!(engine.lacking().is_empty() && engine.apply_schema().await.is_empty(), "nothing is there");
    let collection = world.collection(Vec::new(), 0);
    let lacking = engine.lacking();
    assert!(lacking.len() > 2 && lacking.iter().all(|(of, _)| *of == collection.ns));
    let unmet = engine.apply_schema().await;
    assert_eq!(
        unmet.iter().map(|unmet| &unmet.index).collect::<Vec<_>>(),
        lacking.iter().map(|(_, index)| index).collect::<Vec<_>>()
    );
    assert!(unmet.iter().all(|unmet| unmet.transient && unmet.ns == collection.ns), "the server is away");
    assert!(collection.indexes().is_empty());
}

#[tokio::test]
async fn documents_keep_to_what_is_declared_of_them_unless_they_stay_as_they_were() {
    let world = World::new(SCHEMAS[2]).await;
    let collection = world.collection(Vec::new(), 0);
    let misfit = |old: Option<Document>, new: Option<Document>| {
        let row = collection.sealer.row_id(&Bson::Int32(1));
        let open = |document| OpenDocument {
            row,
            version: [0; 8],
            sequence: 0,
            terms: arras_records::IndexTerms::default(),
            document,
            bytes: 10,
        };
        let new = new.map(|new| arras_documents::limits::Measured::new(new).unwrap());
        let revision = Revision { row, sequence: 0, old: old.map(open), new };
        world.shared.misfit(&collection, &revision).map(|error| error.fault)
    };
    let (fits, other) = (doc! { "_id": 1, "b": 5 }, doc! { "_id": 1, "b": "five" });
    assert_eq!(misfit(None, Some(fits.clone())), None);
    assert_eq!(misfit(None, Some(other.clone())), Some(Fault::Validation));
    assert_eq!(misfit(Some(fits.clone()), Some(other.clone())), Some(Fault::Validation));
    // It was not written under this schema, and may stay and go.
    assert_eq!(misfit(Some(other.clone()), Some(other.clone())), None);
    assert_eq!(misfit(Some(other.clone()), None), None);
    assert_eq!(misfit(Some(other.clone()), Some(fits)), None);
    assert_eq!(misfit(Some(other), Some(doc! { "_id": 1, "b": "six" })), Some(Fault::Validation));
}

/// What a schema made is what it is: another of its indexes on the field is not handed over to it.
#[tokio::test]
async fn an_index_that_a_schema_made_takes_nothing_over_from_another() {
    for schema in ["", "[collections.\"db.c\".fields]\na = { operations = [\"eq\", \"range\"] }\n"] {
        let world = World::new(schema).await;
        let made = [eq_of(&["a"]), range_of(&["a"])].map(|physical| {
            let request = request(&physical);
            LiveIndex { request, ..LiveIndex::of_test("", doc! {}, vec![IndexPart::of_test(1, physical)]) }
        });
        let collection = world.collection(made.into_iter().collect(), 0);
        let left = without(&collection, 1, &world.shared.settings.schema);
        assert_eq!(left.iter().map(|index| index.parts.len()).collect::<Vec<_>>(), [1], "under {schema:?}");
    }
}

/// A schema that came later may refuse what an index of the application asked for: it keeps what it relies on.
#[tokio::test]
async fn an_index_that_a_later_schema_refuses_keeps_what_it_relies_on() {
    let before = World::new("").await;
    let (collection, mut next) = (before.collection(Vec::new(), 0), 0);
    for key in [doc! { "a": 1, "b": 1, "c": 1 }, doc! { "a": 1, "b": 1 }] {
        let name = format!("{key}");
        let request = IndexDefinition { name, key, unique: false, sparse: false, options: Document::new() };
        make(&collection, &before.shared.settings.schema, &request, &mut next);
    }
    let kept = |schema: &Schema| without(&collection, 0, schema).first().unwrap().parts.len();
    let expected = kept(&before.shared.settings.schema);
    assert!(expected > 0);
    let later = "[collections.\"db.c\".fields]\nb = { type = \"int32\", order = \"pope\" }\n";
    assert_eq!(kept(&Schema::parse(later, "schema").unwrap()), expected);
}
