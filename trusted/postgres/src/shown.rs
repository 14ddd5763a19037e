//! The catalogue as an application sees it: views that the database holds beside its own catalogue's.
//!
//! A statement that names `pg_class`, `pg_attribute`, `pg_index`, `pg_constraint`, `pg_trigger`, `information_schema.columns`
//! or the usage of keys' columns, or asks for an index's or a key's definition, is sent with the view or function of the schema
//! `arras` in its place: `\d`, `\di` and the reflection of object-relational mappers show columns with their logical types, no
//! terms, and no indexes of those.

use crate::schema::Schema;

/// Makes the views, or makes them anew; by the owner of the schema `arras`.
pub const INSTALL: &str = include_str!("shown.sql");

/// Tells the views what is declared, in one transaction of two statements.
#[must_use]
pub fn declare(schema: &Schema) -> String {
    let text = |text: &str| text.replace('\'', "''");
    let rows = schema.tables.iter().flat_map(|((in_schema, table), columns)| {
        columns.iter().map(move |(column, encryption)| {
            let (oid, modifier) = (encryption.kind.oid(), encryption.kind.modifier());
            format!("('{}', '{}', '{}', {oid}, {modifier})", text(in_schema), text(table), text(column))
        })
    });
    let rows: Vec<String> = rows.collect();
    if rows.is_empty() {
        return "DELETE FROM arras.shown_column".into();
    }
    format!("DELETE FROM arras.shown_column; INSERT INTO arras.shown_column VALUES {}", rows.join(", "))
}
