//! `INSERT` of a query's rows, and what becomes of it.

use super::golden::check;

#[test]
fn rows_of_queries_pass_through_the_proxy() {
    check(&[
        (
            "INSERT INTO payments (id, payer, amount) SELECT id, owner, balance FROM accounts WHERE balance > $1 ON CONFLICT DO \
             NOTHING RETURNING payer",
            "SELECT arras_rows.c0::integer, arras_rows.c1, arras_rows.c2 FROM ((SELECT id, owner, balance FROM accounts WHERE \
             \"balance$ord\" > bound('02', ‹Greater $1›)) UNION ALL SELECT NULL::integer, NULL::bytea, NULL::bytea WHERE false) \
             AS arras_rows (c0, c1, c2) => plain, accounts.owner, accounts.balance; ; INSERT INTO payments (id, \"payer\", \
             \"payer$eq\", \"amount\", \"amount$ord\") VALUES (‹read 0›, ‹sealed read 1›, ‹eq read 1›, ‹sealed read 2›, \
             label('06', ‹ord read 2›)) ON CONFLICT DO NOTHING RETURNING payer => payments.payer",
        ),
        // What is to be sealed does not go out in the query.
        (
            "INSERT INTO payments SELECT n.id, 'Ann', $1, n.id, $2 FROM notes n",
            "SELECT arras_rows.c0::integer, arras_rows.c1, arras_rows.c2, arras_rows.c3::integer, arras_rows.c4::integer FROM \
             ((SELECT n.id, NULL, NULL, n.id, ‹$2› FROM notes n) UNION ALL SELECT NULL::integer, NULL, NULL, NULL::integer, \
             NULL::integer WHERE false) AS arras_rows (c0, c1, c2, c3, c4) => plain, plain, plain, plain, plain; ; INSERT INTO \
             payments (\"id\", \"payer\", \"payer$eq\", \"owner\", \"owner$eq\", \"amount\", \"amount$ord\", \"note\") \
             VALUES (‹read 0›, ‹sealed Ann›, ‹eq Ann›, ‹sealed $1›, ‹eq $1›, ‹sealed read 3›, label('06', ‹ord read 3›), ‹read 4›) ",
        ),
        (
            "INSERT INTO payments (amount) SELECT v FROM (VALUES (1), (2)) AS s (v)",
            "0A000 31: values of payments.amount come from a query that is more than columns of tables: the server would see \
             them before they are encrypted",
        ),
        (
            "INSERT INTO payments (amount) SELECT id + 5 FROM notes",
            "0A000 31: values of payments.amount come from a query that is more than columns of tables: the server would see \
             them before they are encrypted",
        ),
        (
            "INSERT INTO payments (payer) SELECT * FROM unnest($1::text[])",
            "0A000 30: values of payments.payer come with columns of a relation that is not known",
        ),
        (
            "INSERT INTO payments (payer) SELECT u FROM unnest($1::text[]) u",
            "0A000 30: values of payments.payer come from a query that is more than columns of tables: the server would see \
             them before they are encrypted",
        ),
        (
            "INSERT INTO payments (id, payer) SELECT balance, owner FROM accounts",
            "0A000 34: column \"id\" is not encrypted: values of accounts.balance would be stored in plaintext",
        ),
        (
            "INSERT INTO payments (amount) SELECT memo FROM accounts",
            "0A000 31: column payments.amount is of type integer, and a value of type text is not converted to it",
        ),
        (
            "INSERT INTO payments (payer) SELECT owner FROM accounts ON CONFLICT (id) DO UPDATE SET id = 1",
            "0A000 30: an INSERT of a query's rows into encrypted columns has no ON CONFLICT DO UPDATE",
        ),
    ]);
}
