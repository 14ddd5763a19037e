//! The five transactions on PostgreSQL itself: what the encrypted runs are compared with must be right first.

use crate::dev::Dev;
use crate::twins::relay::Relay;
use arras_lab::private_postgres::PrivatePostgres;
use arras_lab::tpcc::driver::{Run, Terminals, Until};
use arras_lab::tpcc::schema::{SENSITIVE, TABLES};
use arras_lab::tpcc::statements::STATEMENTS;
use arras_lab::tpcc::{Kind, Outcome, Random, Scale, Terminal, TpccError, check, load};
use std::fmt::Write;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

async fn connect(uri: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(uri, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Every row of every table, as text.
async fn contents(client: &Client) -> Vec<Vec<String>> {
    let mut tables = Vec::new();
    for (table, order) in TABLES {
        let messages = client.simple_query(&format!("SELECT * FROM {table} ORDER BY {order}")).await.unwrap();
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        tables.push(
            rows.map(|row| format!("{:?}", (0..row.len()).map(|at| row.get(at)).collect::<Vec<_>>()))
                .collect(),
        );
    }
    tables
}

#[tokio::test(flavor = "multi_thread")]
async fn terminals_beside_one_another_leave_consistent_tables() {
    let server = PrivatePostgres::start().unwrap();
    let uri = server.uri("postgres");
    let client = connect(&uri).await;
    let scale = Scale { warehouses: 2, ..Scale::small() };
    load(&client, scale, 11).await.unwrap();
    check(&client).await.unwrap();
    let parameters = Run { scale, terminals: 4, seed: 11 };
    let mut terminals = Terminals::connect(parameters, || async { Ok(connect(&uri).await) }).await.unwrap();
    let done = terminals.run(Until::Transactions(150)).await.unwrap();
    assert_eq!(done.committed.len(), 5, "{done:?}");
    assert_eq!(done.committed.values().sum::<u64>() + done.rolled_back, 600);
    check(&client).await.unwrap();

    client.batch_execute("UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2").await.unwrap();
    assert!(
        matches!(check(&client).await, Err(TpccError::Inconsistent(what)) if what.starts_with("condition 1"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_repeats_its_tables() {
    let server = PrivatePostgres::start().unwrap();
    let mut seen = Vec::new();
    for database in ["one", "other"] {
        let client = connect(&server.uri("postgres")).await;
        client.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
        let uri = server.uri(database);
        let client = connect(&uri).await;
        load(&client, Scale::small(), 5).await.unwrap();
        let mut terminal =
            Terminal::new(connect(&uri).await, Scale::small(), 1, Random::new(5, 5)).await.unwrap();
        for kind in Kind::ALL {
            assert_eq!(terminal.run_kind(kind).await.unwrap(), Outcome::Committed);
        }
        for _ in 0..60 {
            terminal.run().await.unwrap();
        }
        seen.push(contents(&client).await);
    }
    assert!(seen[0].iter().all(|table| !table.is_empty()));
    assert_eq!(seen[0], seen[1]);
}

/// Texts that are prepared in some bytes of the protocol, one after the other.
fn prepared(mut bytes: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    while let [kind, a, b, c, d, ..] = *bytes {
        let length = 1 + u32::from_be_bytes([a, b, c, d]) as usize;
        let Some((message, rest)) = bytes.split_at_checked(length) else { break };
        if kind == b'P' {
            let text = message[5..].split(|byte| *byte == 0).nth(1).unwrap();
            texts.push(String::from_utf8(text.to_vec()).unwrap());
        }
        bytes = rest;
    }
    texts
}

/// Whether a connection is the one on which the proxy raises its mark now and then, whatever is run beside it.
fn keeps_the_mark(sent: &[u8]) -> bool {
    let begins = b"SET synchronous_commit = on";
    sent.windows(begins.len()).any(|bytes| bytes == begins)
}

const LISTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/tpcc.md");

/// `ARRAS_WRITE=1` writes the list anew.
#[tokio::test(flavor = "multi_thread")]
async fn each_of_the_31_statements_runs_as_it_is_listed() {
    let server = PrivatePostgres::start().unwrap();
    let relay = Relay::start(server.port());
    let upstream = format!("postgres://postgres@{}/postgres", relay.address);
    let proxy = Dev::in_front_of(&upstream, SENSITIVE, "warn");
    load(&connect(&proxy.uri("postgres")).await, Scale::small(), 5).await.unwrap();
    let mut list = String::new();
    for (statement, text) in STATEMENTS {
        let client = connect(&proxy.uri("postgres")).await;
        let before: Vec<usize> = relay.recorded().iter().map(|one| one.sent.len()).collect();
        client.prepare(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
        let mut runs = Vec::new();
        for (at, recorded) in relay.recorded().iter().enumerate() {
            if keeps_the_mark(&recorded.sent) {
                continue;
            }
            runs.extend(prepared(&recorded.sent[before.get(at).copied().unwrap_or(0)..]));
        }
        let _ = write!(list, "\n## {statement:?}\n\n```sql\n{text}\n```\n\n");
        if runs == [text] {
            let has_rows = text.starts_with("SELECT") || text.contains(" RETURNING ");
            let opened = if has_rows { "; what is sealed in its rows the proxy opens" } else { "" };
            let _ = writeln!(list, "As it is{opened}.");
        } else {
            for text in runs {
                let _ = write!(list, "```sql\n{text}\n```\n");
            }
        }
    }
    let text = std::fs::read_to_string(LISTED).unwrap();
    let (head, listed) = text
        .split_once("\n## ")
        .map_or((text.as_str(), String::new()), |(head, rest)| (head, format!("\n## {rest}")));
    if std::env::var_os("ARRAS_WRITE").is_some() {
        std::fs::write(LISTED, format!("{head}{list}")).unwrap();
        return;
    }
    assert_eq!(
        listed, list,
        "docs/tpcc.md is not what runs: ARRAS_WRITE=1 cargo test -p arras-lab --test postgres 31_statements"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_tables_are_those_of_plaintext() {
    let server = PrivatePostgres::start().unwrap();
    let admin = connect(&server.uri("postgres")).await;
    for database in ["plain", "encrypted"] {
        admin.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
    }
    let proxy = Dev::start(&server, "encrypted", SENSITIVE);
    let scale = Scale { items: 60, customers: 12, orders: 12, ..Scale::small() };
    let mut seen = Vec::new();
    for uri in [server.uri("plain"), proxy.uri("encrypted")] {
        let client = connect(&uri).await;
        load(&client, scale, 5).await.unwrap_or_else(|error| panic!("{error}"));
        let mut terminal = Terminal::new(connect(&uri).await, scale, 1, Random::new(5, 5)).await.unwrap();
        for kind in Kind::ALL {
            let outcome = terminal.run_kind(kind).await.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            assert_eq!(outcome, Outcome::Committed);
        }
        for _ in 0..60 {
            terminal.run().await.unwrap_or_else(|error| panic!("{error}"));
        }
        check(&client).await.unwrap_or_else(|error| panic!("{error}"));
        seen.push(contents(&client).await);
    }
    assert!(seen[0].iter().all(|table| !table.is_empty()));
    assert_eq!(seen[0], seen[1]);
}
