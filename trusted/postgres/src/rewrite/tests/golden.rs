//! Statements and what becomes of them.

use super::outcome;

pub(super) fn check(cases: &[(&str, &str)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(statement, expected)| {
            let found = outcome(statement);
            (found != *expected).then(|| format!("{statement}\n  is       {found}\n  expected {expected}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_touches_nothing_encrypted_is_unchanged() {
    check(&[
        ("SELECT owner, body FROM notes WHERE owner = 'x'", "unchanged"),
        ("SELECT id, note FROM payments WHERE note LIKE 'a%'", "unchanged"),
        ("SELECT count(*) FROM accounts", "unchanged"),
        ("VACUUM accounts", "unchanged"),
        ("TRUNCATE accounts", "unchanged"),
        ("GRANT SELECT ON accounts TO PUBLIC", "unchanged"),
        ("DELETE FROM accounts WHERE id = 4", "unchanged"),
        ("UPDATE payments SET note = upper(note) WHERE id IN (SELECT id FROM notes)", "unchanged"),
        ("SELECT id FROM accounts WHERE memo IS NOT NULL", "unchanged"),
        ("SELECT p.id FROM payments p JOIN notes n ON n.id = p.id ORDER BY n.owner", "unchanged"),
    ]);
}

#[test]
fn conditions_are_on_terms() {
    check(&[
        (
            "SELECT id FROM accounts WHERE owner = 'Ann' AND balance >= $1",
            "SELECT id FROM accounts WHERE \"owner$eq\" = ‹eq Ann› AND \"balance$ord\" >= bound('02', ‹GreaterOrEqual $1›)",
        ),
        (
            "SELECT id FROM accounts a WHERE 5 < a.balance OR a.balance BETWEEN -1 AND (2)",
            "SELECT id FROM accounts a WHERE bound('02', ‹Greater 5›) < a.\"balance$ord\" OR a.\"balance$ord\" \
             BETWEEN bound('02', ‹GreaterOrEqual -1›) AND bound('02', ‹LessOrEqual 2›)",
        ),
        (
            "select ID from ACCOUNTS where \"owner\" <> E'it\\'s' and id=$2",
            "select ID from ACCOUNTS where \"owner$eq\" <> ‹eq it's› and id=‹$2›",
        ),
        (
            "SELECT id FROM accounts WHERE balance IN (1, $1, NULL) AND owner = ANY($2) AND owner = ANY('{a,b}')",
            "SELECT id FROM accounts WHERE \"balance$eq\" IN (‹eq 1›, ‹eq $1›, ‹eq NULL›) AND \"owner$eq\" = \
             ANY(‹eqs $2›) AND \"owner$eq\" = ANY(‹eqs [Some(\"a\"), Some(\"b\")]›)",
        ),
        (
            "SELECT id FROM accounts WHERE opened = DATE '2020-01-01' AND balance = '5'::int AND owner = CAST($1 AS text)",
            "SELECT id FROM accounts WHERE \"opened$ord\" = bound('03', ‹Equal 2020-01-01›) AND \"balance$eq\" = ‹eq 5› \
             AND \"owner$eq\" = ‹eq $1›",
        ),
        (
            "SELECT id FROM accounts WHERE (owner, balance) = ($1, $2) AND (id, owner) IN ((1, 'a'), (2, 'b'))",
            "SELECT id FROM accounts WHERE (\"owner$eq\", \"balance$eq\") = (‹eq $1›, ‹eq $2›) AND (id, \"owner$eq\") \
             IN ((1, ‹eq a›), (2, ‹eq b›))",
        ),
        (
            "UPDATE accounts SET id = $1 WHERE owner = $1",
            "UPDATE accounts SET id = ‹$1› WHERE \"owner$eq\" = ‹eq $1›",
        ),
    ]);
}

#[test]
fn results_are_opened_and_stars_show_no_terms() {
    check(&[
        ("SELECT owner, id FROM accounts", "SELECT owner, id FROM accounts => accounts.owner, plain"),
        (
            "SELECT * FROM accounts",
            "SELECT \"accounts\".\"id\", \"accounts\".\"owner\", \"accounts\".\"balance\", \"accounts\".\"opened\", \
             \"accounts\".\"memo\", \"accounts\".\"closed\" FROM accounts => plain, accounts.owner, accounts.balance, \
             accounts.opened, accounts.memo, accounts.closed",
        ),
        (
            "SELECT n.*, a.owner o, f.* FROM notes n, accounts a, f(1)",
            "SELECT n.*, a.owner o, f.* FROM notes n, accounts a, f(1) => plain, plain, plain, accounts.owner, rest",
        ),
        (
            "SELECT p.* FROM payments AS p ORDER BY amount DESC, 1 LIMIT $1",
            "SELECT \"p\".\"id\", \"p\".\"payer\", \"p\".\"owner\", \"p\".\"amount\", \"p\".\"note\" FROM payments AS p \
             ORDER BY \"amount$ord\" DESC, 1 LIMIT ‹$1› => plain, payments.payer, payments.owner, payments.amount, plain",
        ),
        (
            "SELECT balance AS b FROM accounts ORDER BY b, 1",
            "SELECT balance AS b FROM accounts ORDER BY \"balance$ord\", \"balance$ord\" => accounts.balance",
        ),
    ]);
}

#[test]
fn aggregates_groups_and_duplicates() {
    check(&[
        (
            "SELECT min(balance), max(balance) AS m, count(owner), count(DISTINCT owner) FROM accounts",
            "SELECT arras.mope_least(balance, \"balance$ord\") AS \"min\", arras.mope_greatest(balance, \"balance$ord\") AS m, count(owner), count(DISTINCT \"owner$eq\") FROM accounts => \
             accounts.balance, accounts.balance, plain, plain",
        ),
        (
            "SELECT min((balance)), max(ALL ((balance))) AS m FROM accounts",
            "SELECT arras.mope_least((balance), \"balance$ord\") AS \"min\", arras.mope_greatest(ALL ((balance)), \"balance$ord\") AS m FROM accounts => accounts.balance, accounts.balance",
        ),
        (
            "SELECT id, sum(balance) FILTER (WHERE owner = 'x'), avg(balance) a FROM accounts GROUP BY id",
            "SELECT id, array_agg(balance) FILTER (WHERE \"owner$eq\" = ‹eq x›) AS \"sum\", array_agg(balance) a FROM \
             accounts GROUP BY id => plain, sum accounts.balance, avg accounts.balance",
        ),
        (
            "SELECT balance, count(*) FROM accounts GROUP BY balance HAVING balance > 3 ORDER BY balance",
            "SELECT arras.any_of(balance) AS \"balance\", count(*) FROM accounts GROUP BY \"balance$eq\", \"balance$ord\" \
             HAVING \"balance$ord\" > bound('02', ‹Greater 3›) ORDER BY \"balance$ord\" => accounts.balance, plain",
        ),
        (
            "SELECT owner AS o, count(*) FROM accounts GROUP BY 1",
            "SELECT arras.any_of(owner) AS o, count(*) FROM accounts GROUP BY \"owner$eq\" => accounts.owner, plain",
        ),
        (
            "SELECT DISTINCT balance, id FROM accounts ORDER BY balance",
            "SELECT DISTINCT ON (\"balance$ord\", 2) balance, id FROM accounts ORDER BY \"balance$ord\" => \
             accounts.balance, plain",
        ),
        (
            "SELECT rank() OVER (PARTITION BY owner ORDER BY balance DESC), lag(balance) OVER w FROM accounts \
             WINDOW w AS (ORDER BY opened)",
            "SELECT rank() OVER (PARTITION BY \"owner$eq\" ORDER BY \"balance$ord\" DESC), lag(balance) OVER w FROM \
             accounts WINDOW w AS (ORDER BY \"opened$ord\") => plain, accounts.balance",
        ),
    ]);
}

#[test]
fn extremes_choices_and_conditions() {
    check(&[
        (
            "SELECT id FROM accounts GROUP BY id HAVING max(balance) > 5 AND min(balance) = $1 ORDER BY max(balance) DESC",
            "SELECT id FROM accounts GROUP BY id HAVING max(\"balance$ord\") > bound('02', ‹Greater 5›) AND \
             min(\"balance$ord\") = bound('02', ‹Equal $1›) ORDER BY max(\"balance$ord\") DESC",
        ),
        (
            "SELECT coalesce(balance, 0), CASE WHEN owner = 'x' THEN NULL ELSE a.memo END AS m FROM accounts a",
            "SELECT coalesce(balance, ‹result 0›), CASE WHEN \"owner$eq\" = ‹eq x› THEN ‹result NULL›::bytea ELSE a.memo END AS m \
             FROM accounts a => accounts.balance, accounts.memo",
        ),
        (
            "SELECT coalesce(memo, a.owner) FROM accounts a",
            "SELECT array[memo] || ARRAY[''::bytea] || array[a.owner] AS \"coalesce\" FROM accounts a => accounts.memo or accounts.owner",
        ),
        (
            "SELECT coalesce(memo, note) FROM accounts, payments",
            "0A000 23: a value of column accounts.memo is chosen beside one that the server computes",
        ),
        (
            "SELECT id FROM accounts WHERE closed AND NOT accounts.closed OR (closed)",
            "SELECT id FROM accounts WHERE (\"closed$eq\" = ‹eq true›) AND NOT (accounts.\"closed$eq\" = ‹eq true›) OR \
             ((\"closed$eq\" = ‹eq true›))",
        ),
        (
            "SELECT id FROM accounts WHERE balance OR id = 1",
            "0A000 31: column accounts.balance is encrypted: OR cannot read it",
        ),
    ]);
}

#[test]
fn joins_and_queries_in_queries() {
    check(&[
        (
            "SELECT a.id FROM accounts a JOIN payments p ON p.payer = a.owner",
            "SELECT a.id FROM accounts a JOIN payments p ON p.\"payer$eq\" = a.\"owner$eq\"",
        ),
        (
            "SELECT a.id FROM accounts a JOIN payments p USING (owner)",
            "SELECT a.id FROM accounts a JOIN payments p USING (\"owner$eq\")",
        ),
        (
            "SELECT id FROM accounts WHERE owner IN (SELECT payer FROM payments WHERE amount > 3)",
            "SELECT id FROM accounts WHERE \"owner$eq\" IN (SELECT \"payer$eq\" FROM payments WHERE \"amount$ord\" > \
             bound('06', ‹Greater 3›))",
        ),
        (
            "SELECT id FROM accounts a WHERE EXISTS (SELECT p.amount FROM payments p WHERE p.payer = a.owner)",
            "SELECT id FROM accounts a WHERE EXISTS (SELECT p.amount FROM payments p WHERE p.\"payer$eq\" = a.\"owner$eq\")",
        ),
        (
            "SELECT id FROM accounts WHERE balance = (SELECT max(balance) FROM accounts)",
            "SELECT id FROM accounts WHERE \"balance$ord\" = (SELECT max(\"balance$ord\") FROM accounts)",
        ),
        (
            "WITH rich AS (SELECT owner AS o, balance FROM accounts) SELECT o FROM rich WHERE balance > 5 ORDER BY rich.balance",
            "WITH rich AS (SELECT owner AS o, \"owner$eq\" AS \"o$eq\", balance, \"balance$eq\" AS \"balance$eq\", \
             \"balance$ord\" AS \"balance$ord\" FROM accounts) SELECT o FROM rich WHERE \"balance$ord\" > bound('02', \
             ‹Greater 5›) ORDER BY rich.\"balance$ord\" => accounts.owner",
        ),
        (
            "SELECT x.* FROM (SELECT id, opened FROM accounts LIMIT 3) x",
            "SELECT \"x\".\"id\", \"x\".\"opened\" FROM (SELECT id, opened, \"opened$ord\" AS \"opened$ord\" FROM accounts \
             LIMIT 3) x => plain, accounts.opened",
        ),
        (
            "SELECT balance FROM accounts WHERE id = 1 UNION ALL SELECT balance FROM accounts WHERE balance < 0",
            "SELECT balance FROM accounts WHERE id = 1 UNION ALL SELECT balance FROM accounts WHERE \"balance$ord\" < \
             bound('02', ‹Less 0›) => accounts.balance",
        ),
    ]);
}

#[test]
fn what_a_join_is_filtered_by_is_found_once() {
    check(&[
        (
            "SELECT a.id FROM accounts a JOIN payments p ON p.payer = a.owner WHERE p.id > 3 AND a.balance < $1 AND amount>=(2)",
            "SELECT a.id FROM accounts a JOIN payments p ON p.\"payer$eq\" = a.\"owner$eq\" WHERE p.id > 3 AND \
             a.\"balance$ord\" < bound('02', ‹Less $1›) AND a.\"balance$ord\" < (SELECT bound('02', ‹Less $1›)) AND \
             \"amount$ord\">=bound('06', ‹GreaterOrEqual 2›) AND \"amount$ord\" >= (SELECT bound('06', ‹GreaterOrEqual 2›))",
        ),
        (
            "SELECT a.id FROM accounts a, payments p WHERE (a.balance < 5) AND (a.id = 1 OR p.amount > 2) AND 3 < p.amount",
            "SELECT a.id FROM accounts a, payments p WHERE (a.\"balance$ord\" < bound('02', ‹Less 5›)) AND (a.id = 1 OR \
             p.\"amount$ord\" > bound('06', ‹Greater 2›)) AND bound('06', ‹Greater 3›) < p.\"amount$ord\"",
        ),
    ]);
}

#[test]
fn rows_are_stored_with_their_terms() {
    check(&[
        (
            "INSERT INTO accounts (id, owner, balance) VALUES (1, 'Ann', $1), (2, NULL, DEFAULT) RETURNING owner",
            "INSERT INTO accounts (id, \"owner\", \"owner$eq\", \"balance\", \"balance$eq\", \"balance$ord\") VALUES (1, \
             ‹sealed Ann›, ‹eq Ann›, ‹sealed $1›, ‹eq $1›, label('02', ‹ord $1›)), (2, ‹sealed NULL›, ‹eq NULL›, DEFAULT, \
             DEFAULT, DEFAULT) RETURNING owner => accounts.owner",
        ),
        (
            "INSERT INTO accounts VALUES (1, 'Ann')",
            "INSERT INTO accounts (\"id\", \"owner\", \"owner$eq\") VALUES (1, ‹sealed Ann›, ‹eq Ann›)",
        ),
        (
            "INSERT INTO accounts (owner, memo) VALUES ($1, $2) ON CONFLICT (owner) DO UPDATE SET memo = EXCLUDED.memo, \
             id = accounts.id + 1 WHERE accounts.owner <> 'x'",
            "INSERT INTO accounts (\"owner\", \"owner$eq\", \"memo\") VALUES (‹sealed $1›, ‹eq $1›, ‹sealed $2›) ON CONFLICT \
             (\"owner$eq\") DO UPDATE SET \"memo\" = EXCLUDED.memo, id = accounts.id + 1 WHERE accounts.\"owner$eq\" <> ‹eq x›",
        ),
        (
            "UPDATE accounts SET balance = 7, memo = NULL WHERE id = $1 RETURNING *",
            "UPDATE accounts SET \"balance\" = ‹sealed 7›, \"balance$eq\" = ‹eq 7›, \"balance$ord\" = label('02', ‹ord 7›), \
             \"memo\" = ‹sealed NULL› WHERE id = ‹$1› RETURNING \"accounts\".\"id\", \"accounts\".\"owner\", \
             \"accounts\".\"balance\", \"accounts\".\"opened\", \"accounts\".\"memo\", \
             \"accounts\".\"closed\" => plain, accounts.owner, accounts.balance, accounts.opened, accounts.memo, \
             accounts.closed",
        ),
        (
            "DELETE FROM accounts USING payments WHERE payer = accounts.owner RETURNING accounts.id",
            "DELETE FROM accounts USING payments WHERE \"payer$eq\" = accounts.\"owner$eq\" RETURNING accounts.id",
        ),
        (
            "INSERT INTO payments (payer, note) SELECT $1, body FROM notes",
            "INSERT INTO payments (\"payer\", \"payer$eq\", note) SELECT ‹sealed $1›, ‹eq $1›, body FROM notes",
        ),
    ]);
}

#[test]
fn tables_are_laid_out_with_terms() {
    check(&[
        (
            "CREATE TABLE accounts (id serial PRIMARY KEY, owner text NOT NULL UNIQUE, balance int, memo text)",
            "* CREATE TABLE accounts (id serial PRIMARY KEY, \"owner\" bytea NOT NULL, \"owner$eq\" bytea NOT NULL CONSTRAINT \
             \"accounts_owner_key\" UNIQUE, \
             \"balance\" bytea, \"balance$eq\" bytea, \"balance$ord\" bigint, \"memo\" bytea); CREATE INDEX IF NOT EXISTS \
             \"arras_0000000000000002_equality\" ON accounts (\"balance$eq\"); CREATE INDEX IF NOT EXISTS \
             \"arras_0000000000000002_order\" ON accounts (\"balance$ord\"); SELECT arras.mope_store_in('2', \
             'accounts'::regclass, 'balance$ord')",
        ),
        (
            "CREATE TABLE public.payments (payer text REFERENCES accounts (owner) ON DELETE CASCADE, UNIQUE (id, payer), \
             FOREIGN KEY (owner) REFERENCES accounts (owner), owner varchar, id int)",
            "42P16 164: column payments.owner is declared as text in the schema file, and created as VARCHAR",
        ),
        (
            "CREATE TABLE public.payments (payer text REFERENCES accounts (owner) ON DELETE CASCADE, UNIQUE (id, payer), \
             owner text, FOREIGN KEY (owner) REFERENCES accounts (owner))",
            "* CREATE TABLE public.payments (\"payer\" bytea, \"payer$eq\" bytea CONSTRAINT \
             \"payments_payer_fkey\" REFERENCES accounts (\"owner$eq\") ON DELETE \
             CASCADE, CONSTRAINT \"payments_id_payer_key\" UNIQUE (id, \"payer$eq\"), \"owner\" bytea, \"owner$eq\" bytea, CONSTRAINT \"payments_owner_fkey\" FOREIGN KEY (\"owner$eq\") \
             REFERENCES accounts (\"owner$eq\")); CREATE INDEX IF NOT EXISTS \"arras_0000000000000005_equality\" ON \
             public.payments (\"payer$eq\"); CREATE INDEX IF NOT EXISTS \"arras_0000000000000007_equality\" ON \
             public.payments (\"owner$eq\")",
        ),
        (
            "ALTER TABLE accounts ADD COLUMN balance integer NOT NULL, DROP COLUMN opened CASCADE",
            "SELECT arras.mope_forget('3', 'accounts'::regclass, 'opened$ord'); * ALTER TABLE accounts ADD COLUMN \
             \"balance\" bytea NOT NULL, ADD COLUMN \"balance$eq\" bytea NOT NULL, ADD COLUMN \"balance$ord\" bigint NOT \
             NULL, DROP COLUMN \"opened\", DROP COLUMN \"opened$ord\" CASCADE; CREATE INDEX IF NOT EXISTS \
             \"arras_0000000000000002_equality\" ON accounts (\"balance$eq\"); CREATE INDEX IF NOT EXISTS \
             \"arras_0000000000000002_order\" ON accounts (\"balance$ord\"); SELECT arras.mope_store_in('2', \
             'accounts'::regclass, 'balance$ord')",
        ),
        (
            "CREATE INDEX by_balance ON accounts (id, balance DESC) WHERE owner IS NOT NULL",
            "CREATE INDEX by_balance ON accounts (id, \"balance$ord\" DESC) WHERE owner IS NOT NULL",
        ),
        ("CREATE UNIQUE INDEX o ON accounts (owner)", "CREATE UNIQUE INDEX o ON accounts (\"owner$eq\")"),
        (
            "CREATE INDEX ON accounts (memo)",
            "0A000 27: column accounts.memo is encrypted without \"equality\": an index needs it",
        ),
        (
            "CREATE INDEX ON accounts (lower(owner))",
            "0A000 33: column accounts.owner is encrypted: function lower() cannot read it",
        ),
        (
            "CREATE TABLE accounts (balance int CHECK (balance > 0))",
            "0A000 24: column accounts.balance is encrypted: it cannot have CHECK (balance > 0), which the server would \
             compute or check",
        ),
        (
            "CREATE TABLE accounts (balance int, CHECK (balance > 0))",
            "0A000 44: column accounts.balance is encrypted, and this use of it is not understood",
        ),
        (
            "ALTER TABLE accounts RENAME TO others",
            "0A000 1: accounts has encrypted columns: RENAME TO others is not rewritten",
        ),
        (
            "CREATE TABLE copies AS SELECT * FROM accounts",
            "0A000 31: a star with encrypted columns does not stand here",
        ),
    ]);
}

#[test]
fn new_values_from_old_ones_are_computed_by_the_proxy() {
    check(&[
        (
            "UPDATE accounts SET balance = balance - $1, id = $2 WHERE owner = $3 RETURNING id, balance",
            "SELECT balance, \"accounts\".ctid, \"accounts\".tableoid FROM accounts WHERE \"owner$eq\" = ‹eq $3› FOR NO KEY UPDATE => \
             accounts.balance, plain, plain; accounts.balance = (read 0 as accounts.balance Minus $1); UPDATE accounts SET \
             \"balance\" = ‹sealed computed 0›, \"balance$eq\" = ‹eq computed 0›, \"balance$ord\" = label('02', ‹ord \
             computed 0›), id = ‹$2› WHERE \"accounts\".ctid = ‹read 1›::tid AND \"accounts\".tableoid = ‹read 2›::oid RETURNING id, balance => plain, \
             accounts.balance",
        ),
        (
            "UPDATE accounts AS a SET memo = coalesce(a.memo, '') || 'x', balance = (balance + id) * 2",
            "SELECT a.memo, balance, COALESCE(id, NULL::integer), \"a\".ctid, \"a\".tableoid FROM accounts AS a  FOR NO KEY UPDATE => accounts.memo, \
             accounts.balance, plain, plain, plain; accounts.memo = (read 0 as accounts.memo or  Concatenated x), \
             accounts.balance = ((read 1 as accounts.balance Plus read 2 as accounts.balance) Times 2); UPDATE accounts AS \
             a SET \"memo\" = ‹sealed computed 0›, \"balance\" = ‹sealed computed 1›, \"balance$eq\" = ‹eq computed 1›, \
             \"balance$ord\" = label('02', ‹ord computed 1›) WHERE \"a\".ctid = ‹read 3›::tid AND \"a\".tableoid = ‹read 4›::oid ",
        ),
        (
            "UPDATE accounts SET balance = balance / 2",
            "0A000 21: column accounts.balance is encrypted: it is set to a constant, a parameter, or what +, -, *, || and \
             coalesce make of those and columns of its own table",
        ),
        (
            "UPDATE accounts SET balance = balance + p.amount FROM payments p WHERE p.payer = owner",
            "42702 82: column reference \"owner\" is ambiguous",
        ),
        (
            "UPDATE accounts a SET balance = balance + p.amount FROM payments p WHERE p.payer = a.owner",
            "0A000 52: an UPDATE that computes with encrypted columns and has FROM is not rewritten",
        ),
    ]);
}

#[test]
fn a_column_is_set_to_one_of_several_values() {
    check(&[
        (
            "UPDATE accounts SET owner = (CASE WHEN (id = $1) THEN 'a' WHEN memo IS NULL THEN owner ELSE NULL END), id = 1 \
             WHERE id IN ($1, 2)",
            "UPDATE accounts SET \"owner\" = (CASE WHEN (id = ‹$1›) THEN ‹sealed a› WHEN memo IS NULL THEN owner ELSE ‹sealed \
             NULL›::bytea END), \"owner$eq\" = (CASE WHEN (id = ‹$1›) THEN ‹eq a› WHEN memo IS NULL THEN \"owner$eq\" ELSE \
             ‹eq NULL›::bytea END), id = 1 WHERE id IN (‹$1›, 2)",
        ),
        (
            "UPDATE accounts SET balance = coalesce(balance, $1)",
            "UPDATE accounts SET \"balance\" = coalesce(balance, ‹sealed $1›), \"balance$eq\" = coalesce(\"balance$eq\", ‹eq \
             $1›), \"balance$ord\" = coalesce(\"balance$ord\", label('02', ‹ord $1›))",
        ),
    ]);
}

#[test]
fn rows_are_copied_through_the_proxy() {
    check(&[
        (
            "COPY accounts (id, owner, balance) FROM STDIN WITH (FORMAT csv, HEADER, NULL 'nil')",
            "INSERT INTO \"accounts\" (\"id\", \"owner\", \"owner$eq\", \"balance\", \"balance$eq\", \"balance$ord\") OVERRIDING SYSTEM VALUE VALUES \
             (‹read 0›, ‹sealed read 1›, ‹eq read 1›, ‹sealed read 2›, ‹eq read 2›, label('02', ‹ord read 2›)) from \
             CopyFormat { binary: false, csv: true, delimiter: 44, null: \"nil\", header: true, quote: 34, escape: 34 }",
        ),
        (
            "COPY public.accounts TO stdout",
            "SELECT \"id\", \"owner\", \"balance\", \"opened\", \"memo\", \"closed\" FROM \"accounts\" => plain, \
             accounts.owner, accounts.balance, accounts.opened, accounts.memo, accounts.closed to CopyFormat { binary: false, csv: false, delimiter: 9, null: \"\\\\N\", \
             header: false, quote: 34, escape: 34 }",
        ),
        (
            "COPY (SELECT owner FROM accounts WHERE balance > 3) TO STDOUT CSV DELIMITER ';'",
            "SELECT owner FROM accounts WHERE \"balance$ord\" > bound('02', ‹Greater 3›) => accounts.owner to CopyFormat { binary: false, csv: true, delimiter: 59, null: \"\", header: false, quote: 34, escape: 34 }",
        ),
        ("copy payments (id, note) from stdin with (freeze on)", "unchanged"),
        (
            "copy accounts (id, memo) from stdin with (freeze on, header off, format csv)",
            "INSERT INTO \"accounts\" (\"id\", \"memo\") OVERRIDING SYSTEM VALUE VALUES (‹read 0›, ‹sealed read 1›) from CopyFormat { binary: false, csv: true, delimiter: \
             44, null: \"\", header: false, quote: 34, escape: 34 }",
        ),
        (
            "COPY (SELECT a.id FROM accounts a JOIN notes n ON n.id = a.id) TO STDOUT (HEADER off)",
            "unchanged",
        ),
        ("COPY (SELECT count(*) FROM accounts) TO STDOUT", "unchanged"),
        (
            "COPY accounts TO 'rows.csv'",
            "0A000 1: a file of the server's holds ciphertext: rows of encrypted columns pass through the client",
        ),
        ("COPY accounts FROM STDIN (FORMAT binary, HEADER)", "42601 1: cannot specify HEADER in BINARY mode"),
        (
            "COPY accounts (nothing) TO STDOUT",
            "42703 16: column \"nothing\" of relation \"accounts\" does not exist",
        ),
    ]);
}

#[test]
fn the_catalogue_is_shown_without_terms() {
    check(&[
        (
            "SELECT a.attname FROM pg_catalog.pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0",
            "SELECT a.attname FROM arras.pg_attribute a WHERE a.attrelid = ‹$1› AND a.attnum > 0",
        ),
        (
            "SELECT pg_attribute.attname, pg_catalog.pg_get_indexdef(i.indexrelid, 0, true) FROM pg_attribute, PG_INDEX i",
            "SELECT arras.pg_attribute.attname, arras.pg_get_indexdef(i.indexrelid, 0, true) FROM arras.pg_attribute, \
             arras.pg_index i",
        ),
        (
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'accounts'",
            "SELECT column_name FROM arras.columns WHERE table_name = 'accounts'",
        ),
        ("SELECT columns FROM notes, columns WHERE 'pg_attribute'::regclass = 4", "unchanged"),
        ("SELECT relname FROM pg_class", "SELECT relname FROM arras.pg_class"),
        // A view has no such columns.
        ("SELECT relname, xmin FROM pg_class", "unchanged"),
        ("SELECT 'pg_class'::regclass", "unchanged"),
    ]);
}

#[test]
fn what_cannot_be_done_is_refused_with_its_place() {
    check(&[
        (
            "SELECT id FROM accounts WHERE memo @@ to_tsquery('whale & ship')",
            "0A000 31: column accounts.memo is encrypted without \"text\": operator @@ needs it",
        ),
        (
            "SELECT id FROM accounts WHERE to_tsvector('english', memo) @@ plainto_tsquery('whale')",
            "0A000 54: column accounts.memo is encrypted without \"text\": operator @@ needs it",
        ),
        (
            "SELECT initcap(owner) FROM accounts",
            "0A000 16: column accounts.owner is encrypted: function initcap() cannot read it",
        ),
        (
            "SELECT id FROM accounts WHERE owner LIKE 'A%'",
            "0A000 31: column accounts.owner is encrypted: LIKE cannot read it",
        ),
        (
            "SELECT id FROM accounts WHERE memo = 'x'",
            "0A000 31: column accounts.memo is encrypted without \"equality\": operator = needs it",
        ),
        (
            "SELECT id FROM accounts ORDER BY owner",
            "0A000 34: column accounts.owner is encrypted without \"order\": ORDER BY needs it",
        ),
        (
            "SELECT balance ^ 2 FROM accounts",
            "0A000 8: column accounts.balance is encrypted: operator ^ cannot read it",
        ),
        (
            "SELECT id FROM accounts WHERE balance = id",
            "0A000 31: column accounts.balance is encrypted: operator = beside a computed value cannot read it",
        ),
        (
            "SELECT 1 FROM accounts a, payments p WHERE a.balance = p.amount",
            "0A000 46: columns accounts.balance and payments.amount are encrypted under different keys: operator = cannot \
             compare them",
        ),
        (
            "SELECT id FROM accounts WHERE owner = 5",
            "42804 39: column accounts.owner is of type text, and this is none",
        ),
        (
            "SELECT accounts FROM accounts",
            "0A000 8: a whole row of accounts holds encrypted columns, which are read one by one",
        ),
        (
            "SELECT owner FROM accounts UNION SELECT payer FROM payments",
            "0A000 1: column accounts.owner is encrypted: a UNION without ALL, an INTERSECT or an EXCEPT cannot read it, nor \
             can one with another column",
        ),
    ]);
}

#[test]
fn labels_and_terms_are_never_taken_for_values() {
    check(&[
        (
            "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY balance) FROM accounts",
            "0A000 52: column accounts.balance is encrypted: function percentile_disc() WITHIN GROUP cannot read it",
        ),
        (
            "SELECT count(*) OVER (ORDER BY balance RANGE BETWEEN 10 PRECEDING AND CURRENT ROW) FROM accounts",
            "0A000 32: column accounts.balance is encrypted: a RANGE by distance cannot read it",
        ),
        (
            "SELECT count(*) OVER (ORDER BY balance ROWS 2 PRECEDING) FROM accounts",
            "SELECT count(*) OVER (ORDER BY \"balance$ord\" ROWS 2 PRECEDING) FROM accounts",
        ),
        (
            "SELECT id FROM accounts WHERE owner IN (SELECT payer FROM payments UNION SELECT 'x')",
            "0A000 31: column accounts.owner is encrypted: a comparison with what is not a column of the same key cannot \
             read it",
        ),
        (
            "SELECT id FROM accounts WHERE EXISTS (SELECT owner FROM accounts EXCEPT SELECT owner FROM accounts)",
            "0A000 1: column accounts.owner is encrypted: a UNION without ALL, an INTERSECT or an EXCEPT cannot read it, \
             nor can one with another column",
        ),
        (
            "SELECT id FROM accounts WHERE EXISTS (SELECT DISTINCT owner FROM accounts OFFSET 1)",
            "SELECT id FROM accounts WHERE EXISTS (SELECT DISTINCT ON (\"owner$eq\") owner FROM accounts OFFSET 1)",
        ),
        (
            "SELECT id FROM accounts WHERE owner IN (SELECT payer FROM payments EXCEPT SELECT owner FROM payments)",
            "SELECT id FROM accounts WHERE \"owner$eq\" IN (SELECT \"payer$eq\" FROM payments EXCEPT SELECT \"owner$eq\" \
             FROM payments)",
        ),
        (
            "SELECT id FROM accounts WHERE owner = (SELECT note FROM payments)",
            "0A000 31: column accounts.owner is encrypted: a comparison with what is not a column of the same key cannot \
             read it",
        ),
    ]);
}

#[test]
fn what_is_not_understood_is_refused_with_its_place() {
    check(&[
        (
            "CREATE VIEW v AS SELECT owner FROM accounts",
            "0A000 25: column accounts.owner is encrypted: a view cannot read it",
        ),
        (
            "DO $$ BEGIN UPDATE accounts SET id = 1; END $$",
            "0A000 4: code that runs in the database does not name encrypted tables: there are no keys there",
        ),
        ("SELECT \"owner$eq\" FROM accounts", "42703 8: column \"owner$eq\" does not exist"),
        (
            "SELECT id FROM accounts WHERE U&\"b\\0061lance\" = 'x'",
            "0A000 31: a name in Unicode escapes is not read where encrypted tables are",
        ),
        (
            "SELECT sum(balance) AS s FROM accounts ORDER BY s",
            "0A000 49: \"s\" is computed of an encrypted column: ORDER BY cannot read it",
        ),
        (
            "INSERT INTO accounts (balance) VALUES (1 ^ 2)",
            "0A000 40: column accounts.balance is encrypted: what is stored there must be a constant or a parameter",
        ),
        (
            "INSERT INTO accounts (nothing) VALUES (1)",
            "42703 23: column \"nothing\" of relation \"accounts\" does not exist",
        ),
        (
            "SELECT a.id FROM accounts a NATURAL JOIN payments p",
            "0A000 1: a NATURAL JOIN of relations with encrypted columns is not rewritten",
        ),
    ]);
}
