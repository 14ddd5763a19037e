//! Orders whose terms are ciphertexts: what a function compares, and what it does not sort.

use super::golden::check;
use super::outcome;

/// Statements that are refused at the name of a column, and the parts of what is said.
pub(super) fn check_refused(cases: &[(&str, &str, &[&str])]) {
    for (statement, at, parts) in cases {
        let outcome = outcome(statement);
        let place = statement.rfind(at).unwrap() + 1;
        assert!(outcome.starts_with(&format!("0A000 {place}: ")), "{statement}: {outcome}");
        for part in *parts {
            assert!(outcome.contains(part), "{statement}: {outcome}");
        }
    }
}

#[test]
fn what_a_function_compares_is_compared_by_its_result() {
    check(&[
        (
            "SELECT id FROM readings WHERE level < 5 AND 7 >= level AND level > NULL",
            "SELECT id FROM readings WHERE arras.clww_compare(\"level$ord\", ‹Less 5›) < 0 AND 0 >= \
             arras.clww_compare(\"level$ord\", ‹LessOrEqual 7›) AND arras.clww_compare(\"level$ord\", ‹Greater NULL›) > 0",
        ),
        (
            "SELECT id FROM readings r WHERE r.level NOT BETWEEN $1 AND (9)",
            "SELECT id FROM readings r WHERE arras.clww_between(r.\"level$ord\", ‹GreaterOrEqual $1›, ‹LessOrEqual 9›) \
             NOT BETWEEN 0 AND 0",
        ),
        (
            "SELECT id FROM readings WHERE level = 5 OR level IN (6, $1) OR level IS DISTINCT FROM 8",
            "SELECT id FROM readings WHERE \"level$ord\" = ‹Equal 5› OR \"level$ord\" IN (‹Equal 6›, ‹Equal $1›) OR \
             \"level$ord\" IS DISTINCT FROM ‹Equal 8›",
        ),
        (
            "SELECT a.id FROM readings a JOIN readings b ON a.level < b.level AND a.level = b.level",
            "SELECT a.id FROM readings a JOIN readings b ON arras.clww_compare(a.\"level$ord\", b.\"level$ord\") < 0 AND \
             a.\"level$ord\" = b.\"level$ord\"",
        ),
        (
            "SELECT min(level), max((level)) AS m FROM readings WHERE level IN (SELECT level FROM readings)",
            "SELECT arras.clww_least(level, \"level$ord\") AS \"min\", arras.clww_greatest((level), \"level$ord\") AS m FROM \
             readings WHERE \"level$ord\" IN (SELECT \"level$ord\" FROM readings) => readings.level, readings.level",
        ),
        (
            "INSERT INTO readings (id, level) VALUES (1, $1), (2, NULL)",
            "INSERT INTO readings (id, \"level\", \"level$ord\") VALUES (1, ‹sealed $1›, ‹ord $1›), (2, ‹sealed NULL›, ‹ord \
             NULL›)",
        ),
        (
            "SELECT level, count(*) FROM readings GROUP BY level",
            "SELECT arras.any_of(level) AS \"level\", count(*) FROM readings GROUP BY \"level$ord\" => readings.level, plain",
        ),
    ]);
}

#[test]
fn what_a_function_compares_is_not_sorted() {
    let parts: &[&str] = &["column readings.level", "order = \"clww\"", "compared and not sorted"];
    check_refused(&[
        ("SELECT id FROM readings ORDER BY level", "level", parts),
        ("SELECT level AS l FROM readings ORDER BY l", "level", parts),
        ("SELECT rank() OVER (ORDER BY level) FROM readings", "level", parts),
        ("SELECT array_agg(id ORDER BY level) FROM readings", "level", parts),
        ("SELECT id FROM readings GROUP BY id HAVING min(level) > 5", "level", parts),
        ("SELECT id FROM readings GROUP BY id ORDER BY max(level)", "level", parts),
        ("SELECT DISTINCT ON (id) id FROM readings ORDER BY id, level", "level", parts),
    ]);
    let outcome = outcome("SELECT id FROM readings WHERE level < (SELECT max(level) FROM readings)");
    assert!(outcome.starts_with("0A000 31: ") && outcome.contains("not sorted"), "{outcome}");
}

#[test]
fn what_is_stored_at_random_is_compared_with_constants_alone() {
    check(&[
        (
            "SELECT id FROM readings WHERE depth = 5 OR depth <> $1 OR depth BETWEEN 1 AND 2",
            "SELECT id FROM readings WHERE arras.lewi_wu_compare(\"depth$ord\", ‹Equal 5›) = 0 OR \
             arras.lewi_wu_compare(\"depth$ord\", ‹Equal $1›) <> 0 OR arras.lewi_wu_between(\"depth$ord\", \
             ‹GreaterOrEqual 1›, ‹LessOrEqual 2›) BETWEEN 0 AND 0",
        ),
        (
            "SELECT id FROM readings WHERE depth NOT IN (1, $1)",
            "SELECT id FROM readings WHERE (NOT (arras.lewi_wu_compare(\"depth$ord\", ‹Equal 1›) = 0 OR \
             arras.lewi_wu_compare(\"depth$ord\", ‹Equal $1›) = 0))",
        ),
        (
            "WITH x AS (SELECT rank FROM readings GROUP BY rank) SELECT rank FROM x",
            "WITH x AS (SELECT arras.any_of(rank) AS \"rank\", \"rank$eq\" AS \"rank$eq\", arras.any_of(\"rank$ord\") AS \
             \"rank$ord\" FROM readings GROUP BY \"rank$eq\") SELECT rank FROM x => readings.rank",
        ),
        (
            "SELECT rank FROM readings WHERE rank = 5 AND rank < 9 GROUP BY rank",
            "SELECT arras.any_of(rank) AS \"rank\" FROM readings WHERE \"rank$eq\" = ‹eq 5› AND \
             arras.lewi_wu_compare(\"rank$ord\", ‹Less 9›) < 0 GROUP BY \"rank$eq\" => readings.rank",
        ),
        (
            "SELECT r.rank FROM readings r GROUP BY r.rank HAVING r.rank > 5 AND r.rank <> 7 AND count(*) FILTER (WHERE r.rank < 9) > 1",
            "SELECT arras.any_of(r.rank) AS \"rank\" FROM readings r GROUP BY r.\"rank$eq\" HAVING \
             arras.lewi_wu_compare(arras.any_of(r.\"rank$ord\"), ‹Greater 5›) > 0 AND r.\"rank$eq\" <> ‹eq 7› AND count(*) \
             FILTER (WHERE arras.lewi_wu_compare(r.\"rank$ord\", ‹Less 9›) < 0) > 1 => readings.rank",
        ),
    ]);
    let depth: &[&str] = &["column readings.depth"];
    check_refused(&[
        ("SELECT id FROM readings ORDER BY depth", "depth", &["\"lewi_wu\"", "not sorted"]),
        ("SELECT min(depth) FROM readings", "depth", &["\"lewi_wu\"", "not sorted"]),
        ("SELECT id FROM readings GROUP BY id, depth", "depth", depth),
        ("SELECT DISTINCT depth FROM readings", "depth", depth),
        ("SELECT id FROM readings WHERE depth IS DISTINCT FROM 1", "depth", depth),
    ]);
    for statement in [
        "SELECT a.id FROM readings a JOIN readings b ON a.depth < b.depth",
        "SELECT a.id FROM readings a JOIN readings b ON a.depth = b.depth",
        "SELECT id FROM readings WHERE depth IN (SELECT depth FROM readings)",
        "CREATE INDEX ON readings (depth)",
    ] {
        let outcome = outcome(statement);
        assert!(
            outcome.starts_with("0A000 ") && outcome.contains("readings.depth"),
            "{statement}: {outcome}"
        );
    }
}

/// An expression that is not read, in a condition that the server looks at.
#[test]
fn a_choice_by_what_is_not_read_is_refused() {
    let at = "owner PLACING";
    check_refused(&[
        (
            "SELECT CASE WHEN owner = 'a' AND overlay(owner PLACING 'x' FROM 1) = 'xb' THEN 1 END FROM accounts",
            at,
            &["owner"],
        ),
        (
            "UPDATE accounts SET balance = CASE WHEN owner = 'a' AND overlay(owner PLACING 'x' FROM 1) THEN 1 ELSE balance + 1 END",
            at,
            &["owner"],
        ),
        (
            "UPDATE accounts SET balance = CASE WHEN overlay(owner PLACING 'x' FROM 1) IS NULL THEN 1 ELSE balance + 1 END",
            at,
            &["owner"],
        ),
    ]);
}
