//! Results that are named by number or name where terms stand beside them, and names that inputs and results share.

use super::golden::check;

#[test]
fn a_number_counts_the_results_that_the_statement_lists() {
    check(&[
        (
            "SELECT * FROM (SELECT owner, id FROM accounts ORDER BY 2 DESC LIMIT 10) r",
            r#"SELECT "r"."owner", "r"."id" FROM (SELECT owner, "owner$eq" AS "owner$eq", id FROM accounts ORDER BY 3 DESC LIMIT 10) r => accounts.owner, plain"#,
        ),
        (
            "WITH w AS (SELECT owner, id, count(*) AS n FROM accounts GROUP BY 1, 2) SELECT * FROM w",
            r#"WITH w AS (SELECT arras.any_of(owner) AS "owner", "owner$eq" AS "owner$eq", id, count(*) AS n FROM accounts GROUP BY "owner$eq", 3) SELECT "w"."owner", "w"."id", "w"."n" FROM w => accounts.owner, plain, plain"#,
        ),
        (
            "SELECT * FROM (SELECT * FROM payments ORDER BY 5) r",
            r#"SELECT "r"."id", "r"."payer", "r"."owner", "r"."amount", "r"."note" FROM (SELECT "payments"."id", "payments"."payer", "payments"."payer$eq", "payments"."owner", "payments"."owner$eq", "payments"."amount", "payments"."amount$ord", "payments"."note" FROM payments ORDER BY 8) r => plain, payments.payer, payments.owner, payments.amount, plain"#,
        ),
        (
            "SELECT * FROM (SELECT DISTINCT ON (2) owner, id FROM accounts) r",
            r#"SELECT "r"."owner", "r"."id" FROM (SELECT DISTINCT ON (3) owner, "owner$eq" AS "owner$eq", id FROM accounts) r => accounts.owner, plain"#,
        ),
        (
            "SELECT * FROM (SELECT owner, id FROM accounts UNION ALL SELECT owner, id FROM accounts ORDER BY 2) r",
            r#"SELECT "r"."owner", "r"."id" FROM (SELECT owner, "owner$eq" AS "owner$eq", id FROM accounts UNION ALL SELECT owner, "owner$eq" AS "owner$eq", id FROM accounts ORDER BY 3) r => accounts.owner, plain"#,
        ),
        // At the top no terms stand beside them.
        (
            "SELECT owner, id FROM accounts ORDER BY 2",
            r#"SELECT owner, id FROM accounts ORDER BY 2 => accounts.owner, plain"#,
        ),
        (
            "SELECT DISTINCT ON (1) owner, id FROM accounts",
            r#"SELECT DISTINCT ON ("owner$eq") owner, id FROM accounts => accounts.owner, plain"#,
        ),
        (
            "SELECT DISTINCT ON (o) owner AS o, id FROM accounts",
            r#"SELECT DISTINCT ON ("owner$eq") owner AS o, id FROM accounts => accounts.owner, plain"#,
        ),
    ]);
}

#[test]
fn what_is_chosen_of_an_encrypted_column_is_not_grouped_by_its_name_or_number() {
    check(&[
        (
            "SELECT coalesce(owner, 'none') AS c, count(*) FROM accounts GROUP BY c",
            r#"0A000 70: "c" is computed of an encrypted column: GROUP BY cannot read it"#,
        ),
        (
            "SELECT coalesce(owner, 'none') AS c, count(*) FROM accounts GROUP BY 1",
            r#"0A000 70: "c" is computed of an encrypted column: GROUP BY cannot read it"#,
        ),
        (
            "SELECT CASE WHEN id > 5 THEN owner END, count(*) FROM accounts GROUP BY ROLLUP (1)",
            r#"0A000 81: "case" is computed of an encrypted column: GROUP BY cannot read it"#,
        ),
        (
            "SELECT (SELECT owner FROM accounts a WHERE a.id = x.id) AS o, count(*) FROM notes x GROUP BY o",
            r#"0A000 94: "o" is computed of an encrypted column: GROUP BY cannot read it"#,
        ),
        (
            "SELECT DISTINCT ON (c) coalesce(owner, 'none') AS c FROM accounts",
            r#"0A000 21: "c" is computed of an encrypted column: DISTINCT ON cannot read it"#,
        ),
    ]);
}

#[test]
fn a_name_that_is_ordered_by_is_a_result_s_before_it_is_an_input_s() {
    check(&[
        (
            "SELECT a.id, v.balance FROM accounts a JOIN (VALUES (1, 10), (2, 5)) v (id, balance) ON v.id = a.id ORDER BY balance",
            r#"0A000 77: column accounts.balance is encrypted, and this use of it is not understood"#,
        ),
        (
            "SELECT a.id, a.owner, a.balance FROM accounts a JOIN accounts b ON a.id = b.id ORDER BY balance",
            r#"SELECT a.id, a.owner, a.balance FROM accounts a JOIN accounts b ON a.id = b.id ORDER BY a."balance$ord" => plain, accounts.owner, accounts.balance"#,
        ),
        ("SELECT n.owner FROM notes n JOIN accounts a ON a.id = n.id ORDER BY owner", r#"unchanged"#),
    ]);
}
