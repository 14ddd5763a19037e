//! `ALTER TABLE`: what of it concerns a column's terms.

use super::{Beside, labels_in};
use crate::catalog::Encryption;
use crate::plan::Piece;
use crate::rewrite::analysis::Analysis;
use crate::text::{fold, quoted};
use sqlparser::ast::Ident;
use std::sync::Arc;

impl Analysis<'_> {
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

    /// `OWNER TO`: the word is no column, whatever columns are called.
    pub(super) fn owner_to(&mut self) {
        let is_word = |at: &usize| self.lexemes.is_word(*at, "owner") && self.lexemes.is_word(at + 1, "to");
        if let Some(at) = (0..self.lexemes.list.len()).find(is_word) {
            self.understand_tokens(at..at + 1);
        }
    }

    /// `ALTER COLUMN c DROP NOT NULL`: its terms were made so as it was.
    pub(super) fn drop_not_null(&mut self, column: &Ident, encryption: &Encryption) {
        let Some(at) = self.lexemes.index_of(column.span) else { return };
        let name = fold(&column.value, column.quote_style.is_some());
        let terms = encryption.terms().map(|term| quoted(&format!("{name}{}", term.suffix())));
        let names: Vec<String> = std::iter::once(quoted(&name)).chain(terms).collect();
        // What follows in the text is the last one's.
        let names = names.join(" DROP NOT NULL, ALTER COLUMN ");
        self.edits.replace(self.lexemes.bytes(at), vec![Piece::Text(names)]);
    }
}
