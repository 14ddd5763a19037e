//! What a client goes on to send behind an error, and texts that seem to name no encrypted table: none of it is for the database.

use crate::bound::{Raw, failed};
use crate::dev::Dev;
use crate::extended::connect;
use crate::twins::relay::Relay;
use arras_lab::private_postgres::PrivatePostgres;
use bytes::{Bytes, BytesMut};
use futures_util::SinkExt;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use std::net::SocketAddr;
use std::pin::pin;
use tokio_postgres::{Client, Error};

const SCHEMA: &str = r#"
[tables."public.people"]
name = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["equality"] }
salary = { id = "3e1f5b6c7d809a2b", type = "int", operations = ["equality", "order"] }
memo = { id = "5f0c9d3e21b7a846", type = "text" }

[tables."public.named"]
name = { id = "7a1b2c3d4e5f6a09", type = "text", operations = ["equality"] }

[tables."public.peopleÄ"]
memo = { id = "0a4477c1d2e8f693", type = "text" }
"#;

const CREATE: &str = "CREATE TABLE people (id int, name text, salary int DEFAULT 41, memo text); CREATE TABLE notes (id int, body text); CREATE TABLE named (id int, name text); \
                      CREATE TABLE \"peopleÄ\" (id int, memo text); INSERT INTO notes VALUES (1, 'a'), (2, 'b'), (3, 'c')";

/// A proxy whose way to the database is kept.
async fn recorded() -> (PrivatePostgres, Relay, Dev, Client) {
    let server = PrivatePostgres::start().unwrap();
    let relay = Relay::start(server.port());
    let proxy = Dev::in_front_of(&format!("postgres://postgres@{}/postgres", relay.address), SCHEMA, "warn");
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    (server, relay, proxy, client)
}

fn sent(relay: &Relay, word: &str) -> bool {
    let is_in = |bytes: &[u8]| bytes.windows(word.len()).any(|part| part == word.as_bytes());
    relay.recorded().iter().any(|connection| is_in(&connection.sent))
}

pub(crate) fn address(proxy: &Dev) -> SocketAddr {
    let uri = proxy.uri("postgres");
    let behind = uri.rsplit(['@', '/']).nth(1).unwrap();
    behind.parse().unwrap()
}

fn code(error: &Error) -> &str {
    error.code().unwrap_or_else(|| panic!("{error:?}")).code()
}

async fn count(client: &Client, condition: &str) -> i64 {
    let text = format!("SELECT count(*) FROM people WHERE {condition}");
    client.query_one(&text, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn rows_behind_one_that_is_wrong_do_not_reach_the_database() {
    let (_server, relay, _proxy, client) = recorded().await;
    let rows = |word: &str, last: &str| {
        vec![format!("1\tEve\t{last}\n"), format!("2\t{word}\t5\n"), "x".repeat(200_000)]
    };
    for (word, last) in [("SecretFirst", "many"), ("SecretSecond", "7\t8")] {
        let mut copy =
            pin!(client.copy_in::<_, Bytes>("COPY people (id, name, salary) FROM STDIN").await.unwrap());
        for row in rows(word, last) {
            // It may be told at any of them.
            let _ = copy.send(Bytes::from(row)).await;
        }
        assert!(copy.finish().await.is_err());
        assert!(!sent(&relay, word), "{word}");
        assert!(!sent(&relay, &"x".repeat(1000)));
    }
    // And the session goes on, with rows for either kind of table.
    for (text, row) in
        [("COPY notes FROM STDIN", "9\tplain words\n"), ("COPY people (id, name) FROM STDIN", "9\tIda\n")]
    {
        let mut copy = pin!(client.copy_in::<_, Bytes>(text).await.unwrap());
        copy.send(Bytes::from(row)).await.unwrap();
        assert_eq!(copy.finish().await.unwrap(), 1, "{text}");
    }
    assert_eq!(count(&client, "name = 'Ida'").await, 1);
    assert!(sent(&relay, "plain words") && !sent(&relay, "Ida"));
}

/// The same by messages of the simple protocol, all of them at once, as drivers that do not wait send them.
#[test]
fn rows_that_are_sent_ahead_do_not_reach_the_database() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_server, relay, proxy, _client) = runtime.block_on(recorded());
    let mut raw = Raw::connect(address(&proxy));
    let mut out = BytesMut::new();
    for text in ["COPY people (id, name, salary) FROM STDIN", "COPY people (id, nothing) FROM STDIN"] {
        frontend::query(text, &mut out).unwrap();
        rows(&mut out, &["1\tEve\tmany\n", "2\tSecretAhead\t5\n"]);
        let came = raw.ask(&out.split());
        assert!(came.iter().any(|(kind, _)| *kind == b'E'), "{text}");
        assert!(!sent(&relay, "SecretAhead"), "{text}");
    }
    assert!(raw.query("SELECT 1").iter().any(|(kind, _)| *kind == b'D'));
    assert!(!sent(&relay, "SecretAhead"));
}

fn rows(out: &mut BytesMut, rows: &[&str]) {
    for row in rows {
        out.extend_from_slice(b"d");
        out.extend_from_slice(&(u32::try_from(row.len()).unwrap() + 4).to_be_bytes());
        out.extend_from_slice(row.as_bytes());
    }
    frontend::copy_done(out);
}

/// Rows of a plain table behind those of an encrypted one, before the client synchronises.
#[test]
fn rows_of_one_table_behind_those_of_another_are_stored() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_server, relay, proxy, client) = runtime.block_on(recorded());
    let mut raw = Raw::connect(address(&proxy));
    let mut out = BytesMut::new();
    for (text, row) in
        [("COPY people (id, name) FROM STDIN", "9\tIda\n"), ("COPY notes FROM STDIN", "9\tplain words\n")]
    {
        frontend::parse("", text, [], &mut out).unwrap();
        let bound =
            frontend::bind("", "", [], std::iter::empty::<()>(), |(), _| Ok(IsNull::Yes), [], &mut out);
        assert!(bound.is_ok());
        frontend::execute("", 0, &mut out).unwrap();
        rows(&mut out, &[row]);
    }
    frontend::sync(&mut out);
    let came = raw.ask(&out);
    assert!(came.iter().all(|(kind, _)| *kind != b'E'), "{came:?}");
    assert_eq!(runtime.block_on(count(&client, "name = 'Ida'")), 1);
    assert!(sent(&relay, "plain words") && !sent(&relay, "Ida"));
}

/// A driver sends what it gives to a statement before it knows that there is none.
#[test]
fn what_is_given_to_a_statement_that_is_refused_or_gone_does_not_reach_the_database() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_server, relay, proxy, _client) = runtime.block_on(recorded());
    let mut raw = Raw::connect(address(&proxy));
    let parsed = |name: &str, text: &str| {
        let mut out = BytesMut::new();
        frontend::parse(name, text, [], &mut out).unwrap();
        out
    };
    let code_of = |came: &[(u8, Vec<u8>)]| {
        let error = failed(came)?;
        error.split('\0').find_map(|field| field.strip_prefix('C').map(str::to_owned))
    };
    let insert = "INSERT INTO people (id, memo) VALUES ($1, $2)";
    for name in ["", "refused"] {
        for (text, code) in [
            ("INSERT INTO people (id, memo) VALUES ($1, lower($2))", "0A000"),
            ("INSERT INTO people (id, memo) VALUES (nothing($1), $2)", "42883"),
            ("SELECT id FROM people WHERE id = $1 AND memo LIKE $2", "0A000"),
            ("SELECT id FROM people WHERE id = $1 AND memory = $2", "42703"),
        ] {
            let came = raw.run(&parsed(name, text), name, &["1", "secret"]);
            assert_eq!(code_of(&came).as_deref(), Some(code), "{text}");
            assert_eq!(code_of(&raw.run(&[], name, &["1", "secret"])).as_deref(), Some("26000"), "{text}");
        }
        assert_eq!(code_of(&raw.run(&parsed(name, insert), name, &["1", "secret"])), None);
    }
    let mut closed = BytesMut::new();
    frontend::close(b'S', "kept", &mut closed).unwrap();
    for gone in ["DEALLOCATE kept", "DEALLOCATE ALL", "DISCARD ALL", ""] {
        for prepared in [true, false] {
            let came = match prepared {
                true => raw.query(&format!("PREPARE kept AS {insert}")),
                false => raw.run(&parsed("kept", insert), "kept", &["1", "secret"]),
            };
            assert_eq!(code_of(&came), None);
            let before = if gone.is_empty() { &closed[..] } else { &[] };
            assert_eq!(code_of(&raw.query(gone)), None);
            let came = raw.run(before, "kept", &["1", "secret"]);
            assert_eq!(code_of(&came).as_deref(), Some("26000"), "{gone}");
            for execute in ["EXECUTE kept(1, 'secret')", "EXPLAIN EXECUTE kept(1, 'secret')"] {
                assert_eq!(code_of(&raw.query(execute)).as_deref(), Some("26000"), "{gone}");
            }
        }
    }
    assert_eq!(
        code_of(&raw.query("PREPARE failing AS SELECT nothing() FROM people WHERE name = $1")).as_deref(),
        Some("42883")
    );
    assert_eq!(code_of(&raw.query("EXECUTE failing('secret')")).as_deref(), Some("26000"));
    assert!(!sent(&relay, "secret"));
    // The names may be others' then.
    for text in [
        "PREPARE kept AS SELECT $1::text",
        "DEALLOCATE kept; PREPARE kept AS SELECT $1::text; EXECUTE kept('plain')",
    ] {
        assert_eq!(code_of(&raw.query(text)), None, "{text}");
    }
    assert_eq!(code_of(&raw.run(&[], "kept", &["a plain one"])), None);
    assert_eq!(code_of(&raw.run(&parsed("refused", "SELECT $1::text"), "refused", &["another"])), None);
    assert_eq!(code_of(&raw.query("EXECUTE refused('a third')")), None);
    assert!(["a plain one", "another", "a third"].iter().all(|word| sent(&relay, word)));
}

#[tokio::test]
async fn constants_and_code_that_were_not_seen_do_not_reach_the_database() {
    let (_server, relay, _proxy, client) = recorded().await;
    for text in [
        "INSERT INTO people (id, memo) SELECT id, (body) || 'secret' FROM notes",
        "INSERT INTO people (id, memo) SELECT id, CAST(body AS text) || 'secret' FROM notes",
        "INSERT INTO people (id, memo) SELECT id, (ARRAY[body, 'secret'])[1] FROM notes",
        "INSERT INTO people (id, memo) SELECT id, CASE WHEN body IS DISTINCT FROM 'x' THEN 'secret' ELSE body END FROM notes",
        "INSERT INTO people (id, memo) SELECT id, body || B'101'::text || 'secret' FROM notes",
        "DO 'BEGIN INSERT INTO people (id, memo) VALUES (1, ''secret''); END'",
        "DO E'BEGIN INSERT INTO people (id, memo) VALUES (1, ''secret''); END'",
        "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS 'INSERT INTO people (id, memo) VALUES (1, ''secret'')'",
        "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$INSERT INTO people (id, memo) VALUES (1, 'secret')$$",
        "CREATE OR REPLACE FUNCTION f() RETURNS text LANGUAGE sql AS 'SELECT ''secret''::text FROM people'",
        "CREATE PUBLICATION p FOR TABLE people WHERE (name = 'secret')",
    ] {
        let answer = client.simple_query(text).await;
        let refused = answer.err().unwrap_or_else(|| panic!("{text}"));
        assert_eq!(code(&refused), "0A000", "{text}: {refused:?}");
        assert!(!sent(&relay, "secret"), "{text}");
    }
    client.simple_query("CREATE PUBLICATION p FOR TABLE people; DROP PUBLICATION p").await.unwrap();
    // It names another.
    client
        .simple_query("CREATE FUNCTION of_peoples() RETURNS text LANGUAGE sql AS $$SELECT 'peoples'::text$$")
        .await
        .unwrap();
    // A list in brackets is one expression.
    client.simple_query("INSERT INTO people (id, name) VALUES (1, 'a'), (3, 'c')").await.unwrap();
    let chosen = "UPDATE people SET name = CASE WHEN ARRAY[id,2] = ARRAY[1,2] THEN 'secret' ELSE name END, id = id + 1";
    client.simple_query(chosen).await.unwrap();
    assert_eq!(count(&client, "name = 'secret' AND id = 2").await, 1);
    assert_eq!(count(&client, "name = 'c' AND id = 4").await, 1);
    // PostgreSQL folds a letter that is not ASCII to none.
    client.simple_query("INSERT INTO peopleÄ (id, memo) VALUES (1, 'secret')").await.unwrap();
    // Read by other rules, the second statement would be within a string.
    client.simple_query("SET standard_conforming_strings = off").await.unwrap();
    let text =
        "INSERT INTO notes (body) VALUES ('O\\'Neil'); INSERT INTO people (memo) VALUES ('O\\'secret')";
    assert_eq!(code(&client.simple_query(text).await.unwrap_err()), "0A000");
    client.simple_query("SET standard_conforming_strings = on").await.unwrap();
    assert!(!sent(&relay, "secret"));
}

#[tokio::test]
async fn what_is_copied_or_chosen_by_a_number_is_as_in_plaintext() {
    let (server, _relay, _proxy, client) = recorded().await;
    let mut copy = pin!(client.copy_in::<_, Bytes>("COPY people (id) FROM STDIN").await.unwrap());
    copy.send(Bytes::from_static(b"1\n2\n")).await.unwrap();
    assert_eq!(copy.finish().await.unwrap(), 2);
    assert_eq!(count(&client, "salary = 41").await, 2);
    for text in [
        "INSERT INTO named (name, id) SELECT 'Ann', id FROM notes ORDER BY 2 DESC LIMIT 1",
        "INSERT INTO named (name, id) SELECT DISTINCT ON (2) 'Ann', id FROM notes",
        "INSERT INTO named (name, id) SELECT 'Ann', id FROM notes GROUP BY 2",
    ] {
        let answer = client.simple_query(text).await;
        let refused = answer.err().unwrap_or_else(|| panic!("{text}"));
        assert_eq!(code(&refused), "0A000", "{text}");
    }
    client
        .simple_query("INSERT INTO people (name, id) SELECT 'Ann', id FROM notes ORDER BY id DESC LIMIT 1")
        .await
        .unwrap();
    assert_eq!(count(&client, "name = 'Ann' AND id = 3").await, 1);
    // Bytes would fit as they are.
    client
        .batch_execute("CREATE TABLE staged (id int, memo bytea); INSERT INTO staged VALUES (99, 'secret')")
        .await
        .unwrap();
    let _ = client.simple_query("INSERT INTO \"peopleÄ\" SELECT * FROM staged").await;
    let direct = connect(&server.uri("postgres")).await;
    let bare = "SELECT count(*) FROM \"peopleÄ\" WHERE position('secret'::bytea IN memo) > 0";
    assert_eq!(direct.query_one(bare, &[]).await.unwrap().get::<_, i64>(0), 0);
    client.batch_execute("DELETE FROM \"peopleÄ\"").await.unwrap();
    // Where nothing takes more places than it had, numbers stay.
    for text in [
        "INSERT INTO \"peopleÄ\" (id) SELECT id FROM notes ORDER BY 1",
        "INSERT INTO \"peopleÄ\" SELECT * FROM notes",
        "INSERT INTO \"peopleÄ\" SELECT n.* FROM notes AS n ORDER BY n.id",
    ] {
        client.simple_query(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    }
    let rows =
        client.query("SELECT memo FROM \"peopleÄ\" WHERE memo IS NOT NULL ORDER BY id", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["a", "a", "b", "b", "c", "c"]);
}

/// Rows of two parts may lie in one place.
#[tokio::test]
async fn a_row_of_one_part_of_a_table_is_not_taken_for_that_of_another() {
    let (server, _relay, _proxy, client) = recorded().await;
    client.batch_execute("DROP TABLE people; CREATE TABLE people (id int, region text, memo text) PARTITION BY LIST (region)").await.unwrap();
    let direct = connect(&server.uri("postgres")).await;
    for region in ["eu", "us"] {
        direct
            .batch_execute(&format!(
                "CREATE TABLE in_{region} PARTITION OF people FOR VALUES IN ('{region}')"
            ))
            .await
            .unwrap();
    }
    client.batch_execute("INSERT INTO people VALUES (1, 'eu', 'a'), (2, 'us', 'b')").await.unwrap();
    assert_eq!(client.execute("UPDATE people SET memo = memo || '!' WHERE id = 1", &[]).await.unwrap(), 1);
    let rows = client.query("SELECT memo FROM people ORDER BY id", &[]).await.unwrap();
    let memos: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(memos, ["a!", "b"]);
}

#[tokio::test]
async fn a_table_that_is_laid_out_wrongly_stops_none_but_its_own_statements() {
    let (server, _relay, proxy, client) = recorded().await;
    client.batch_execute("CREATE TEMP TABLE wrong (a bytea, \"a$eq\" bytea)").await.unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct
        .batch_execute(
            "CREATE VIEW seen AS SELECT * FROM people; CREATE TABLE copied AS SELECT * FROM people",
        )
        .await
        .unwrap();
    let other = connect(&proxy.uri("postgres")).await;
    for client in [&client, &other] {
        assert_eq!(count(client, "name = 'Ann'").await, 0);
        for (text, expected) in [("SELECT * FROM seen", "0A000"), ("SELECT count(*) FROM copied", "42P16")] {
            assert_eq!(code(&client.simple_query(text).await.unwrap_err()), expected, "{text}");
        }
    }
    assert_eq!(code(&client.simple_query("SELECT * FROM wrong").await.unwrap_err()), "42P16");
    client.batch_execute("DROP TABLE wrong").await.unwrap();
    let (well, said) = proxy.doctor(&server, "postgres", false);
    assert!(!well && said.contains("copied"), "{said}");
    client.batch_execute("DROP TABLE copied").await.unwrap();
    let (well, said) = proxy.doctor(&server, "postgres", false);
    assert!(well && !said.contains("view"), "{said}");
}

/// However a chain of operators is made, the proxy lives: one is too long to be read, or has too many operators to be understood.
#[tokio::test]
async fn a_chain_of_operators_does_not_end_the_proxy() {
    let (_server, _relay, _proxy, client) = recorded().await;
    let refused = async |text: &str, few: bool| {
        let error = client.simple_query(text).await.unwrap_err();
        let code = code(&error);
        assert!(code == "54001" || code == "54000" && !few, "{code}: {}", &text[..60]);
    };
    for link in
        [" % 1", " = 1", " IS NULL", "::int", " COLLATE \"C\"", " + 1", " AND true", " BETWEEN 1 AND 1"]
    {
        for (links, few) in [(200_000, false), (15_000, true)] {
            refused(&format!("SELECT 1 FROM people WHERE 1{}", link.repeat(links)), few).await;
        }
        // As deep as it may be, the answer is PostgreSQL's or ours.
        let text = format!("SELECT 1 FROM people WHERE 1{}", link.repeat(999));
        let _ = client.simple_query(&text).await;
    }
    client.simple_query("PREPARE p AS INSERT INTO people (id, name) VALUES (1, $1)").await.unwrap();
    for (links, few) in [(100_000, false), (15_000, true)] {
        for text in [
            format!("SELECT 1 FROM people{}", " INTERSECT SELECT 1".repeat(links)),
            format!("SELECT 1 FROM people{}", " MINUS SELECT 1".repeat(links)),
            format!("SELECT 1 FROM people WHERE true{}", " XOR true".repeat(links)),
            format!("SELECT 1 FROM people WHERE 1{}", " OPERATOR(pg_catalog.+) 1".repeat(links)),
            format!("CREATE VIEW v AS SELECT 1 FROM people WHERE 1{} > 0", "+1".repeat(links)),
            format!("CREATE TABLE \"peopleÄ\" (id int DEFAULT 1{})", "+1".repeat(links)),
            format!("EXECUTE p('a'{})", "||'a'".repeat(links)),
        ] {
            refused(&text, few).await;
        }
    }
}
