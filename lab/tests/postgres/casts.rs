//! Values on their way into encrypted columns are what PostgreSQL's own casts and name resolution make of them.

use crate::dev::Dev;
use crate::encrypted::{rows, texts};
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;
use std::time::{Duration, SystemTime};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

const SCHEMA: &str = r#"
[tables."public.people"]
name = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["equality"] }
score = { id = "5f0c9d3e21b7a846", type = "double precision", operations = ["equality", "order"] }
exact = { id = "5f0c9d3e21b7a848", type = "numeric", operations = ["equality"] }
price = { id = "5f0c9d3e21b7a847", type = "numeric(12,2)", operations = ["equality", "order"] }
at = { id = "0a4477c1d2e8f693", type = "timestamp", operations = ["equality", "order"] }
[tables."archive.people"]
name = { id = "2b9df01c55a3e780", type = "text", operations = ["equality"] }
"#;

async fn opened() -> (PrivatePostgres, Dev, Client) {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client
        .batch_execute(
            "CREATE SCHEMA archive; \
             CREATE TABLE public.people (id int PRIMARY KEY, name text, score double precision, price numeric(12,2), exact numeric, at timestamp, \
             big bigint); \
             CREATE TABLE archive.people (id int PRIMARY KEY, name text); \
             CREATE TABLE old (id int, code char(10), flag boolean, note varchar(5))",
        )
        .await
        .unwrap();
    (server, proxy, client)
}

#[tokio::test]
async fn a_name_that_two_schemas_declare_says_its_schema() {
    let (_server, _proxy, client) = opened().await;
    for text in [
        "INSERT INTO people (id, name) VALUES (1, 'Ann')",
        "SELECT name FROM people",
        "UPDATE people SET name = 'x'",
        "DELETE FROM people WHERE name = 'x'",
        "COPY people (id, name) TO STDOUT",
    ] {
        let error = client.simple_query(text).await.unwrap_err();
        let said = error.as_db_error().unwrap();
        assert_eq!(said.code().code(), "0A000", "{text}");
        assert!(said.message().contains("more than one schema"), "{text}: {said:?}");
    }
    client
        .batch_execute("INSERT INTO archive.people VALUES (1, 'Old'); INSERT INTO public.people (id, name) VALUES (1, 'New')")
        .await
        .unwrap();
    let joined = "SELECT p.name, a.name FROM public.people p JOIN archive.people a USING (id)";
    assert_eq!(rows(&client, joined).await, texts(&[&["New", "Old"]]));
    // A common table expression is nobody's table.
    assert_eq!(rows(&client, "WITH people AS (SELECT 7 AS n) SELECT n FROM people").await, texts(&[&["7"]]));
}

#[tokio::test]
async fn plain_columns_become_encrypted_texts_as_they_are_cast() {
    let (_server, _proxy, client) = opened().await;
    client.batch_execute("INSERT INTO old VALUES (1, 'ab', true, 'x')").await.unwrap();
    client
        .batch_execute("INSERT INTO public.people (id, name) SELECT id, code FROM old; INSERT INTO public.people (id, name) SELECT 2, flag FROM old")
        .await
        .unwrap();
    assert_eq!(rows(&client, "SELECT id FROM public.people WHERE name = 'ab'").await, texts(&[&["1"]]));
    assert_eq!(rows(&client, "SELECT id FROM public.people WHERE name = 'true'").await, texts(&[&["2"]]));
    client
        .batch_execute("ALTER TABLE public.people ADD COLUMN code char(10), ADD COLUMN flag boolean; UPDATE public.people SET code = 'cd', flag = false")
        .await
        .unwrap();
    client.batch_execute("UPDATE public.people SET name = code WHERE id = 1").await.unwrap();
    client.batch_execute("UPDATE public.people SET name = name || flag WHERE id = 2").await.unwrap();
    assert_eq!(rows(&client, "SELECT id FROM public.people WHERE name = 'cd'").await, texts(&[&["1"]]));
    assert_eq!(rows(&client, "SELECT name FROM public.people WHERE id = 2").await, texts(&[&["truefalse"]]));
}

#[tokio::test]
async fn a_parameter_that_is_an_encrypted_value_and_another_has_one_type() {
    let (_server, _proxy, client) = opened().await;
    // Left open by the client, told to it, and sent in binary.
    client
        .execute("INSERT INTO public.people (id, score, big) VALUES (1, $1, $1)", &[&5.0_f64])
        .await
        .unwrap();
    assert_eq!(rows(&client, "SELECT score, big FROM public.people").await, texts(&[&["5", "5"]]));
    let either = "SELECT id FROM public.people WHERE name = $1 OR $1 IS NULL";
    assert_eq!(client.query(either, &[&None::<String>]).await.unwrap().len(), 1);
    assert_eq!(client.query(either, &[&"nobody"]).await.unwrap().len(), 0);
    client
        .execute("UPDATE public.people SET name = $1 WHERE jsonb_build_object('n', $1) ? 'n'", &[&"Ann"])
        .await
        .unwrap();
    assert_eq!(rows(&client, "SELECT name FROM public.people").await, texts(&[&["Ann"]]));
}

#[tokio::test]
async fn moments_of_a_zone_do_not_lose_it_and_doubles_become_decimals() {
    let (_server, _proxy, client) = opened().await;
    let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(43_200);
    let insert = "INSERT INTO public.people (id, at) VALUES ($1, $2)";
    let zoned = client.prepare_typed(insert, &[Type::INT4, Type::TIMESTAMPTZ]).await.unwrap();
    client.batch_execute("SET TIME ZONE '<+09>-09'").await.unwrap();
    let error = client.execute(&zoned, &[&1, &noon]).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "42804", "{error:?}");
    // In UTC a moment is the same with a zone and without.
    client.batch_execute("SET TIME ZONE 'UTC'").await.unwrap();
    client.execute(&zoned, &[&7, &noon]).await.unwrap();
    assert_eq!(
        rows(&client, "DELETE FROM public.people RETURNING at").await,
        texts(&[&["1970-01-01 12:00:00"]])
    );
    let naive = client.prepare_typed(insert, &[Type::INT4, Type::TIMESTAMP]).await.unwrap();
    client.execute(&naive, &[&1, &noon]).await.unwrap();
    assert_eq!(rows(&client, "SELECT at FROM public.people").await, texts(&[&["1970-01-01 12:00:00"]]));
    let priced = "UPDATE public.people SET price = $1, exact = $1 WHERE id = 1";
    let priced = client.prepare_typed(priced, &[Type::FLOAT8]).await.unwrap();
    for (number, expected) in [(1.5, "1.5"), (1e-7, "0.0000001"), (2e9, "2000000000"), (0.1_f64 + 0.2, "0.3")]
    {
        client.execute(&priced, &[&number]).await.unwrap();
        assert_eq!(rows(&client, "SELECT exact FROM public.people").await, texts(&[&[expected]]));
    }
    assert_eq!(rows(&client, "SELECT id FROM public.people WHERE price = 0.3").await, texts(&[&["1"]]));
}

/// The server's log would have the constants of what it refuses.
#[tokio::test]
async fn several_statements_in_one_parse_do_not_reach_the_database() {
    let (server, _proxy, client) = opened().await;
    let error = client
        .prepare("INSERT INTO public.people (id, name) VALUES (1, 'Canary'); SELECT 1")
        .await
        .err()
        .unwrap();
    let said = error.as_db_error().unwrap();
    assert_eq!(
        (said.code().code(), said.message()),
        ("42601", "cannot insert multiple commands into a prepared statement")
    );
    let log = std::fs::read_to_string(server.log()).unwrap();
    assert!(!log.contains("Canary"), "{log}");
    let many: Vec<String> = (0..33_000).map(|id| format!("({id}, ${})", id + 1)).collect();
    let error = client
        .prepare(&format!("INSERT INTO public.people (id, name) VALUES {}", many.join(", ")))
        .await
        .err()
        .unwrap();
    assert_eq!(error.code().unwrap().code(), "54023");
}

#[tokio::test]
async fn generated_columns_are_not_copied_and_a_real_is_not_compared_with_a_double() {
    let server = PrivatePostgres::start().unwrap();
    let schema = "[tables.\"public.t\"]\nname = { id = \"91b6c0d2ee4f7a35\", type = \"text\", operations = [\"equality\"] }\n\
                  r = { id = \"5f0c9d3e21b7a846\", type = \"real\", operations = [\"equality\", \"order\"] }\n";
    let proxy = Dev::start(&server, "postgres", schema);
    let client = connect(&proxy.uri("postgres")).await;
    client
        .batch_execute(
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, n int, twice int GENERATED ALWAYS AS (2 * n) STORED, name text, r real)",
        )
        .await
        .unwrap();
    let sink = client.copy_in("COPY t FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    futures_util::SinkExt::send(&mut sink, bytes::Bytes::from("7\t4\tAnn\t0.1\n")).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), 1);
    assert_eq!(rows(&client, "SELECT id, twice, name FROM t").await, texts(&[&["7", "8", "Ann"]]));
    let stream = client.copy_out("COPY t TO STDOUT").await.unwrap();
    let copied: Vec<bytes::Bytes> = futures_util::TryStreamExt::try_collect(stream).await.unwrap();
    assert_eq!(copied.concat(), b"7\t4\tAnn\t0.1\n");
    for (condition, found) in
        [("r = '0.1'", 1), ("r = 0.1::real", 1), ("r < 0.5", 1), ("r BETWEEN 0 AND 1", 1), ("r = 0.25", 0)]
    {
        let text = format!("SELECT name FROM t WHERE {condition}");
        assert_eq!(rows(&client, &text).await.len(), found, "{condition}");
    }
    for condition in ["r = 0.1", "r < 0.1", "r IN (0.1, 1)", "r BETWEEN 0 AND 0.1"] {
        let error = client.simple_query(&format!("SELECT name FROM t WHERE {condition}")).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "0A000", "{condition}");
    }
}

/// Tables that another session made or changed meanwhile are looked at again, but not before what has to come first in a transaction.
#[tokio::test]
async fn a_transaction_s_level_is_set_although_tables_have_changed_since_it_began() {
    let (_server, proxy, client) = opened().await;
    let other = connect(&proxy.uri("postgres")).await;
    for round in 0..3 {
        client.batch_execute("BEGIN").await.unwrap();
        other.batch_execute(&format!("CREATE TABLE made_{round} (id int)")).await.unwrap();
        client.batch_execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE").await.unwrap();
        client.batch_execute("SELECT name FROM public.people; COMMIT").await.unwrap();
    }
}
