//! A database that is set back where no order is kept: a backup that is put in its place, as a restore or a failover does.

use crate::dev::Dev;
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;
use std::path::Path;
use std::process::Command;
use tokio_postgres::{Client, NoTls};

/// Equality alone: no tree says how far it had come.
const SCHEMA: &str = r#"
[tables."public.notes"]
owner = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["equality"] }
"#;

/// A folder in the file system of its data, into and out of which that can be moved.
fn beside(server: &PrivatePostgres) -> tempfile::TempDir {
    tempfile::tempdir_in(server.data().parent().unwrap()).unwrap()
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

/// Inserts a row through the proxy and waits until its record holds a mark that was raised since.
async fn insert(proxy: &Dev, client: &Client, owner: &str) {
    let record = proxy.directory().join("data/postgres-heads/database.mark");
    let raised = || {
        let text = std::fs::read_to_string(&record).unwrap();
        text.split_whitespace().nth(1).unwrap().parse::<i64>().unwrap()
    };
    let before = raised();
    client.batch_execute(&format!("INSERT INTO notes VALUES ('{owner}')")).await.unwrap();
    // One may be under way that was begun before the row. It is raised for what writes alone, as this does.
    while raised() < before + 2 {
        client.batch_execute("SELECT pg_current_xact_id()").await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn refused(proxy: &Dev) -> String {
    let refused = tokio_postgres::connect(&proxy.uri("postgres"), NoTls).await;
    let error = refused.err().expect("no session begins");
    let said = error.as_db_error().unwrap_or_else(|| panic!("{error:?}"));
    assert_eq!(said.code().code(), "XX001", "{said:?}");
    format!("{} {}", said.message(), said.hint().unwrap_or_default())
}

#[tokio::test]
async fn a_database_without_orders_that_is_set_back_is_noticed_beside_a_proxy_that_runs_and_at_its_start() {
    let mut server = PrivatePostgres::start().unwrap();
    let mut proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE notes (owner text)").await.unwrap();
    insert(&proxy, &client, "Ann").await;
    let folder = beside(&server);
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    server.stop().unwrap();
    copy(&server.data(), &old);
    server.restart().unwrap();
    // Nothing is wrong with a database that was restarted.
    let client = connect(&proxy.uri("postgres")).await;
    insert(&proxy, &client, "Bob").await;
    server.stop().unwrap();
    std::fs::rename(server.data(), &new).unwrap();
    copy(&old, &server.data());
    server.restart().unwrap();
    let said = refused(&proxy).await;
    assert!(said.contains("was set back") && said.contains("Restore what is newer"), "{said}");
    let (well, said) = proxy.doctor(&server, "postgres", false);
    assert!(!well && said.contains("FAIL  history: the database was set back"), "{said}");
    let said = proxy.refused_start(&server, "postgres");
    assert!(said.contains("was set back") && said.contains("postgres-heads"), "{said}");
    // What is newer is in its place again.
    server.stop().unwrap();
    std::fs::remove_dir_all(server.data()).unwrap();
    std::fs::rename(&new, server.data()).unwrap();
    server.restart().unwrap();
    proxy.killed_and_restarted(&server, "postgres");
    let client = connect(&proxy.uri("postgres")).await;
    assert_eq!(client.query_one("SELECT count(*) FROM notes", &[]).await.unwrap().get::<_, i64>(0), 2);
    let (well, said) = proxy.doctor(&server, "postgres", true);
    assert!(well, "{said}");
    // Whoever means to go on with the old state says so.
    server.stop().unwrap();
    std::fs::remove_dir_all(server.data()).unwrap();
    copy(&old, &server.data());
    server.restart().unwrap();
    std::fs::remove_dir_all(proxy.directory().join("data/postgres-heads")).unwrap();
    proxy.killed_and_restarted(&server, "postgres");
    let client = connect(&proxy.uri("postgres")).await;
    assert_eq!(client.query_one("SELECT count(*) FROM notes", &[]).await.unwrap().get::<_, i64>(0), 1);
}

/// Sessions of other databases are not asked at their beginning; what they write has the mark raised, which says it.
#[tokio::test]
async fn sessions_that_go_on_end_when_the_database_is_found_to_have_been_set_back() {
    let mut server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE notes (owner text)").await.unwrap();
    client.batch_execute("CREATE DATABASE other").await.unwrap();
    insert(&proxy, &client, "Ann").await;
    let folder = beside(&server);
    let old = folder.path().join("old");
    server.stop().unwrap();
    copy(&server.data(), &old);
    server.restart().unwrap();
    let client = connect(&proxy.uri("postgres")).await;
    insert(&proxy, &client, "Bob").await;
    server.stop().unwrap();
    std::fs::remove_dir_all(server.data()).unwrap();
    copy(&old, &server.data());
    server.restart().unwrap();
    let other = connect(&proxy.uri("other")).await;
    let mut ended = None;
    for _ in 0..300 {
        if let Err(error) = other.batch_execute("SELECT pg_current_xact_id()").await {
            ended = Some(error);
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let ended = ended.expect("it does not go on");
    assert!(ended.is_closed() || ended.code().is_some_and(|code| code.code() == "XX001"), "{ended:?}");
    let refused = tokio_postgres::connect(&proxy.uri("other"), NoTls).await;
    let told = match refused {
        Err(error) => error,
        // It has begun, and is ended.
        Ok((client, connection)) => {
            let told = connection.await.expect_err("it does not go on");
            drop(client);
            told
        }
    };
    assert_eq!(told.code().map(|code| code.code()), Some("XX001"), "{told:?}");
}

/// Who only reads has no mark raised: a dump that was taken since the last write is as new as the record.
#[tokio::test]
async fn reading_does_not_make_a_copy_older() {
    let mut server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE notes (owner text)").await.unwrap();
    insert(&proxy, &client, "Ann").await;
    // What was begun before is at its end: nothing is written in two looks.
    let record = proxy.directory().join("data/postgres-heads/database.mark");
    let read = || std::fs::read_to_string(&record).unwrap();
    let mut before = String::new();
    while before != read() {
        before = read();
        tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    }
    let folder = beside(&server);
    server.stop().unwrap();
    copy(&server.data(), &folder.path().join("old"));
    server.restart().unwrap();
    let client = connect(&proxy.uri("postgres")).await;
    for _ in 0..30 {
        client.batch_execute("SELECT count(*) FROM notes WHERE owner = 'Ann'").await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    server.stop().unwrap();
    std::fs::remove_dir_all(server.data()).unwrap();
    std::fs::rename(folder.path().join("old"), server.data()).unwrap();
    server.restart().unwrap();
    let client = connect(&proxy.uri("postgres")).await;
    assert_eq!(client.query_one("SELECT count(*) FROM notes", &[]).await.unwrap().get::<_, i64>(0), 1);
}

/// The proxy's mark is in the database that it logs in to, and the others of a cluster have none.
#[tokio::test]
async fn a_schema_that_was_dropped_is_a_set_back_and_another_database_is_none() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("CREATE DATABASE other").await.unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    connect(&proxy.uri("other")).await.batch_execute("SELECT 1").await.unwrap();
    // Whoever the application is at the database, it may ask.
    direct.batch_execute("CREATE ROLE nobody LOGIN").await.unwrap();
    let nobody = proxy.uri("postgres").replace("postgres@", "nobody@");
    connect(&nobody).await.batch_execute("SELECT 1").await.unwrap();
    direct.batch_execute("DROP SCHEMA arras CASCADE").await.unwrap();
    let said = refused(&proxy).await;
    assert!(said.contains("does not know this proxy"), "{said}");
}
