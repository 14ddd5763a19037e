//! Columns ordered by FH-OPE: constants between the ends of their keys, a term for each row, and what is refused.

use super::ciphertexts::check_refused;
use super::golden::check;
use super::outcome;

#[test]
fn constants_are_bounds_of_the_keys_of_their_value() {
    check(&[
        (
            "SELECT id FROM visits WHERE age = 5 AND id = 7",
            "SELECT id FROM visits WHERE ((\"age$ord\" BETWEEN bound('012', ‹GreaterOrEqual 5›) AND bound('012', \
             ‹LessOrEqual 5›))) AND id = 7",
        ),
        // What comes into the gaps at the ends meanwhile may equal the constant.
        (
            "SELECT id FROM visits WHERE age <> 5 OR NOT (age = 6)",
            "SELECT id FROM visits WHERE (NOT (\"age$ord\" BETWEEN bound('012', ‹GreaterOrEqual or in the gap 5›) AND \
             bound('012', ‹LessOrEqual or in the gap 5›))) OR NOT (((\"age$ord\" BETWEEN bound('012', ‹GreaterOrEqual or in the \
             gap 6›) AND bound('012', ‹LessOrEqual or in the gap 6›))))",
        ),
        (
            "SELECT id FROM visits WHERE age NOT BETWEEN 1 AND 2 AND NOT (age < 5 OR NOT age > 6) AND (age < 7) IS NOT TRUE",
            "SELECT id FROM visits WHERE \"age$ord\" NOT BETWEEN bound('012', ‹GreaterOrEqual or in the gap 1›) AND bound('012', \
             ‹LessOrEqual or in the gap 2›) AND NOT (\"age$ord\" < bound('012', ‹Less or in the gap 5›) OR NOT \"age$ord\" > \
             bound('012', ‹Greater 6›)) AND (\"age$ord\" < bound('012', ‹Less or in the gap 7›)) IS NOT TRUE",
        ),
        (
            "DELETE FROM visits WHERE NOT EXISTS (SELECT FROM visits v WHERE v.age >= 3)",
            "DELETE FROM visits WHERE NOT EXISTS (SELECT FROM visits v WHERE v.\"age$ord\" >= bound('012', ‹GreaterOrEqual or \
             in the gap 3›))",
        ),
        (
            "SELECT id FROM visits v WHERE NOT $1 <> v.age",
            "SELECT id FROM visits v WHERE NOT (NOT (v.\"age$ord\" BETWEEN bound('012', ‹GreaterOrEqual $1›) AND \
             bound('012', ‹LessOrEqual $1›)))",
        ),
        (
            "SELECT id FROM visits WHERE age IN (1, NULL) OR age NOT IN ($1)",
            "SELECT id FROM visits WHERE ((\"age$ord\" BETWEEN bound('012', ‹GreaterOrEqual 1›) AND bound('012', \
             ‹LessOrEqual 1›) OR \"age$ord\" BETWEEN bound('012', ‹GreaterOrEqual NULL›) AND bound('012', ‹LessOrEqual \
             NULL›))) OR (NOT (\"age$ord\" BETWEEN bound('012', ‹GreaterOrEqual or in the gap $1›) AND bound('012', \
             ‹LessOrEqual or in the gap $1›)))",
        ),
        (
            "SELECT id FROM visits WHERE age < 5 AND age BETWEEN 1 AND 2 ORDER BY id, age DESC LIMIT 3",
            "SELECT id FROM visits WHERE \"age$ord\" < bound('012', ‹Less 5›) AND \"age$ord\" BETWEEN bound('012', \
             ‹GreaterOrEqual 1›) AND bound('012', ‹LessOrEqual 2›) ORDER BY id, \"age$ord\" DESC LIMIT 3",
        ),
        (
            "SELECT min(age), max(age) FROM visits HAVING max(age) >= 5",
            "SELECT arras.mope_least(age, \"age$ord\") AS \"min\", arras.mope_greatest(age, \"age$ord\") AS \"max\" FROM visits HAVING max(\"age$ord\") >= bound('012', \
             ‹GreaterOrEqual 5›) => visits.age, visits.age",
        ),
        (
            "SELECT id, row_number() OVER (ORDER BY age), lag(age) OVER (PARTITION BY id ORDER BY age) FROM visits",
            "SELECT id, row_number() OVER (ORDER BY \"age$ord\"), lag(age) OVER (PARTITION BY id ORDER BY \"age$ord\") \
             FROM visits => plain, plain, visits.age",
        ),
        (
            "SELECT sum(id) OVER (ORDER BY age ROWS UNBOUNDED PRECEDING) FROM visits",
            "SELECT sum(id) OVER (ORDER BY \"age$ord\" ROWS UNBOUNDED PRECEDING) FROM visits",
        ),
    ]);
}

#[test]
fn equality_between_rows_goes_by_its_own_term() {
    check(&[
        (
            "SELECT score, count(*) FROM visits WHERE score IN (1, 2) AND score < 9 GROUP BY score ORDER BY score",
            "SELECT arras.any_of(score) AS \"score\", count(*) FROM visits WHERE \"score$eq\" IN (‹eq 1›, ‹eq 2›) AND \
             \"score$ord\" < bound('013', ‹Less 9›) GROUP BY \"score$eq\" ORDER BY min(\"score$ord\") => visits.score, plain",
        ),
        (
            "SELECT score FROM visits GROUP BY score HAVING score > 5",
            "SELECT arras.any_of(score) AS \"score\" FROM visits GROUP BY \"score$eq\" HAVING min(\"score$ord\") > \
             bound('013', ‹Greater 5›) => visits.score",
        ),
        (
            "WITH x AS (SELECT score FROM visits GROUP BY score) SELECT score FROM x",
            "WITH x AS (SELECT arras.any_of(score) AS \"score\", \"score$eq\" AS \"score$eq\", min(\"score$ord\") AS \
             \"score$ord\" FROM visits GROUP BY \"score$eq\") SELECT score FROM x => visits.score",
        ),
        (
            "SELECT a.id FROM visits a JOIN visits b ON a.score = b.score ORDER BY b.score",
            "SELECT a.id FROM visits a JOIN visits b ON a.\"score$eq\" = b.\"score$eq\" ORDER BY b.\"score$ord\"",
        ),
        (
            "SELECT count(DISTINCT score) FROM visits WHERE score = (SELECT score FROM visits WHERE id = 1)",
            "SELECT count(DISTINCT \"score$eq\") FROM visits WHERE \"score$eq\" = (SELECT \"score$eq\" FROM visits WHERE id = 1)",
        ),
    ]);
}

#[test]
fn each_row_that_is_written_has_a_term_of_its_own() {
    check(&[
        (
            "INSERT INTO visits (id, age) VALUES (1, 5), (2, 5)",
            "INSERT INTO visits (id, \"age\", \"age$ord\") VALUES (1, ‹sealed 5›, label('012', ‹ord 5›)), (2, ‹sealed 5›, \
             label('012', ‹ord 5›))",
        ),
        (
            "UPDATE visits SET age = 5 WHERE age > $1",
            "SELECT \"visits\".ctid, \"visits\".tableoid FROM visits WHERE \"age$ord\" > bound('012', ‹Greater $1›) FOR NO KEY UPDATE => plain, plain; \
             visits.age = 5; UPDATE visits SET \"age\" = ‹sealed computed 0›, \"age$ord\" = label('012', ‹ord computed 0›) \
             WHERE \"visits\".ctid = ‹read 0›::tid AND \"visits\".tableoid = ‹read 1›::oid ",
        ),
        (
            "UPDATE visits SET age = NULL, id = 3",
            "UPDATE visits SET \"age\" = ‹sealed NULL›, \"age$ord\" = label('012', ‹ord NULL›), id = 3",
        ),
        (
            "UPDATE visits v SET age = v.age WHERE id = 1",
            "UPDATE visits v SET \"age\" = v.age, \"age$ord\" = v.\"age$ord\" WHERE id = 1",
        ),
        (
            "INSERT INTO visits (id, age) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET age = EXCLUDED.age",
            "INSERT INTO visits (id, \"age\", \"age$ord\") VALUES (1, ‹sealed 5›, label('012', ‹ord 5›)) ON CONFLICT (id) DO \
             UPDATE SET \"age\" = EXCLUDED.age, \"age$ord\" = EXCLUDED.\"age$ord\"",
        ),
    ]);
    let distinct = outcome("UPDATE visits SET age = 5, id = CASE WHEN 1 IS DISTINCT FROM id THEN 2 END");
    assert!(distinct.contains("ctid"), "{distinct}");
    // One row at a time, whatever the query is: constants stay behind.
    let rows = outcome("INSERT INTO visits (id, age) SELECT g, 5 FROM generate_series(1, 10) AS g");
    assert!(rows.contains("SELECT g, NULL FROM generate_series") && rows.contains("‹ord 5›"), "{rows}");
    let copied = outcome("INSERT INTO visits (id, age) SELECT id + 1, age FROM visits");
    assert!(copied.contains("‹ord read 1›"), "{copied}");
    let listed = outcome("INSERT INTO visits (id, age) SELECT * FROM unnest($1::int[], $2::int[])");
    assert!(listed.contains("‹ords $2›"), "{listed}");
}

#[test]
fn what_would_take_rows_of_equal_values_for_equal_is_refused() {
    let random: &[&str] = &["column visits.age", "order = \"fh_ope\"", "random order"];
    check_refused(&[
        ("SELECT id FROM visits ORDER BY age, id", "age", random),
        ("SELECT age AS a FROM visits ORDER BY a DESC, id", "age", random),
        ("SELECT id FROM visits GROUP BY id ORDER BY max(age), id", "age", random),
        ("SELECT id FROM visits ORDER BY age FETCH FIRST 2 ROWS WITH TIES", "age", random),
        ("SELECT rank() OVER (ORDER BY age) FROM visits", "age", random),
        ("(SELECT id FROM visits ORDER BY age) FETCH FIRST 2 ROWS WITH TIES", "age", random),
        ("SELECT pg_catalog.rank() OVER (ORDER BY age ROWS UNBOUNDED PRECEDING) FROM visits", "age", random),
        ("SELECT \"rank\"() OVER (ORDER BY age) FROM visits", "age", random),
        ("SELECT rank() OVER (ORDER BY max(age)) FROM visits GROUP BY id", "age", random),
        (
            "SELECT first_value(id) OVER (ORDER BY age RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM visits",
            "age",
            random,
        ),
        ("SELECT sum(id) OVER (ORDER BY age) FROM visits", "age", random),
        ("SELECT rank() OVER (ORDER BY age ROWS UNBOUNDED PRECEDING) FROM visits", "age", random),
        ("SELECT sum(id) OVER w FROM visits WINDOW w AS (ORDER BY age)", "age", random),
        ("SELECT array_agg(id ORDER BY age, id) FROM visits", "age", random),
        ("SELECT id FROM visits GROUP BY id HAVING min(age) = 5", "age", random),
        ("SELECT a.id FROM visits a, visits b WHERE a.age < b.id", "age", &["column visits.age"]),
    ]);
    let equality: &[&str] = &["column visits.age", "\"equality\""];
    check_refused(&[
        ("SELECT count(*) FROM visits GROUP BY age", "age", equality),
        ("SELECT DISTINCT age FROM visits", "age", equality),
        ("SELECT count(DISTINCT age) FROM visits", "age", equality),
        ("SELECT sum(id) OVER (PARTITION BY age) FROM visits", "age", equality),
        ("SELECT id FROM visits WHERE age = ANY($1)", "age", equality),
        ("SELECT id FROM visits WHERE age IS DISTINCT FROM 5", "age", equality),
        ("INSERT INTO visits VALUES (1, 5, 6) ON CONFLICT (age) DO NOTHING", "age", equality),
        ("CREATE UNIQUE INDEX ON visits (age)", "age", equality),
    ]);
    for (statement, said) in [
        ("SELECT a.id FROM visits a JOIN visits b ON a.age < b.age", "random order"),
        ("SELECT DISTINCT score FROM visits ORDER BY score", "random order"),
        ("SELECT DISTINCT ON (score) id, score FROM visits ORDER BY score", "random order"),
        ("SELECT a.id FROM visits a JOIN visits b ON a.age = b.age", "\"equality\""),
        ("SELECT id FROM visits WHERE age IN (SELECT age FROM visits)", "\"equality\""),
        ("SELECT id FROM visits WHERE age < (SELECT max(age) FROM visits)", "random order"),
        ("SELECT id FROM visits WHERE age = (SELECT max(age) FROM visits)", "\"equality\""),
        ("SELECT id FROM visits WHERE score = (SELECT max(score) FROM visits)", "max()"),
        ("SELECT id FROM visits WHERE (age) = 5", "not rewritten in this form"),
        ("UPDATE visits SET age = o.age FROM visits o", "FROM"),
        ("UPDATE visits SET age = 5 FROM notes n WHERE n.id = visits.id", "FROM"),
        ("UPDATE visits SET age = DEFAULT", "a term of its own"),
        ("UPDATE visits SET age = 5, id = (SELECT max(id) + 1 FROM visits)", "rows that it has written"),
        ("UPDATE visits SET age = 5 RETURNING (SELECT count(*) FROM visits)", "rows that it has written"),
        ("UPDATE visits SET age = CASE WHEN id = 1 THEN score ELSE lower(id) END", "visits.age"),
        (
            "UPDATE visits SET age = CASE WHEN id = (SELECT max(id) FROM visits) THEN 5 END",
            "rows that it has written",
        ),
        (
            "INSERT INTO visits (id, age) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET age = 6",
            "a term of its own",
        ),
        ("WITH x AS (UPDATE visits SET age = 5 RETURNING id) SELECT id FROM x", "a term of its own"),
        (
            "INSERT INTO visits (id, age) SELECT generate_series(1, 3), v.x FROM (VALUES (5)) AS v (x)",
            "before they are encrypted",
        ),
        ("ALTER TABLE visits ADD COLUMN age integer DEFAULT 5", "place of its own"),
    ] {
        let outcome = outcome(statement);
        assert!(outcome.starts_with("0A000 ") && outcome.contains(said), "{statement}: {outcome}");
    }
}

#[test]
fn a_choice_gives_each_row_a_term_of_its_own() {
    for choice in [
        "CASE WHEN (visits.id = $1) THEN $2 WHEN (visits.id = $3) THEN $4 ELSE NULL END",
        "(CASE WHEN (visits.id = $1) THEN $2 WHEN (visits.id = $3) THEN $4 ELSE NULL END)::integer",
        "CAST(CASE WHEN (visits.id = $1) THEN $2 WHEN (visits.id = $3) THEN $4 ELSE NULL END AS integer)",
    ] {
        let found = outcome(&format!("UPDATE visits SET age = {choice} WHERE id IN ($1, $3)"));
        let read = "SELECT CASE WHEN (visits.id = ‹$1›) THEN 1 WHEN (visits.id = ‹$3›) THEN 2 ELSE 3 END, ";
        assert!(found.starts_with(read), "{found}");
        assert!(found.contains("visits.age = read 0 of [$2, $4, "), "{found}");
        assert!(found.contains("‹ord computed 0›"), "{found}");
    }
    // Another type than the column's makes another value.
    let cast = "UPDATE visits SET age = (CASE WHEN id = 1 THEN 5 END)::smallint";
    assert!(outcome(cast).contains("visits.age = read 0 of [5] as smallint"), "{}", outcome(cast));
    let other = "UPDATE visits SET age = (CASE WHEN id = 1 THEN 5 END)::text";
    assert!(outcome(other).starts_with("0A000 "), "{}", outcome(other));
    let wrong = "UPDATE visits SET age = CASE WHEN id = 1 THEN 'five' END";
    assert!(outcome(wrong).starts_with("22P02 "), "{}", outcome(wrong));
}

/// The server looks at a choice once for each row, not again with each row that is written.
#[test]
fn what_is_set_beside_a_term_of_its_own_is_chosen_when_rows_are_read() {
    let choice = |first: &str| format!("CASE WHEN id = 1 THEN {first} WHEN id = 2 THEN NULL END");
    for (statement, is_written) in [
        (format!("UPDATE accounts SET owner = {}, balance = balance + 1", choice("'a'")), false),
        (format!("UPDATE accounts SET balance = balance + 1, owner = ({})::text", choice("$1")), false),
        (format!("UPDATE accounts SET owner = {}, balance = 1", choice("'a'")), true),
        (format!("UPDATE accounts SET owner = {}, balance = balance + 1", choice("memo || 'a'")), false),
        (format!("UPDATE accounts SET owner = {}, balance = balance + 1", choice("owner")), true),
    ] {
        let found = outcome(&statement);
        let write = found.rsplit("; ").next().unwrap();
        assert!(!found.starts_with('0'), "{statement}: {found}");
        assert_eq!(write.contains("WHEN"), is_written, "{statement}: {found}");
    }
    let both = format!("UPDATE visits SET age = {}, id = {}", choice("5"), choice("3"));
    assert!(outcome(&both).contains("; UPDATE visits SET"), "{}", outcome(&both));
}
