//! Tables and columns that are declared: called like words of SQL, not there, made by the text itself.

use crate::catalog::{Catalog, Column, Table};
use crate::error::SqlError;
use crate::plan::Action;
use crate::schema::Schema;
use std::sync::Arc;

fn refusals(text: &str, catalog: &Catalog) -> Vec<Option<SqlError>> {
    let planned = crate::rewrite::plan(text, catalog).unwrap();
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
    let planned = crate::rewrite::plan(text, &catalog).unwrap();
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
    let catalog = super::catalog();
    let shown = |text: &str| {
        let planned = crate::rewrite::plan(text, &catalog).unwrap().remove(0);
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
    let catalog = super::catalog();
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
