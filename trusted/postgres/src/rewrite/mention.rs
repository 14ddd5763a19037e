//! Whether a statement can touch anything encrypted at all, by its tokens alone.

use crate::text::{Lexemes, name_of};
use sqlparser::tokenizer::Token;
use std::collections::BTreeSet;

/// Names whose tokens make a statement one to analyse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sensitive {
    /// Tables with encrypted columns, there or declared.
    tables: BTreeSet<String>,
    /// The same in small letters, to be looked for in a text.
    folded: BTreeSet<String>,
}

impl Sensitive {
    pub(crate) fn new(tables: impl IntoIterator<Item = String>) -> Self {
        let tables: BTreeSet<String> = tables.into_iter().collect();
        let folded = tables.iter().map(|name| name.to_lowercase()).collect();
        Self { tables, folded }
    }

    /// Is it the name of an encrypted table?
    pub(super) fn holds(&self, name: &str) -> bool {
        self.tables.contains(name)
    }

    /// Quickly, from the text: can any of its tokens be one of the names, or, where the catalogue
    /// is shown otherwise, a name of it? A name in the middle
    /// of another word says yes, too; a name spelt in escapes is not looked for, so every such spelling says yes.
    pub(super) fn may_be_in(&self, text: &str, is_shown: bool) -> bool {
        if self.tables.is_empty() {
            return false;
        }
        let folded = text.to_lowercase();
        self.may_name(&folded) || (is_shown && super::shown::may_be_in(&folded))
    }

    /// May a text in small letters name an encrypted table?
    fn may_name(&self, folded: &str) -> bool {
        folded.contains("u&\"") || self.folded.iter().any(|name| folded.contains(name))
    }

    /// The first token that mentions an encrypted table, or what may be one. A name inside a string in dollars counts: the
    /// string may be the body of a function or a block.
    pub(super) fn mention(&self, statement: &Lexemes) -> Option<usize> {
        statement.list.iter().enumerate().position(|(at, lexeme)| match &lexeme.token.token {
            Token::Word(word) => self.tables.contains(&name_of(word)) || is_escaped(statement, at),
            Token::DollarQuotedString(string) => self.may_name(&string.value.to_lowercase()),
            _ => false,
        })
    }
}

/// Does an identifier in Unicode escapes (`U&"..."`) begin at a token? The tokens of it are others than PostgreSQL's.
pub(super) fn is_escaped(statement: &Lexemes, at: usize) -> bool {
    statement.is_word(at, "u")
        && matches!(statement.token(at + 1), Some(Token::Ampersand))
        && matches!(statement.token(at + 2), Some(Token::Word(word)) if word.quote_style.is_some())
        && statement.bytes(at).end == statement.bytes(at + 1).start
}
