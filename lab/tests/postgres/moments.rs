//! `now()` and its like beside encrypted columns: as PostgreSQL answers in plaintext, by the proxy's clock, and the server does not see
//! what is computed of it.

use crate::bound::{Raw, failed};
use crate::extended::connect;
use crate::late::address;
use crate::spelled::{answered, both};
use bytes::BytesMut;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use std::time::Duration;
use tokio_postgres::Client;

const SCHEMA: &str = r#"
[tables."public.visits"]
day = { id = "6a1b2c3d4e5f7c01", type = "date", operations = ["equality", "order"] }
at = { id = "6a1b2c3d4e5f7c02", type = "timestamptz", operations = ["equality", "order"], order = "stope" }
noted = { id = "6a1b2c3d4e5f7c03", type = "timestamp", operations = ["order"], order = "clww" }
ended = { id = "6a1b2c3d4e5f7c04", type = "timestamptz", operations = ["order"], order = "fh_ope" }
bare = { id = "6a1b2c3d4e5f7c05", type = "timestamptz" }
"#;

const CREATE: &str = "CREATE TABLE visits (id int PRIMARY KEY, day date, at timestamptz, noted timestamp, ended timestamptz, bare timestamptz, \
    plain timestamptz DEFAULT now())";

const STATEMENTS: &[&str] = &[
    "INSERT INTO visits VALUES (1, current_date - 5, now() - interval '5 days', localtimestamp - interval '5 days', \
     now() - interval '5 days', now(), now()), (2, now(), current_timestamp, now(), transaction_timestamp(), current_date, now())",
    "INSERT INTO visits (id, day, at) VALUES (3, now() + interval '1 month 3 days', (now() + '36:00:00'::interval)), (4, NULL, NULL)",
    "SELECT id FROM visits WHERE day >= current_date - 3 ORDER BY id",
    "SELECT id FROM visits WHERE day < now() ORDER BY id",
    "SELECT id FROM visits WHERE now() - interval '1 day 2 hours' < at ORDER BY id",
    "SELECT id FROM visits WHERE at BETWEEN now() - interval '1' month AND current_date + 1 ORDER BY id",
    "SELECT id FROM visits WHERE at BETWEEN SYMMETRIC now() + interval '1 hour' AND now() - interval '1 week' ORDER BY id",
    "SELECT id FROM visits WHERE noted NOT BETWEEN (now() AT TIME ZONE 'UTC') - interval '2 days' AND localtimestamp ORDER BY id",
    "SELECT id FROM visits WHERE noted < (now() at time zone 'utc') - interval '2 days' ORDER BY id",
    "SELECT id FROM visits WHERE ended > CURRENT_TIMESTAMP - interval '2 days' ORDER BY id",
    "SELECT id FROM visits WHERE day = now()::date + 0 OR day = CAST(now() - interval '120 hours' AS date) ORDER BY id",
    "SELECT id FROM visits WHERE at IS DISTINCT FROM now() AND plain <= now() AND now() >= current_date ORDER BY id",
    "UPDATE visits SET at = now() - interval '2 years', noted = current_date, plain = NULL WHERE day < current_date - 3",
    "SELECT id FROM visits WHERE at < now() - interval '1 year 11 mons' ORDER BY id",
    "SELECT count(*) FROM visits WHERE at > now() - interval '1 century' AND bare IS NOT NULL",
    "INSERT INTO visits (id, at) VALUES (2, now()) ON CONFLICT (id) DO UPDATE SET at = now() + interval '10 years', day = current_date + 400",
    "SELECT id FROM visits WHERE at > now() + interval '9 years' AND day > current_date + 366 ORDER BY id",
    "DELETE FROM visits WHERE at > now() + interval '9 years'",
    "SELECT id FROM visits ORDER BY id",
    "SELECT id FROM visits WHERE at >= date_trunc('month', now() - interval '2 months') ORDER BY id",
    "SELECT id FROM visits WHERE noted >= date_trunc('week', localtimestamp) OR day = date_trunc('day', now()) ORDER BY id",
    "SELECT id FROM visits WHERE day IN (current_date, current_date - 5, '2020-01-01') ORDER BY id",
    "SELECT id FROM visits WHERE (id, day) IN ((1, current_date - 5), (2, current_date)) ORDER BY id",
    "UPDATE visits SET at = coalesce(at, now()), noted = CASE WHEN id = 1 THEN localtimestamp ELSE noted END",
    "UPDATE visits SET at = CASE WHEN day < current_date THEN now() - interval '3 days' ELSE at END WHERE at IS NOT NULL",
    "UPDATE visits SET ended = now() + interval '1 hour' WHERE id IN (1, 2)",
    "UPDATE visits SET ended = CASE WHEN id = 1 THEN now() - interval '1 hour' ELSE ended END",
    "SELECT id FROM visits WHERE at > date_trunc('minute', now()) - interval '1 day' ORDER BY id",
    "SELECT id FROM visits WHERE ended < now() ORDER BY id",
    "INSERT INTO visits (id, at, day) SELECT id + 100, now(), current_date FROM visits WHERE id < 3",
    "INSERT INTO visits (id, ended, noted) SELECT id + 200, now() - interval '1 year', localtimestamp FROM visits WHERE id < 3",
    "INSERT INTO visits (id, at) SELECT x, statement_timestamp() FROM generate_series(300, 302) AS x",
    "INSERT INTO visits (id, at) SELECT * FROM (VALUES (310, now()), (311, now() - interval '1 day')) AS v (i, m)",
    "INSERT INTO visits (id, at) VALUES (310, now()) ON CONFLICT (id) DO UPDATE SET at = coalesce(visits.at, EXCLUDED.at)",
    "SELECT count(*), count(DISTINCT at) FROM visits WHERE at >= now() - interval '5 seconds'",
    "SELECT id FROM visits WHERE ended < now() - interval '364 days' ORDER BY id",
    "SELECT id FROM visits WHERE at < current_timestamp(0) - interval '10 hours' ORDER BY id",
    "UPDATE visits SET noted = NULL WHERE id IN (1, 2)",
    "UPDATE visits SET noted = coalesce(noted, '2001-01-01 23:59+05', now()) WHERE id = 1",
    "UPDATE visits SET noted = coalesce(noted, '2001-01-01 23:59', current_date) WHERE id = 2",
    "UPDATE visits SET day = CASE WHEN id = 1 THEN '2001-01-01 20:59-05' ELSE now() END WHERE id < 3",
    "INSERT INTO visits (id, noted) SELECT * FROM (VALUES (401, now()), (402, '2001-01-01 22:00+05')) AS v",
    "INSERT INTO visits (id, at) SELECT * FROM (VALUES (403, localtimestamp), (404, '2001-01-01 22:00+05')) AS v",
    "INSERT INTO visits (id, at) SELECT * FROM (VALUES (405, current_date), (406, '2001-01-01 22:00')) AS v",
    "SELECT id, day, noted FROM visits WHERE noted < '2002-01-01' OR day < '2002-01-01' ORDER BY id",
    "SELECT id, at FROM visits WHERE at < '2002-01-01' ORDER BY id",
    "SELECT id FROM visits WHERE at > now() + '-30 years' AND noted > timezone('utc', now()) - interval '30 years' ORDER BY id",
    "SELECT id FROM visits WHERE at > now() - interval '400000 years'",
    "SELECT id FROM visits WHERE day > current_date + 2147483647",
];

/// The values of a column that a text gives.
pub(crate) async fn texts(client: &Client, text: &str) -> Vec<String> {
    let messages = client.simple_query(text).await.unwrap();
    let row = |message: &tokio_postgres::SimpleQueryMessage| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

#[tokio::test]
async fn moments_beside_encrypted_columns_are_answered_as_in_plaintext() {
    let (server, _proxy, clients) = both(SCHEMA, CREATE).await;
    for client in &clients {
        client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
    }
    for statement in STATEMENTS {
        let [plain, encrypted] =
            [answered(&clients[0], statement).await, answered(&clients[1], statement).await];
        assert_eq!(plain, encrypted, "{statement}");
    }
    let statement = "SELECT id FROM visits WHERE at < now() + interval '17 days' ORDER BY id";
    let plain = answered(&clients[0], statement).await;
    let before = std::fs::read(server.log()).unwrap().len();
    let encrypted = answered(&clients[1], statement).await;
    assert!(plain == encrypted && plain.as_ref().unwrap().len() > 2, "{plain:?} {encrypted:?}");
    let log = String::from_utf8_lossy(&std::fs::read(server.log()).unwrap()[before..]).into_owned();
    assert!(log.contains("at$ord") && !log.contains("17 days") && !log.contains("now()"), "{log}");
}

#[tokio::test]
async fn a_moment_is_one_in_its_transaction_and_another_in_the_next() {
    let (server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    let plain = connect(&server.uri("plain")).await;
    let clock = "SELECT clock_timestamp()";
    let before = texts(&plain, clock).await.remove(0);
    client.batch_execute("BEGIN").await.unwrap();
    let behind = texts(&plain, clock).await.remove(0);
    client
        .batch_execute("SELECT pg_sleep(0.01); INSERT INTO visits (id, at) VALUES (1, now())")
        .await
        .unwrap();
    client.batch_execute("SELECT pg_sleep(0.01)").await.unwrap();
    assert_eq!(texts(&client, "SELECT id FROM visits WHERE at = now()").await, ["1"]);
    // When the transaction began, as PostgreSQL has it.
    let at = texts(&client, "SELECT at FROM visits").await.remove(0);
    let is_between = format!("SELECT '{at}'::timestamptz BETWEEN '{before}' AND '{behind}'");
    assert_eq!(texts(&plain, &is_between).await, ["t"], "{before} {at} {behind}");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(texts(&client, "SELECT id FROM visits WHERE at = now()").await, [""; 0]);
    assert_eq!(texts(&client, "SELECT id FROM visits WHERE at < now()").await, ["1"]);
    let insert = client.prepare("INSERT INTO visits (id, at) VALUES ($1, now())").await.unwrap();
    let later = client.prepare("SELECT count(*) FROM visits WHERE at > now() AND id > $1").await.unwrap();
    for id in [10, 11, 12] {
        client.execute(&insert, &[&id]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(client.query_one(&later, &[&0]).await.unwrap().get::<_, i64>(0), 0);
    }
    assert_eq!(texts(&client, "SELECT id FROM visits ORDER BY at").await, ["1", "10", "11", "12"]);
    assert_eq!(texts(&client, "SELECT count(DISTINCT at) FROM visits").await, ["4"]);
}

#[tokio::test]
async fn in_a_time_zone_that_the_proxy_does_not_know_only_what_does_not_hang_on_it_is_computed() {
    let (_server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    client.batch_execute("SET TimeZone = '<+14>-14'").await.unwrap();
    client
        .batch_execute("INSERT INTO visits (id, at) VALUES (1, now() - interval '30 minutes')")
        .await
        .unwrap();
    let found = "SELECT id FROM visits WHERE at BETWEEN now() - interval '31 minutes' AND now() - interval '29 minutes'";
    assert_eq!(texts(&client, found).await, ["1"]);
    for (statement, code) in [
        ("SELECT id FROM visits WHERE at > now() - interval '1 day'", "0A000"),
        ("SELECT id FROM visits WHERE day = current_date", "42804"),
        ("INSERT INTO visits (id, noted) VALUES (2, now())", "42804"),
    ] {
        assert_eq!(answered(&client, statement).await, Err(code.into()), "{statement}");
    }
    client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
    assert_eq!(texts(&client, found).await, ["1"]);
}

/// Rows that were stored in the transaction under way, by their moments.
async fn of_this(client: &Client) -> Vec<String> {
    texts(client, "SELECT id FROM visits WHERE at = now() ORDER BY id").await
}

#[tokio::test]
async fn a_transaction_that_begins_as_another_ends_has_its_own_moment() {
    let (_server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    client.batch_execute("BEGIN; INSERT INTO visits (id, at) VALUES (1, now())").await.unwrap();
    for (ending, id) in [("COMMIT AND CHAIN", 2), ("COMMIT; BEGIN", 3)] {
        client.batch_execute("SELECT pg_sleep(0.005)").await.unwrap();
        client.batch_execute(ending).await.unwrap();
        client.batch_execute(&format!("INSERT INTO visits (id, at) VALUES ({id}, now())")).await.unwrap();
        assert_eq!(of_this(&client).await, [id.to_string()], "{ending}");
    }
    client.batch_execute("SAVEPOINT s; SELECT pg_sleep(0.005); ROLLBACK TO s").await.unwrap();
    assert_eq!(of_this(&client).await, ["3"]);
    let text =
        "SELECT pg_sleep(0.005); END; START TRANSACTION; INSERT INTO visits (id, at) VALUES (4, now())";
    client.batch_execute(text).await.unwrap();
    assert_eq!(of_this(&client).await, ["4"]);
    client.execute("COMMIT AND CHAIN", &[]).await.unwrap();
    assert_eq!(of_this(&client).await, [""; 0]);
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(texts(&client, "SELECT id FROM visits ORDER BY at").await, ["1", "2", "3", "4"]);
}

#[tokio::test]
async fn what_is_sent_without_waiting_has_the_moment_of_its_own_transaction() {
    let (_server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    let both = tokio::join!(
        client.batch_execute("SELECT pg_sleep(0.02)"),
        client.batch_execute("BEGIN; INSERT INTO visits (id, at) VALUES (1, now())"),
    );
    both.0.and(both.1).unwrap();
    client.batch_execute("INSERT INTO visits (id, at) VALUES (2, now())").await.unwrap();
    assert_eq!(of_this(&client).await, ["1", "2"]);
    client.batch_execute("COMMIT").await.unwrap();
    let both = tokio::join!(client.batch_execute("SELECT pg_sleep(0.02)"), client.batch_execute("BEGIN"),);
    both.0.and(both.1).unwrap();
    client
        .batch_execute("INSERT INTO visits (id, at) VALUES (3, now()); SELECT pg_sleep(0.005)")
        .await
        .unwrap();
    client.batch_execute("INSERT INTO visits (id, at) VALUES (4, now())").await.unwrap();
    assert_eq!(of_this(&client).await, ["3", "4"]);
}

#[tokio::test]
async fn a_time_zone_counts_from_when_the_session_has_it() {
    let (_server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
    let insert = "INSERT INTO visits (id, day) VALUES (1, current_date)";
    let both = tokio::join!(
        client.batch_execute("SET TimeZone = 'Pacific/Kiritimati'"),
        client.batch_execute(insert)
    );
    both.0.unwrap();
    assert_eq!(both.1.unwrap_err().code().unwrap().code(), "42804");
    for zone in ["SET TimeZone = 'UTC'", "RESET ALL", "SELECT set_config('TimeZone', 'UTC', false)"] {
        client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
        assert_eq!(answered(&client, &format!("{zone}; {insert}")).await, Err("42804".into()), "{zone}");
    }
    // What is sent alone behind such a text has the zone that it has given the session.
    client.batch_execute("SET TimeZone = 'UTC'; SELECT day FROM visits").await.unwrap();
    client.execute("INSERT INTO visits (id, day) VALUES (9, current_date)", &[]).await.unwrap();
    client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
    client.batch_execute(insert).await.unwrap();
}

/// Statements of the extended protocol, behind one another and before a `Sync`.
fn pipelined(statements: &[&str]) -> BytesMut {
    let mut out = BytesMut::new();
    for text in statements {
        frontend::parse("", text, [], &mut out).unwrap();
        let bound =
            frontend::bind("", "", [], std::iter::empty::<()>(), |(), _| Ok(IsNull::Yes), [], &mut out);
        assert!(bound.is_ok());
        frontend::execute("", 0, &mut out).unwrap();
    }
    frontend::sync(&mut out);
    out
}

/// PostgreSQL says which zone the session is in when it waits.
#[test]
fn in_a_pipeline_the_time_zone_is_in_doubt_behind_what_may_change_it() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_server, proxy, [_, client]) = runtime.block_on(both(SCHEMA, CREATE));
    let mut raw = Raw::connect(address(&proxy));
    let insert = "INSERT INTO visits (id, day) VALUES (1, current_date)";
    raw.query("SET TimeZone = 'UTC'");
    for change in
        ["SET TimeZone = 'Asia/Tokyo'", "RESET ALL", "SELECT set_config('timezone', 'Asia/Tokyo', true)"]
    {
        let came = raw.ask(&pipelined(&[change, insert]));
        assert!(failed(&came).is_some_and(|said| said.contains("42804")), "{change}: {came:?}");
        // It was undone with its transaction.
        assert_eq!(failed(&raw.ask(&pipelined(&[insert, "DELETE FROM visits"]))), None, "{change}");
    }
    // What a transaction set is set back where it ends.
    raw.query("BEGIN; SET LOCAL TimeZone = 'Asia/Tokyo'");
    let came = raw.ask(&pipelined(&["ROLLBACK", insert]));
    assert!(failed(&came).is_some_and(|said| said.contains("42804")), "{came:?}");
    assert_eq!(failed(&raw.ask(&pipelined(&[insert]))), None);
    assert_eq!(runtime.block_on(texts(&client, "SELECT count(*) FROM visits")), ["1"]);
}

/// Statements that begin a transaction anew or do not, whatever comments and strings in them say; each is sent in one, behind a row of
/// its moment and before another.
const ENDINGS: &[(&str, bool)] = &[
    ("/* a;b */ COMMIT AND CHAIN", true),
    ("COMMIT /* to */ AND CHAIN -- to x", true),
    ("DO $$ BEGIN PERFORM 1; END $$", false),
    ("SELECT ';end'", false),
    ("SELECT 1 -- ;commit", false),
    ("COMMENT ON TABLE visits IS '; commit'", false),
    ("SAVEPOINT s; ROLLBACK TO\"s\"", false),
    ("PREPARE q (int)AS SELECT 'a transaction is'::text", false),
];

#[tokio::test]
async fn a_transaction_s_moment_is_its_own_whatever_comments_and_strings_say() {
    let (_server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    for (place, (ending, is_new)) in (0..).zip(ENDINGS) {
        let put = |id: i32| format!("INSERT INTO visits (id, at) VALUES ({id}, now())");
        client.batch_execute("BEGIN").await.unwrap();
        client.batch_execute(&put(2 * place)).await.unwrap();
        client.batch_execute("SELECT pg_sleep(0.003)").await.unwrap();
        client.batch_execute(ending).await.unwrap();
        client.batch_execute(&put(2 * place + 1)).await.unwrap();
        let expected = if *is_new { 1 } else { 2 };
        assert_eq!(of_this(&client).await.len(), expected, "{ending}");
        client.batch_execute("COMMIT").await.unwrap();
    }
    // All transactions of a text begin when it came.
    let text = "BEGIN; INSERT INTO visits (id, at) VALUES (100, now()); SELECT pg_sleep(0.003); COMMIT; BEGIN; \
                INSERT INTO visits (id, at) VALUES (101, now()); SELECT count(*) FROM visits WHERE at = now(); COMMIT";
    assert_eq!(texts(&client, text).await, ["", "2"]);
}

#[tokio::test]
async fn a_statement_has_one_moment_of_its_own() {
    let (_server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    client
        .batch_execute("CREATE TABLE sources (id int); INSERT INTO sources SELECT generate_series(1, 300)")
        .await
        .unwrap();
    client
        .batch_execute("INSERT INTO visits (id, at) SELECT id, statement_timestamp() FROM sources")
        .await
        .unwrap();
    assert_eq!(texts(&client, "SELECT count(DISTINCT at) FROM visits").await, ["1"]);
    // Outside of a transaction block it is the transaction's.
    let text = "INSERT INTO visits (id, at, bare) VALUES (301, statement_timestamp(), now())";
    client.batch_execute(text).await.unwrap();
    let shown = texts(&client, "SELECT at FROM visits WHERE id = 301").await;
    assert_eq!(shown, texts(&client, "SELECT bare FROM visits WHERE id = 301").await);
    client.batch_execute("BEGIN").await.unwrap();
    client.batch_execute("SELECT pg_sleep(0.003)").await.unwrap();
    client
        .batch_execute("UPDATE visits SET at = CASE WHEN id = 301 THEN statement_timestamp() ELSE at END")
        .await
        .unwrap();
    assert_eq!(texts(&client, "SELECT id FROM visits WHERE at > now()").await, ["301"]);
}

#[tokio::test]
async fn a_choice_that_is_shown_has_the_column_s_type_or_is_refused() {
    let (_server, _proxy, clients) = both(SCHEMA, CREATE).await;
    for client in &clients {
        client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
        client
            .batch_execute("INSERT INTO visits (id, at) VALUES (1, now() - interval '1 day')")
            .await
            .unwrap();
    }
    let shown = "SELECT coalesce(at, now()) < now() FROM (SELECT 1) a, visits";
    assert_eq!(answered(&clients[0], shown).await.unwrap(), ["?column?", "t", "1 rows"]);
    for refused in [
        "SELECT coalesce(day, now()) FROM visits",
        "SELECT CASE WHEN id = 1 THEN now() ELSE noted END FROM visits",
    ] {
        assert_eq!(answered(&clients[1], refused).await, Err("0A000".into()), "{refused}");
    }
    let day = answered(&clients[1], "SELECT coalesce(at, now())::text LIKE '20%' FROM visits").await;
    assert!(day.is_err() || day == Ok(vec!["?column?".into(), "t".into(), "1 rows".into()]), "{day:?}");
}
