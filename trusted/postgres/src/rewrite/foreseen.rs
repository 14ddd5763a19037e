//! Tables as a statement leaves them, where that can be foreseen.

use super::moment::constant_or_moment;
use super::statement::parse;
use super::write::assigned;
use crate::catalog::{Catalog, Column, Constant, Encryption, Table};
use crate::plan::Source;
use crate::text::{Lexemes, fold};
use sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption, CreateTable, Expr, Ident,
    ObjectName, ObjectType, Statement,
};
use sqlparser::tokenizer::Token;

/// What a statement leaves.
pub(super) enum After {
    /// Tables as they were.
    Same,
    /// A table like this; is that known to be all that it has?
    Is(Table, bool),
    /// Without these tables, by schema and name.
    Gone(Vec<(String, String)>),
}

/// What a statement leaves that makes, changes or drops a declared table; none if that is not foreseen.
pub(super) fn after(text: &str, lexemes: &Lexemes, catalog: &Catalog, mention: usize) -> Option<After> {
    if !["create", "alter", "drop"].iter().any(|word| lexemes.is_word(0, word)) {
        return None;
    }
    match parse(text, lexemes, mention).ok()? {
        Statement::CreateTable(create) => created(&create, (lexemes, catalog)),
        Statement::AlterTable(alter) => altered(&alter, (lexemes, catalog)),
        Statement::Drop { object_type: ObjectType::Table, names, .. } => dropped(&names, catalog),
        _ => None,
    }
}

fn created(create: &CreateTable, seen: (&Lexemes, &Catalog)) -> Option<After> {
    let catalog = seen.1;
    let (schema, name) = declared(&create.name, catalog)?;
    let is_there = catalog.table(Some(&schema), &name).is_some();
    match (is_there, catalog.is_doubted(&name)) {
        // It fails, or does nothing.
        (true, false) => return Some(After::Same),
        (true, true) if create.if_not_exists => return None,
        _ => {}
    }
    // One that was there without a doubt would be no error.
    let is_made = !create.if_not_exists || !catalog.is_doubted(&name);
    let table = Table { schema, name, columns: Vec::new() };
    let table = with(table, create.columns.iter(), seen);
    Some(After::Is(table, is_made && lists_all(create, seen.0)))
}

/// Are the columns that a statement lists all that its table has?
fn lists_all(create: &CreateTable, lexemes: &Lexemes) -> bool {
    let CreateTable { like, inherits, partition_of, query, clone, .. } = create;
    let (mut depth, mut at_start) = (0_usize, false);
    let takes_others = lexemes.list.iter().enumerate().any(|(at, lexeme)| {
        let is_item = std::mem::take(&mut at_start);
        match &lexeme.token.token {
            Token::LParen => {
                depth += 1;
                at_start = depth == 1;
            }
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma => at_start = depth == 1,
            _ if is_item => return lexemes.is_word(at, "like"),
            _ if depth == 0 => return ["of", "inherits"].iter().any(|word| lexemes.is_word(at, word)),
            _ => {}
        }
        false
    });
    let is_like = like.is_some() || inherits.is_some() || partition_of.is_some();
    !is_like && query.is_none() && clone.is_none() && !takes_others
}

fn altered(alter: &AlterTable, seen: (&Lexemes, &Catalog)) -> Option<After> {
    let catalog = seen.1;
    let (schema, name) = declared(&alter.name, catalog)?;
    let mut table = Table::clone(catalog.table(Some(&schema), &name)?);
    // As PostgreSQL has it: what is dropped goes first, and what is added comes last.
    for operation in &alter.operations {
        if let AlterTableOperation::DropColumn { column_names, .. } = operation {
            let gone = |column: &Column| column_names.iter().any(|name| folded(name) == column.name);
            table.columns.retain(|column| !gone(column));
        }
    }
    let added = alter.operations.iter().filter_map(|operation| match operation {
        AlterTableOperation::AddColumn { column_def, .. } => Some(column_def),
        _ => None,
    });
    let mut table = with(table, added, seen);
    for operation in &alter.operations {
        match operation {
            AlterTableOperation::AlterColumn { column_name, op } => {
                alter_column(&mut table, column_name, op, seen.0);
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let [old, new] = [old_column_name, new_column_name].map(folded);
                // One that is encrypted keeps its name.
                let plain = table.columns.iter_mut().filter(|column| column.encryption.is_none());
                plain.filter(|column| column.name == old).for_each(|column| column.name.clone_from(&new));
            }
            _ => {}
        }
    }
    // Of one that was in doubt this is not all.
    let is_whole = alter.operations.iter().all(is_foreseen) && !catalog.is_doubted(&name);
    Some(After::Is(table, is_whole))
}

/// Is what comes of it foreseen here, or nothing of a table's columns?
fn is_foreseen(operation: &AlterTableOperation) -> bool {
    matches!(
        operation,
        AlterTableOperation::AddColumn { .. }
            | AlterTableOperation::DropColumn { .. }
            | AlterTableOperation::AlterColumn { .. }
            | AlterTableOperation::RenameColumn { .. }
            | AlterTableOperation::AddConstraint { .. }
            | AlterTableOperation::OwnerTo { .. }
    ) || leaves_columns(operation)
}

/// Does a change of a table leave its columns, and what they may hold, as they are?
pub(super) fn leaves_columns(operation: &AlterTableOperation) -> bool {
    matches!(
        operation,
        AlterTableOperation::DropConstraint { .. }
            | AlterTableOperation::RenameConstraint { .. }
            | AlterTableOperation::ValidateConstraint { .. }
            | AlterTableOperation::SetOptionsParens { .. }
            | AlterTableOperation::DisableTrigger { .. }
            | AlterTableOperation::EnableTrigger { .. }
            | AlterTableOperation::DisableRowLevelSecurity
            | AlterTableOperation::EnableRowLevelSecurity
            | AlterTableOperation::ForceRowLevelSecurity
            | AlterTableOperation::NoForceRowLevelSecurity
    )
}

fn dropped(names: &[ObjectName], catalog: &Catalog) -> Option<After> {
    let mut gone = Vec::new();
    for name in names {
        match &parts(name)[..] {
            [table] => {
                let mut there = catalog.keys_of(table);
                gone.extend(there.next().cloned());
                if there.next().is_some() {
                    return None;
                }
            }
            [schema, table] => gone.push((schema.clone(), table.clone())),
            _ => return None,
        }
    }
    Some(After::Gone(gone))
}

fn folded(name: &Ident) -> String {
    fold(&name.value, name.quote_style.is_some())
}

fn parts(name: &ObjectName) -> Vec<String> {
    name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect()
}

/// Schema and name of a declared table.
fn declared(name: &ObjectName, catalog: &Catalog) -> Option<(String, String)> {
    let parts = parts(name);
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
        let name = folded(&definition.name);
        if table.column(&name).is_none() {
            let encryption = catalog.schema().column(&table.schema, &table.name, &name).cloned();
            let stored = if encryption.is_some() {
                "bytea".to_owned()
            } else {
                definition.data_type.to_string().to_lowercase()
            };
            let mut options = definition.options.iter();
            let default = options.find_map(|option| match &option.option {
                ColumnOption::Default(value) => default_of(lexemes, value, encryption.as_ref()?),
                _ => None,
            });
            let is_generated = definition.options.iter().any(|option| {
                matches!(&option.option, ColumnOption::Generated { generation_expr: Some(_), .. })
            });
            table.columns.push(Column { name, encryption, stored, default, is_generated });
        }
    }
    table
}

/// The constant that a column's default is, as it is assigned to the column.
fn default_of(lexemes: &Lexemes, value: &Expr, encryption: &Encryption) -> Option<Constant> {
    match assigned(&constant_or_moment(lexemes, value)?, encryption).source {
        Source::Constant(Some(text)) => Some(Constant::Opened(text)),
        Source::Moment(moment) => Some(Constant::Moment(moment)),
        Source::Constant(None)
        | Source::Constants(_)
        | Source::Parameter(_)
        | Source::Read(_)
        | Source::Computed(_) => None,
    }
}

/// Sets or drops the default of a column of a table, or gives it another type.
fn alter_column(table: &mut Table, column: &Ident, operation: &AlterColumnOperation, lexemes: &Lexemes) {
    let name = folded(column);
    match operation {
        AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::DropDefault => {}
        AlterColumnOperation::SetDataType { data_type, .. } => {
            let changed = table.columns.iter_mut().filter(|one| one.name == name && one.encryption.is_none());
            changed.for_each(|column| column.stored = data_type.to_string().to_lowercase());
            return;
        }
        _ => return,
    }
    for column in table.columns.iter_mut().filter(|one| one.name == name) {
        let Some(encryption) = &column.encryption else { continue };
        column.default = match operation {
            AlterColumnOperation::SetDefault { value } => default_of(lexemes, value, encryption),
            _ => None,
        };
    }
}
