//! Tables and indexes: an encrypted column becomes its sealed value and its terms.

mod altered;
mod checked;
mod default;
mod index;

use super::analysis::Analysis;
use super::constant::Constant;
use super::constraint::{identifier_of, name_of_constraint};
use super::scope::{Relation, RelationColumn};
use super::term::Term;
use crate::catalog::Encryption;
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Form, Piece, Rewritten, hexadecimal};
use crate::text::{fold, quoted};
use default::{kept_form, later_default, named_twice, term_form, terms_without_default};
use sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption, ColumnOptionDef,
    CreateTable, Expr, ForeignKeyConstraint, Ident, IndexColumn, ObjectName, ReferentialAction,
};
use sqlparser::tokenizer::Token;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// A table's declared columns.
pub(super) type DeclaredColumns = BTreeMap<String, Arc<Encryption>>;

/// Statements beside the client's own: those before it, those after it.
#[derive(Debug, Default)]
pub(super) struct Beside {
    pub(super) before: Vec<Rewritten>,
    pub(super) after: Vec<Rewritten>,
    /// Columns of which an `ALTER TABLE` says several things.
    twice: BTreeSet<String>,
}

/// What a column's options ask of it.
#[derive(Debug, Default)]
struct Constrained {
    required: bool,
    unique: bool,
    default: Option<Constant>,
    /// Constraints that its equality terms have.
    terms: String,
}

/// An index of a column's term, named after the column's id: names of ours and the application's do not meet.
fn index_of_term(table: &str, name: &str, encryption: &Encryption, term: Term) -> Rewritten {
    let index = quoted(&format!("arras_{}_{}", hexadecimal(&encryption.id), term.operation()));
    let column = quoted(&format!("{name}{}", term.suffix()));
    Rewritten::plain(format!("CREATE INDEX IF NOT EXISTS {index} ON {table} ({column})"))
}

/// Tells the database's functions that a column's labels are stored there, or are no more.
fn labels_in(function: &str, table: &str, name: &str, encryption: &Encryption) -> Rewritten {
    let id = i64::from_be_bytes(encryption.id);
    let text = |text: &str| text.replace('\'', "''");
    let column = text(&format!("{name}{}", Term::Order.suffix()));
    Rewritten::plain(format!(
        "SELECT arras.{function}('{id}'::bigint, '{}'::regclass, '{column}')",
        text(table)
    ))
}

/// A table's name without its schema and quotes.
fn last_part(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, last)| last).trim_matches('"')
}

/// The name that PostgreSQL would give a constraint of a column, which the term's column has in its place. None for what has no such
/// name.
fn default_name(table: &str, column: &str, option: &ColumnOption) -> Option<String> {
    let kind = match option {
        ColumnOption::Unique(_) => "key",
        ColumnOption::ForeignKey(_) => "fkey",
        _ => return None,
    };
    Some(name_of_constraint(table, &[column], kind))
}

fn folded(name: &Ident) -> String {
    fold(&name.value, name.quote_style.is_some())
}

impl Analysis<'_> {
    /// What is declared of a table, by its name as it is written.
    pub(super) fn declared(&self, name: &ObjectName) -> Result<Option<DeclaredColumns>, SqlError> {
        let parts: Vec<_> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
        let tables = &self.catalog.schema().tables;
        match &parts[..] {
            [table] => {
                let mut named = tables.iter().filter(|((_, name), _)| name == table);
                match (named.next(), named.next()) {
                    (found, None) => Ok(found.map(|(_, columns)| columns.clone())),
                    (_, Some(_)) => Err(self.declared_twice(table, 0)),
                }
            }
            [schema, table] => Ok(tables.get(&(schema.clone(), table.clone())).cloned()),
            _ => Ok(None),
        }
    }

    /// Is it the name of a declared table, in the session's own schema? Alone it would go on meaning the declared one.
    pub(super) fn hides_declared(&self, name: &ObjectName) -> bool {
        let parts: Vec<_> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
        matches!(&parts[..], [schema, table] if schema == "pg_temp" && self.catalog.declares(table))
    }

    fn created_otherwise(&self, table: &CreateTable) -> SqlError {
        let name = &table.name;
        let message =
            format!("{name} is declared with encrypted columns: it is created with its own list of them");
        self.unsupported(0, message, "Write CREATE TABLE with the columns.")
    }

    pub(super) fn create_table(&mut self, table: &CreateTable) -> Result<Beside, SqlError> {
        if self.hides_declared(&table.name) {
            return Err(self.created_otherwise(table));
        }
        let Some(declared) = self.declared(&table.name)? else {
            self.understand_name(&table.name);
            self.plain_references(&table.columns, &table.constraints)?;
            return Ok(Beside::default());
        };
        let odd = table.query.is_some()
            || table.like.is_some()
            || table.inherits.is_some()
            || table.partition_of.is_some()
            || table.temporary;
        if odd {
            return Err(self.created_otherwise(table));
        }
        self.watch_relation(&relation_of(table.columns.iter().map(|column| &column.name), &declared));
        self.understand_name(&table.name);
        let text = table.name.to_string();
        let plain = last_part(&text).to_owned();
        let mut beside = Beside::default();
        for column in &table.columns {
            let name = fold(&column.name.value, column.name.quote_style.is_some());
            match declared.get(&name) {
                None => {
                    self.understand(&column.name);
                    // Its type, which may be called as a column is.
                    let at = self.lexemes.position_of(column.name.span).unwrap_or(0);
                    self.understand_tokens(at + 1..at + 2);
                }
                Some(encryption) => {
                    let (unique, _) = self.column_definition(column, &plain, &name, encryption, ", ")?;
                    self.beside_column(&text, &name, encryption, unique, &mut beside);
                    self.check_column(&text, &name, encryption, (Some(!table.if_not_exists), &mut beside));
                }
            }
        }
        table.constraints.iter().try_for_each(|constraint| self.constraint(constraint, &plain, &declared))?;
        Ok(beside)
    }

    /// The indexes of a new column's terms.
    fn beside_column(
        &self,
        table: &str,
        name: &str,
        encryption: &Arc<Encryption>,
        unique: bool,
        beside: &mut Beside,
    ) {
        for term in encryption
            .terms()
            .filter(|term| encryption.is_found_by(*term) && (*term == Term::Order || !unique))
        {
            beside.after.push(index_of_term(table, name, encryption, term));
        }
        if encryption.labels().is_some() {
            beside.after.push(labels_in("mope_store_in", table, name, encryption));
        }
    }

    /// The tokens of a column's definition: up to the comma or the parenthesis behind it.
    fn tokens_of_definition(&self, column: &ColumnDef) -> Range<usize> {
        let start = self.lexemes.position_of(column.name.span).unwrap_or(0);
        let mut depth = 0_usize;
        for (at, lexeme) in self.lexemes.list.iter().enumerate().skip(start) {
            match lexeme.token.token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::Comma if depth == 0 => return start..at,
                Token::RParen | Token::RBracket => depth -= 1,
                _ => {}
            }
        }
        start..self.lexemes.list.len()
    }

    /// The definition of an encrypted column; whether its values are unique, and its default.
    fn column_definition(
        &mut self,
        column: &ColumnDef,
        table: &str,
        name: &str,
        encryption: &Arc<Encryption>,
        separator: &str,
    ) -> Result<(bool, Option<Constant>), SqlError> {
        let adds = separator != ", ";
        let tokens = self.tokens_of_definition(column);
        let kind = ColumnType::parse(&column.data_type.to_string());
        if !kind.is_some_and(|kind| kind.is_same(encryption.kind)) {
            let (label, is, said) = (&encryption.label, &column.data_type, encryption.kind.name());
            let message =
                format!("column {label} is declared as {said} in the schema file, and created as {is}");
            return Err(self.at(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message), tokens.start + 1));
        }
        let Constrained { required, unique, default, terms } =
            self.column_options(&column.options, (table, name), encryption, tokens.start)?;
        let null = if required { " NOT NULL" } else { "" };
        let mut pieces = vec![Piece::Text(format!("{} bytea{null}", quoted(name)))];
        // Rows that are there get what a moment is now.
        let form = default.as_ref().filter(|_| !adds).map(|default| kept_form(default, encryption));
        let form = form.unwrap_or_else(|| Form::Sealed(encryption.clone()));
        pieces.extend(self.default_clause(default.as_ref(), form)?);
        for term in encryption.terms() {
            let constraints = if term == Term::Equality { terms.as_str() } else { "" };
            let kind = term.kind(encryption);
            let column = quoted(&format!("{name}{}", term.suffix()));
            pieces.push(Piece::Text(format!("{separator}{column} {kind}{null}{constraints}")));
            if adds {
                // Rows that are there get the terms, too; those to come get theirs from the proxy.
                pieces.extend(self.default_clause(default.as_ref(), term_form(term, encryption))?);
            }
        }
        if adds && default.is_some() {
            self.check_added(encryption, tokens.start)?;
        }
        let bytes = self.bytes(&tokens);
        self.understand_tokens(tokens);
        self.edits.replace(bytes, pieces);
        Ok((unique, default))
    }

    /// What the options of an encrypted column ask of its terms; `place` is its table and name.
    fn column_options(
        &mut self,
        options: &[ColumnOptionDef],
        place: (&str, &str),
        encryption: &Arc<Encryption>,
        at: usize,
    ) -> Result<Constrained, SqlError> {
        let label = &encryption.label;
        let mut constrained = Constrained::default();
        for option in options {
            let named = match &option.name {
                Some(name) => format!(" CONSTRAINT {name}"),
                None => default_name(place.0, place.1, &option.option).unwrap_or_default(),
            };
            match &option.option {
                ColumnOption::Null | ColumnOption::Collation(_) => {}
                ColumnOption::Default(Expr::Value(value)) if value.value == sqlparser::ast::Value::Null => {}
                ColumnOption::Default(value) => {
                    constrained.default = Some(self.default_constant(value, encryption, at)?);
                }
                ColumnOption::NotNull => constrained.required = true,
                ColumnOption::PrimaryKey(_) | ColumnOption::Unique(_) if encryption.equality.is_none() => {
                    return Err(self.unsupported(
                        at,
                        format!("column {label} is encrypted without \"unique\""),
                        "Add \"unique\" to its operations in the schema file.",
                    ));
                }
                ColumnOption::PrimaryKey(_) => {
                    (constrained.required, constrained.unique) = (true, true);
                    constrained.terms.push_str(&format!("{named} PRIMARY KEY"));
                }
                ColumnOption::Unique(_) => {
                    constrained.unique = true;
                    constrained.terms.push_str(&format!("{named} UNIQUE"));
                }
                ColumnOption::ForeignKey(key) => {
                    let columns = self.referred(key, std::slice::from_ref(encryption), at)?;
                    let action = |event: &str, action: Option<ReferentialAction>| {
                        action.map(|action| format!(" ON {event} {action}")).unwrap_or_default()
                    };
                    let (delete, update) = (action("DELETE", key.on_delete), action("UPDATE", key.on_update));
                    let when = key.characteristics.map(|when| format!(" {when}")).unwrap_or_default();
                    let table = &key.foreign_table;
                    constrained
                        .terms
                        .push_str(&format!("{named} REFERENCES {table} ({columns}){delete}{update}{when}"));
                }
                other => {
                    return Err(self.unsupported(
                        at,
                        format!("column {label} is encrypted: it cannot have {other}, which the server would compute or check"),
                        "Leave it out: let the application set and check the value.",
                    ));
                }
            }
        }
        Ok(constrained)
    }

    /// The columns that a foreign key refers to, as terms.
    fn referred(
        &mut self,
        key: &ForeignKeyConstraint,
        columns: &[Arc<Encryption>],
        at: usize,
    ) -> Result<String, SqlError> {
        self.actions(key, at)?;
        let other = self.declared(&key.foreign_table)?.unwrap_or_default();
        let mut names = Vec::new();
        for (column, refers) in columns.iter().zip(&key.referred_columns) {
            let name = fold(&refers.value, refers.quote_style.is_some());
            match other.get(&name) {
                Some(found) if column.equality.is_some() && found.equality == column.equality => {
                    names.push(quoted(&format!("{name}{}", Term::Equality.suffix())));
                }
                Some(_) | None => {
                    return Err(self.unsupported(
                        at,
                        format!(
                            "column {} does not share a key with the column that it refers to",
                            column.label
                        ),
                        "Declare join = \"table.column\" in the schema file.",
                    ));
                }
            }
        }
        if names.len() != columns.len() {
            return Err(self.unsupported(
                at,
                "a foreign key of an encrypted column names the column that it refers to".into(),
                "Write REFERENCES table (column).",
            ));
        }
        Ok(names.join(", "))
    }

    pub(super) fn foreign_key(
        &mut self,
        key: &ForeignKeyConstraint,
        declared: &DeclaredColumns,
    ) -> Result<(), SqlError> {
        self.understand_name(&key.foreign_table);
        let found: Vec<Option<Arc<Encryption>>> = key
            .columns
            .iter()
            .map(|column| declared.get(&fold(&column.value, column.quote_style.is_some())).cloned())
            .collect();
        for (place, (column, encryption)) in key.columns.iter().zip(&found).enumerate() {
            let at = self.lexemes.position_of(column.span).unwrap_or(0);
            let Some(encryption) = encryption else {
                self.understand(column);
                continue;
            };
            let one = ForeignKeyConstraint {
                referred_columns: key.referred_columns.get(place).cloned().into_iter().collect(),
                ..key.clone()
            };
            let refers = self.referred(&one, std::slice::from_ref(encryption), at)?;
            self.replace_identifier(column, Term::Equality);
            if let Some(to) = key.referred_columns.get(place).and_then(|to| self.lexemes.position_of(to.span))
            {
                self.edits.replace(self.lexemes.bytes(to), vec![Piece::Text(refers)]);
            }
        }
        Ok(())
    }

    /// A column's name becomes its term's.
    fn replace_identifier(&mut self, identifier: &Ident, term: Term) {
        let name = fold(&identifier.value, identifier.quote_style.is_some());
        if let Some(at) = self.lexemes.position_of(identifier.span) {
            let text = quoted(&format!("{name}{}", term.suffix()));
            self.edits.replace(self.lexemes.bytes(at), vec![Piece::Text(text)]);
        }
    }

    pub(super) fn unique_columns(
        &mut self,
        columns: &[IndexColumn],
        declared: &DeclaredColumns,
    ) -> Result<(), SqlError> {
        for column in columns {
            let Some(identifier) = identifier_of(column) else { continue };
            match declared.get(&fold(&identifier.value, identifier.quote_style.is_some())) {
                None => self.understand(identifier),
                Some(encryption) if encryption.equality.is_some() => {
                    self.replace_identifier(identifier, Term::Equality);
                }
                Some(encryption) => {
                    let at = self.lexemes.position_of(identifier.span).unwrap_or(0);
                    return Err(self.unsupported(
                        at,
                        format!("column {} is encrypted without \"unique\"", encryption.label),
                        "Add \"unique\" to its operations in the schema file.",
                    ));
                }
            }
        }
        Ok(())
    }

    pub(super) fn alter_table(&mut self, alter: &AlterTable) -> Result<Beside, SqlError> {
        let Some(declared) = self.declared(&alter.name)? else {
            self.understand_name(&alter.name);
            self.plain_additions(&alter.operations)?;
            return Ok(Beside::default());
        };
        self.watch_relation(&relation_of([], &declared));
        let text = self.with_schema(&alter.name);
        let mut beside = Beside { twice: named_twice(&alter.operations), ..Beside::default() };
        for operation in &alter.operations {
            self.alter(operation, &declared, &text, &mut beside)?;
        }
        self.understand_name(&alter.name);
        Ok(beside)
    }

    /// `ALTER COLUMN c`: whether it may be NULL is the sealed value's; anything else is the schema file's.
    fn alter_column(
        &mut self,
        column: &Ident,
        encryption: &Arc<Encryption>,
        operation: &AlterColumnOperation,
    ) -> Result<(), SqlError> {
        match operation {
            AlterColumnOperation::DropNotNull => {
                self.drop_not_null(column, encryption);
                Ok(())
            }
            AlterColumnOperation::SetNotNull | AlterColumnOperation::DropDefault => {
                self.understand(column);
                Ok(())
            }
            AlterColumnOperation::SetDefault { value } => self.set_default(column, encryption, value),
            AlterColumnOperation::SetDataType { .. } | AlterColumnOperation::AddGenerated { .. } => Err(self
                .unsupported(
                    self.lexemes.position_of(column.span).unwrap_or(0),
                    format!("column {} is encrypted: its type is the schema file's", encryption.label),
                    "Add a column of another name and id, and copy the values in the application.",
                )),
        }
    }

    /// `ADD COLUMN` of an encrypted one, by its name and declaration.
    fn add_column(
        &mut self,
        definition: &ColumnDef,
        (name, encryption): (String, Arc<Encryption>),
        if_not_exists: bool,
        (table, beside): (&str, &mut Beside),
    ) -> Result<(), SqlError> {
        let separator = if if_not_exists { ", ADD COLUMN IF NOT EXISTS " } else { ", ADD COLUMN " };
        let (unique, default) =
            self.column_definition(definition, last_part(table), &name, &encryption, separator)?;
        self.beside_column(table, &name, &encryption, unique, beside);
        self.check_column(table, &name, &encryption, ((!if_not_exists).then_some(true), &mut *beside));
        if let Some(default) = default {
            self.check_later_default(&default, &encryption, beside.twice.contains(&name))?;
            beside.after.extend(terms_without_default(table, &name, &encryption));
            // That of a column which is there stays.
            if !self.catalog.has(encryption.id) {
                beside.after.extend(later_default(table, &name, &encryption, &default));
            }
        }
        Ok(())
    }

    /// `DROP COLUMN` of an encrypted one, by its name and declaration; its labels are forgotten before.
    pub(super) fn drop_declared(
        &mut self,
        identifier: &Ident,
        (name, encryption): (String, Arc<Encryption>),
        if_exists: bool,
        (table, beside): (&str, &mut Beside),
    ) {
        self.drop_column(identifier, &name, &encryption, if_exists);
        if encryption.labels().is_some() {
            beside.before.push(labels_in("mope_forget", table, &name, &encryption));
        }
    }

    fn alter(
        &mut self,
        operation: &AlterTableOperation,
        declared: &DeclaredColumns,
        table: &str,
        beside: &mut Beside,
    ) -> Result<(), SqlError> {
        let find = |identifier: &Ident| {
            let name = fold(&identifier.value, identifier.quote_style.is_some());
            declared.get(&name).map(|encryption| (name, encryption.clone()))
        };
        match operation {
            AlterTableOperation::AddColumn { column_def, if_not_exists, .. } => {
                match find(&column_def.name) {
                    None => self.understand(&column_def.name),
                    Some(column) => self.add_column(column_def, column, *if_not_exists, (table, beside))?,
                }
            }
            AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
                for identifier in column_names {
                    match find(identifier) {
                        Some(column) => {
                            self.drop_declared(identifier, column, *if_exists, (table, &mut *beside))
                        }
                        None => self.understand(identifier),
                    }
                }
            }
            AlterTableOperation::AlterColumn { column_name, op } => match find(column_name) {
                None => self.understand(column_name),
                Some((_, encryption)) => self.alter_column(column_name, &encryption, op)?,
            },
            AlterTableOperation::AddConstraint { constraint, .. } => {
                self.constraint(constraint, last_part(table), declared)?
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name }
                if find(old_column_name).is_none() && find(new_column_name).is_none() =>
            {
                self.understand(old_column_name);
                self.understand(new_column_name);
            }
            AlterTableOperation::OwnerTo { .. } => self.owner_to(),
            other if super::foreseen::leaves_columns(other) => self.keeps_watch(other, declared, table)?,
            other => {
                return Err(self.unsupported(
                    0,
                    format!("{} has encrypted columns: {other} is not rewritten", last_part(table)),
                    "Names of tables and declared columns are the schema file's; other forms are run at the database.",
                ));
            }
        }
        Ok(())
    }
}

/// A relation of columns that may be encrypted, for what is watched.
fn relation_of<'c>(columns: impl IntoIterator<Item = &'c Ident>, declared: &DeclaredColumns) -> Relation {
    let named = columns.into_iter().map(|column| fold(&column.value, column.quote_style.is_some()));
    let names: BTreeSet<String> = named.chain(declared.keys().cloned()).collect();
    let column = |name: String| RelationColumn {
        encryption: declared.get(&name).cloned(),
        name,
        terms: true,
        merged: false,
        kind: None,
    };
    Relation {
        name: None,
        schema: None,
        derived: false,
        certain: true,
        table: None,
        columns: Some(names.into_iter().map(column).collect()),
    }
}
