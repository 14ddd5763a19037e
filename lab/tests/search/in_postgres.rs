//! `PostgreSQL` as a storage service: what is kept, how, and what becomes of it when servers, connections and places are lost.

use crate::storage::is_begun_by_one;
use arras_host::store::postgres::PostgresStore;
use arras_host::store::{Store, StoreError, conformance};
use arras_lab::private_postgres::{Options, PrivatePostgres, SUPERUSER};
use arras_protocol::Blob;
use arras_protocol::iee::{BATCH_MAX, LABEL_BYTES, SEALED_BYTES, StateName};
use std::sync::Arc;
use std::time::Duration;

/// How long tests wait for a server that they take away for good, or have hang.
pub(crate) const IMPATIENCE: Duration = Duration::from_secs(4);

/// How long stores wait for one that comes back, on whatever machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// The password of the role `search`; with what must not be taken for a part of an address.
pub(crate) const PASSWORD: &str = "hunter2%2F%40%3F";

/// What `psql` says, as the superuser; nothing while the server does not answer.
pub(crate) fn asked(postgres: &PrivatePostgres, statement: &str) -> String {
    let mut psql = postgres.command("psql");
    psql.args(["-XAtq", "-h", "127.0.0.1", "-p", &postgres.port().to_string(), "-U", SUPERUSER]);
    let said = psql.args(["-d", "postgres", "-c", statement]).output().unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

/// One with a role `search` that must say its password, and may make schemas.
pub(crate) fn by_password() -> PrivatePostgres {
    let access = "host all search all scram-sha-256\nhost all all all trust\nlocal all all trust\n";
    let settings = vec![("fsync".to_owned(), "off".to_owned())];
    let options = Options { settings, access: Some(access.into()), ..Options::default() };
    let postgres = PrivatePostgres::start_with(&options).unwrap();
    asked(&postgres, "CREATE ROLE search LOGIN PASSWORD 'hunter2/@?'");
    asked(&postgres, "GRANT CREATE ON DATABASE postgres TO search");
    postgres
}

/// How `search` connects with a password.
pub(crate) fn uri_with(postgres: &PrivatePostgres, password: &str) -> String {
    format!("postgres://search:{password}@127.0.0.1:{}/postgres", postgres.port())
}

async fn connect(postgres: &PrivatePostgres, schema: &str) -> PostgresStore {
    PostgresStore::connect(&postgres.uri("postgres"), schema, PATIENCE).await.unwrap()
}

/// A label that says nothing of the number's place.
fn label(number: u32) -> [u8; LABEL_BYTES] {
    let mut label = [0; LABEL_BYTES];
    label[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b1).to_be_bytes());
    label[4..8].copy_from_slice(&number.to_be_bytes());
    label
}

pub(crate) fn labels(count: u32) -> Blob {
    (0..count).flat_map(label).collect::<Vec<u8>>().into()
}

pub(crate) fn entries(count: u32, byte: u8) -> Blob {
    let entry = |number| [&label(number)[..], &[byte; SEALED_BYTES]].concat();
    (0..count).flat_map(entry).collect::<Vec<u8>>().into()
}

#[tokio::test]
async fn it_keeps_what_it_is_given_in_schemas_of_their_own() {
    let postgres = by_password();
    for schema in ["arras_search", "Other"] {
        let uri = uri_with(&postgres, PASSWORD);
        let store = PostgresStore::connect(&uri, schema, PATIENCE).await.unwrap();
        conformance::a_service_keeps_what_it_is_given(&store).await;
        let count = |table: &str| asked(&postgres, &format!("SELECT count(*) FROM \"{schema}\".{table}"));
        assert_eq!([count("iee_entries"), count("iee_state")], ["999", "4"]);
    }
    is_begun_by_one(&connect(&postgres, "begun").await).await;
    for odd in ["", "a; DROP", "a\"b", &"a".repeat(64)] {
        let refused = PostgresStore::connect(&postgres.uri("postgres"), odd, PATIENCE).await;
        assert!(refused.err().unwrap().to_string().contains("schema"), "{odd:?}");
    }
}

/// Tables that are there are used by a role that may make none.
#[tokio::test]
async fn a_role_need_not_own_the_tables() {
    let postgres = by_password();
    drop(connect(&postgres, "given").await);
    asked(&postgres, "REVOKE CREATE ON DATABASE postgres FROM search; GRANT USAGE ON SCHEMA given TO search");
    let uri = uri_with(&postgres, PASSWORD);
    let store = PostgresStore::connect(&uri, "given", PATIENCE).await.unwrap();
    let refused = store.get(labels(1)).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Failed(what) if what.contains("permission denied")), "{refused}");
    asked(&postgres, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA given TO search");
    conformance::a_service_keeps_what_it_is_given(&store).await;
}

/// A schema that is there, another's or its own, is used by a role that may make none; in one where it may make nothing it is told so.
#[tokio::test]
async fn a_schema_that_was_given_is_used() {
    let postgres = by_password();
    asked(&postgres, "REVOKE CREATE ON DATABASE postgres FROM search");
    asked(&postgres, "CREATE SCHEMA its AUTHORIZATION search; CREATE SCHEMA others; CREATE SCHEMA closed");
    asked(
        &postgres,
        "GRANT USAGE, CREATE ON SCHEMA others TO search; GRANT USAGE ON SCHEMA closed TO search",
    );
    let uri = uri_with(&postgres, PASSWORD);
    for schema in ["its", "others"] {
        let store = PostgresStore::connect(&uri, schema, PATIENCE).await.unwrap();
        conformance::a_service_keeps_what_it_is_given(&store).await;
        // Its tables are there at the next start.
        drop(store);
        let again = PostgresStore::connect(&uri, schema, PATIENCE).await.unwrap();
        assert!(again.load(StateName::Head).await.unwrap().is_some());
    }
    for (schema, of) in [("closed", "schema closed"), ("none", "database postgres")] {
        let refused = PostgresStore::connect(&uri, schema, PATIENCE).await.err().unwrap();
        let words = format!("permission denied for {of}");
        assert!(matches!(&refused, StoreError::Failed(what) if what.contains(&words)), "{refused}");
    }
}

/// The largest batch is two statements; where a row lies says in which of them it came, and of its place among them nothing.
#[tokio::test]
async fn a_batch_is_two_statements_whose_rows_lie_by_their_labels() {
    let postgres = PrivatePostgres::start().unwrap();
    let store = connect(&postgres, "search").await;
    let count = u32::try_from(BATCH_MAX).unwrap();
    store.put(entries(count, 6)).await.unwrap();
    assert!(store.get(labels(count)).await.unwrap() == [6; SEALED_BYTES].repeat(BATCH_MAX));
    assert_eq!(asked(&postgres, "SELECT count(DISTINCT xmin::text) FROM search.iee_entries"), "2");
    let lies = asked(&postgres, "SELECT label FROM search.iee_entries ORDER BY ctid");
    assert_eq!(lies.lines().count(), BATCH_MAX);
    assert!(lies.lines().is_sorted());
    let before = asked(&postgres, "SELECT pg_current_xact_id()::text::bigint");
    store.remove(labels(count)).await.unwrap();
    let after = asked(&postgres, "SELECT pg_current_xact_id()::text::bigint");
    assert_eq!(after.parse::<u64>().unwrap() - before.parse::<u64>().unwrap(), 3, "two, and the question");
    assert_eq!(asked(&postgres, "SELECT count(*) FROM search.iee_entries"), "0");
}

/// Of two entries under one label in a batch the later is kept, as of two batches.
#[tokio::test]
async fn the_later_of_two_under_one_label_is_kept() {
    let postgres = PrivatePostgres::start().unwrap();
    let store = connect(&postgres, "search").await;
    let twice = [entries(9, 1).0, entries(9, 2).0].concat();
    store.put(twice.into()).await.unwrap();
    assert!(store.get(labels(9)).await.unwrap() == [2; SEALED_BYTES].repeat(9));
}

/// What was acknowledged is there after a crash, whatever the server's own settings say of commits.
#[tokio::test]
async fn what_was_acknowledged_outlives_the_server() {
    // Only the writer of the log could write what was acknowledged before, and that sleeps.
    let settings = [("fsync", "off"), ("synchronous_commit", "off"), ("wal_writer_delay", "10s")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let mut postgres = PrivatePostgres::start_with(&Options { settings, ..Options::default() }).unwrap();
    let store = connect(&postgres, "search").await;
    for round in 1..=3 {
        store.put(entries(100, round)).await.unwrap();
        store.save(StateName::Head, vec![round; 9].into()).await.unwrap();
        postgres.kill().unwrap();
        postgres.restart().unwrap();
        assert!(store.get(labels(100)).await.unwrap() == [round; SEALED_BYTES].repeat(100), "round {round}");
        assert_eq!(store.load(StateName::Head).await.unwrap(), Some(vec![round; 9]));
    }
}

/// One that is away is an error after a while, and used again when it is back, though it was killed, stopped or its connections were.
#[tokio::test]
async fn a_server_that_was_lost_is_used_again() {
    let mut postgres = PrivatePostgres::start().unwrap();
    let uri = postgres.uri("postgres");
    let impatient = PostgresStore::connect(&uri, "impatient", IMPATIENCE).await.unwrap();
    let store = connect(&postgres, "search").await;
    for round in 1..=4 {
        store.put(entries(100, round)).await.unwrap();
        let is_ended = round == 1;
        if is_ended {
            let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' \
                          AND pid <> pg_backend_pid()";
            asked(&postgres, others);
        } else {
            if round % 2 == 0 {
                postgres.kill().unwrap()
            } else {
                postgres.stop().unwrap()
            }
            let away = impatient.get(labels(100)).await.unwrap_err();
            assert!(matches!(&away, StoreError::Away(what) if what.contains("PostgreSQL: ")), "{away}");
        }
        let (put, got, ()) = tokio::join!(store.put(entries(200, round)), store.get(labels(100)), async {
            if !is_ended {
                postgres.restart().unwrap();
            }
        });
        put.unwrap();
        assert!(got.unwrap() == [round; SEALED_BYTES].repeat(100), "round {round}");
        assert!(store.get(labels(200)).await.unwrap() == [round; SEALED_BYTES].repeat(200), "round {round}");
    }
    drop(postgres);
    let gone = PostgresStore::connect(&uri, "search", IMPATIENCE).await.err().unwrap();
    assert!(matches!(gone, StoreError::Away(_)), "{gone}");
}

/// A server whose places are all taken is asked again until there is one.
#[tokio::test]
async fn a_place_is_waited_for() {
    let postgres = by_password();
    let uri = uri_with(&postgres, PASSWORD);
    let store = PostgresStore::connect(&uri, "search", PATIENCE).await.unwrap();
    asked(&postgres, "ALTER ROLE search CONNECTION LIMIT 0");
    let full = PostgresStore::connect(&uri, "other", PATIENCE).await.err().unwrap();
    assert!(matches!(&full, StoreError::Away(what) if what.contains("too many connections")), "{full}");
    let refusals = || {
        let log = std::fs::read_to_string(postgres.log()).unwrap();
        log.matches("too many connections for role").count()
    };
    let before = refusals();
    asked(&postgres, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'search'");
    let store = Arc::new(store);
    let put = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.put(entries(9, 1)).await }
    });
    while refusals() == before {
        assert!(!put.is_finished(), "it did not wait");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    asked(&postgres, "ALTER ROLE search CONNECTION LIMIT 5");
    put.await.unwrap().unwrap();
    assert!(store.get(labels(9)).await.unwrap() == [1; SEALED_BYTES].repeat(9));
}

/// What was given up as late is not done behind what was written since: nothing is written until its connection has ended.
#[tokio::test]
async fn what_is_late_does_not_come_behind_what_is_newer() {
    let postgres = PrivatePostgres::start().unwrap();
    let store = PostgresStore::connect(&postgres.uri("postgres"), "search", IMPATIENCE).await.unwrap();
    let of_store =
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let late = asked(&postgres, of_store);
    let signal = |name: &str| {
        let sent = std::process::Command::new("kill").args([name, &late]).status().unwrap();
        assert!(sent.success());
    };
    signal("-STOP");
    let hangs = store.put(entries(9, 1)).await.unwrap_err();
    assert!(matches!(hangs, StoreError::Away(_)), "{hangs}");
    let waits = store.put(entries(9, 2)).await.unwrap_err();
    assert!(waits.to_string().contains("another host is connected"), "{waits}");
    signal("-CONT");
    while let Err(error) = store.put(entries(9, 2)).await {
        assert!(matches!(error, StoreError::Away(_)), "{error}");
    }
    while !asked(&postgres, &format!("SELECT pid FROM pg_stat_activity WHERE pid = {late}")).is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(store.get(labels(9)).await.unwrap() == [2; SEALED_BYTES].repeat(9));
}

/// What is wrong is said in PostgreSQL's words, and nothing of the address's password.
#[tokio::test]
async fn no_error_says_the_password() {
    let postgres = by_password();
    let port = postgres.port();
    let uris = [
        (uri_with(&postgres, "hunter3"), "password authentication failed for user \"search\" (28P01)"),
        (
            uri_with(&postgres, PASSWORD).replace("/postgres", "/none"),
            "database \"none\" does not exist (3D000)",
        ),
        (uri_with(&postgres, PASSWORD) + "?sslmode=require", "TLS"),
        (format!("postgres://search@127.0.0.1:{port}/postgres?hunter2=password"), "cannot be read"),
        (format!("postgres://search@127.0.0.1:{port}/postgres?pasword=hunter2"), "cannot be read"),
        (format!("host=127.0.0.1 port={port} user=search password='hunter2"), "cannot be read"),
    ];
    for (uri, words) in uris {
        let error = PostgresStore::connect(&uri, "search", PATIENCE).await.err().unwrap();
        assert!(matches!(error, StoreError::Failed(_)), "{error}");
        let said = format!("{error} {error:?}");
        assert!(error.to_string().contains(words), "{said}");
        assert!(!["hunter", "ter2"].iter().any(|part| said.contains(part)), "{said}");
    }
}
