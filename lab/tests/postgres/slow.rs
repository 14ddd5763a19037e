//! Clients that send slowly and never read: what the proxy holds for them is counted, and theirs only while nobody waits for it.

use crate::dev::Dev;
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;
use bytes::{Bytes, BytesMut};
use futures_util::SinkExt;
use postgres_protocol::message::frontend;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const SCHEMA: &str = r#"
[tables."public.letters"]
body = { id = "91b6c0d2ee4f7a35", type = "text" }
"#;

/// What the proxies of this file may hold and more, without a client that asks for any of it.
const PEAK_KIB_MAX: u64 = 640 * 1024;

/// A session that waits for a statement.
fn session(proxy: &Dev) -> TcpStream {
    let address = proxy.uri("postgres").rsplit_once('@').unwrap().1.trim_end_matches("/postgres").to_owned();
    let mut begin = BytesMut::new();
    frontend::startup_message([("user", "postgres"), ("database", "postgres")], &mut begin).unwrap();
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(&begin).unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"Z\0\0\0\x05I") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        said.push(byte[0]);
    }
    stream
}

/// The head of a message of so many bytes, and so many of them.
fn begin_message(stream: &mut TcpStream, total: i32, bytes: usize) {
    let mut begun = vec![b'B'];
    begun.extend_from_slice(&(total - 1).to_be_bytes());
    begun.extend(std::iter::repeat_n(b'x', bytes));
    stream.write_all(&begun).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_never_come_whole_take_no_memory_from_others_for_long() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE letters (id int, body text)").await.unwrap();
    let insert = client.prepare("INSERT INTO letters (id, body) VALUES ($1, $2)").await.unwrap();
    // What was announced alone, and a little of it; what is very large, and what is not.
    for (total, begun) in [(64 << 20, 0), (64 << 20, 33 * 1024), (1 << 20, 500 * 1024)] {
        let mut slow: Vec<TcpStream> = (0..60).map(|_| session(&proxy)).collect();
        slow.iter_mut().for_each(|stream| begin_message(stream, total, begun));
        let body = "y".repeat(900 << 10);
        let stored = client.execute(&insert, &[&1_i32, &body]).await;
        assert_eq!(stored.unwrap(), 1, "after {begun} bytes");
        let large = "y".repeat(5 << 20);
        let stored = client.execute(&insert, &[&2_i32, &large]).await;
        assert_eq!(stored.unwrap(), 1, "5 MiB after {begun} bytes");
        drop(slow);
    }
    let peak = proxy.peak_kib();
    assert!(peak < PEAK_KIB_MAX, "the process had {peak} KiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_rows_that_nobody_reads_take_no_memory_from_others_for_long() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE letters (id int, body text)").await.unwrap();
    let body = "z".repeat(12 << 20);
    for id in 0..4 {
        client.execute("INSERT INTO letters (id, body) VALUES ($1, $2)", &[&id, &body]).await.unwrap();
    }
    let short = "s".repeat(300 << 10);
    for id in 10..14 {
        client.execute("INSERT INTO letters (id, body) VALUES ($1, $2)", &[&id, &short]).await.unwrap();
    }
    let mut ask = BytesMut::new();
    frontend::query("SELECT body FROM letters WHERE id < 9", &mut ask).unwrap();
    let mut unread: Vec<TcpStream> = (0..50).map(|_| session(&proxy)).collect();
    for stream in &mut unread {
        stream.write_all(&ask).unwrap();
    }
    for _ in 0..3 {
        let rows = client.query("SELECT body FROM letters WHERE id > 9", &[]).await.unwrap();
        assert!(rows.len() == 4 && rows.iter().all(|row| row.get::<_, &str>(0).len() == short.len()));
    }
    let peak = proxy.peak_kib();
    drop(unread);
    assert!(peak < PEAK_KIB_MAX, "the process had {peak} KiB");
}

/// What has room already waits for no more: it would be for itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_comes_in_large_pieces_is_not_in_its_own_way() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE letters (id int, body text)").await.unwrap();
    let sink = client.copy_in::<_, Bytes>("COPY letters FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    sink.send(Bytes::from_static(b"1\t")).await.unwrap();
    for _ in 0..6 {
        sink.send(Bytes::from("w".repeat(8 << 20))).await.unwrap();
    }
    sink.send(Bytes::from_static(b"\n2\tshort\n")).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), 2);
    // The room that it had is there again.
    let body = "v".repeat(40 << 20);
    let insert = "INSERT INTO letters (id, body) VALUES (3, $1)";
    assert_eq!(client.execute(insert, &[&body]).await.unwrap(), 1);
    let lengths = client.query("SELECT body FROM letters ORDER BY id", &[]).await.unwrap();
    let lengths: Vec<usize> = lengths.iter().map(|row| row.get::<_, &str>(0).len()).collect();
    assert_eq!(lengths, [48 << 20, 5, 40 << 20]);
}

/// Longer than the proxy once let a peer stand still that answers all the same.
const PAUSE: Duration = Duration::from_secs(75);

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_pauses_in_the_middle_of_a_result_reads_on() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let mut stream = session(&proxy);
    let mut ask = BytesMut::new();
    frontend::query("SELECT repeat('x', 1000) FROM generate_series(1, 50000)", &mut ask).unwrap();
    stream.write_all(&ask).unwrap();
    tokio::time::sleep(PAUSE).await;
    let read = tokio::task::spawn_blocking(move || {
        let (mut count, mut last, mut piece) = (0, Vec::new(), vec![0; 1 << 20]);
        while !last.ends_with(b"Z\0\0\0\x05I") {
            let bytes = stream.read(&mut piece).unwrap();
            assert!(bytes > 0, "the session ended after {count} bytes");
            count += bytes;
            last.extend_from_slice(&piece[..bytes]);
            last.drain(..last.len().saturating_sub(6));
        }
        count
    });
    assert!(read.await.unwrap() > 50_000 * 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_waits_for_a_lock_gets_what_was_sent_ahead() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE letters (id int, body text)").await.unwrap();
    let insert = client.prepare("INSERT INTO letters (id, body) VALUES ($1, $2)").await.unwrap();
    let gate = connect(&server.uri("postgres")).await;
    gate.batch_execute("BEGIN; LOCK letters").await.unwrap();
    let body = "w".repeat(30_000);
    let open = async {
        tokio::time::sleep(PAUSE).await;
        gate.batch_execute("COMMIT").await
    };
    let sent = (0..1500).map(|id| {
        let (client, insert, body) = (&client, &insert, &body);
        async move { client.execute(insert, &[&id, body]).await }
    });
    let (stored, opened) = tokio::join!(futures_util::future::join_all(sent), open);
    opened.unwrap();
    assert_eq!(stored.into_iter().map(Result::unwrap).sum::<u64>(), 1500);
}
