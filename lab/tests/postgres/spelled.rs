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
    // A table with those that inherit from it.
    "TABLE items * ORDER BY id",
    "SELECT id FROM items * WHERE stock = 11 ORDER BY id",
    "SELECT i.id, o.id FROM items * i, others * AS o WHERE i.name = 'Bob' ORDER BY i.id, o.id",
    "SELECT o.name FROM others o JOIN public.items * i ON o.id = i.id AND i.id * 2 = 4",
    "SELECT id * plain, plain * 2 AS twice FROM items * WHERE id * 2 = 4",
    "SELECT extract(day FROM o.d * 2), o.n IS DISTINCT FROM o.n * 2 FROM (SELECT interval '1 day' AS d, i.id AS n FROM items i WHERE i.id = 1) o",
    "UPDATE items * SET plain = 4 WHERE id = 4 RETURNING id, plain",
    "UPDATE items * AS i SET stock = i.stock + 1 WHERE i.id = 4 RETURNING id, stock",
    "DELETE FROM items * WHERE id = 999",
    "TABLE items WHERE id = 1",
    "TABLE items i",
    "TABLE items, others",
    "TABLE items JOIN others USING (id)",
    "TABLE items GROUP BY id",
    "SELECT * FROM (TABLE items WHERE id = 1) s",
    "TABLE items ORDER BY id LIMIT 1 OFFSET 1",
    "(TABLE items LIMIT 1) UNION ALL (TABLE items LIMIT 0)",
    // A row of one column.
    "UPDATE items SET (stock) = (6) WHERE id = 1",
    "UPDATE items SET (stock) = ROW(6) WHERE id = 1 RETURNING stock",
    "UPDATE items SET (plain) = ROW(6), (memo) = ROW('zz') WHERE id = 1 RETURNING memo, plain",
    "UPDATE items SET (plain) = (SELECT 7) WHERE id = 1 AND name = 'Fay' RETURNING plain",
    // Which index a conflict is of.
    "INSERT INTO items (id, name) VALUES (1, 'w') ON CONFLICT (id) WHERE id > 0 DO UPDATE SET name = EXCLUDED.name RETURNING name",
    "INSERT INTO items (id, name) VALUES (1, 'v') ON CONFLICT (id) WHERE (id > 0 AND plain IS NOT NULL) DO NOTHING",
    "INSERT INTO items (id, stock) VALUES (1, 3) ON CONFLICT (id) WHERE name IS NOT NULL DO UPDATE SET stock = items.stock + EXCLUDED.stock RETURNING stock",
    "INSERT INTO items (id, name) VALUES (1, 'v') ON CONFLICT (id) WHERE nmae = 'x' DO NOTHING",
    // Members of a list are of one type.
    "SELECT id FROM items WHERE stock IN (11, '5') ORDER BY id",
    "SELECT id FROM items WHERE stock IN ('11', 7.0) ORDER BY id",
    "SELECT id FROM items WHERE stock IN ('5.5', 11.0) ORDER BY id",
    "SELECT id FROM items WHERE stock NOT IN ('5.0', 7.5) ORDER BY id",
    "SELECT id FROM items WHERE size IN ('5.5', 5.0) ORDER BY id",
    "SELECT id FROM items WHERE depth IN ('5.5', 5.0) ORDER BY id",
    "SELECT id FROM items WHERE age IN (5.5, '7.0') ORDER BY id",
    "SELECT id FROM items WHERE price IN ('2.25', 4) ORDER BY id",
    "SELECT id FROM items WHERE stock = ANY (ARRAY['11.0', 7.5]) ORDER BY id",
    "SELECT id FROM items WHERE seen IN ('2020-01-05 10:00', timestamp '2020-01-07 00:00') ORDER BY id",
    // Defaults as they are assigned.
    "ALTER TABLE items ALTER stock SET DEFAULT 2.5, ALTER price SET DEFAULT 2.555, ALTER memo SET DEFAULT 7",
    "INSERT INTO items (id) VALUES (20) RETURNING stock, price, memo",
    "ALTER TABLE items ALTER stock SET DEFAULT 9, ALTER price DROP DEFAULT, ALTER memo DROP DEFAULT",
    "DELETE FROM items WHERE id = 20",
    "SELECT nullif(count(*), 2), nullif(count(stock), 3) FROM items",
    "SELECT nullif(sum(price), 987654), nullif(sum(price), 4) FROM items",
    "SELECT id, nullif(stock, 7) FROM items ORDER BY id",
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
    "INSERT INTO items (id, name) VALUES (1, 'v') ON CONFLICT (id) WHERE name = 'secret' DO NOTHING",
    "INSERT INTO items (id, name) VALUES (1, 'v') ON CONFLICT (id) WHERE stock > 987654 DO NOTHING",
    "UPDATE items SET (name) = (SELECT 'secret')",
    "PREPARE padded (char(5)) AS SELECT id FROM items WHERE name = $1",
    "PREPARE padded (bpchar) AS INSERT INTO items (id, name) VALUES (50, $1)",
    "SELECT id FROM items WHERE name = 'secret'::char(9)",
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
async fn a_text_that_is_no_whole_number_is_none_for_a_column_of_them() {
    let (_server, _proxy, [plain, encrypted]) = both(SCHEMA, CREATE).await;
    for statement in [
        "SELECT id FROM items WHERE stock IN (11, '5.0') ORDER BY id",
        "SELECT id FROM items WHERE stock IN ('5.0') ORDER BY id",
        "ALTER TABLE items ALTER stock SET DEFAULT '2.5'",
    ] {
        assert_eq!(answered(&plain, statement).await, Err("22P02".into()), "{statement}");
        assert_eq!(answered(&encrypted, statement).await, Err("22P02".into()), "{statement}");
    }
}

#[tokio::test]
async fn what_is_given_to_a_refused_statement_stays_with_the_proxy() {
    let (server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    let before = std::fs::read_to_string(server.log()).unwrap().len();
    let prepare = "PREPARE mine (text) AS SELECT id FROM items WHERE memo = $1";
    assert_eq!(answered(&client, prepare).await, Err("0A000".into()));
    for execute in ["EXECUTE mine ('secret')", "SELECT 1; EXECUTE mine('secret')"] {
        assert_eq!(answered(&client, execute).await, Err("26000".into()), "{execute}");
    }
    let log = std::fs::read_to_string(server.log()).unwrap();
    assert!(!log.get(before..).unwrap().contains("secret"), "{log}");
    answered(&client, "PREPARE mine (text) AS SELECT id FROM items WHERE name = $1").await.unwrap();
    assert_eq!(answered(&client, "EXECUTE mine ('Bob')").await.unwrap(), ["id", "2", "1 rows"]);
}

/// A moment as a client may write it.
const MOMENTS: &[&str] = &[
    "2020-01-01 10:00 UTC",
    "2020-01-01 10:00 GMT",
    "2020-01-01 10:00Z",
    "2020-01-01 10:00",
    "2020-01-01",
    "20200101",
    "20200101T100000Z",
    "2020-01-01 1000+00",
    "2020-01-01 100000.5+00",
    "2020-01-01 12:00 +2",
    "2020-01-01 15:30+530",
    "2020-01-01 15:30 +5:30",
    "2020-01-01 04:57+05:3",
    "2020-01-01 07:00-03",
];

#[tokio::test]
async fn moments_are_read_as_they_are_written() {
    let schema = "[tables.moments]\nat = { id = \"7a1b2c3d4e5f7b21\", type = \"timestamptz\", operations = [\"equality\", \"order\"] }";
    let (_server, _proxy, clients) = both(schema, "CREATE TABLE moments (id serial, at timestamptz)").await;
    for client in &clients {
        client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
    }
    let statements: Vec<String> = MOMENTS
        .iter()
        .flat_map(|moment| {
            [
                format!("INSERT INTO moments (at) VALUES ('{moment}') RETURNING at"),
                format!("SELECT count(*) FROM moments WHERE at = '{moment}'"),
            ]
        })
        .collect();
    agree(&clients, &statements.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn rights_in_the_proxy_s_schema_are_not_given_through_it() {
    let (_server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    client.batch_execute("CREATE ROLE arras; CREATE ROLE somebody").await.unwrap();
    for statement in [
        "GRANT ALL ON SCHEMA arras TO somebody",
        "REVOKE USAGE ON SCHEMA public, arras FROM PUBLIC",
        "GRANT SELECT ON ALL TABLES IN SCHEMA arras TO somebody",
        "GRANT INSERT ON arras.mark TO somebody",
    ] {
        assert_eq!(answered(&client, statement).await, Err("42501".into()), "{statement}");
    }
    for statement in ["GRANT USAGE ON SCHEMA public TO arras", "GRANT SELECT ON items TO arras, somebody"] {
        answered(&client, statement).await.unwrap();
    }
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

#[tokio::test]
async fn dates_are_shown_in_iso_8601_or_the_setting_is_refused() {
    let (_server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    let dates = [
        "SELECT seen FROM items",
        "TABLE items",
        "SELECT max(seen) FROM items",
        "COPY items (seen) TO STDOUT",
    ];
    let prepared = client.prepare(dates[0]).await.unwrap();
    for style in ["German", "SQL, DMY", "Postgres"] {
        client.batch_execute(&format!("SET datestyle = '{style}'")).await.unwrap();
        for statement in dates {
            assert_eq!(answered(&client, statement).await, Err("0A000".into()), "{style}: {statement}");
        }
        let error = client.query(&prepared, &[]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "0A000", "{style}");
        // Where none is shown the setting does not matter.
        let found = answered(&client, "SELECT id FROM items WHERE seen = '2020-01-07'").await.unwrap();
        assert_eq!(found, ["id", "2", "1 rows"]);
        client.batch_execute("RESET datestyle").await.unwrap();
    }
    client.batch_execute("SET datestyle = 'ISO, DMY'").await.unwrap();
    assert_eq!(
        answered(&client, "SELECT seen FROM items WHERE id = 2").await.unwrap(),
        ["seen", "2020-01-07", "1 rows"]
    );
}
