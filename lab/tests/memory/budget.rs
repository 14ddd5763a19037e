//! What queries hold is of one budget, whatever they hold it for.

use crate::world::{World, documents, namespace, query};
use arras_documents::sort::Sort;
use arras_engine::Settings;
use arras_service::store::{Cursor, Query, Store};
use bson::doc;

/// A quarter of it is for what is held from one step to the next.
const MEMORY_BYTES: usize = 16 << 20;

async fn world(memory_bytes: usize) -> World {
    World::with(Settings { memory_bytes, ..Settings::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_whose_names_are_beyond_the_budget_are_changed_and_removed_all_the_same() {
    let world = world(2 << 20).await;
    let all = documents(40_000, 1);
    for chunk in all.chunks(4000) {
        world.insert(chunk.to_vec()).await;
    }
    // By an index and by a scan, 640 kB of names, of 512 KiB. What is changed is met again by neither.
    world.create_index(doc! { "n": 1 }).await.unwrap();
    for filter in [doc! { "n": { "$gte": 0 } }, doc! {}] {
        assert_eq!(world.update_all(filter, doc! { "$inc": { "n": 1 } }).await.modified, 40_000);
        assert_eq!(world.engine.held_bytes(), 0);
    }
    assert_eq!(world.count(doc! { "n": { "$gte": 2 } }).await, 40_000);
    assert_eq!(world.count(doc! { "n": 11 }).await, 4000);
    assert_eq!(world.delete_all(doc! { "n": { "$gte": 3 } }).await, 36_000);
    assert_eq!(world.delete_all(doc! {}).await, 4000);
    assert_eq!((world.count(doc! {}).await, world.engine.held_bytes()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_that_wait_stay_within_the_budget_together() {
    let world = world(MEMORY_BYTES).await;
    for chunk in documents(3000, 1500).chunks(500) {
        world.insert(chunk.to_vec()).await;
    }
    world.create_index(doc! { "n": 1 }).await.unwrap();
    world.create_index(doc! { "_id": 1 }).await.unwrap();
    let sorted = |field: &str, limit| {
        let sort = Sort::parse(&doc! { field: 1 }).unwrap();
        Query { sort, limit, ..query(doc! {}) }
    };
    let of_filter = || query(doc! { "n": { "$lt": 9 } });
    let queries =
        [query(doc! {}), of_filter(), sorted("_id", None), sorted("_id", Some(900)), query(doc! {})];
    let mut cursors = Vec::new();
    for number in 0..30 {
        let mut cursor = world.cursor(queries[number % queries.len()].clone()).await;
        let batch = cursor.next_batch(101, 100_000).await.unwrap();
        assert!((2..101).contains(&batch.len()), "{} documents", batch.len());
        assert!(world.engine.held_bytes() <= MEMORY_BYTES / 4);
        cursors.push((cursor, batch.len()));
    }
    assert!(world.engine.held_bytes() > 0, "some hold what they can");
    let mut counts = Vec::new();
    for (mut cursor, mut count) in cursors {
        loop {
            let batch = cursor.next_batch(1000, 1 << 20).await.unwrap();
            assert!(world.engine.held_bytes() <= MEMORY_BYTES / 4);
            if batch.is_empty() {
                break;
            }
            count += batch.len();
        }
        counts.push(count);
    }
    assert_eq!(counts, [3000, 2700, 3000, 900, 3000].repeat(6));
    assert_eq!(world.engine.held_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_run_of_equal_keys_no_more_is_held_than_is_wanted() {
    let world = world(MEMORY_BYTES).await;
    for chunk in documents(3000, 4000).chunks(500) {
        let mut chunk = chunk.to_vec();
        chunk.iter_mut().for_each(|document| drop(document.insert("same", 1)));
        world.insert(chunk).await;
    }
    world.create_index(doc! { "same": 1 }).await.unwrap();
    let sort = Sort::parse(&doc! { "same": 1, "_id": -1 }).unwrap();
    let top = Query { sort, limit: Some(3), skip: 1, ..query(doc! {}) };
    // Twelve megabytes are of the first key, of which the budget has no room for one third.
    assert_eq!(world.ids(top).await, [2998, 2997, 2996]);
    assert_eq!(world.engine.indexes(&namespace()).await.unwrap().len(), 2);
}
