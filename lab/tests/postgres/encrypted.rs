//! Statements on encrypted columns through the proxy, in both protocols and both formats: what the application sees is what
//! it wrote, what the database holds is not.

use crate::extended::connect;
use crate::proxy::{Keys, Proxy, outputs};
use arras_lab::private_postgres::PrivatePostgres;
use bytes::Bytes;
use futures_util::{SinkExt, TryStreamExt};
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

pub(crate) async fn rows(client: &Client, text: &str) -> Vec<Vec<Option<String>>> {
    let messages = client.simple_query(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect::<Vec<_>>())
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

pub(crate) fn texts(rows: &[&[&str]]) -> Vec<Vec<Option<String>>> {
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

/// The session goes on, and a transaction fails as it does with PostgreSQL's own errors.
#[tokio::test]
async fn a_value_that_does_not_open_is_an_error_of_its_statement() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::encrypting(&server, SCHEMA, &Keys::default());
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    client
        .batch_execute("INSERT INTO people (id, name) VALUES (1, 'Ann'), (2, 'Bob'), (3, 'Cid')")
        .await
        .unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct
        .batch_execute("UPDATE people SET name = set_byte(name, 20, 255 - get_byte(name, 20)) WHERE id = 2")
        .await
        .unwrap();
    let damaged = "SELECT name FROM people ORDER BY id";
    let error = client.simple_query(damaged).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "XX001", "{error:?}");
    let out = client.copy_out("COPY (SELECT name FROM people ORDER BY id) TO STDOUT").await.unwrap();
    let error = out.try_collect::<Vec<Bytes>>().await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "XX001", "{error:?}");
    // In both protocols, with more sent behind it, and what is not damaged is read.
    let select = client.prepare("SELECT name FROM people WHERE id = $1").await.unwrap();
    let (one, two, three) = tokio::join!(
        client.query(&select, &[&1]),
        client.query(&select, &[&2]),
        client.query(&select, &[&3])
    );
    assert_eq!(one.unwrap()[0].get::<_, String>(0), "Ann");
    assert_eq!(two.unwrap_err().code().unwrap().code(), "XX001");
    assert_eq!(three.unwrap()[0].get::<_, String>(0), "Cid");
    // A transaction has failed with it, whatever the database thinks of that.
    client.batch_execute("BEGIN; INSERT INTO people (id) VALUES (9)").await.unwrap();
    assert!(client.query(&select, &[&2]).await.is_err());
    let after = client.simple_query("INSERT INTO people (id) VALUES (10)").await.unwrap_err();
    assert_eq!(after.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM people WHERE id > 3").await, texts(&[&["0"]]));
    client.batch_execute("BEGIN; SAVEPOINT s").await.unwrap();
    assert!(client.simple_query(damaged).await.is_err());
    client.batch_execute("ROLLBACK TO s; INSERT INTO people (id) VALUES (11); COMMIT").await.unwrap();
    assert_eq!(rows(&client, "SELECT id FROM people WHERE id > 3").await, texts(&[&["11"]]));
    // So it is where an UPDATE computes with it.
    let computed =
        client.simple_query("UPDATE people SET name = name || '!' WHERE id < 4").await.unwrap_err();
    assert_eq!(computed.code().unwrap().code(), "XX001");
    assert_eq!(rows(&client, "SELECT name FROM people WHERE id = 1").await, texts(&[&["Ann"]]));
    // Under another key nothing opens.
    let other = Proxy::encrypting(&server, SCHEMA, &Keys::default());
    let client = connect(&other.uri("postgres")).await;
    let error = client.simple_query("SELECT name FROM people").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "XX001", "{error:?}");
    assert_eq!(
        rows(&client, "SELECT id FROM people WHERE id < 3 ORDER BY id").await,
        texts(&[&["1"], &["2"]])
    );
}

/// A row of more than the proxy takes in one piece, and a sum outside its type.
#[tokio::test]
async fn what_is_too_large_is_an_error_of_its_statement() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::encrypting(&server, SCHEMA, &Keys::default());
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    client.batch_execute("INSERT INTO people (id, name) VALUES (1, 'Ann')").await.unwrap();
    // 40 MB are 80 MB in the hexadecimal digits of a simple query.
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("UPDATE people SET memo = decode(repeat('00', 40000000), 'hex')").await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    let error = client.simple_query("SELECT memo FROM people").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "54000", "{error:?}");
    let after = client.simple_query("SELECT name FROM people").await.unwrap_err();
    assert_eq!(after.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(rows(&client, "SELECT name FROM people").await, texts(&[&["Ann"]]));
}

#[tokio::test]
async fn new_values_are_computed_from_old_ones_in_both_protocols_and_in_transactions() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::encrypting(&server, SCHEMA, &Keys::default());
    let mut client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    let insert = "INSERT INTO people VALUES (1, 'Ann', 100), (2, 'Bob', NULL), (3, 'Cid', 7)";
    client.batch_execute(insert).await.unwrap();
    let raised = "UPDATE people SET salary = salary - 1 WHERE id < 3 RETURNING id, salary";
    let mut seen = rows(&client, raised).await;
    seen.sort();
    assert_eq!(seen, texts(&[&["1", "99"], &["2", "NULL"]]));
    assert!(
        rows(&client, "UPDATE people SET salary = salary - 1 WHERE id = 9 RETURNING id").await.is_empty()
    );
    let raise = client.prepare("UPDATE people SET salary = salary + $1 WHERE id = $2").await.unwrap();
    assert_eq!(raise.params(), [Type::INT4, Type::INT4]);
    assert!(raise.columns().is_empty());
    // Both are sent before the first is answered.
    let (first, second) =
        tokio::join!(client.execute(&raise, &[&10, &1]), client.execute(&raise, &[&10, &1]));
    assert_eq!((first.unwrap(), second.unwrap()), (1, 1));
    let text = "UPDATE people SET salary = salary + $1, memo = $3 WHERE id = $2 RETURNING salary, id";
    let returning = client.prepare(text).await.unwrap();
    assert_eq!(returning.params(), [Type::INT4, Type::INT4, Type::TEXT]);
    let row = client.query_one(&returning, &[&1, &1, &"raised"]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, i32>(1)), (120, 1));
    let transaction = client.transaction().await.unwrap();
    assert_eq!(transaction.execute(&raise, &[&1, &3]).await.unwrap(), 1);
    transaction.rollback().await.unwrap();
    // A result that leaves its type is an error, and nothing of the statement is done.
    let error = client.execute(&raise, &[&i32::MAX, &1]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::NUMERIC_VALUE_OUT_OF_RANGE));
    let error = client.simple_query("UPDATE people SET salary = salary + 2147483647").await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::NUMERIC_VALUE_OUT_OF_RANGE));
    let expected = texts(&[&["1", "120", "raised"], &["2", "NULL", "NULL"], &["3", "7", "NULL"]]);
    assert_eq!(rows(&client, "SELECT id, salary, memo FROM people ORDER BY id").await, expected);
}

#[tokio::test]
async fn copies_go_in_and_out() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::encrypting(&server, SCHEMA, &Keys::default());
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    let sink = client.copy_in::<_, Bytes>("COPY people (id, name, salary) FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    for id in 0..300 {
        sink.send(Bytes::from(format!("{id}\tname {id}\t\\N\n"))).await.unwrap();
    }
    assert_eq!(sink.finish().await.unwrap(), 300);
    let out = client.copy_out("COPY people (id, name, salary) TO STDOUT WITH CSV HEADER").await.unwrap();
    let out: Vec<Bytes> = out.try_collect().await.unwrap();
    assert_eq!(out.len(), 301);
    assert_eq!((&out[0][..], &out[300][..]), (&b"id,name,salary\n"[..], &b"299,name 299,\n"[..]));
    // A wrong row takes the others with it.
    let sink = client.copy_in::<_, Bytes>("COPY people (id, salary) FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    sink.send(Bytes::from("9000\t1\n9001\tmany\n")).await.unwrap();
    assert_eq!(sink.finish().await.unwrap_err().code(), Some(&SqlState::INVALID_TEXT_REPRESENTATION));
    let count = "SELECT count(*) FROM people";
    assert_eq!(rows(&client, count).await, texts(&[&["300"]]));
    // psql speaks the simple protocol.
    let psql = |statement: &str| {
        let mut psql = server.command("psql");
        psql.args(["-X", "-c", statement, &proxy.uri("postgres")]);
        outputs(psql)
    };
    let copy = |rows: &str| psql(&format!(r"\copy people (id, name) FROM PROGRAM 'printf ''{rows}'''"));
    let (ended, said, errors) = copy(r"5000\tEve\n5001\tFay\n");
    assert!(ended && said.trim() == "COPY 2", "{said} {errors}");
    let (ended, said, errors) =
        psql(r"\copy (SELECT name FROM people WHERE id >= 5000 ORDER BY id) TO STDOUT");
    assert!(ended && said == "Eve\nFay\n", "{said} {errors}");
    let (ended, _, errors) = copy(r"5002\n");
    assert!(!ended && errors.contains("missing data"), "{errors}");
    let (ended, _, errors) = copy(r"5000\tagain\n");
    assert!(!ended && errors.contains("duplicate key"), "{errors}");
    assert_eq!(rows(&client, count).await, texts(&[&["302"]]));
}
