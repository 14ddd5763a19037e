//! Parts of declared tables that are made or attached past the proxy while a session knows the tables: whatever names one is refused, and the
//! server gets nothing in plaintext. What names none is answered as without the proxy.

use crate::bound::{Raw, failed};
use crate::dev::Dev;
use crate::extended::connect;
use crate::spelled::{answered, both};
use arras_lab::private_postgres::PrivatePostgres;
use bytes::BytesMut;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use tokio_postgres::Client;

const SCHEMA: &str = r#"
[tables."public.notes"]
memo = { id = "7a1b2c3d4e5f7e04", type = "text" }
"#;

const PARTED: &str = "CREATE TABLE notes (id int, memo text) PARTITION BY LIST (id)";

const PLAIN: &str = "CREATE SCHEMA other; CREATE TABLE plain (id int, a int, memo text); CREATE TABLE late (id int, memo bytea); \
    CREATE TABLE other.named (id int, memo text)";

/// The server's log behind a place.
struct Log<'s>(&'s PrivatePostgres, usize);

impl<'s> Log<'s> {
    fn here(server: &'s PrivatePostgres) -> Self {
        Self(server, std::fs::read(server.log()).unwrap().len())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.0.log()).unwrap()[self.1..]).into_owned()
    }
}

async fn parted() -> (PrivatePostgres, Dev, [Client; 2], Client) {
    let (server, proxy, clients) = both(SCHEMA, PARTED).await;
    let direct = connect(&server.uri("postgres")).await;
    for client in [&clients[0], &direct] {
        client.batch_execute(PLAIN).await.unwrap();
    }
    let clients = [connect(&server.uri("plain")).await, connect(&proxy.uri("postgres")).await];
    for client in &clients {
        client.batch_execute("SELECT id FROM notes; SELECT 1 FROM plain, late, other.named").await.unwrap();
    }
    (server, proxy, clients, direct)
}

fn raw(proxy: &Dev) -> Raw {
    let uri = proxy.uri("postgres");
    let mut raw = Raw::connect(uri.rsplit(['@', '/']).nth(1).unwrap().parse().unwrap());
    assert_eq!(failed(&raw.query("SELECT id FROM notes")), None);
    raw
}

/// A statement of the extended protocol.
fn send(text: &str, values: &[&str], out: &mut BytesMut) {
    frontend::parse("", text, [], out).unwrap();
    bind("", values, out);
}

fn bind(name: &str, values: &[&str], out: &mut BytesMut) {
    let put = |value: &&str, out: &mut BytesMut| {
        out.extend_from_slice(value.as_bytes());
        Ok(IsNull::No)
    };
    assert!(frontend::bind("", name, [], values, put, [], out).is_ok());
    frontend::execute("", 0, out).unwrap();
}

/// Parts of `notes`, and statements that name them.
const NAMED: &[(&str, &str)] = &[
    (
        "CREATE TABLE named PARTITION OF notes FOR VALUES IN (1)",
        "INSERT INTO named (id, memo) VALUES (1, 'secret')",
    ),
    (
        "CREATE TABLE other.plain PARTITION OF notes FOR VALUES IN (2)",
        "INSERT INTO other.plain (id, memo) VALUES (2, 'secret')",
    ),
    (
        "ALTER TABLE notes ATTACH PARTITION late FOR VALUES IN (3)",
        "INSERT INTO late (id, memo) VALUES (3, 'secret')",
    ),
    ("CREATE TABLE pg_part PARTITION OF notes FOR VALUES IN (4)", "UPDATE pg_part SET memo = 'secret'"),
    (
        "CREATE TABLE odd PARTITION OF notes FOR VALUES IN (5)",
        "INSERT INTO postgres.public.odd (id, memo) VALUES (5, 'secret')",
    ),
    (
        "CREATE TABLE of_index PARTITION OF notes FOR VALUES IN (7)",
        "CREATE INDEX ON of_index (id) WHERE memo = 'secret'",
    ),
    (
        "CREATE TABLE of_rule PARTITION OF notes FOR VALUES IN (8)",
        "CREATE RULE r AS ON INSERT TO of_rule DO UPDATE plain SET memo = 'secret'",
    ),
    (
        "CREATE TABLE of_check PARTITION OF notes FOR VALUES IN (9)",
        "ALTER TABLE IF EXISTS of_check ADD CHECK (memo <> 'secret')",
    ),
    (
        "CREATE TABLE of_copy PARTITION OF notes FOR VALUES IN (10)",
        "COPY (SELECT 1 FROM of_copy WHERE memo = 'secret') TO STDOUT",
    ),
    (
        "CREATE TABLE of_with PARTITION OF notes FOR VALUES IN (11)",
        "WITH of_with AS (SELECT 1) INSERT INTO of_with (id, memo) SELECT 11, 'secret'",
    ),
    (
        "CREATE TABLE more PARTITION OF notes FOR VALUES IN (12) PARTITION BY LIST (id); CREATE TABLE other.below PARTITION OF more FOR VALUES IN (12)",
        "BEGIN; SET LOCAL search_path = other; INSERT INTO below (id, memo) VALUES (12, 'secret'); COMMIT",
    ),
    (
        "CREATE TABLE listed PARTITION OF notes FOR VALUES IN (40)",
        "WITH w AS (SELECT 1) SELECT p.id FROM w, listed AS p WHERE p.memo = 'secret'",
    ),
    (
        "CREATE TABLE itself PARTITION OF notes FOR VALUES IN (41)",
        "WITH itself AS (SELECT * FROM itself WHERE memo = 'secret') SELECT * FROM itself",
    ),
    (
        "CREATE TABLE taken PARTITION OF notes FOR VALUES IN (42)",
        "SELECT id INTO TEMP t FROM taken WHERE memo = 'secret'",
    ),
    (
        "CREATE TABLE ordered PARTITION OF notes FOR VALUES IN (43)",
        "SELECT mode() WITHIN GROUP (ORDER BY id) FROM ordered WHERE memo = 'secret'",
    ),
    (
        "CREATE TABLE labelled PARTITION OF notes FOR VALUES IN (44)",
        "SELECT p.id AS order FROM labelled p WHERE p.memo = 'secret'",
    ),
    (
        "CREATE TABLE behind PARTITION OF notes FOR VALUES IN (45)",
        "SELECT 1 FROM plain JOIN plain y ON y.id = plain.a, behind WHERE behind.memo = 'secret'",
    ),
    (
        "CREATE TABLE crossed PARTITION OF notes FOR VALUES IN (46)",
        "WITH w AS (SELECT 1) DELETE FROM plain USING (crossed CROSS JOIN w) WHERE crossed.memo = 'secret'",
    ),
    (
        "CREATE TABLE old PARTITION OF notes FOR VALUES IN (47)",
        "COPY BINARY old (id, memo) TO STDOUT WHERE memo = 'secret'",
    ),
];

/// Parts whose names are words of statements.
const ODDLY_NAMED: &[(&str, &str)] = &[
    (
        "CREATE TABLE skip PARTITION OF notes FOR VALUES IN (48)",
        "INSERT INTO skip (id, memo) VALUES (48, 'secret')",
    ),
    (
        "CREATE TABLE values PARTITION OF notes FOR VALUES IN (49)",
        "INSERT INTO values (id, memo) VALUES (49, 'secret')",
    ),
    ("CREATE TABLE copy PARTITION OF notes FOR VALUES IN (50)", "INSERT INTO copy VALUES (50, 'secret')"),
    (
        "CREATE TABLE update PARTITION OF notes FOR VALUES IN (51)",
        "INSERT INTO public.update VALUES (51, 'secret')",
    ),
    ("CREATE TABLE stdin PARTITION OF notes FOR VALUES IN (52)", "UPDATE stdin SET memo = 'secret'"),
    ("CREATE TABLE of PARTITION OF notes FOR VALUES IN (53)", "DELETE FROM of WHERE memo = 'secret'"),
];

#[tokio::test]
async fn a_part_whose_name_is_a_word_is_named_by_no_statement() {
    for (made, statement) in ODDLY_NAMED {
        let (server, _proxy, [_, client], direct) = parted().await;
        direct.batch_execute(made).await.unwrap();
        let log = Log::here(&server);
        assert_eq!(answered(&client, statement).await, Err("42P16".into()), "{statement}");
        assert!(!log.text().contains("secret"), "{statement}");
    }
}

#[tokio::test]
async fn a_part_that_was_made_past_the_proxy_is_named_by_no_statement() {
    let (server, proxy, [_, client], direct) = parted().await;
    let long = format!(
        "INSERT INTO/* so */\"Or\"\"der\" (id, memo) VALUES {}(6, 'secret')",
        "(6, 'x'), ".repeat(900)
    );
    let mut wrong = Vec::new();
    let quoted = ("CREATE TABLE \"Or\"\"der\" PARTITION OF notes FOR VALUES IN (6)", long.as_str());
    for (made, statement) in NAMED.iter().copied().chain([quoted]) {
        direct.batch_execute(made).await.unwrap();
        let log = Log::here(&server);
        let told = answered(&client, statement).await;
        let _ = client.simple_query("ROLLBACK").await;
        if told != Err("42P16".into()) || log.text().contains("secret") {
            wrong.push(format!("{made}: {told:?}, and in the log {}", log.text().contains("secret")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // In the pipeline of another, and in one that is complete.
    for (id, before) in [(20, Some("SELECT 1")), (21, None)] {
        let mut raw = raw(&proxy);
        direct
            .batch_execute(&format!("CREATE TABLE p{id} PARTITION OF notes FOR VALUES IN ({id})"))
            .await
            .unwrap();
        let log = Log::here(&server);
        let mut out = BytesMut::new();
        before.into_iter().for_each(|text| send(text, &[], &mut out));
        send(&format!("INSERT INTO p{id} (id, memo) VALUES ({id}, $1)"), &["secret"], &mut out);
        frontend::sync(&mut out);
        assert!(failed(&raw.ask(&out)).unwrap().contains("42P16"));
        assert!(!log.text().contains("secret") && failed(&raw.query("SELECT 1")).is_none());
    }
    // Its whole is named, and the server has none of it.
    let log = Log::here(&server);
    client.batch_execute("INSERT INTO notes VALUES (1, 'secret')").await.unwrap();
    assert_eq!(answered(&client, "SELECT memo FROM notes").await.unwrap()[1], "secret");
    assert!(!log.text().contains("secret"));
}

#[tokio::test]
async fn what_was_prepared_before_its_table_became_a_part_gets_nothing() {
    let (server, proxy, [_, client], direct) = parted().await;
    let mut raw = raw(&proxy);
    let mut out = BytesMut::new();
    frontend::parse("by_protocol", "INSERT INTO late (id, memo) VALUES (3, $1)", [], &mut out).unwrap();
    frontend::parse("named_alike", "INSERT INTO plain (id, memo) VALUES (3, $1)", [], &mut out).unwrap();
    frontend::sync(&mut out);
    assert_eq!(failed(&raw.ask(&out)), None);
    assert_eq!(failed(&raw.run(&[], "by_protocol", &["told"])), None);
    client.batch_execute("PREPARE by_sql AS INSERT INTO late (id, memo) VALUES (3, $1)").await.unwrap();
    assert_eq!(failed(&raw.query("PREPARE by_sql AS INSERT INTO late (id, memo) VALUES (3, $1)")), None);
    // It fails, and closes nothing.
    assert_eq!(failed(&raw.query("BEGIN")), None);
    assert!(failed(&raw.query("DISCARD ALL")).unwrap().contains("25001"));
    assert_eq!(failed(&raw.query("ROLLBACK")), None);
    direct.batch_execute("ALTER TABLE notes ATTACH PARTITION late FOR VALUES IN (3)").await.unwrap();
    let log = Log::here(&server);
    for name in ["by_protocol", "by_sql"] {
        assert!(failed(&raw.run(&[], name, &["secret"])).unwrap().contains("42P16"), "{name}");
    }
    let mut out = BytesMut::new();
    send("SELECT 1", &[], &mut out);
    bind("by_protocol", &["secret"], &mut out);
    frontend::sync(&mut out);
    assert!(failed(&raw.ask(&out)).unwrap().contains("42P16"));
    assert_eq!(answered(&client, "EXECUTE by_sql ('secret')").await, Err("42P16".into()));
    assert!(failed(&raw.query("EXPLAIN EXECUTE by_protocol ('secret')")).unwrap().contains("42P16"));
    assert!(!log.text().contains("secret"), "{}", log.text());
    assert_eq!(failed(&raw.run(&[], "named_alike", &["told"])), None);
}

/// Messages are kept for what they execute, and until the database has closed what they name.
#[tokio::test]
async fn what_is_prepared_means_what_it_meant_until_the_database_has_closed_it() {
    let (server, proxy, _clients, direct) = parted().await;
    let (mut executing, mut committing) = (raw(&proxy), raw(&proxy));
    const INSERT: &str = "INSERT INTO late (id, memo) VALUES (3, $1)";
    // Executed by a statement of the protocol.
    assert_eq!(failed(&executing.query(&format!("PREPARE p AS {INSERT}"))), None);
    let mut out = BytesMut::new();
    frontend::parse("executes", "EXECUTE p ('secret')", [], &mut out).unwrap();
    frontend::sync(&mut out);
    assert_eq!(failed(&executing.ask(&out)), None);
    // A DEALLOCATE that the proxy refuses.
    assert_eq!(failed(&executing.query("PREPARE q AS SELECT memo FROM notes")), None);
    assert_eq!(failed(&executing.query("SET standard_conforming_strings = off")), None);
    assert!(failed(&executing.query("DEALLOCATE ALL")).unwrap().contains("0A000"));
    assert_eq!(failed(&executing.query("SET standard_conforming_strings = on")), None);
    // Used before in the same pipeline, in a transaction that has ended.
    let mut out = BytesMut::new();
    frontend::parse("s", INSERT, [], &mut out).unwrap();
    send("BEGIN", &[], &mut out);
    bind("s", &["told"], &mut out);
    send("COMMIT", &[], &mut out);
    frontend::flush(&mut out);
    let came = committing
        .until(&out, |(kind, body)| *kind == b'E' || (*kind == b'C' && body.starts_with(b"COMMIT")));
    assert_eq!(failed(&came), None);
    // Closed where that is not done.
    let mut out = BytesMut::new();
    frontend::parse("closed", INSERT, [], &mut out).unwrap();
    frontend::sync(&mut out);
    let mut closing = raw(&proxy);
    assert_eq!(failed(&closing.ask(&out)), None);
    let mut out = BytesMut::new();
    send("SELECT 1 / 0", &[], &mut out);
    frontend::close(b'S', "closed", &mut out).unwrap();
    frontend::sync(&mut out);
    assert!(failed(&closing.ask(&out)).unwrap().contains("22012"));
    assert_eq!(failed(&closing.query("SELECT 1 FROM plain")), None);

    direct.batch_execute("ALTER TABLE notes ATTACH PARTITION late FOR VALUES IN (3)").await.unwrap();
    let log = Log::here(&server);
    let mut out = BytesMut::new();
    bind("s", &["secret"], &mut out);
    frontend::sync(&mut out);
    assert!(failed(&committing.ask(&out)).unwrap().contains("42P16"));
    assert!(failed(&executing.run(&[], "executes", &[])).unwrap().contains("42P16"));
    assert!(failed(&executing.query("EXECUTE p ('secret')")).unwrap().contains("42P16"));
    assert!(failed(&closing.run(&[], "closed", &["secret"])).unwrap().contains("42P16"));
    assert!(!log.text().contains("secret"), "{}", log.text());
}

/// Many more names than are kept, of statements that are closed within pipelines.
#[tokio::test]
async fn what_is_closed_within_pipelines_is_not_kept() {
    let (_server, proxy, _clients, _direct) = parted().await;
    let mut raw = raw(&proxy);
    for round in 0..10 {
        let mut out = BytesMut::new();
        for number in 0..10 {
            let labels = (0..800).map(|label| format!("1 AS l{round}_{number}_{label}"));
            let text = format!("SELECT {} FROM plain", labels.collect::<Vec<_>>().join(", "));
            frontend::parse("s", &text, [], &mut out).unwrap();
            frontend::close(b'S', "s", &mut out).unwrap();
        }
        frontend::sync(&mut out);
        assert_eq!(failed(&raw.ask(&out)), None, "{round}");
    }
}

/// A client that does not wait for the end of a transaction that has failed.
#[tokio::test]
async fn what_follows_the_end_of_a_failed_transaction_is_asked_about() {
    let (_server, proxy, _clients, _direct) = parted().await;
    let mut raw = raw(&proxy);
    assert_eq!(failed(&raw.query("BEGIN")), None);
    assert!(failed(&raw.query("SELECT 1 / 0")).unwrap().contains("22012"));
    let mut out = BytesMut::new();
    send("ROLLBACK", &[], &mut out);
    frontend::sync(&mut out);
    send("INSERT INTO plain (id) VALUES (1)", &[], &mut out);
    frontend::flush(&mut out);
    let came =
        raw.until(&out, |(kind, body)| *kind == b'E' || (*kind == b'C' && body.starts_with(b"INSERT")));
    assert_eq!(failed(&came), None);
    out.clear();
    frontend::sync(&mut out);
    assert_eq!(failed(&raw.ask(&out)), None);
}

/// A table that is not declared and of which a declared one is a part.
#[tokio::test]
async fn the_whole_of_a_declared_table_is_named_by_no_statement_if_it_is_not_declared() {
    let (server, proxy, _clients, direct) = parted().await;
    let whole = "CREATE TABLE top (id int, memo bytea) PARTITION BY RANGE (id); \
                 CREATE TABLE more PARTITION OF notes FOR VALUES IN (1); \
                 ALTER TABLE top ATTACH PARTITION notes FOR VALUES FROM (0) TO (1000)";
    direct.batch_execute(whole).await.unwrap();
    let fresh = connect(&proxy.uri("postgres")).await;
    let log = Log::here(&server);
    for statement in ["INSERT INTO top VALUES (1, 'secret')", "UPDATE top SET memo = 'secret'"] {
        assert_eq!(answered(&fresh, statement).await, Err("42P16".into()), "{statement}");
    }
    assert!(!log.text().contains("secret"), "{}", log.text());
    fresh.batch_execute("INSERT INTO notes (id, memo) VALUES (1, 'x')").await.unwrap();
    assert_eq!(answered(&fresh, "SELECT memo FROM notes").await.unwrap()[1], "x");
}

#[tokio::test]
async fn in_a_transaction_that_has_failed_nothing_is_named_and_in_one_that_sees_the_past_no_part() {
    let (server, _proxy, [plain, client], direct) = parted().await;
    let log = Log::here(&server);
    assert_eq!(answered(&client, "BEGIN; SELECT 1/0").await, Err("22012".into()));
    direct.batch_execute("CREATE TABLE now PARTITION OF notes FOR VALUES IN (1)").await.unwrap();
    let insert = "INSERT INTO now (id, memo) VALUES (1, 'secret')";
    assert_eq!(answered(&client, insert).await, Err("25P02".into()));
    assert_eq!(answered(&client, "SELECT id FROM plain").await, Err("25P02".into()));
    assert_eq!(client.prepare(insert).await.unwrap_err().code().unwrap().code(), "25P02");
    assert!(!log.text().contains("secret"), "{}", log.text());
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(answered(&client, insert).await, Err("42P16".into()));
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_catalog.pg_class";
    client.batch_execute(begin).await.unwrap();
    direct.batch_execute("CREATE TABLE later PARTITION OF notes FOR VALUES IN (2)").await.unwrap();
    assert_eq!(
        answered(&client, "INSERT INTO later (id, memo) VALUES (2, 'secret')").await,
        Err("42P16".into())
    );
    assert!(!log.text().contains("secret"), "{}", log.text());
    client.batch_execute("ROLLBACK").await.unwrap();
    for client in [plain, client] {
        assert_eq!(answered(&client, "BEGIN; SELECT 1/0").await, Err("22012".into()));
        assert_eq!(
            answered(&client, "ROLLBACK; SELECT count(*) AS n FROM plain").await.unwrap(),
            ["0 rows", "n", "0", "1 rows"]
        );
    }
}

/// What `standard_conforming_strings` means to a text makes the proxy read none: their parts cannot be asked about one by one.
#[tokio::test]
async fn what_cannot_be_read_is_refused_where_a_transaction_sees_no_part_that_was_made_since() {
    let (server, _proxy, [_, client], direct) = parted().await;
    let log = Log::here(&server);
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_catalog.pg_class";
    let unread = "SET standard_conforming_strings = off; SET escape_string_warning = off";
    client.batch_execute(begin).await.unwrap();
    client.batch_execute(unread).await.unwrap();
    direct.batch_execute("CREATE TABLE later PARTITION OF notes FOR VALUES IN (2)").await.unwrap();
    let insert = "INSERT INTO later (id, memo) VALUES (2, 'secret')";
    assert_eq!(answered(&client, insert).await, Err("0A000".into()));
    client.batch_execute("ROLLBACK").await.unwrap();
    client.batch_execute(unread).await.unwrap();
    // In one that sees it, it is a declared table, whose statements are to be read.
    assert_eq!(answered(&client, insert).await, Err("0A000".into()));
    assert!(!log.text().contains("secret"), "{}", log.text());
    let plain = "INSERT INTO plain (id, memo) VALUES (1, 'shown')";
    assert_eq!(answered(&client, plain).await.unwrap(), ["1 rows"]);
}

#[tokio::test]
async fn what_is_asked_within_a_pipeline_is_cancelled_and_the_next_statement_is_not() {
    let (server, proxy, _clients, direct) = parted().await;
    // In a transaction what was seen of others' statements stays as it was.
    let watching = connect(&server.uri("postgres")).await;
    let mut raw = raw(&proxy);
    let cancel = raw.canceller();
    let mut out = BytesMut::new();
    send("SELECT 1", &[], &mut out);
    send("INSERT INTO plain (id) VALUES (77)", &[], &mut out);
    frontend::sync(&mut out);
    // What the proxy reads by the clock waits, too.
    let waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'WITH RECURSIVE asked%'";
    // What it asks is prepared from the first of these on.
    for round in 0..16 {
        if round == 1 {
            assert_eq!(failed(&raw.query("SELECT id FROM plain")), None);
        }
        let asked = "BEGIN; LOCK TABLE pg_catalog.pg_inherits IN ACCESS EXCLUSIVE MODE";
        direct.batch_execute(asked).await.unwrap();
        let sent = out.clone();
        let asking = tokio::task::spawn_blocking(move || (raw.ask(&sent), raw));
        while watching.simple_query(waiting).await.unwrap().len() < 3 {
            tokio::task::yield_now().await;
        }
        // Nobody waits until the request has been carried out.
        let cancelling = tokio::task::spawn_blocking(cancel.clone());
        let came;
        (came, raw) = asking.await.unwrap();
        let kinds: Vec<u8> = came.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, b"12DCEZ", "{:?}", failed(&came));
        assert!(failed(&came).unwrap().contains("57014"));
        assert_eq!(failed(&raw.query("SELECT pg_sleep(0.05)")), None);
        cancelling.await.unwrap();
        direct.batch_execute("COMMIT").await.unwrap();
        assert_eq!(failed(&raw.query("SELECT id FROM plain WHERE id = 1")), None);
    }
    assert_eq!(answered(&direct, "SELECT id FROM plain").await.unwrap(), ["id", "0 rows"]);
}

/// One statement is told that the proxy could not ask; the next is asked about.
#[tokio::test]
async fn what_the_proxy_asks_by_is_prepared_again_where_code_at_the_database_closed_it() {
    let (_server, _proxy, [_, client], direct) = parted().await;
    let statement = "SELECT id FROM plain";
    client.batch_execute(statement).await.unwrap();
    client.batch_execute("DO $$ BEGIN EXECUTE 'DEALLO' || 'CATE ALL'; END $$").await.unwrap();
    assert_eq!(answered(&client, statement).await, Err("XX000".into()));
    assert_eq!(answered(&client, statement).await.unwrap(), ["id", "0 rows"]);
    direct.batch_execute("CREATE TABLE new PARTITION OF notes FOR VALUES IN (1)").await.unwrap();
    assert_eq!(answered(&client, "INSERT INTO new VALUES (1, 'x')").await, Err("42P16".into()));
}

const ORDINARY: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS mig1 (id int); INSERT INTO mig1 VALUES (1); SELECT * FROM mig1",
    "CREATE TABLE mig2 (id int); INSERT INTO mig2 VALUES (1); CREATE INDEX ON mig2 (id)",
    "ALTER TABLE plain RENAME TO plain2; UPDATE plain2 SET a = 1; ALTER TABLE plain2 RENAME TO plain",
    "CREATE VIEW v1 AS SELECT id FROM plain; SELECT * FROM v1",
    "CREATE MATERIALIZED VIEW mv1 AS SELECT id FROM plain; SELECT * FROM mv1; CREATE INDEX ON mv1 (id)",
    "CREATE SEQUENCE sq; SELECT last_value FROM sq",
    "CREATE TABLE mig4 (id int) PARTITION BY LIST (id); CREATE TABLE mig4_1 PARTITION OF mig4 FOR VALUES IN (1); INSERT INTO mig4_1 VALUES (1)",
    "CREATE TEMP TABLE tt (id int); INSERT INTO tt VALUES (1); SELECT * FROM tt",
    "SELECT 1 AS x INTO TEMP sel; SELECT * FROM sel",
    "CREATE TABLE mig5 AS SELECT 1 AS id; SELECT * FROM mig5",
    "CREATE SCHEMA app CREATE TABLE t1 (id int); INSERT INTO app.t1 VALUES (1)",
    "DROP TABLE IF EXISTS nothere; SELECT 1",
    "SELECT * FROM nothere",
    "SELECT extract(day FROM now()) IS NOT NULL FROM plain WHERE a IS DISTINCT FROM id",
    "INSERT INTO plain (id, memo) VALUES (1, 'it''s'), (2, E'a\\nb')",
    "WITH z AS (SELECT id FROM plain) SELECT * FROM z ORDER BY id",
    "PREPARE p AS SELECT id FROM plain WHERE memo = $1; EXECUTE p ('it''s'); DEALLOCATE p",
    "BEGIN; DELETE FROM plain USING mig1 WHERE plain.id = mig1.id; COMMIT",
    "SELECT id, memo FROM plain ORDER BY id",
    "CREATE TABLE heads (id int); CREATE TABLE heirs () INHERITS (heads); INSERT INTO heirs VALUES (1); SELECT * FROM heads",
    "DROP TABLE mig1, mig2, heads CASCADE",
    "SELECT wrong FROM plain",
];

#[tokio::test]
async fn what_names_no_part_is_answered_as_without_the_proxy() {
    let (_server, proxy, [plain, client], _direct) = parted().await;
    for statement in ORDINARY {
        assert_eq!(answered(&client, statement).await, answered(&plain, statement).await, "{statement}");
    }
    let mut raw = raw(&proxy);
    let mut out = BytesMut::new();
    for text in
        ["BEGIN", "CREATE TABLE pm (id int)", "INSERT INTO pm VALUES (1)", "SELECT id FROM pm", "COMMIT"]
    {
        send(text, &[], &mut out);
    }
    frontend::sync(&mut out);
    let came = raw.ask(&out);
    assert_eq!(failed(&came), None);
    let kinds: Vec<u8> = came.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, b"12C12C12C12DC12CZ");
}

#[tokio::test]
async fn nothing_is_asked_where_no_declared_table_has_parts_nor_of_declared_tables_alone() {
    let statements =
        ["SELECT id FROM plain", "SELECT id FROM plain WHERE a = 1", "INSERT INTO plain (id) VALUES (5)"];
    let asked = |log: &Log<'_>| log.text().matches("arras asks of parts: WITH RECURSIVE asked").count();
    let (server, _proxy, [_, client]) =
        both(SCHEMA, "CREATE TABLE notes (id int, memo text); CREATE TABLE plain (id int, a int)").await;
    client.batch_execute("SELECT id FROM plain").await.unwrap();
    let log = Log::here(&server);
    for statement in statements {
        client.batch_execute(statement).await.unwrap();
    }
    assert_eq!(log.text().matches("statement: ").count(), statements.len(), "{}", log.text());
    assert!(!log.text().contains("arras asks of"), "{}", log.text());
    let (server, _proxy, [_, client], _direct) = parted().await;
    let log = Log::here(&server);
    for statement in statements {
        client.batch_execute(statement).await.unwrap();
    }
    assert_eq!(asked(&log), statements.len());
    client.batch_execute("SELECT id FROM notes WHERE id = 1").await.unwrap();
    client.batch_execute("SELECT 1").await.unwrap();
    assert_eq!(asked(&log), statements.len());
}

#[tokio::test]
async fn a_table_that_inherits_from_a_declared_one_is_a_part_of_it_and_so_is_what_a_view_over_a_part_shows() {
    let (server, _proxy, [_, client]) =
        both(SCHEMA, "CREATE TABLE notes (id int, memo text); CREATE TABLE plain (id int)").await;
    let direct = connect(&server.uri("postgres")).await;
    direct
        .batch_execute("CREATE TABLE heir () INHERITS (notes); CREATE VIEW shown AS SELECT * FROM heir")
        .await
        .unwrap();
    let log = Log::here(&server);
    let insert = |table: &str| format!("INSERT INTO {table} (id, memo) VALUES (1, 'secret')");
    assert_eq!(answered(&client, &insert("heir")).await, Err("42P16".into()));
    assert_eq!(answered(&client, &insert("shown")).await, Err("0A000".into()));
    direct.batch_execute("CREATE TABLE heir_too () INHERITS (heir, plain)").await.unwrap();
    assert_eq!(answered(&client, &insert("heir_too")).await, Err("42P16".into()));
    assert!(!log.text().contains("secret"), "{}", log.text());
}
