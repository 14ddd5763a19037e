//! What is stored comes from queries, from defaults, or is computed, alone or among several statements.

use crate::encrypted::{rows, texts};
use crate::extended::connect;
use crate::proxy::{Keys, Proxy};
use arras_lab::private_postgres::PrivatePostgres;
use bytes::Bytes;
use futures_util::SinkExt;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

const SCHEMA: &str = r#"
[tables."public.people"]
name = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["unique"] }
salary = { id = "5f0c9d3e21b7a846", type = "integer", operations = ["equality", "sum"] }
[tables."public.archive"]
name = { id = "3e1f5b6c7d809a2b", type = "text" }
paid = { id = "3e1f5b6c7d809a2c", type = "bigint", operations = ["equality"] }
level = { id = "3e1f5b6c7d809a2d", type = "integer", operations = ["equality"] }
"#;

const CREATE: &str = "CREATE TABLE people (id int PRIMARY KEY, name text UNIQUE, salary int DEFAULT 41, n numeric); \
    CREATE TABLE archive (id serial PRIMARY KEY, name text DEFAULT 'no''body', paid bigint, level integer DEFAULT -7)";

async fn opened() -> (PrivatePostgres, Proxy, tokio_postgres::Client) {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::encrypting(&server, SCHEMA, &Keys::default());
    let client = connect(&proxy.uri("postgres")).await;
    for statement in CREATE.split("; ") {
        client.batch_execute(statement).await.unwrap();
    }
    (server, proxy, client)
}

#[tokio::test]
async fn rows_of_a_query_are_sealed_anew_in_both_protocols() {
    let (server, _proxy, mut client) = opened().await;
    let fill = "INSERT INTO people SELECT g, 'name ' || g, g * 10, 1.5 FROM generate_series(1, 700) g";
    // The server would compute what is to be encrypted.
    assert_eq!(client.simple_query(fill).await.unwrap_err().code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    let values: Vec<String> = (1..=700).map(|id| format!("({id}, 'name {id}', {})", id * 10)).collect();
    client
        .batch_execute(&format!("INSERT INTO people (id, name, salary) VALUES {}", values.join(", ")))
        .await
        .unwrap();
    // More than are read at a time, into another type and under other keys; a constant stays with the proxy.
    let count = client
        .execute(
            "INSERT INTO archive (name, paid, level) SELECT name, salary, 3 FROM people WHERE id > $1",
            &[&100],
        )
        .await
        .unwrap();
    assert_eq!(count, 600);
    let summed = "SELECT count(*), count(DISTINCT paid), min(level::text) FROM archive";
    assert!(client.simple_query(summed).await.is_err(), "a sealed value is not cast");
    let summed = "SELECT count(*), count(DISTINCT paid) FROM archive WHERE level = 3";
    assert_eq!(rows(&client, summed).await, texts(&[&["600", "600"]]));
    // The table into itself: what is written is not read.
    let doubled =
        "INSERT INTO archive (name, paid, level) SELECT name, paid, $1 FROM archive WHERE level = 3";
    let doubled = client.prepare(doubled).await.unwrap();
    assert_eq!(doubled.params(), [Type::INT4]);
    assert_eq!(client.execute(&doubled, &[&4]).await.unwrap(), 600);
    let returned = "INSERT INTO archive (name, level) SELECT name, salary FROM people WHERE id < 3 ORDER BY id RETURNING name, level";
    assert_eq!(rows(&client, returned).await, texts(&[&["name 1", "10"], &["name 2", "20"]]));
    let copied =
        "INSERT INTO people SELECT id + 0, name, salary FROM people WHERE id < 5 ON CONFLICT DO NOTHING";
    assert_eq!(client.execute(copied, &[]).await.unwrap(), 0);
    let copied = "INSERT INTO people (id, name) SELECT id + 698, initcap(name) FROM people WHERE id < 5 ON CONFLICT DO NOTHING";
    assert_eq!(client.simple_query(copied).await.unwrap_err().code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    let copied = "INSERT INTO people (id, salary) SELECT id + 698, salary FROM people WHERE id < 5 ON CONFLICT DO NOTHING";
    assert_eq!(client.execute(copied, &[]).await.unwrap(), 2);
    // An error takes all of it back.
    let transaction = client.transaction().await.unwrap();
    let twice = "INSERT INTO people (id, salary) SELECT id + 1000, salary FROM people UNION ALL SELECT 1001, salary FROM people";
    assert_eq!(transaction.execute(twice, &[]).await.unwrap_err().code(), Some(&SqlState::UNIQUE_VIOLATION));
    transaction.rollback().await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM people").await, texts(&[&["702"]]));
    // No sealed value is in two rows.
    let direct = connect(&server.uri("postgres")).await;
    let sealed = direct.query_one("SELECT count(*) = count(DISTINCT name) FROM archive", &[]).await.unwrap();
    assert!(sealed.get::<_, bool>(0));
}

#[tokio::test]
async fn defaults_are_constants_that_are_sealed_for_each_row() {
    let (server, _proxy, client) = opened().await;
    client
        .batch_execute("INSERT INTO archive DEFAULT VALUES; INSERT INTO archive (paid) VALUES (1), (DEFAULT)")
        .await
        .unwrap();
    client.batch_execute("INSERT INTO archive VALUES (DEFAULT, DEFAULT, 5), (50, 'x', 6)").await.unwrap();
    client.execute("INSERT INTO archive (id, paid) VALUES ($1, $2)", &[&60, &7_i64]).await.unwrap();
    client.batch_execute("INSERT INTO archive (paid) SELECT paid FROM archive WHERE id = 60").await.unwrap();
    let sink = client.copy_in::<_, Bytes>("COPY archive (paid) FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    sink.send(Bytes::from("8\n")).await.unwrap();
    sink.finish().await.unwrap();
    client.batch_execute("UPDATE archive SET level = 1, name = DEFAULT WHERE id = 50").await.unwrap();
    client.batch_execute("UPDATE archive SET level = DEFAULT, paid = DEFAULT WHERE id = 50").await.unwrap();
    let held = "SELECT DISTINCT name, level FROM archive";
    assert!(client.simple_query(held).await.is_err(), "name is stored only");
    let of = |paid: &str| format!("SELECT name, level FROM archive WHERE paid {paid} AND level = -7");
    for paid in ["IS NULL", "= 1", "= 5", "= 7", "= 8"] {
        for row in rows(&client, &of(paid)).await {
            assert_eq!(vec![row], texts(&[&["no'body", "-7"]]), "{paid}");
        }
    }
    assert_eq!(rows(&client, "SELECT count(*) FROM archive WHERE level = -7").await, texts(&[&["8"]]));
    client
        .batch_execute("ALTER TABLE archive ALTER level SET DEFAULT 12, ALTER COLUMN name DROP DEFAULT")
        .await
        .unwrap();
    let after = "INSERT INTO archive (paid) VALUES (100) RETURNING name, level";
    assert_eq!(rows(&client, after).await, texts(&[&["NULL", "12"]]));
    // Rows that are there have the default of a new column.
    client.batch_execute("ALTER TABLE archive DROP COLUMN level").await.unwrap();
    client.batch_execute("ALTER TABLE archive ADD COLUMN level integer NOT NULL DEFAULT 77").await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM archive WHERE level = 77").await, texts(&[&["9"]]));
    for (statement, part) in [
        ("ALTER TABLE archive ALTER paid SET DEFAULT (random() * 9)::bigint", "is no constant"),
        ("ALTER TABLE archive ALTER paid SET DEFAULT 'x'", "invalid input syntax for type bigint"),
    ] {
        let error = client.simple_query(statement).await.unwrap_err();
        assert!(error.as_db_error().unwrap().message().contains(part), "{error:?}");
    }
    // Only the column's own constant is kept, sealed.
    let direct = connect(&server.uri("postgres")).await;
    let kept = "SELECT count(*), count(*) FILTER (WHERE pg_get_expr(adbin, adrelid) LIKE '''\\\\x%''::bytea') \
        FROM pg_attrdef JOIN pg_attribute a ON (attrelid, attnum) = (adrelid, adnum) WHERE atttypid = 17";
    let kept = direct.query_one(kept, &[]).await.unwrap();
    assert_eq!((kept.get::<_, i64>(0), kept.get::<_, i64>(1)), (2, 2));
    let sealed =
        direct.query_one("SELECT count(DISTINCT name) = count(name) FROM archive", &[]).await.unwrap();
    assert!(sealed.get::<_, bool>(0));
}

#[tokio::test]
async fn several_statements_of_a_text_run_in_steps_and_as_one() {
    let (_server, _proxy, client) = opened().await;
    let several = "INSERT INTO people (id, salary) VALUES (1, 5), (2, DEFAULT); \
        UPDATE people SET salary = salary + 1 WHERE id = 1 RETURNING salary; SELECT id, salary FROM people ORDER BY id; \
        INSERT INTO archive (paid) SELECT salary FROM people WHERE id = 1 RETURNING paid";
    let expected = texts(&[&["6"], &["1", "6"], &["2", "41"], &["6"]]);
    assert_eq!(rows(&client, several).await, expected);
    // One that fails takes back those before it, and those behind it are not run.
    let wrong = "INSERT INTO people (id, salary) VALUES (3, 1); UPDATE people SET salary = salary + 2147483647; \
        INSERT INTO people (id) VALUES (4)";
    let error = client.simple_query(wrong).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::NUMERIC_VALUE_OUT_OF_RANGE));
    assert_eq!(rows(&client, "SELECT count(*) FROM people").await, texts(&[&["2"]]));
    // The place of an error is in the client's text.
    let wrong = "UPDATE people SET salary = salary + 1; SELECT id, nothing FROM people; SELECT 1";
    let error = client.simple_query(wrong).await.unwrap_err();
    let place = u32::try_from(wrong.find("nothing").unwrap() + 1).unwrap();
    let expected = tokio_postgres::error::ErrorPosition::Original(place);
    assert_eq!(error.as_db_error().unwrap().position(), Some(&expected), "{error:?}");
    // A transaction that is begun in the text goes on behind it.
    client.batch_execute("BEGIN; UPDATE people SET salary = salary * 2 WHERE id = 1").await.unwrap();
    assert_eq!(rows(&client, "SELECT salary FROM people WHERE id = 1").await, texts(&[&["12"]]));
    client.batch_execute("UPDATE people SET salary = salary + 1 WHERE id = 1; ROLLBACK").await.unwrap();
    assert_eq!(rows(&client, "SELECT salary FROM people WHERE id = 1").await, texts(&[&["6"]]));
}
