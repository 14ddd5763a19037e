//! What errors say of encrypted columns: what PostgreSQL says of the same in plaintext, and no terms.

use crate::dev::Dev;
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;
use bytes::Bytes;
use futures_util::SinkExt;
use tokio_postgres::{Client, Error};

const SCHEMA: &str = r#"
[tables."public.people"]
name = { id = "7a1b2c3d4e5f6a01", type = "varchar(12)", operations = ["unique", "order"], max_bytes = 40 }
salary = { id = "7a1b2c3d4e5f6a02", type = "numeric(6,2)", operations = ["equality", "order", "sum"] }
born = { id = "7a1b2c3d4e5f6a03", type = "date", operations = ["unique"] }

[tables."public.visits"]
"Visi tor" = { id = "7a1b2c3d4e5f6a04", type = "varchar(12)", join = "people.name" }
"#;

const CREATE: &str = "CREATE TABLE people (id int PRIMARY KEY, name varchar(12) NOT NULL UNIQUE, salary numeric(6,2), born date, \
    level int CHECK (level < 10), UNIQUE (level, born)); \
    CREATE TABLE visits (id int, \"Visi tor\" varchar(12) REFERENCES people (name)); \
    INSERT INTO people VALUES (1, 'Ann (a), b', 1.5, '2000-01-01', 1), (2, 'Bob', NULL, NULL, 2), (3, 'x', 0, '2001-01-01', 3); \
    INSERT INTO visits VALUES (1, 'Bob')";

/// What an error says but for its place in the server's sources.
#[derive(Debug, PartialEq)]
struct Said {
    code: String,
    message: String,
    detail: Option<String>,
    context: Option<String>,
    constraint: Option<String>,
}

fn said(error: &Error) -> Said {
    let error = error.as_db_error().unwrap_or_else(|| panic!("{error:?}"));
    Said {
        code: error.code().code().to_owned(),
        message: error.message().to_owned(),
        detail: error.detail().map(str::to_owned),
        context: error.where_().map(str::to_owned),
        constraint: error.constraint().map(str::to_owned),
    }
}

/// The same tables in plaintext and encrypted.
async fn both() -> (PrivatePostgres, Dev, [Client; 2]) {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("CREATE DATABASE plain").await.unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let clients = [connect(&server.uri("plain")).await, connect(&proxy.uri("postgres")).await];
    for client in &clients {
        client.batch_execute(CREATE).await.unwrap();
    }
    (server, proxy, clients)
}

#[tokio::test]
async fn a_violated_constraint_is_told_by_the_values_that_the_client_gave() {
    let (_server, _proxy, clients) = both().await;
    for statement in [
        "INSERT INTO people (id, name) VALUES (4, 'Cid'), (5, 'Ann (a), b')",
        "INSERT INTO people (id, name) VALUES (1, 'Cid')",
        "INSERT INTO people (id, name, born, level) VALUES (6, 'Cid', '2000-1-1', 1)",
        "INSERT INTO people (id, name) SELECT a, b FROM (VALUES (7, 'Dan'), (8, 'Bob')) AS v (a, b)",
        "INSERT INTO people (id, name) SELECT * FROM unnest('{7,8}'::int[], '{Dan,Bob}'::varchar[])",
        "INSERT INTO people (id, name) SELECT id + 10, name FROM people WHERE id = 2",
        "UPDATE people SET name = 'Bob' WHERE id = 1",
        "UPDATE people SET name = name || '' , id = 3 WHERE id = 1",
        "BEGIN; UPDATE people SET name = 'Bob' WHERE id = 1",
        "ROLLBACK; INSERT INTO visits VALUES (2, 'Nobody')",
        "UPDATE visits SET \"Visi tor\" = 'Nobody'",
    ] {
        let [plain, encrypted] = &clients;
        let expected = said(&plain.simple_query(statement).await.unwrap_err());
        assert_eq!(said(&encrypted.simple_query(statement).await.unwrap_err()), expected, "{statement}");
    }
    for (statement, value) in [
        ("INSERT INTO people (id, name) VALUES (9, $1)", "Ann (a), b"),
        ("UPDATE people SET name = $1 WHERE id = 1", "Bob"),
        ("INSERT INTO visits (\"Visi tor\") VALUES ($1)", "Nobody"),
    ] {
        let [plain, encrypted] = &clients;
        let expected = said(&plain.execute(statement, &[&value]).await.unwrap_err());
        assert_eq!(
            said(&encrypted.execute(statement, &[&value]).await.unwrap_err()),
            expected,
            "{statement}"
        );
        assert!(expected.detail.is_some_and(|detail| detail.contains(value)), "{statement}");
    }
    // What the client did not give is not told: as PostgreSQL has it for who may not read the column.
    for (statement, detail) in [
        ("DELETE FROM people WHERE id = 2", Some("Key is still referenced from table \"visits\".")),
        (
            "UPDATE people SET name = 'Rob' WHERE name = 'Bob'",
            Some("Key is still referenced from table \"visits\"."),
        ),
        ("INSERT INTO people (id, name) VALUES (9, NULL)", None),
        ("INSERT INTO people (id, name, level) VALUES (9, 'Eve', 11)", None),
        ("UPDATE people SET level = 10 WHERE id = 1", None),
    ] {
        let [plain, encrypted] = &clients;
        let mut expected = said(&plain.simple_query(statement).await.unwrap_err());
        assert!(expected.detail.is_some(), "{statement}");
        expected.detail = detail.map(str::to_owned);
        expected.context = None;
        let mut found = said(&encrypted.simple_query(statement).await.unwrap_err());
        found.context = None;
        assert_eq!(found, expected, "{statement}");
    }
}

async fn copied(client: &Client, copy: &str, rows: &'static str) -> Error {
    let sink = match client.copy_in::<_, Bytes>(copy).await {
        Ok(sink) => sink,
        Err(error) => return error,
    };
    let mut sink = std::pin::pin!(sink);
    // The server may say what is wrong before all has come.
    let _ = sink.send(Bytes::from_static(rows.as_bytes())).await;
    sink.finish().await.unwrap_err()
}

#[tokio::test]
async fn an_error_of_copy_names_the_line_the_column_and_the_value() {
    let (_server, _proxy, clients) = both().await;
    for (copy, rows) in [
        ("COPY people (id, name, salary) FROM STDIN", "11\tEve\t1\n12\tFay\tmuch\n"),
        ("COPY people (id, name, salary) FROM STDIN", "11\tEve\t1\nx\\ty\tFay\t1\n"),
        ("COPY people (id, name, salary) FROM STDIN", "11\tEve\t10000\n"),
        ("COPY people (id, name, salary) FROM STDIN", "11\tEve is a name that is far too long\t1\n"),
        ("COPY people (id, born, name) FROM STDIN", "11\t2000-02-30\tEve\n"),
        ("COPY people (id, name, salary) FROM STDIN", "11\tEve\n"),
        ("COPY people (id, name) FROM STDIN", "11\tEve\n12\tFay\t1\n"),
        ("COPY people (id, name) FROM STDIN", "11\tEve\n12\t\\N\n"),
        ("COPY people (id, name) FROM STDIN", "11\tEve\n12\tBob\n13\tGus\n"),
        ("COPY people (id, name) FROM STDIN", "1\tEve\n"),
        ("COPY people (id, name, salary) FROM STDIN CSV", "11,\"E\nve\",1\n12,Fay,much\n"),
        ("COPY people (id, name, salary) FROM STDIN CSV HEADER", "id,name,salary\n11,\"Eve\",\"1\n"),
        ("COPY visits FROM STDIN", "1\tBob\n2\tNobody\n"),
    ] {
        let [plain, encrypted] = &clients;
        let expected = said(&copied(plain, copy, rows).await);
        let found = said(&copied(encrypted, copy, rows).await);
        let mut shown = expected.detail.clone();
        if expected.code == "23502" {
            shown = None;
        }
        // A foreign key is looked at when all rows have come, where PostgreSQL copies.
        let context = if expected.code == "23503" { found.context.clone() } else { expected.context.clone() };
        let expected = Said { detail: shown, context, ..expected };
        assert_eq!(found, expected, "{copy} {rows}");
        assert!(found.code == "23503" || found.context.is_some(), "{copy} {rows}");
    }
}

#[tokio::test]
async fn a_server_out_of_memory_says_so_through_the_proxy() {
    let (_server, _proxy, clients) = both().await;
    // Its table of locks is full.
    let locks =
        "SELECT name, pg_advisory_lock(n) FROM people, generate_series(1, 10000000) n WHERE name = 'Bob'";
    let mut replies = Vec::new();
    for client in &clients {
        let error = client.simple_query(locks).await.unwrap_err();
        replies.push((said(&error), error.as_db_error().unwrap().hint().map(str::to_owned)));
        client.batch_execute("SELECT pg_advisory_unlock_all()").await.unwrap();
        let people = client.query("SELECT name FROM people WHERE name = $1", &[&"Bob"]).await.unwrap();
        assert_eq!(people[0].get::<_, &str>(0), "Bob");
    }
    assert_eq!(replies[0].0.code, "53200");
    assert_eq!(replies[0], replies[1]);
}
