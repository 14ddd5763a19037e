//! `createIndex({ _id: 1 })` gives `_id` an order.

use crate::world::{World, documents, namespace, query, request};
use arras_documents::sort::Sort;
use arras_engine::Settings;
use arras_planner::schema::Schema;
use arras_service::interrupt::Interrupt;
use arras_service::store::{IndexDefinition, Query, Store};
use bson::{Document, doc};

/// Documents in each collection here.
const COUNT: i32 = 1500;

/// The first 50 from 700 on, by `_id`.
fn scan_of_50() -> Query {
    let sort = Sort::parse(&doc! { "_id": 1 }).unwrap();
    Query { sort, limit: Some(50), ..query(doc! { "_id": { "$gte": 700 } }) }
}

async fn is_served(world: &World) -> bool {
    world.documents_read();
    let expected: Vec<i32> = (700..750).collect();
    assert_eq!(world.ids(scan_of_50()).await, expected);
    world.documents_read() < 200
}

async fn listed(world: &World) -> Vec<(String, Document)> {
    let indexes = world.engine.indexes(&namespace()).await.unwrap();
    indexes.into_iter().map(|index| (index.name, index.key)).collect()
}

fn only_the_one_on_id() -> Vec<(String, Document)> {
    vec![("_id_".to_owned(), doc! { "_id": 1 })]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_advice_for_a_scan_by_id_is_true() {
    let world = World::new().await;
    world.insert(documents(COUNT, 20)).await;
    assert!(!is_served(&world).await);
    let advice = world.engine.explain(&namespace(), scan_of_50(), &[]).await.unwrap().advice.unwrap();
    assert!(advice.starts_with("createIndex({\"_id\": 1})"), "{advice}");
    // One there was, and there is one: MongoDB says that it exists already.
    assert_eq!(world.create_index(doc! { "_id": 1 }).await.unwrap(), (1, 1));
    assert!(is_served(&world).await);
    let explained = world.engine.explain(&namespace(), scan_of_50(), &[]).await.unwrap();
    assert_eq!(explained.advice, None);
    assert_eq!(listed(&world).await, only_the_one_on_id());
    // Again, and by the keys of another driver: nothing more is made.
    assert_eq!(world.create_index(doc! { "_id": 1.0 }).await.unwrap(), (1, 1));
    assert_eq!(listed(&world).await, only_the_one_on_id());
    // What is written later is in it, and what is deleted is not.
    world.insert(vec![doc! { "_id": 700_000 }]).await;
    assert_eq!(world.delete_all(doc! { "_id": { "$lt": 1400 } }).await, 1400);
    let last = Query { sort: Sort::parse(&doc! { "_id": -1 }).unwrap(), limit: Some(2), ..query(doc! {}) };
    world.documents_read();
    assert_eq!(world.ids(last).await, [700_000, 1499]);
    assert!(world.documents_read() < 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_else_takes_the_name_or_the_key() {
    let world = World::new().await;
    world.insert(documents(3, 20)).await;
    let refused = async |request: IndexDefinition| {
        let refused =
            world.engine.create_indexes(&namespace(), vec![request], Interrupt::default()).await.unwrap_err();
        arras_mongo::error::code_of(refused.fault).0
    };
    assert_eq!(refused(request("_id_", doc! { "n": 1 })).await, 2);
    assert_eq!(refused(request("_id_", doc! { "_id": 1, "n": 1 })).await, 2);
    assert_eq!(refused(request("_id_", doc! { "_id": "hashed" })).await, 2);
    assert_eq!(refused(request("_id_-1", doc! { "_id": -1 })).await, 2);
    assert_eq!(refused(IndexDefinition { unique: true, ..request("_id_", doc! { "_id": 1 }) }).await, 197);
    assert_eq!(refused(IndexDefinition { sparse: true, ..request("_id_", doc! { "_id": 1 }) }).await, 197);
    assert_eq!(listed(&world).await, only_the_one_on_id());
    // MongoDB gives it its name, whatever the request says.
    let other = vec![request("by_id", doc! { "_id": 1 }), request("hashed", doc! { "_id": "hashed" })];
    assert_eq!(world.engine.create_indexes(&namespace(), other, Interrupt::default()).await.unwrap(), (1, 2));
    let names: Vec<String> = listed(&world).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["_id_", "hashed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_all_indexes_takes_the_order_and_leaves_the_index() {
    let world = World::new().await;
    world.insert(documents(COUNT, 20)).await;
    world.create_index(doc! { "_id": 1 }).await.unwrap();
    world.create_index(doc! { "n": 1 }).await.unwrap();
    assert!(is_served(&world).await);
    assert_eq!(
        world.engine.drop_index(&namespace(), "_id_").await.unwrap_err().fault,
        arras_service::Fault::InvalidOptions
    );
    world.engine.drop_all_indexes(&namespace()).await.unwrap();
    assert_eq!(listed(&world).await, only_the_one_on_id());
    assert!(!is_served(&world).await);
    world.create_index(doc! { "_id": 1 }).await.unwrap();
    assert!(is_served(&world).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_orders_by_id_makes_it() {
    let text = "[collections.\"d.c\".fields]\n_id = { operations = [\"range\", \"order\"] }\n";
    let schema = Schema::parse(text, "schema.toml").unwrap();
    let world = World::with(Settings { schema, ..Settings::default() }).await;
    world.insert(documents(COUNT, 20)).await;
    assert_eq!(listed(&world).await, only_the_one_on_id());
    assert!(is_served(&world).await);
    assert_eq!(world.create_index(doc! { "_id": 1 }).await.unwrap(), (1, 1));
    assert_eq!(listed(&world).await, only_the_one_on_id());
}
