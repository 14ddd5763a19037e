//! Clients that go away or do not read, a database that is killed, a proxy that stops, too many at once.

use crate::extended::connect;
use crate::proxy::{Proxy, outputs};
use arras_lab::private_postgres::PrivatePostgres;
use arras_postgres::{Access, Options};
use bytes::BytesMut;
use postgres_protocol::message::frontend;
use std::io::{Read, Write};
use std::net::TcpStream;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

async fn until(client: &tokio_postgres::Client, statement: &str, expected: i64) {
    while client.query_one(statement, &[]).await.unwrap().get::<_, i64>(0) != expected {
        tokio::task::yield_now().await;
    }
}

const SLEEPING: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";

#[tokio::test]
async fn what_a_client_leaves_behind_is_cancelled() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::start(&server);
    let watch = connect(&server.uri("postgres")).await;
    let (client, connection) = tokio_postgres::connect(&proxy.uri("postgres"), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let running = tokio::spawn(async move {
        let _ = client.simple_query("SELECT pg_sleep(3600)").await;
    });
    until(&watch, SLEEPING, 1).await;
    connection.abort();
    running.abort();
    until(&watch, SLEEPING, 0).await;
    let others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
    until(&watch, others, 1).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_database_and_loses_nothing() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::start(&server);
    let watch = connect(&server.uri("postgres")).await;
    let mut stream = TcpStream::connect(proxy.address).unwrap();
    let mut out = BytesMut::new();
    frontend::startup_message([("user", "postgres"), ("database", "postgres")], &mut out).unwrap();
    frontend::query("SELECT repeat('x', 1000000) FROM generate_series(1, 200)", &mut out).unwrap();
    out.extend_from_slice(b"X\0\0\0\x04");
    stream.write_all(&out).unwrap();
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'";
    until(&watch, waiting, 1).await;
    let mut came = 0;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            read => came += read,
        }
    }
    assert!(came > 200_000_000, "{came}");
}

#[tokio::test]
async fn a_database_that_is_killed_within_a_transaction_is_said_to_be_lost() {
    let mut server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::start(&server);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE t (n int)").await.unwrap();
    client.batch_execute("BEGIN; INSERT INTO t VALUES (1)").await.unwrap();
    server.kill().unwrap();
    let error = client.batch_execute("COMMIT").await.unwrap_err();
    // Some of PostgreSQL's processes outlive the first by long enough to say so themselves, and a driver that has heard of
    // the end before it sends has no more than that.
    let said = [SqlState::CONNECTION_FAILURE, SqlState::ADMIN_SHUTDOWN];
    assert!(error.is_closed() || error.code().is_some_and(|code| said.contains(code)), "{error:?}");
    let refused = tokio_postgres::connect(&proxy.uri("postgres"), NoTls).await.err().unwrap();
    assert_eq!(refused.code().unwrap().code(), "08001", "{refused:?}");
    server.restart().unwrap();
    let again = connect(&proxy.uri("postgres")).await;
    let count: i64 = again.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0);
    assert_eq!(count, 0, "nobody tried the COMMIT again");
}

/// The words for it are PostgreSQL's where it still has some.
#[test]
fn the_end_of_the_connection_is_an_error_of_postgresql() {
    let mut server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::start(&server);
    let begin = |proxy: &Proxy| {
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        let mut out = BytesMut::new();
        frontend::startup_message([("user", "postgres"), ("database", "postgres")], &mut out).unwrap();
        frontend::query("BEGIN", &mut out).unwrap();
        stream.write_all(&out).unwrap();
        let mut came = Vec::new();
        while !came.ends_with(b"C\0\0\0\x0aBEGIN\0Z\0\0\0\x05T") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            came.push(byte[0]);
        }
        stream
    };
    let rest = |mut stream: TcpStream| {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        String::from_utf8_lossy(&rest).into_owned()
    };
    let stopped = begin(&proxy);
    server.stop().unwrap();
    let said = rest(stopped);
    assert!(said.starts_with('E') && said.contains("FATAL\0C57P01\0"), "{said:?}");
    server.restart().unwrap();
    let killed = begin(&proxy);
    let id = backend(&server);
    server.kill_backend(id).unwrap();
    let said = rest(killed);
    assert!(said.starts_with('E') && said.contains("FATAL\0C08006\0"), "{said:?}");
}

/// The process of the only connection.
fn backend(server: &PrivatePostgres) -> u32 {
    let mut psql = server.command("psql");
    let ask =
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    psql.args(["-XAtc", ask, &server.uri("postgres")]);
    outputs(psql).1.trim().parse().unwrap()
}

#[tokio::test]
async fn one_session_too_many_is_refused_as_postgresql_refuses_it() {
    let server = PrivatePostgres::start().unwrap();
    let options = Options { connections_max: 2, ..Options::default() };
    let proxy = Proxy::with(&server.uri("postgres"), Access::new(None, None), options);
    let first = connect(&proxy.uri("postgres")).await;
    let _second = connect(&proxy.uri("postgres")).await;
    let third = tokio_postgres::connect(&proxy.uri("postgres"), NoTls).await.err().unwrap();
    assert_eq!(third.code(), Some(&SqlState::TOO_MANY_CONNECTIONS));
    drop(first);
    // It has left when the proxy has read that.
    while tokio_postgres::connect(&proxy.uri("postgres"), NoTls).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stop_lets_the_statement_under_way_end() {
    let server = PrivatePostgres::start().unwrap();
    let mut proxy = Proxy::start(&server);
    let watch = connect(&server.uri("postgres")).await;
    watch.batch_execute("CREATE TABLE gate (open int)").await.unwrap();
    let idle = connect(&proxy.uri("postgres")).await;
    let client = connect(&proxy.uri("postgres")).await;
    let insert = client.prepare("INSERT INTO gate VALUES (1)").await.unwrap();
    watch.batch_execute("BEGIN; LOCK gate").await.unwrap();
    let running = tokio::spawn(async move {
        let inserted = client.execute(&insert, &[]).await;
        (inserted, client)
    });
    let opener = connect(&server.uri("postgres")).await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    until(&opener, waiting, 1).await;
    proxy.stop();
    // The one that does nothing is ended.
    while !idle.is_closed() {
        tokio::task::yield_now().await;
    }
    watch.batch_execute("COMMIT").await.unwrap();
    let (inserted, client) = running.await.unwrap();
    assert_eq!(inserted.unwrap(), 1);
    while !client.is_closed() {
        tokio::task::yield_now().await;
    }
    proxy.stopped();
}
