//! A column whose texts are found by their words, in statements of every kind: its names go with its values, and show nowhere.

use super::Words;
use tokio_postgres::{Client, SimpleQueryMessage};

const ROWS: &str = "INSERT INTO articles (id, body, title) SELECT v.n, v.b, v.t FROM (VALUES (1, 'a cat', 'one'), (2, 'a dog', 'two'), \
    (3, 'a cat', 'one'), (4, NULL, 'two'), (5, 'a bird', NULL)) AS v (n, b, t)";

/// The title sorts.
const SCHEMA: &str = r#"
[tables."public.articles"]
body = { id = "7a1b2c3d4e5f6d01", type = "text", operations = ["text"] }
title = { id = "7a1b2c3d4e5f6d02", type = "varchar(60)", operations = ["equality", "order", "text"], max_bytes = 60, language = "simple" }
"#;
const CREATE: &str = "CREATE TABLE articles (id int PRIMARY KEY, body text, title varchar(60) COLLATE \"C\")";

const STATEMENTS: [&str; 29] = [
    "SELECT * FROM articles ORDER BY id",
    "SELECT count(*) FROM (SELECT DISTINCT title FROM articles) x",
    "SELECT count(DISTINCT title), count(body) FROM articles",
    "SELECT min(id), title, count(*) FROM articles GROUP BY title ORDER BY 1",
    "SELECT min(id), title, count(*) FROM articles WHERE body @@ 'cat' GROUP BY title ORDER BY 1",
    "SELECT title FROM articles GROUP BY title HAVING title @@ 'one'",
    "SELECT x.title FROM (SELECT DISTINCT title FROM articles) x WHERE x.title @@ 'one'",
    "WITH x AS (SELECT id, body FROM articles WHERE id > 1) SELECT id, body FROM x WHERE body @@ 'cat' ORDER BY id",
    "SELECT id FROM (SELECT body, id FROM articles WHERE id < 3 UNION ALL SELECT body, id FROM articles WHERE id > 3) x WHERE body @@ 'cat'",
    "SELECT a.id, b.id FROM articles a JOIN articles b ON a.title = b.title AND a.id < b.id WHERE b.body @@ 'cat' ORDER BY 1, 2",
    "SELECT a.id, b.body FROM articles a LEFT JOIN articles b ON b.id = a.id AND b.body @@ 'dog' ORDER BY 1",
    "SELECT id FROM articles a WHERE EXISTS (SELECT 1 FROM articles b WHERE b.body @@ 'bird' AND b.id > a.id) ORDER BY id",
    "SELECT id FROM articles WHERE id IN (SELECT id FROM articles WHERE body @@ 'cat') ORDER BY id",
    "SELECT id, row_number() OVER (PARTITION BY title ORDER BY id) FROM articles WHERE body @@ 'cat' ORDER BY id",
    "SELECT count(*) FILTER (WHERE body @@ 'cat'), bool_or(body @@ 'dog') FROM articles",
    "SELECT (SELECT b.body FROM articles b WHERE b.body @@ 'dog') FROM articles LIMIT 1",
    "INSERT INTO articles VALUES (6, 'a fish', 'three') RETURNING *",
    "INSERT INTO articles SELECT id + 10, body, title FROM articles WHERE body @@ 'cat' RETURNING id, body",
    "UPDATE articles SET title = 'four' WHERE body @@ 'fish' RETURNING id, body @@ 'fish', title @@ 'four'",
    "DELETE FROM articles WHERE title @@ 'two' RETURNING id, body, title",
    "SELECT id FROM articles WHERE title = 'one' AND body @@ 'cat' ORDER BY id",
    "BEGIN; DECLARE found CURSOR FOR SELECT id FROM articles WHERE body @@ 'cat' ORDER BY id; FETCH 2 FROM found; COMMIT",
    "PREPARE find (text) AS SELECT id, body FROM articles WHERE body @@ plainto_tsquery($1) ORDER BY id; EXECUTE find('cat'); EXECUTE find('fish')",
    "PREPARE untyped AS SELECT id FROM articles WHERE body @@ 'cat' AND NOT body @@ to_tsquery($1) ORDER BY id; EXECUTE untyped('fish')",
    "PREPARE of_none AS SELECT id FROM articles WHERE to_tsvector(coalesce(body, '')) @@ to_tsquery($1) ORDER BY id; EXECUTE of_none('!cat')",
    "WITH put AS (INSERT INTO articles VALUES (20, 'a goose', 'two') RETURNING id, body) SELECT id FROM put WHERE body @@ 'goose'",
    "INSERT INTO articles VALUES (21, 'a swan', 'two') RETURNING body @@ 'swan', title @@ 'two'",
    "INSERT INTO articles VALUES (21, 'a heron', 'two') ON CONFLICT (id) DO UPDATE SET body = EXCLUDED.body \
     WHERE EXCLUDED.body @@ 'heron' RETURNING id, body",
    "CREATE INDEX of_both ON articles USING gin (to_tsvector('english', body), to_tsvector('simple', title)); SELECT 1",
];

/// The rows of a statement, or what is wrong with it.
async fn results(client: &Client, statement: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    let messages = client.simple_query(statement).await.map_err(|error| format!("{error:?}"))?;
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
        }
        _ => None,
    };
    Ok(messages.into_iter().filter_map(row).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_have_the_results_that_they_have_in_plaintext() {
    let words = Words::with(SCHEMA, CREATE).await;
    words.plain.batch_execute("SET default_text_search_config = 'pg_catalog.english'").await.unwrap();
    for client in [&words.plain, &words.encrypted] {
        client.batch_execute(ROWS).await.unwrap();
    }
    let mut wrong = Vec::new();
    for statement in STATEMENTS {
        let [expected, found] = [&words.plain, &words.encrypted].map(|client| results(client, statement));
        let (expected, found) = (expected.await, found.await);
        if found != expected {
            wrong.push(format!("{statement}\n  {found:?}\n  {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
