//! `SET (a, b) = (1, 2)`: columns that are set together.

use super::analysis::Analysis;
use super::comparison::rows::members_of_row;
use super::scope::{Relation, Scope};
use super::write::{listed, stored_names};
use crate::error::{SqlError, sqlstate};
use crate::plan::Piece;
use crate::text::fold;
use sqlparser::ast::{Expr, Ident, ObjectName};
use sqlparser::tokenizer::Token;
use std::ops::Range;

impl Analysis<'_> {
    /// Columns that are set to the members of a row: each column becomes those that it is, and so does its value.
    pub(super) fn assign_row(
        &mut self,
        columns: &[ObjectName],
        value: &Expr,
        relation: &Relation,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        let identifiers: Vec<&Ident> =
            columns.iter().filter_map(|name| name.0.last().and_then(|part| part.as_ident())).collect();
        let encrypted = identifiers.iter().find_map(|name| {
            Some((self.lexemes.position_of(name.span).unwrap_or(0), self.encryption_of(name, relation)?))
        });
        let Some((at, first)) = encrypted else {
            columns.iter().try_for_each(|name| self.plain_target(name, relation))?;
            return self.expression(value, scope, "SET");
        };
        let (Some(members), Some(tokens)) = (members_of_row(value), self.tokens_of_row(at)) else {
            return Err(self.unsupported(
                at,
                format!(
                    "column {} is encrypted: it is set with others to a row that is written out",
                    first.label
                ),
                "Write SET (a, b) = (1, 2), or set each column by itself.",
            ));
        };
        if members.len() != columns.len() || tokens.len() != columns.len() {
            let message = "number of columns does not match number of values";
            return Err(self.at(SqlError::new(sqlstate::SYNTAX_ERROR, message), at));
        }
        for ((identifier, name), (member, tokens)) in
            identifiers.into_iter().zip(columns).zip(members.into_iter().zip(tokens))
        {
            let Some(encryption) = self.encryption_of(identifier, relation) else {
                self.plain_target(name, relation)?;
                self.expression(member, scope, "SET")?;
                continue;
            };
            let at = self.lexemes.position_of(identifier.span).unwrap_or(0);
            let (texts, tokens) =
                self.assigned_texts((at, member, Some(tokens)), &encryption, relation, scope)?;
            let name = fold(&identifier.value, identifier.quote_style.is_some());
            let names = stored_names(&name, Some(&encryption)).join(", ");
            self.edits.replace(self.lexemes.bytes(at), vec![Piece::Text(names)]);
            let bytes = self.bytes(&tokens);
            self.understand_tokens(at..at + 1);
            self.understand_tokens(tokens);
            self.edits.replace(bytes, listed(texts));
        }
        Ok(())
    }

    /// The tokens of each member of the row that columns are set to; one of the columns is at that token.
    fn tokens_of_row(&self, column: usize) -> Option<Vec<Range<usize>>> {
        let close = (column..self.lexemes.list.len())
            .find(|at| matches!(self.lexemes.token(*at), Some(Token::RParen)))?;
        matches!(self.lexemes.token(close + 1), Some(Token::Eq)).then_some(())?;
        let open = if self.lexemes.is_word(close + 2, "row") { close + 3 } else { close + 2 };
        matches!(self.lexemes.token(open), Some(Token::LParen)).then_some(())?;
        let end = self.lexemes.after_parentheses(open)? - 1;
        Some(super::naming::parts(self.lexemes, open + 1..end))
    }
}
