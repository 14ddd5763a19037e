//! Forms of SQL that the parser does not know, on encrypted columns of every order and on plain ones: what PostgreSQL answers to
//! the same in plaintext, names, types and counts, and no constant in its log.

use crate::dev::Dev;
use crate::extended::connect;
use arras_lab::private_postgres::{Options, PrivatePostgres};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, SimpleQueryMessage};

const SCHEMA: &str = r#"
[tables."public.items"]
name = { id = "7a1b2c3d4e5f7b01", type = "varchar(20)", operations = ["equality", "order"], max_bytes = 80 }
price = { id = "7a1b2c3d4e5f7b02", type = "numeric(8,2)", operations = ["equality", "order", "sum"] }
stock = { id = "7a1b2c3d4e5f7b03", type = "integer", operations = ["equality", "order"] }
size = { id = "7a1b2c3d4e5f7b04", type = "integer", operations = ["order"], order = "clww" }
depth = { id = "7a1b2c3d4e5f7b05", type = "integer", operations = ["order"], order = "lewi_wu" }
age = { id = "7a1b2c3d4e5f7b06", type = "integer", operations = ["order"], order = "fh_ope" }
seen = { id = "7a1b2c3d4e5f7b07", type = "date", operations = ["order"], order = "stope" }
memo = { id = "7a1b2c3d4e5f7b08", type = "text" }
"#;

const CREATE: &str = "CREATE TABLE items (id int PRIMARY KEY, name varchar(20), price numeric(8,2), stock int DEFAULT 9, size int, \
    depth int, age int, seen date, memo text DEFAULT 'none', plain int); CREATE TABLE others (id int, name text); \
    INSERT INTO items VALUES (1, 'Ann', 1.5, 5, 5, 5, 5, '2020-01-05', 'a', 5), (2, 'Bob', 2.25, 7, 7, 7, 7, '2020-01-07', 'b', 7), \
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (4, 'Dan', 4, 5, 5, 5, 5, '2020-01-05', 'd', 5); \
    INSERT INTO others VALUES (1, 'x'), (2, 'y')";

const STATEMENTS: &[&str] = &[
    "SELECT id FROM items WHERE stock BETWEEN SYMMETRIC 8 AND 6 ORDER BY id",
    "SELECT id FROM items WHERE stock BETWEEN SYMMETRIC 6 AND 8 AND plain BETWEEN SYMMETRIC 9 AND 1 ORDER BY id",
    "SELECT id FROM items WHERE (stock) NOT BETWEEN SYMMETRIC 7 AND 6 ORDER BY id",
    "SELECT id FROM items WHERE NOT (stock BETWEEN SYMMETRIC 7 AND 6) ORDER BY id",
    "SELECT id, stock BETWEEN SYMMETRIC NULL AND 6, stock NOT BETWEEN SYMMETRIC 5 AND NULL FROM items ORDER BY id",
    "SELECT id FROM items WHERE price BETWEEN SYMMETRIC 2.255 AND 1.495 ORDER BY id",
    "SELECT id FROM items WHERE size BETWEEN SYMMETRIC 6 AND 1 ORDER BY id",
    "SELECT id FROM items WHERE size NOT BETWEEN SYMMETRIC 6 AND 5 ORDER BY id",
    "SELECT id, size BETWEEN SYMMETRIC 5 AND NULL FROM items ORDER BY id",
    "SELECT id FROM items WHERE depth BETWEEN SYMMETRIC 9 AND 6 ORDER BY id",
    "SELECT id FROM items WHERE depth NOT BETWEEN SYMMETRIC 9 AND 6 ORDER BY id",
    "SELECT id FROM items WHERE age BETWEEN SYMMETRIC 5 AND 4 ORDER BY id",
    "SELECT id FROM items WHERE age NOT BETWEEN SYMMETRIC 5 AND 4 ORDER BY id",
    "SELECT id FROM items WHERE name BETWEEN ASYMMETRIC 'Aa' AND 'Bz' ORDER BY id",
    "SELECT id FROM items WHERE name BETWEEN SYMMETRIC 'Bz' AND 'Aa' ORDER BY id",
    "SELECT id FROM items WHERE seen BETWEEN SYMMETRIC DATE '2020-01-06' AND '2019-01-01'::date ORDER BY id",
    "SELECT count(*) FILTER (WHERE stock BETWEEN SYMMETRIC 7 AND 6) FROM items",
    "UPDATE items SET stock = CASE WHEN stock BETWEEN SYMMETRIC 7 AND 6 THEN 70 ELSE stock END WHERE id < 3 RETURNING id, stock",
    "SELECT * FROM others WHERE id BETWEEN SYMMETRIC 3 AND 2",
    // All of a table.
    "TABLE items ORDER BY id",
    "TABLE ONLY public.items ORDER BY id LIMIT 2",
    "TABLE others",
    "SELECT s.name, s.stock FROM (TABLE items) s WHERE s.stock = 5 ORDER BY s.stock, s.id",
    "SELECT id FROM others o WHERE EXISTS (TABLE items) ORDER BY id",
    "WITH i AS (TABLE items) TABLE i ORDER BY id",
    "SELECT id, stock table FROM items ORDER BY id",
    "SELECT i.id FROM items i WHERE i.id IN (SELECT o.id FROM (TABLE others) o) ORDER BY id",
    "DECLARE c CURSOR WITH HOLD FOR TABLE items",
    "FETCH 1 FROM c",
    "PREPARE all_of AS TABLE items",
    "EXECUTE all_of",
    "CREATE TABLE copied AS TABLE others",
    "TABLE copied",
    "SELECT id FROM (TABLE others UNION ALL TABLE copied) x WHERE EXISTS (SELECT FROM items WHERE memo IS NULL) ORDER BY id",
    "INSERT INTO items (id, memo) TABLE others ON CONFLICT DO NOTHING",
    "DELETE FROM items WHERE id > 4",
    "BEGIN; UPDATE items SET id = id + 100; INSERT INTO items TABLE items ON CONFLICT DO NOTHING; TABLE items; ROLLBACK",
    // Strings that go on.
    "SELECT id FROM items WHERE name = 'A'\n   'nn'",
    "SELECT id FROM items WHERE name = E'A' -- and\n'nn' AND 'x'\n'y' = 'xy'",
    "UPDATE items SET memo = 'one'\n' two', plain = length('a'\n'bc') WHERE id = 1 RETURNING memo, plain",
    "SELECT 'a'\n'b' AS both FROM others",
    "SELECT id FROM items WHERE name = 'A' 'nn'",
    "SELECT id FROM items WHERE seen = DATE '2020-'\n'01-07'",
    // Columns that are set together.
    "UPDATE items SET (name, plain, price) = ('Eve', 8, 2.345) WHERE id = 1 RETURNING *",
    "UPDATE items SET (id, memo) = (1, 'alone'), (stock) = ROW(DEFAULT) WHERE id = 1 RETURNING memo, stock",
    "UPDATE items SET (stock, size, depth, seen) = ROW (1, 2, NULL, '2021-02-03'), plain = 3 WHERE id = 1 RETURNING *",
    "UPDATE items SET (stock, price, plain) = (stock + plain, price * 2, plain + 1) WHERE id IN (1, 2) RETURNING id, stock, price, plain",
    "UPDATE items SET (memo, stock) = (memo, CASE WHEN plain > 4 THEN 11 ELSE stock END) RETURNING id, memo, stock",
    "UPDATE items SET (age, plain) = (6, 6) WHERE id = 2 RETURNING age, plain",
    "UPDATE items SET (name, plain) = ('a', 8, 9)",
    "UPDATE items SET (nmae, plain) = ('a', 8)",
    "UPDATE others SET (id, name) = (5, 'z') WHERE id = 2 AND EXISTS (SELECT FROM items) RETURNING *",
    "INSERT INTO items (id, name) VALUES (1, 'Fay') ON CONFLICT (id) DO UPDATE SET (name, memo, plain) = (EXCLUDED.name, 'set', 4) RETURNING name, memo, plain, stock",
    "TABLE items ORDER BY id",
];

/// What is refused of an encrypted column, and answered in plaintext.
const REFUSED: &[&str] = &[
    "SELECT id FROM items WHERE memo BETWEEN SYMMETRIC 'secret' AND 'b'",
    "SELECT id FROM items WHERE stock BETWEEN SYMMETRIC plain AND 987654",
    "UPDATE items SET (name, plain) = (SELECT 'secret', 1)",
    "UPDATE items SET (name, plain) = (upper('secret'), 1)",
    "UPDATE items SET (memo, plain) = (DEFAULT, 1), (name, stock) = (VALUES ('secret', 987654))",
    "SELECT id FROM items WHERE name = E'secret'\n'\\x41'",
    "SELECT id FROM others WHERE name IN (TABLE items)",
    "CREATE TABLE stolen AS TABLE items",
];

/// What a text is answered: names, rows, counts; or the error's code.
pub(crate) async fn answered(client: &Client, text: &str) -> Result<Vec<String>, String> {
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

/// Names and types of what a statement takes and gives; nothing of one that is not prepared alone.
pub(crate) async fn described(client: &Client, statement: &str) -> Result<Vec<String>, String> {
    let prepared = client.prepare(statement).await;
    let prepared = prepared
        .map_err(|error| error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()))?;
    let parameters = prepared.params().iter().map(|kind| format!("${kind}"));
    let columns = prepared.columns().iter();
    let columns =
        columns.map(|column| format!("{} {} {}", column.name(), column.type_(), column.type_modifier()));
    Ok(parameters.chain(columns).collect())
}

/// A server that logs all, the same tables in plaintext and encrypted.
pub(crate) async fn both(schema: &str, create: &str) -> (PrivatePostgres, Dev, [Client; 2]) {
    let settings = [("fsync", "off"), ("log_statement", "all"), ("log_parameter_max_length", "-1")];
    let settings = settings.map(|(name, value)| (name.into(), value.into())).into();
    let server = PrivatePostgres::start_with(&Options { settings, ..Options::default() }).unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("CREATE DATABASE plain").await.unwrap();
    let proxy = Dev::start(&server, "postgres", schema);
    let clients = [connect(&server.uri("plain")).await, connect(&proxy.uri("postgres")).await];
    for client in &clients {
        client.batch_execute(create).await.unwrap();
    }
    (server, proxy, clients)
}

/// Compares what both sides answer, in order.
pub(crate) async fn agree([plain, encrypted]: &[Client; 2], statements: &[&str]) {
    let mut wrong = Vec::new();
    for statement in statements {
        let (expected, found) = (described(plain, statement).await, described(encrypted, statement).await);
        if found != expected {
            wrong.push(format!("{statement}\n  is of    {found:?}\n  expected {expected:?}"));
        }
        let (expected, found) = (answered(plain, statement).await, answered(encrypted, statement).await);
        if found != expected {
            wrong.push(format!("{statement}\n  is       {found:?}\n  expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// That statements are refused, and their constants are in no log.
pub(crate) async fn refused(
    server: &PrivatePostgres,
    client: &Client,
    statements: &[&str],
    secrets: &[&str],
) {
    let before = std::fs::read_to_string(server.log()).unwrap().len();
    for statement in statements {
        assert_eq!(answered(client, statement).await, Err("0A000".into()), "{statement}");
        assert_eq!(described(client, statement).await, Err("0A000".into()), "{statement}");
    }
    let log = std::fs::read_to_string(server.log()).unwrap();
    let log = log.get(before..).unwrap();
    assert!(!secrets.iter().any(|secret| log.contains(secret)), "{log}");
}

#[tokio::test]
async fn other_spellings_are_answered_as_in_plaintext() {
    let (server, _proxy, clients) = both(SCHEMA, CREATE).await;
    agree(&clients, STATEMENTS).await;
    refused(&server, &clients[1], REFUSED, &["secret", "987654"]).await;
}

#[tokio::test]
async fn parameters_stand_in_other_spellings() {
    let (_server, _proxy, [plain, encrypted]) = both(SCHEMA, CREATE).await;
    let low: &(dyn ToSql + Sync) = &4_i32;
    let high: &(dyn ToSql + Sync) = &6_i32;
    for (statement, given) in [
        ("SELECT id FROM items WHERE stock BETWEEN SYMMETRIC $1 AND $2 ORDER BY id", vec![high, low]),
        ("SELECT id FROM items WHERE stock NOT BETWEEN SYMMETRIC $1 AND 6 ORDER BY id", vec![high]),
        (
            "SELECT id FROM items WHERE size BETWEEN SYMMETRIC $2 AND $1 OR age BETWEEN SYMMETRIC $1 AND 1 ORDER BY id",
            vec![low, high],
        ),
        (
            "UPDATE items SET (stock, memo, plain) = ($1, 'x', $2) WHERE id = $2 RETURNING stock, memo, plain",
            vec![low, high],
        ),
        (
            "UPDATE items SET (stock, plain) = (stock + $1, $2) WHERE id < $2 RETURNING stock, plain",
            vec![low, high],
        ),
    ] {
        let mut found = Vec::new();
        for client in [&plain, &encrypted] {
            let prepared = client.prepare(statement).await.unwrap();
            let types: Vec<String> = prepared.params().iter().map(ToString::to_string).collect();
            let rows = client.query(&prepared, &given).await.unwrap();
            found.push((types, rows.iter().map(|row| row.get::<_, Option<i32>>(0)).collect::<Vec<_>>()));
        }
        assert_eq!(found[0], found[1], "{statement}");
    }
}
