//! Many connections, too many, idle ones, and the end.

use crate::client::{Running, insert_numbers};
use arras_mongo::Options;
use bson::doc;
use std::time::Duration;

#[tokio::test]
async fn requests_sent_ahead_are_answered_in_order() {
    let server = Running::plain(Options::default()).await;
    let mut client = server.connect().await;
    let first = client.send(insert_numbers(10)).await;
    let second = client.send(doc! { "count": "c" }).await;
    let third = client.send(doc! { "nonsense": 1 }).await;
    assert_eq!(client.receive().await.unwrap().0, first);
    let (answered, count) = client.receive().await.unwrap();
    assert_eq!((answered, count.get_i32("n").unwrap()), (second, 10));
    assert_eq!(client.receive().await.unwrap().0, third);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_share_one_store() {
    let server = Running::plain(Options::default()).await;
    let mut clients = Vec::new();
    for number in 0..40 {
        let mut client = server.connect().await;
        clients.push(tokio::spawn(async move {
            for step in 0..10 {
                client.ok(doc! { "insert": "c", "documents": [{ "_id": number * 10 + step }] }).await;
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(server.connect().await.ok(doc! { "count": "c" }).await.get_i32("n").unwrap(), 400);
}

#[tokio::test]
async fn a_newcomer_takes_the_place_of_the_connection_idle_for_longest() {
    let server = Running::plain(Options { connections_max: 2, ..Options::default() }).await;
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    first.ok(doc! { "ping": 1 }).await;
    second.ok(doc! { "ping": 1 }).await;
    let mut third = server.connect().await;
    third.ok(doc! { "ping": 1 }).await;
    assert!(first.receive().await.is_none(), "the first was idle for longest");
    second.ok(doc! { "ping": 1 }).await;
    // Silent sockets push each other out, not those that speak.
    let mut silent = Vec::new();
    for _ in 0..10 {
        silent.push(server.connect().await);
    }
    let mut last = server.connect().await;
    last.ok(doc! { "ping": 1 }).await;
    second.ok(doc! { "ping": 1 }).await;
}

#[tokio::test]
async fn a_client_that_does_not_take_its_reply_does_not_hold_a_stop_up() {
    let options = Options { stop_grace: Duration::from_millis(50), ..Options::default() };
    let server = Running::plain(options).await;
    let mut client = server.connect().await;
    let text = "x".repeat(1 << 20);
    for id in 0..15 {
        client.ok(doc! { "insert": "c", "documents": [{ "_id": id, "text": &text }] }).await;
    }
    // Far more than two sockets hold.
    for _ in 0..10 {
        client.send(doc! { "find": "c" }).await;
    }
    // The first reply is on its way.
    client.stream.peek(&mut [0]).await.unwrap();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let options = Options { connection_idle: Duration::from_millis(50), ..Options::default() };
    let server = Running::plain(options).await;
    let mut client = server.connect().await;
    assert!(client.receive().await.is_none());
}

#[tokio::test]
async fn a_stop_closes_idle_connections_and_the_port() {
    let server = Running::plain(Options::default()).await;
    let address = server.address;
    let mut client = server.connect().await;
    client.ok(doc! { "ping": 1 }).await;
    server.stop().await.unwrap();
    assert!(client.receive().await.is_none());
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
