//! Keyset pagination: rows are compared with rows by their order.

use crate::encrypted::rows;
use crate::pair::Pair;

const SCHEMA: &str = r#"
[tables."public.posts"]
score = { id = "6a1b2c3d4e5f9001", type = "integer", operations = ["order"] }
title = { id = "6a1b2c3d4e5f9002", type = "varchar(20)", operations = ["order"], max_bytes = 20 }
made = { id = "6a1b2c3d4e5f9003", type = "timestamptz", operations = ["order"], order = "stope" }
likes = { id = "6a1b2c3d4e5f9004", type = "integer", operations = ["order"], order = "fh_ope" }
size = { id = "6a1b2c3d4e5f9005", type = "integer", operations = ["order"], order = "lewi_wu" }
place = { id = "6a1b2c3d4e5f9006", type = "integer", operations = ["order"], order = "bclo" }
"#;

/// Values that come again, and NULLs among them.
const CREATE: &str = "CREATE TABLE posts (id int PRIMARY KEY, score int, title varchar(20), made timestamptz, likes int, size int, place int, n int)";

fn insert() -> String {
    let some = |value: i64, present: bool| if present { value.to_string() } else { "NULL".into() };
    let row = |id: i64| {
        format!(
            "({id}, {}, 'p{}', '2024-01-0{} 10:00:00+00', {}, {}, {}, {})",
            some(id * 7 % 5, id % 11 != 0),
            id % 4,
            1 + id % 3,
            id % 6,
            some(id % 3, id % 7 != 0),
            id * 5 % 9,
            some(id % 4, id % 5 != 0),
        )
    };
    let rows: Vec<String> = (1..=60).map(row).collect();
    format!("INSERT INTO posts VALUES {}", rows.join(", "))
}

#[tokio::test]
async fn pages_follow_one_another_as_in_plaintext() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    for client in [&pair.plain, &pair.encrypted] {
        client.batch_execute(&insert()).await.unwrap();
    }
    for (column, then) in [("score", "id"), ("made", "id"), ("place", "id")] {
        let (mut seen, mut after) = (0, String::new());
        loop {
            let page = format!(
                "SELECT {column}, {then} FROM posts WHERE {column} IS NOT NULL {after} ORDER BY {column}, {then} LIMIT 7"
            );
            let found = rows(&pair.encrypted, &page).await;
            pair.same(&page).await;
            let Some(last) = found.last() else { break };
            let [Some(value), Some(id)] = &last[..] else { panic!("{last:?}") };
            after = format!("AND ({column}, {then}) > ('{value}', {id})");
            seen += found.len();
        }
        pair.same(&format!("SELECT id FROM posts WHERE {column} IS NOT NULL")).await;
        let all = rows(&pair.plain, &format!("SELECT id FROM posts WHERE {column} IS NOT NULL")).await;
        assert_eq!(seen, all.len(), "{column}");
    }
}

#[tokio::test]
async fn rows_are_compared_as_in_plaintext() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    for client in [&pair.plain, &pair.encrypted] {
        client.batch_execute(&insert()).await.unwrap();
    }
    let mut found = 0;
    for op in ["<", "<=", ">", ">="] {
        for condition in [
            "(score, id) OP (2, 30)",
            "(id, score) OP (30, 2)",
            "(score, n, id) OP (2, 1, 30)",
            "(n, score, title) OP (2, 1, 'p1')",
            "(score, n) OP (2, NULL)",
            "(score, n) OP (NULL, 2)",
            "ROW(score, title, id) OP ROW(2, 'p2', 20)",
            "(2, 30) OP (score, id)",
            "ROW (2, n + 1) OP (score, id)",
            "((score), id) OP ((2), (30))",
            "NOT (score, id) OP (2, 30)",
            "(made, score, id) OP ('2024-01-02 10:00:00+00', 3, 12)",
            "(likes, size, place) OP (3, 1, 4)",
            "(size, likes, id) OP (1, 3, 14)",
            "(place, id) OP (4, 20) AND (id, score) OP (20, 1)",
            "(p.score, p.id) OP (2, 30) OR ((p.n, p.place) OP (2, 4))",
        ] {
            let condition = condition.replace("OP", op);
            found += pair.same(&format!("SELECT id FROM posts p WHERE {condition} ORDER BY id")).await;
        }
        let joined = format!(
            "SELECT a.id, b.id FROM posts a JOIN posts b ON (a.score, a.id) {op} (b.score, b.id) ORDER BY 1, 2"
        );
        found += pair.same(&joined).await;
    }
    assert!(found > 1000, "{found}");
    for ordered in [
        "max(place) AS m FROM posts GROUP BY n ORDER BY m DESC, n",
        "min(score) FROM posts GROUP BY n ORDER BY 2, n",
    ] {
        pair.same(&format!("SELECT n, {ordered}")).await;
    }
    for equal in ["ROW(score, id) = ROW(2, 6)", "ROW(score, id) <> (2, 6)", "(score, n) = ROW(2, NULL)"] {
        pair.same(&format!("SELECT id FROM posts WHERE {equal} ORDER BY id")).await;
    }
}

/// As drivers send it: parameters of the columns' types, prepared once.
#[tokio::test]
async fn what_is_beyond_a_bound_row_is_found() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    let mut both = Vec::new();
    for client in [&pair.plain, &pair.encrypted] {
        client.batch_execute(&insert()).await.unwrap();
        let page = "SELECT score, id FROM posts WHERE (score, id) > ($1, $2) ORDER BY score, id LIMIT $3";
        let page = client.prepare(page).await.unwrap();
        let (mut last, mut all) = ((-1_i32, 0_i32), Vec::new());
        loop {
            let found = client.query(&page, &[&last.0, &last.1, &9_i64]).await.unwrap();
            all.extend(found.iter().map(|row| (row.get::<_, i32>(0), row.get::<_, i32>(1))));
            match all.last() {
                Some(found_last) if !found.is_empty() => last = *found_last,
                _ => break,
            }
        }
        both.push((page.params().to_vec(), all));
    }
    assert_eq!(both[0], both[1]);
    assert_eq!(both[0].1.len(), 55);
    for statement in [
        "SELECT id FROM posts WHERE (score, id) > (1)",
        "SELECT id FROM posts WHERE (score, id) > (1, 2, 3)",
        "SELECT id FROM posts WHERE (score, id) > ('x', 3)",
    ] {
        let expected = pair.plain.simple_query(statement).await.unwrap_err();
        let found = pair.encrypted.simple_query(statement).await.unwrap_err();
        let codes = [expected.code().unwrap().code(), found.code().unwrap().code()];
        assert!(codes[0] == codes[1] || codes[1] == "0A000", "{statement}: {codes:?}");
    }
    let (code, ..) = pair.refused("SELECT id FROM posts WHERE (score + n, id) > (1, 2)").await;
    assert_eq!(code, "0A000");
}
