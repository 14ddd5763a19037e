//! What a session names in SQL: cursors and prepared statements of encrypted tables.

use crate::encrypted::{rows, texts};
use crate::extended::connect;
use crate::proxy::{Keys, Proxy};
use arras_lab::private_postgres::PrivatePostgres;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

const SCHEMA: &str = r#"
[tables."public.people"]
name = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["unique"] }
salary = { id = "5f0c9d3e21b7a846", type = "integer", operations = ["equality", "sum"] }
"#;

async fn opened() -> (PrivatePostgres, Proxy, Client) {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::encrypting(&server, SCHEMA, &Keys::default());
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE people (id int PRIMARY KEY, name text, salary int)").await.unwrap();
    let values: Vec<String> = (1..=9).map(|id| format!("({id}, 'name {id}', {})", id * 10)).collect();
    client.batch_execute(&format!("INSERT INTO people VALUES {}", values.join(", "))).await.unwrap();
    (server, proxy, client)
}

async fn code(client: &Client, text: &str) -> String {
    client.simple_query(text).await.unwrap_err().code().unwrap().code().to_owned()
}

#[tokio::test]
async fn a_cursor_gives_rows_in_every_direction_and_protocol() {
    let (_server, _proxy, client) = opened().await;
    let declared = "BEGIN; DECLARE c SCROLL CURSOR FOR SELECT name, id FROM people WHERE salary <> 50 ORDER BY id; FETCH c";
    assert_eq!(rows(&client, declared).await, texts(&[&["name 1", "1"]]));
    for (fetched, expected) in [
        ("FETCH NEXT FROM c", &[&["name 2", "2"][..]][..]),
        ("FETCH LAST IN c", &[&["name 9", "9"]]),
        ("FETCH PRIOR FROM c", &[&["name 8", "8"]]),
        ("FETCH ABSOLUTE 4 FROM c", &[&["name 4", "4"]]),
        ("FETCH RELATIVE -2 FROM \"c\"", &[&["name 2", "2"]]),
        ("MOVE 1 c", &[]),
        ("FETCH FORWARD 2 FROM C", &[&["name 4", "4"], &["name 6", "6"]]),
        ("FETCH BACKWARD 1 FROM c", &[&["name 4", "4"]]),
        ("FETCH ALL c", &[&["name 6", "6"], &["name 7", "7"], &["name 8", "8"], &["name 9", "9"]]),
    ] {
        assert_eq!(rows(&client, fetched).await, texts(expected), "{fetched}");
    }
    // In binary, as a driver's calls ask for it.
    let row = client.query_one("FETCH FIRST FROM c", &[]).await.unwrap();
    assert_eq!((row.get::<_, String>(0), row.get::<_, i32>(1)), ("name 1".to_owned(), 1));
    client.batch_execute("CLOSE c; DECLARE c CURSOR FOR SELECT 'plain'").await.unwrap();
    assert_eq!(rows(&client, "FETCH c").await, texts(&[&["plain"]]));
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(code(&client, "FETCH c").await, "34000");
    // One that outlives its transaction, declared with a parameter.
    client.batch_execute("BEGIN").await.unwrap();
    client
        .execute("DECLARE h CURSOR WITH HOLD FOR SELECT salary FROM people WHERE name = $1", &[&"name 3"])
        .await
        .unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(rows(&client, "FETCH ALL FROM h").await, texts(&[&["30"]]));
    client.batch_execute("CLOSE ALL").await.unwrap();
    assert_eq!(code(&client, "DECLARE b BINARY CURSOR WITH HOLD FOR SELECT name FROM people").await, "0A000");
    assert_eq!(
        code(&client, "DECLARE b CURSOR WITH HOLD FOR SELECT initcap(name) FROM people").await,
        "0A000"
    );
}

#[tokio::test]
async fn prepared_statements_take_constants_and_show_the_server_none() {
    let (server, _proxy, mut client) = opened().await;
    client
        .batch_execute("PREPARE s (int, text) AS SELECT name, salary FROM people WHERE salary = $1 OR name = $2 ORDER BY id")
        .await
        .unwrap();
    assert_eq!(
        rows(&client, "EXECUTE s (20, 'name 7')").await,
        texts(&[&["name 2", "20"], &["name 7", "70"]])
    );
    assert_eq!(rows(&client, "EXECUTE s ('90', NULL)").await, texts(&[&["name 9", "90"]]));
    let row = client.query_one("EXECUTE s (30, '')", &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(1), 30);
    client
        .batch_execute(
            "PREPARE i AS INSERT INTO people (id, name, salary) VALUES ($1, $2, 7) RETURNING salary",
        )
        .await
        .unwrap();
    assert_eq!(rows(&client, "EXECUTE i (100 + 1, 'Canary')").await, texts(&[&["7"]]));
    assert_eq!(rows(&client, "SELECT id FROM people WHERE name = 'Canary'").await, texts(&[&["101"]]));
    assert_eq!(code(&client, "EXECUTE i (101, 'again')").await, "23505");
    for (wrong, expected) in [
        ("EXECUTE s (1)", "42601"),
        ("EXECUTE s ('x', 'y')", "22P02"),
        ("EXECUTE s (1 ^ 1, 'y')", "0A000"),
        ("EXPLAIN EXECUTE s (1, 'y')", "0A000"),
        ("CREATE TABLE copies AS EXECUTE s (1, 'y')", "0A000"),
        ("PREPARE s AS SELECT 1", "42P05"),
        ("PREPARE u AS UPDATE people SET salary = salary + $1", "0A000"),
    ] {
        assert_eq!(code(&client, wrong).await, expected, "{wrong}");
    }
    // The server holds the statement that is run, not the constants.
    let direct = connect(&server.uri("postgres")).await;
    let held = rows(&client, "SELECT statement FROM pg_prepared_statements").await;
    assert!(held.iter().flatten().flatten().all(|statement| !statement.contains("Canary")), "{held:?}");
    assert!(
        direct
            .query("SELECT 1 FROM people WHERE position('Canary'::bytea in name) > 0", &[])
            .await
            .unwrap()
            .is_empty()
    );
    // A transaction that is rolled back leaves them.
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("PREPARE t AS SELECT salary FROM people WHERE id = $1").await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(rows(&client, "EXECUTE t (4)").await, texts(&[&["40"]]));
    client.batch_execute("DEALLOCATE t").await.unwrap();
    client.batch_execute("PREPARE t AS SELECT 'plain'").await.unwrap();
    assert_eq!(rows(&client, "EXECUTE t").await, texts(&[&["plain"]]));
    client.batch_execute("DEALLOCATE PREPARE ALL").await.unwrap();
    let gone = client.simple_query("EXECUTE s (1, '')").await.unwrap_err();
    assert_eq!(gone.code(), Some(&SqlState::INVALID_SQL_STATEMENT_NAME));
}
