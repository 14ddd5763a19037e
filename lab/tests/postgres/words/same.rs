//! What is found is what PostgreSQL finds in plaintext.

use super::Words;
use crate::encrypted::{rows, texts};
use crate::extended::connect;

/// Texts of words that both analyses read alike.
const ARTICLES: &str = "INSERT INTO articles (id, body, title) VALUES \
    (1, 'The fat cats chased a rat', 'Cats'), \
    (2, 'A rat and a dog sat on the mat', 'Dogs and rats'), \
    (3, 'Whales are swimming in the running water', 'Sea'), \
    (4, NULL, NULL), \
    (5, '', 'Nothing'), \
    (6, 'cat rat cat rat dog', 'cats'), \
    (7, 'The rat chased the fat cat', NULL)";

/// Conditions, each true, false or NULL of a row.
const CONDITIONS: [&str; 29] = [
    "to_tsvector('english', body) @@ to_tsquery('english', 'cat')",
    "to_tsvector('english', body) @@ to_tsquery('english', 'cats & rats')",
    "to_tsvector('english', body) @@ to_tsquery('english', 'whale | dog')",
    "to_tsvector('english', body) @@ to_tsquery('english', '!cat')",
    "to_tsvector('english', body) @@ to_tsquery('english', '!(cat | dog) | whale')",
    "to_tsvector('english', body) @@ to_tsquery('english', 'fat <-> cat')",
    "to_tsvector('english', body) @@ to_tsquery('english', 'rat <3> fat')",
    "to_tsvector('english', body) @@ to_tsquery('english', 'chase <-> (rat | fat)')",
    "to_tsvector('english', body) @@ to_tsquery('english', 'rat <-> cat <-> rat')",
    "to_tsvector('english', body) @@ to_tsquery('english', '''fat cats'' & rat')",
    "to_tsvector('english', body) @@ to_tsquery('english', 'the')",
    "to_tsvector('english', body) @@ to_tsquery('english', '')",
    "to_tsvector('english', body) @@ to_tsquery('english', NULL)",
    "NOT to_tsvector('english', body) @@ to_tsquery('english', 'cat')",
    "to_tsvector('english', body) @@ plainto_tsquery('english', 'the fat rats')",
    "to_tsvector('english', body) @@ phraseto_tsquery('english', 'the fat cats')",
    "to_tsvector('english', body) @@ phraseto_tsquery('english', 'dog sat on the mat')",
    "to_tsvector('english', body) @@ websearch_to_tsquery('english', '\"fat cat\" or whale')",
    "to_tsvector('english', body) @@ websearch_to_tsquery('english', 'rat -dog')",
    "websearch_to_tsquery('english', 'swim run') @@ to_tsvector('english', body)",
    "body @@ 'swims runs'",
    "body @@ to_tsquery('cat') OR title @@ plainto_tsquery('simple', 'sea')",
    "to_tsvector('simple', title) @@ to_tsquery('simple', 'and')",
    "to_tsvector('simple', title) @@ plainto_tsquery('simple', 'Cats')",
    "to_tsvector(COALESCE(articles.body, '')) @@ (plainto_tsquery('english'::regconfig, 'cat'))",
    "NOT to_tsvector('english', coalesce(body, '')) @@ to_tsquery('cat')",
    "to_tsvector('english', coalesce(body, '')) @@ to_tsquery('!cat')",
    "(body @@ to_tsquery('rat')) IS NOT TRUE",
    "CASE WHEN body @@ to_tsquery('dog') THEN id > 2 ELSE id < 2 END",
];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_found_is_what_plaintext_finds() {
    let words = Words::start().await;
    // The configuration that is named nowhere is the column's.
    words.plain.batch_execute("SET default_text_search_config = 'pg_catalog.english'").await.unwrap();
    for client in [&words.plain, &words.encrypted] {
        client.batch_execute(ARTICLES).await.unwrap();
    }
    let mut wrong = Vec::new();
    for condition in CONDITIONS {
        for statement in [
            format!("SELECT id FROM articles WHERE {condition} ORDER BY id"),
            format!("SELECT id, {condition} AS found FROM articles ORDER BY id"),
        ] {
            // A column of simple words beside one of English.
            let expected = rows(&words.plain, &statement).await;
            let found = rows(&words.encrypted, &statement).await;
            if found != expected {
                wrong.push(format!("{statement}\n  {found:?}\n  {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Statements of every kind that store or copy a text, and what is then found.
#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_store_a_text_has_its_words_found() {
    let words = Words::start().await;
    words.plain.batch_execute("SET default_text_search_config = 'pg_catalog.english'").await.unwrap();
    let statements = [
        ARTICLES,
        "INSERT INTO articles (id, body) SELECT id + 10, body FROM articles WHERE id < 4",
        "INSERT INTO articles (id, body) SELECT 20 + v.n, v.t FROM (VALUES (1, 'new cats'), (2, 'new rats')) AS v (n, t)",
        "UPDATE articles SET body = 'a zebra' WHERE id = 2",
        "UPDATE articles SET body = body || ' and a lion' WHERE id IN (1, 7)",
        "UPDATE articles SET body = title WHERE id = 3",
        "UPDATE articles a SET body = b.body FROM articles b WHERE a.id = 4 AND b.id = 6",
        "UPDATE articles SET body = CASE WHEN id > 12 THEN 'a bear' ELSE body END WHERE id > 10",
        "INSERT INTO articles (id, body) VALUES (1, 'a wolf') ON CONFLICT (id) DO UPDATE SET body = EXCLUDED.body",
        "INSERT INTO articles (id, body) VALUES (6, 'fox') ON CONFLICT (id) DO UPDATE SET body = articles.body || ' ' || EXCLUDED.body",
        "DELETE FROM articles WHERE body @@ to_tsquery('zebra')",
        "UPDATE articles SET body = NULL WHERE body @@ to_tsquery('bear')",
        "ALTER TABLE articles ADD COLUMN plain int; UPDATE articles SET plain = id",
        "BEGIN; INSERT INTO articles (id, body) VALUES (90, 'a heron'); UPDATE articles SET body = 'a heron' WHERE id = 1; ROLLBACK",
        "BEGIN; INSERT INTO articles (id, body) VALUES (91, 'an owl'); SAVEPOINT s; UPDATE articles SET body = 'a crow' WHERE id = 91; \
         ROLLBACK TO SAVEPOINT s; COMMIT",
        "WITH gone AS (DELETE FROM articles WHERE id = 12 RETURNING id) INSERT INTO articles (id, body) VALUES (92, 'a duck')",
        "PREPARE put AS INSERT INTO articles (id, body) VALUES ($1, $2); EXECUTE put(93, 'a goose'); EXECUTE put(94, 'a swan')",
    ];
    let looked_for = [
        "cat", "rat", "zebra", "lion", "sea", "bear", "wolf", "fox", "heron", "owl", "crow", "duck", "goose",
        "swan", "!cat", "new",
    ];
    for statement in statements {
        for client in [&words.plain, &words.encrypted] {
            client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        }
        for word in looked_for {
            let query =
                format!("SELECT id, body FROM articles WHERE body @@ to_tsquery('{word}') ORDER BY id");
            let expected = rows(&words.plain, &query).await;
            assert_eq!(rows(&words.encrypted, &query).await, expected, "{word} behind {statement}");
        }
    }
}

/// Parameters, in text and binary, prepared once and bound several times.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_bound_is_looked_for_and_stored() {
    let words = Words::start().await;
    let client = &words.encrypted;
    let put = client.prepare("INSERT INTO articles (id, body, title) VALUES ($1, $2, $3)").await.unwrap();
    for (id, body) in [(1, "a cat"), (2, "a dog"), (3, "cats and dogs")] {
        client.execute(&put, &[&id, &body, &Some("t")]).await.unwrap();
    }
    let find = client
        .prepare("SELECT id FROM articles WHERE body @@ to_tsquery($1) AND id > $2 ORDER BY id")
        .await
        .unwrap();
    assert_eq!(find.params()[0], tokio_postgres::types::Type::TEXT);
    let found = async |query: &str| -> Vec<i32> {
        client.query(&find, &[&query, &0]).await.unwrap().iter().map(|row| row.get(0)).collect()
    };
    assert_eq!(found("cat").await, [1, 3]);
    client.execute("UPDATE articles SET body = $1 WHERE id = $2", &[&"a bird", &1]).await.unwrap();
    assert_eq!(found("cat").await, [3]);
    assert_eq!(found("dog | bird").await, [1, 2, 3]);
    let many: (Vec<i32>, Vec<String>) = (10..40).map(|id| (id, format!("number{id} many"))).unzip();
    let listed = "INSERT INTO articles (id, body) SELECT * FROM unnest($1::int[], $2::text[])";
    client.execute(listed, &[&many.0, &many.1]).await.unwrap();
    assert_eq!(found("number17").await, [17]);
    assert_eq!(found("many").await.len(), 30);
    let none: Option<&str> = None;
    assert!(client.query(&find, &[&none, &0]).await.unwrap().is_empty());
    let refused = client.query(&find, &[&"cat &", &0]).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "42601");
}

/// A copy's rows, several thousand of them, and a second session that sees them.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_copy_are_found() {
    use futures_util::SinkExt;
    let words = Words::start().await;
    let sink = words.encrypted.copy_in("COPY articles (id, body) FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    let lines: String = (0..3000).map(|id| format!("{id}\tword{} common\n", id % 100)).collect();
    sink.send(bytes::Bytes::from(lines)).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), 3000);
    let other = connect(&words.proxy.uri("encrypted")).await;
    let count = |word: &str| format!("SELECT count(*) FROM articles WHERE body @@ '{word}'");
    assert_eq!(rows(&other, &count("word7")).await, texts(&[&["30"]]));
    assert_eq!(rows(&other, &count("common")).await, texts(&[&["3000"]]));
    // Equal texts of several rows have names of their own.
    let direct = words.direct().await;
    let names = "SELECT count(DISTINCT \"body$text\"), count(DISTINCT length(\"body$text\")) FROM articles";
    assert_eq!(rows(&direct, names).await, texts(&[&["3000", "1"]]));
}
