//! Rows that are compared with rows by their order.

use super::golden::check;

#[test]
fn rows_are_compared_member_by_member_without_equality() {
    check(&[
        (
            "SELECT id FROM payments WHERE (amount, id) > ($1, $2) ORDER BY amount, id",
            "SELECT id FROM payments WHERE (\"amount$ord\" >= bound('06', ‹GreaterOrEqual $1›) AND (\"amount$ord\" > bound('06', ‹Greater \
             $1›) OR id > ‹$2›)) ORDER BY \"amount$ord\", id",
        ),
        (
            "SELECT id FROM payments WHERE ROW(id, amount, note) <= ROW($2, 5, $1)",
            "SELECT id FROM payments WHERE (id <= ‹$2› AND (id < ‹$2› OR (\"amount$ord\" <= bound('06', ‹LessOrEqual 5›) AND \
             (\"amount$ord\" < bound('06', ‹Less 5›) OR note <= ‹$1›))))",
        ),
        (
            "SELECT id FROM readings WHERE (id, 7) < (3, depth)",
            "SELECT id FROM readings WHERE (id <= 3 AND (id < 3 OR 0 < arras.lewi_wu_compare(\"depth$ord\", ‹Greater 7›)))",
        ),
        // The last is looked at once.
        (
            "SELECT id FROM payments WHERE (amount, random()) > (1, 0.5)",
            "SELECT id FROM payments WHERE (\"amount$ord\" >= bound('06', ‹GreaterOrEqual 1›) AND (\"amount$ord\" > bound('06', \
             ‹Greater 1›) OR random() > 0.5))",
        ),
        (
            "SELECT id FROM payments WHERE (random(), amount) > (1, 5)",
            "0A000 42: column payments.amount is encrypted: a row cannot read it",
        ),
        (
            "SELECT id FROM payments WHERE (amount + 1, id) > (1, 2)",
            "0A000 32: column payments.amount is encrypted: operator + cannot read it",
        ),
        (
            "SELECT id FROM payments WHERE (amount, id) > (SELECT 1, 2)",
            "0A000 32: column payments.amount is encrypted: a row cannot read it",
        ),
    ]);
}

/// A result's least or greatest value is shown sealed, and ordered by the term.
#[test]
fn rows_are_ordered_by_the_result_that_is_a_greatest_value() {
    check(&[(
        "SELECT owner, max(balance) AS m FROM accounts GROUP BY owner ORDER BY m DESC, 2",
        "SELECT arras.any_of(owner) AS \"owner\", arras.mope_greatest(balance, \"balance$ord\") AS m FROM accounts GROUP BY \
         \"owner$eq\" ORDER BY max(\"balance$ord\") DESC, max(\"balance$ord\") => accounts.owner, accounts.balance",
    )]);
}
