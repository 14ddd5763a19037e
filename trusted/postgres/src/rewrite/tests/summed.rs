//! Results that are computed of sums.

use super::golden::check;
use super::outcome;

#[test]
fn sums_of_a_result_come_in_one_array() {
    check(&[
        (
            "SELECT id, sum(balance) * 2 FROM accounts GROUP BY id",
            "SELECT id, array_agg(balance) AS \"?column?\" FROM accounts GROUP BY id => plain, (Sum accounts.balance Times 2)",
        ),
        (
            "SELECT -(sum(balance) FILTER (WHERE owner = $1) - avg(a.balance)) AS x, id FROM accounts a GROUP BY id",
            "SELECT array_agg(balance) FILTER (WHERE \"owner$eq\" = ‹eq $1›) || ARRAY[''::bytea] || array_agg(a.balance) AS x, id \
             FROM accounts a GROUP BY id => -(Sum accounts.balance Minus Average accounts.balance), plain",
        ),
        (
            "SELECT round(coalesce(avg(balance), 0), 2), sum(balance) / nullif(count(DISTINCT owner), 0) mean FROM accounts",
            "SELECT array_agg(balance) AS \"round\", array_agg(balance) || ARRAY[''::bytea] || \
             ARRAY[pg_catalog.convert_to((nullif(count(DISTINCT \"owner$eq\"), 0))::pg_catalog.text, 'UTF8')] mean FROM accounts => \
             round Average accounts.balance or 0 to Some(2), (Sum accounts.balance Over count)",
        ),
        (
            "SELECT CAST(sum(balance) AS numeric(8,2)) / count(*) FILTER (WHERE id > $1) FROM accounts",
            "SELECT array_agg(balance) || ARRAY[''::bytea] || ARRAY[pg_catalog.convert_to((count(*) FILTER (WHERE id > \
             ‹$1›))::pg_catalog.text, 'UTF8')] AS \"?column?\" FROM accounts => (Sum accounts.balance as numeric(8,2) Over count)",
        ),
        (
            "SELECT sum(balance) * $1 + id, balance + 1 AS more FROM accounts GROUP BY id, balance",
            "SELECT array_agg(balance) || ARRAY[''::bytea] || array[(‹result $1›)::bytea] || ARRAY[''::bytea] || \
             ARRAY['\\x00'::bytea || pg_catalog.int4send((id))] AS \"?column?\", array[arras.any_of(balance)] AS more FROM accounts \
             GROUP BY id, \"balance$eq\", \"balance$ord\" => ((Sum accounts.balance Times accounts.balance) Plus integer), (accounts.balance Plus 1)",
        ),
        // One alone, or with a constant that the server may send, is as it was.
        (
            "SELECT coalesce(sum(balance), 0) FROM accounts",
            "SELECT coalesce(array_agg(balance) FILTER (WHERE balance IS NOT NULL), ARRAY[‹result 0›]::bytea[]) FROM accounts => sum \
             accounts.balance",
        ),
    ]);
    for statement in [
        "SELECT sum(balance) + ctid FROM accounts GROUP BY ctid",
        "SELECT sum(balance) * 2 AS s FROM accounts ORDER BY s",
        "SELECT x.s FROM (SELECT sum(balance) * 2 AS s FROM accounts) x",
        "SELECT id FROM accounts WHERE id = (SELECT sum(balance) * 2 FROM accounts)",
        "SELECT sum(id) * sum(balance) FROM accounts",
        "SELECT sum(balance) * lower('2') FROM accounts",
        "SELECT sum(amount) * 2 FROM payments",
        "INSERT INTO notes (id) SELECT sum(balance) * 2 FROM accounts",
    ] {
        let found = outcome(statement);
        assert!(found.starts_with("0A000"), "{statement}: {found}");
    }
}
