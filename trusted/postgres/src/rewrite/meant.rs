//! Which tables statements mean that read no column: of a declared table's name the declared one, as everywhere, whatever stands before it in
//! the server's search path.

use super::analysis::Analysis;
use crate::catalog::{Catalog, Table};
use crate::error::SqlError;
use crate::plan::Action;
use crate::text::{Lexemes, fold, name_of, quoted};
use sqlparser::ast::ObjectName;
use sqlparser::tokenizer::Token;

/// First words of statements that lock, empty or drop tables.
const OF_TABLES: [&[&str]; 3] = [&["truncate"], &["lock"], &["drop", "table"]];
/// Words that a table's name follows there.
const BEFORE: [&str; 5] = ["truncate", "lock", "table", "only", "exists"];

/// Plans a statement that reads no column's value.
///
/// # Errors
/// A table's name is declared in several schemas.
pub(super) fn plan(text: &str, lexemes: &Lexemes, catalog: &Catalog) -> Result<Action, SqlError> {
    let begins = |words: &&[&str]| words.iter().enumerate().all(|(at, word)| lexemes.is_word(at, word));
    if !OF_TABLES.iter().any(begins) {
        return Ok(Action::Unchanged);
    }
    let mut analysis = Analysis::new(text, lexemes, catalog);
    for at in (1..lexemes.list.len()).filter(|at| is_bare_name(lexemes, *at)) {
        let Some(Token::Word(word)) = lexemes.token(at) else { continue };
        let name = name_of(word);
        if catalog.is_ambiguous(&name) {
            return Err(analysis.declared_twice(&name, at));
        }
        if let Some(table) = declared(catalog, &name) {
            analysis.edits.insert_once(lexemes.bytes(at).start, format!("{}.", quoted(&table.schema)));
        }
    }
    if analysis.edits.is_empty() {
        return Ok(Action::Unchanged);
    }
    analysis.edits.check(text, lexemes)?;
    let pieces = analysis.edits.pieces(text, lexemes.span())?;
    Ok(Action::Rewritten(analysis.rewritten(pieces)))
}

/// Is it a table's name without its schema?
fn is_bare_name(lexemes: &Lexemes, at: usize) -> bool {
    let is_behind = |before: usize| {
        let is_only = || before.checked_sub(1).is_some_and(|only| lexemes.is_word(only, "only"));
        matches!(lexemes.token(before), Some(Token::Comma))
            || BEFORE.iter().any(|word| lexemes.is_word(before, word))
            || (matches!(lexemes.token(before), Some(Token::LParen)) && is_only())
    };
    let has_schema = matches!(lexemes.token(at + 1), Some(Token::Period));
    let is_other = BEFORE.iter().any(|word| lexemes.is_word(at, word))
        || (lexemes.is_word(at, "if") && lexemes.is_word(at + 1, "exists"));
    !has_schema && !is_other && at.checked_sub(1).is_some_and(is_behind)
}

/// The declared table of a name, if it is there.
fn declared<'c>(catalog: &'c Catalog, name: &str) -> Option<&'c Table> {
    let mut keys = catalog.schema().tables.keys().filter(|(_, table)| table == name);
    keys.find_map(|(schema, table)| catalog.table(Some(schema), table)).map(|table| &**table)
}

impl Analysis<'_> {
    /// The name of a declared table with its schema, which is written before it, too.
    pub(super) fn with_schema(&mut self, name: &ObjectName) -> String {
        let text = name.to_string();
        let [part] = &name.0[..] else { return text };
        let Some(identifier) = part.as_ident() else { return text };
        let folded = fold(&identifier.value, identifier.quote_style.is_some());
        let Some(table) = declared(self.catalog, &folded) else { return text };
        let before = format!("{}.", quoted(&table.schema));
        if let Some(at) = self.lexemes.position_of(identifier.span) {
            self.edits.insert_once(self.lexemes.bytes(at).start, before.clone());
        }
        format!("{before}{text}")
    }
}
