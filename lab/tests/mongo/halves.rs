//! Updates of many documents of which one cannot be changed: those before it are, those behind it are not.

use crate::client::{Client, Running};
use crate::validation;
use arras_mongo::Options;
use bson::{Bson, Document, doc};

/// Runs an update of all documents that fails with `code`; of which documents a field is 2 now.
async fn fails(client: &mut Client, update: Document, code: i32, field: &str) -> Vec<i32> {
    let updates = vec![doc! { "q": { "_id": { "$gte": 0 } }, "u": update.clone(), "multi": true }];
    let reply = client.ok(doc! { "update": "c", "updates": updates }).await;
    let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().clone();
    assert_eq!(error.get_i32("code").unwrap(), code, "{update}: {error}");
    // As in MongoDB, a statement that failed counts nothing.
    assert_eq!((reply.get_i32("n").unwrap(), reply.get_i32("nModified").unwrap()), (0, 0), "{reply}");
    let changed = doc! { "find": "c", "filter": { field: 2 }, "sort": { "_id": 1 } };
    let found = client.ok(changed).await;
    let found = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    found.iter().map(|found| found.as_document().unwrap().get_i32("_id").unwrap()).collect()
}

async fn those_before_stay_changed(client: &mut Client, is_encrypted: bool) {
    // Inserted in another order than that of their ids.
    let documents = [3, 1, 4, 0, 9, 2, 6, 5, 8, 7].map(|id| {
        let (n, source) = if id == 6 { ("x".into(), 2.into()) } else { (Bson::Int32(1), Bson::Int32(2)) };
        let source = if id == 9 { "x".into() } else { source };
        doc! { "_id": id, "n": n, "u": id + 10, "source": source, "p": if id == 2 { vec![1, 2] } else { vec![1] } }
    });
    client.ok(doc! { "insert": "c", "documents": documents.to_vec() }).await;
    assert_eq!(fails(client, doc! { "$inc": { "n": 1 } }, 14, "n").await, [0, 1, 2, 3, 4, 9]);
    let unique = vec![doc! { "key": { "u": 1 }, "name": "u", "unique": true }];
    client.ok(doc! { "createIndexes": "c", "indexes": unique }).await;
    assert_eq!(fails(client, doc! { "$set": { "u": 2 } }, 11000, "u").await, [3]);
    assert_eq!(fails(client, doc! { "$inc": { "n": 1, "u": 100 } }, 14, "n").await, [] as [i32; 0]);
    if is_encrypted {
        assert_eq!(
            fails(client, doc! { "$rename": { "source": "declared" } }, 121, "declared").await,
            [0, 1, 3, 4]
        );
        let compound = vec![doc! { "key": { "p.x": 1, "q": 1 }, "name": "pq" }];
        client.ok(doc! { "createIndexes": "c", "indexes": compound }).await;
        let p = vec![
            doc! { "q": { "_id": 2 }, "u": { "$set": { "p": [{ "x": 1 }] } } },
            doc! { "q": { "_id": { "$ne": 2 } }, "u": { "$set": { "p": 1 } }, "multi": true },
        ];
        client.ok(doc! { "update": "c", "updates": p }).await;
        assert_eq!(fails(client, doc! { "$set": { "q": [1], "m": 2 } }, 171, "m").await, [0, 1, 3, 4, 9]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn those_before_stay_changed_in_plaintext() {
    let running = Running::plain(Options::default()).await;
    let mut client = running.connect().await;
    those_before_stay_changed(&mut client, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_before_stay_changed_encrypted() {
    let (mut client, _directory) = validation::under("declared = { type = \"int32\" }").await;
    those_before_stay_changed(&mut client, true).await;
}

/// A command whose later statement is malformed does nothing; one whose later statement cannot be done has done those before.
#[tokio::test]
async fn a_command_that_is_malformed_changes_nothing() {
    let running = Running::plain(Options::default()).await;
    let mut client = running.connect().await;
    client.ok(doc! { "insert": "c", "documents": [{ "_id": 1, "n": 1 }, { "_id": 2, "n": 1 }] }).await;
    let good = doc! { "q": { "_id": 1 }, "u": { "$set": { "n": 2 } } };
    for (bad, code) in [
        (doc! { "u": { "$set": { "n": 2 } } }, 40414),
        (doc! { "q": { "_id": 2 } }, 40414),
        (doc! { "q": { "_id": 2 }, "u": 5 }, 9),
        (doc! { "q": { "_id": 2 }, "u": {}, "nonsense": 1 }, 40415),
        (doc! { "q": 5, "u": {} }, 14),
        (doc! { "q": {}, "u": {}, "hint": 5 }, 9),
        (doc! { "q": {}, "u": {}, "arrayFilters": 5 }, 14),
    ] {
        let command = doc! { "update": "c", "updates": [good.clone(), bad.clone()], "ordered": false };
        assert_eq!(client.code(command).await, code, "{bad}");
    }
    let good = doc! { "q": { "_id": 1 }, "limit": 1 };
    for (bad, code) in [
        (doc! { "limit": 1 }, 40414),
        (doc! { "q": {} }, 40414),
        (doc! { "q": {}, "limit": 2 }, 9),
        (doc! { "q": {}, "limit": 1, "nonsense": 1 }, 40415),
    ] {
        let command = doc! { "delete": "c", "deletes": [good.clone(), bad.clone()] };
        assert_eq!(client.code(command).await, code, "{bad}");
    }
    let counted = client.ok(doc! { "count": "c", "query": { "n": 1 } }).await;
    assert_eq!(counted.get_i32("n").unwrap(), 2);
    let failing = doc! { "q": { "_id": 2 }, "u": { "$nonsense": { "n": 2 } } };
    let good = doc! { "q": { "_id": 1 }, "u": { "$set": { "n": 2 } } };
    let reply = client.ok(doc! { "update": "c", "updates": [good, failing] }).await;
    assert_eq!(reply.get_array("writeErrors").unwrap().len(), 1, "{reply}");
    assert_eq!(reply.get_i32("n").unwrap(), 1, "{reply}");
}
