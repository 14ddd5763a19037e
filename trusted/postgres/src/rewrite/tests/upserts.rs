//! `ON CONFLICT DO UPDATE` with values that the proxy computes.

use super::golden::check;
use super::{catalog, outcome};
use crate::plan::{Action, Program};
use crate::rewrite::plan;

/// What ends the statement that inserts or locks.
const FOUND: &str = "\"accounts\".ctid, \"accounts\".tableoid, \"accounts\".xmax::pg_catalog.text OPERATOR(pg_catalog.<>) '0', \
    EXISTS (SELECT FROM pg_catalog.pg_trigger arras_of WHERE arras_of.tgrelid OPERATOR(pg_catalog.=) \"accounts\".tableoid \
    AND NOT arras_of.tgisinternal AND arras_of.tgenabled OPERATOR(pg_catalog.<>) 'D' \
    AND arras_of.tgtype::integer OPERATOR(pg_catalog.&) 16 OPERATOR(pg_catalog.<>) 0 AND arras_of.tgfoid NOT IN \
    (SELECT arras_in.oid FROM pg_catalog.pg_proc arras_in WHERE arras_in.pronamespace OPERATOR(pg_catalog.=) \
    pg_catalog.to_regnamespace('arras')))";

#[test]
fn a_row_that_is_there_is_locked_read_and_written() {
    let kept = "\"balance\" = \"accounts\".\"balance\", \"balance$eq\" = \"accounts\".\"balance$eq\", \"balance$ord\" = \
        \"accounts\".\"balance$ord\"";
    let set = "\"balance\" = ‹sealed computed 0›, \"balance$eq\" = ‹eq computed 0›, \"balance$ord\" = label('02', ‹ord computed 0›)";
    let inserted = "(id, \"balance\", \"balance$eq\", \"balance$ord\") VALUES (‹$1›, ‹sealed $2›, ‹eq $2›, label('02', ‹ord $2›))";
    check(&[(
        "INSERT INTO accounts (id, balance) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + EXCLUDED.balance, \
         id = 3 WHERE accounts.id < 7 RETURNING id, balance",
        &format!(
            "INSERT INTO accounts {inserted} ON CONFLICT (id) DO UPDATE SET {kept}, id = 3 WHERE accounts.id < 7 RETURNING \
             accounts.balance, \"accounts\".\"balance\", {FOUND} => accounts.balance, accounts.balance, plain, plain, plain, plain; \
             accounts.balance = (read 0 as accounts.balance Plus $2 for accounts.balance) where read 4, else read 1 as accounts.balance; \
             UPDATE accounts SET {set} WHERE \"accounts\".ctid = ‹read 2›::tid AND \"accounts\".tableoid = ‹read 3›::oid RETURNING \
             id, balance => plain, accounts.balance"
        ),
    )]);
    let rows = outcome(
        "INSERT INTO public.accounts AS a (id, balance) VALUES (1, 2), (3, 4) ON CONFLICT (id) DO UPDATE SET (balance, memo) = (a.balance + a.id, 'x')",
    );
    assert!(rows.ends_with(&format!("; UPDATE public.accounts AS a SET {set} WHERE \"a\".ctid = ‹read 3›::tid AND \"a\".tableoid = ‹read 4›::oid")), "{rows}");
    assert!(rows.contains("(\"balance\", \"balance$eq\", \"balance$ord\", \"memo\") = (\"a\".\"balance\", \"a\".\"balance$eq\", \"a\".\"balance$ord\", ‹sealed x›)"), "{rows}");
}

#[test]
fn what_cannot_be_computed_where_a_row_is_there_is_refused() {
    let insert = |rest: &str| format!("INSERT INTO accounts (id, balance, owner) VALUES {rest}");
    for rest in [
        // Which of several rows is meant is not known.
        "(1, 2, 'a'), (3, 4, 'secret') ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + EXCLUDED.balance",
        // What is read has changed by then.
        "(1, 2, 'a') ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + accounts.id, id = 5",
        "(1, 2, 'a') ON CONFLICT (id) DO UPDATE SET (id, balance) = (5, accounts.balance + accounts.id)",
        "(1, 2, 'a') ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + EXCLUDED.id",
        "(1, 2, 'a') ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + 1 RETURNING (SELECT count(*) FROM accounts)",
        "(1, 2, 'a') ON CONFLICT (id) DO UPDATE SET balance = abs(EXCLUDED.balance)",
        "(1, 2, 'a') ON CONFLICT (id) DO UPDATE SET owner = accounts.owner || lower('Secret')",
    ] {
        let found = outcome(&insert(rest));
        assert!(found.starts_with("0A000"), "{rest}: {found}");
    }
    for statement in [
        "INSERT INTO visits (id, age) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET age = visits.age + 1",
        "WITH w AS (INSERT INTO accounts (id, balance) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + 1 RETURNING id) SELECT * FROM w",
        "EXPLAIN INSERT INTO accounts (id, balance) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + 1",
        "INSERT INTO accounts (id, balance) SELECT id, balance FROM accounts ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + 1",
        "PREPARE p AS INSERT INTO accounts (id, balance) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + 1",
    ] {
        let found = outcome(statement);
        assert!(found.starts_with("0A000"), "{statement}: {found}");
    }
}

#[test]
fn a_column_is_named_with_its_row_before_it() {
    for (value, place) in [
        ("balance + 1", 91),
        ("accounts.balance + id", 110),
        ("accounts.balance + coalesce(\"balance\", 1)", 119),
    ] {
        let found = outcome(&format!(
            "INSERT INTO accounts (id, balance) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET balance = {value}"
        ));
        assert!(found.starts_with(&format!("42702 {place}: column reference \"")), "{value}: {found}");
    }
}

/// A key may be relabelled until the transaction that stores it holds its order.
#[test]
fn both_statements_hold_the_orders_of_either() {
    let text = "INSERT INTO accounts (id, opened, balance) VALUES (1, '2020-01-01', 2) ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + 1";
    let action = plan(text, &catalog()).unwrap().remove(0).action;
    let Action::Program(program) = action else { panic!("{action:?}") };
    let Program::Recompute(recompute) = *program else { panic!("{program:?}") };
    assert_eq!(recompute.write.held(), [[0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 0, 0, 3]]);
}
