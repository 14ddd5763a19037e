//! Tables as a statement leaves them, for the statements behind it in one text: that is planned before any of it is run.

use super::constant::constant;
use super::statement::parse;
use crate::catalog::{Catalog, Column, Constant, Table};
use crate::plan::Source;
use crate::text::{Lexemes, fold};
use sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, ColumnDef, ColumnOption, Expr, Ident, ObjectName, Statement,
};

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
            Some(with(table, create.columns.iter(), (lexemes, catalog)))
        }
        Statement::AlterTable(alter) => {
            let (schema, name) = declared(&alter.name, catalog)?;
            let table = Table::clone(catalog.table(Some(&schema), &name)?);
            let added = alter.operations.iter().filter_map(|operation| match operation {
                AlterTableOperation::AddColumn { column_def, .. } => Some(column_def),
                _ => None,
            });
            let mut table = with(table, added, (lexemes, catalog));
            for operation in &alter.operations {
                match operation {
                    AlterTableOperation::AlterColumn { column_name, op } => {
                        set_default(&mut table, column_name, op, lexemes);
                    }
                    AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                        let [old, new] = [old_column_name, new_column_name]
                            .map(|name| fold(&name.value, name.quote_style.is_some()));
                        // One that is encrypted keeps its name.
                        let plain = table.columns.iter_mut().filter(|column| column.encryption.is_none());
                        plain
                            .filter(|column| column.name == old)
                            .for_each(|column| column.name.clone_from(&new));
                    }
                    _ => {}
                }
            }
            Some(table)
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

fn with<'a>(
    mut table: Table,
    added: impl Iterator<Item = &'a ColumnDef>,
    seen: (&Lexemes, &Catalog),
) -> Table {
    let (lexemes, catalog) = seen;
    for definition in added {
        let name = fold(&definition.name.value, definition.name.quote_style.is_some());
        if table.column(&name).is_none() {
            let encryption = catalog.schema().column(&table.schema, &table.name, &name).cloned();
            let stored = if encryption.is_some() {
                "bytea".to_owned()
            } else {
                definition.data_type.to_string().to_lowercase()
            };
            let mut options = definition.options.iter();
            let default = options.find_map(|option| match &option.option {
                ColumnOption::Default(value) => default_of(lexemes, value),
                _ => None,
            });
            let default = default.filter(|_| encryption.is_some());
            let is_generated = definition.options.iter().any(|option| {
                matches!(&option.option, ColumnOption::Generated { generation_expr: Some(_), .. })
            });
            table.columns.push(Column { name, encryption, stored, default, is_generated });
        }
    }
    table
}

/// The constant that a default is.
fn default_of(lexemes: &Lexemes, value: &Expr) -> Option<Constant> {
    match constant(lexemes, value)?.source {
        Source::Constant(Some(text)) => Some(Constant::Opened(text)),
        Source::Constant(None)
        | Source::Constants(_)
        | Source::Parameter(_)
        | Source::Read(_)
        | Source::Computed(_) => None,
    }
}

/// Sets or drops the default of a column of a table.
fn set_default(table: &mut Table, column: &Ident, operation: &AlterColumnOperation, lexemes: &Lexemes) {
    let name = fold(&column.value, column.quote_style.is_some());
    let default = match operation {
        AlterColumnOperation::SetDefault { value } => default_of(lexemes, value),
        AlterColumnOperation::DropDefault => None,
        _ => return,
    };
    for column in table.columns.iter_mut().filter(|one| one.name == name && one.encryption.is_some()) {
        column.default.clone_from(&default);
    }
}
