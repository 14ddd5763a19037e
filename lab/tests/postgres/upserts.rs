//! `INSERT ... ON CONFLICT DO UPDATE` with values that the proxy computes: what PostgreSQL answers to the same in plaintext, also
//! where several sessions meet at one key.

use crate::extended::connect;
use crate::spelled::{agree, answered, both, refused};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

const SCHEMA: &str = r#"
[tables."public.counters"]
tag = { id = "7a1b2c3d4e5f7c01", type = "text", operations = ["unique"] }
total = { id = "7a1b2c3d4e5f7c02", type = "integer", operations = ["equality", "order", "sum"] }
price = { id = "7a1b2c3d4e5f7c03", type = "numeric(6,2)", operations = ["order"], order = "stope" }
note = { id = "7a1b2c3d4e5f7c04", type = "text" }
age = { id = "7a1b2c3d4e5f7c05", type = "integer", operations = ["order"], order = "fh_ope" }
level = { id = "7a1b2c3d4e5f7c06", type = "integer", operations = ["order"], order = "lewi_wu" }
"#;

const CREATE: &str = "CREATE TABLE counters (id int PRIMARY KEY, tag text UNIQUE, total int DEFAULT 100, price numeric(6,2), note text, \
    age int, level int, plain int DEFAULT 1, doubled int GENERATED ALWAYS AS (plain * 2) STORED); CREATE TABLE logged (line int)";

const STATEMENTS: &[&str] = &[
    "INSERT INTO counters (id, tag, total) VALUES (1, 'a', 5) ON CONFLICT (id) DO UPDATE SET total = counters.total + EXCLUDED.total",
    "INSERT INTO counters (id, tag, total) VALUES (1, 'b', 7) ON CONFLICT (id) DO UPDATE SET total = counters.total + EXCLUDED.total",
    "TABLE counters",
    "INSERT INTO counters (id, tag, total) VALUES (1, 'b', 7) ON CONFLICT (id) DO UPDATE SET total = counters.total + EXCLUDED.total RETURNING *",
    "INSERT INTO counters (id, tag, total) VALUES (2, 'b', 7) ON CONFLICT (tag) DO UPDATE SET total = counters.total + EXCLUDED.total RETURNING id, tag, total",
    "INSERT INTO counters AS c (id, tag) VALUES (3, 'b') ON CONFLICT (tag) DO UPDATE SET total = c.total * 2 + EXCLUDED.total, plain = c.plain + EXCLUDED.plain RETURNING id, total, plain, c.doubled",
    "INSERT INTO public.counters (id, tag, price, level) VALUES (4, 'd', 1.239, 3) ON CONFLICT (id) DO UPDATE SET price = counters.price * EXCLUDED.price, level = counters.level - 1 RETURNING price, level",
    "INSERT INTO public.counters (id, tag, price, level) VALUES (4, 'd', 1.239, 3) ON CONFLICT (id) DO UPDATE SET price = counters.price * EXCLUDED.price, level = counters.level - 1 RETURNING price, level",
    "INSERT INTO counters (id, note) VALUES (4, 'x') ON CONFLICT (id) DO UPDATE SET note = coalesce(counters.note, '') || EXCLUDED.note, total = counters.total + 1 RETURNING note, total",
    "INSERT INTO counters (id, note) VALUES (4, 'y') ON CONFLICT (id) DO UPDATE SET (note, plain) = (counters.note || EXCLUDED.note, 9) RETURNING note, plain",
    "INSERT INTO counters (id, total) VALUES (4, NULL) ON CONFLICT (id) DO UPDATE SET total = counters.total + EXCLUDED.total RETURNING total",
    "INSERT INTO counters (id, total) VALUES (4, DEFAULT) ON CONFLICT (id) DO UPDATE SET total = coalesce(counters.total, 3) + 1 RETURNING total",
    "INSERT INTO counters (id, total) VALUES (5, 1), (1, 1), (6, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + 10 RETURNING id, total",
    "INSERT INTO counters (id, total) VALUES (5, 1), (1, 1), (6, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + counters.plain WHERE counters.id > 1 RETURNING id, total",
    "INSERT INTO counters (id, total) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + 1 WHERE counters.total < 5 RETURNING total",
    // Just as many rows as are read at first, and more.
    "INSERT INTO counters (id, total) VALUES (31, 1), (1, 1), (33, 1), (34, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + 10 RETURNING id, total",
    "INSERT INTO counters (id, total) VALUES (31, 1), (32, 1), (33, 1), (34, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + 10",
    "INSERT INTO counters (id, total) VALUES (31, 1), (32, 1), (33, 1), (34, 1), (35, 1), (1, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + 10 RETURNING id, total",
    "INSERT INTO counters (id, total) SELECT g, 1 FROM generate_series(30, 630) g WHERE true ON CONFLICT (id) DO UPDATE SET total = counters.total + 10",
    "INSERT INTO counters (id, total) SELECT g, 1 FROM generate_series(600, 700) g WHERE true ON CONFLICT (id) DO UPDATE SET total = counters.total + 10 RETURNING id, total",
    "SELECT count(*), sum(total) FROM counters",
    "DELETE FROM counters WHERE id >= 30",
    "INSERT INTO counters (id, total) VALUES (7, 1), (7, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + 1",
    "INSERT INTO counters (id, total) VALUES (7, 1) ON CONFLICT ON CONSTRAINT counters_pkey DO UPDATE SET total = -counters.total RETURNING total",
    "INSERT INTO counters (id, total) VALUES (7, 1) ON CONFLICT ON CONSTRAINT counters_pkey DO UPDATE SET total = -counters.total RETURNING total AS t, id + 1",
    "INSERT INTO counters (id, total) VALUES (7, 2147483647) ON CONFLICT (id) DO UPDATE SET total = EXCLUDED.total + 1",
    "INSERT INTO counters (id, total) VALUES (8, 2147483647) ON CONFLICT (id) DO UPDATE SET total = counters.total + 1",
    "INSERT INTO counters (id, total) VALUES (8, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + 1",
    "INSERT INTO counters (id, total) VALUES (7, 9999999999) ON CONFLICT (id) DO UPDATE SET total = counters.total + 1",
    "INSERT INTO counters (id, tag) VALUES (7, 'a') ON CONFLICT (id) DO UPDATE SET total = counters.total + 1 RETURNING tag",
    "INSERT INTO counters (id, tag) VALUES (9, 'a') ON CONFLICT (id) DO UPDATE SET total = counters.total + 1",
    "INSERT INTO counters (id, total) VALUES (7, 1) ON CONFLICT (id) DO UPDATE SET total = total + 1",
    "INSERT INTO counters (id, total) VALUES (7, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + plain",
    "INSERT INTO counters (id, total) VALUES (7, 1) ON CONFLICT (nope) DO UPDATE SET total = counters.total + 1",
    "INSERT INTO counters (id, total) SELECT 7, 1 WHERE true ON CONFLICT (id) DO UPDATE SET total = counters.total + 1 RETURNING total",
    "BEGIN; INSERT INTO counters (id, total) VALUES (20, 1); INSERT INTO counters (id, total) VALUES (20, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + 1 RETURNING total; INSERT INTO counters (id, total) VALUES (20, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + 1 RETURNING total; SAVEPOINT s; INSERT INTO counters (id, total) VALUES (20, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + 1 RETURNING total; ROLLBACK TO s; UPDATE counters SET plain = 4 WHERE id = 20; INSERT INTO counters (id, total) VALUES (20, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + 1 RETURNING total; COMMIT",
    "BEGIN ISOLATION LEVEL REPEATABLE READ; INSERT INTO counters (id, total) VALUES (20, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + 1 RETURNING total; COMMIT",
    "SELECT id, tag, total, price, note, level, plain FROM counters ORDER BY id",
];

const REFUSED: &[&str] = &[
    "INSERT INTO counters (id, total) VALUES (1, 987654), (2, 987654) ON CONFLICT (id) DO UPDATE SET total = counters.total + EXCLUDED.total",
    "INSERT INTO counters (id, age) VALUES (1, 987654) ON CONFLICT (id) DO UPDATE SET age = counters.age + 1",
    "INSERT INTO counters (id, total) VALUES (1, 987654) ON CONFLICT (id) DO UPDATE SET total = counters.total + counters.doubled, plain = 5",
    "INSERT INTO counters (id, note) VALUES (1, 'secret') ON CONFLICT (id) DO UPDATE SET note = counters.note || upper('secret')",
];

#[tokio::test]
async fn an_upsert_computes_as_in_plaintext() {
    let (server, proxy, clients) = both(SCHEMA, CREATE).await;
    agree(&clients, STATEMENTS).await;
    refused(&server, &clients[1], REFUSED, &["secret", "987654"]).await;
    let (well, said) = proxy.doctor(&server, "postgres", true);
    assert!(well, "{said}");
    // What triggers do, they would do twice; of INSERT they do what they do.
    let count = "INSERT INTO counters (id, total) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + 1";
    for client in &clients {
        client
            .batch_execute(
                "CREATE FUNCTION logs() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO logged VALUES (1); RETURN NEW; END'",
            )
            .await
            .unwrap();
    }
    let direct = connect(&server.uri("postgres")).await;
    for (event, code) in [("INSERT", None), ("UPDATE", Some("0A000"))] {
        let create = format!(
            "CREATE TRIGGER on_{event} BEFORE {event} ON counters FOR EACH ROW EXECUTE FUNCTION logs()"
        );
        clients[0].batch_execute(&create).await.unwrap();
        direct.batch_execute(&create).await.unwrap();
        let expected = answered(&clients[0], count).await;
        let found = answered(&clients[1], count).await;
        match code {
            None => assert_eq!(found, expected, "{event}"),
            Some(code) => assert_eq!(found, Err(code.to_owned()), "{event}"),
        }
    }
    assert_eq!(answered(&clients[1], "SELECT count(*) FROM logged").await.unwrap(), ["count", "1", "1 rows"]);
}

#[tokio::test]
async fn an_upsert_takes_parameters() {
    let (_server, _proxy, clients) = both(SCHEMA, CREATE).await;
    let mut all = Vec::new();
    for client in &clients {
        let upsert = "INSERT INTO counters (id, total, note) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET total = counters.total + \
                      EXCLUDED.total * $4, note = $3, plain = $5 RETURNING total, note, plain";
        let prepared = client.prepare(upsert).await.unwrap();
        let mut found: Vec<String> = prepared.params().iter().map(ToString::to_string).collect();
        for total in [Some(3_i32), Some(4), None] {
            let given: [&(dyn ToSql + Sync); 5] = [&1, &total, &"x", &2, &total];
            for row in client.query(&prepared, &given).await.unwrap() {
                found.push(format!(
                    "{:?} {} {:?}",
                    row.get::<_, Option<i32>>(0),
                    row.get::<_, String>(1),
                    row.get::<_, Option<i32>>(2)
                ));
            }
        }
        all.push(found);
    }
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0].last().unwrap(), "None x None");
}

/// A counter that a session raises so many times.
async fn count(client: Client, tag: i32, times: i32) -> i32 {
    for _ in 0..times {
        let count = "INSERT INTO counters (id, total) VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET total = counters.total + EXCLUDED.total";
        client.execute(count, &[&tag]).await.unwrap();
        // Now and then it is gone, with what was counted: that is counted, too.
    }
    times
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_several_sessions_count_is_lost() {
    let (server, proxy, clients) = both(SCHEMA, CREATE).await;
    let mut counting = Vec::new();
    for session in 0..6 {
        let client = connect(&proxy.uri("postgres")).await;
        counting.push(tokio::spawn(count(client, session % 2, 25)));
    }
    // Rows that are there leave meanwhile, with what was counted until then.
    let mut taken = 0;
    for _ in 0..10 {
        let rows = clients[1].query("DELETE FROM counters WHERE id = 0 RETURNING total", &[]).await.unwrap();
        taken += rows.iter().map(|row| row.get::<_, i32>(0)).sum::<i32>();
    }
    let mut expected = 0;
    for session in counting {
        expected += session.await.unwrap();
    }
    let left = clients[1].query("SELECT total FROM counters", &[]).await.unwrap();
    let left: i32 = left.iter().map(|row| row.get::<_, i32>(0)).sum();
    assert_eq!(left + taken, expected);
    let (well, said) = proxy.doctor(&server, "postgres", true);
    assert!(well, "{said}");
}

/// Whoever comes to a key that is being inserted waits, and computes of what is there then.
#[tokio::test]
async fn an_upsert_waits_for_a_row_that_another_session_inserts() {
    let (server, proxy, [_, first]) = both(SCHEMA, CREATE).await;
    let direct = connect(&server.uri("postgres")).await;
    let upsert = "INSERT INTO counters (id, total) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET total = counters.total + EXCLUDED.total RETURNING total";
    for (ends, total) in [("ROLLBACK", "5"), ("COMMIT", "15"), ("COMMIT", "25")] {
        let second = connect(&proxy.uri("postgres")).await;
        first.batch_execute("BEGIN").await.unwrap();
        answered(&first, upsert).await.unwrap();
        let waits = async { answered(&second, upsert).await.unwrap() };
        let end = async {
            let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'";
            while direct.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            first.batch_execute(ends).await.unwrap();
        };
        let (found, ()) = tokio::join!(waits, end);
        assert_eq!(found, ["total", total, "1 rows"], "{ends}");
    }
}
