//! What queries read: as many documents as they must, by whatever index reads fewest.

use crate::world::{World, namespace, run};
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_documents::update::{ArrayFilters, Update};
use arras_service::examined::{Tally, counted};
use arras_service::interrupt::Interrupt;
use arras_service::store::{Cursor, IndexDefinition, Query, Store, UpdateStatement};
use bson::{Bson, Document, doc};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const DOCUMENTS: i32 = 1500;
/// Each document has so many bytes and more.
const PADDING: usize = 1000;

/// One value of `email` each, one of `country` for 98 %, 40 of `a`, all of `b`.
fn document(id: i32) -> Document {
    let country = if id % 50 == 0 { "LI" } else { "CH" };
    let padding = "x".repeat(PADDING);
    doc! { "_id": id, "email": format!("{id}@x"), "country": country, "a": id % 40, "b": id * 7919 % 10_007, "p": padding }
}

async fn filled(indexes: &[&str]) -> World {
    let world = World::new(1 << 20, 16 << 20).await;
    world.insert((0..DOCUMENTS).map(document).collect()).await.expect("documents");
    for fields in indexes {
        world
            .create_index(fields.split(' ').map(|field| (field.to_owned(), Bson::Int32(1))).collect())
            .await
            .expect("an index");
    }
    world
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

/// What a query finds, and about how many documents came for it.
async fn find(world: &World, filter: Document, sort: Document, limit: Option<u64>) -> (Vec<Document>, usize) {
    let before = world.channel.received.load(Ordering::SeqCst);
    let mut cursor = world.engine.find(&namespace(), query(&filter, &sort, limit)).await.expect("a cursor");
    let found = cursor.next_batch(usize::MAX, usize::MAX).await.expect("documents");
    (found, (world.channel.received.load(Ordering::SeqCst) - before) / PADDING)
}

async fn count(world: &World, filter: Document) -> (u64, usize) {
    let before = world.channel.received.load(Ordering::SeqCst);
    let counted = world.engine.count(&namespace(), query(&filter, &doc! {}, None)).await.expect("a count");
    (counted, (world.channel.received.load(Ordering::SeqCst) - before) / PADDING)
}

#[test]
fn a_rare_value_is_looked_up_and_not_a_frequent_one() {
    run(async {
        for indexes in [["email", "country"], ["country", "email"]] {
            let world = filled(&indexes).await;
            let (found, read) = find(&world, doc! { "email": "77@x", "country": "CH" }, doc! {}, None).await;
            assert_eq!((found.len(), read), (1, 1), "{indexes:?}");
        }
    });
}

#[test]
fn a_narrow_range_is_read_and_not_a_frequent_value() {
    run(async {
        let world = filled(&["country", "b"]).await;
        let filter = doc! { "country": "CH", "b": { "$gte": 100, "$lt": 200 } };
        let (found, read) = find(&world, filter, doc! {}, None).await;
        let expected = (0..DOCUMENTS).map(document).filter(|document| {
            let b = document.get_i32("b").expect("a number");
            (100..200).contains(&b) && document.get_str("country").is_ok_and(|country| country == "CH")
        });
        let expected = expected.count();
        assert!(found.len() == expected && read <= 3 * expected + 10, "{read} read for {expected}");
    });
}

#[test]
fn a_limited_query_or_update_reads_its_limit() {
    run(async {
        let world = filled(&["country"]).await;
        let (found, read) = find(&world, doc! { "country": "CH" }, doc! {}, Some(10)).await;
        assert!(found.len() == 10 && read < 60, "{read}");
        let before = world.channel.received.load(Ordering::SeqCst);
        let statement = UpdateStatement {
            filter: Filter::parse(&doc! { "country": "CH" }).expect("a filter"),
            update: Update::parse(&Bson::Document(doc! { "$set": { "n": 1 } })).expect("an update"),
            hint: None,
            array_filters: ArrayFilters::default(),
            multi: false,
            upsert: None,
            interrupt: Default::default(),
        };
        let updated = world.engine.update(&namespace(), statement).await.expect("an update");
        let read = (world.channel.received.load(Ordering::SeqCst) - before) / PADDING;
        assert!(updated.modified == 1 && read < 60, "{read}");
    });
}

#[test]
fn a_limited_query_for_what_most_documents_have_reads_no_index() {
    run(async {
        let world = filled(&["country"]).await;
        let query = query(&doc! { "country": "CH" }, &doc! {}, Some(10));
        let (tally, ns) = (Arc::new(Tally::default()), namespace());
        let opened = counted(Some(Arc::clone(&tally)), world.engine.find(&ns, query.clone()));
        let mut cursor = opened.await.expect("a cursor");
        let batch = counted(Some(Arc::clone(&tally)), cursor.next_batch(usize::MAX, usize::MAX)).await;
        assert_eq!(batch.expect("documents").len(), 10);
        // Not the names of the 1,470 documents that have the value.
        assert!(tally.entries() == 0 && tally.documents() < 20, "{tally:?}");
        let explanation = world.engine.explain(&namespace(), query, &[]).await.expect("a plan");
        assert!(explanation.scan && explanation.advice.is_none(), "{explanation}");
        let rare = Query { limit: Some(10), ..self::query(&doc! { "country": "LI" }, &doc! {}, None) };
        assert!(!world.engine.explain(&namespace(), rare, &[]).await.expect("a plan").scan);
    });
}

#[test]
fn counts_read_no_document() {
    run(async {
        let world = filled(&["country", "b"]).await;
        assert_eq!(count(&world, doc! { "country": "CH" }).await, (1470, 0));
        let (counted, read) = count(&world, doc! { "b": { "$gte": 0 } }).await;
        assert!(counted == 1500 && read < 150, "{read}: keys only");
        assert_eq!(count(&world, doc! { "country": { "$in": ["CH", "LI", "CH"] } }).await, (1500, 0));
        let (counted, read) = count(&world, doc! { "country": "CH", "a": 3 }).await;
        assert!(counted > 30 && read >= 1470, "what no index knows is looked at");
    });
}

#[test]
fn values_with_an_order_are_read_side_by_side() {
    run(async {
        let world = filled(&["a b"]).await;
        for (direction, limit) in [(1, 10), (-1, 10), (1, 100)] {
            let filter = doc! { "a": { "$in": [3, 17, 29] } };
            let (found, read) = find(&world, filter, doc! { "b": direction }, Some(limit)).await;
            let mut expected: Vec<i32> = (0..DOCUMENTS)
                .filter(|id| [3, 17, 29].contains(&(id % 40)))
                .map(|id| document(id).get_i32("b").expect("a number"))
                .collect();
            expected.sort_by_key(|b| b * direction);
            expected.truncate(limit as usize);
            let found: Vec<i32> = found.iter().map(|d| d.get_i32("b").expect("a number")).collect();
            assert_eq!(found, expected);
            assert!(limit > 10 || read < 80, "{read} read for {limit}");
        }
    });
}

/// About how many documents come for 64 values of a field and for 65, under fresh keys.
async fn read_for_one_value_more() -> [usize; 2] {
    let world = filled(&["a b"]).await;
    let mut reads = [0; 2];
    for (values, read) in [64, 65].into_iter().zip(&mut reads) {
        let wanted: Vec<i32> = (0..values).collect();
        let filter = doc! { "a": { "$in": wanted }, "b": { "$gte": 0, "$lt": 500 } };
        *read = find(&world, filter, doc! {}, None).await.1;
    }
    reads
}

/// Under most keys: what an index of ranges can say of its entries is drawn with them.
#[test]
fn one_value_more_reads_hardly_more() {
    run(async {
        let mut reads = Vec::new();
        for _ in 0..5 {
            reads.push(read_for_one_value_more().await);
        }
        let is_hardly_more = |[one, more]: &&[usize; 2]| *more < 600 && more * 5 <= one * 6 + 25;
        assert!(reads.iter().filter(is_hardly_more).count() >= 3, "{reads:?}");
    });
}

/// Indexes of orders that cannot say what they hold, on `a` and on `b`.
async fn ordered(order: &str, fields: [&str; 2]) -> World {
    let world = filled(&[]).await;
    for field in fields {
        let own = doc! { "arras": { "order": order, "operations": ["range"] } };
        let request = IndexDefinition {
            name: format!("{field}_1"),
            key: doc! { field: 1 },
            unique: false,
            sparse: false,
            options: doc! { "storageEngine": own },
        };
        let made = world.engine.create_indexes(&namespace(), vec![request], Interrupt::default()).await;
        made.expect("an index");
    }
    world
}

/// How many documents a query is taken to read.
async fn estimated(world: &World, filter: Document) -> u64 {
    let query = query(&filter, &doc! {}, None);
    let explanation = world.engine.explain(&namespace(), query, &[]).await.expect("a plan");
    explanation.cost.documents
}

#[test]
fn every_order_is_planned_by_what_its_field_holds() {
    run(async {
        for order in ["pope", "bplus_lewi_wu", "mope"] {
            for fields in [["a", "b"], ["b", "a"]] {
                let world = ordered(order, fields).await;
                // All but a few documents, and about 15 of them.
                let filter = doc! { "a": { "$gte": 0, "$lt": 39 }, "b": { "$gte": 100, "$lt": 200 } };
                let expected = (0..DOCUMENTS).filter(|id| (100..200).contains(&(id * 7919 % 10_007))).count();
                let planned = estimated(&world, filter.clone()).await;
                assert!(planned <= 60, "{order}, {fields:?}: {planned} for {expected}");
                let tally = Arc::new(Tally::default());
                let found = counted(Some(Arc::clone(&tally)), find(&world, filter, doc! {}, None)).await;
                assert!(!found.0.is_empty() && found.0.len() <= expected);
                assert_eq!(tally.documents(), expected as u64, "{order}, {fields:?}");
                // Equality, too: a value of 40.
                let equal = estimated(&world, doc! { "a": 7 }).await;
                assert!((12..=120).contains(&equal), "{order}: {equal}");
                // What is written counts: the few are most now.
                let moved = UpdateStatement {
                    filter: Filter::parse(&doc! {}).expect("a filter"),
                    update: Update::parse(&Bson::Document(doc! { "$set": { "a": 39 } })).expect("an update"),
                    hint: None,
                    array_filters: ArrayFilters::default(),
                    multi: true,
                    upsert: None,
                    interrupt: Interrupt::default(),
                };
                world.engine.update(&namespace(), moved).await.expect("an update");
                assert!(estimated(&world, doc! { "a": { "$gte": 0, "$lt": 39 } }).await < 40, "{order}");
                assert_eq!(estimated(&world, doc! { "a": 39 }).await, DOCUMENTS as u64, "{order}");
            }
        }
    });
}
