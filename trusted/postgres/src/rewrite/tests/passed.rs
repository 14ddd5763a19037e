//! Forms in which a client's plaintext reached the server once.

use super::golden::check;
use super::{catalog, outcome};
use crate::plan::Action;
use crate::rewrite::plan;

#[test]
fn a_table_without_those_that_inherit_from_it_is_the_table() {
    check(&[
        (
            "SELECT id FROM ONLY accounts WHERE owner = 'x'",
            "SELECT id FROM ONLY accounts WHERE \"owner$eq\" = ‹eq x›",
        ),
        (
            "DELETE FROM only accounts USING ONLY notes WHERE accounts.owner = 'x'",
            "DELETE FROM only accounts USING ONLY notes WHERE accounts.\"owner$eq\" = ‹eq x›",
        ),
    ]);
    let update = outcome("UPDATE ONLY accounts SET memo = 'x' WHERE id = 1");
    assert!(update.contains("‹sealed x›"), "{update}");
    let all = outcome("SELECT * FROM ONLY accounts");
    assert!(all.ends_with("accounts.closed") || all.contains("=>"), "{all}");
}

#[test]
fn a_name_that_is_no_column_is_said_before_the_constants_beside_it_are_sent() {
    let wrong = [
        (
            "UPDATE accounts SET onwer = 'secret' WHERE id = 1",
            "42703 21: column \"onwer\" of relation \"accounts\" does not exist",
        ),
        ("DELETE FROM accounts WHERE onwer = 'secret'", "42703 28: column \"onwer\" does not exist"),
        ("SELECT id FROM accounts a WHERE a.onwer = 'secret'", "42703 33: column a.onwer does not exist"),
        (
            "SELECT id FROM accounts a WHERE accounts.owner = 'secret'",
            "42P01 33: missing FROM-clause entry for table \"accounts\"",
        ),
        (
            "INSERT INTO accounts (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET onwer = 'secret'",
            "42703 69: column \"onwer\" of relation \"accounts\" does not exist",
        ),
        (
            "UPDATE accounts SET \"balance$ord\" = 5",
            "42703 21: column \"balance$ord\" of relation \"accounts\" does not exist",
        ),
        (
            "SELECT id FROM accounts WHERE EXISTS (SELECT 1 FROM payments WHERE onwer = 'x')",
            "42703 68: column \"onwer\" does not exist",
        ),
        ("SELECT id FROM accounts ORDER BY onwer = 'x'", "42703 34: column \"onwer\" does not exist"),
        ("SELECT id FROM accounts GROUP BY id, onwer = 'x'", "42703 38: column \"onwer\" does not exist"),
        ("SELECT DISTINCT ON (onwer = 'x') id FROM accounts", "42703 21: column \"onwer\" does not exist"),
        (
            "SELECT id FROM accounts ORDER BY (SELECT 1 WHERE onwer = 'x')",
            "42703 50: column \"onwer\" does not exist",
        ),
        (
            "SELECT id FROM accounts ORDER BY (CASE onwer WHEN 'x' THEN 1 ELSE 2 END)",
            "42703 40: column \"onwer\" does not exist",
        ),
        (
            "SELECT a.id FROM accounts a JOIN notes n ON n.id = a.id WHERE onwer = 'x'",
            "42703 63: column \"onwer\" does not exist",
        ),
        (
            "SELECT a.id FROM accounts a, generate_series(1, 2) g WHERE a.onwer = 'x'",
            "42703 60: column a.onwer does not exist",
        ),
        (
            "SELECT id FROM accounts a, (SELECT 1 AS k) s WHERE onwer = 'x'",
            "42703 52: column \"onwer\" does not exist",
        ),
        (
            "UPDATE accounts a SET memo = 'x' FROM notes WHERE onwer = 'x'",
            "42703 51: column \"onwer\" does not exist",
        ),
    ];
    for (statement, expected) in wrong {
        assert_eq!(outcome(statement), expected, "{statement}");
    }
    for statement in [
        "SELECT ctid, xmin FROM accounts WHERE owner = 'x'",
        "SELECT current_user, current_date, current_schema, id FROM accounts WHERE owner = 'x'",
        "SELECT id AS n, count(*) AS c FROM accounts GROUP BY n HAVING count(*) > 1 ORDER BY c, n",
        "SELECT DISTINCT ON (n) id AS n, closed FROM accounts ORDER BY n, closed",
        "SELECT x.anything FROM accounts, generate_series(1, 2) x WHERE owner = 'x'",
        "SELECT anything FROM accounts, generate_series(1, 2) WHERE owner = 'x'",
    ] {
        let found = outcome(statement);
        assert!(!found.starts_with("42703"), "{statement}: {found}");
    }
}

#[test]
fn a_misspelt_column_behind_a_relation_s_name_is_said_too() {
    for (statement, expected) in [
        (
            "SELECT a.id FROM accounts a JOIN notes n ON n.id = a.id WHERE n.ownr = 'x'",
            "42703 63: column n.ownr does not exist",
        ),
        (
            "SELECT id FROM accounts a WHERE EXISTS (SELECT 1 FROM notes n WHERE n.id = a.id AND n.ownr = 'x')",
            "42703 85: column n.ownr does not exist",
        ),
        (
            "SELECT a.id FROM accounts a JOIN LATERAL (SELECT a.id AS k) l ON true WHERE l.ownr = 'x'",
            "42703 77: column l.ownr does not exist",
        ),
        (
            "SELECT a.id, n.balance FROM accounts a JOIN notes n ON n.id = a.id",
            "42703 14: column n.balance does not exist",
        ),
        ("SELECT accounts.nothing FROM accounts", "42703 8: column accounts.nothing does not exist"),
        (
            "WITH s AS (SELECT id FROM accounts) SELECT id FROM s WHERE s.owner = 'x'",
            "42703 60: column s.owner does not exist",
        ),
    ] {
        assert_eq!(outcome(statement), expected, "{statement}");
    }
}

#[test]
fn what_may_be_there_is_not_said_to_be_missing() {
    for statement in [
        "SELECT lower(id) , count(*) FROM accounts WHERE owner = 'x' GROUP BY lower",
        "SELECT id + 1 AS m, count(*) FROM accounts WHERE owner = 'x' GROUP BY ROLLUP (m)",
        "SELECT id + 1 AS m, id AS n, count(*) FROM accounts WHERE owner = 'x' GROUP BY (m, n)",
        "SELECT n.id, (SELECT p.id AS owner FROM notes p GROUP BY owner LIMIT 1) FROM accounts n WHERE n.owner = 'x'",
        "SELECT lower(memo2) FROM accounts, (SELECT 'x' AS memo2) s GROUP BY (lower)",
        "SELECT id + 1 AS m FROM accounts WHERE owner = 'x' ORDER BY (m)",
        "SELECT normalize('x', NFC) FROM accounts WHERE owner = 'x'",
        "UPDATE accounts SET id.part = 1 WHERE owner = 'x'",
        "UPDATE accounts SET id = 1 WHERE owner = 'x' RETURNING old.id, new.id",
        "DELETE FROM arras WHERE arras.id = 1",
        "SELECT n.of_row FROM notes n JOIN accounts a ON a.id = n.id WHERE a.owner = 'x'",
        "SELECT s.city FROM (SELECT (p.address).city, p.id FROM notes p) s, accounts a WHERE a.owner = 'x'",
    ] {
        let found = outcome(statement);
        assert!(!found.starts_with("42"), "{statement}: {found}");
    }
    for text in [
        "ALTER TABLE accounts RENAME COLUMN id TO uid; SELECT uid FROM accounts WHERE owner = 'x'",
        "ALTER TABLE accounts RENAME id TO uid; INSERT INTO accounts (uid, owner) VALUES (1, 'x')",
        "ALTER TABLE notes ADD COLUMN y int; UPDATE accounts SET memo = 'x' FROM notes WHERE y = 1",
        "CREATE TEMP TABLE notes (y int); UPDATE accounts SET memo = 'x' FROM notes WHERE y = 1",
        "SELECT 1 AS y INTO TEMP notes; UPDATE accounts SET memo = 'x' FROM notes WHERE y = 1",
    ] {
        for planned in plan(text, &catalog()).unwrap() {
            assert!(!matches!(planned.action, Action::Refused(_)), "{text}: {planned:?}");
        }
    }
    for text in [
        "CREATE INDEX ON notes (id); SELECT 1 FROM accounts WHERE onwer = 'x'",
        "ALTER TABLE accounts ADD COLUMN zz int; UPDATE accounts SET onwer = 'x'",
        "CREATE TEMP TABLE other (id int); UPDATE accounts SET onwer = 'x'",
    ] {
        let refused = plan(text, &catalog()).unwrap().pop();
        let refused = refused.is_some_and(|last| matches!(last.action, Action::Refused(_)));
        assert!(refused, "{text}: another table is another");
    }
}

#[test]
fn a_result_in_parentheses_is_the_result() {
    check(&[
        (
            "SELECT balance AS m FROM accounts ORDER BY (m) LIMIT 1",
            "SELECT balance AS m FROM accounts ORDER BY \"balance$ord\" LIMIT 1 => accounts.balance",
        ),
        (
            "SELECT DISTINCT ON ((m)) balance AS m FROM accounts",
            "SELECT DISTINCT ON (\"balance$eq\") balance AS m FROM accounts => accounts.balance",
        ),
        (
            "SELECT balance AS m, id, count(*) FROM accounts GROUP BY (m, id)",
            "SELECT arras.any_of(balance) AS m, id, count(*) FROM accounts GROUP BY (\"balance$eq\", \"balance$ord\", id) => accounts.balance, plain, plain",
        ),
    ]);
    for statement in [
        "SELECT balance AS m, count(*) FROM accounts GROUP BY ROLLUP (m)",
        "SELECT balance AS m, count(*) FROM accounts GROUP BY CUBE ((m))",
        "SELECT balance AS m, count(*) FROM accounts GROUP BY GROUPING SETS ((m), (id))",
        "SELECT balance AS m, count(*) FROM accounts GROUP BY ROLLUP (1)",
        "SELECT sum(balance) FROM accounts ORDER BY (sum)",
        "SELECT memo AS m FROM accounts ORDER BY (m)",
    ] {
        let found = outcome(statement);
        assert!(found.starts_with("0A000"), "{statement}: {found}");
    }
}

#[test]
fn the_schema_of_orders_is_the_proxy_s() {
    for statement in [
        "DELETE FROM arras.mope_entry",
        "WITH d AS (DELETE FROM arras.mope_entry RETURNING 1) SELECT * FROM d",
        "EXPLAIN ANALYZE UPDATE arras.mope_entry SET label = 1",
        "COPY arras.mope_entry FROM STDIN",
        "DROP SCHEMA public, arras CASCADE",
        "DROP SCHEMA IF EXISTS arras",
        "TRUNCATE arras.mope_node",
        "DROP TYPE arras.bclo CASCADE",
        "ALTER TYPE arras.bclo RENAME TO x",
        "CREATE RULE r AS ON INSERT TO arras.mope_entry DO INSTEAD NOTHING",
        "DROP AGGREGATE arras.f(bytea)",
        "DELETE FROM ONLY (arras.mope_entry)",
        "LOCK TABLE arras.mope_entry IN ACCESS EXCLUSIVE MODE",
        "COMMENT ON TABLE arras.mope_entry IS 'x'",
        "DO $$ BEGIN DELETE FROM arras.mope_entry; END $$",
        "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS 'DELETE FROM \"arras\".mope_entry'",
        "DELETE FROM db.arras.mope_entry",
        "UPDATE db.arras.mope_entry SET label = 1",
        "COPY BINARY arras.mope_entry FROM STDIN",
        "DO U&'BEGIN DELETE FROM arras . mope_entry; END'",
        "ALTER TABLE arras.mope_entry ADD COLUMN arras int",
        "ALTER TABLE arras.mope_entry RENAME TO arras",
        "CREATE INDEX arras ON arras.mope_entry (label)",
        "DROP TABLE IF EXISTS arras.mope_entry, arras CASCADE",
        "CREATE TABLE arras.other (arras int)",
        "CREATE VIEW arras.arras AS SELECT 1",
        "DO $$ BEGIN EXECUTE 'drop table ' || 'arras.mope_entry'; END $$",
        "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$ SELECT 1; DELETE FROM arras.mope_entry $$",
    ] {
        assert!(outcome(statement).starts_with("42501"), "{statement}: {}", outcome(statement));
    }
    for statement in [
        "SELECT * FROM arras.mope_column",
        "SELECT 'embarrassed'",
        "INSERT INTO notes SELECT arras.id, arras.name FROM brands arras",
        "UPDATE notes SET body = arras.name FROM brands arras WHERE arras.id = notes.id RETURNING arras.id, arras.name",
        "SELECT arras.id FROM brands arras FOR UPDATE",
        "INSERT INTO notes (body) VALUES ($$see arras.mope_entry$$)",
        "CREATE TABLE arras (id int)",
        "DO $$ BEGIN RAISE NOTICE 'see arras.toml'; END $$",
        "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$ INSERT INTO notes VALUES (1, 'see www.arras.fr') $$",
        "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$ UPDATE notes SET body = 'We drove to Arras. Then home' $$",
        "CREATE FUNCTION f() RETURNS bool LANGUAGE sql AS $$ SELECT 'x' LIKE '%/arras.%' /* no update */ $$",
        "CREATE MATERIALIZED VIEW v AS SELECT arras.id FROM notes arras",
        "CREATE VIEW v AS SELECT arras.id FROM notes arras",
    ] {
        assert_eq!(outcome(statement), "unchanged", "{statement}");
    }
}

#[test]
fn whether_a_value_is_there_is_asked_without_it() {
    check(&[
        (
            "SELECT id FROM accounts WHERE $1 IS NULL OR owner = $1",
            "SELECT id FROM accounts WHERE ‹is there $1› IS NULL OR \"owner$eq\" = ‹eq $1›",
        ),
        (
            "SELECT id FROM accounts WHERE ($1::text IS NOT NULL AND owner = $2) OR 'x' IS NULL",
            "SELECT id FROM accounts WHERE (‹is there $1› IS NOT NULL AND \"owner$eq\" = ‹eq $2›) OR ‹is there x› IS NULL",
        ),
    ]);
}

#[test]
fn terms_are_no_columns_of_a_client_s() {
    for statement in [
        "ALTER TABLE accounts DROP COLUMN \"balance$ord\"",
        "ALTER TABLE accounts ALTER COLUMN \"balance$ord\" SET DEFAULT 5",
        "INSERT INTO accounts (id) VALUES (1) ON CONFLICT (\"owner$eq\") DO NOTHING",
        "CREATE INDEX ON accounts (\"owner$eq\")",
    ] {
        let found = outcome(statement);
        assert!(found.starts_with("0A000") || found.starts_with("42703"), "{statement}: {found}");
    }
    check(&[(
        "ALTER TABLE accounts ALTER balance DROP NOT NULL",
        "ALTER TABLE accounts ALTER \"balance\" DROP NOT NULL, ALTER COLUMN \"balance$eq\" DROP NOT NULL, ALTER COLUMN \
         \"balance$ord\" DROP NOT NULL",
    )]);
}

#[test]
fn code_in_a_string_names_no_encrypted_table() {
    for statement in [
        "SELECT query_to_xml('select id from accounts where owner = ''secret''', true, true, '')",
        "SELECT * FROM dblink('dbname=x', 'select owner from accounts') AS t (owner text)",
        "SELECT table_to_xml('accounts', true, true, '')",
    ] {
        let found = outcome(statement);
        assert!(found.starts_with("0A000"), "{statement}: {found}");
    }
}

#[test]
fn the_type_of_an_encrypted_tables_rows_is_no_type_of_a_value() {
    for statement in [
        "SELECT json_populate_record(null::accounts, '{\"owner\": \"secret\"}')",
        "SELECT json_populate_record(null::public.accounts, '{\"owner\": \"secret\"}')",
        "SELECT json_populate_record(null::\"public\".\"accounts\", '{\"owner\": \"secret\"}')",
        "SELECT * FROM json_populate_record(null::accounts, '{\"owner\": \"secret\"}')",
        "SELECT * FROM json_populate_recordset(CAST(NULL AS accounts), '[]') r WHERE r.owner = 'secret'",
        "SELECT CAST(NULL AS accounts)",
        "SELECT '(1,secret)'::accounts",
        "SELECT accounts '(1,secret)'",
        "SELECT ('(1,secret)'::accounts).owner",
        "SELECT body FROM notes WHERE body = (json_populate_record(null::accounts, '{\"owner\": \"secret\"}')).owner",
        "INSERT INTO notes (id, body) VALUES (1, (json_populate_record(null::accounts, '{}')).owner)",
    ] {
        let found = outcome(statement);
        assert!(found.starts_with("0A000"), "{statement}: {found}");
    }
}

#[test]
fn digits_with_underscores_are_no_constant() {
    for statement in [
        "SELECT id FROM accounts WHERE balance = 1_836",
        "INSERT INTO accounts (id, balance) VALUES (1, 1_836)",
        "UPDATE accounts SET balance = 1_836",
    ] {
        let found = outcome(statement);
        assert!(found.starts_with("42601") && !found.contains("836"), "{statement}: {found}");
    }
}
