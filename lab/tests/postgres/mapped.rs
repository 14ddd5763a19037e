//! Statements as mappers and drivers write them: rows listed in `VALUES` and arrays, queries among results, and sums of
//! groups that are longer than a message.

use crate::dev::Dev;
use crate::encrypted::{rows, texts};
use crate::extended::connect;
use arras_lab::private_postgres::{Options, PrivatePostgres};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

const SCHEMA: &str = r#"
[tables."public.people"]
name = { id = "8c1d2e3f4a5b6c01", type = "text", operations = ["unique", "order"], max_bytes = 40 }
salary = { id = "8c1d2e3f4a5b6c02", type = "integer", operations = ["equality", "order", "sum"] }
born = { id = "8c1d2e3f4a5b6c03", type = "date", operations = ["order"], order = "stope" }
memo = { id = "8c1d2e3f4a5b6c04", type = "text" }

[tables."public.numbers"]
n = { id = "8c1d2e3f4a5b6c05", type = "numeric", operations = ["sum"] }
"#;

const CREATE: &str = "CREATE TABLE people (id serial PRIMARY KEY, name text UNIQUE, salary int DEFAULT 7, born date, memo text)";

async fn opened() -> (PrivatePostgres, Dev, Client) {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    (server, proxy, client)
}

async fn code(client: &Client, text: &str) -> String {
    client.simple_query(text).await.unwrap_err().code().unwrap().code().to_owned()
}

/// Lists that are not stored, and why.
const WRONG: [(&str, &str); 7] = [
    ("INSERT INTO people (name) SELECT upper(v) FROM (VALUES ('Canary')) AS s (v)", "0A000"),
    ("INSERT INTO people (name, memo) SELECT v, v FROM (VALUES ('Canary')) AS s (v)", "0A000"),
    ("INSERT INTO people (memo) SELECT * FROM unnest('{a}'::text[])", "0A000"),
    ("INSERT INTO people (name, salary) SELECT * FROM unnest('{a}'::text[], '{x}'::int[])", "22P02"),
    ("INSERT INTO people (name, salary) SELECT * FROM unnest('{a'::text[], '{1}'::int[])", "22P02"),
    (
        "INSERT INTO people (name, salary) SELECT * FROM unnest('{a}'::text[], '{99999999999}'::int[])",
        "22003",
    ),
    ("INSERT INTO people (name, salary) SELECT * FROM unnest('{Canary six}'::text[], '{1}'::int[])", "23505"),
];

#[tokio::test]
async fn listed_rows_are_stored_and_the_server_sees_none_of_them() {
    let all = [("log_statement", "all"), ("log_parameter_max_length", "-1"), ("fsync", "off")];
    let settings = all.map(|(name, value)| (name.into(), value.into())).into();
    let server = PrivatePostgres::start_with(&Options { settings, ..Options::default() }).unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    let listed = "INSERT INTO people (name, salary, born, memo) SELECT p0::TEXT, p1::INTEGER, p2::DATE, p3::TEXT FROM (VALUES \
        ($1::TEXT, $2::INTEGER, $3::DATE, $4::TEXT, 0), ('Canary two', NULL, '1999-12-31', NULL, 1)) AS imp_sen(p0, p1, p2, p3, \
        sen_counter) ORDER BY sen_counter RETURNING people.id, people.name, people.salary";
    let prepared = client.prepare(listed).await.unwrap();
    assert_eq!(prepared.params(), [Type::TEXT, Type::INT4, Type::DATE, Type::TEXT]);
    let bound = client.query_raw(
        "INSERT INTO people (name, salary, memo) SELECT p0, p1::int, p2 FROM (VALUES ($1, $2, $3)) v (p0, p1, p2)",
        ["Canary three", "-3", "m"],
    );
    drop(bound.await.unwrap());
    let returned = rows(
        &client,
        "INSERT INTO people (name, born) SELECT a, b::date FROM (VALUES ('Canary four', '2000-01-01'), ('Canary five', NULL)) \
         AS v (a, b) ORDER BY a DESC RETURNING name, salary",
    );
    // What has a default and is not listed has it in each row.
    assert_eq!(returned.await, texts(&[&["Canary four", "7"], &["Canary five", "7"]]));
    let arrays = "INSERT INTO people (name, salary, born) SELECT * FROM unnest($1::text[], $2::int[], $3::date[]) \
        ON CONFLICT (name) DO UPDATE SET salary = EXCLUDED.salary";
    let prepared = client.prepare(arrays).await.unwrap();
    assert_eq!(prepared.params(), [Type::TEXT_ARRAY, Type::INT4_ARRAY, Type::DATE_ARRAY]);
    let names = vec![Some("Canary six"), Some("Canary four"), None];
    let salaries = vec![Some(600), Some(400), Some(i32::MIN)];
    let dates = client.query_one("SELECT '{2001-01-01,NULL,0001-01-01}'::date[]", &[]).await.unwrap();
    let dates: Raw = dates.get(0);
    assert_eq!(client.execute(&prepared, &[&names, &salaries, &dates]).await.unwrap(), 3);
    assert_eq!(
        rows(&client, "SELECT name, salary, born FROM people ORDER BY name NULLS FIRST").await,
        texts(&[
            &["NULL", "-2147483648", "0001-01-01"],
            &["Canary five", "7", "NULL"],
            &["Canary four", "400", "2000-01-01"],
            &["Canary six", "600", "2001-01-01"],
            &["Canary three", "-3", "NULL"],
        ])
    );
    assert_eq!(
        rows(&client, "SELECT name FROM people WHERE salary > 5 AND born >= '2000-01-01' ORDER BY born")
            .await,
        texts(&[&["Canary four"], &["Canary six"]])
    );
    for (wrong, expected) in WRONG {
        assert_eq!(code(&client, wrong).await, expected, "{wrong}");
    }
    // The server wrote down all that it was sent.
    let log = std::fs::read(server.log()).unwrap();
    let log = String::from_utf8_lossy(&log);
    assert!(log.contains("unnest") && log.contains("p0$eq"), "statements are not in the log");
    assert!(!log.contains("Canary"), "the server saw what is to be sealed");
    let past = connect(&server.uri("postgres")).await;
    let sealed = "SELECT count(*) FROM people WHERE position('Canary'::bytea IN people::text::bytea) > 0";
    assert_eq!(past.query_one(sealed, &[]).await.unwrap().get::<_, i64>(0), 0);
    let (well, said) = proxy.doctor(&server, "postgres", true);
    assert!(well, "{said}");
}

/// A value as it came.
#[derive(Debug)]
struct Raw(Vec<u8>);

impl<'a> tokio_postgres::types::FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl tokio_postgres::types::ToSql for Raw {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<tokio_postgres::types::IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(tokio_postgres::types::IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

#[tokio::test]
async fn queries_among_results_are_opened_in_every_format() {
    let (_server, _proxy, client) = opened().await;
    let values = "INSERT INTO people (id, name, salary, memo) VALUES (1, 'Ann', 10, 'first'), (2, 'Bob', 20, NULL), (3, 'Cid', 20, 'c')";
    client.batch_execute(values).await.unwrap();
    let query = "SELECT a.id, (SELECT b.memo FROM people b WHERE b.id = a.id - $1) AS before, (SELECT max(salary) FROM people), \
        (SELECT sum(b.salary) FROM people b WHERE b.salary >= a.salary) FROM people a ORDER BY a.id";
    let prepared = client.prepare(query).await.unwrap();
    let columns: Vec<_> =
        prepared.columns().iter().map(|column| (column.name(), column.type_().clone())).collect();
    assert_eq!(
        columns,
        [("id", Type::INT4), ("before", Type::TEXT), ("max", Type::INT4), ("sum", Type::INT8)]
    );
    let found = client.query(&prepared, &[&1]).await.unwrap();
    let found: Vec<(i32, Option<String>, i32, i64)> =
        found.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    assert_eq!(found, [(1, None, 20, 50), (2, Some("first".into()), 20, 40), (3, None, 20, 40)]);
    assert_eq!(
        rows(&client, &query.replace("$1", "2")).await,
        texts(&[&["1", "NULL", "20", "50"], &["2", "NULL", "20", "40"], &["3", "first", "20", "40"]])
    );
    // More than one row is PostgreSQL's own error.
    assert_eq!(code(&client, "SELECT (SELECT memo FROM people)").await, "21000");
    let refused = client.simple_query("SELECT upper((SELECT memo FROM people LIMIT 1))").await.unwrap_err();
    let refused = refused.as_db_error().unwrap();
    assert_eq!((refused.code().code(), refused.position().is_some()), ("0A000", true));
}

/// Digits of each number, and how many there are: some 100 MB of text to the proxy.
const DIGITS: usize = 1_000;
const NUMBERS: i64 = 36_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_sum_of_more_than_a_message_holds_is_added_as_it_comes() {
    let (server, proxy, client) = opened().await;
    client.batch_execute("CREATE TABLE numbers (g int, n numeric)").await.unwrap();
    let nines = "9".repeat(DIGITS);
    client.batch_execute(&format!("INSERT INTO numbers VALUES (1, {nines}), (2, 0.5)")).await.unwrap();
    let past = connect(&server.uri("postgres")).await;
    let copies =
        format!("INSERT INTO numbers SELECT g, n FROM numbers, generate_series(2, {NUMBERS}) WHERE g = 1");
    past.batch_execute(&copies).await.unwrap();
    let bytes = "SELECT sum(length(n)) FROM numbers WHERE g = 1";
    let bytes: i64 = past.query_one(bytes, &[]).await.unwrap().get(0);
    // As text it is twice as long.
    assert!(bytes > 64 * 1024 * 1024 / 2, "{bytes}");
    let expected =
        past.query_one(&format!("SELECT ({NUMBERS} * {nines}::numeric)::text"), &[]).await.unwrap();
    let expected: String = expected.get(0);
    let query = "SELECT g, sum(n), count(*) FROM numbers GROUP BY g ORDER BY g";
    let found = rows(&client, query).await;
    assert_eq!(found[0], [Some("1".into()), Some(expected), Some(NUMBERS.to_string())]);
    assert_eq!(found[1], texts(&[&["2", "0.5", "1"]])[0]);
    // In binary, too; and the session goes on.
    let prepared = client.prepare("SELECT g, sum(n) FROM numbers GROUP BY g ORDER BY g").await.unwrap();
    let found = client.query(&prepared, &[]).await.unwrap();
    assert_eq!(found[1].get::<_, Raw>(1).0, [0, 1, 255, 255, 0, 0, 0, 1, 19, 136]);
    // One value that is not the column's own.
    past.batch_execute("UPDATE numbers SET n = '\\x00' WHERE ctid = (SELECT max(ctid) FROM numbers)")
        .await
        .unwrap();
    assert_eq!(code(&client, "SELECT sum(n) FROM numbers").await, "XX001");
    assert_eq!(rows(&client, "SELECT 1").await, texts(&[&["1"]]));
    let peak = proxy.peak_kib();
    eprintln!("{peak} KiB");
    assert!(peak < 96 * 1024, "the process had {peak} KiB");
}
