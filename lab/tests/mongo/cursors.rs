//! Cursors between commands and connections.

use crate::client::{Client, Running, insert_numbers};
use arras_mongo::Options;
use bson::{Document, doc};
use std::time::Duration;

async fn open(client: &mut Client) -> i64 {
    let reply = client.ok(doc! { "find": "c", "batchSize": 2 }).await;
    reply.get_document("cursor").unwrap().get_i64("id").unwrap()
}

fn get_more(id: i64) -> Document {
    doc! { "getMore": id, "collection": "c", "batchSize": 3 }
}

#[tokio::test]
async fn a_cursor_outlives_its_connection() {
    let server = Running::plain(Options::default()).await;
    let mut client = server.connect().await;
    client.ok(insert_numbers(10)).await;
    let id = open(&mut client).await;
    drop(client);
    let reply = server.connect().await.ok(get_more(id)).await;
    let batch = reply.get_document("cursor").unwrap().get_array("nextBatch").unwrap();
    assert_eq!(batch.len(), 3);
    assert_eq!(batch[0].as_document().unwrap().get_i32("_id").unwrap(), 2);
}

#[tokio::test]
async fn cursors_left_alone_are_closed() {
    let server =
        Running::plain(Options { cursor_idle: Duration::from_millis(40), ..Options::default() }).await;
    let mut client = server.connect().await;
    client.ok(insert_numbers(10)).await;
    let id = open(&mut client).await;
    let status = doc! { "serverStatus": 1, "$db": "admin" };
    loop {
        let reply = client.ok(status.clone()).await;
        let cursors = reply.get_document("metrics").unwrap().get_document("cursor").unwrap();
        if cursors.get_document("open").unwrap().get_i64("total").unwrap() == 0 {
            break;
        }
    }
    assert_eq!(client.code(get_more(id)).await, 43);
}

#[tokio::test]
async fn there_are_only_so_many_cursors() {
    let server = Running::plain(Options { cursors_max: 2, ..Options::default() }).await;
    let mut client = server.connect().await;
    client.ok(insert_numbers(10)).await;
    let oldest = open(&mut client).await;
    let other = open(&mut client).await;
    client.ok(doc! { "find": "c" }).await; // one batch needs no cursor
    let next = open(&mut client).await;
    assert_eq!(client.code(doc! { "getMore": oldest, "collection": "c" }).await, 43);
    for id in [other, next] {
        client.ok(doc! { "getMore": id, "collection": "c" }).await;
    }
}

#[tokio::test]
async fn listings_come_in_batches_too() {
    let server = Running::plain(Options::default()).await;
    let mut client = server.connect().await;
    for name in ["a", "b", "c"] {
        client.ok(doc! { "create": name }).await;
    }
    let reply = client.ok(doc! { "listCollections": 1, "cursor": { "batchSize": 2 } }).await;
    let cursor = reply.get_document("cursor").unwrap();
    assert_eq!(cursor.get_array("firstBatch").unwrap().len(), 2);
    let id = cursor.get_i64("id").unwrap();
    let reply = client.ok(doc! { "getMore": id, "collection": "$cmd.listCollections" }).await;
    let cursor = reply.get_document("cursor").unwrap();
    assert_eq!(cursor.get_array("nextBatch").unwrap().len(), 1);
    assert_eq!(cursor.get_i64("id").unwrap(), 0);
}
