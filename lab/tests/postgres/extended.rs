//! The extended protocol and its pipelining: a driver, and messages written by hand, with the proxy and without.

use crate::differential::Choices;
use crate::proxy::Proxy;
use arras_lab::private_postgres::PrivatePostgres;
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, TryStreamExt};
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_postgres::error::SqlState;
use tokio_postgres::{CancelToken, Client, NoTls};

pub(crate) async fn connect(uri: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(uri, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn a_driver_prepares_binds_pipelines_and_streams() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::start(&server);
    let mut client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE t (id int8 PRIMARY KEY, body bytea, note text)").await.unwrap();
    let insert = client.prepare("INSERT INTO t VALUES ($1, $2, $3)").await.unwrap();
    let body = vec![7_u8; 300_000];
    // All of them are on their way before the first is answered.
    let run = |id: i64| {
        let (client, insert, body) = (&client, &insert, &body);
        async move { client.execute(insert, &[&id, body, &format!("note {id}")]).await }
    };
    let (one, two, again, three) = tokio::join!(run(1), run(2), run(1), run(3));
    assert_eq!((one.unwrap(), two.unwrap(), three.unwrap()), (1, 1, 1));
    assert_eq!(again.unwrap_err().code(), Some(&SqlState::UNIQUE_VIOLATION));
    let row = client.query_one("SELECT id, body, note FROM t WHERE id = $1", &[&2_i64]).await.unwrap();
    assert_eq!(row.get::<_, Vec<u8>>(1), body);
    assert_eq!(row.get::<_, String>(2), "note 2");
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("SELECT n FROM generate_series(1, 1000) n", &[]).await.unwrap();
    let mut seen = 0;
    loop {
        let rows = transaction.query_portal(&portal, 77).await.unwrap();
        seen += rows.len();
        if rows.is_empty() {
            break;
        }
    }
    assert_eq!(seen, 1000);
    let sink = transaction.copy_in::<_, Bytes>("COPY t (id, note) FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    for id in 10..5010 {
        sink.send(Bytes::from(format!("{id}\tcopied\n"))).await.unwrap();
    }
    assert_eq!(sink.finish().await.unwrap(), 5000);
    let out = transaction.copy_out("COPY t (id) TO STDOUT").await.unwrap();
    let out: Vec<Bytes> = out.try_collect().await.unwrap();
    assert_eq!(out.len(), 5003);
    transaction.rollback().await.unwrap();
    let count: i64 = client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0);
    assert_eq!(count, 3);
}

/// Cancels what a client runs, and waits for the end of the connection that asks for it, as libpq does: PostgreSQL signals twice,
/// and the second signal may meet a statement that is sent before.
pub(crate) async fn cancel_to_the_end(token: &CancelToken, uri: &str) {
    let (asks, mut asked) = tokio::io::duplex(64);
    token.cancel_query_raw(asks, NoTls).await.unwrap();
    let mut request = Vec::new();
    asked.read_to_end(&mut request).await.unwrap();
    let mut stream = tokio::net::TcpStream::connect(uri.rsplit(['@', '/']).nth(1).unwrap()).await.unwrap();
    stream.write_all(&request).await.unwrap();
    assert_eq!(stream.read_to_end(&mut request).await.unwrap(), 0);
}

#[tokio::test]
async fn a_driver_cancels_its_own_statement_and_no_other() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::start(&server);
    let client = connect(&proxy.uri("postgres")).await;
    let other = connect(&proxy.uri("postgres")).await;
    let watch = connect(&server.uri("postgres")).await;
    let token = client.cancel_token();
    let cancel = async {
        let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        while watch.query_one(sleeping, &[]).await.unwrap().get::<_, i64>(0) != 2 {
            tokio::task::yield_now().await;
        }
        cancel_to_the_end(&token, &proxy.uri("postgres")).await;
    };
    let other = tokio::spawn(async move { other.simple_query("SELECT pg_sleep(3600)").await.map(|_| ()) });
    let (slept, ()) = tokio::join!(client.simple_query("SELECT pg_sleep(3600)"), cancel);
    assert_eq!(slept.unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
    assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
    assert!(!other.is_finished());
    other.abort();
}

/// What a server answers to `messages` followed by `Terminate`, without the beginning of the session.
fn answers(address: impl std::net::ToSocketAddrs, messages: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut out = BytesMut::new();
    frontend::startup_message([("user", "postgres"), ("database", "postgres")], &mut out).unwrap();
    stream.write_all(&out).unwrap();
    // The beginning ends with the first `ReadyForQuery`.
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        std::io::copy(&mut (&mut stream).take(u64::from(length) - 4), &mut std::io::sink()).unwrap();
        if head[0] == b'Z' {
            break;
        }
    }
    let mut sender = stream.try_clone().unwrap();
    let all = [messages, b"X\0\0\0\x04"].concat();
    let sending = std::thread::spawn(move || {
        // The server may close first.
        let _ = sender.write_all(&all);
    });
    let mut answered = Vec::new();
    stream.read_to_end(&mut answered).unwrap();
    sending.join().unwrap();
    answered
}

/// The types of encoded messages, to look at where two differ.
fn kinds(mut messages: &[u8]) -> String {
    let mut kinds = String::new();
    while let Some((head, _)) = messages.split_first_chunk::<5>() {
        kinds.push(char::from(head[0]));
        let total = 1 + u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        messages = messages.get(total..).unwrap_or_default();
    }
    kinds
}

const TEXTS: [&str; 13] = [
    "SELECT $1::int + 1",
    "SELECT 1/$1::int",
    "SELECT g, repeat('x', g % 50) FROM generate_series(1, 300) g",
    "INSERT INTO t VALUES ($1::int, 'a') RETURNING *",
    "COPY t FROM STDIN",
    "COPY t TO STDOUT",
    "BEGIN",
    "COMMIT",
    "SELECT broken",
    "",
    "SELECT 1; SELECT 2; SELECT 1/0; SELECT 3",
    "COPY t FROM STDIN; COPY t FROM STDIN; SELECT 5",
    "DO $$ BEGIN RAISE NOTICE 'n'; END $$",
];

/// Appends a message that a client might send, whatever state it is in.
fn some_message(dice: &mut Choices, out: &mut BytesMut) {
    let names = ["", "a", "b"];
    let name = names[dice.below(3)];
    let text = TEXTS[dice.below(TEXTS.len())];
    let value = ["1", "0", "x"][dice.below(3)];
    let written = match dice.below(16) {
        0 | 1 => frontend::query(text, out),
        2..=4 => frontend::parse(name, text, [], out),
        5..=7 => {
            let put = |value: &str, out: &mut BytesMut| {
                out.extend_from_slice(value.as_bytes());
                Ok(IsNull::No)
            };
            let values = dice.below(2);
            let values = std::iter::repeat_n(value, values);
            assert!(frontend::bind(names[dice.below(3)], name, [], values, put, [], out).is_ok());
            Ok(())
        }
        8 => frontend::describe([b'S', b'P'][dice.below(2)], name, out),
        9 | 10 => frontend::execute(name, i32::try_from(dice.below(3)).unwrap(), out),
        11 => frontend::close([b'S', b'P'][dice.below(2)], name, out),
        12 => {
            frontend::CopyData::new(&b"7\tz\n"[..]).unwrap().write(out);
            Ok(())
        }
        13 => {
            if dice.percent(80) {
                frontend::copy_done(out);
                Ok(())
            } else {
                frontend::copy_fail("given up", out)
            }
        }
        14 => {
            frontend::flush(out);
            Ok(())
        }
        _ => {
            frontend::sync(out);
            Ok(())
        }
    };
    written.unwrap();
}

/// Sequences that no driver sends among those that all do: the same bytes come back.
#[test]
fn any_sequence_of_messages_is_answered_as_without_the_proxy() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::start(&server);
    let seed = std::env::var("ARRAS_TEST_SEED").map_or(1, |seed| seed.parse().unwrap());
    eprintln!("ARRAS_TEST_SEED={seed}");
    let mut dice = Choices::new(seed);
    let fresh = "DROP TABLE IF EXISTS t; CREATE TABLE t (id int, note text)";
    // What a table that is not there is noticed by would differ.
    let mut first = BytesMut::new();
    frontend::query("CREATE TABLE t ()", &mut first).unwrap();
    answers(proxy.address, &first);
    for case in 0..150 {
        let mut messages = BytesMut::new();
        frontend::query(fresh, &mut messages).unwrap();
        for _ in 0..1 + dice.below(39) {
            some_message(&mut dice, &mut messages);
        }
        frontend::sync(&mut messages);
        let direct = answers(("127.0.0.1", server.port()), &messages);
        let through = answers(proxy.address, &messages);
        let (sent, expected, got) = (kinds(&messages), kinds(&direct), kinds(&through));
        assert_eq!(through, direct, "case {case}: sent {sent}\nexpected {expected}\ngot      {got}");
    }
}

/// Far more ahead than a proxy keeps in mind, in one piece.
#[test]
fn a_client_that_sends_far_ahead_is_answered() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::start(&server);
    let mut messages = BytesMut::new();
    for _ in 0..20_000 {
        frontend::parse("", "SELECT 1", [], &mut messages).unwrap();
    }
    frontend::sync(&mut messages);
    let through = answers(proxy.address, &messages);
    assert_eq!(kinds(&through), format!("{}Z", "1".repeat(20_000)));
}
