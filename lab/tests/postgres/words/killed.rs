//! `kill -9` of the proxy, of PostgreSQL and of the host at random points of writes: every row that is there is found by its words, and
//! by no others.

use super::Words;
use super::faults::in_the_end;
use crate::encrypted::rows;
use crate::extended::connect;
use arras_lab::seed::{below, prg};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_postgres::{Client, NoTls};

/// How often they are killed; `ARRAS_CRASHES` says more.
const KILLS: u32 = 6;
const WRITERS: u32 = 3;
/// Rows of a writer's own.
const ROWS: u64 = 20;

/// Writes until the connection ends: what was acknowledged of the writer's rows.
async fn write(uri: String, writer: u32, seed: u64) -> u32 {
    let (client, connection) = tokio_postgres::connect(&uri, NoTls).await.unwrap();
    tokio::spawn(connection);
    let (mut random, mut done) = (prg(seed, "a writer of texts"), 0);
    loop {
        let id = u64::from(writer) * ROWS + below(&mut random, ROWS);
        let word = below(&mut random, 1 << 30);
        let statement = match below(&mut random, 4) {
            0 => format!("DELETE FROM articles WHERE id = {id}"),
            1 => format!("BEGIN; UPDATE articles SET body = 'common lost{word}' WHERE id = {id}; ROLLBACK"),
            _ => format!(
                "INSERT INTO articles (id, body) VALUES ({id}, 'common word{word}') ON CONFLICT (id) DO UPDATE SET body = EXCLUDED.body"
            ),
        };
        match client.batch_execute(&statement).await {
            Ok(()) => done += 1,
            // The host is away, and the proxy is not.
            Err(error) if error.code().is_some_and(|code| code.code() == "08006") && !client.is_closed() => {
                let _ = client.batch_execute("ROLLBACK").await;
            }
            Err(_) => return done,
        }
    }
}

/// Every row is found by its word.
async fn is_found(client: &Client) -> usize {
    let all = in_the_end(client, "SELECT id, body FROM articles ORDER BY id").await;
    let by_word: BTreeMap<&str, &str> = all
        .iter()
        .map(|row| (row[1].as_deref().unwrap().strip_prefix("common ").unwrap(), row[0].as_deref().unwrap()))
        .collect();
    let found = in_the_end(client, "SELECT id, body FROM articles WHERE body @@ 'common' ORDER BY id").await;
    assert_eq!(found, all);
    for (word, id) in by_word {
        let found = rows(client, &format!("SELECT id FROM articles WHERE body @@ '{word}'")).await;
        assert_eq!(found, [vec![Some(id.to_owned())]], "{word}");
    }
    let none = rows(client, "SELECT id FROM articles WHERE body @@ to_tsquery('!common')").await;
    assert!(none.is_empty(), "{none:?}");
    all.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_is_found_after_kills_of_the_proxy_of_postgresql_and_of_the_host() {
    let mut words = Words::start().await;
    let kills = std::env::var("ARRAS_CRASHES").map_or(KILLS, |kills| kills.parse().unwrap());
    let mut random = prg(2, "when texts are killed");
    let (mut acknowledged, mut left) = (0, 0);
    for kill in 0..kills {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let seed = u64::from(kill * 100 + writer);
                tokio::spawn(write(words.proxy.uri("encrypted"), writer, seed))
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(100 + below(&mut random, 900))).await;
        if kill % 3 != 0 {
            words.host.kill();
        }
        if kill % 3 == 2 {
            words.server.kill().unwrap();
        }
        tokio::time::sleep(Duration::from_millis(below(&mut random, 100))).await;
        words.proxy.kill();
        if kill % 3 == 2 {
            words.server.restart().unwrap();
        }
        if kill % 3 != 0 {
            words.host.restart();
        }
        words.proxy.killed_and_restarted(&words.server, "encrypted");
        for task in writers {
            acknowledged += task.await.unwrap();
        }
        let client = connect(&words.proxy.uri("encrypted")).await;
        left += is_found(&client).await;
    }
    eprintln!("{acknowledged} writes were acknowledged before {kills} kills");
    assert!(acknowledged > kills && left > 0);
}
