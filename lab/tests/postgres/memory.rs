//! What the proxy holds in memory while much more passes through it: measured of the process.

use crate::dev::Dev;
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, TryStreamExt};
use postgres_protocol::message::frontend;
use std::io::{Read, Write};
use std::net::TcpStream;
use tokio_postgres::error::SqlState;

const SCHEMA: &str = r#"
[tables."public.letters"]
body = { id = "91b6c0d2ee4f7a35", type = "text" }
size = { id = "91b6c0d2ee4f7a36", type = "integer", operations = ["equality", "sum"] }
"#;

/// Bytes of a letter, of which there are so many.
const LETTER: usize = 200_000;
const LETTERS: usize = 400;

/// 80 MB of values: rows, times as many clients as read none, portals and copies are a multiple of what the proxy may hold.
#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_holds_little_of_what_passes_through_it() {
    let server = PrivatePostgres::start().unwrap();
    let mut proxy = Dev::start(&server, "postgres", SCHEMA);
    let mut client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE letters (id int, body text, size int)").await.unwrap();
    let before = proxy.peak_kib() as usize;
    let sink = client.copy_in::<_, Bytes>("COPY letters FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    for id in 0..LETTERS {
        let row = format!("{id}\t{}\t{LETTER}\n", "x".repeat(LETTER));
        // A row comes in several pieces, and a piece has several rows.
        for piece in row.as_bytes().chunks(70_000) {
            sink.send(Bytes::copy_from_slice(piece)).await.unwrap();
        }
    }
    assert_eq!(sink.finish().await.unwrap(), LETTERS as u64);
    let out = client.copy_out("COPY letters TO STDOUT").await.unwrap();
    let bytes = out.try_fold(0, async |sum, piece| Ok(sum + piece.len())).await.unwrap();
    assert!(bytes > LETTERS * LETTER, "{bytes}");
    // Each row is written anew.
    assert_eq!(
        client.execute("UPDATE letters SET body = body || '.', size = size + 1", &[]).await.unwrap(),
        400
    );
    let rows = client.query_raw("SELECT body FROM letters", Vec::<i32>::new()).await.unwrap();
    let read = rows.try_fold(0, async |sum, row| Ok(sum + row.get::<_, &str>(0).len())).await.unwrap();
    assert_eq!(read, LETTERS * (LETTER + 1));
    // Less than half of one result, had it been held, beside what the process has before anything came.
    let streamed = proxy.peak_kib() as usize;
    assert!(
        streamed - before < LETTERS * LETTER / 2 / 1024,
        "the process had {streamed} KiB, {before} before"
    );
    idle_portals(&mut client).await;
    let unread = unread(&proxy, &server).await;
    let peak = proxy.peak_kib();
    drop(unread);
    eprintln!("{peak} KiB");
    assert!(peak < 160 * 1024, "the process had {peak} KiB");
    proxy.killed_and_restarted(&server, "postgres");
}

const TOWNS: &str = r#"
[tables."public.towns"]
name = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["equality"], max_bytes = 8000 }
[tables."public.words"]
word = { id = "91b6c0d2ee4f7a37", type = "text", operations = ["order"], max_bytes = 255 }
"#;

/// Bytes of memory that a backend has had in all, shared memory with it.
fn peak_of_backend(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Fills a table of the proxy's with rows of a column, of 40 values in turn.
async fn fill(client: &tokio_postgres::Client, table: &str, rows: usize) {
    let sink = client.copy_in::<_, Bytes>(&format!("COPY {table} FROM STDIN")).await.unwrap();
    let mut sink = std::pin::pin!(sink);
    for id in 0..rows {
        sink.send(Bytes::from(format!("{id}\tname {:02}\n", id % 40))).await.unwrap();
    }
    assert_eq!(sink.finish().await.unwrap(), rows as u64);
}

/// Tens of megabytes of sealed values in one group: what PostgreSQL holds of it is one value.
#[tokio::test(flavor = "multi_thread")]
async fn postgresql_holds_one_value_of_a_group() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", TOWNS);
    let client = connect(&proxy.uri("postgres")).await;
    client
        .batch_execute("CREATE TABLE towns (id int, name text); CREATE TABLE words (id int, word text)")
        .await
        .unwrap();
    fill(&client, "towns", 4000).await;
    fill(&client, "words", 60_000).await;
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let texts =
        |rows: Vec<tokio_postgres::Row>| -> Vec<String> { rows.iter().map(|row| row.get(0)).collect() };
    let direct = connect(&server.uri("postgres")).await;
    let of_direct: i32 = direct.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let words = "SELECT (array_agg(word))[1] FROM words";
    let names = "SELECT (array_agg(name))[1] FROM towns";
    for (statement, expected, gathered) in [
        ("SELECT min(word) FROM words", "name 00", Some(words)),
        ("SELECT max(word) FROM words WHERE id > 7", "name 39", None),
        ("SELECT max(word) FROM words GROUP BY id / 60000", "name 39", None),
        (
            "SELECT t.name FROM towns t JOIN generate_series(1, 40) g ON true WHERE id % 40 = 7 GROUP BY t.name",
            "name 07",
            Some(names),
        ),
    ] {
        let before = peak_of_backend(pid);
        assert_eq!(texts(client.query(statement, &[]).await.unwrap()), [expected], "{statement}");
        let grown = peak_of_backend(pid) - before;
        assert!(grown < 8 << 20, "{statement}: PostgreSQL held {grown} bytes");
        if let Some(gathered) = gathered {
            // As much as that would be seen.
            let before = peak_of_backend(of_direct);
            direct.query_one(gathered, &[]).await.unwrap();
            let grown = peak_of_backend(of_direct) - before;
            assert!(grown > 8 << 20, "{gathered}: {grown} bytes");
        }
    }
}

/// A thousand portals of all rows, of each of which one has been read.
async fn idle_portals(client: &mut tokio_postgres::Client) {
    let transaction = client.transaction().await.unwrap();
    let statement = transaction.prepare("SELECT size, body FROM letters WHERE id >= $1").await.unwrap();
    let mut portals = Vec::new();
    for number in 0..1000 {
        let portal = transaction.bind(&statement, &[&(number % 300)]).await.unwrap();
        assert_eq!(transaction.query_portal(&portal, 1).await.unwrap().len(), 1);
        portals.push(portal);
    }
    for portal in portals.iter().rev().step_by(100) {
        assert_eq!(transaction.query_portal(portal, 2).await.unwrap().len(), 2);
    }
    transaction.rollback().await.unwrap();
}

/// Thirty clients that ask for all rows and read none.
async fn unread(proxy: &Dev, server: &PrivatePostgres) -> Vec<TcpStream> {
    let address = proxy.uri("postgres").rsplit_once('@').unwrap().1.trim_end_matches("/postgres").to_owned();
    let mut begin = BytesMut::new();
    frontend::startup_message([("user", "postgres"), ("database", "postgres")], &mut begin).unwrap();
    frontend::query("SELECT body FROM letters", &mut begin).unwrap();
    let ask = || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(&begin).unwrap();
        stream
    };
    let streams: Vec<TcpStream> = (0..30).map(|_| ask()).collect();
    let watch = connect(&server.uri("postgres")).await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'";
    while watch.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) < 30 {
        tokio::task::yield_now().await;
    }
    streams
}

/// A row that is computed of a short one has room among all sessions' rows until its client has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_computed_row_takes_of_the_memory_for_rows() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE letters (id int, body text, size int)").await.unwrap();
    client.execute("INSERT INTO letters (id, body) VALUES (1, $1)", &[&"a".repeat(600_000)]).await.unwrap();
    // 36 MB a row, of three values; there are 64 MiB for large rows.
    let joined = vec!["body"; 20].join(" || ");
    let statement = format!("SELECT {joined}, {joined}, {joined} FROM letters");
    let mut begin = BytesMut::new();
    frontend::startup_message([("user", "postgres"), ("database", "postgres")], &mut begin).unwrap();
    frontend::query(&statement, &mut begin).unwrap();
    let address = proxy.uri("postgres").rsplit_once('@').unwrap().1.trim_end_matches("/postgres").to_owned();
    let mut slow = TcpStream::connect(&address).unwrap();
    slow.write_all(&begin).unwrap();
    // Up to the row's head.
    let mut head = [0; 5];
    while head[0] != b'D' {
        slow.read_exact(&mut head).unwrap();
        let rest = u32::from_be_bytes(head[1..].try_into().unwrap()) - 4;
        if head[0] != b'D' {
            std::io::copy(&mut (&slow).take(rest.into()), &mut std::io::sink()).unwrap();
        }
    }
    let refused = client.query(&statement, &[]).await.unwrap_err();
    assert_eq!(refused.code().map(SqlState::code), Some("53200"));
    drop(slow);
    // Once the other has gone.
    while let Err(error) = client.query(&statement, &[]).await {
        assert_eq!(error.code().map(SqlState::code), Some("53200"));
    }
}
