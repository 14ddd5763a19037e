//! Statements as applications write them: what PostgreSQL answers to the same in plaintext, names of columns and all.

use crate::dev::Dev;
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;
use tokio_postgres::{Client, SimpleQueryMessage};

const SCHEMA: &str = r#"
[tables."public.accounts"]
owner = { id = "7a1b2c3d4e5f6b01", type = "varchar(12)", operations = ["equality", "order"], max_bytes = 40 }
balance = { id = "7a1b2c3d4e5f6b02", type = "integer", operations = ["equality", "order", "sum"] }
rate = { id = "7a1b2c3d4e5f6b03", type = "real", operations = ["equality"] }

[tables."public.payments"]
owner = { id = "7a1b2c3d4e5f6b04", type = "varchar(12)", join = "accounts.owner" }
"#;

const CREATE: &str = "CREATE TABLE accounts (id int PRIMARY KEY, owner varchar(12), balance int, rate real, note text); \
    CREATE TABLE payments (number int, owner varchar(12), amount int); \
    INSERT INTO accounts VALUES (1, 'Ann', 5, 0.1, 'a'), (2, 'Bob', 7, 2, NULL), (3, NULL, NULL, NULL, 'c'), (4, 'Ann', 7, 0.7, 'd'); \
    INSERT INTO payments VALUES (1, 'Ann', 10), (2, 'Cid', 20), (3, NULL, 30), (4, 'Bob', 40)";

/// What a text is answered: names, rows, counts; or the error's code.
async fn answered(client: &Client, text: &str) -> Result<Vec<String>, String> {
    let messages = client.simple_query(text).await;
    let messages = messages
        .map_err(|error| error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()))?;
    let shown = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            let values: Vec<&str> = (0..row.len()).map(|place| row.get(place).unwrap_or("NULL")).collect();
            values.join("|")
        }
        SimpleQueryMessage::CommandComplete(rows) => format!("{rows} rows"),
        SimpleQueryMessage::RowDescription(columns) => {
            columns.iter().map(|column| column.name()).collect::<Vec<_>>().join(",")
        }
        _ => String::new(),
    };
    Ok(messages.into_iter().map(shown).collect())
}

#[tokio::test]
async fn what_applications_write_is_answered_as_in_plaintext() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("CREATE DATABASE plain").await.unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let (plain, encrypted) = (connect(&server.uri("plain")).await, connect(&proxy.uri("postgres")).await);
    for client in [&plain, &encrypted] {
        client.batch_execute(CREATE).await.unwrap();
    }
    let mut wrong = Vec::new();
    for statement in [
        // Of groups.
        "SELECT owner, count(*) FROM accounts GROUP BY owner HAVING owner IS NOT NULL ORDER BY owner",
        "SELECT coalesce(owner, 'none'), count(*) FROM accounts GROUP BY owner ORDER BY 2 DESC, min(id)",
        "SELECT owner IS NULL AS gone, count(*) FROM accounts GROUP BY owner ORDER BY min(id)",
        "SELECT CASE WHEN balance > 5 THEN owner ELSE 'low' END, balance FROM accounts GROUP BY owner, balance ORDER BY min(id)",
        "SELECT count(*) FILTER (WHERE balance IS NULL) FROM accounts GROUP BY owner ORDER BY min(id)",
        "SELECT balance, max(owner) FROM accounts GROUP BY balance HAVING max(balance) > 4 ORDER BY balance",
        // Of a column that two tables share.
        "SELECT owner, amount FROM accounts JOIN payments USING (owner) ORDER BY id",
        "SELECT owner, count(*) FROM accounts LEFT JOIN payments USING (owner) GROUP BY owner ORDER BY owner NULLS FIRST",
        "SELECT id FROM accounts JOIN payments USING (owner) WHERE owner = 'Ann' ORDER BY owner DESC, id",
        // Of queries whose results have no names.
        "SELECT * FROM (SELECT owner, id::text FROM accounts) x ORDER BY 2",
        "SELECT * FROM (SELECT owner, count(*)::int, 5::bigint, pg_catalog.upper('x'), trim(' y ') FROM accounts GROUP BY owner) x ORDER BY count, owner",
        "WITH x AS (SELECT balance, CASE WHEN id > 2 THEN 1 ELSE id END, extract(year FROM DATE '2020-02-03') FROM accounts) SELECT * FROM x ORDER BY id, balance",
        "SELECT * FROM (SELECT owner, id + 1 FROM accounts) x ORDER BY 2",
        "SELECT CASE WHEN id > 1 THEN owner ELSE owner END FROM accounts ORDER BY id",
        // A parameter that nobody binds.
        "UPDATE accounts SET owner = 'x', note = $1 WHERE id = 4",
        "INSERT INTO accounts (id, note, owner) VALUES (5, $1, 'x')",
        "UPDATE accounts SET balance = balance + 1, note = $1",
        "SELECT id FROM accounts WHERE owner = $1",
        "SELECT id FROM accounts WHERE owner = '$1' OR note = '$2'",
        "PREPARE by_owner AS SELECT id FROM accounts WHERE owner = $1",
        "EXECUTE by_owner ('Bob')",
        // What is changed is a table.
        "WITH accounts AS (SELECT 1 AS id) INSERT INTO accounts (id, owner) VALUES (6, 'Eve')",
        "WITH accounts AS (SELECT 6 AS id) UPDATE accounts SET owner = 'Fay' WHERE owner = 'Eve'",
        "WITH accounts AS (SELECT 6 AS id) DELETE FROM accounts WHERE owner = 'Fay' RETURNING id, owner",
        // Comments of every kind.
        "SELECT id /* ' -- */ FROM accounts -- owner = 'x'\n WHERE owner = 'Ann' /* /* */ */ ORDER BY id",
        "SELECT owner, 'ä' /* €𝄞 */ AS \"ä\" FROM accounts WHERE owner = 'Ann' AND nothing = 1 /* é */",
        // Numbers of other types than their columns.
        "UPDATE accounts SET rate = rate * 0.1 RETURNING id, rate",
        "UPDATE accounts SET rate = rate + 1e-3 WHERE id = 1 RETURNING rate",
        "UPDATE accounts SET rate = rate * 3 - 1 RETURNING id, rate",
        "UPDATE accounts SET rate = rate * 1e30 * 1e30 WHERE id = 1",
        "UPDATE accounts SET balance = balance * 1.5 RETURNING id, balance",
        "UPDATE accounts SET balance = balance * 0.5 - 0.5 WHERE balance > 2 RETURNING id, balance",
        "UPDATE accounts SET balance = 2.5 WHERE id = 2 RETURNING balance",
        "UPDATE accounts SET balance = -2.5 WHERE id = 2 RETURNING balance",
        "INSERT INTO accounts (id, balance) VALUES (7, 1e3), (8, 3.49) RETURNING balance",
        "UPDATE accounts SET balance = '2.5' WHERE id = 2",
        "UPDATE accounts SET balance = balance * '1.5' WHERE id = 2",
        "UPDATE accounts SET balance = balance * 1e10 WHERE id = 2",
        // Chosen values.
        "UPDATE accounts SET balance = CASE WHEN lower(note) = 'a' THEN 6 ELSE balance END RETURNING id, balance",
    ] {
        let expected = answered(&plain, statement).await;
        let found = answered(&encrypted, statement).await;
        if found != expected {
            wrong.push(format!("{statement}\n  is       {found:?}\n  expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
