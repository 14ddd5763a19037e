//! The host of boolean search away, killed, set back; the proxy and the database killed; a folder of heads that is gone; two proxies.

use super::host::copy;
use super::{CREATE, SCHEMA, Words};
use crate::dev::Dev;
use crate::encrypted::{rows, texts};
use crate::extended::connect;
use crate::process::PATIENCE;
use arras_lab::private_postgres::PrivatePostgres;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

const FOUND: &str = "SELECT id FROM articles WHERE body @@ 'cat' ORDER BY id";

/// Asks until a statement is answered: what it says.
pub(super) async fn in_the_end(client: &Client, statement: &str) -> Vec<Vec<Option<String>>> {
    let end = Instant::now() + PATIENCE;
    loop {
        match client.simple_query(statement).await {
            Ok(_) => return rows(client, statement).await,
            Err(error) => assert!(Instant::now() < end, "{statement}: {error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn code(client: &Client, statement: &str) -> (String, String) {
    let error = client.simple_query(statement).await.expect_err(statement);
    let error = error.as_db_error().unwrap();
    (error.code().code().to_owned(), error.message().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_host_what_needs_it_is_an_error_and_the_rest_goes_on() {
    let mut words = Words::start().await;
    let client = &words.encrypted;
    client.batch_execute("INSERT INTO articles VALUES (1, 'a cat', 't')").await.unwrap();
    words.host.kill();
    for statement in
        [FOUND, "INSERT INTO articles VALUES (2, 'a cat', 't')", "UPDATE articles SET body = 'a dog'"]
    {
        let (code, message) = code(client, statement).await;
        assert_eq!(code, "08006", "{statement}: {message}");
        assert!(message.contains("host of boolean search"), "{message}");
    }
    assert_eq!(rows(client, "SELECT id, body FROM articles").await, texts(&[&["1", "a cat"]]));
    client
        .batch_execute("UPDATE articles SET id = 3; INSERT INTO articles VALUES (4, NULL, NULL)")
        .await
        .unwrap();
    words.host.restart();
    assert_eq!(in_the_end(client, FOUND).await, texts(&[&["3"]]));
    client.batch_execute("INSERT INTO articles VALUES (5, 'cats', 't')").await.unwrap();
    assert_eq!(rows(client, FOUND).await, texts(&[&["3"], &["5"]]));
}

/// A host that takes connections and says nothing: what does not need it goes on, what does can be cancelled, and then nothing of it is
/// kept.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_host_that_says_nothing_can_be_cancelled() {
    const ROUNDS: u64 = 20;
    let mut words = Words::start().await;
    words.encrypted.batch_execute("INSERT INTO articles VALUES (1, 'a cat', 't')").await.unwrap();
    words.host.kill();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    words.host.way.lead_to(Some(silent.local_addr().unwrap().to_string()));
    let text = "a long text ".repeat(200_000);
    let cancelled = async |id: u64| {
        let client = connect(&words.proxy.uri("encrypted")).await;
        let (token, statement) =
            (client.cancel_token(), format!("INSERT INTO articles VALUES ({id}, '{text}', 't')"));
        let storing = tokio::spawn(async move { client.batch_execute(&statement).await });
        // Until it waits for the host: nothing else is left to do.
        let mut waiting = 0;
        while waiting < 4 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            waiting = if words.proxy.is_waiting() { waiting + 1 } else { 0 };
        }
        while !storing.is_finished() {
            tokio::time::sleep(Duration::from_millis(50)).await;
            token.cancel_query(tokio_postgres::NoTls).await.unwrap();
        }
        storing.await.unwrap().unwrap_err();
    };
    for id in 0..4 {
        cancelled(100 + id).await;
    }
    let before = words.proxy.peak_kib();
    for id in 0..ROUNDS {
        cancelled(200 + id).await;
        assert_eq!(rows(&words.encrypted, "SELECT id, body FROM articles").await, texts(&[&["1", "a cat"]]));
    }
    let grown = (words.proxy.peak_kib() - before) * 1024;
    let sent = ROUNDS * u64::try_from(text.len()).unwrap();
    assert!(grown < sent / 2, "{grown} bytes more for {sent} that were cancelled");
}

/// Those who search at such a host and give up leave no thread behind that waits, and no connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_is_cancelled_waits_no_more() {
    const ROUNDS: u64 = 32;
    let mut words = Words::start().await;
    words.encrypted.batch_execute("INSERT INTO articles VALUES (1, 'a cat', 't')").await.unwrap();
    words.host.kill();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    words.host.way.lead_to(Some(silent.local_addr().unwrap().to_string()));
    let (mut asked, mut threads) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let client = connect(&words.proxy.uri("encrypted")).await;
        let token = client.cancel_token();
        let searching = tokio::spawn(async move { code(&client, FOUND).await.0 });
        // It asks the host when it connects.
        asked.push(silent.accept().await.unwrap().0);
        token.cancel_query(tokio_postgres::NoTls).await.unwrap();
        assert_eq!(searching.await.unwrap(), "57014");
        threads.push(words.proxy.threads());
    }
    let grown = threads[threads.len() - 1] - threads[0];
    assert!(grown < ROUNDS / 2, "{grown} threads more for {ROUNDS} that gave up: {threads:?}");
    for mut connection in asked {
        // To its end.
        tokio::io::copy(&mut connection, &mut tokio::io::sink()).await.unwrap();
    }
}

/// Its data of before under the counter of now; and all of it, counter and all, which only the proxy can notice.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_was_set_back_is_noticed_and_can_be_filled_again() {
    let mut words = Words::start().await;
    words.encrypted.batch_execute("INSERT INTO articles VALUES (1, 'a cat', 't')").await.unwrap();
    let (data, old) = (words.host.data(), words.host.path("old"));
    words.host.kill();
    copy(&data, &old);
    words.host.restart();
    in_the_end(&words.encrypted, "INSERT INTO articles VALUES (2, 'a cat', 't') ON CONFLICT DO NOTHING")
        .await;
    // The record is behind by as much.
    tokio::time::sleep(Duration::from_secs(3)).await;
    words.host.kill();
    std::fs::remove_dir_all(&data).unwrap();
    copy(&old, &data);
    words.host.restart();
    let end = Instant::now() + PATIENCE;
    let said = loop {
        let (code, message) = code(&words.encrypted, FOUND).await;
        if code != "08006" {
            break (code, message);
        }
        assert!(Instant::now() < end, "{message}");
    };
    assert!(said.0 == "XX001" && said.1.contains("set back"), "{said:?}");
    // A proxy that starts anew knows it as well.
    words.proxy.killed_and_restarted(&words.server, "encrypted");
    let client = connect(&words.proxy.uri("encrypted")).await;
    let said = code(&client, "INSERT INTO articles VALUES (3, 'a cat', 't')").await;
    assert!(said.0 == "XX001" && said.1.contains("words.json"), "{said:?}");
    words.proxy.kill();
    std::fs::remove_file(words.proxy.directory().join("data/postgres-heads/words.json")).unwrap();
    words.proxy.killed_and_restarted(&words.server, "encrypted");
    let client = connect(&words.proxy.uri("encrypted")).await;
    assert_eq!(in_the_end(&client, FOUND).await, texts(&[&["1"], &["2"]]));
}

/// A host without anything, as after a loss, and a proxy that knows of none: all texts are entered from the table.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_lost_all_is_filled_from_the_table() {
    let mut words = Words::start().await;
    let many: Vec<String> = (10..1500).map(|id| format!("({id}, 'text number{id}', 't')")).collect();
    let put = format!("INSERT INTO articles VALUES (1, 'a cat', 't'), (2, NULL, 'cat'), {}", many.join(", "));
    words.encrypted.batch_execute(&put).await.unwrap();
    words.host.kill();
    std::fs::remove_dir_all(words.host.data()).unwrap();
    words.host.restart();
    words.proxy.kill();
    std::fs::remove_file(words.proxy.directory().join("data/postgres-heads/words.json")).unwrap();
    words.proxy.killed_and_restarted(&words.server, "encrypted");
    let client = connect(&words.proxy.uri("encrypted")).await;
    assert_eq!(in_the_end(&client, FOUND).await, texts(&[&["1"]]));
    let count = "SELECT count(*) FROM articles WHERE body @@ 'text'";
    assert_eq!(in_the_end(&client, count).await, texts(&[&["1490"]]));
    assert_eq!(in_the_end(&client, "SELECT id FROM articles WHERE title @@ 'cat'").await, texts(&[&["2"]]));
}

/// A search that comes while a proxy that has just begun enters texts waits for them, and is cancelled there.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_waits_for_texts_that_are_being_entered() {
    let mut words = Words::start().await;
    words.encrypted.batch_execute("INSERT INTO articles VALUES (1, 'a cat', 't')").await.unwrap();
    words.proxy.kill();
    std::fs::remove_file(words.proxy.directory().join("data/postgres-heads/words.json")).unwrap();
    let direct = words.direct().await;
    direct.batch_execute("BEGIN; LOCK TABLE articles IN ACCESS EXCLUSIVE MODE").await.unwrap();
    words.proxy.killed_and_restarted(&words.server, "encrypted");
    let (client, impatient) =
        (connect(&words.proxy.uri("encrypted")).await, connect(&words.proxy.uri("encrypted")).await);
    let cancel = impatient.cancel_token();
    let cancelled = tokio::spawn(async move { code(&impatient, FOUND).await.0 });
    let found = tokio::spawn(async move { rows(&client, FOUND).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
    assert_eq!(cancelled.await.unwrap(), "57014");
    direct.batch_execute("COMMIT").await.unwrap();
    assert_eq!(found.await.unwrap(), texts(&[&["1"]]));
}

/// What another proxy of the same keys stores is found by this one, and the other way round.
#[tokio::test(flavor = "multi_thread")]
async fn two_proxies_find_what_either_stores() {
    let words = Words::start().await;
    let beside = words.proxy.beside(&words.server, "encrypted");
    let (one, other) = (&words.encrypted, connect(&beside.uri("encrypted")).await);
    in_the_end(&other, FOUND).await;
    let put = async |client: &Client, from: i32| {
        for id in from..from + 40 {
            let statement = format!("INSERT INTO articles VALUES ({id}, 'a cat of {from}', 't')");
            client.batch_execute(&statement).await.unwrap();
        }
    };
    tokio::join!(put(one, 100), put(&other, 200));
    for client in [one, &other] {
        assert_eq!(rows(client, FOUND).await.len(), 80);
        assert_eq!(rows(client, "SELECT id FROM articles WHERE body @@ '200'").await.len(), 40);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_knows_no_host_does_not_start_on_a_schema_with_texts() {
    let server = PrivatePostgres::start().unwrap();
    let mut proxy = Dev::start(&server, "postgres", "");
    std::fs::write(proxy.directory().join("schema.toml"), SCHEMA).unwrap();
    let said = proxy.refused_start(&server, "postgres");
    assert!(said.contains("[search]") && said.contains("articles.body"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalogue_shows_texts_as_they_are_declared() {
    let words = Words::with(SCHEMA, CREATE).await;
    let client = &words.encrypted;
    client
        .batch_execute("CREATE INDEX found ON articles USING gin (to_tsvector('english', body))")
        .await
        .unwrap();
    let columns = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'articles' ORDER BY ordinal_position";
    assert_eq!(
        rows(client, columns).await,
        texts(&[&["id", "integer"], &["body", "text"], &["title", "character varying"]])
    );
    let indexes = "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = 'articles'::regclass \
                   ORDER BY 1";
    assert_eq!(rows(client, indexes).await, texts(&[&["articles_pkey"], &["found"]]));
    let direct = words.direct().await;
    direct.batch_execute("SET enable_seqscan = off").await.unwrap();
    let plan = rows(
        &direct,
        "EXPLAIN SELECT id FROM articles WHERE \"body$text\" = ANY ('{\\\\x00,\\\\x01}'::bytea[])",
    )
    .await;
    assert!(format!("{plan:?}").contains("Index"), "{plan:?}");
    client.batch_execute("DROP INDEX found; ALTER TABLE articles DROP COLUMN body").await.unwrap();
    assert_eq!(rows(client, "SELECT * FROM articles").await, texts(&[]));
    assert_eq!(
        rows(&direct, "SELECT count(*) FROM pg_attribute WHERE attname LIKE 'body%' AND attnum > 0").await,
        texts(&[&["0"]])
    );
}

/// What `arras doctor --deep` says of a row that was put past the proxy.
#[tokio::test(flavor = "multi_thread")]
async fn a_text_without_a_name_is_found_by_doctor() {
    let words = Words::start().await;
    words
        .encrypted
        .batch_execute("INSERT INTO articles VALUES (1, 'a cat', 't'), (2, 'a dog', NULL)")
        .await
        .unwrap();
    let (well, said) = words.proxy.doctor(&words.server, "encrypted", true);
    assert!(well, "{said}");
    words
        .direct()
        .await
        .batch_execute("UPDATE articles SET \"body$text\" = NULL WHERE id = 2")
        .await
        .unwrap();
    let (well, said) = words.proxy.doctor(&words.server, "encrypted", true);
    assert!(!well && said.contains("id = 2: there is no name"), "{said}");
}
