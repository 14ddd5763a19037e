//! Texts that others store between a search and the statement that goes by it: they are missed, and taken for nothing that they are not.

use super::Words;
use crate::encrypted::{rows, texts};
use crate::extended::connect;
use crate::process::PATIENCE;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// Waits until a session waits for a lock.
async fn one_waits(direct: &Client) {
    let end = Instant::now() + PATIENCE;
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = 'encrypted' AND wait_event_type = 'Lock'";
    while rows(direct, waiting).await != texts(&[&["1"]]) {
        assert!(Instant::now() < end, "nobody waits");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_text_others_change_meanwhile_is_not_taken_for_one_without_the_words() {
    let words = Words::start().await;
    let direct = words.direct().await;
    for deletes in [
        "DELETE FROM articles WHERE NOT (body @@ 'cat')",
        "DELETE FROM articles WHERE (body @@ to_tsquery('cat')) IS NOT TRUE AND body IS NOT NULL",
        "DELETE FROM articles WHERE NOT to_tsvector(coalesce(body, '')) @@ plainto_tsquery('cat')",
        "DELETE FROM articles WHERE body @@ to_tsquery('!cat')",
        "DELETE FROM articles WHERE NOT (body @@ to_tsquery('cat | bird') AND id < 9)",
    ] {
        let [changing, deleting] =
            [connect(&words.proxy.uri("encrypted")).await, connect(&words.proxy.uri("encrypted")).await];
        changing
            .batch_execute(
                "INSERT INTO articles VALUES (1, 'a dog', NULL), (2, 'a dog', NULL), (3, 'a cat', NULL)",
            )
            .await
            .unwrap();
        changing.batch_execute("BEGIN; UPDATE articles SET body = 'a cat' WHERE id = 1").await.unwrap();
        let done = tokio::spawn(async move { deleting.batch_execute(deletes).await });
        one_waits(&direct).await;
        changing.batch_execute("COMMIT").await.unwrap();
        done.await.unwrap().unwrap();
        let left = rows(&changing, "SELECT id, body FROM articles ORDER BY id").await;
        assert_eq!(left, texts(&[&["1", "a cat"], &["3", "a cat"]]), "{deletes}");
        changing.batch_execute("DELETE FROM articles").await.unwrap();
    }
}
