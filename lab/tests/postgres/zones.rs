//! Sessions in time zones other than UTC: moments of encrypted columns are read and shown by the zone's clock, as PostgreSQL does it.

use crate::copied::{out, sent};
use crate::moments::texts;
use crate::spelled::{answered, both};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

const SCHEMA: &str = r#"
[tables."public.visits"]
day = { id = "6c1b2c3d4e5f7c01", type = "date", operations = ["equality", "order"] }
at = { id = "6c1b2c3d4e5f7c02", type = "timestamptz", operations = ["unique", "order"] }
noted = { id = "6c1b2c3d4e5f7c03", type = "timestamp", operations = ["equality", "order"], order = "stope" }
ended = { id = "6c1b2c3d4e5f7c04", type = "timestamptz", operations = ["order"], order = "fh_ope" }
bare = { id = "6c1b2c3d4e5f7c05", type = "timestamptz" }
"#;

const CREATE: &str = "CREATE TABLE visits (id int PRIMARY KEY, day date, at timestamptz UNIQUE, noted timestamp, ended timestamptz DEFAULT now(), \
    bare timestamptz, said text)";

/// Zones with summer times of an hour and of half of one, in both halves of the earth, and without; by what is told PostgreSQL.
const ZONES: &[&str] = &[
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "america/sao_paulo",
    "Africa/Monrovia",
    "Pacific/Apia",
    "Etc/GMT-3",
];

/// Clocks that are said twice or never somewhere, and others.
const CLOCKS: &[&str] = &[
    "2024-03-31 02:30",
    "2024-03-31 03:00",
    "2024-10-27 01:59:59.999999",
    "2024-10-27 02:30",
    "2024-10-27 03:00:00",
    "2024-03-10 02:15",
    "2024-11-03 01:30",
    "2024-04-07 01:45",
    "2024-10-06 02:15",
    "2018-11-04 00:30",
    "1999-12-31 23:59:59.5",
    "1970-01-01 00:00",
    "1945-05-24 03:30",
    "1936-08-01 12:00",
    "2024-07-01",
    "20240101T101112",
    "1850-06-01 12:00",
    "1900-01-01",
    "0001-01-01",
    "2099-11-15",
    "2099-10-25 02:30",
    "2400-07-01 12:00",
    "9999-12-31",
    "infinity",
    "2024-06-01 12:00+09:30",
];

const STATEMENTS: &[&str] = &[
    "SELECT id, at, bare, noted, day FROM visits ORDER BY at, id",
    "SELECT min(at), max(at) FROM visits",
    "SELECT id FROM visits WHERE at < '9999-12-31' AND at > date '0001-01-02' ORDER BY id",
    "SELECT id FROM visits WHERE at < '2024-10-27 02:30' ORDER BY id",
    "SELECT id FROM visits WHERE at >= '2024-03-31 02:30' AND at <> '2024-03-31 03:00' ORDER BY id",
    "SELECT id FROM visits WHERE at >= date '2024-03-31' AND at <= '2024-10-27 02:30' ORDER BY id",
    "SELECT id FROM visits WHERE at IN ('2024-10-27 02:30', '2024-07-01') ORDER BY id",
    "SELECT id FROM visits WHERE ended = '2024-10-27 02:30' ORDER BY id",
    "UPDATE visits SET day = '2024-03-31 23:30:00+00'::timestamptz, noted = timestamptz '2024-10-27 00:30:00+00' WHERE id = 4",
    "UPDATE visits SET bare = date '2024-03-31', ended = timestamp '2024-10-27 02:30' WHERE id = 5",
    "SELECT id, day, noted, bare, ended FROM visits WHERE id BETWEEN 4 AND 5 ORDER BY id",
    "INSERT INTO visits (id, at) VALUES (101, '2024-07-01')",
    "INSERT INTO visits (id, at) VALUES (102, '2024-13-01 10:00')",
    "UPDATE visits SET ended = coalesce(ended, '2024-11-03 01:30') WHERE id > 3",
    "SELECT id FROM visits WHERE ended >= '2024-11-03 01:30' AND ended < '2024-11-04' ORDER BY id",
    "INSERT INTO visits (id, at, day, noted) VALUES (200, now() - interval '1 month', current_date - 3, localtimestamp), \
     (201, date_trunc('month', now()), date_trunc('week', now()), now() + interval '40 days'), \
     (202, date_trunc('hour', now() - interval '1 year'), now() - interval '13 hours', date_trunc('year', localtimestamp))",
    "SELECT id FROM visits WHERE at > now() - interval '1 month 1 day' AND at < now() ORDER BY id",
    "SELECT id FROM visits WHERE at >= date_trunc('month', now()) AND id < 300 ORDER BY id",
    "SELECT id FROM visits WHERE at >= current_date - 40 AND at < 'infinity' ORDER BY id",
    "SELECT id FROM visits WHERE day = current_date - 3 ORDER BY id",
    "SELECT id, at = date_trunc('month', now()) FROM visits WHERE id = -1",
];

/// What both sides say of a statement, where they differ.
async fn differs(clients: &[Client; 2], statement: &str) -> Option<String> {
    let [plain, encrypted] = [answered(&clients[0], statement).await, answered(&clients[1], statement).await];
    (plain != encrypted).then(|| format!("{statement}\n  {plain:?}\n  {encrypted:?}"))
}

#[tokio::test]
async fn moments_are_read_and_shown_by_the_clock_of_the_session_s_zone() {
    let (_server, _proxy, clients) = both(SCHEMA, CREATE).await;
    let mut wrong = Vec::new();
    for zone in ZONES {
        for client in &clients {
            client.batch_execute(&format!("SET TimeZone = '{zone}'")).await.unwrap();
        }
        let inserted = CLOCKS.iter().enumerate().map(|(id, clock)| {
            format!(
                "INSERT INTO visits VALUES ({id}, '2024-05-05', '{clock}', '{clock}', '{clock}', '{clock}')"
            )
        });
        let cleared = ["DELETE FROM visits".to_owned()].into_iter();
        for statement in cleared.chain(inserted).chain(STATEMENTS.iter().map(|text| (*text).to_owned())) {
            wrong.extend(differs(&clients, &statement).await.map(|said| format!("{zone}: {said}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut copied = Vec::new();
    for client in &clients {
        client.batch_execute("SET TimeZone = 'Europe/Berlin'; DELETE FROM visits").await.unwrap();
        let rows = b"1\t2024-03-31 02:30\n2\t2024-10-27 02:30\n3\t2024-07-01 12:00+00\n";
        sent(client, "COPY visits (id, at) FROM STDIN", rows, 7).await.unwrap();
        copied.push(out(client, "COPY visits (id, at) TO STDOUT").await.unwrap());
    }
    assert_eq!(String::from_utf8_lossy(&copied[0]), String::from_utf8_lossy(&copied[1]));
}

#[tokio::test]
async fn a_zone_that_is_set_back_or_set_within_a_text_is_in_doubt_and_other_texts_are_not() {
    let (_server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    client.batch_execute("SET TimeZone = 'Europe/Berlin'").await.unwrap();
    assert_eq!(texts(&client, "SELECT count(at) FROM visits").await, ["0"]);
    let put = |id: usize| format!("INSERT INTO visits (id, bare) VALUES ({id}, '2024-07-01 12:00')");
    for (id, before) in [
        "DO $$ BEGIN SET TimeZone = 'Asia/Tokyo'; END $$",
        "UPDATE pg_settings SET setting = 'Asia/Tokyo' WHERE name = 'TimeZone'",
        "ROLLBACK TO s",
    ]
    .iter()
    .enumerate()
    {
        client.batch_execute("BEGIN; SAVEPOINT s").await.unwrap();
        client.batch_execute("SET TimeZone = 'Asia/Tokyo'").await.unwrap();
        let both = answered(&client, &format!("{before}; {}", put(id))).await;
        assert_eq!(both, Err("22007".into()), "{before}");
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    // Long texts, and ones with words of others.
    let rows: Vec<String> =
        (0..300).map(|id| format!("({id}, '2024-07-01 12:00', 'the weekend {}')", "x".repeat(60))).collect();
    let long = format!("INSERT INTO visits (id, ended, said) VALUES {}", rows.join(", "));
    client.batch_execute(&long).await.unwrap();
    client.batch_execute("PREPARE q AS SELECT 1").await.unwrap();
    client.batch_execute(&format!("EXECUTE q; {}", put(500))).await.unwrap();
    client.batch_execute("PREPARE z AS SELECT set_config('TimeZone', 'Asia/Tokyo', false)").await.unwrap();
    assert_eq!(answered(&client, &format!("EXECUTE z; {}", put(501))).await, Err("22007".into()));
    assert_eq!(
        texts(&client, "SELECT count(*) FROM visits WHERE ended = '2024-07-01 12:00+02'").await,
        ["300"]
    );
}

#[tokio::test]
async fn a_zone_is_not_asked_for_before_a_transaction_is_set() {
    let (_server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    client.batch_execute("SET TimeZone = 'America/Denver'").await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    client
        .batch_execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT at FROM visits")
        .await
        .unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    // The word alone sets none.
    client.batch_execute("SET TimeZone = 'America/Lima'").await.unwrap();
    let put = "INSERT INTO visits (id, bare, said) VALUES (1, '2024-07-01 12:00', 'a transaction')";
    client.batch_execute(put).await.unwrap();
    assert_eq!(texts(&client, "SELECT bare FROM visits").await, ["2024-07-01 12:00:00-05"]);
}

#[tokio::test]
async fn what_is_shown_is_of_no_other_type_than_in_plaintext() {
    let (_server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    client.batch_execute("SET TimeZone = 'UTC'; INSERT INTO visits (id) VALUES (1)").await.unwrap();
    for (shown, kind) in [("coalesce(day, $1)", Type::TIMESTAMP), ("coalesce(noted, $1)", Type::TIMESTAMPTZ)]
    {
        let statement = format!("SELECT {shown} FROM visits");
        let moment = std::time::SystemTime::UNIX_EPOCH;
        let answer = client.query_typed(&statement, &[(&moment, kind)]).await;
        assert_eq!(answer.unwrap_err().code().map(SqlState::code), Some("42804"), "{statement}");
    }
    // It would hang on the zone of each statement that stores it.
    let set = "ALTER TABLE visits ALTER bare SET DEFAULT timestamp '2024-07-01 12:00'";
    assert_eq!(answered(&client, set).await, Err("0A000".into()));
}

#[tokio::test]
async fn what_clocks_said_is_not_compared_with_moments_but_in_utc() {
    let (_server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    client.batch_execute("SET TimeZone = 'Europe/Berlin'").await.unwrap();
    for statement in [
        "SELECT id FROM visits WHERE noted < now()",
        "SELECT id FROM visits WHERE day > now()",
        "SELECT id FROM visits WHERE day IN (now(), '2024-01-01 00:00+01'::timestamptz)",
    ] {
        assert_eq!(answered(&client, statement).await, Err("42804".into()), "{statement}");
    }
    client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
    assert_eq!(texts(&client, "SELECT id FROM visits WHERE noted < now() OR day > now()").await, [""; 0]);
}

#[tokio::test]
async fn a_zone_of_other_rules_is_as_unknown_as_one_without_a_name() {
    let (_server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    client.batch_execute("INSERT INTO visits (id, bare) VALUES (1, '2024-07-01 12:00:00+00')").await.unwrap();
    for zone in ["'<+03>-03'", "INTERVAL '+05:30' HOUR TO MINUTE", "'posixrules'", "'FOO7BAR'"] {
        let set = format!("SET TIME ZONE {zone}");
        if client.batch_execute(&set).await.is_err() {
            continue;
        }
        assert_eq!(texts(&client, "SELECT bare FROM visits").await, ["2024-07-01 12:00:00+00"], "{zone}");
        let put = "INSERT INTO visits (id, bare) VALUES (2, '2024-07-01 12:00')";
        assert_eq!(answered(&client, put).await, Err("22007".into()), "{zone}");
    }
    // What is known when the statement runs counts, also of a zone that was not seen before.
    client.batch_execute("BEGIN; SET LOCAL TimeZone = 'Asia/Tokyo'").await.unwrap();
    assert_eq!(texts(&client, "SELECT bare FROM visits").await, ["2024-07-01 21:00:00+09"]);
    client.batch_execute("ROLLBACK; SET TimeZone = 'Asia/Tokyo'").await.unwrap();
    let statement =
        client.prepare("SELECT id FROM visits WHERE bare IS NOT NULL AND at IS NULL").await.unwrap();
    client.batch_execute("SET TimeZone = 'Asia/Seoul'").await.unwrap();
    assert_eq!(client.query(&statement, &[]).await.unwrap().len(), 1);
    assert_eq!(texts(&client, "SELECT bare FROM visits").await, ["2024-07-01 21:00:00+09"]);
}
