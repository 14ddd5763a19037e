//! Unique indexes over several fields of the elements of one array.

use crate::world::{World, namespace, run};
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_service::interrupt::Interrupt;
use arras_service::store::{
    Cursor, DeleteStatement, IndexDefinition, InsertStatement, Query, Store, WriteFailure,
};
use bson::{Document, doc};

/// The codes of what was refused.
async fn insert(world: &World, document: Document) -> Vec<i32> {
    let statement = InsertStatement::of(vec![document], true).expect("a document");
    let inserted = world.engine.insert(&namespace(), statement).await.expect("an outcome");
    let code = |failure: &WriteFailure| arras_mongo::error::code_of(failure.error.fault).0;
    inserted.failures.iter().map(code).collect()
}

async fn found(world: &World, filter: Document) -> Vec<i32> {
    let query = Query {
        filter: Filter::parse(&filter).expect("a filter"),
        sort: Sort::parse(&doc! { "_id": 1 }).expect("a sort"),
        skip: 0,
        limit: None,
        hint: None,
        allow_disk_use: true,
    };
    let mut cursor = world.engine.find(&namespace(), query).await.expect("a cursor");
    let documents = cursor.next_batch(100, usize::MAX).await.expect("documents");
    documents.iter().map(|document| document.get_i32("_id").expect("a number")).collect()
}

#[test]
fn two_documents_share_no_element_and_each_field_is_still_found() {
    run(async {
        let world = World::new(1 << 20, 1 << 24).await;
        world.engine.create_collection(&namespace()).await.expect("there is none");
        let key = doc! { "a.x": 1, "a.y": 1 };
        let options = Document::new();
        let index = IndexDefinition { name: "xy".into(), key, unique: true, sparse: false, options };
        world.engine.create_indexes(&namespace(), vec![index], Interrupt::default()).await.expect("an index");
        let items = |items: &[(i32, i32)]| -> Vec<Document> {
            items.iter().map(|(x, y)| doc! { "x": x, "y": y }).collect()
        };
        assert_eq!(insert(&world, doc! { "_id": 0, "a": { "x": 7, "y": 8 } }).await, [0; 0]);
        assert_eq!(found(&world, doc! { "a.x": 7, "a.y": 8 }).await, [0], "by the index, without arrays");
        assert_eq!(insert(&world, doc! { "_id": 1, "a": items(&[(1, 2), (3, 4)]) }).await, [0; 0]);
        // Each of its values is another document's, and no pair of them.
        assert_eq!(insert(&world, doc! { "_id": 2, "a": items(&[(1, 4), (3, 2)]) }).await, [0; 0]);
        // An element of another document.
        assert_eq!(insert(&world, doc! { "_id": 3, "a": items(&[(9, 9), (3, 4)]) }).await, [11000]);
        assert_eq!(found(&world, doc! { "a.x": 1, "a.y": 4 }).await, [1, 2], "of any elements");
        let element = doc! { "a": { "$elemMatch": { "x": 1, "y": 4 } } };
        assert_eq!(found(&world, element).await, [2], "of one");
        assert_eq!(found(&world, doc! { "a.x": 7, "a.y": 8 }).await, [0]);
        assert_eq!(found(&world, doc! { "a.x": { "$gte": 3 }, "a.y": 2 }).await, [1, 2]);
        // What goes leaves its elements to others.
        let filter = Filter::parse(&doc! { "_id": 1 }).expect("a filter");
        let gone = DeleteStatement { filter, hint: None, multi: false, interrupt: Interrupt::default() };
        world.engine.delete(&namespace(), gone).await.expect("a delete");
        assert_eq!(insert(&world, doc! { "_id": 3, "a": items(&[(9, 9), (3, 4)]) }).await, [0; 0]);
        assert_eq!(found(&world, doc! { "a.x": { "$gte": 3 }, "a.y": 4 }).await, [2, 3]);
        let parallel = doc! { "_id": 5, "a": [{ "x": [1, 2], "y": [3] }] };
        assert_eq!(insert(&world, parallel).await, [171], "cannot index parallel arrays");
        let many: Vec<(i32, i32)> = (100..900).map(|number| (number, -number)).collect();
        assert_eq!(
            insert(&world, doc! { "_id": 4, "a": items(&many) }).await,
            [0; 0],
            "a term for each element"
        );
    });
}
