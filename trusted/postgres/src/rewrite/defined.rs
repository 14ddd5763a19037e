//! Statements that define something: names in them that are called as encrypted tables are and mean something else, and queries that
//! the database keeps.

use super::analysis::Analysis;
use super::mention::is_keyword;
use super::select::Mode;
use super::views;
use crate::catalog::Catalog;
use crate::error::{SqlError, sqlstate};
use crate::text::{Lexemes, name_of};
use sqlparser::ast::{ObjectName, Query, Statement};
use sqlparser::tokenizer::Token;

/// Words before the name of what is no relation.
const OTHER_THINGS: [&str; 17] = [
    "schema",
    "trigger",
    "column",
    "constraint",
    "index",
    "policy",
    "rule",
    "role",
    "user",
    "sequence",
    "domain",
    "extension",
    "database",
    "language",
    "publication",
    "subscription",
    "server",
];

/// Words before a column's name, where a table's columns, constraints or indexes are defined.
const BEFORE_COLUMNS: [&str; 14] = [
    "column",
    "constraint",
    "add",
    "drop",
    "alter",
    "rename",
    "and",
    "or",
    "not",
    "case",
    "when",
    "then",
    "else",
    "by",
];

/// What cannot be made of an encrypted table: the words that it begins with, and what it is.
const MADE_OF_TABLES: [(&[&str], &str); 9] = [
    (&["create", "trigger"], "a trigger"),
    (&["create", "constraint", "trigger"], "a trigger"),
    (&["create", "or", "replace", "trigger"], "a trigger"),
    (&["create", "rule"], "a rule"),
    (&["create", "or", "replace", "rule"], "a rule"),
    (&["create", "policy"], "a policy"),
    (&["alter", "policy"], "a policy"),
    (&["create", "statistics"], "statistics"),
    (&["create", "domain"], "a domain"),
];

/// What keeps a query, or its rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptBy {
    /// The query.
    View,
    /// Its rows.
    Table,
}

pub(super) fn word(lexemes: &Lexemes, at: usize) -> Option<String> {
    match lexemes.token(at) {
        Some(Token::Word(word)) => Some(name_of(word)),
        _ => None,
    }
}

fn is_one_of(lexemes: &Lexemes, at: usize, words: &[&str]) -> bool {
    words.iter().any(|word| lexemes.is_word(at, word))
}

/// The tokens that are names of encrypted tables, or of views of them.
pub(super) fn mentions<'a>(
    lexemes: &'a Lexemes,
    catalog: &'a Catalog,
) -> impl Iterator<Item = (usize, String)> + 'a {
    let named =
        |at: usize| word(lexemes, at).filter(|name| catalog.sensitive().holds(name)).map(|name| (at, name));
    (0..lexemes.list.len()).filter_map(named).filter(|(at, _)| !is_keyword(lexemes, *at))
}

/// Is what a statement that defines something mentions only called as encrypted tables are: a schema, a role, a column, a table of
/// another schema?
pub(super) fn means_no_relation(statement: Option<&Statement>, lexemes: &Lexemes, catalog: &Catalog) -> bool {
    let lists_columns = statement.is_some_and(views::are_none_in);
    let is_other = |(at, name): (usize, String)| {
        let is_qualifier = matches!(lexemes.token(at + 1), Some(Token::Period));
        is_of_other_schema(lexemes, catalog, (at, &name))
            || !is_qualifier && is_other_thing(lexemes, at)
            || !is_qualifier && lists_columns && is_column(lexemes, at)
    };
    // What a query names is looked up as a query's names are.
    let has_query = matches!(statement, Some(Statement::CreateView(_)))
        || matches!(statement, Some(Statement::CreateTable(table)) if table.query.is_some());
    let mut found = mentions(lexemes, catalog).peekable();
    is_one_of(lexemes, 0, &["create", "alter", "drop"])
        && !has_query
        && !becomes_declared(lexemes, catalog)
        && found.peek().is_some()
        && found.all(is_other)
}

/// Does a word before a name say that it is no relation's?
pub(super) fn is_other_thing(lexemes: &Lexemes, at: usize) -> bool {
    let passed = |at: &usize| is_one_of(lexemes, *at, &["if", "not", "exists"]);
    let before = (0..at).rev().find(|at| !passed(at));
    before.is_some_and(|before| is_one_of(lexemes, before, &OTHER_THINGS))
}

/// Is it qualified with a schema that has no encrypted table of the name, and no view of one?
fn is_of_other_schema(lexemes: &Lexemes, catalog: &Catalog, (at, name): (usize, &str)) -> bool {
    let qualifier = at.checked_sub(2).filter(|_| matches!(lexemes.token(at - 1), Some(Token::Period)));
    let Some(schema) = qualifier.and_then(|qualifier| word(lexemes, qualifier)) else { return false };
    let is_there = catalog.table(Some(&schema), name).is_some_and(|table| !table.is_encrypted());
    let is_declared = catalog.schema().tables.contains_key(&(schema.clone(), name.to_owned()));
    is_there && !is_declared && !catalog.is_view(Some(&schema), name) && catalog.misfit(name).is_none()
}

/// Is a table moved to a schema in which one of its name is declared?
fn becomes_declared(lexemes: &Lexemes, catalog: &Catalog) -> bool {
    let moves = |at: &usize| lexemes.is_word(*at, "set") && lexemes.is_word(at + 1, "schema");
    let moved_to = (1..lexemes.list.len()).rfind(moves).and_then(|at| word(lexemes, at + 2));
    let is_declared =
        |schema: &String, name: String| catalog.schema().tables.contains_key(&(schema.clone(), name));
    moved_to.is_some_and(|schema| mentions(lexemes, catalog).any(|(_, name)| is_declared(&schema, name)))
}

/// Can a name only be a column's, or a constraint's, where a table's columns are listed?
fn is_column(lexemes: &Lexemes, at: usize) -> bool {
    let passed = |at: &usize| is_one_of(lexemes, *at, &["if", "not", "exists"]);
    let Some(before) = (0..at).rev().find(|at| !passed(at)) else { return false };
    match lexemes.token(before) {
        Some(Token::Word(_)) => {
            // `RENAME COLUMN a TO b` and `OWNER TO b`, not `RENAME TO b`.
            let renames = || before.checked_sub(1).is_some_and(|at| lexemes.is_word(at, "rename"));
            is_one_of(lexemes, before, &BEFORE_COLUMNS) || (lexemes.is_word(before, "to") && !renames())
        }
        Some(Token::Period | Token::DoubleColon) | None => false,
        Some(_) => true,
    }
}

impl Analysis<'_> {
    /// The query of a view, or of a table that is made of one: it reads nothing encrypted.
    pub(super) fn kept_query(
        &mut self,
        query: &Query,
        name: &ObjectName,
        by: KeptBy,
    ) -> Result<(), SqlError> {
        if self.declared(name)?.is_some() || self.hides_declared(name) {
            let at = name.0.first().and_then(|part| part.as_ident());
            let at = at.and_then(|name| self.lexemes.position_of(name.span)).unwrap_or(0);
            let message =
                format!("{name} is declared with encrypted columns: it is created with its own list of them");
            return Err(self.unsupported(at, message, "Write CREATE TABLE with the columns."));
        }
        let read = self.query(query, None, Mode::Plain);
        // A view goes on reading what a star stood for when it was made.
        let listed = self.listed.take().filter(|_| by == KeptBy::View);
        let reader = match by {
            KeptBy::View => "a view",
            KeptBy::Table => "a table that is made of it",
        };
        if let Some((label, at)) = self.met.take().or(listed) {
            let message = format!("column {label} is encrypted: {reader} cannot read it");
            return Err(self.unsupported(
                at,
                message,
                &format!("Leave {label} out, or let the application run the query itself."),
            ));
        }
        read?;
        self.understand_name(name);
        Ok(())
    }

    /// That something cannot be made of a table whose name stands at a token, if the statement would make such a thing.
    pub(super) fn not_made_of(&self, at: usize) -> Option<SqlError> {
        let begins =
            |words: &[&str]| words.iter().enumerate().all(|(at, word)| self.lexemes.is_word(at, word));
        let (_, made) = MADE_OF_TABLES.iter().find(|(words, _)| begins(words))?;
        let name = self.text.get(self.lexemes.bytes(at)).unwrap_or_default();
        let message = format!("{name} has encrypted columns: {made} of it would meet ciphertext");
        let error = SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
            .detail("The server holds ciphertext, and there are no keys there.")
            .hint("Let the application do it, with statements of its own.");
        Some(self.at(error, at))
    }
}
