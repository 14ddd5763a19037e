//! `INSERT` of a query's rows, and what becomes of it.

use super::golden::check;
use super::outcome;

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
            "SELECT arras_rows.c0::integer, arras_rows.c1::pg_catalog.text, arras_rows.c2::pg_catalog.text, arras_rows.c3::integer, arras_rows.c4::integer FROM \
             ((SELECT n.id, NULL, NULL, n.id, ‹$2› FROM notes n) UNION ALL SELECT NULL::integer, NULL, NULL, NULL::integer, \
             NULL::integer WHERE false) AS arras_rows (c0, c1, c2, c3, c4) => plain, plain, plain, plain, plain; ; INSERT INTO \
             payments (\"id\", \"payer\", \"payer$eq\", \"owner\", \"owner$eq\", \"amount\", \"amount$ord\", \"note\") \
             VALUES (‹read 0›, ‹sealed Ann›, ‹eq Ann›, ‹sealed $1›, ‹eq $1›, ‹sealed read 3›, label('06', ‹ord read 3›), ‹read 4›) ",
        ),
        // Nothing of the text need change, and it does not go out as it is.
        (
            "INSERT INTO payments SELECT id, owner FROM notes",
            "SELECT arras_rows.c0::integer, arras_rows.c1::pg_catalog.text FROM ((SELECT id, owner FROM notes) UNION ALL SELECT \
             NULL::integer, NULL WHERE false) AS arras_rows (c0, c1) => plain, plain; ; INSERT INTO payments (\"id\", \"payer\", \
             \"payer$eq\") VALUES (‹read 0›, ‹sealed read 1›, ‹eq read 1›) ",
        ),
        (
            "INSERT INTO payments (amount) SELECT id + 5 FROM notes",
            "0A000 31: values of payments.amount come from a query that is more than columns of tables: the server would see \
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

#[test]
fn rows_that_a_statement_lists_are_sealed_where_they_stand() {
    check(&[
        // As SQLAlchemy writes them.
        (
            "INSERT INTO accounts (id, owner, balance, memo) SELECT p0::INTEGER, p1::VARCHAR, p2::INTEGER, p3::TEXT FROM \
             (VALUES ($1::INTEGER, $2::VARCHAR, $3::INTEGER, $4, 0), (2, NULL, -5, 'm', 1)) AS imp_sen(p0, p1, p2, p3, \
             sen_counter) ORDER BY sen_counter RETURNING accounts.id, accounts.balance AS balance__1",
            "INSERT INTO accounts (id, \"owner\", \"owner$eq\", \"balance\", \"balance$eq\", \"balance$ord\", \"memo\") SELECT \
             p0::INTEGER, \"p1\", \"p1$eq\", \"p2\", \"p2$eq\", \"p2$ord\", \"p3\" FROM (VALUES (‹$1›::INTEGER, ‹sealed $2›, \
             ‹eq $2›, ‹sealed $3›, ‹eq $3›, label('02', ‹ord $3›), ‹sealed $4›, 0), (2, ‹sealed NULL›::bytea, ‹eq NULL›::bytea, ‹sealed -5›, \
             ‹eq -5›, label('02', ‹ord -5›), ‹sealed m›, 1)) AS imp_sen(\"p0\", \"p1\", \"p1$eq\", \"p2\", \"p2$eq\", \
             \"p2$ord\", \"p3\", \"sen_counter\") ORDER BY sen_counter RETURNING accounts.id, accounts.balance AS balance__1 \
             => plain, accounts.balance",
        ),
        (
            "INSERT INTO payments (amount, id) SELECT v.column1, v.column2 + 1 FROM (VALUES (1, 5), (2, 6)) v WHERE column1 > 1 \
             ORDER BY column1 LIMIT 1 ON CONFLICT DO NOTHING",
            "INSERT INTO payments (\"amount\", \"amount$ord\", id) SELECT \"column1\", \"column1$ord\", v.column2 + 1 FROM \
             (VALUES (‹sealed 1›, label('06', ‹ord 1›), 5), (‹sealed 2›, label('06', ‹ord 2›), 6)) v (\"column1\", \
             \"column1$ord\", \"column2\") WHERE \"column1$ord\" > bound('06', ‹Greater 1›) ORDER BY v.\"column1$ord\" LIMIT 1 \
             ON CONFLICT DO NOTHING",
        ),
        (
            "INSERT INTO payments SELECT * FROM (VALUES (1, 'Ann')) AS v (a, b)",
            "INSERT INTO payments (\"id\", \"payer\", \"payer$eq\") SELECT \"a\", \"b\", \"b$eq\" FROM (VALUES (1, ‹sealed Ann›, \
             ‹eq Ann›)) AS v (\"a\", \"b\", \"b$eq\")",
        ),
        // As Django writes them.
        (
            "INSERT INTO \"accounts\" (\"owner\", \"balance\", \"id\") SELECT * FROM UNNEST(('{a,NULL}')::varchar[], \
             ('{1,2}'::int2[])::integer[], ($1)::integer[]) ON CONFLICT DO NOTHING RETURNING \"accounts\".\"id\"",
            "INSERT INTO \"accounts\" (\"owner\", \"owner$eq\", \"balance\", \"balance$eq\", \"balance$ord\", \"id\") SELECT \
             \"unnest 1\", \"unnest 1$eq\", \"unnest 2\", \"unnest 2$eq\", label('02', \"unnest 2$ord\"), \"unnest 3\" FROM \
             UNNEST(‹each sealed [Some(\"a\"), None]›::bytea[], ‹eqs [Some(\"a\"), None]›::bytea[], \
             ‹each sealed [Some(\"1\"), Some(\"2\")]›::bytea[], ‹eqs [Some(\"1\"), Some(\"2\")]›::bytea[], \
             ‹ords [Some(\"1\"), Some(\"2\")]›::bytea[], (‹$1›)::integer[]) AS \"unnest\" (\"unnest 1\", \"unnest 1$eq\", \
             \"unnest 2\", \"unnest 2$eq\", \"unnest 2$ord\", \"unnest 3\") ON CONFLICT DO NOTHING RETURNING \"accounts\".\"id\"",
        ),
        (
            "INSERT INTO payments (id, payer) SELECT u.n, u.name FROM unnest($1::text[]) WITH ORDINALITY AS u (name, n) ORDER BY n",
            "INSERT INTO payments (id, \"payer\", \"payer$eq\") SELECT u.n, \"name\", \"name$eq\" FROM \
             unnest(‹each sealed $1›::bytea[], ‹eqs $1›::bytea[]) WITH ORDINALITY AS u (\"name\", \"name$eq\", \"n\") ORDER BY n",
        ),
        (
            "INSERT INTO payments (payer) SELECT u FROM unnest($1::text[]) u",
            "INSERT INTO payments (\"payer\", \"payer$eq\") SELECT \"u\", \"u$eq\" FROM unnest(‹each sealed $1›::bytea[], \
             ‹eqs $1›::bytea[]) u (\"u\", \"u$eq\")",
        ),
    ]);
}

#[test]
fn what_a_list_cannot_seal_is_refused() {
    check(&[
        (
            "INSERT INTO payments (amount) SELECT v FROM (VALUES (1 ^ 1)) AS s (v)",
            "0A000 54: column payments.amount is encrypted: what is stored there must be a constant or a parameter",
        ),
        (
            "INSERT INTO payments (id, amount) SELECT v, v FROM (VALUES (1)) AS s (v)",
            "0A000 45: a listed value is stored in column payments.amount and in another",
        ),
        (
            "INSERT INTO payments (amount) SELECT v::text FROM (VALUES (1)) AS s (v)",
            "0A000 38: column payments.amount is of type integer, and a value is cast to text",
        ),
        (
            "INSERT INTO payments (amount) SELECT v + 1 FROM (VALUES (1)) AS s (v)",
            "0A000 31: values of payments.amount come from a query that is more than columns of tables: the server would see \
             them before they are encrypted",
        ),
        (
            "INSERT INTO payments (amount) SELECT v FROM (VALUES (1), (2)) AS s (v) ORDER BY 1",
            "0A000 81: what is stored in encrypted columns is not ordered by a result's number or alias",
        ),
        (
            "INSERT INTO payments (amount) SELECT v FROM (VALUES (1), (2, 3)) AS s (v)",
            "42601 58: VALUES lists must all be the same length",
        ),
        (
            "INSERT INTO payments (payer) SELECT u FROM unnest(ARRAY[$1, lower('X')]) u",
            "0A000 57: column payments.payer is encrypted: the array of its values must be a constant or a parameter",
        ),
        (
            "INSERT INTO payments (payer) SELECT u FROM unnest($1::text[]) u WHERE u > 'a'",
            "0A000 71: column payments.payer is encrypted without \"order\": operator > needs it",
        ),
        (
            "INSERT INTO payments (payer) SELECT u FROM unnest($1::text[]) u WHERE u = 'a'",
            "0A000 71: column payments.payer is encrypted: outside the query that computes it, operator = cannot read it",
        ),
    ]);
}

#[test]
fn what_the_server_cannot_choose_by_its_place_is_written_row_by_row() {
    check(&[
        (
            "UPDATE accounts SET memo = CASE id WHEN $1 THEN 'x' WHEN 2 THEN memo || $2 END WHERE id IN ($1, 2) RETURNING id",
            "SELECT memo, CASE id WHEN ‹$1› THEN 1 WHEN 2 THEN 2 END, \"accounts\".ctid, \"accounts\".tableoid FROM accounts WHERE id \
             IN (‹$1›, 2) FOR NO KEY UPDATE => accounts.memo, plain, plain, plain; accounts.memo = read 1 of [x, (read 0 as \
             accounts.memo Concatenated $2)]; UPDATE accounts SET \"memo\" = ‹sealed computed 0› WHERE \"accounts\".ctid = ‹read \
             2›::tid AND \"accounts\".tableoid = ‹read 3›::oid RETURNING id",
        ),
        (
            "UPDATE accounts SET memo = CASE WHEN owner = 'Ann' THEN CASE WHEN id > 5 THEN 'x' ELSE 'y' END || 'z' END",
            "SELECT CASE WHEN id > 5 THEN 1 ELSE 2 END, CASE WHEN \"owner$eq\" = ‹eq Ann› THEN 1 END, \"accounts\".ctid, \
             \"accounts\".tableoid FROM accounts  FOR NO KEY UPDATE => plain, plain, plain, plain; accounts.memo = read 1 of [(read 0 \
             of [x, y] Concatenated z)]; UPDATE accounts SET \"memo\" = ‹sealed computed 0› WHERE \"accounts\".ctid = ‹read 2›::tid \
             AND \"accounts\".tableoid = ‹read 3›::oid ",
        ),
    ]);
}

/// PostgreSQL looks at the conditions of a branch that a row goes by, and at no others.
#[test]
fn conditions_that_may_fail_are_looked_at_where_postgresql_does() {
    for nested in [
        "CASE WHEN id = 0 THEN 'x' ELSE CASE WHEN 10 / id > 3 THEN 'y' ELSE memo || 'z' END END",
        "CASE WHEN id = 0 THEN 'x' ELSE memo || CASE 10 / id WHEN 3 THEN 'y' ELSE memo || 'z' END END",
        "coalesce(memo, CASE WHEN nextval('s') > 3 THEN 'y' ELSE memo || 'z' END)",
        "coalesce(memo, 'x' || (CASE WHEN CASE WHEN id = 0 THEN true ELSE 10 / id > 3 END THEN 'y' END))",
    ] {
        let found = outcome(&format!("UPDATE accounts SET memo = {nested}"));
        assert!(found.starts_with("0A000 ") && found.contains("looks at for some rows only"), "{found}");
    }
    for always in [
        "CASE WHEN 10 / id > 3 THEN 'y' ELSE memo || 'x' END",
        "coalesce(CASE WHEN 10 / id > 3 THEN 'y' ELSE memo || 'z' END, 'x')",
        "coalesce(memo, CASE WHEN id = 3 OR id IS NULL THEN 'y' ELSE memo || 'z' END)",
    ] {
        let found = outcome(&format!("UPDATE accounts SET memo = {always}"));
        assert!(found.starts_with("SELECT "), "{found}");
    }
}

/// Each is what it calls at that place.
#[test]
fn choices_that_are_written_alike_are_made_each() {
    let found = outcome(
        "UPDATE accounts SET memo = CASE WHEN random() < 0.5 THEN memo || 'x' END, \
         balance = CASE WHEN random() < 0.5 THEN balance + 1 END",
    );
    assert_eq!(found.matches("CASE WHEN random() < 0.5 THEN 1 END").count(), 2, "{found}");
}

#[test]
fn choices_among_constants_are_made_by_the_server() {
    check(&[
        (
            "UPDATE accounts SET balance = (CASE WHEN (accounts.id = $1) THEN $2 WHEN (accounts.id = 2) THEN NULL ELSE NULL \
         END)::integer WHERE accounts.id IN ($1, 2)",
            "UPDATE accounts SET \"balance\" = (CASE WHEN (accounts.id = ‹$1›) THEN ‹sealed $2› WHEN (accounts.id = 2) THEN ‹sealed \
             NULL›::bytea ELSE ‹sealed NULL›::bytea END) , \"balance$eq\" = (CASE WHEN (accounts.id = ‹$1›) THEN ‹eq $2› WHEN \
             (accounts.id = 2) THEN ‹eq NULL›::bytea ELSE ‹eq NULL›::bytea END) , \"balance$ord\" = (CASE WHEN (accounts.id = ‹$1›) \
             THEN label('02', ‹ord $2›) WHEN (accounts.id = 2) THEN label('02', ‹ord NULL›) ELSE label('02', ‹ord NULL›) END)  WHERE \
             accounts.id IN (‹$1›, 2)",
        ),
        (
            "UPDATE accounts SET balance = (CASE WHEN (accounts.id = $1) THEN $2 ELSE NULL END)::integer WHERE accounts.id IN ($1)",
            "UPDATE accounts SET \"balance\" = (CASE WHEN (accounts.id = ‹$1›) THEN ‹sealed $2› ELSE ‹sealed NULL›::bytea END) , \
             \"balance$eq\" = (CASE WHEN (accounts.id = ‹$1›) THEN ‹eq $2› ELSE ‹eq NULL›::bytea END) , \"balance$ord\" = (CASE WHEN \
             (accounts.id = ‹$1›) THEN label('02', ‹ord $2›) ELSE label('02', ‹ord NULL›) END)  WHERE accounts.id IN (‹$1›)",
        ),
    ]);
}

#[test]
fn queries_of_one_value_are_results() {
    check(&[
        (
            "SELECT id, (SELECT max(balance) FROM accounts) AS most, (SELECT memo FROM accounts a WHERE a.owner = p.payer LIMIT 1) \
             FROM payments p ORDER BY id",
            "SELECT id, (SELECT arras.mope_greatest(balance, \"balance$ord\") AS \"max\" FROM accounts) AS most, \
             (SELECT memo FROM accounts a WHERE a.\"owner$eq\" = p.\"payer$eq\" LIMIT 1) FROM payments p ORDER BY id => plain, \
             accounts.balance, accounts.memo",
        ),
        (
            "SELECT (SELECT sum(balance) FROM accounts WHERE owner = p.payer) FROM payments p",
            "SELECT (SELECT array_agg(balance) AS \"sum\" FROM accounts WHERE \"owner$eq\" = p.\"payer$eq\") FROM payments p => \
             sum accounts.balance",
        ),
        (
            "SELECT id FROM accounts a WHERE EXISTS (SELECT 1 FROM payments WHERE payer = a.owner) AND owner NOT IN (SELECT \
             payer FROM payments WHERE id > a.id)",
            "SELECT id FROM accounts a WHERE EXISTS (SELECT 1 FROM payments WHERE \"payer$eq\" = a.\"owner$eq\") AND \
             \"owner$eq\" NOT IN (SELECT \"payer$eq\" FROM payments WHERE id > a.id)",
        ),
        (
            "SELECT id FROM accounts WHERE balance IN (SELECT amount FROM payments)",
            "0A000 31: columns accounts.balance and payments.amount are encrypted under different keys: a comparison cannot \
             compare them",
        ),
        (
            "SELECT s.most FROM (SELECT (SELECT sum(balance) FROM accounts) AS most FROM notes) s",
            "0A000 29: a sum of column accounts.balance is computed by the proxy, and the query around it reads it",
        ),
        (
            "SELECT (SELECT id, memo FROM accounts) FROM notes",
            "0A000 9: a query among the results gives one column, and this one more, encrypted ones among them",
        ),
        (
            "SELECT id, (SELECT memo FROM accounts a WHERE a.id = n.id) AS m FROM notes n ORDER BY m",
            "0A000 87: \"m\" is computed of an encrypted column: ORDER BY cannot read it",
        ),
    ]);
}
