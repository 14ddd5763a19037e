//! Texts that are found by their words.

use super::golden::check;

#[test]
fn words_are_looked_for_wherever_a_condition_stands() {
    check(&[
        (
            "SELECT id FROM articles WHERE to_tsvector('english', body) @@ to_tsquery('english', 'cat & rat')",
            "SELECT id FROM articles WHERE (\"body$text\" = ANY (‹Formula cat & rat›))",
        ),
        (
            "SELECT a.id FROM articles a WHERE NOT (a.body @@ to_tsquery($1)) AND a.id > $2",
            "SELECT a.id FROM articles a WHERE NOT ((a.\"body$text\" <> ALL (‹all but Formula $1›))) AND a.id > ‹$2›",
        ),
        (
            "SELECT id, body @@ plainto_tsquery('cat rat') AS found FROM articles ORDER BY 2",
            "SELECT id, (\"body$text\" = ANY (‹All cat rat›)) AS found FROM articles ORDER BY 2",
        ),
        (
            "SELECT id FROM articles WHERE websearch_to_tsquery('english'::regconfig, $1::text) @@ to_tsvector(body)",
            "SELECT id FROM articles WHERE (\"body$text\" = ANY (‹Web $1›))",
        ),
        (
            "SELECT id FROM articles WHERE body @@ 'cats' OR (title) @@ (phraseto_tsquery('simple', 'a b'))",
            "SELECT id FROM articles WHERE (\"body$text\" = ANY (‹All cats›)) OR (\"title$text\" = ANY (‹Phrase a b›))",
        ),
        (
            "DELETE FROM articles WHERE pg_catalog.to_tsvector('pg_catalog.english', body) @@ to_tsquery('cat')",
            "DELETE FROM articles WHERE (\"body$text\" = ANY (‹Formula cat›))",
        ),
    ]);
}

#[test]
fn a_text_is_stored_with_a_name_and_its_words_are_read_by_nothing_else() {
    check(&[
        (
            "INSERT INTO articles (id, body, title) VALUES (1, $1, 'x'), (2, NULL, $2)",
            "INSERT INTO articles (id, \"body\", \"body$text\", \"title\", \"title$eq\", \"title$text\") VALUES (1, ‹sealed $1›, name('014', ‹name $1›), ‹sealed x›, ‹eq x›, name('015', ‹name x›)), (2, ‹sealed NULL›, name('014', ‹name NULL›), ‹sealed $2›, ‹eq $2›, name('015', ‹name $2›))",
        ),
        (
            "UPDATE articles SET body = 'x' WHERE id = 1",
            "UPDATE articles SET \"body\" = ‹sealed x›, \"body$text\" = name('014', ‹name x›) WHERE id = 1",
        ),
        (
            "UPDATE articles SET title = title || 'x' WHERE id = 1",
            "SELECT title, \"articles\".ctid, \"articles\".tableoid FROM articles WHERE id = 1 FOR NO KEY UPDATE => articles.title, plain, plain; articles.title = (read 0 as articles.title Concatenated x); UPDATE articles SET \"title\" = ‹sealed computed 0›, \"title$eq\" = ‹eq computed 0›, \"title$text\" = name('015', ‹name computed 0›) WHERE \"articles\".ctid = ‹read 1›::tid AND \"articles\".tableoid = ‹read 2›::oid ",
        ),
        (
            "INSERT INTO articles (body) SELECT * FROM unnest($1::text[])",
            "INSERT INTO articles (\"body\", \"body$text\") SELECT \"unnest\", name('014', \"unnest$text\") FROM unnest(‹each sealed $1›::bytea[], ‹names $1›::bytea[]) AS \"unnest\" (\"unnest\", \"unnest$text\")",
        ),
        (
            "SELECT count(*) FROM (SELECT body, id FROM articles) x WHERE x.body @@ to_tsquery('a')",
            "SELECT count(*) FROM (SELECT body, \"body$text\" AS \"body$text\", id FROM articles) x WHERE (x.\"body$text\" = ANY (‹Formula a›))",
        ),
        (
            "SELECT max(id) FROM articles GROUP BY title HAVING title @@ 'x'",
            "SELECT max(id) FROM articles GROUP BY \"title$eq\" HAVING (arras.any_of(\"title$text\") = ANY (‹All x›))",
        ),
        (
            "SELECT id FROM articles WHERE to_tsvector('german', body) @@ to_tsquery('cat')",
            "0A000 53: the words of column articles.body are kept as the configuration \"english\" reads them, and are found by that alone",
        ),
        (
            "SELECT id FROM articles WHERE to_tsvector(body) @@ to_tsquery('german', 'cat')",
            "0A000 43: the words of column articles.body are kept as the configuration \"english\" reads them, and are found by that alone",
        ),
        (
            "SELECT id FROM articles WHERE to_tsvector(body) @@ 'cat'::tsquery",
            "0A000 43: column articles.body is encrypted: what its words are compared with by @@ must be a query of a constant or a parameter",
        ),
        (
            "SELECT id FROM articles WHERE to_tsvector(body || 'x') @@ to_tsquery('cat')",
            "0A000 43: column articles.body is encrypted: operator || cannot read it",
        ),
        (
            "SELECT ts_rank(to_tsvector(body), to_tsquery('cat')) FROM articles",
            "0A000 28: column articles.body is encrypted: function to_tsvector() cannot read it",
        ),
        (
            "SELECT id FROM accounts WHERE memo @@ to_tsquery('cat')",
            "0A000 31: column accounts.memo is encrypted without \"text\": operator @@ needs it",
        ),
        ("SELECT id FROM notes, accounts WHERE body @@ to_tsquery('cat')", "unchanged"),
        (
            "SELECT body = 'x' FROM articles",
            "SELECT array[body] AS \"?column?\" FROM articles => Compared(Equal, Part(0), Constant(Some(\"x\"), Text))",
        ),
    ]);
}

#[test]
fn null_may_be_a_text_without_a_word() {
    check(&[
        (
            "SELECT id FROM articles WHERE to_tsvector(COALESCE(articles.body, '')) @@ (plainto_tsquery('english'::regconfig, 'cat'))",
            "SELECT id FROM articles WHERE ((articles.\"body$text\" IS NOT NULL AND articles.\"body$text\" = ANY (‹All cat›)) OR \
             (articles.\"body$text\" IS NULL AND ‹All of nothing cat›::pg_catalog.bool))",
        ),
        (
            "SELECT id FROM articles WHERE to_tsvector(coalesce(body, 'x')) @@ to_tsquery($1)",
            "0A000 52: column articles.body is encrypted: function coalesce() cannot read it",
        ),
    ]);
}

#[test]
fn an_index_of_words_is_one_of_names() {
    check(&[
        (
            "CREATE INDEX found ON articles USING gin (to_tsvector('english', body))",
            "CREATE INDEX found ON articles USING btree (\"body$text\")",
        ),
        (
            "CREATE INDEX found ON articles USING gist (to_tsvector('german', body))",
            "0A000 66: the words of column articles.body are kept as the configuration \"english\" reads them, and are found by that alone",
        ),
        (
            "CREATE INDEX found ON articles USING gin (body)",
            "0A000 43: column articles.body is encrypted: this kind of index cannot read it",
        ),
    ]);
}
