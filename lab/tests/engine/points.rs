//! Reads of one document by its `_id`, which are neither planned nor decoded on their way.

use crate::world::{World, namespace, run};
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_service::store::{Cursor, Fetched, Query, Store};
use bson::{Bson, Document, RawDocumentBuf, doc};
use std::sync::atomic::Ordering;

fn query(filter: &Document, skip: u64) -> Query {
    Query {
        filter: Filter::parse(filter).expect("a filter"),
        sort: Sort::default(),
        skip,
        limit: None,
        hint: None,
        allow_disk_use: true,
    }
}

/// What a cursor hands out of a query, to be handed on, until its end.
async fn fetched(world: &World, query: Query) -> Vec<Fetched> {
    let mut cursor = world.engine.find(&namespace(), query).await.expect("a cursor");
    let mut found = Vec::new();
    loop {
        let more = cursor.next_fetched(10, 1 << 20).await.expect("documents");
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

#[test]
fn a_document_by_its_id_is_handed_on_as_it_was_stored() {
    run(async {
        let world = World::new(1 << 20, 1 << 24).await;
        let nested =
            doc! { "list": [1, { "": Bson::Null }, "three"], "date": bson::DateTime::from_millis(7) };
        let documents = [
            doc! { "_id": 1, "name": "Ada", "nested": nested.clone() },
            doc! { "_id": "one" },
            doc! { "late": 2.5, "_id": nested, "": true },
        ];
        world.insert(documents.to_vec()).await.expect("inserts");
        for with_order in [false, true] {
            if with_order {
                world.create_index(doc! { "_id": 1 }).await.expect("an order");
            }
            for document in &documents {
                let id = document.get("_id").expect("an id");
                let encoded = Fetched::Encoded(RawDocumentBuf::try_from(document).expect("BSON"));
                let before = world.channel.requests.load(Ordering::SeqCst);
                assert_eq!(fetched(&world, query(&doc! { "_id": id.clone() }, 0)).await, [encoded]);
                assert_eq!(world.channel.requests.load(Ordering::SeqCst), before + 1, "one row is asked for");
                let passed_over = fetched(&world, query(&doc! { "_id": id.clone() }, 1)).await;
                assert!(passed_over.is_empty());
                let mut cursor = world
                    .engine
                    .find(&namespace(), query(&doc! { "_id": id.clone() }, 0))
                    .await
                    .expect("a cursor");
                let decoded = cursor.next_batch(10, 1 << 20).await.expect("documents");
                assert_eq!(decoded, std::slice::from_ref(document));
            }
            // Numbers that are equal are one `_id`.
            let found = fetched(&world, query(&doc! { "_id": 1.0 }, 0)).await;
            assert_eq!(found.len(), 1);
            for absent in [doc! { "_id": 2 }, doc! { "_id": "two" }, doc! { "_id": { "list": 1 } }] {
                assert!(fetched(&world, query(&absent, 0)).await.is_empty(), "{absent}");
            }
            // What is asked beside the `_id` is looked at.
            for (name, count) in [("Ada", 1), ("Eve", 0)] {
                let found = fetched(&world, query(&doc! { "_id": 1, "name": name }, 0)).await;
                assert_eq!(found.len(), count);
            }
        }
    });
}
