//! Moments as defaults of encrypted columns: kept sealed by the database, computed by the proxy for each statement.

use crate::copied::sent;
use crate::extended::connect;
use crate::moments::texts;
use crate::spelled::{answered, both};
use tokio_postgres::Client;

const SCHEMA: &str = r#"
[tables."public.notes"]
day = { id = "6b1b2c3d4e5f7c01", type = "date", operations = ["equality", "order"] }
at = { id = "6b1b2c3d4e5f7c02", type = "timestamptz", operations = ["equality", "order"], order = "stope" }
ended = { id = "6b1b2c3d4e5f7c03", type = "timestamptz", operations = ["order"], order = "fh_ope" }
bare = { id = "6b1b2c3d4e5f7c04", type = "timestamp" }
later = { id = "6b1b2c3d4e5f7c05", type = "timestamptz", operations = ["equality", "order"] }
"#;

const CREATE: &str = "CREATE TABLE notes (id serial PRIMARY KEY, day date DEFAULT current_date, at timestamptz NOT NULL DEFAULT now(), \
    ended timestamptz DEFAULT (now() + interval '1 day'), bare timestamp DEFAULT statement_timestamp(), text text)";

/// Rows whose columns hold what the defaults of [`CREATE`] say in the transaction.
const FRESH: &str = "SELECT id FROM notes WHERE day = current_date AND at = now() AND ended BETWEEN now() + interval '1 day' \
    AND now() + interval '24 hours' AND bare IS NOT NULL ORDER BY id";

/// Statements each of which inserts in a transaction, and what [`FRESH`] finds there.
const INSERTS: &[&str] = &[
    "INSERT INTO notes DEFAULT VALUES",
    "INSERT INTO notes (text) VALUES ('a'), ('b') RETURNING id, text",
    "INSERT INTO notes (day, at, text) VALUES (DEFAULT, DEFAULT, 'c'), (DEFAULT, now() - interval '1 hour', 'd')",
    "INSERT INTO notes VALUES (DEFAULT)",
    "INSERT INTO notes (text) SELECT text FROM notes WHERE text IN ('a', 'b') ORDER BY id",
    "INSERT INTO notes (id, text) VALUES (1, 'e') ON CONFLICT (id) DO UPDATE SET text = EXCLUDED.text, at = DEFAULT",
    "UPDATE notes SET day = DEFAULT, at = DEFAULT, bare = DEFAULT WHERE text = 'd'",
];

async fn in_a_transaction(client: &Client, statement: &str) -> [Result<Vec<String>, String>; 2] {
    client.batch_execute("BEGIN").await.unwrap();
    let answers = [answered(client, statement).await, answered(client, FRESH).await];
    client.batch_execute("COMMIT; SELECT pg_sleep(0.002)").await.unwrap();
    answers
}

#[tokio::test]
async fn a_default_that_is_a_moment_is_that_of_each_statement() {
    let (server, _proxy, clients) = both(SCHEMA, CREATE).await;
    for client in &clients {
        client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
    }
    for statement in INSERTS {
        let [plain, encrypted] =
            [in_a_transaction(&clients[0], statement).await, in_a_transaction(&clients[1], statement).await];
        assert_eq!(plain, encrypted, "{statement}");
    }
    let moments = "SELECT count(DISTINCT at), count(DISTINCT day), count(*), count(bare) FROM notes";
    let [plain, encrypted] = [answered(&clients[0], moments).await, answered(&clients[1], moments).await];
    assert_eq!(plain, encrypted);
    // Sealed, and of no row: what `\d` shows says neither what it is nor when.
    let direct = connect(&server.uri("postgres")).await;
    let kept = texts(
        &direct,
        "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'notes'::regclass",
    )
    .await;
    assert_eq!(kept.iter().filter(|kept| kept.starts_with("decode('")).count(), 4, "{kept:?}");
    assert!(!kept.iter().any(|kept| kept.contains("now") || kept.contains("current")), "{kept:?}");
    let lengths: std::collections::BTreeSet<usize> =
        kept.iter().filter(|kept| kept.starts_with("decode(")).map(String::len).collect();
    assert_eq!(lengths.len(), 1, "a day, a moment and one that is moved are alike: {kept:?}");
}

#[tokio::test]
async fn rows_of_copy_and_prepared_statements_have_the_default_of_their_time() {
    let (_server, _proxy, [plain, encrypted]) = both(SCHEMA, CREATE).await;
    for client in [&plain, &encrypted] {
        client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
        let insert = client.prepare("INSERT INTO notes (text) VALUES ($1)").await.unwrap();
        for text in ["a", "b"] {
            client.execute(&insert, &[&text]).await.unwrap();
            client.batch_execute("SELECT pg_sleep(0.002)").await.unwrap();
        }
        client.batch_execute("BEGIN").await.unwrap();
        sent(client, "COPY notes (text) FROM STDIN", b"c\nd\n", 3).await.unwrap();
        assert_eq!(answered(client, FRESH).await.unwrap(), ["id", "3", "4", "2 rows"]);
        client.batch_execute("COMMIT").await.unwrap();
        let moments = texts(client, "SELECT count(DISTINCT at) FROM notes").await;
        assert_eq!(moments, ["3"]);
        // Another default: what was prepared is refused, or has the new one.
        client
            .batch_execute("ALTER TABLE notes ALTER COLUMN at SET DEFAULT now() - interval '1 year'")
            .await
            .unwrap();
        client.batch_execute("INSERT INTO notes (text) VALUES ('e')").await.unwrap();
        let found = texts(client, "SELECT text FROM notes WHERE at < now() - interval '364 days'").await;
        assert_eq!(found, ["e"]);
        client.batch_execute("ALTER TABLE notes ALTER COLUMN at DROP DEFAULT").await.unwrap();
        assert_eq!(answered(client, "INSERT INTO notes (text) VALUES ('f')").await, Err("23502".into()));
    }
}

#[tokio::test]
async fn a_column_that_is_added_with_a_moment_gives_old_rows_that_of_the_statement_and_new_ones_theirs() {
    let (server, _proxy, [plain, encrypted]) = both(SCHEMA, CREATE).await;
    for client in [&plain, &encrypted] {
        client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
        client.batch_execute("INSERT INTO notes (text) VALUES ('a'), ('b')").await.unwrap();
        client
            .batch_execute("BEGIN; ALTER TABLE notes ADD COLUMN later timestamptz NOT NULL DEFAULT now()")
            .await
            .unwrap();
        assert_eq!(texts(client, "SELECT text FROM notes WHERE later = now() ORDER BY id").await, ["a", "b"]);
        client.batch_execute("COMMIT; SELECT pg_sleep(0.002)").await.unwrap();
        client.batch_execute("INSERT INTO notes (text) VALUES ('c')").await.unwrap();
        client.batch_execute("ALTER TABLE notes ADD COLUMN IF NOT EXISTS later timestamptz DEFAULT now() - interval '1 year'").await.unwrap();
        client.batch_execute("INSERT INTO notes (text) VALUES ('d')").await.unwrap();
        let found = "SELECT text FROM notes WHERE later > (SELECT min(later) FROM notes) ORDER BY id";
        assert_eq!(texts(client, found).await, ["c", "d"]);
        assert_eq!(
            texts(client, "SELECT text FROM notes WHERE later < now() - interval '1 hour'").await,
            [""; 0]
        );
    }
    // Whoever inserts past the proxy gives the value, or is told.
    let direct = connect(&server.uri("postgres")).await;
    assert_eq!(answered(&direct, "INSERT INTO notes (text) VALUES ('e')").await, Err("22023".into()));
    let (schema, create) = (
        "ALTER TABLE notes ALTER COLUMN text SET DEFAULT 5",
        "ALTER TABLE notes ALTER COLUMN bare SET DEFAULT clock_timestamp()",
    );
    assert_eq!(answered(&encrypted, schema).await.map(drop), Ok(()));
    assert_eq!(answered(&encrypted, create).await, Err("0A000".into()));
}

#[tokio::test]
async fn what_one_statement_says_of_a_column_it_adds_with_a_moment_is_all_or_refused() {
    let (_server, _proxy, [plain, encrypted]) = both(SCHEMA, CREATE).await;
    let add = "ALTER TABLE notes ADD COLUMN later timestamptz DEFAULT now()";
    for client in [&plain, &encrypted] {
        client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
        client.batch_execute(add).await.unwrap();
    }
    for refused in [
        "ALTER TABLE notes DROP COLUMN later, ADD COLUMN later timestamptz DEFAULT now()",
        "ALTER TABLE notes ADD COLUMN IF NOT EXISTS later timestamptz DEFAULT now(), ALTER COLUMN later SET DEFAULT now() - interval '5 years'",
    ] {
        assert_eq!(answered(&encrypted, refused).await, Err("0A000".into()), "{refused}");
    }
    for client in [&plain, &encrypted] {
        client.batch_execute("ALTER TABLE notes DROP COLUMN later").await.unwrap();
        client
            .batch_execute(&format!(
                "{add}; ALTER TABLE notes ALTER later SET DEFAULT now() - interval '5 years'"
            ))
            .await
            .unwrap();
        client.batch_execute("INSERT INTO notes (text) VALUES ('a')").await.unwrap();
        assert_eq!(
            texts(client, "SELECT text FROM notes WHERE later < now() - interval '4 years'").await,
            ["a"]
        );
    }
}

#[tokio::test]
async fn what_is_prepared_stores_the_default_of_when_it_is_executed() {
    let (server, proxy, [plain, encrypted]) = both(SCHEMA, CREATE).await;
    let others = [connect(&server.uri("plain")).await, connect(&proxy.uri("postgres")).await];
    let set = |years: i32| format!("ALTER TABLE notes ALTER at SET DEFAULT now() - interval '{years} years'");
    let mut found = Vec::new();
    for (client, other) in [&plain, &encrypted].into_iter().zip(&others) {
        for client in [client, other] {
            client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
        }
        client.batch_execute("PREPARE k AS INSERT INTO notes (text) VALUES ($1)").await.unwrap();
        let insert = client.prepare("INSERT INTO notes (text) VALUES ($1)").await.unwrap();
        client.batch_execute(&format!("{}; EXECUTE k('a')", set(2))).await.unwrap();
        client.execute(&insert, &[&"b"]).await.unwrap();
        other.batch_execute(&set(4)).await.unwrap();
        client.execute(&insert, &[&"c"]).await.unwrap();
        client.batch_execute("EXECUTE k('d')").await.unwrap();
        let undone =
            format!("BEGIN; {}; PREPARE l AS INSERT INTO notes (text) VALUES ('e'); ROLLBACK", set(6));
        client.batch_execute(&undone).await.unwrap();
        client.batch_execute("EXECUTE l").await.unwrap();
        client.batch_execute(&set(8)).await.unwrap();
        client.batch_execute("EXECUTE l; EXECUTE k('f')").await.unwrap();
        client.execute(&insert, &[&"g"]).await.unwrap();
        let mut older = Vec::new();
        for years in [1, 3, 5, 7] {
            let statement =
                format!("SELECT text FROM notes WHERE at < now() - interval '{years} years' ORDER BY id");
            older.push(texts(client, &statement).await.concat());
        }
        found.push(older);
    }
    assert_eq!(found[0], ["abcdeefg", "cdeefg", "efg", "efg"]);
    assert_eq!(found[1], found[0]);
}
