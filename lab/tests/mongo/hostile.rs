//! Peers that break the protocol.

use crate::client::{Client, Running, encoded};
use arras_mongo::Options;
use bson::doc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MORE_TO_COME: u8 = 2;

/// Sends bytes and expects the connection to be closed without a word.
async fn closes(server: &Running, bytes: &[u8]) {
    let mut client = server.connect().await;
    client.stream.write_all(bytes).await.unwrap();
    let mut rest = Vec::new();
    // A reset counts as closed: the server may have had bytes left to read.
    client.stream.read_to_end(&mut rest).await.ok();
    assert!(rest.is_empty());
}

fn ping() -> Vec<u8> {
    encoded(1, doc! { "ping": 1 })
}

#[tokio::test]
async fn broken_framing_closes_only_that_connection() {
    let server = Running::plain(Options::default()).await;
    let mut bystander = server.connect().await;
    bystander.ok(doc! { "ping": 1 }).await;

    closes(&server, &[0xff; 64]).await;
    closes(&server, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut too_long = ping();
    too_long[..4].copy_from_slice(&48_000_001_i32.to_le_bytes());
    closes(&server, &too_long).await;
    let mut unknown_opcode = ping();
    unknown_opcode[12..16].copy_from_slice(&2012_i32.to_le_bytes());
    closes(&server, &unknown_opcode).await;
    let mut required_flag = ping();
    required_flag[16] = 1 << 4;
    closes(&server, &required_flag).await;

    bystander.ok(doc! { "ping": 1 }).await;
}

#[tokio::test]
async fn a_connection_cut_inside_a_message_is_forgotten() {
    let server = Running::plain(Options { connections_max: 1, ..Options::default() }).await;
    let mut cut = server.connect().await;
    cut.stream.write_all(&ping()[..20]).await.unwrap();
    drop(cut);
    // There is room for one connection only: this succeeds once the other is gone.
    loop {
        let mut client = server.connect().await;
        client.stream.write_all(&ping()).await.ok();
        if client.receive().await.is_some() {
            break;
        }
    }
}

#[tokio::test]
async fn bad_documents_are_answered() {
    let server = Running::plain(Options::default()).await;
    let mut client = server.connect().await;
    let mut bytes = ping();
    let position = bytes.windows(4).position(|window| window == b"ping").unwrap() - 1;
    bytes[position] = 0x77; // no BSON type
    client.stream.write_all(&bytes).await.unwrap();
    let (_, reply) = client.receive().await.unwrap();
    assert_eq!(reply.get_i32("code").unwrap(), 22);
    assert_eq!(reply.get_str("codeName").unwrap(), "InvalidBSON");
    client.ok(doc! { "ping": 1 }).await;
}

#[tokio::test]
async fn what_must_not_be_answered_is_not() {
    let server = Running::plain(Options::default()).await;
    let mut client = server.connect().await;
    for command in [doc! { "insert": "c", "documents": [{ "_id": 1 }] }, doc! { "nonsense": 1 }] {
        let mut bytes = encoded(50, command);
        bytes[16] = MORE_TO_COME;
        client.stream.write_all(&bytes).await.unwrap();
    }
    // The first reply is to this one, and the insert before it took effect.
    assert_eq!(client.ok(doc! { "count": "c" }).await.get_i32("n").unwrap(), 1);
}

#[tokio::test]
async fn commands_that_are_no_commands() {
    let server = Running::plain(Options::default()).await;
    let mut client = server.connect().await;
    assert_eq!(client.code(doc! {}).await, 59);
    assert_eq!(client.code(doc! { "ping": 1, "$db": 5 }).await, 14);
    assert_eq!(client.code(doc! { "ping": 1, "$db": "" }).await, 73);
    assert_eq!(client.code(doc! { "ping": 1, "$db": "a.b" }).await, 73);
    assert_eq!(client.code(doc! { "find": 1 }).await, 73);
    assert_eq!(client.code(doc! { "find": "" }).await, 73);
    assert_eq!(client.code(doc! { "find": "x".repeat(300) }).await, 73);
    assert_eq!(client.code(doc! { "insert": "c", "documents": [1] }).await, 14);
    assert_eq!(client.code(doc! { "find": "c", "maxTimeMS": -1 }).await, 2);
}

#[tokio::test]
async fn the_legacy_hello_is_answered_in_its_form() {
    let server = Running::plain(Options::default()).await;
    for (namespace, command, works) in [
        ("admin.$cmd", doc! { "isMaster": 1 }, true),
        ("admin.$cmd", doc! { "$query": { "ismaster": 1 } }, true),
        ("d.$cmd", doc! { "insert": "c", "documents": [{}] }, false),
        ("d.c", doc! { "a": 1 }, false),
    ] {
        let mut client = server.connect().await;
        let reply = legacy(&mut client, namespace, &command.to_vec().unwrap()).await;
        assert_eq!(reply.get_f64("ok").unwrap() == 1.0, works, "{reply}");
        if works {
            assert!(reply.get_bool("ismaster").unwrap());
        } else {
            assert_eq!(reply.get_i32("code").unwrap(), 352);
        }
    }
}

async fn legacy(client: &mut Client, namespace: &str, document: &[u8]) -> bson::Document {
    let mut rest = vec![0; 4];
    rest.extend_from_slice(namespace.as_bytes());
    rest.extend_from_slice(&[0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    rest.extend_from_slice(document);
    let length = i32::try_from(16 + rest.len()).unwrap();
    for field in [length, 9, 0, 2004] {
        client.stream.write_i32_le(field).await.unwrap();
    }
    client.stream.write_all(&rest).await.unwrap();
    let length = client.stream.read_i32_le().await.unwrap();
    let mut bytes = vec![0; usize::try_from(length).unwrap() - 4];
    client.stream.read_exact(&mut bytes).await.unwrap();
    assert_eq!(bytes[4..12], [9, 0, 0, 0, 1, 0, 0, 0], "answers request 9 with an OP_REPLY");
    bson::Document::from_reader(&bytes[32..]).unwrap()
}
