//! `order = "fh_ope"`.

use super::Pair;
use crate::extended::connect;
use bytes::Bytes;
use futures_util::SinkExt;
use std::collections::HashMap;
use std::time::Duration;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

const SCHEMA: &str = r#"
[tables."public.visits"]
age = { id = "5f0c9d3e21b7a831", type = "integer", operations = ["order", "sum"], order = "fh_ope" }
score = { id = "5f0c9d3e21b7a832", type = "bigint", operations = ["equality", "order"], order = "fh_ope" }
city = { id = "5f0c9d3e21b7a833", type = "text", operations = ["order"], order = "fh_ope", max_bytes = 16 }
"#;

const CREATE: &str =
    "CREATE TABLE visits (id int PRIMARY KEY, age int, score bigint, city text COLLATE \"C\")";

/// Columns, and constants that they are compared with: stored often, once and not at all, and beyond the type.
const COMPARED: [(&str, &[&str]); 3] = [
    ("age", &["3", "0", "-1", "70", "3000000000", "NULL"]),
    ("score", &["1", "2", "99", "-42"]),
    ("city", &["'b'", "'aa'", "''", "'zz and much more than fits'"]),
];

/// So many rows from an id on, of few values.
fn insert(from: usize, rows: usize) -> String {
    let row = |id: usize| {
        let city = ["a", "b", "bb", "b"][id % 4];
        format!("({id}, {}, {}, '{city}')", [3, 7, 3, 3, 9][id % 5], id % 3)
    };
    let rows: Vec<String> = (from..from + rows).map(row).collect();
    format!("INSERT INTO visits VALUES {}", rows.join(", "))
}

/// Ciphertexts of the rows of a column, and which row had each, over the whole of a history.
#[derive(Default)]
struct History(HashMap<(&'static str, Vec<u8>), i32>);

impl History {
    /// Looks at what rows have now: labels and ciphertexts of theirs alone, now and at all times.
    async fn look(&mut self, direct: &Client) {
        for (column, id) in [
            ("age", 0x5f0c_9d3e_21b7_a831_i64),
            ("score", 0x5f0c_9d3e_21b7_a832),
            ("city", 0x5f0c_9d3e_21b7_a833),
        ] {
            let text = format!(
                "SELECT v.id, e.ciphertext FROM visits v LEFT JOIN arras.mope_entry e ON e.column_id = {id} \
                 AND e.label = v.\"{column}$ord\" WHERE v.{column} IS NOT NULL"
            );
            let mut now = 0;
            for row in direct.query(&text, &[]).await.unwrap() {
                let (id, ciphertext): (i32, Vec<u8>) = (row.get(0), row.get(1));
                let owner = *self.0.entry((column, ciphertext)).or_insert(id);
                assert_eq!(owner, id, "rows share a ciphertext of {column}");
                now += 1;
            }
            let labels = format!("SELECT count(DISTINCT \"{column}$ord\") FROM visits");
            assert_eq!(direct.query_one(&labels, &[]).await.unwrap().get::<_, i64>(0), now, "{column}");
        }
    }
}

async fn copy_in(client: &Client, rows: std::ops::Range<usize>) {
    let sink = client.copy_in::<_, Bytes>("COPY visits (id, age, city) FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    for id in rows {
        sink.send(Bytes::from(format!("{id}\t3\tb\n"))).await.unwrap();
    }
    sink.finish().await.unwrap();
}

/// All that is asked of the columns; how many rows were compared.
async fn asked(pair: &Pair) -> usize {
    let mut found = 0;
    for (column, constants) in COMPARED {
        for constant in constants {
            for operator in ["<", "<=", ">", ">=", "=", "<>"] {
                let statement =
                    format!("SELECT id FROM visits WHERE {column} {operator} {constant} ORDER BY id");
                found += pair.same(&statement).await;
            }
            let other = constants[0];
            for condition in [
                format!("{constant} < {column}"),
                format!("NOT {constant} = {column}"),
                format!("{column} IN ({other}, {constant})"),
                format!("{column} NOT IN ({other}, {constant})"),
                format!("{column} BETWEEN {constant} AND {other}"),
                format!("{column} NOT BETWEEN {other} AND {constant}"),
                format!("CASE WHEN {column} = {constant} THEN id > 5 ELSE false END"),
            ] {
                found += pair.same(&format!("SELECT id FROM visits WHERE {condition} ORDER BY id")).await;
            }
        }
        for statement in [
            format!("SELECT {column} FROM visits ORDER BY {column}"),
            format!("SELECT {column} FROM visits ORDER BY {column} DESC NULLS LAST LIMIT 7 OFFSET 2"),
            format!("SELECT id % 2, {column} FROM visits ORDER BY id % 2, {column}"),
            format!("SELECT min({column}), max({column}), count({column}) FROM visits"),
            format!(
                "SELECT {column}, row_number() OVER (ORDER BY {column}), lag({column}) OVER (ORDER BY {column}) FROM visits ORDER BY 2"
            ),
            format!(
                "SELECT id % 3 FROM visits GROUP BY id % 3 HAVING max({column}) >= {} ORDER BY 1",
                constants[0]
            ),
        ] {
            found += pair.same(&statement).await;
        }
    }
    for statement in [
        "SELECT score, count(*) FROM visits GROUP BY score ORDER BY score",
        "SELECT score FROM visits GROUP BY score HAVING count(*) > 1 ORDER BY score DESC NULLS LAST",
        "SELECT score FROM visits GROUP BY score HAVING score > 5 ORDER BY score",
        "WITH x AS (SELECT score FROM visits GROUP BY score) SELECT score FROM x ORDER BY score NULLS FIRST",
        "SELECT count(DISTINCT score) FROM visits",
        "SELECT a.id, b.id FROM visits a JOIN visits b ON a.score = b.score WHERE a.age = 9 AND b.id < 20 ORDER BY 1, 2",
        "SELECT sum(age) FROM visits WHERE age < 8",
        "SELECT id, age, score, city FROM visits ORDER BY id",
    ] {
        found += pair.same(statement).await;
    }
    found
}

#[tokio::test]
async fn columns_ordered_by_fh_ope_answer_as_plain_ones_do_and_no_two_rows_share_a_term() {
    let mut pair = Pair::start(SCHEMA, CREATE).await;
    let direct = pair.direct().await;
    let mut history = History::default();
    pair.same(&insert(1, 60)).await;
    pair.same("INSERT INTO visits VALUES (0, NULL, NULL, NULL)").await;
    history.look(&direct).await;
    assert!(asked(&pair).await > 2000);
    for statement in [
        "UPDATE visits SET age = 3 WHERE age = 7 OR id < 5",
        "UPDATE visits SET age = age + 1, score = 1 WHERE age >= 3 AND id % 7 = 0",
        "UPDATE visits SET age = coalesce(age, 3), city = 'b' WHERE age IS NULL",
        "UPDATE visits SET city = city, age = NULL WHERE id = 9",
        "DELETE FROM visits WHERE city = 'bb' AND age <= 3",
        "INSERT INTO visits (id, age, score) SELECT id + 1000, age, 2 FROM visits WHERE age = 3 ORDER BY id",
        "INSERT INTO visits (id, age) SELECT g + 3000, 3 FROM generate_series(1, 20) AS g",
        "INSERT INTO visits (id, age, city) SELECT * FROM unnest('{2001,2002,2003}'::int[], '{3,3,NULL}'::int[], \
         '{b,b,b}'::text[])",
        "INSERT INTO visits (id, age) SELECT id, age FROM (VALUES (2011, 3), (2012, 3)) AS v (id, age)",
        "INSERT INTO visits (id, age) VALUES (1, 3), (2011, 3) ON CONFLICT (id) DO UPDATE SET age = EXCLUDED.age",
        "DELETE FROM visits WHERE score = 1",
    ] {
        pair.same(statement).await;
        history.look(&direct).await;
    }
    for client in [&pair.plain, &pair.encrypted] {
        copy_in(client, 4000..4300).await;
        let insert = client.prepare("INSERT INTO visits (id, age, score) VALUES ($1, $2, 3)").await.unwrap();
        for id in 5000..5005 {
            client.execute(&insert, &[&id, &Some(3)]).await.unwrap();
        }
        let update = client.prepare("UPDATE visits SET age = $1 WHERE id >= $2 AND age = $3").await.unwrap();
        assert_eq!(client.execute(&update, &[&4, &4200, &3]).await.unwrap(), 105);
        client.batch_execute("BEGIN; INSERT INTO visits VALUES (6000, 3, 3, 'b'); ROLLBACK").await.unwrap();
        client.batch_execute("PREPARE p (int) AS INSERT INTO visits (id, age) VALUES ($1, 3)").await.unwrap();
        client.batch_execute("EXECUTE p (7001); EXECUTE p (7002)").await.unwrap();
    }
    history.look(&direct).await;
    assert!(asked(&pair).await > 10_000);
    let (well, said) = pair.proxy.doctor(&pair.server, "encrypted", true);
    assert!(well && said.contains("rows open and agree with their terms"), "{said}");
    // A proxy that knows nothing finds all in the database, and sweeps out what no row has.
    pair.proxy.killed_and_restarted(&pair.server, "encrypted");
    pair.encrypted = connect(&pair.proxy.uri("encrypted")).await;
    assert!(asked(&pair).await > 10_000);
    pair.same(&insert(8000, 5)).await;
    history.look(&direct).await;
    let past = connect(&pair.proxy.uri("encrypted")).await;
    past.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM visits").await.unwrap();
    let executing = connect(&pair.proxy.uri("encrypted")).await;
    executing
        .batch_execute("PREPARE q (int) AS SELECT id FROM visits WHERE age >= $1 AND id = 8001")
        .await
        .unwrap();
    executing
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM visits")
        .await
        .unwrap();
    pair.same("DELETE FROM visits WHERE id = 8001").await;
    swept(&direct).await;
    let late = executing.batch_execute("EXECUTE q (3)").await.unwrap_err();
    assert_eq!(late.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{late}");
    // It sees a row whose key has gone: what the constant is beside now says nothing of that.
    let late = past.query("SELECT id FROM visits WHERE age >= 3 AND id = 8001", &[]).await.unwrap_err();
    assert_eq!(late.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{late}");
    let (well, said) = pair.proxy.doctor(&pair.server, "encrypted", true);
    assert!(well, "{said}");
}

/// Waits until the tables of labels have as many keys as there are rows.
async fn swept(direct: &Client) {
    let text = "SELECT (SELECT count(age) + count(score) + count(city) FROM visits), (SELECT count(*) FROM arras.mope_entry)";
    loop {
        let row = direct.query_one(text, &[]).await.unwrap();
        let (rows, keys): (i64, i64) = (row.get(0), row.get(1));
        assert!(keys >= rows, "{keys} keys of {rows} rows");
        if keys == rows {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn equal_values_of_several_writers_and_proxies_have_terms_of_their_own() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    let beside = pair.proxy.beside(&pair.server, "encrypted");
    let mut writers = Vec::new();
    for writer in 0..4 {
        let uri = if writer < 2 { pair.proxy.uri("encrypted") } else { beside.uri("encrypted") };
        writers.push(tokio::spawn(async move {
            let client = connect(&uri).await;
            for round in 0..8 {
                let from = 1000 * writer + 10 * round;
                client.batch_execute(&insert(from, 5)).await.unwrap();
                client.batch_execute(&format!("UPDATE visits SET age = 3 WHERE id = {from}")).await.unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let direct = pair.direct().await;
    History::default().look(&direct).await;
    let count = pair.encrypted.query_one("SELECT count(*) FROM visits WHERE age = 3", &[]).await.unwrap();
    let rows = pair.encrypted.query("SELECT age FROM visits", &[]).await.unwrap();
    let threes = rows.iter().filter(|row| row.get::<_, i32>(0) == 3).count();
    assert_eq!(count.get::<_, i64>(0), i64::try_from(threes).unwrap());
    assert!(rows.len() == 160 && threes > 90, "{threes} of {}", rows.len());
    let (well, said) = pair.proxy.doctor(&pair.server, "encrypted", true);
    assert!(well, "{said}");
}

/// Rows that equal a constant come into the order, at its ends as elsewhere, while statements go by what these were.
#[tokio::test]
async fn what_denies_that_rows_equal_a_constant_takes_none_that_comes_meanwhile() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    pair.encrypted.batch_execute("INSERT INTO visits (id, age) VALUES (-1, 3)").await.unwrap();
    let mut writers = Vec::new();
    for writer in 0..3 {
        let client = connect(&pair.proxy.uri("encrypted")).await;
        writers.push(tokio::spawn(async move {
            for id in 1000 * writer..1000 * writer + 150 {
                let others =
                    format!("INSERT INTO visits (id, age) VALUES ({id}, 3), ({}, {})", id + 500, id % 9);
                client.batch_execute(&others).await.unwrap();
            }
        }));
    }
    let mut rounds = 0;
    while writers.iter().any(|writer| !writer.is_finished()) || rounds == 0 {
        for condition in [
            "age <> 3",
            "NOT (age = 3)",
            "age NOT IN (3)",
            "age NOT BETWEEN 3 AND 3",
            "NOT (age >= 3 AND age <= 3)",
        ] {
            pair.encrypted.batch_execute(&format!("DELETE FROM visits WHERE {condition}")).await.unwrap();
            rounds += 1;
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    pair.encrypted.batch_execute("DELETE FROM visits WHERE age <> 3").await.unwrap();
    let kept = pair.encrypted.query_one("SELECT count(*) FROM visits", &[]).await.unwrap();
    // 150 of each writer, and those of the others that equal it.
    let others =
        (0..3).flat_map(|writer| 1000 * writer..1000 * writer + 150).filter(|id| id % 9 == 3).count();
    assert_eq!(kept.get::<_, i64>(0), 1 + 450 + i64::try_from(others).unwrap(), "{rounds} statements");
}

#[tokio::test]
async fn what_fh_ope_hides_is_refused_and_a_shared_label_is_found() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    pair.same(&insert(1, 20)).await;
    for (statement, part) in [
        ("SELECT id FROM visits ORDER BY age, id", "order = \"mope\""),
        ("SELECT rank() OVER (ORDER BY age) FROM visits", "order = \"mope\""),
        ("SELECT count(*) FROM visits GROUP BY age", "\"equality\""),
        ("SELECT DISTINCT age FROM visits", "\"equality\""),
        ("SELECT id FROM visits WHERE age = ANY('{1,7}')", "\"equality\""),
        ("UPDATE visits SET age = DEFAULT", "a term of its own"),
        ("ALTER TABLE visits ADD UNIQUE (age)", "\"unique\""),
    ] {
        let (code, said, place) = pair.refused(statement).await;
        assert!(code == "0A000" && said.contains("visits.age") && said.contains(part), "{statement}: {said}");
        let expected = u32::try_from(statement.rfind("age").unwrap() + 1).unwrap();
        assert!(place == Some(expected) || statement.starts_with("ALTER"), "{statement}: {place:?}");
    }
    let direct = pair.direct().await;
    let damage = "UPDATE visits a SET age = b.age, \"age$ord\" = b.\"age$ord\" FROM visits b WHERE a.id = 1 AND b.id = 2";
    direct.batch_execute(damage).await.unwrap();
    let (well, said) = pair.proxy.doctor(&pair.server, "encrypted", true);
    assert!(!well && said.contains("1 rows have a label that is another row's, too"), "{said}");
}

/// A statement whose bounds were looked up, and that runs only when the rows at these bounds have gone: their keys stay for it,
/// while others that went with the same rows are swept out.
#[tokio::test]
async fn a_read_that_waits_answers_though_the_rows_at_its_bounds_have_gone() {
    const BOTH: &str = r#"
        [tables."public.visits"]
        age = { id = "5f0c9d3e21b7a831", type = "integer", operations = ["order"], order = "fh_ope" }
        score = { id = "5f0c9d3e21b7a832", type = "bigint", operations = ["order"], order = "stope" }
    "#;
    let mut pair = Pair::start(
        BOTH,
        "CREATE TABLE visits (id int PRIMARY KEY, age int, score bigint); CREATE TABLE other ()",
    )
    .await;
    let direct = pair.direct().await;
    for value in 1..=40 {
        pair.same(&format!("INSERT INTO visits VALUES ({value}, {value}, {value})")).await;
    }
    // One that has given no key out yet.
    pair.proxy.killed_and_restarted(&pair.server, "encrypted");
    pair.encrypted = connect(&pair.proxy.uri("encrypted")).await;
    let read =
        "SELECT count(*) FROM visits WHERE age <= $1 AND score >= $2 AND NOT EXISTS (SELECT FROM other)";
    let reader = connect(&pair.proxy.uri("encrypted")).await;
    // What is prepared waits only when it is run.
    let read = reader.prepare(read).await.unwrap();
    let gate = pair.direct().await;
    gate.batch_execute("BEGIN; LOCK other").await.unwrap();
    let waiting = tokio::spawn(async move { reader.query_one(&read, &[&20, &11_i64]).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while direct.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    pair.same("DELETE FROM visits WHERE id % 10 IN (0, 1)").await;
    let left = "SELECT column_id, count(*) FROM arras.mope_entry GROUP BY column_id ORDER BY column_id";
    loop {
        let rows = direct.query(left, &[]).await.unwrap();
        // 32 rows are left; no more than a key on either side of a bound stays with theirs.
        if rows.len() == 2 && rows.iter().all(|row| row.get::<_, i64>(1) <= 34) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    gate.batch_execute("COMMIT").await.unwrap();
    let found = waiting.await.unwrap().unwrap();
    assert_eq!(found.get::<_, i64>(0), 8);
}

/// As Django's `bulk_update` writes it.
#[tokio::test]
async fn rows_that_one_statement_gives_values_each_have_a_place_of_their_own() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    pair.same(&insert(1, 40)).await;
    let direct = pair.direct().await;
    let mut history = History::default();
    history.look(&direct).await;
    for statement in [
        "UPDATE visits SET age = CASE WHEN (visits.id = 1) THEN 3 WHEN (visits.id = 2) THEN 3 WHEN (visits.id = 3) THEN NULL ELSE NULL END \
         WHERE visits.id IN (1, 2, 3)",
        "UPDATE visits SET age = (CASE WHEN (visits.id = 4) THEN 9 ELSE NULL END)::integer, city = CASE WHEN id < 5 THEN 'b' ELSE city END, \
         score = CASE id WHEN 4 THEN score + 1 ELSE 5 END WHERE id IN (4, 5)",
        "UPDATE visits SET age = CASE WHEN age > 5 THEN age - 5 WHEN city = 'a' THEN 1 ELSE age END WHERE id > 10",
        "UPDATE visits SET score = CASE WHEN score IS NULL THEN 0 END WHERE id = 40 RETURNING id, score",
        "UPDATE visits SET age = coalesce(age, CASE WHEN id > 20 THEN 1 ELSE 2 END), score = CASE WHEN 10 / id > 3 THEN 1 ELSE score END \
         WHERE id > 0",
    ] {
        pair.same(statement).await;
        pair.same("SELECT * FROM visits ORDER BY id").await;
        let mut now = History::default();
        now.look(&direct).await;
    }
    let bound = "UPDATE visits SET age = CASE WHEN (id = $1) THEN $2::int WHEN (id = $3) THEN $4::int ELSE NULL END WHERE id IN ($1, $3)";
    for client in [&pair.plain, &pair.encrypted] {
        assert_eq!(client.execute(bound, &[&7, &42, &8, &42]).await.unwrap(), 2);
    }
    asked(&pair).await;
    let (code, said, _) =
        pair.refused("UPDATE visits SET age = v.a FROM (VALUES (1, 5)) AS v (i, a) WHERE id = i").await;
    assert!(code == "0A000" && said.contains("has FROM"), "{code} {said}");
}
