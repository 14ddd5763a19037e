//! Tables whose columns change places: what is taken by its place goes where PostgreSQL puts it, or is refused.

use crate::bound::Raw;
use crate::dev::Dev;
use crate::encrypted::{rows, texts};
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;
use bytes::{Bytes, BytesMut};
use futures_util::SinkExt;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use std::pin::pin;
use tokio_postgres::{Client, Error};

const SCHEMA: &str = "[tables.\"public.x\"]\n\
    owner = { id = \"7a1b2c3d4e5f6b21\", type = \"text\", operations = [\"equality\"] }\n";

const BEGIN: &str = "DROP TABLE IF EXISTS x; CREATE TABLE x (id int, owner text, note text)";
const INSERT: &str = "INSERT INTO x VALUES (1, 'hello', 'secret')";
/// Behind each of these the columns are `id`, `note`, `owner`.
const MOVES: [&[&str]; 3] = [
    &["DROP TABLE x", "CREATE TABLE x (id int, note text, owner text)"],
    &["ALTER TABLE x DROP COLUMN owner", "ALTER TABLE x ADD COLUMN owner text"],
    &["ALTER TABLE x DROP COLUMN owner, ADD COLUMN owner text"],
];

struct World {
    server: PrivatePostgres,
    proxy: Dev,
    client: Client,
}

impl World {
    async fn start() -> Self {
        let server = PrivatePostgres::start().unwrap();
        let proxy = Dev::start(&server, "postgres", SCHEMA);
        let client = connect(&proxy.uri("postgres")).await;
        client.batch_execute(BEGIN).await.unwrap();
        Self { server, proxy, client }
    }

    async fn another(&self) -> Client {
        connect(&self.proxy.uri("postgres")).await
    }

    fn raw(&self) -> Raw {
        let uri = self.proxy.uri("postgres");
        Raw::connect(uri.rsplit(['@', '/']).nth(1).unwrap().parse().unwrap())
    }

    /// That the row of `hello` and `secret` is what PostgreSQL would have stored, or not there.
    async fn check(&self, is_stored: bool, what: &str) {
        let direct = connect(&self.server.uri("postgres")).await;
        let plain = "SELECT count(*) FROM x WHERE note = 'secret'";
        assert_eq!(direct.query_one(plain, &[]).await.unwrap().get::<_, i64>(0), 0, "{what}");
        let found = rows(&self.another().await, "SELECT note, owner FROM x").await;
        let expected = if is_stored { texts(&[&["hello", "secret"]]) } else { Vec::new() };
        assert_eq!(found, expected, "{what}");
    }
}

fn code(error: &Error) -> &str {
    error.code().unwrap_or_else(|| panic!("{error:?}")).code()
}

/// That something was refused, as its columns are not named.
fn refused<T>(outcome: Result<T, Error>, what: &str) {
    let error = outcome.err().unwrap_or_else(|| panic!("{what}"));
    let said = error.as_db_error().unwrap();
    assert_eq!(code(&error), "0A000", "{what}: {said:?}");
    assert!(said.hint().is_some_and(|hint| hint.contains("ame the columns")), "{what}: {said:?}");
}

async fn copied(client: &Client, text: &str) -> Result<u64, Error> {
    let mut copy = pin!(client.copy_in::<_, Bytes>(text).await?);
    copy.send(Bytes::from_static(b"1\thello\tsecret\n")).await?;
    copy.finish().await
}

#[tokio::test]
async fn what_a_text_moves_is_where_the_text_puts_it() {
    let world = World::start().await;
    for moved in MOVES {
        let moved = moved.join("; ");
        for insert in [INSERT, "INSERT INTO x SELECT 1, 'hello', 'secret'"] {
            world.client.batch_execute(BEGIN).await.unwrap();
            let text = format!("{moved}; {insert}");
            world.client.batch_execute(&text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
            world.check(true, &text).await;
        }
        world.client.batch_execute(BEGIN).await.unwrap();
        let text = format!("{moved}; COPY x FROM STDIN");
        let mut out = BytesMut::new();
        frontend::query(&text, &mut out).unwrap();
        frontend::CopyData::new(&b"1\thello\tsecret\n"[..]).unwrap().write(&mut out);
        frontend::copy_done(&mut out);
        assert_eq!(codes(&world.raw().ask(&out)), Vec::<String>::new(), "{text}");
        world.check(true, &text).await;
        world.client.batch_execute(BEGIN).await.unwrap();
        let text = format!("{moved}; INSERT INTO x (id, note, owner) VALUES (1, 'n', 'o'); SELECT * FROM x");
        assert_eq!(rows(&world.client, &text).await, texts(&[&["1", "n", "o"]]), "{text}");
    }
    world.client.batch_execute(BEGIN).await.unwrap();
    let text = "INSERT INTO x VALUES (1, 'o', 'n'); ALTER TABLE x DROP COLUMN note; SELECT * FROM x";
    assert_eq!(rows(&world.client, text).await, texts(&[&["1", "o"]]));
}

/// A statement without parameters, by the extended protocol.
fn send(text: &str, ends: bool, out: &mut BytesMut) {
    frontend::parse("", text, [], out).unwrap();
    let bound = frontend::bind("", "", [], std::iter::empty::<()>(), |(), _| Ok(IsNull::Yes), [], out);
    assert!(bound.is_ok());
    frontend::execute("", 0, out).unwrap();
    if ends {
        frontend::sync(out);
    }
}

fn codes(came: &[(u8, Vec<u8>)]) -> Vec<String> {
    let code = |body: &[u8]| {
        let field = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&b'C'));
        String::from_utf8_lossy(&field.unwrap_or_default()[1..]).into_owned()
    };
    came.iter().filter(|(kind, _)| *kind == b'E').map(|(_, body)| code(body)).collect()
}

#[test]
fn what_is_sent_ahead_of_the_answers_is_not_guessed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(World::start());
    for (moved, each) in MOVES.into_iter().flat_map(|moved| [(moved, false), (moved, true)]) {
        let what = format!("{moved:?}, synchronised {each}");
        let mut raw = world.raw();
        assert_eq!(codes(&raw.query(BEGIN)), Vec::<String>::new());
        let mut out = BytesMut::new();
        for text in moved {
            send(text, each, &mut out);
        }
        send(INSERT, true, &mut out);
        let mut found = codes(&raw.ask(&out));
        if each {
            for _ in moved {
                found.extend(codes(&raw.ask(&[])));
            }
        }
        assert_eq!(found, if each { vec![] } else { vec!["0A000".to_owned()] }, "{what}");
        runtime.block_on(world.check(each, &what));
    }
    // Without a change nothing is in doubt.
    let mut raw = world.raw();
    assert_eq!(codes(&raw.query(BEGIN)), Vec::<String>::new());
    let mut out = BytesMut::new();
    send("CREATE TEMP TABLE other (id int)", false, &mut out);
    send("INSERT INTO x VALUES (1, 'secret', 'hello')", false, &mut out);
    send("SELECT * FROM x", true, &mut out);
    assert_eq!(codes(&raw.ask(&out)), Vec::<String>::new());
    runtime.block_on(world.check(true, "no change"));
}

#[tokio::test]
async fn what_a_snapshot_hides_is_not_guessed() {
    let world = World::start().await;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        for moved in MOVES {
            let what = format!("{level}: {moved:?}");
            world.client.batch_execute(BEGIN).await.unwrap();
            let past = world.another().await;
            for text in [INSERT, "SELECT * FROM x"] {
                past.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1")).await.unwrap();
                world.client.batch_execute("CREATE TEMP TABLE y (id int); DROP TABLE y").await.unwrap();
                past.batch_execute("INSERT INTO x VALUES (2, 'a', 'b'); SELECT * FROM x; ROLLBACK")
                    .await
                    .unwrap();
                past.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1")).await.unwrap();
                world.client.batch_execute(&moved.join("; ")).await.unwrap();
                refused(past.batch_execute(text).await, &what);
                past.batch_execute("ROLLBACK").await.unwrap();
                world.check(false, &what).await;
                world.client.batch_execute(BEGIN).await.unwrap();
            }
            past.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1")).await.unwrap();
            world.client.batch_execute(&moved.join("; ")).await.unwrap();
            refused(copied(&past, "COPY x FROM STDIN").await, &what);
            past.batch_execute("ROLLBACK").await.unwrap();
            past.batch_execute(INSERT).await.unwrap();
            world.check(true, &what).await;
        }
    }
}

/// It waits for the lock of who changes the table, and finds it changed.
#[tokio::test]
async fn what_another_session_is_changing_is_not_guessed() {
    let world = World::start().await;
    let other = world.another().await;
    world.client.batch_execute("SET lock_timeout = '5s'; SELECT * FROM x").await.unwrap();
    for end in ["COMMIT", "ROLLBACK"] {
        world.client.batch_execute(BEGIN).await.unwrap();
        other.batch_execute(&format!("BEGIN; {}", MOVES[1].join("; "))).await.unwrap();
        refused(world.client.batch_execute(INSERT).await, end);
        other.batch_execute(end).await.unwrap();
        let insert = if end == "COMMIT" { INSERT } else { "INSERT INTO x VALUES (1, 'secret', 'hello')" };
        world.client.batch_execute(insert).await.unwrap();
        world.check(true, end).await;
    }
    // One that goes in the middle of it is in nobody's way for long.
    other.batch_execute("BEGIN; ALTER TABLE x DROP COLUMN note").await.unwrap();
    drop(other);
    let insert = "INSERT INTO x VALUES (2, 'a', 'b')";
    let mut left = 500;
    while world.client.batch_execute(insert).await.is_err() {
        left -= 1;
        assert!(left > 0, "the session has ended");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // One that leaves the columns as they are is not at all.
    let other = world.another().await;
    let same = "BEGIN; CREATE TABLE of_x (id int, y int); CREATE TABLE IF NOT EXISTS x (id int); COMMENT ON TABLE x IS 'x'";
    other.batch_execute(same).await.unwrap();
    world.client.batch_execute("SELECT * FROM x").await.unwrap();
    let prepared = world.client.prepare("INSERT INTO x VALUES ($1, $2, $3)").await.unwrap();
    other.batch_execute("ROLLBACK").await.unwrap();
    world.client.execute(&prepared, &[&3, &"a", &"b"]).await.unwrap();
}

#[tokio::test]
async fn what_is_prepared_is_planned_again_where_columns_have_moved() {
    let world = World::start().await;
    let other = world.another().await;
    let insert = "INSERT INTO x VALUES ($1, $2, $3)";
    for moved in MOVES {
        for by_itself in [false, true] {
            let what = format!("{moved:?}, {by_itself}");
            let by = if by_itself { &world.client } else { &other };
            world.client.batch_execute(BEGIN).await.unwrap();
            let bound = world.client.prepare(insert).await.unwrap();
            let star = world.client.prepare("SELECT * FROM x").await.unwrap();
            world.client.execute(&bound, &[&7, &"o", &"n"]).await.unwrap();
            world
                .client
                .batch_execute(&format!("PREPARE i AS {insert}; EXECUTE i(8, 'p', 'm')"))
                .await
                .unwrap();
            let found = rows(&world.client, "SELECT note, owner FROM x ORDER BY id").await;
            assert_eq!(found, texts(&[&["n", "o"], &["m", "p"]]), "{what}");
            world.client.batch_execute("DELETE FROM x").await.unwrap();
            by.batch_execute(&moved.join("; ")).await.unwrap();
            world
                .client
                .execute(&bound, &[&1, &"hello", &"secret"])
                .await
                .unwrap_or_else(|error| panic!("{what}: {error:?}"));
            world.check(true, &what).await;
            world.client.execute(&bound, &[&2, &"hello", &"secret"]).await.unwrap();
            world.client.batch_execute("DELETE FROM x; EXECUTE i(1, 'hello', 'secret')").await.unwrap();
            world.check(true, &what).await;
            world.client.batch_execute("DELETE FROM x; EXECUTE i(1, 'hello', 'secret')").await.unwrap();
            world.check(true, &what).await;
            let error = world.client.query(&star, &[]).await.unwrap_err();
            assert_eq!(error.as_db_error().unwrap().message(), "cached plan must not change result type");
            world.client.batch_execute("DEALLOCATE i").await.unwrap();
        }
    }
    // Bound by the protocol what SQL has prepared: PostgreSQL's error for a plan that cannot go on.
    world.client.batch_execute(BEGIN).await.unwrap();
    let mut raw = world.raw();
    assert_eq!(codes(&raw.query(&format!("PREPARE i AS {insert}"))), Vec::<String>::new());
    other.batch_execute(&MOVES[1].join("; ")).await.unwrap();
    let mut out = BytesMut::new();
    let text = |value: &str, out: &mut BytesMut| {
        out.extend_from_slice(value.as_bytes());
        Ok(IsNull::No)
    };
    frontend::bind("", "i", [], ["1", "hello", "secret"], text, [], &mut out).map_err(|_| ()).unwrap();
    frontend::sync(&mut out);
    let mut raw = raw;
    assert_eq!(codes(&raw.ask(&out)), ["0A000"]);
    world.check(false, "by both").await;
}

/// What is added behind the columns that a statement gives is none of its concern.
#[tokio::test]
async fn what_is_prepared_goes_on_where_columns_are_added() {
    let world = World::start().await;
    let insert = world.client.prepare("INSERT INTO x VALUES ($1, $2, $3)").await.unwrap();
    world.client.execute(&insert, &[&1, &"secret", &"hello"]).await.unwrap();
    world.client.batch_execute("ALTER TABLE x ADD COLUMN more int").await.unwrap();
    world.client.batch_execute("DELETE FROM x").await.unwrap();
    world.client.execute(&insert, &[&1, &"secret", &"hello"]).await.unwrap();
    world.check(true, "added").await;
    // Of a table that had no encrypted column yet.
    world.client.batch_execute("DROP TABLE x; CREATE TABLE x (id int, note text, much bytea)").await.unwrap();
    let insert = world.client.prepare("INSERT INTO x VALUES ($1, $2, $3)").await.unwrap();
    world
        .client
        .batch_execute("ALTER TABLE x DROP COLUMN much; ALTER TABLE x ADD COLUMN owner text")
        .await
        .unwrap();
    let outcome = world.client.execute(&insert, &[&1, &"hello", &&b"secret"[..]]).await;
    let direct = connect(&world.server.uri("postgres")).await;
    let plain = "SELECT count(*) FROM x WHERE position('secret'::bytea IN owner) > 0";
    assert_eq!(direct.query_one(plain, &[]).await.unwrap().get::<_, i64>(0), 0, "{outcome:?}");
}

const OTHERS: &str = "[tables.\"public.accounts\"]\n\
    owner = { id = \"7a1b2c3d4e5f6b22\", type = \"text\", operations = [\"equality\"] }\n\
    [tables.\"public.made\"]\nowner = { id = \"7a1b2c3d4e5f6b23\", type = \"text\", operations = [\"equality\"] }\n";

/// Texts of which each is answered as on plain PostgreSQL.
#[tokio::test]
async fn what_one_text_changes_and_takes_back_is_not_said_to_be_missing() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("CREATE DATABASE plain").await.unwrap();
    let proxy = Dev::start(&server, "postgres", OTHERS);
    let begin = "ROLLBACK; DROP TABLE IF EXISTS accounts, made, notes; CREATE TABLE accounts (id int, owner text, n int); \
                 CREATE TABLE notes (id int, body text); INSERT INTO accounts VALUES (1, 'ann', 5)";
    let again = "BEGIN; DROP TABLE accounts; CREATE TABLE accounts (id int, owner text, extra int)";
    let with = "WITH q AS (SELECT 1 AS y) SELECT y INTO TEMP notes FROM q";
    let mut texts = vec![
        "BEGIN; ALTER TABLE accounts RENAME COLUMN n TO m; ROLLBACK; SELECT n FROM accounts WHERE owner = 'ann'".to_owned(),
        "BEGIN; ALTER TABLE accounts RENAME COLUMN n TO m; ROLLBACK; UPDATE accounts SET n = 9 WHERE owner = 'ann'".to_owned(),
        "ALTER TABLE accounts RENAME COLUMN n TO m; ROLLBACK; SELECT n FROM accounts WHERE owner = 'ann'".to_owned(),
        "BEGIN; SAVEPOINT s; ALTER TABLE accounts RENAME COLUMN n TO m; ROLLBACK TO s; SELECT n FROM accounts WHERE owner = 'ann'".to_owned(),
        "BEGIN; SAVEPOINT s; ALTER TABLE accounts RENAME n TO m; ROLLBACK TO SAVEPOINT s; UPDATE accounts SET n = 9 WHERE owner = 'ann'".to_owned(),
        "BEGIN; ALTER TABLE accounts ADD COLUMN extra int; ROLLBACK; SELECT * FROM accounts".to_owned(),
        "BEGIN; ALTER TABLE accounts DROP COLUMN owner; ROLLBACK; INSERT INTO accounts VALUES (2, 'bob', 3); SELECT * FROM accounts".to_owned(),
        "BEGIN; ALTER TABLE accounts ADD COLUMN extra int; COMMIT; ROLLBACK; SELECT * FROM accounts WHERE owner = 'ann'".to_owned(),
        "CREATE TABLE made (owner text, LIKE notes); SELECT id FROM made WHERE owner = 'x'".to_owned(),
        format!("{with}; UPDATE accounts SET n = 6 FROM notes WHERE y = 1 AND owner = 'zz'"),
        "DO $$ BEGIN ALTER TABLE notes ADD COLUMN yy int; END $$; UPDATE accounts SET n = 7 FROM notes WHERE yy = 1 AND owner = 'zz'".to_owned(),
    ];
    for altered in [
        "",
        "; ALTER TABLE accounts ADD COLUMN zz int",
        "; ALTER TABLE accounts ALTER owner SET NOT NULL",
        "; ALTER TABLE accounts ADD CONSTRAINT c CHECK (extra > 0)",
    ] {
        for last in [
            "SELECT extra FROM accounts WHERE owner = 'x'",
            "UPDATE accounts SET extra = 1 WHERE owner = 'x'",
            "INSERT INTO accounts (id, owner, extra) VALUES (1, 'x', 2)",
            "SELECT * FROM accounts",
        ] {
            texts.push(format!("{again}{altered}; {last}"));
        }
    }
    for text in texts {
        let mut found = Vec::new();
        for uri in [server.uri("plain"), proxy.uri("postgres")] {
            let client = connect(&uri).await;
            client.batch_execute(begin).await.unwrap();
            let outcome = client.simple_query(&text).await;
            found.push(
                outcome.map(|messages| format!("{messages:?}")).map_err(|error| code(&error).to_owned()),
            );
        }
        let without_types = |found: &Result<String, String>| found.clone().map(|text| text.len());
        assert_eq!(without_types(&found[0]), without_types(&found[1]), "{text}: {found:?}");
        assert!(found[0].is_ok(), "{text}: {found:?}");
    }
}
