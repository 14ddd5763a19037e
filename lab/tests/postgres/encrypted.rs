//! Statements on encrypted columns through the proxy, in both protocols and both formats: what the application sees is what
//! it wrote, what the database holds is not.

use crate::extended::connect;
use crate::proxy::{Keys, Proxy};
use arras_lab::private_postgres::PrivatePostgres;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};

const SCHEMA: &str = r#"
[tables."public.people"]
name = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["equality"] }
salary = { id = "5f0c9d3e21b7a846", type = "integer", operations = ["sum"] }
memo = { id = "3e1f5b6c7d809a2b", type = "text" }
"#;

const CREATE: &str = "CREATE TABLE people (id int PRIMARY KEY, name text, salary int, memo text)";

async fn rows(client: &Client, text: &str) -> Vec<Vec<Option<String>>> {
    let messages = client.simple_query(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect::<Vec<_>>())
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

fn texts(rows: &[&[&str]]) -> Vec<Vec<Option<String>>> {
    let text = |text: &&str| (*text != "NULL").then(|| (*text).to_owned());
    rows.iter().map(|row| row.iter().map(text).collect()).collect()
}

#[tokio::test]
async fn what_is_written_is_read_in_every_protocol_and_format_and_the_database_holds_none_of_it() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::encrypting(&server, SCHEMA, &Keys::default());
    let mut client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    client
        .batch_execute("INSERT INTO people VALUES (1, 'Ann Canary', 100, 'first'), (2, 'Bob', NULL, NULL)")
        .await
        .unwrap();
    let insert =
        client.prepare("INSERT INTO people (id, name, salary, memo) VALUES ($1, $2, $3, $4)").await.unwrap();
    assert_eq!(insert.params(), [Type::INT4, Type::TEXT, Type::INT4, Type::TEXT]);
    let memo = "long ".repeat(40_000);
    assert_eq!(client.execute(&insert, &[&3, &"Cid Canary", &-7, &memo]).await.unwrap(), 1);
    // The simple protocol has text, the driver's other calls binary.
    assert_eq!(
        rows(&client, "SELECT id, name, salary FROM people ORDER BY id").await,
        texts(&[&["1", "Ann Canary", "100"], &["2", "Bob", "NULL"], &["3", "Cid Canary", "-7"]])
    );
    let select = client.prepare("SELECT * FROM people WHERE name = $1").await.unwrap();
    let names: Vec<_> =
        select.columns().iter().map(|column| (column.name(), column.type_().clone())).collect();
    assert_eq!(
        names,
        [("id", Type::INT4), ("name", Type::TEXT), ("salary", Type::INT4), ("memo", Type::TEXT)]
    );
    let row = client.query_one(&select, &[&"Cid Canary"]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, i32>(2), row.get::<_, String>(3)), (3, -7, memo));
    // A portal that is read in pieces.
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("SELECT name FROM people WHERE id > $1 ORDER BY id", &[&0]).await.unwrap();
    let mut seen: Vec<String> = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 2).await.unwrap();
        if rows.is_empty() {
            break;
        }
        seen.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    assert_eq!(seen, ["Ann Canary", "Bob", "Cid Canary"]);
    transaction.commit().await.unwrap();
    assert_eq!(rows(&client, "SELECT sum(salary) FROM people").await, texts(&[&["93"]]));
    let direct = connect(&server.uri("postgres")).await;
    let held = direct.query("SELECT p::text FROM people p", &[]).await.unwrap();
    assert_eq!(held.len(), 3);
    for row in held {
        let row: String = row.get(0);
        // Text of bytes is hexadecimal.
        let hexadecimal = "43616e617279";
        assert!(!row.contains("Canary") && !row.contains(hexadecimal) && row.contains("\\x"), "{row}");
    }
}

#[tokio::test]
async fn a_refusal_is_an_error_of_the_statement_with_its_place_and_the_session_goes_on() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::encrypting(&server, SCHEMA, &Keys::default());
    let mut client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    let text = "SELECT id FROM people WHERE memo < 'x'";
    let place = u32::try_from(text.find("memo").unwrap() + 1).unwrap();
    for prepared in [false, true] {
        let refused =
            if prepared { client.prepare(text).await.err() } else { client.simple_query(text).await.err() };
        let refused = refused.unwrap();
        let refused = refused.as_db_error().unwrap();
        assert_eq!(refused.code(), &SqlState::FEATURE_NOT_SUPPORTED, "{refused:?}");
        let at = refused.position().unwrap();
        assert_eq!(at, &tokio_postgres::error::ErrorPosition::Original(place), "{refused:?}");
        assert_eq!(client.query_one("SELECT 7", &[]).await.unwrap().get::<_, i32>(0), 7);
    }
    // What comes before it in a text runs, and is taken back with it.
    let several = format!("INSERT INTO people (id) VALUES (1); {text}; INSERT INTO people (id) VALUES (2)");
    assert!(client.simple_query(&several).await.is_err());
    assert_eq!(rows(&client, "SELECT count(*) FROM people").await, texts(&[&["0"]]));
    // A transaction fails with it.
    let transaction = client.transaction().await.unwrap();
    transaction.execute("INSERT INTO people (id) VALUES (3)", &[]).await.unwrap();
    assert!(transaction.simple_query(text).await.is_err());
    let after = transaction.simple_query("SELECT 1").await.unwrap_err();
    assert_eq!(after.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    transaction.rollback().await.unwrap();
    // PostgreSQL's own errors have their places in the client's text.
    let wrong = "SELECT name, nothing FROM people";
    let error = client.simple_query(wrong).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    let place = u32::try_from(wrong.find("nothing").unwrap() + 1).unwrap();
    assert_eq!(error.position(), Some(&tokio_postgres::error::ErrorPosition::Original(place)), "{error:?}");
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_and_a_value_outside_its_type_is_an_error() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::encrypting(&server, SCHEMA, &Keys::default());
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    let code = |result: Result<Vec<SimpleQueryMessage>, tokio_postgres::Error>| {
        result.unwrap_err().code().unwrap().code().to_owned()
    };
    assert_eq!(
        code(client.simple_query("INSERT INTO people (id, salary) VALUES (1, 3000000000)").await),
        "22003"
    );
    assert_eq!(code(client.simple_query("INSERT INTO people (id, salary) VALUES (1, 'x')").await), "22P02");
    client.batch_execute("SET client_encoding = 'LATIN1'").await.unwrap();
    assert_eq!(code(client.simple_query("SELECT name FROM people").await), "0A000");
    client
        .batch_execute("SET client_encoding = 'UTF8'; SET standard_conforming_strings = off")
        .await
        .unwrap();
    assert_eq!(code(client.simple_query("SELECT name FROM people").await), "0A000");
    client.batch_execute("SET standard_conforming_strings = on").await.unwrap();
    assert!(rows(&client, "SELECT name FROM people").await.is_empty());
}

#[tokio::test]
async fn another_key_opens_nothing_and_the_session_ends_with_the_reason() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::encrypting(&server, SCHEMA, &Keys::default());
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    client.batch_execute("INSERT INTO people (id, name) VALUES (1, 'Ann')").await.unwrap();
    let other = Proxy::encrypting(&server, SCHEMA, &Keys::default());
    let client = connect(&other.uri("postgres")).await;
    let error = client.simple_query("SELECT name FROM people").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "XX001", "{error:?}");
}
