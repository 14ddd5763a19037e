//! Results larger than what is held.

use crate::world::{World, documents, namespace, query};
use arras_service::store::{Cursor, Query, Store};
use bson::doc;

fn sorted(mut ids: Vec<i32>) -> Vec<i32> {
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_more_than_the_old_bound_are_read_changed_and_removed() {
    let world = World::new().await;
    for chunk in documents(130, 1 << 20).chunks(13) {
        world.insert(chunk.to_vec()).await;
    }
    let one = Query { limit: Some(1), ..query(doc! {}) };
    assert_eq!(world.ids(one).await.len(), 1);
    assert!(world.documents_read() < 30, "one document is wanted");
    assert_eq!(sorted(world.ids(query(doc! {})).await), (0..130).collect::<Vec<_>>());
    assert_eq!(world.count(doc! { "n": { "$gte": 0 } }).await, 130);
    let updated = world.update_all(doc! { "n": { "$gte": 0 } }, doc! { "$inc": { "n": 1 } }).await;
    assert_eq!((updated.matched, updated.modified), (130, 130));
    assert_eq!(world.count(doc! { "n": 10 }).await, 13);
    assert_eq!(world.count(doc! { "n": 0 }).await, 0);
    assert_eq!(world.delete_all(doc! {}).await, 130);
    assert!(world.ids(query(doc! {})).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_result_is_in_insertion_order_through_all_its_batches() {
    let world = World::new().await;
    let inserted = documents(3001, 200);
    let order: Vec<i32> = inserted.iter().map(|document| document.get_i32("_id").unwrap()).collect();
    world.insert(inserted).await;
    assert_eq!(world.ids(query(doc! {})).await, order);
    let of_filter: Vec<i32> = order.iter().copied().skip(3).step_by(10).collect();
    assert_eq!(world.ids(query(doc! { "n": 3 })).await, of_filter);
    world.create_index(doc! { "n": 1 }).await.unwrap();
    assert_eq!(world.ids(query(doc! { "n": 3 })).await, of_filter);
    let part = Query { skip: 5, limit: Some(20), ..query(doc! { "n": 3 }) };
    // A part of it reads no more than it must, and comes as it may.
    let part = sorted(world.ids(part).await);
    assert!(part.len() == 20 && part.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(part.iter().all(|id| of_filter.contains(id)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_waits_holds_no_documents_without_a_share() {
    let world = World::new().await;
    world.insert(documents(2000, 800)).await;
    // Ten times what all cursors together may hold.
    let mut cursors = Vec::new();
    for _ in 0..100 {
        let mut cursor = world.cursor(query(doc! {})).await;
        assert_eq!(cursor.next_batch(101, 16 << 20).await.unwrap().len(), 101);
        cursors.push(cursor);
    }
    world.documents_read();
    let (mut held, mut read_again) = (0, 0);
    for cursor in &mut cursors {
        let batch = cursor.next_batch(1000, 16 << 20).await.unwrap();
        assert_eq!(batch.len(), 1000);
        match world.documents_read() {
            0 => held += 1,
            _ => read_again += 1,
        }
    }
    assert!(held > 0, "the first ones had a share");
    assert!(read_again > 50, "{held} of 100 cursors kept their documents");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_query_without_filter_reads_its_limit() {
    let world = World::new().await;
    world.insert(documents(5000, 20)).await;
    let one = Query { limit: Some(1), ..query(doc! {}) };
    assert_eq!(world.ids(one).await.len(), 1);
    assert_eq!(world.documents_read(), 1);
    let some = Query { limit: Some(40), skip: 2, ..query(doc! {}) };
    let ids = sorted(world.ids(some).await);
    assert_eq!(ids.len(), 40);
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "each once");
    assert_eq!(world.documents_read(), 42);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_while_a_cursor_waits_is_met_as_it_is_then() {
    let world = World::new().await;
    world.insert(documents(2000, 40_000)).await;
    let mut cursor = world.cursor(query(doc! { "n": { "$lte": 9 } })).await;
    let mut met: Vec<i32> = Vec::new();
    let first = cursor.next_batch(50, 16 << 20).await.unwrap();
    met.extend(first.iter().map(|document| document.get_i32("_id").unwrap()));
    let gone = world.delete_all(doc! { "n": 4 }).await;
    assert_eq!(gone, 200);
    world.update_all(doc! { "n": 5 }, doc! { "$set": { "n": 50 } }).await;
    loop {
        let batch = cursor.next_batch(1000, 16 << 20).await.unwrap();
        if batch.is_empty() {
            break;
        }
        met.extend(batch.iter().map(|document| document.get_i32("_id").unwrap()));
    }
    let whole = met.len();
    let met = sorted(met);
    assert!(met.windows(2).all(|pair| pair[0] < pair[1]), "each once");
    // Every document that matched all the time.
    let left = world.ids(query(doc! { "n": { "$lte": 9 } })).await;
    assert!(left.iter().all(|id| met.binary_search(id).is_ok()));
    assert!(whole < 2000, "documents that are gone do not come back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sort_with_a_limit_holds_its_limit() {
    let world = World::new().await;
    for chunk in documents(130, 1 << 20).chunks(13) {
        world.insert(chunk.to_vec()).await;
    }
    let sort = arras_documents::sort::Sort::parse(&doc! { "_id": -1 }).unwrap();
    let top = Query { sort, limit: Some(3), ..query(doc! {}) };
    assert_eq!(world.ids(top).await, [129, 128, 127]);
    assert_eq!(world.engine.size(&namespace()).await.unwrap().document_count, 130);
}
