//! Forms of PostgreSQL's that the parser does not know.

use super::golden::check;
use super::outcome;

#[test]
fn a_value_may_be_between_two_in_either_order() {
    check(&[
        (
            "SELECT id FROM accounts WHERE balance BETWEEN SYMMETRIC 5 AND $1",
            "SELECT id FROM accounts WHERE ((\"balance$ord\" BETWEEN bound('02', ‹GreaterOrEqual 5›) AND bound('02', ‹LessOrEqual $1›) \
             OR \"balance$ord\" BETWEEN bound('02', ‹GreaterOrEqual $1›) AND bound('02', ‹LessOrEqual 5›)))",
        ),
        (
            "SELECT id FROM accounts a WHERE ((a.balance)) not between symmetric (5) AND -1 AND id BETWEEN SYMMETRIC 2 AND 1",
            "SELECT id FROM accounts a WHERE (NOT (a.\"balance$ord\" BETWEEN bound('02', ‹GreaterOrEqual or in the gap 5›) AND \
             bound('02', ‹LessOrEqual or in the gap -1›) OR a.\"balance$ord\" BETWEEN bound('02', ‹GreaterOrEqual or in the gap -1›) \
             AND bound('02', ‹LessOrEqual or in the gap 5›))) AND id BETWEEN SYMMETRIC 2 AND 1",
        ),
        (
            "SELECT id FROM readings WHERE level BETWEEN SYMMETRIC 5 AND 1 OR depth BETWEEN ASYMMETRIC 1 AND 2",
            "SELECT id FROM readings WHERE ((arras.clww_between(\"level$ord\", ‹GreaterOrEqual 5›, ‹LessOrEqual 1›) = 0 OR \
             arras.clww_between(\"level$ord\", ‹GreaterOrEqual 1›, ‹LessOrEqual 5›) = 0)) OR \
             arras.lewi_wu_between(\"depth$ord\", ‹GreaterOrEqual 1›, ‹LessOrEqual 2›) BETWEEN ASYMMETRIC 0 AND 0",
        ),
    ]);
    for statement in [
        "SELECT id FROM accounts WHERE memo BETWEEN SYMMETRIC 'a' AND 'b'",
        "SELECT id FROM accounts WHERE balance BETWEEN SYMMETRIC id AND 5",
        "SELECT id FROM accounts WHERE 5 BETWEEN SYMMETRIC balance AND 7",
    ] {
        assert!(outcome(statement).starts_with("0A000"), "{statement}: {}", outcome(statement));
    }
}

#[test]
fn a_table_alone_is_all_of_it() {
    check(&[
        (
            "TABLE payments",
            "SELECT \"payments\".\"id\", \"payments\".\"payer\", \"payments\".\"owner\", \"payments\".\"amount\", \"payments\".\"note\" \
             FROM payments => plain, payments.payer, payments.owner, payments.amount, plain",
        ),
        (
            "table only public.readings ORDER BY id LIMIT 1",
            "SELECT \"readings\".\"id\", \"readings\".\"level\", \"readings\".\"depth\", \"readings\".\"rank\" FROM only \
             public.readings ORDER BY id LIMIT 1 => plain, readings.level, readings.depth, readings.rank",
        ),
        (
            "SELECT r.level FROM (TABLE readings) r WHERE EXISTS (TABLE accounts) AND id IN (SELECT id FROM (TABLE notes) n)",
            "SELECT r.level FROM (SELECT \"readings\".\"id\", \"readings\".\"level\", \"readings\".\"level$ord\", \
             \"readings\".\"depth\", \"readings\".\"depth$ord\", \"readings\".\"rank\", \"readings\".\"rank$eq\", \
             \"readings\".\"rank$ord\" FROM readings) r WHERE EXISTS (TABLE accounts) AND id IN (SELECT id FROM (TABLE notes) n) \
             => readings.level",
        ),
        ("SELECT level table FROM readings", "SELECT level table FROM readings => readings.level"),
    ]);
    for statement in
        ["SELECT id FROM accounts WHERE owner IN (TABLE readings)", "SELECT * INTO TABLE other FROM accounts"]
    {
        assert!(outcome(statement).starts_with("0A000"), "{statement}: {}", outcome(statement));
    }
    let inserted = outcome("INSERT INTO visits TABLE visits");
    assert!(
        inserted.contains(
            "SELECT \"visits\".\"id\", \"visits\".\"age\", \"visits\".\"score\" FROM visits) UNION ALL"
        ),
        "{inserted}"
    );
}

#[test]
fn a_string_that_goes_on_is_one() {
    check(&[(
        "SELECT id FROM accounts WHERE owner = 'An'\n  'n' AND id = length('a'\n'b')",
        "SELECT id FROM accounts WHERE \"owner$eq\" = ‹eq Ann› AND id = length('a'\n'b')",
    )]);
    let apart = outcome("SELECT id FROM accounts WHERE owner = 'An' 'n'");
    assert!(apart.starts_with("42601"), "{apart}");
}

#[test]
fn columns_are_set_together() {
    check(&[
        (
            "UPDATE accounts SET (id, owner, balance) = (1, 'Ann', $1) WHERE id = 2",
            "UPDATE accounts SET (id, \"owner\", \"owner$eq\", \"balance\", \"balance$eq\", \"balance$ord\") = (1, ‹sealed Ann›, \
             ‹eq Ann›, ‹sealed $1›, ‹eq $1›, label('02', ‹ord $1›)) WHERE id = 2",
        ),
        (
            "UPDATE accounts SET (memo) = ROW('x'), (id, memo) = row (2, DEFAULT)",
            "UPDATE accounts SET (\"memo\") = ROW(‹sealed x›), (id, \"memo\") = row (2, DEFAULT)",
        ),
        (
            "UPDATE accounts SET (balance, id) = (balance + 1, 7) RETURNING id",
            "SELECT balance, \"accounts\".ctid, \"accounts\".tableoid FROM accounts  FOR NO KEY UPDATE => accounts.balance, plain, \
             plain; accounts.balance = (read 0 as accounts.balance Plus 1); UPDATE accounts SET (\"balance\", \"balance$eq\", \
             \"balance$ord\", id) = (‹sealed computed 0›, ‹eq computed 0›, label('02', ‹ord computed 0›), 7) WHERE \
             \"accounts\".ctid = ‹read 1›::tid AND \"accounts\".tableoid = ‹read 2›::oid RETURNING id",
        ),
        (
            "INSERT INTO accounts (id, owner) VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET (owner, id) = (EXCLUDED.owner, 2)",
            "INSERT INTO accounts (id, \"owner\", \"owner$eq\") VALUES (1, ‹sealed a›, ‹eq a›) ON CONFLICT (id) DO UPDATE SET \
             (\"owner\", \"owner$eq\", id) = (EXCLUDED.owner, EXCLUDED.\"owner$eq\", 2)",
        ),
    ]);
    for (statement, code) in [
        ("UPDATE accounts SET (owner, id) = (SELECT 'secret', 1)", "0A000"),
        ("UPDATE accounts SET (owner, id) = ('secret')", "0A000"),
        ("UPDATE accounts SET (owner, id) = ('secret', 1, 2)", "42601"),
        ("UPDATE accounts SET (owner, id) = (lower('Secret'), 1)", "0A000"),
        ("UPDATE accounts SET (onwer, id) = ('secret', 1)", "42703"),
        ("UPDATE accounts SET (onwer, memo) = ('secret', 'x')", "42703"),
        ("INSERT INTO visits (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET (age, id) = (5, 2)", "0A000"),
    ] {
        assert!(outcome(statement).starts_with(code), "{statement}: {}", outcome(statement));
    }
}
