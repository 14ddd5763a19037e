//! What one client may have the front end hold or compute, and commands that MongoDB understands otherwise than they look.

use crate::client::Running;
use crate::validation::under;
use arras_mongo::Options;
use bson::{Bson, Document, doc};
use tokio::io::AsyncWriteExt;

/// Room for two of them is all that the smallest budget has.
const LARGEST: i32 = 48_000_000;

#[tokio::test]
async fn a_message_that_is_only_announced_takes_no_room() {
    let server = Running::plain(Options { memory_bytes: 1, ..Options::default() }).await;
    let mut silent = Vec::new();
    for _ in 0..4 {
        let mut client = server.connect().await;
        let head = [LARGEST, 1, 0, 2013].map(i32::to_le_bytes).concat();
        client.stream.write_all(&head).await.unwrap();
        silent.push(client);
    }
    let mut client = server.connect().await;
    client.ok(doc! { "ping": 1 }).await;
    client.ok(doc! { "ping": 1, "comment": "x".repeat(1 << 20) }).await;
    // It did not wait until they had lost their connections.
    for client in silent {
        let waits = client.stream.try_read(&mut [0]).unwrap_err();
        assert_eq!(waits.kind(), std::io::ErrorKind::WouldBlock);
    }
}

#[tokio::test]
async fn a_batch_of_more_documents_than_it_may_have_is_refused_unread() {
    let server = Running::plain(Options::default()).await;
    let mut client = server.connect().await;
    let mut section = b"\x01\0\0\0\0documents\0".to_vec();
    for _ in 0..100_001 {
        section.extend_from_slice(&[5, 0, 0, 0, 0]);
    }
    let length = i32::try_from(section.len() - 1).unwrap();
    section[1..5].copy_from_slice(&length.to_le_bytes());
    let mut body = vec![0; 4];
    body.push(0);
    body.extend(bson::serialize_to_vec(&doc! { "ping": 1, "$db": "d" }).unwrap());
    body.extend(section);
    let length = i32::try_from(body.len() + 16).unwrap();
    let head = [length, 7, 0, 2013].map(i32::to_le_bytes).concat();
    client.stream.write_all(&head).await.unwrap();
    client.stream.write_all(&body).await.unwrap();
    let (_, reply) = client.receive().await.unwrap();
    assert_eq!(reply.get_i32("code").unwrap(), 16, "{reply}");
}

#[tokio::test]
async fn cursors_that_nobody_reads_give_way() {
    let (mut client, _directory) = under("").await;
    let documents: Vec<Document> = (0..10).map(|id| doc! { "_id": id }).collect();
    client.ok(doc! { "insert": "c", "documents": documents }).await;
    let opened = client.ok(doc! { "find": "c", "batchSize": 1, "noCursorTimeout": true }).await;
    let first = opened.get_document("cursor").unwrap().get_i64("id").unwrap();
    let mut last = first;
    for _ in 0..10_000 {
        let opened = client.ok(doc! { "find": "c", "batchSize": 1, "noCursorTimeout": true }).await;
        last = opened.get_document("cursor").unwrap().get_i64("id").unwrap();
    }
    client.ok(doc! { "getMore": last, "collection": "c" }).await;
    assert_eq!(client.code(doc! { "getMore": first, "collection": "c" }).await, 43);
}

#[tokio::test]
async fn an_update_makes_no_more_than_a_document_may_have() {
    let (mut client, _directory) = under("").await;
    let empty = vec![Bson::Document(doc! {}); 3000];
    let mut document = doc! { "_id": 1, "a": empty };
    let mut filled = Document::new();
    for number in 0..30 {
        document.insert(format!("b{number}"), Bson::Array(vec![]));
        filled.insert(format!("b{number}.1400000"), 1);
    }
    client.ok(doc! { "insert": "c", "documents": [document] }).await;
    for change in [doc! { "a.$[].x": "x".repeat(1 << 20) }, filled] {
        let update = doc! { "q": { "_id": 1 }, "u": { "$set": change } };
        let reply = client.run(doc! { "update": "c", "updates": [update] }).await;
        let error =
            reply.get_array("writeErrors").unwrap_or_else(|_| panic!("{reply}"))[0].as_document().unwrap();
        assert!([10334, 17419, 28].contains(&error.get_i32("code").unwrap()), "{error}");
    }
}

/// An update of each element looks at the document once, not once for each.
#[tokio::test]
async fn an_update_of_each_element_of_a_large_array_is_done() {
    let (mut client, _directory) = under("").await;
    let elements: Vec<Bson> = (0..300_000).map(Bson::Int32).collect();
    client.ok(doc! { "insert": "c", "documents": [{ "_id": 1, "a": elements }] }).await;
    let update = doc! { "q": { "_id": 1 }, "u": { "$inc": { "a.$[]": 1 } } };
    let reply = client.ok(doc! { "update": "c", "updates": [update] }).await;
    assert_eq!(reply.get_i32("nModified").unwrap(), 1, "{reply}");
}

#[tokio::test]
async fn expressions_hold_and_compute_no_more_than_they_may() {
    let (mut client, _directory) = under("").await;
    let elements: Vec<Bson> = (0..100_000).map(Bson::Int32).collect();
    client
        .ok(doc! { "insert": "c", "documents": [{ "_id": 1, "a": elements, "big": "x".repeat(1 << 20), "s": "y".repeat(2_000_000) }] })
        .await;
    let mut run = async |stage: Document| {
        client.run(doc! { "aggregate": "c", "pipeline": [stage, { "$project": { "_id": 0, "x": { "$size": { "$ifNull": ["$x", []] } } } }], "cursor": {} }).await
    };
    let range = doc! { "$range": [0, 300_000] };
    let sets = run(doc! { "$project": { "x": { "$setDifference": [range, []] } } }).await;
    let found = &sets.get_document("cursor").unwrap().get_array("firstBatch").unwrap()[0];
    assert_eq!(found.as_document().unwrap().get_i32("x").unwrap(), 300_000);
    let all = run(doc! { "$project": { "x": { "$regexFindAll": { "input": "$s", "regex": "." } } } }).await;
    assert_eq!(all.get_i32("code").unwrap(), 51151, "{all}");
    let inputs: Vec<Bson> = std::iter::once(Bson::Document(doc! { "$range": [0, 100_000] }))
        .chain(std::iter::repeat_n(Bson::Array(vec![]), 500))
        .collect();
    let zip =
        run(doc! { "$project": { "x": { "$zip": { "inputs": inputs, "useLongestLength": true } } } }).await;
    assert_eq!(zip.get_i32("code").unwrap(), 292, "{zip}");
    let unwound = run(doc! { "$unwind": "$a" }).await;
    assert!(unwound.get_i32("code").is_ok() || unwound.contains_key("cursor"), "{unwound}");
    let each = run(doc! { "$addFields": { "a.x": "$big" } }).await;
    assert_eq!(each.get_i32("code").unwrap(), 292, "{each}");
}

#[tokio::test]
async fn key_patterns_have_an_order_and_numbers_of_any_type() {
    let (mut client, _directory) = under("").await;
    client.ok(doc! { "insert": "c", "documents": [{ "_id": 1, "a": 1, "b": 1 }] }).await;
    let index =
        |key: Document, name: &str| doc! { "createIndexes": "c", "indexes": [{ "key": key, "name": name }] };
    client.ok(index(doc! { "a": 1, "b": 1 }, "a_1_b_1")).await;
    client.ok(index(doc! { "b": 1, "a": 1 }, "b_1_a_1")).await;
    client.ok(index(doc! { "a": 1_i64, "b": 1.0 }, "a_1_b_1")).await;
    let listed = client.ok(doc! { "listIndexes": "c" }).await;
    assert_eq!(listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len(), 3);
    client.ok(doc! { "find": "c", "filter": { "a": 1 }, "hint": { "a": 1.0, "b": 1_i64 } }).await;
    assert_eq!(client.code(doc! { "find": "c", "filter": { "a": 1 }, "hint": { "a": -1, "b": 1 } }).await, 2);
}

#[tokio::test]
async fn what_is_no_id_is_none_of_an_upsert_either() {
    let (mut client, _directory) = under("").await;
    for (id, code) in [
        (Bson::Array(vec![Bson::Int32(1)]), 53),
        (Bson::Document(doc! { "$eq": ["x"] }), 53),
        (Bson::Document(doc! { "$eq": { "a": 1 } }), 0),
    ] {
        let update = doc! { "q": { "_id": id.clone() }, "u": { "$set": { "x": 1 } }, "upsert": true };
        let reply = client.run(doc! { "update": "c", "updates": [update] }).await;
        let error = reply.get_array("writeErrors").ok().and_then(|errors| errors[0].as_document());
        assert_eq!(error.map_or(0, |error| error.get_i32("code").unwrap()), code, "{id}: {reply}");
    }
}

#[tokio::test]
async fn fields_that_a_stage_or_command_has_not_are_refused() {
    let (mut client, _directory) = under("").await;
    client.ok(doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }] }).await;
    for stage in [
        doc! { "$replaceRoot": { "newRoot": "$$ROOT", "more": 1 } },
        doc! { "$sample": { "size": 1, "seed": 5 } },
    ] {
        let text = stage.to_string();
        assert_eq!(
            client.code(doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} }).await,
            40415,
            "{text}"
        );
    }
    let opened = client.ok(doc! { "find": "c", "batchSize": 1 }).await;
    let id = opened.get_document("cursor").unwrap().get_i64("id").unwrap();
    assert_eq!(client.code(doc! { "getMore": id, "collection": "c", "maxTimeMS": 5 }).await, 2);
    client.ok(doc! { "getMore": id, "collection": "c" }).await;
}
