//! Constraints of a table on encrypted columns: they are on the terms, under the names that they have without.

use super::analysis::Analysis;
use super::layout::DeclaredColumns;
use crate::error::SqlError;
use crate::text::{fold, quoted};
use sqlparser::ast::{
    AlterTableOperation, ColumnDef, ColumnOption, Expr, ForeignKeyConstraint, Ident, IndexColumn, ObjectName,
    ReferentialAction, TableConstraint,
};

/// The column that an index or a constraint is on; none if it is on an expression.
pub(super) fn identifier_of(column: &IndexColumn) -> Option<&Ident> {
    match &column.column.expr {
        Expr::Identifier(identifier) => Some(identifier),
        _ => None,
    }
}

/// Bytes of the longest name.
const NAME_BYTES: usize = 63;

/// The name that PostgreSQL makes of a table's, its columns' and a label: the longer of the first two is cut until it fits.
pub(super) fn object_name(table: &str, columns: &str, label: &str) -> String {
    let room = NAME_BYTES.saturating_sub(label.len() + 2);
    let (mut first, mut second) = (table.len(), columns.len());
    while first + second > room {
        *(if first > second { &mut first } else { &mut second }) -= 1;
    }
    let cut = |text: &str, bytes: usize| {
        let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.get(..end).unwrap_or_default().to_owned()
    };
    format!("{}_{}_{label}", cut(table, first), cut(columns, second))
}

/// The name that PostgreSQL would give a constraint.
pub(super) fn name_of_constraint(table: &str, columns: &[&str], kind: &str) -> String {
    format!(" CONSTRAINT {}", quoted(&object_name(table, &columns.join("_"), kind)))
}

/// The last part of a name.
pub(super) fn last_identifier(name: &ObjectName) -> Option<&Ident> {
    name.0.last().and_then(|part| part.as_ident())
}

/// Is it a class of operators by which an index is in the order of texts' bytes, without a schema? So is an encrypted
/// column's order: the class says nothing more. Mappers make such indexes beside unique texts, for LIKE.
pub(super) fn by_bytes(class: &ObjectName) -> bool {
    let classes = ["text_pattern_ops", "varchar_pattern_ops", "bpchar_pattern_ops"];
    class.0.len() == 1
        && last_identifier(class).is_some_and(|name| classes.contains(&name.value.to_lowercase().as_str()))
}

impl Analysis<'_> {
    /// What a table without encrypted columns refers to: of one that has some, columns that are none.
    pub(super) fn plain_references(
        &mut self,
        columns: &[ColumnDef],
        constraints: &[TableConstraint],
    ) -> Result<(), SqlError> {
        for option in columns.iter().flat_map(|column| &column.options) {
            if let ColumnOption::ForeignKey(key) = &option.option {
                self.plain_reference(key)?;
            }
        }
        for constraint in constraints {
            if let TableConstraint::ForeignKey(key) = constraint {
                self.plain_reference(key)?;
            }
        }
        Ok(())
    }

    /// The same of what `ALTER TABLE` adds.
    pub(super) fn plain_additions(&mut self, operations: &[AlterTableOperation]) -> Result<(), SqlError> {
        operations.iter().try_for_each(|operation| match operation {
            AlterTableOperation::AddColumn { column_def, .. } => {
                self.plain_references(std::slice::from_ref(column_def), &[])
            }
            AlterTableOperation::AddConstraint { constraint, .. } => {
                self.plain_references(&[], std::slice::from_ref(constraint))
            }
            _ => Ok(()),
        })
    }

    fn plain_reference(&mut self, key: &ForeignKeyConstraint) -> Result<(), SqlError> {
        let Some(declared) = self.declared(&key.foreign_table)? else { return Ok(()) };
        for column in &key.referred_columns {
            if let Some(of) = declared.get(&fold(&column.value, column.quote_style.is_some())) {
                return Err(self.unsupported(
                    self.lexemes.position_of(column.span).unwrap_or(0),
                    format!("column {} is encrypted, and a plain column does not refer to it", of.label),
                    "Declare the column that refers to it, with join = \"table.column\".",
                ));
            }
            self.understand(column);
        }
        self.understand_name(&key.foreign_table);
        Ok(())
    }

    pub(super) fn constraint(
        &mut self,
        constraint: &TableConstraint,
        table: &str,
        declared: &DeclaredColumns,
    ) -> Result<(), SqlError> {
        let is_encrypted =
            |column: &&Ident| declared.contains_key(&fold(&column.value, column.quote_style.is_some()));
        match constraint {
            TableConstraint::Unique(unique) => {
                let columns: Vec<&Ident> = unique.columns.iter().filter_map(identifier_of).collect();
                if unique.name.is_none() && columns.iter().any(is_encrypted) {
                    self.name_constraint(table, &columns, "unique", "key");
                }
                self.unique_columns(&unique.columns, declared)
            }
            TableConstraint::PrimaryKey(key) => self.unique_columns(&key.columns, declared),
            TableConstraint::ForeignKey(key) => {
                let columns: Vec<&Ident> = key.columns.iter().collect();
                if key.name.is_none() && columns.iter().any(is_encrypted) {
                    self.name_constraint(table, &columns, "foreign", "fkey");
                }
                self.foreign_key(key, declared)
            }
            // A check of an encrypted column stays not understood.
            TableConstraint::Check(_) | TableConstraint::Index(_) => Ok(()),
            _ => Ok(()),
        }
    }

    /// What the server would do to the terms alone, and not to the sealed value that they are of, is refused.
    pub(super) fn actions(&self, key: &ForeignKeyConstraint, at: usize) -> Result<(), SqlError> {
        for (event, action) in [("DELETE", key.on_delete), ("UPDATE", key.on_update)] {
            let (Some(action), is_update) = (action, event == "UPDATE") else { continue };
            match action {
                ReferentialAction::NoAction | ReferentialAction::Restrict => {}
                ReferentialAction::Cascade if !is_update => {}
                ReferentialAction::Cascade | ReferentialAction::SetNull | ReferentialAction::SetDefault => {
                    let what = format!(
                        "a foreign key of an encrypted column cannot have ON {event} {action}: the server would have to \
                         write the column"
                    );
                    return Err(self.unsupported(at, what, "Let the application write the referring rows."));
                }
            }
        }
        Ok(())
    }

    /// A constraint of a table on encrypted columns, without a name, has the one that it had without the terms.
    fn name_constraint(&mut self, table: &str, columns: &[&Ident], word: &str, kind: &str) {
        let names: Vec<String> =
            columns.iter().map(|column| fold(&column.value, column.quote_style.is_some())).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let first = columns.first().and_then(|column| self.lexemes.position_of(column.span));
        let start = first.and_then(|first| (0..first).rev().find(|at| self.lexemes.is_word(*at, word)));
        if let Some(start) = start {
            let name = name_of_constraint(table, &names, kind);
            self.edits.insert(self.lexemes.bytes(start).start, format!("{} ", name.trim_start()));
        }
    }
}
