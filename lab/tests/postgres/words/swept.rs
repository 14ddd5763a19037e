//! Entries that no row has are removed, and none that a transaction may still see or store.

use super::Words;
use crate::encrypted::{rows, texts};
use crate::extended::connect;
use arras_postgres::mope::Connections;
use arras_postgres::words::{ColumnWords, Pauses, Swept, TextPlace, WordTables};
use arras_postgres::{Schema, Upstream};
use arras_proxy::configuration::Search;
use arras_service::words::WordStore;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Client;

/// The column of bodies, beside the proxy.
struct Beside {
    column: ColumnWords,
    store: Arc<dyn WordStore>,
}

/// Without any waiting for transactions.
const AT_ONCE: Pauses =
    Pauses { epochs: Duration::ZERO, look: Duration::from_millis(5), patience: Duration::ZERO };
const PATIENT: Pauses = Pauses { patience: Duration::from_secs(120), ..AT_ONCE };

impl Beside {
    fn of(words: &Words) -> Self {
        let schema = Schema::parse(super::SCHEMA, "s").unwrap();
        let encryption = Arc::clone(schema.column("public", "articles", "body").unwrap());
        let told = words.host.told();
        let attested = (Some(told.folder.clone()), Some(told.folder.join("policy.toml")));
        let search = Search::at(&told.address, attested, false).unwrap();
        let columns = arras_text::columns::Columns::new(arras_proxy::text::host(&search).unwrap());
        let store: Arc<dyn WordStore> = Arc::new(columns.column(encryption.id, "english").unwrap());
        let upstream = Upstream::parse(&words.server.uri("encrypted"), None).unwrap();
        let connections = Arc::new(Connections::new(upstream.keeping(PATIENT.patience, PATIENT.patience)));
        let place = TextPlace { schema: "public".into(), table: "articles".into(), column: "body".into() };
        let tables = Arc::new(WordTables::new(connections));
        let column = ColumnWords::new((encryption, place), tables, Arc::clone(&store), true);
        Self { column, store }
    }

    async fn names(&self) -> BTreeSet<Vec<u8>> {
        self.store.all().await.unwrap().into_iter().map(|name| name.to_vec()).collect()
    }
}

async fn stored(client: &Client) -> BTreeSet<Vec<u8>> {
    let rows = client.query("SELECT \"body$text\" FROM articles WHERE body IS NOT NULL", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_row_has_goes_and_the_rest_is_found() {
    let words = Words::start().await;
    let (client, direct) = (&words.encrypted, words.direct().await);
    let many: Vec<String> = (0..300).map(|id| format!("({id}, 'a cat of {id}', 't')")).collect();
    client.batch_execute(&format!("INSERT INTO articles VALUES {}", many.join(", "))).await.unwrap();
    client.batch_execute("BEGIN; UPDATE articles SET body = 'a dog'; ROLLBACK").await.unwrap();
    client
        .batch_execute("DELETE FROM articles WHERE id >= 100; UPDATE articles SET body = NULL WHERE id < 10")
        .await
        .unwrap();
    client.batch_execute("UPDATE articles SET body = 'a cat anew' WHERE id < 20 AND id >= 10").await.unwrap();
    let beside = Beside::of(&words);
    let before = beside.names().await;
    let left = stored(&direct).await;
    assert!(before.len() == 302 && left.is_subset(&before), "{}", before.len());
    let swept = beside.column.sweep(PATIENT).await.unwrap();
    assert_eq!(swept, Swept::Removed(302 - left.len() as u64, left.len() as u64));
    assert_eq!(beside.names().await, left);
    let found = |word: &str| format!("SELECT count(*) FROM articles WHERE body @@ '{word}'");
    assert_eq!(rows(client, &found("cat")).await, texts(&[&["90"]]));
    assert_eq!(rows(client, &found("anew")).await, texts(&[&["10"]]));
    assert_eq!(rows(client, &found("dog")).await, texts(&[&["0"]]));
    assert_eq!(beside.column.sweep(PATIENT).await.unwrap(), Swept::Removed(0, left.len() as u64));
    // What was entered two epochs ago is not stored any more, and what comes now is.
    let direct_name = "SELECT arras.text_name(x'7a1b2c3d4e5f6d01'::bigint, int8send(epoch - $1) || '\\x000102030405060708090a0b0c0d0e0f'::bytea) \
                       FROM arras.text_column WHERE id = x'7a1b2c3d4e5f6d01'::bigint";
    for (age, is_good) in [(0_i64, true), (1, true), (2, false)] {
        let named = direct.query_one(direct_name, &[&age]).await;
        match is_good {
            true => assert_eq!(named.unwrap().get::<_, &[u8]>(0), &(0..16).collect::<Vec<u8>>()[..]),
            false => assert_eq!(named.unwrap_err().code().unwrap().code(), "40001"),
        }
    }
    client.batch_execute("INSERT INTO articles VALUES (900, 'a dog', 't')").await.unwrap();
    assert_eq!(rows(client, &found("dog")).await, texts(&[&["1"]]));
}

/// A row that is not committed yet, and one that has gone and an older transaction still sees.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_transaction_under_way_stores_or_sees_is_left() {
    let words = Words::start().await;
    let client = &words.encrypted;
    client.batch_execute("INSERT INTO articles VALUES (1, 'a cat', 't'), (2, 'a dog', 't')").await.unwrap();
    let beside = Beside::of(&words);
    let found = "SELECT id FROM articles WHERE body @@ 'dog | heron' ORDER BY id";
    let found = found.replace("'dog | heron'", "to_tsquery('dog | heron')");
    let [storing, seeing] =
        [connect(&words.proxy.uri("encrypted")).await, connect(&words.proxy.uri("encrypted")).await];
    storing.batch_execute("BEGIN; INSERT INTO articles VALUES (3, 'a heron', 't')").await.unwrap();
    seeing.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    assert_eq!(rows(&seeing, &found).await, texts(&[&["2"]]));
    client.batch_execute("DELETE FROM articles WHERE id = 2").await.unwrap();
    assert_eq!(beside.column.sweep(AT_ONCE).await.unwrap(), Swept::Waiting);
    let column = Arc::new(beside.column);
    let sweeping = tokio::spawn({
        let column = Arc::clone(&column);
        async move { column.sweep(PATIENT).await.unwrap() }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(rows(&seeing, &found).await, texts(&[&["2"]]), "it sees what it saw");
    storing.batch_execute("COMMIT").await.unwrap();
    assert_eq!(rows(&seeing, &found).await, texts(&[&["2"]]));
    seeing.batch_execute("COMMIT").await.unwrap();
    assert_eq!(sweeping.await.unwrap(), Swept::Removed(1, 2));
    assert_eq!(rows(client, &found).await, texts(&[&["3"]]));
}

/// A table that is not there under its name, or of which rows are hidden from the proxy: nothing is taken for gone.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_left() {
    let words = Words::start().await;
    let (client, direct) = (&words.encrypted, words.direct().await);
    client.batch_execute("INSERT INTO articles VALUES (1, 'a cat', 't')").await.unwrap();
    let beside = Beside::of(&words);
    direct.batch_execute("ALTER TABLE articles RENAME TO others").await.unwrap();
    assert_eq!(beside.column.sweep(PATIENT).await.unwrap(), Swept::NoTable);
    direct.batch_execute("ALTER TABLE others RENAME TO articles").await.unwrap();
    assert_eq!(beside.names().await.len(), 1);
    assert_eq!(beside.column.sweep(PATIENT).await.unwrap(), Swept::Removed(0, 1));
}

/// A table that makes place for another for a while has its words when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_table_under_another_name_has_is_left() {
    let words = Words::start().await;
    let (client, direct) = (&words.encrypted, words.direct().await);
    client.batch_execute("INSERT INTO articles VALUES (1, 'a cat', 't')").await.unwrap();
    let beside = Beside::of(&words);
    direct
        .batch_execute("ALTER TABLE articles RENAME TO kept; CREATE TABLE articles (LIKE kept INCLUDING ALL)")
        .await
        .unwrap();
    let other = connect(&words.proxy.uri("encrypted")).await;
    other.batch_execute("INSERT INTO articles VALUES (2, 'a cat', 't'); DELETE FROM articles").await.unwrap();
    assert_eq!(beside.column.sweep(PATIENT).await.unwrap(), Swept::Removed(1, 1));
    direct.batch_execute("DROP TABLE articles; ALTER TABLE kept RENAME TO articles").await.unwrap();
    let again = connect(&words.proxy.uri("encrypted")).await;
    assert_eq!(rows(&again, "SELECT id FROM articles WHERE body @@ 'cat'").await, texts(&[&["1"]]));
}
