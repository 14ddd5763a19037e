//! What is computed of a row and set: PostgreSQL's types say what may be assigned, whatever the values' texts.

use crate::encrypted::texts;
use crate::pair::Pair;
use tokio_postgres::Client;

const SCHEMA: &str = r#"
[tables."public.things"]
owner = { id = "6a1b2c3d4e5f8e01", type = "text", operations = ["unique"] }
count = { id = "6a1b2c3d4e5f8e02", type = "integer", operations = ["equality", "order"] }
flag = { id = "6a1b2c3d4e5f8e03", type = "boolean" }
day = { id = "6a1b2c3d4e5f8e04", type = "date" }
raw = { id = "6a1b2c3d4e5f8e05", type = "bytea" }
doc = { id = "6a1b2c3d4e5f8e06", type = "jsonb" }
note = { id = "6a1b2c3d4e5f8e07", type = "text" }
badge = { id = "6a1b2c3d4e5f8e08", type = "uuid" }
ratio = { id = "6a1b2c3d4e5f8e09", type = "double precision", operations = ["equality"] }
"#;

const CREATE: &str = "CREATE TABLE things (id int PRIMARY KEY, owner text UNIQUE, count int, flag boolean, day date, raw bytea, doc jsonb, \
    note text, badge uuid, ratio double precision, n int, t text, b boolean, r real, d date); \
    INSERT INTO things VALUES (1, 'Ann', 1, true, '2020-01-05', '\\x01', '1', '77', 'c0ffee42-7a1e-4bad-9cab-1e5ca1ab1e77', 2.5, 1, '5', true, 0.1, \
    '2021-01-01')";

/// Statements whose types do not fit, and what is special about some that do.
const STATEMENTS: &[&str] = &[
    "UPDATE things SET flag = count",
    "UPDATE things SET flag = n",
    "UPDATE things SET flag = t",
    "UPDATE things SET count = flag",
    "UPDATE things SET count = b",
    "UPDATE things SET count = t",
    "UPDATE things SET count = note",
    "UPDATE things SET count = coalesce(flag, false)",
    "UPDATE things SET count = coalesce(count, flag)",
    "UPDATE things SET count = count + flag",
    "UPDATE things SET count = count + note",
    "UPDATE things SET count = note || '1'",
    "UPDATE things SET count = CASE WHEN id = 1 THEN note ELSE '5' END",
    "UPDATE things SET count = CASE WHEN id = 1 THEN count ELSE note END",
    "UPDATE things SET day = note",
    "UPDATE things SET day = count",
    "UPDATE things SET raw = note",
    "UPDATE things SET raw = raw || note",
    "UPDATE things SET badge = owner",
    "UPDATE things SET doc = note",
    "UPDATE things SET note = -note",
    "INSERT INTO things (id, owner, note) VALUES (2, 'Ann', '5') ON CONFLICT (owner) DO UPDATE SET count = excluded.note",
    "INSERT INTO things (id, owner, note) VALUES (2, 'Ann', '5') ON CONFLICT (owner) DO UPDATE SET note = excluded.note || things.note",
    "UPDATE things SET note = note || count || flag, count = count + n, ratio = r",
    "UPDATE things SET note = day, count = n + 1, raw = raw || '\\x02', day = d",
    "UPDATE things SET ratio = coalesce(r, 1), note = coalesce(t, note), flag = b",
    "INSERT INTO things (id, ratio) VALUES (3, '1e-400')",
    "INSERT INTO things (id, ratio) VALUES (3, 1e-400)",
    "INSERT INTO things (id, ratio) VALUES (3, '-4.9e-325')",
    "SELECT id FROM things WHERE ratio = 1e-400",
    "INSERT INTO things (id, ratio) VALUES (3, '3e-324')",
];

async fn outcome(client: &Client, statement: &str) -> Result<(), String> {
    let done = client.batch_execute(statement).await;
    done.map_err(|error| error.code().unwrap().code().to_owned())
}

#[tokio::test]
async fn a_value_of_another_type_is_not_assigned() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    let all = "SELECT id, owner, count, flag, day, raw, doc, note, badge, ratio FROM things ORDER BY id";
    let mut refused = 0;
    for statement in STATEMENTS {
        let expected = outcome(&pair.plain, statement).await;
        assert_eq!(outcome(&pair.encrypted, statement).await, expected, "{statement}");
        refused += usize::from(expected.is_err());
        pair.same(all).await;
    }
    assert!((20..STATEMENTS.len()).contains(&refused), "{refused}");
}

/// `||` puts one JSON into another; joining the letters of the two made one of both that nobody wrote.
#[tokio::test]
async fn json_is_not_joined_as_text_is() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    for statement in [
        "UPDATE things SET doc = doc || '2'",
        "UPDATE things SET doc = coalesce(doc, '{}') || '{\"a\": 1}'",
        "UPDATE things SET note = note || doc",
        "INSERT INTO things (id, owner, doc) VALUES (2, 'Ann', '34') \
         ON CONFLICT (owner) DO UPDATE SET doc = things.doc || excluded.doc",
    ] {
        let (code, said, place) = pair.refused(statement).await;
        assert_eq!(code, "0A000", "{statement}: {said}");
        assert!(place.is_some(), "{statement}");
    }
    assert_eq!(crate::encrypted::rows(&pair.encrypted, "SELECT doc FROM things").await, texts(&[&["1"]]));
}
