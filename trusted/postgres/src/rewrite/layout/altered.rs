//! `ALTER TABLE`: what of it concerns a column's terms.

use super::DeclaredColumns;
use crate::catalog::Encryption;
use crate::error::SqlError;
use crate::plan::Piece;
use crate::rewrite::analysis::Analysis;
use crate::rewrite::term::Term;
use crate::text::{fold, quoted};
use sqlparser::ast::{AlterTableOperation, Ident};

impl Analysis<'_> {
    /// `DROP COLUMN c`: its terms go, too.
    pub(super) fn drop_column(
        &mut self,
        identifier: &Ident,
        name: &str,
        encryption: &Encryption,
        if_exists: bool,
    ) {
        let Some(at) = self.lexemes.position_of(identifier.span) else { return };
        let exists = if if_exists { "IF EXISTS " } else { "" };
        // Equality terms last: what follows in the text (CASCADE) is about keys that refer to them.
        let mut names = vec![quoted(name)];
        for term in [Term::Text, Term::Order, Term::Equality].into_iter().filter(|term| encryption.has(*term))
        {
            names.push(quoted(&format!("{name}{}", term.suffix())));
        }
        let names = names.join(&format!(", DROP COLUMN {exists}"));
        self.edits.replace(self.lexemes.bytes(at), vec![Piece::Text(names)]);
    }

    /// That it leaves the triggers of a table's labels as they are: `DISABLE TRIGGER` would switch off what notices rows that are written
    /// past the proxy, and `ENABLE TRIGGER` has it off on a replica.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn keeps_watch(
        &self,
        operation: &AlterTableOperation,
        declared: &DeclaredColumns,
        table: &str,
    ) -> Result<(), SqlError> {
        let (AlterTableOperation::DisableTrigger { name } | AlterTableOperation::EnableTrigger { name }) =
            operation
        else {
            return Ok(());
        };
        let named = fold(&name.value, name.quote_style.is_some());
        let are_many = name.quote_style.is_none() && ["all", "user"].contains(&named.as_str());
        let Some(labelled) = declared.values().find(|encryption| encryption.labels().is_some()) else {
            return Ok(());
        };
        if !are_many && !named.starts_with("arras_order_") {
            return Ok(());
        }
        let message = format!(
            "{} has labels of column {}, which triggers of the proxy's watch: {operation} is not for them",
            super::last_part(table),
            labelled.label
        );
        let at = self.lexemes.position_of(name.span).unwrap_or(0);
        Err(self.unsupported(at, message, "Name the application's own triggers, one by one."))
    }

    /// `OWNER TO`: the word is no column, whatever columns are called.
    pub(super) fn owner_to(&mut self) {
        let is_word = |at: &usize| self.lexemes.is_word(*at, "owner") && self.lexemes.is_word(at + 1, "to");
        if let Some(at) = (0..self.lexemes.list.len()).find(is_word) {
            self.understand_tokens(at..at + 1);
        }
    }

    /// `ALTER COLUMN c DROP NOT NULL`: its terms were made so as it was.
    pub(super) fn drop_not_null(&mut self, column: &Ident, encryption: &Encryption) {
        let Some(at) = self.lexemes.position_of(column.span) else { return };
        let name = fold(&column.value, column.quote_style.is_some());
        let terms = encryption.terms().map(|term| quoted(&format!("{name}{}", term.suffix())));
        let names: Vec<String> = std::iter::once(quoted(&name)).chain(terms).collect();
        // What follows in the text is the last one's.
        let names = names.join(" DROP NOT NULL, ALTER COLUMN ");
        self.edits.replace(self.lexemes.bytes(at), vec![Piece::Text(names)]);
    }
}
