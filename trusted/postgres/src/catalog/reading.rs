//! The catalogue as it is read from the database, and whether what is declared fits what is there.

use super::{Catalog, Column, Constant, EQUALITY_SUFFIX, ORDER_SUFFIX, Order, SUFFIXES, TEXT_SUFFIX, Table};
use crate::error::{SqlError, sqlstate};
use crate::schema::Schema;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Reads the columns of all tables and views, six texts a row: schema, table, column, type, the default of what may be
/// sealed, or nothing, and what is not empty if the column is generated; by their order. Of the schema `arras` only what says whether the catalogue's views are there, checks of columns, and places of labels.
/// Before them, of no schema and table, the functions that take a row: `t.f` may be one of them. A row without a column says what a
/// view reads: behind schema and view the schema, name and column of a table that may be encrypted, or of another view; no column of
/// a table means whole rows. A row without column and type says of a part of a partitioned table, and of one that inherits, by the last two texts,
/// which table it is directly a part of; without these, that the table is partitioned.
pub const COLUMNS: &str = "SELECT in_schema, in_table, name, kind, sealed, generated FROM (SELECT '' AS in_schema, \
    '' AS in_table, p.proname::pg_catalog.text AS name, '' AS kind, '' AS sealed, '' AS generated, 0 AS place \
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_type t ON t.oid = p.proargtypes[0] \
    WHERE p.pronargs - p.pronargdefaults <= 1 AND (t.typtype = 'c' OR t.typname IN ('record', 'any', 'anyelement', \
    'anynonarray', 'anycompatible', 'anycompatiblenonarray')) \
    UNION ALL SELECT n.nspname::pg_catalog.text, c.relname::pg_catalog.text, a.attname::pg_catalog.text, \
    pg_catalog.format_type(a.atttypid, a.atttypmod), coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), ''), \
    a.attgenerated::pg_catalog.text, a.attnum \
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid \
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum AND a.atttypid = 17 \
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0 AND NOT a.attisdropped \
    AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') \
    AND (n.nspname <> 'arras' OR c.relname IN ('shown_column', 'column_check', 'stored_labels')) \
    UNION ALL SELECT DISTINCT n.nspname::pg_catalog.text, v.relname::pg_catalog.text, '', m.nspname::pg_catalog.text, \
    c.relname::pg_catalog.text, CASE WHEN c.relkind IN ('v', 'm') OR r.ev_action::pg_catalog.text LIKE '%:varattno 0 %' THEN '' \
    ELSE a.attname::pg_catalog.text END, 0 \
    FROM pg_catalog.pg_class v JOIN pg_catalog.pg_namespace n ON n.oid = v.relnamespace \
    JOIN pg_catalog.pg_rewrite r ON r.ev_class = v.oid \
    JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid \
    AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid <> v.oid \
    JOIN pg_catalog.pg_class c ON c.oid = d.refobjid JOIN pg_catalog.pg_namespace m ON m.oid = c.relnamespace \
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid AND d.refobjsubid > 0 \
    WHERE v.relkind IN ('v', 'm') AND c.relkind IN ('r', 'p', 'f', 'v', 'm') \
    AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'arras') \
    AND m.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'arras') \
    AND (c.relkind IN ('v', 'm') OR r.ev_action::pg_catalog.text LIKE '%:varattno 0 %' OR a.atttypid = 17 \
    OR a.attname LIKE '%$ord') \
    UNION ALL SELECT DISTINCT n.nspname::pg_catalog.text, v.relname::pg_catalog.text, c.relname::pg_catalog.text, '', \
    m.nspname::pg_catalog.text, '', 0 \
    FROM pg_catalog.pg_class v JOIN pg_catalog.pg_namespace n ON n.oid = v.relnamespace \
    JOIN pg_catalog.pg_rewrite r ON r.ev_class = v.oid \
    JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid \
    AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid <> v.oid \
    JOIN pg_catalog.pg_class c ON c.oid = d.refobjid JOIN pg_catalog.pg_namespace m ON m.oid = c.relnamespace \
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.atttypid = 17 AND a.atthasdef AND NOT a.attisdropped \
    WHERE v.relkind = 'v' AND c.relkind IN ('r', 'p') \
    AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'arras') \
    UNION ALL SELECT n.nspname::pg_catalog.text, c.relname::pg_catalog.text, '', '', m.nspname::pg_catalog.text, \
    whole.relname::pg_catalog.text, 0 \
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid JOIN pg_catalog.pg_class whole ON whole.oid = i.inhparent \
    JOIN pg_catalog.pg_namespace m ON m.oid = whole.relnamespace WHERE c.relkind IN ('r', 'p', 'f') \
    UNION ALL SELECT n.nspname::pg_catalog.text, c.relname::pg_catalog.text, '', '', '', '', 0 \
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'p' \
    ) AS columns ORDER BY in_schema, in_table, place";

/// Where what is declared is written down for the catalogue's views.
const SHOWN: (&str, &str) = ("arras", "shown_column");
/// Where checks of columns are kept.
const CHECKS: (&str, &str) = ("arras", "column_check");
/// What tells where labels are stored.
const PLACES: (&str, &str) = ("arras", "stored_labels");

/// What is stored of a column where it is declared, by suffix.
const SEALED_TYPE: &str = "bytea";
const EQUALITY_TYPE: &str = "bytea";
const TEXT_TYPE: &str = "bytea";

/// The types of terms, by suffix.
fn term_types() -> impl Iterator<Item = (&'static str, &'static str)> {
    let orders = Order::ALL.iter().map(|order| (ORDER_SUFFIX, order.kind()));
    [(EQUALITY_SUFFIX, EQUALITY_TYPE), (TEXT_SUFFIX, TEXT_TYPE)].into_iter().chain(orders)
}

/// A column as it is stored.
struct Stored {
    name: String,
    kind: String,
    default: String,
    is_generated: bool,
}

/// What [`COLUMNS`] gives, by what its rows tell of.
#[derive(Default)]
struct Told {
    tables: BTreeMap<(String, String), Vec<Stored>>,
    of_rows: BTreeSet<String>,
    reads: Vec<ViewReads>,
    /// Columns that defaults are of.
    of_defaults: Vec<((String, String), (String, String))>,
    parents: Parents,
    /// A declared table is partitioned.
    is_parted: bool,
}

impl Told {
    fn new(declared: &Schema, rows: impl IntoIterator<Item = [String; 6]>) -> Self {
        let mut told = Self::default();
        for [schema, table, name, kind, default, generated] in rows {
            if table.is_empty() {
                told.of_rows.insert(name);
                continue;
            }
            let of = (schema, table);
            match (kind.is_empty(), name.is_empty()) {
                (true, true) if generated.is_empty() => told.is_parted |= declared.tables.contains_key(&of),
                (true, true) => told.parents.entry(of).or_default().push((default, generated)),
                (true, false) => told.of_defaults.push((of, (default, name))),
                (false, true) => {
                    told.reads.push(ViewReads { view: of, from: (kind, default), column: generated });
                }
                (false, false) => {
                    let is_generated = !generated.is_empty();
                    told.tables.entry(of).or_default().push(Stored { name, kind, default, is_generated });
                }
            }
        }
        told
    }
}

impl Catalog {
    /// The catalogue of what [`COLUMNS`] gives. A table whose declared column is there and is not laid out as declared, or one of which is laid out as an encrypted one and
    /// not declared, is among [`Self::misfits`]. A column that is declared and not there may be added yet.
    #[must_use]
    pub fn read(schema: Arc<Schema>, rows: impl IntoIterator<Item = [String; 6]>) -> Self {
        let Told { tables, of_rows, reads, of_defaults, parents, is_parted } = Told::new(&schema, rows);
        let (mut found, mut misfits) = (Vec::with_capacity(tables.len()), BTreeMap::new());
        let (mut shown, mut keeps_checks, mut keeps_places) = (false, false, false);
        let parts = parts_of_declared(&schema, &parents);
        let views = views_of(&schema, &parts, &reads);
        for ((in_schema, name), columns) in tables {
            if (in_schema.as_str(), name.as_str()) == SHOWN {
                shown = true;
                continue;
            }
            if (in_schema.as_str(), name.as_str()) == CHECKS {
                keeps_checks = true;
                continue;
            }
            if (in_schema.as_str(), name.as_str()) == PLACES {
                keeps_places = true;
                continue;
            }
            match logical(&schema, &in_schema, &name, &columns) {
                Ok(columns) => found.push(Table { schema: in_schema, name, columns }),
                Err(error) => {
                    let key = (in_schema, name);
                    let error = if views.contains(&key) { shows_ciphertext(&key) } else { error };
                    misfits.insert(key, error);
                }
            }
        }
        found.retain(|table| !parts.contains_key(&(table.schema.clone(), table.name.clone())));
        let named: BTreeSet<_> = parts.keys().cloned().collect();
        let has_parts = is_parted || !named.is_empty();
        misfits.extend(parts.iter().map(|(part, whole)| (part.clone(), is_part(part, whole))));
        let mut wholes = wholes_of_declared(&schema, &parents);
        wholes.retain(|whole, _| !parts.contains_key(whole));
        found.retain(|table| !wholes.contains_key(&(table.schema.clone(), table.name.clone())));
        misfits.extend(wholes.iter().map(|(whole, part)| (whole.clone(), is_whole(whole, part))));
        let filled = filled_by_default(&found, of_defaults, &reads);
        let mut read = Self {
            shown,
            parts: named,
            wholes: wholes.into_keys().collect(),
            has_parts,
            keeps_checks,
            keeps_places,
            of_rows,
            ..Self::new(schema, found)
        };
        read.refuse(misfits);
        read.with_views_of(views).with_filled(filled)
    }
}

/// Tables, by schema and name, and those which each is directly a part of.
type Parents = BTreeMap<(String, String), Vec<(String, String)>>;

/// The parts, of any depth, of declared tables that are not declared themselves, each with such a table.
fn parts_of_declared(schema: &Schema, parents: &Parents) -> BTreeMap<(String, String), (String, String)> {
    let whole_of = |part: &(String, String)| {
        let (mut above, mut known) = (vec![part], BTreeSet::new());
        while let Some(table) = above.pop() {
            if table != part && schema.tables.contains_key(table) {
                return Some((part.clone(), table.clone()));
            }
            // As a server could tell of a circle.
            if known.insert(table) {
                above.extend(parents.get(table).into_iter().flatten());
            }
        }
        None
    };
    parents.keys().filter(|part| !schema.tables.contains_key(*part)).filter_map(whole_of).collect()
}

/// Tables, not declared, of which a declared table is a part, of any depth, each with such a part.
fn wholes_of_declared(schema: &Schema, parents: &Parents) -> BTreeMap<(String, String), (String, String)> {
    let mut wholes = BTreeMap::new();
    for part in schema.tables.keys() {
        let mut above: Vec<_> = parents.get(part).into_iter().flatten().collect();
        while let Some(whole) = above.pop() {
            if !schema.tables.contains_key(whole) && !wholes.contains_key(whole) {
                wholes.insert(whole.clone(), part.clone());
                above.extend(parents.get(whole).into_iter().flatten());
            }
        }
    }
    wholes
}

/// What a statement that names the whole of a declared part is told: what it stores there would not be encrypted.
fn is_whole(whole: &(String, String), part: &(String, String)) -> SqlError {
    let message =
        format!("{}.{} is a part of {}.{}, which is not declared", part.0, part.1, whole.0, whole.1);
    misfit(message, "Name the part, or declare the whole table.")
}

/// What a statement that names a part is told: what it stores there is encrypted as in the whole table, which is not known of a part.
pub(crate) fn is_part(part: &(String, String), whole: &(String, String)) -> SqlError {
    let message =
        format!("{}.{} is a part of {}.{}, which has encrypted columns", part.0, part.1, whole.0, whole.1);
    misfit(message, "Name the whole table.")
}

/// What a view reads.
struct ViewReads {
    view: (String, String),
    from: (String, String),
    /// Of a table; empty for whole rows, and of a view.
    column: String,
}

/// The views that read encrypted columns, or other such views.
fn views_of(
    schema: &Schema,
    parts: &BTreeMap<(String, String), (String, String)>,
    reads: &[ViewReads],
) -> BTreeSet<(String, String)> {
    let reads_encrypted = |read: &&ViewReads| {
        let table = parts.get(&read.from).unwrap_or(&read.from);
        let Some(declared) = schema.tables.get(table) else { return false };
        let is_of = |name: &String| {
            let rest = read.column.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || SUFFIXES.contains(&rest))
        };
        read.column.is_empty() || declared.keys().any(is_of)
    };
    let mut views: BTreeSet<(String, String)> =
        reads.iter().filter(reads_encrypted).map(|read| read.view.clone()).collect();
    loop {
        let known = views.len();
        let others: Vec<_> = reads.iter().filter(|read| views.contains(&read.from)).collect();
        views.extend(others.into_iter().map(|read| read.view.clone()));
        if views.len() == known {
            return views;
        }
    }
}

/// The views over tables whose encrypted columns have defaults, or over other such views, with the column: of views and tables with
/// defaults of type `bytea` that they read.
fn filled_by_default(
    tables: &[Table],
    views: Vec<((String, String), (String, String))>,
    reads: &[ViewReads],
) -> BTreeMap<(String, String), String> {
    let column_of = |(schema, name): &(String, String)| {
        let table = tables.iter().find(|table| table.schema == *schema && table.name == *name)?;
        let is_filled = |column: &&Column| column.default.is_some();
        let encryptions =
            table.columns.iter().filter(is_filled).find_map(|column| column.encryption.as_ref());
        encryptions.map(|encryption| encryption.label.clone())
    };
    let mut filled: BTreeMap<(String, String), String> =
        views.into_iter().filter_map(|(view, table)| Some((view, column_of(&table)?))).collect();
    loop {
        let over = |read: &ViewReads| Some((read.view.clone(), filled.get(&read.from)?.clone()));
        let more: Vec<_> =
            reads.iter().filter(|read| !filled.contains_key(&read.view)).filter_map(over).collect();
        if more.is_empty() {
            return filled;
        }
        filled.extend(more);
    }
}

/// A view has sealed values and their terms.
fn shows_ciphertext((schema, name): &(String, String)) -> SqlError {
    let message = format!(
        "{schema}.{name} is a view that reads encrypted columns, which shows what the database holds of them"
    );
    SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
        .hint("Write the view's query in its place, or DROP VIEW.")
}

fn misfit(message: String, hint: &str) -> SqlError {
    SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message).hint(hint)
}

/// A column's default, as it is stored. Of a plain column none is asked for but a `bytea`'s, which nothing uses.
fn sealed(default: &str) -> Option<Constant> {
    (!default.is_empty()).then(|| Constant::Sealed(default.to_owned()))
}

/// The columns of one table as the application sees them.
fn logical(
    schema: &Schema,
    in_schema: &str,
    table: &str,
    columns: &[Stored],
) -> Result<Vec<Column>, SqlError> {
    let kind_of =
        |name: &str| columns.iter().find(|column| column.name == name).map(|column| column.kind.as_str());
    let declared = |name: &str| schema.column(in_schema, table, name).cloned();
    let mut found = Vec::new();
    for Stored { name, kind, default, is_generated } in columns {
        let term = term_types()
            .filter(|(_, of)| of == kind)
            .filter_map(|(suffix, kind)| Some((name.strip_suffix(suffix)?, suffix, kind)))
            .find(|(base, ..)| kind_of(base) == Some(SEALED_TYPE));
        if let Some((base, suffix, term_kind)) = term {
            let Some(encryption) = declared(base) else {
                return Err(misfit(
                    format!(
                        "column {in_schema}.{table}.{base} is encrypted, and the schema file does not declare it"
                    ),
                    "Declare it again, with the id that it had: without it, its values cannot be read.",
                ));
            };
            let wanted = match suffix {
                EQUALITY_SUFFIX => encryption.equality.is_some(),
                TEXT_SUFFIX => encryption.text.is_some(),
                _ => encryption.order.is_some(),
            };
            if !wanted {
                return Err(misfit(
                    format!(
                        "column {in_schema}.{table}.{base} has terms \"{name}\" of type {term_kind}, and the schema file does not ask for them"
                    ),
                    "Add the operation to the schema file again, or drop the column of terms.",
                ));
            }
            continue;
        }
        let encryption = declared(name);
        if let Some(encryption) = &encryption {
            if kind != SEALED_TYPE {
                return Err(misfit(
                    format!(
                        "column {in_schema}.{table}.{name} is declared as encrypted, and holds {kind} in plaintext"
                    ),
                    "Create the table through the proxy, or add an encrypted column of another name and copy the values.",
                ));
            }
            for term in encryption.terms() {
                let (suffix, term_kind) = (term.suffix(), term.kind(encryption));
                let there = kind_of(&format!("{name}{suffix}"));
                if there != Some(term_kind) {
                    let is = there.map_or("is not there".to_owned(), |kind| format!("is {kind}"));
                    return Err(misfit(
                        format!(
                            "column {in_schema}.{table}.{name} is declared with \"{}\", and \"{name}{suffix}\" {is}",
                            term.operation()
                        ),
                        "Add an encrypted column of another name with that operation and copy the values.",
                    ));
                }
            }
        }
        let (stored, default, is_generated) = (kind.clone(), sealed(default), *is_generated);
        found.push(Column { name: name.clone(), encryption, stored, default, is_generated });
    }
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(columns: &[(&str, &str)]) -> Result<Catalog, SqlError> {
        let schema = "[tables.t]\nc = { id = \"0000000000000001\", type = \"int\", operations = [\"equality\", \"order\"] }\n\
                      d = { id = \"0000000000000002\", type = \"text\" }";
        let row = |(column, kind): &(&str, &str)| ["public", "t", column, kind, "", ""].map(str::to_owned);
        let catalog = Catalog::read(Arc::new(Schema::parse(schema, "s").unwrap()), columns.iter().map(row));
        let misfit = catalog.misfits().next().cloned();
        misfit.map_or(Ok(catalog), Err)
    }

    #[test]
    fn terms_are_no_columns_of_the_application() {
        let columns =
            [("c$eq", "bytea"), ("c", "bytea"), ("p", "integer"), ("c$ord", "bigint"), ("x$eq", "text")];
        let catalog = read(&columns).unwrap();
        let table = catalog.table(None, "t").unwrap();
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["c", "p", "x$eq"]);
        assert!(table.columns[0].encryption.is_some() && table.columns[1].encryption.is_none());
    }

    #[test]
    fn views_that_read_encrypted_columns_are_known() {
        let schema =
            "[tables.t]\nc = { id = \"0000000000000001\", type = \"int\", operations = [\"order\"] }";
        let rows = [
            ["public", "t", "c", "bytea", "", ""],
            ["public", "t", "c$ord", "bigint", "", ""],
            ["public", "of_c", "", "public", "t", "c"],
            ["public", "of_c", "c", "bytea", "", ""],
            ["public", "of_c", "c$ord", "bigint", "", ""],
            ["public", "of_term", "", "public", "t", "c$ord"],
            ["public", "of_rows", "", "public", "t", ""],
            ["other", "of_view", "", "public", "of_term", ""],
            ["other", "of_of_view", "", "other", "of_view", ""],
            ["public", "of_plain", "", "public", "t", "photo"],
            ["public", "of_other", "", "other", "t", "c"],
            ["public", "of_of_plain", "", "public", "of_plain", ""],
        ];
        let rows = rows.map(|row| row.map(str::to_owned));
        let catalog = Catalog::read(Arc::new(Schema::parse(schema, "s").unwrap()), rows);
        let codes: Vec<&str> = catalog.misfits.values().map(|error| error.sqlstate).collect();
        assert_eq!(codes, ["0A000"], "of_c");
        for name in ["of_c", "of_term", "of_rows", "of_view", "of_of_view"] {
            assert!(catalog.is_view(None, name) && catalog.sensitive().holds(name), "{name}");
        }
        for name in ["of_plain", "of_other", "of_of_plain", "t"] {
            assert!(!catalog.is_view(None, name), "{name}");
        }
        assert!(catalog.is_view(Some("other"), "of_view") && !catalog.is_view(Some("public"), "of_view"));
    }

    #[test]
    fn views_over_defaults_of_encrypted_columns_are_known() {
        let schema = "[tables.t]\nc = { id = \"0000000000000001\", type = \"int\" }\n\
                      d = { id = \"0000000000000002\", type = \"int\" }";
        let read = |default: &str| {
            let rows = [
                ["public", "t", "c", "bytea", "", ""],
                ["public", "t", "d", "bytea", default, ""],
                ["public", "t", "photo", "bytea", "'x'::bytea", ""],
                ["public", "over", "t", "", "public", ""],
                ["public", "over", "note", "text", "", ""],
                ["other", "above", "", "public", "over", ""],
                ["public", "beside", "t", "", "other", ""],
            ];
            let rows = rows.map(|row| row.map(str::to_owned));
            Catalog::read(Arc::new(Schema::parse(schema, "s").unwrap()), rows)
        };
        let catalog = read("'y'::bytea");
        for (schema, view) in
            [(None, "over"), (Some("public"), "over"), (Some("other"), "above"), (None, "above")]
        {
            assert_eq!(catalog.filled_by_default(schema, view), Some("t.d"), "{view}");
        }
        for (schema, view) in [(Some("other"), "over"), (None, "beside"), (None, "t")] {
            assert_eq!(catalog.filled_by_default(schema, view), None, "{view}");
        }
        assert!(
            !catalog.sensitive().holds("over") && catalog.sensitive().may_be_in("insert into OVER", false)
        );
        let mut refused = catalog.clone();
        let wrong = SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, "of other keys");
        refused.refuse([(("public".to_owned(), "other".to_owned()), wrong)]);
        assert!(refused.sensitive().may_be_in("insert into OVER", false), "a misfit found later");
        assert!(refused.has_misfit_in("TABLE Other") && !refused.has_misfit_in("TABLE over"));
        assert_eq!(read("").filled_by_default(None, "over"), None, "the default of a plain column is none");
    }

    #[test]
    fn names_of_the_catalogue_are_replaced_where_there_are_views_of_it() {
        let schema = Arc::new(Schema::parse("[tables.t]\n", "s").unwrap());
        let planned = |rows: Vec<[String; 6]>| {
            let catalog = Catalog::read(schema.clone(), rows);
            crate::plan("SELECT * FROM pg_attribute", &catalog).unwrap()[0].action == crate::Action::Unchanged
        };
        assert!(planned(Vec::new()));
        assert!(!planned(vec![["arras", "shown_column", "schema_name", "name", "", ""].map(str::to_owned)]));
    }

    #[test]
    fn a_table_that_does_not_fit_its_declaration_is_an_error() {
        for (columns, part) in [
            (&[("c", "integer")][..], "holds integer in plaintext"),
            (&[("c", "bytea"), ("c$eq", "bytea")], "\"c$ord\" is not there"),
            (&[("c", "bytea"), ("c$eq", "bytea"), ("c$ord", "text")], "\"c$ord\" is text"),
            (&[("d", "bytea"), ("d$eq", "bytea")], "does not ask for them"),
            (&[("e", "bytea"), ("e$ord", "bigint")], "does not declare it"),
        ] {
            let error = read(columns).unwrap_err();
            assert!(error.message.contains(part) && error.sqlstate == "42P16", "{error}");
        }
    }
}
