//! Tables as a statement leaves them, for the statements behind it in one text: that is planned before any of it is run.

use super::statement::parse;
use crate::catalog::{Catalog, Column, Table};
use crate::text::{Lexemes, fold};
use sqlparser::ast::{AlterTableOperation, Ident, ObjectName, Statement};

/// The declared table that a statement makes or gives columns; none if it does neither.
pub(super) fn table(text: &str, lexemes: &Lexemes, catalog: &Catalog, mention: usize) -> Option<Table> {
    if !["create", "alter"].iter().any(|word| lexemes.is_word(0, word)) {
        return None;
    }
    match parse(text, lexemes, mention).ok()? {
        Statement::CreateTable(create) => {
            let (schema, name) = declared(&create.name, catalog)?;
            if catalog.table(Some(&schema), &name).is_some() {
                return None;
            }
            let table = Table { schema, name, columns: Vec::new() };
            Some(with(table, create.columns.iter().map(|column| &column.name), catalog))
        }
        Statement::AlterTable(alter) => {
            let (schema, name) = declared(&alter.name, catalog)?;
            let table = Table::clone(catalog.table(Some(&schema), &name)?);
            let added = alter.operations.iter().filter_map(|operation| match operation {
                AlterTableOperation::AddColumn { column_def, .. } => Some(&column_def.name),
                _ => None,
            });
            Some(with(table, added, catalog))
        }
        _ => None,
    }
}

/// Schema and name of a declared table.
fn declared(name: &ObjectName, catalog: &Catalog) -> Option<(String, String)> {
    let parts = name.0.iter().filter_map(|part| part.as_ident());
    let parts: Vec<String> = parts.map(|part| fold(&part.value, part.quote_style.is_some())).collect();
    let mut keys = catalog.schema().tables.keys();
    match &parts[..] {
        [table] => keys.find(|(_, name)| name == table).cloned(),
        [schema, table] => keys.find(|(in_schema, name)| (in_schema, name) == (schema, table)).cloned(),
        _ => None,
    }
}

fn with<'a>(mut table: Table, columns: impl Iterator<Item = &'a Ident>, catalog: &Catalog) -> Table {
    for column in columns {
        let name = fold(&column.value, column.quote_style.is_some());
        if table.column(&name).is_none() {
            let encryption = catalog.schema().column(&table.schema, &table.name, &name).cloned();
            table.columns.push(Column { name, encryption });
        }
    }
    table
}
