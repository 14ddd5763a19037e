//! The time that a command has: one, however long it takes to be read and to run.

use crate::client::Running;
use arras_mongo::Options;
use bson::{Document, doc};

/// A condition that holds and takes longer to read than a clock's millisecond.
fn slow_to_read() -> Document {
    doc! { "_id": { "$nin": (1000..200_000).rev().collect::<Vec<i32>>() } }
}

fn first(reply: &Document) -> Document {
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch[0].as_document().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_one_time_for_all_of_its_parts() {
    let running = Running::plain(Options::default()).await;
    let mut client = running.connect().await;
    client.ok(doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }] }).await;

    let pipeline = vec![
        doc! { "$set": { "a": "$$NOW" } },
        doc! { "$match": slow_to_read() },
        doc! { "$set": { "b": "$$NOW" } },
        doc! { "$project": { "same": { "$eq": ["$a", "$b"] } } },
    ];
    let reply = client.ok(doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} }).await;
    assert_eq!(first(&reply), doc! { "_id": 1, "same": true });

    // `$currentDate` is the time of its statement; `$$NOW` of the command, behind which that is.
    let updates = vec![
        doc! { "q": slow_to_read(), "u": { "$currentDate": { "t": true } } },
        doc! { "q": { "$expr": { "$gt": ["$t", "$$NOW"] } }, "u": { "$set": { "later": true } } },
    ];
    let reply = client.ok(doc! { "update": "c", "updates": updates }).await;
    assert_eq!((reply.get_i32("n").unwrap(), reply.get_i32("nModified").unwrap()), (2, 2), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expression_is_about_documents_and_not_about_elements() {
    let running = Running::plain(Options::default()).await;
    let mut client = running.connect().await;
    let nested = doc! { "a": { "$elemMatch": { "$and": [{ "$expr": true }] } } };
    assert_eq!(client.code(doc! { "find": "c", "filter": nested }).await, 2);
    client.ok(doc! { "insert": "c", "documents": [{ "_id": 1, "a": [1] }] }).await;
    for (u, filters) in [
        (doc! { "$pull": { "a": { "x": 1, "$expr": true } } }, vec![]),
        (doc! { "$set": { "a.$[x]": 2 } }, vec![doc! { "$expr": true, "x": 1 }]),
    ] {
        let updates = vec![doc! { "q": {}, "u": u, "arrayFilters": filters }];
        let reply = client.ok(doc! { "update": "c", "updates": updates }).await;
        let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().clone();
        assert_eq!(error.get_i32("code").unwrap(), 224, "{error}");
    }
}
