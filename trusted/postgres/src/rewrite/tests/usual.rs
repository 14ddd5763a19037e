//! Statements as applications write them, which were rewritten wrongly or not at all.

use super::golden::check;
use super::outcome;

#[test]
fn what_a_statement_changes_is_a_table_though_a_common_expression_has_its_name() {
    for (statement, expected) in [
        (
            "WITH accounts AS (SELECT 1 AS id) INSERT INTO accounts (id, owner) VALUES (1, 'Alice')",
            "‹sealed Alice›",
        ),
        (
            "WITH accounts AS (SELECT 1 AS id) UPDATE accounts SET owner = 'Alice' WHERE id = 1",
            "‹sealed Alice›",
        ),
        ("WITH accounts AS (SELECT 1 AS id) DELETE FROM accounts WHERE owner = 'Alice'", "‹eq Alice›"),
        (
            "WITH accounts AS (SELECT 1 AS id) DELETE FROM accounts a USING accounts b WHERE a.owner = 'Alice' AND a.id = b.id",
            "‹eq Alice›",
        ),
    ] {
        let found = outcome(statement);
        assert!(found.contains(expected) && !found.contains("'Alice'"), "{statement}: {found}");
    }
}

#[test]
fn what_is_stored_is_chosen_by_what_says_the_same_each_time() {
    for statement in [
        "UPDATE accounts SET balance = CASE WHEN random() < 0.5 THEN 1 ELSE 2 END",
        "UPDATE accounts SET balance = CASE WHEN nextval('s') > 5 THEN 1 ELSE balance END",
        "UPDATE accounts SET balance = CASE WHEN clock_timestamp() > now() THEN 1 ELSE 2 END",
        "UPDATE accounts SET balance = CASE WHEN id IN (SELECT id FROM notes TABLESAMPLE system (5)) THEN 1 ELSE 2 END",
        "UPDATE accounts SET balance = CASE WHEN app.round(1) < 0.5 THEN 1 ELSE 2 END",
        "UPDATE accounts SET balance = CASE WHEN (SELECT r FROM coin) < 0.5 THEN 1 ELSE 2 END",
    ] {
        let found = outcome(statement);
        assert!(found.contains("another thing each time"), "{statement}: {found}");
    }
    let steady = "UPDATE accounts SET balance = CASE WHEN pg_catalog.lower(body) IN ('a') THEN 1 ELSE 2 END FROM notes";
    assert!(outcome(steady).contains("‹eq 2›"), "{}", outcome(steady));
    // In a result, it is made once.
    let shown = "SELECT CASE WHEN random() < 0.5 THEN owner ELSE 'x' END FROM accounts";
    assert!(outcome(shown).contains("‹result x›"), "{}", outcome(shown));
}

#[test]
fn what_is_of_a_group_goes_by_what_makes_it() {
    check(&[
        (
            "SELECT owner, count(*) FROM accounts GROUP BY owner HAVING owner IS NOT NULL",
            "SELECT arras.any_of(owner) AS \"owner\", count(*) FROM accounts GROUP BY \"owner$eq\" HAVING \"owner$eq\" IS NOT NULL \
             => accounts.owner, plain",
        ),
        (
            "SELECT coalesce(owner, 'none') o, owner IS NULL, count(owner) FILTER (WHERE owner IS NULL) FROM accounts GROUP BY owner",
            "SELECT coalesce(arras.any_of(owner), ‹result none›) o, \"owner$eq\" IS NULL, count(owner) FILTER (WHERE owner IS NULL) \
             FROM accounts GROUP BY \"owner$eq\" => accounts.owner, plain, plain",
        ),
        (
            "SELECT count(*) FROM accounts GROUP BY owner ORDER BY owner IS NULL",
            "SELECT count(*) FROM accounts GROUP BY \"owner$eq\" ORDER BY \"owner$eq\" IS NULL",
        ),
    ]);
}

#[test]
fn a_column_that_two_relations_share_is_that_of_the_first() {
    check(&[
        (
            "SELECT owner, amount FROM accounts JOIN payments USING (owner) WHERE owner = 'x' ORDER BY owner IS NULL",
            "SELECT \"accounts\".\"owner\", amount FROM accounts JOIN payments USING (\"owner$eq\") WHERE \
             \"accounts\".\"owner$eq\" = ‹eq x› ORDER BY \"accounts\".\"owner\" IS NULL => accounts.owner, payments.amount",
        ),
        (
            "SELECT owner, count(*) FROM accounts a LEFT JOIN payments p USING (owner) GROUP BY owner",
            "SELECT arras.any_of(\"a\".\"owner\") AS \"owner\", count(*) FROM accounts a LEFT JOIN payments p USING (\"owner$eq\") \
             GROUP BY \"a\".\"owner$eq\" => accounts.owner, plain",
        ),
    ]);
}

#[test]
fn results_without_a_name_have_postgresqls() {
    let inner = "SELECT owner, id::text, count(*)::int, 5::bigint, CASE WHEN id > 5 THEN 1 ELSE id END, CASE WHEN id > 5 THEN 1 END, \
                 extract(year FROM now()), pg_catalog.lower('x'), trim('x'), DATE '2020-01-01', id + 1 AS s, (SELECT 1 AS k) FROM accounts";
    let names = ["owner", "id", "count", "int8", "id", "case", "extract", "lower", "btrim", "date", "s", "k"];
    let stars = names.map(|name| format!("\"x\".\"{name}\"")).join(", ");
    let found = outcome(&format!("SELECT * FROM ({inner}) x"));
    assert!(found.starts_with(&format!("SELECT {stars} FROM (")), "{found}");
}

#[test]
fn the_members_of_an_array_are_compared_by_the_order_of_a_column_that_has_no_other_term() {
    let found = outcome("SELECT id FROM payments WHERE amount = ANY(ARRAY[1, $1])");
    let expected = "\"amount$ord\" = ANY(ARRAY[bound('06', ‹Equal 1›), bound('06', ‹Equal $1›)])";
    assert!(found.contains(expected), "{found}");
    let bound = outcome("SELECT id FROM payments WHERE amount = ANY($1)");
    assert!(bound.contains("\"equality\""), "{bound}");
}

#[test]
fn what_an_aggregate_goes_over_is_not_of_the_group() {
    let found = outcome("SELECT score, max(score) FILTER (WHERE score > 2) FROM visits GROUP BY score");
    assert!(found.contains("FILTER (WHERE \"score$ord\" >"), "{found}");
    let found = outcome("SELECT DISTINCT(owner) FROM accounts GROUP BY owner");
    assert!(found.starts_with("SELECT DISTINCT ON (\"owner$eq\") arras.any_of((owner))"), "{found}");
}

#[test]
fn a_choice_may_ask_whether_values_differ() {
    let found = outcome(
        "UPDATE accounts SET balance = CASE WHEN body IS DISTINCT FROM ('zz') THEN 4 ELSE 5 END FROM notes",
    );
    assert!(found.contains("‹eq 4›"), "{found}");
}

#[test]
fn constants_that_encrypted_columns_choose_stay_with_the_proxy_where_nothing_reads_the_result() {
    for shown in [
        "SELECT CASE WHEN balance > 5 THEN 'rich' ELSE 'poor' END FROM accounts",
        "SELECT id, CASE WHEN owner = 'Ann' THEN 'rich' WHEN balance < 3 THEN 'poor' END AS c FROM accounts ORDER BY id",
        "SELECT upper(CASE WHEN balance IS NULL THEN 'rich' ELSE $1 END) FROM accounts WHERE id = 1",
        "SELECT CASE owner WHEN 'Ann' THEN 'rich' END FROM accounts",
        "SELECT CASE WHEN max(balance) > 5 THEN 'rich' END FROM accounts",
        "UPDATE accounts SET id = 1 RETURNING CASE WHEN balance > 5 THEN 'rich' ELSE 'poor' END",
        "COPY (SELECT CASE WHEN balance > 5 THEN 'rich' ELSE 'poor' END FROM accounts) TO STDOUT",
    ] {
        let found = outcome(shown);
        let (sent, _) = found.split_once(" => ").expect(shown);
        assert!(!sent.contains("rich") && !sent.contains("poor") && !sent.contains("Ann"), "{found}");
    }
    // What reads the result is the server's, and so are the constants.
    for read in [
        "SELECT CASE WHEN balance > 5 THEN 'rich' END AS c FROM accounts ORDER BY c",
        "SELECT CASE WHEN balance > 5 THEN 'rich' END, count(*) FROM accounts GROUP BY 1",
        "SELECT DISTINCT CASE WHEN balance > 5 THEN 'rich' END FROM accounts",
        "SELECT CASE WHEN balance > 5 THEN 'rich' END FROM accounts UNION ALL SELECT 'none'",
        "SELECT s.c FROM (SELECT CASE WHEN balance > 5 THEN 'rich' END AS c FROM accounts) s",
        "SELECT count(CASE WHEN balance > 5 THEN 'rich' END) FROM accounts",
        "INSERT INTO notes (body) SELECT CASE WHEN balance > 5 THEN 'rich' END FROM accounts",
        "SELECT CASE WHEN balance > 5 THEN initcap('rich') END FROM accounts",
    ] {
        assert!(
            outcome(read).contains("> bound('0") && outcome(read).contains("'rich'"),
            "{}",
            outcome(read)
        );
    }
}

#[test]
fn the_schema_that_a_name_means_is_written_before_it() {
    let sent = |statement: &str| match &crate::plan(statement, &super::catalog()).unwrap()[0].action {
        crate::Action::Rewritten(rewritten) => rewritten.extended_text(),
        other => panic!("{statement}: {other:?}"),
    };
    for (statement, expected) in [
        ("SELECT accounts.id FROM accounts", "SELECT accounts.id FROM \"public\".accounts"),
        (
            "DELETE FROM ONLY Accounts a USING notes WHERE a.id = 5",
            "DELETE FROM ONLY \"public\".Accounts a USING notes WHERE a.id = 5",
        ),
        ("UPDATE \"accounts\" SET id = 5", "UPDATE \"public\".\"accounts\" SET id = 5"),
        ("INSERT INTO accounts (id) VALUES ($1)", "INSERT INTO \"public\".accounts (id) VALUES ($1)"),
        (
            "TABLE accounts",
            "SELECT \"accounts\".\"id\", \"accounts\".\"owner\", \"accounts\".\"balance\", \"accounts\".\"opened\", \
             \"accounts\".\"memo\", \"accounts\".\"closed\" FROM \"public\".accounts",
        ),
        ("SELECT owner FROM public.accounts", "SELECT owner FROM public.accounts"),
        (
            "SELECT 1 FROM notes WHERE id IN (SELECT id FROM accounts JOIN payments USING (id))",
            "SELECT 1 FROM notes WHERE id IN (SELECT id FROM \"public\".accounts JOIN \"public\".payments USING (id))",
        ),
        (
            "WITH accounts AS (SELECT id FROM accounts) SELECT id FROM accounts",
            "WITH accounts AS (SELECT id FROM \"public\".accounts) SELECT id FROM accounts",
        ),
        ("EXPLAIN SELECT id FROM accounts", "EXPLAIN SELECT id FROM \"public\".accounts"),
    ] {
        assert_eq!(sent(statement), expected);
    }
    for steps in [
        "UPDATE accounts SET balance = balance + 1",
        "INSERT INTO accounts (id, balance) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + 1",
        "INSERT INTO accounts (memo) SELECT memo FROM accounts",
        "COPY accounts TO STDOUT",
        "COPY accounts (id, memo) FROM STDIN",
    ] {
        let planned = format!("{:?}", crate::plan(steps, &super::catalog()).unwrap());
        let bare = ["FROM accounts", "UPDATE accounts", "INTO accounts"];
        assert!(!bare.iter().any(|name| planned.contains(name)), "{planned}");
    }
}
