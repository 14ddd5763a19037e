//! Views that read encrypted columns, and `MERGE`: refused, whatever is asked.

use super::{catalog, outcome};
use crate::plan::Action;
use crate::rewrite::plan;

/// What becomes of a statement where `v` is such a view, and `hidden.w`.
fn planned(statement: &str) -> Action {
    let view = |schema: &str, name: &str| (schema.to_owned(), name.to_owned());
    let catalog = catalog().with_views_of([view("public", "v"), view("hidden", "w")].into());
    plan(statement, &catalog).unwrap().remove(0).action
}

#[test]
fn a_view_of_encrypted_columns_is_refused() {
    for statement in [
        "SELECT * FROM v",
        "SELECT id FROM public.v WHERE c = 'secret'",
        "SELECT x.id FROM notes n JOIN hidden.w x ON x.c = 'secret'",
        "TABLE v",
        "SELECT (SELECT max(c) FROM v), 'secret'",
        "WITH s AS (SELECT * FROM v WHERE c = 'secret') SELECT * FROM s",
        "INSERT INTO v (c) VALUES ('secret')",
        "WITH v AS (SELECT 1) INSERT INTO v (c) VALUES ('secret')",
        "UPDATE v SET c = 'secret'",
        "DELETE FROM ONLY v WHERE c = 'secret'",
        "DELETE FROM notes USING v WHERE v.c = 'secret'",
        "MERGE INTO v USING notes n ON v.id = n.id WHEN MATCHED THEN UPDATE SET c = 'secret'",
        "COPY v TO STDOUT",
        "COPY v (c) FROM STDIN",
        "COPY (SELECT * FROM v) TO STDOUT",
        "EXPLAIN ANALYZE SELECT * FROM v WHERE c = 'secret'",
        "EXPLAIN CREATE TABLE s AS SELECT * FROM v WHERE c = 'secret'",
        "DECLARE k CURSOR FOR SELECT * FROM v WHERE c = 'secret'",
        "PREPARE p AS SELECT * FROM v WHERE c = 'secret'",
        "CREATE VIEW u AS SELECT * FROM v WHERE c = 'secret'",
        "CREATE OR REPLACE VIEW v AS SELECT 1",
        "CREATE TABLE s AS SELECT * FROM v WHERE c = 'secret'",
        "CREATE TABLE s AS TABLE v",
        "CREATE TABLE s (LIKE v)",
        "CREATE INDEX ON hidden.w (c) WHERE c = 'secret'",
        "SELECT * INTO s FROM v WHERE c = 'secret'",
        "ALTER TABLE v ALTER COLUMN c SET DEFAULT 'secret'",
        "ALTER VIEW v ALTER COLUMN c SET DEFAULT 'secret'",
        "ALTER VIEW v RENAME TO u",
        "CREATE RULE r AS ON SELECT TO notes DO ALSO SELECT * FROM v",
        "CREATE FUNCTION f() RETURNS bytea LANGUAGE sql AS $$ SELECT c FROM v $$",
        "DO $$ BEGIN PERFORM 1 FROM v WHERE c = 'secret'; END $$",
    ] {
        let Action::Refused(error) = planned(statement) else {
            panic!("{statement}: {:?}", planned(statement))
        };
        assert_eq!(error.sqlstate, "0A000", "{statement}: {error}");
    }
    for (statement, part) in [
        ("SELECT * FROM hidden.w WHERE c = 5", "w is a view that reads encrypted columns"),
        ("SELECT * FROM v WHERE c = 5", "v is a view that reads encrypted columns"),
        ("ALTER TABLE v ALTER c SET DEFAULT 5", "v is a view that reads encrypted columns"),
        ("MERGE INTO v USING notes n ON v.id = n.id WHEN MATCHED THEN DELETE", "MERGE with tables"),
    ] {
        let Action::Refused(error) = planned(statement) else { panic!("{statement}") };
        assert!(error.sqlstate == "0A000" && error.message.contains(part), "{statement}: {error}");
    }
}

#[test]
fn what_is_only_called_as_a_view_is_none() {
    for statement in [
        "DROP VIEW v",
        "DROP VIEW IF EXISTS public.v CASCADE",
        "DROP MATERIALIZED VIEW hidden.w",
        "REFRESH MATERIALIZED VIEW CONCURRENTLY hidden.w",
        "GRANT SELECT ON v TO PUBLIC",
        "SELECT id AS v FROM notes v WHERE v.id = 5",
        "SELECT * FROM public.w WHERE id = 5",
        "WITH v AS (SELECT 1 AS id) SELECT * FROM v WHERE id = 5",
        // What is only called as it is.
        "CREATE TABLE other (v int DEFAULT 5, w text, UNIQUE (v))",
        "CREATE TABLE other (v int REFERENCES accounts (id), FOREIGN KEY (v) REFERENCES accounts)",
        "ALTER TABLE notes ADD COLUMN v int REFERENCES accounts (id), ALTER w SET DEFAULT 'x'",
        "CREATE INDEX v ON notes (v) WHERE w > 5",
        "CREATE VIEW other AS SELECT v FROM unknown WHERE w = 'x'",
        "CREATE TABLE other AS SELECT v FROM unknown WHERE w = 'x'",
        "CREATE SCHEMA IF NOT EXISTS v",
        "CREATE TRIGGER v BEFORE INSERT ON notes EXECUTE FUNCTION f()",
        "DROP TRIGGER IF EXISTS v ON notes",
    ] {
        assert_eq!(planned(statement), Action::Unchanged, "{statement}");
    }
    for statement in [
        "CREATE TABLE other (v text REFERENCES accounts (owner))",
        "CREATE TRIGGER v BEFORE INSERT ON accounts EXECUTE FUNCTION f()",
        "CREATE VIEW other AS SELECT v FROM accounts",
    ] {
        assert!(matches!(planned(statement), Action::Refused(_)), "{statement}");
    }
}

#[test]
fn a_declared_table_is_meant_by_its_name_where_a_view_has_it_too() {
    let view = ("hidden".to_owned(), "accounts".to_owned());
    let catalog = catalog().with_views_of([view].into());
    let planned = |statement: &str| plan(statement, &catalog).unwrap().remove(0).action;
    for statement in [
        "SELECT balance FROM accounts WHERE id = 1",
        "UPDATE accounts SET balance = 5",
        "INSERT INTO accounts (id) VALUES (1)",
        "ALTER TABLE accounts ADD COLUMN more int",
        "PREPARE p AS TABLE accounts",
        "COPY accounts (id) TO STDOUT",
    ] {
        let action = planned(statement);
        assert!(!matches!(action, Action::Refused(_)), "{statement}: {action:?}");
    }
    for statement in [
        "SELECT * FROM hidden.accounts",
        "DELETE FROM hidden.accounts WHERE memo = 'secret'",
        "ALTER VIEW hidden.accounts ALTER memo SET DEFAULT 'secret'",
        "CREATE TABLE more AS SELECT * FROM hidden.accounts",
    ] {
        let action = planned(statement);
        assert!(matches!(action, Action::Refused(_)), "{statement}: {action:?}");
    }
}

#[test]
fn a_merge_is_refused_wherever_it_stands() {
    for statement in [
        "MERGE INTO accounts a USING notes n ON a.id = n.id WHEN MATCHED THEN UPDATE SET owner = 'secret'",
        "MERGE INTO accounts USING (VALUES (1, 'secret')) s (id, owner) ON accounts.owner = s.owner WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.owner)",
        "MERGE INTO ONLY notes AS n USING accounts AS a ON a.owner = 'secret' WHEN MATCHED THEN DO NOTHING",
        "merge into notes using accounts on true when matched and accounts.memo = 'secret' then delete",
        "EXPLAIN MERGE INTO accounts a USING notes n ON true WHEN MATCHED THEN UPDATE SET owner = 'secret'",
        "WITH s AS (SELECT 'secret' AS owner) MERGE INTO accounts a USING s ON a.owner = s.owner WHEN MATCHED THEN DELETE",
    ] {
        let found = outcome(statement);
        assert!(found.starts_with("0A000") && found.contains("MERGE with tables"), "{statement}: {found}");
    }
}
