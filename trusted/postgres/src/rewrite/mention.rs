//! Whether a statement can touch anything encrypted at all, by its tokens alone.

use crate::catalog::Catalog;
use crate::text::{Lexemes, name_of};
use sqlparser::tokenizer::Token;
use std::collections::BTreeSet;

/// Names whose tokens make a statement one to analyse.
pub(super) struct Sensitive {
    /// Tables with encrypted columns, there or declared.
    tables: BTreeSet<String>,
}

impl Sensitive {
    pub(super) fn new(catalog: &Catalog) -> Self {
        let there = catalog.tables().filter(|table| table.is_encrypted()).map(|table| table.name.clone());
        let declared = catalog.schema().tables.keys().map(|(_, name)| name.clone());
        Self { tables: there.chain(declared).collect() }
    }

    /// Quickly, from the text: can any of its tokens be one of the names? A name in the middle of another word says yes,
    /// too; a name spelt in escapes is not looked for, so every such spelling says yes.
    pub(super) fn may_be_in(&self, text: &str) -> bool {
        if self.tables.is_empty() {
            return false;
        }
        let folded = text.to_lowercase();
        folded.contains("u&\"") || self.tables.iter().any(|name| folded.contains(&name.to_lowercase()))
    }

    /// The first token that mentions an encrypted table, or what may be one. A name inside a string in dollars counts: the
    /// string may be the body of a function or a block.
    pub(super) fn mention(&self, statement: &Lexemes) -> Option<usize> {
        let escaped = |at: usize| {
            statement.is_word(at, "u")
                && matches!(statement.token(at + 1), Some(Token::Ampersand))
                && matches!(statement.token(at + 2), Some(Token::Word(word)) if word.quote_style.is_some())
                && statement.bytes(at).end == statement.bytes(at + 1).start
        };
        statement.list.iter().enumerate().position(|(at, lexeme)| match &lexeme.token.token {
            Token::Word(word) => self.tables.contains(&name_of(word)) || escaped(at),
            Token::DollarQuotedString(string) => self.may_be_in(&string.value),
            _ => false,
        })
    }
}
