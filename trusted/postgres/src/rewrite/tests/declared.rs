//! Tables and columns that are declared: called like words of SQL, not there, made by the text itself.

use super::{catalog, outcome};
use crate::catalog::{Catalog, Column, Table};
use crate::error::SqlError;
use crate::plan::Action;
use crate::rewrite::plan;
use crate::schema::Schema;
use std::sync::Arc;

fn refusals(text: &str, catalog: &Catalog) -> Vec<Option<SqlError>> {
    let planned = plan(text, catalog).unwrap();
    let refusal = |action| match action {
        Action::Refused(error) => Some(error),
        Action::Unchanged | Action::Rewritten(_) | Action::Program(_) => None,
    };
    planned.into_iter().map(|planned| refusal(planned.action)).collect()
}

/// A table of the name with the columns, all of them encrypted texts that are compared; those that are there.
fn encrypted(table: &str, declared: &[&str], there: &[&str]) -> Catalog {
    let column = |(name, id): (&&str, u32)| {
        format!("\"{name}\" = {{ id = \"{id:016}\", type = \"text\", operations = [\"equality\"] }}\n")
    };
    let columns: String = declared.iter().zip(1..).map(column).collect();
    let schema = Arc::new(Schema::parse(&format!("[tables.\"public.{table}\"]\n{columns}"), "s").unwrap());
    let column = |name: &&str| Column {
        name: (*name).to_owned(),
        encryption: schema.column("public", table, name).cloned(),
        stored: "integer".into(),
        default: None,
        is_generated: false,
    };
    let columns: Vec<Column> = there.iter().map(column).collect();
    let tables = (!there.is_empty()).then(|| Table { schema: "public".into(), name: table.into(), columns });
    Catalog::new(schema, tables)
}

#[test]
fn words_of_sql_may_be_names_of_columns_and_tables() {
    let columns = ["by", "order", "user", "group", "id"];
    let catalog = encrypted("order", &columns[..4], &columns);
    for text in [
        r#"SELECT id, "by", by FROM "order" WHERE "user" = 'a' GROUP BY id, "by", by ORDER BY id"#,
        r#"SELECT o."order", o.group FROM "order" AS o WHERE o.order = $1 ORDER BY o.id"#,
        r#"SELECT count(*) OVER (PARTITION BY by ORDER BY id) FROM "order""#,
        r#"SELECT user, id FROM other ORDER BY id"#,
    ] {
        assert_eq!(refusals(text, &catalog), [None], "{text}");
    }
    let dated = encrypted("days", &["date", "serial"], &["id", "date", "serial"]);
    let made = encrypted("days", &["date", "serial"], &[]);
    assert_eq!(refusals("SELECT date FROM days WHERE id < date '2024-05-31' AND date = 'x'", &dated), [None]);
    assert_eq!(refusals("CREATE TABLE days (id serial, day date, date text, serial text)", &made), [None]);
    // Behind a point a reserved word is a name as well.
    for text in [r#"SELECT initcap(o.order) FROM "order" o"#, r#"SELECT initcap(by) FROM "order""#] {
        assert!(refusals(text, &catalog)[0].is_some(), "{text}");
    }
}

#[test]
fn a_declared_table_that_is_not_there_is_postgresqls_error() {
    let catalog = encrypted("people", &["name"], &[]);
    for (text, position) in [
        ("SELECT name FROM people", 18),
        ("DELETE FROM public.people", 13),
        ("INSERT INTO people VALUES ('a')", 13),
        ("COPY people FROM STDIN", 6),
        ("CREATE INDEX ON people (name)", 17),
    ] {
        let error = refusals(text, &catalog)[0].clone().unwrap();
        assert_eq!((error.sqlstate, error.position), ("42P01", Some(position)), "{text}: {error}");
        assert!(error.message.ends_with("people\" does not exist"), "{error}");
    }
    let error = refusals("SELECT name FROM people WHERE", &catalog)[0].clone().unwrap();
    assert_eq!((error.sqlstate, error.position), ("42601", Some(30)));
}

#[test]
fn what_a_text_makes_is_there_for_what_follows_in_it() {
    let catalog = encrypted("people", &["name", "town"], &[]);
    let text = "CREATE TABLE people (id int, name text); CREATE INDEX ON people (name); \
        INSERT INTO people VALUES (1, 'Ann'); ALTER TABLE people ADD COLUMN town text; \
        UPDATE people SET town = 'Bath'; SELECT * FROM people WHERE name = 'Ann'";
    assert_eq!(refusals(text, &catalog), vec![None; 6]);
    let planned = plan(text, &catalog).unwrap();
    assert!(planned.iter().all(|planned| planned.action != Action::Unchanged));
}

/// A column that is declared may be there though the proxy has not seen that yet: no constant for it goes out as it is.
#[test]
fn a_declared_column_that_is_not_there_is_not_written() {
    let catalog = encrypted("people", &["name", "town"], &["id", "name"]);
    for text in [
        "UPDATE people SET town = 'Bath'",
        "INSERT INTO people (id, town) VALUES (1, 'Bath')",
        "SELECT id FROM people WHERE town = 'Bath'",
        "SELECT id FROM people p WHERE p.town = 'Bath'",
        "COPY people (id, town) FROM STDIN",
    ] {
        assert!(refusals(text, &catalog)[0].is_some(), "{text}");
    }
    assert_eq!(refusals("SELECT id FROM people WHERE name = 'Ann'", &catalog), [None]);
}

#[test]
fn constraints_of_a_table_keep_their_names_and_do_not_write_terms_alone() {
    let catalog = catalog();
    let shown = |text: &str| {
        let planned = plan(text, &catalog).unwrap().remove(0);
        match planned.action {
            Action::Rewritten(rewritten) => Ok(super::text_of(&rewritten)),
            Action::Program(program) => match *program {
                crate::plan::Program::Layout(layout) => Ok(super::text_of(&layout.steps[layout.answer])),
                other => panic!("{other:?}"),
            },
            Action::Refused(error) => Err(error.message),
            Action::Unchanged => panic!("{text}"),
        }
    };
    let text = "CREATE TABLE payments (id int, payer text, UNIQUE (id, payer), \
        FOREIGN KEY (payer) REFERENCES accounts (owner) ON DELETE CASCADE)";
    let made = shown(text).unwrap();
    assert!(made.contains(r#"CONSTRAINT "payments_id_payer_key" UNIQUE (id, "payer$eq")"#), "{made}");
    assert!(made.contains(r#"CONSTRAINT "payments_payer_fkey" FOREIGN KEY ("payer$eq")"#), "{made}");
    let text = "ALTER TABLE payments ADD COLUMN payer text CONSTRAINT k REFERENCES accounts (owner) \
        DEFERRABLE INITIALLY DEFERRED";
    let made = shown(text).unwrap();
    assert!(made.contains(r#"("owner$eq") DEFERRABLE INITIALLY DEFERRED"#), "{made}");
    for action in ["ON UPDATE CASCADE", "ON DELETE SET NULL", "ON DELETE SET DEFAULT"] {
        for text in [
            format!("CREATE TABLE payments (payer text REFERENCES accounts (owner) {action})"),
            format!("ALTER TABLE payments ADD FOREIGN KEY (payer) REFERENCES accounts (owner) {action}"),
        ] {
            let refused = shown(&text).unwrap_err();
            assert!(refused.contains(action), "{refused}");
        }
    }
}

#[test]
fn what_mappers_make_and_tools_ask_is_understood_or_refused_clearly() {
    let catalog = catalog();
    for text in [
        "CREATE INDEX likely ON accounts (owner varchar_pattern_ops)",
        "SELECT owner FROM accounts WHERE closed IS TRUE AND closed IS NOT FALSE",
    ] {
        assert_eq!(refusals(text, &catalog), [None], "{text}");
    }
    for (text, part) in [
        ("CREATE INDEX ON accounts (owner gin_trgm_ops)", "this kind of index"),
        (
            "SELECT set_config(name, 'view', false) FROM pg_settings WHERE name = 'restrict_nonsystem_relation_kind'",
            "pg_dump",
        ),
    ] {
        let error = refusals(text, &catalog)[0].clone().unwrap();
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn an_integer_is_compared_with_decimals_whatever_it_is_cast_to() {
    let catalog = encrypted_of("sums", "numeric(12,2)");
    for text in [
        "c = $1::integer",
        "c > 5::bigint",
        "c < CAST(7 AS smallint)",
        "c = NULL::integer",
        "c = 5.7::integer",
    ] {
        assert_eq!(refusals(&format!("SELECT id FROM sums WHERE {text}"), &catalog), [None], "{text}");
    }
    // What a cast checks and the next one does not is not left out.
    for text in ["c = 5.7::real", "c = $1::bigint::integer"] {
        let refused = refusals(&format!("SELECT id FROM sums WHERE {text}"), &catalog);
        assert!(refused[0].is_some(), "{text}");
    }
    assert_eq!(refusals("SELECT id FROM sums WHERE c = $1::integer::bigint", &catalog), [None]);
}

/// A table with one encrypted column, `c`.
fn encrypted_of(table: &str, kind: &str) -> Catalog {
    let declared = format!(
        "[tables.\"public.{table}\"]\nc = {{ id = \"00000000000000ff\", type = \"{kind}\", \
         operations = [\"equality\", \"order\"] }}"
    );
    let schema = Arc::new(Schema::parse(&declared, "s").unwrap());
    let columns = ["id", "c"].map(|name| Column {
        name: name.into(),
        encryption: schema.column("public", table, name).cloned(),
        stored: "integer".into(),
        default: None,
        is_generated: false,
    });
    Catalog::new(schema, [Table { schema: "public".into(), name: table.into(), columns: columns.into() }])
}

/// A statement that defines something is about what it names, not about all that is called so.
#[test]
fn what_is_only_called_as_a_table_is_none() {
    for statement in [
        "CREATE TABLE other (accounts int, notes text, CHECK (accounts > 0), UNIQUE (notes))",
        "CREATE TABLE IF NOT EXISTS other (id int, accounts int DEFAULT 5)",
        "ALTER TABLE other RENAME COLUMN accounts TO n",
        "ALTER TABLE other RENAME COLUMN n TO accounts",
        "ALTER TABLE other ADD COLUMN IF NOT EXISTS accounts int, DROP accounts, ALTER accounts SET DEFAULT 1",
        "ALTER TABLE other ADD CONSTRAINT accounts CHECK (n > 0 AND accounts > 0)",
        "ALTER TABLE other OWNER TO accounts",
        "CREATE INDEX ON other (accounts, (accounts + 1)) WHERE accounts > 5",
        "CREATE ROLE accounts",
        "DROP SCHEMA IF EXISTS accounts CASCADE",
        "CREATE TRIGGER accounts BEFORE INSERT ON other EXECUTE FUNCTION f()",
        "CREATE VIEW other AS SELECT id AS accounts FROM unknown AS accounts",
        "CREATE VIEW other AS WITH accounts AS (SELECT 1 AS id) SELECT id FROM accounts",
        "CREATE MATERIALIZED VIEW other AS SELECT accounts FROM unknown",
        "CREATE VIEW other AS SELECT id FROM accounts WHERE id > 5",
        "CREATE TABLE other AS SELECT id FROM accounts",
        "PREPARE p AS SELECT id FROM accounts WHERE id = 1",
        "DECLARE k CURSOR FOR SELECT id FROM accounts",
    ] {
        assert_eq!(outcome(statement), "unchanged", "{statement}");
    }
    for (statement, at, part) in [
        ("CREATE TABLE other (c accounts)", 23, "accounts is encrypted"),
        ("CREATE TABLE other (LIKE accounts)", 26, "accounts is encrypted"),
        ("CREATE TABLE other (id int) INHERITS (accounts)", 39, "accounts is encrypted"),
        (
            "ALTER TABLE other INHERIT accounts",
            19,
            "a statement that names an encrypted table is not understood",
        ),
        ("ALTER TABLE other RENAME TO accounts", 29, "accounts is encrypted"),
        (
            "CREATE VIEW v AS SELECT id FROM accounts WHERE owner = 'x'",
            48,
            "column accounts.owner is encrypted: a view",
        ),
        ("CREATE MATERIALIZED VIEW v AS SELECT count(owner) FROM accounts", 44, "column accounts.owner"),
        (
            "CREATE TABLE t AS SELECT id, owner FROM accounts",
            30,
            "column accounts.owner is encrypted: a table that",
        ),
        ("CREATE VIEW accounts AS SELECT 1", 13, "accounts is declared"),
        (
            "CREATE TRIGGER t AFTER UPDATE ON accounts EXECUTE FUNCTION f()",
            34,
            "accounts has encrypted columns: a trigger",
        ),
        ("CREATE POLICY p ON accounts USING (owner = 'x')", 20, "accounts has encrypted columns: a policy"),
        ("PREPARE p AS DELETE FROM arras.mark USING accounts", 26, "permission denied"),
    ] {
        let action = plan(statement, &catalog()).unwrap().remove(0).action;
        let Action::Refused(error) = action else { panic!("{statement}: {action:?}") };
        let is_it = error.message.contains(part) && error.position == Some(at);
        assert!(is_it, "{statement}: {error} {:?}", error.position);
    }
}

/// Its name alone would go on meaning the declared one, and `DELETE` would empty that.
#[test]
fn no_table_of_a_session_gets_the_name_of_a_declared_one() {
    for text in [
        "CREATE TABLE pg_temp.accounts (id int)",
        "CREATE TABLE IF NOT EXISTS \"pg_temp\".accounts (LIKE other)",
        "CREATE TABLE pg_temp.accounts AS SELECT 1 AS id",
        "CREATE VIEW PG_TEMP.accounts AS SELECT 1 AS id",
    ] {
        let found = outcome(text);
        assert!(found.starts_with("0A000 ") && found.contains("is declared with encrypted"), "{found}");
    }
    assert_eq!(outcome("CREATE TABLE pg_temp.other (id int)"), "unchanged");
}
