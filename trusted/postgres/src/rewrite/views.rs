//! Where a statement that is no query names a view of encrypted columns, and where a word is only called as one.

use super::defined::{is_other_thing, mentions, word};
use super::mention::is_keyword;
use crate::catalog::Catalog;
use crate::text::Lexemes;
use sqlparser::ast::{CreateTable, ObjectName, Statement};
use sqlparser::tokenizer::Token;

/// Are the encrypted tables that a statement mentions all views?
pub(super) fn are_all(lexemes: &Lexemes, catalog: &Catalog) -> bool {
    mentions(lexemes, catalog).all(|(_, name)| catalog.is_only_view(&name))
}

/// Is what a statement mentions only called as views are: a schema, a trigger, a constraint?
pub(super) fn are_other_things(lexemes: &Lexemes, catalog: &Catalog) -> bool {
    let defines = ["create", "alter", "drop"].iter().any(|word| lexemes.is_word(0, word));
    let mut found = mentions(lexemes, catalog).peekable();
    let is_other = |(at, name): (usize, String)| catalog.is_only_view(&name) && is_other_thing(lexemes, at);
    defines && found.peek().is_some() && found.all(is_other)
}

/// Can a statement read no view at all: does it say which columns or indexes a table has?
pub(super) fn are_none_in(statement: &Statement) -> bool {
    match statement {
        Statement::CreateTable(CreateTable { query, like, inherits, partition_of, .. }) => {
            query.is_none() && like.is_none() && inherits.is_none() && partition_of.is_none()
        }
        Statement::AlterTable(_) | Statement::CreateIndex(_) => true,
        _ => false,
    }
}

/// The token at which a statement names a view that is not looked up as the relations of queries are; of one that is not understood
/// any word counts.
pub(super) fn read_by(statement: Option<&Statement>, lexemes: &Lexemes, catalog: &Catalog) -> Option<usize> {
    let is_view = |at: &usize| is_view(lexemes, catalog, *at);
    let in_name = |name: &ObjectName| {
        let last = name.0.last().and_then(|part| part.as_ident());
        last.and_then(|name| lexemes.position_of(name.span)).filter(is_view)
    };
    match statement {
        Some(
            Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Explain { .. }
            | Statement::Copy { .. }
            | Statement::CreateIndex(_),
        ) => None,
        Some(Statement::AlterTable(alter)) => in_name(&alter.name),
        Some(statement @ Statement::CreateTable(_)) if are_none_in(statement) => None,
        Some(Statement::CreateTable(table)) if table.query.is_some() && are_all(lexemes, catalog) => None,
        Some(Statement::CreateView(view)) if are_all(lexemes, catalog) => in_name(&view.name),
        Some(_) | None => (0..lexemes.list.len()).find(is_view),
    }
}

/// May a token be the name of a view of encrypted columns?
fn is_view(lexemes: &Lexemes, catalog: &Catalog, at: usize) -> bool {
    let before = at.checked_sub(2).filter(|_| matches!(lexemes.token(at - 1), Some(Token::Period)));
    let schema = before.and_then(|before| word(lexemes, before));
    let is_named = |name: String| {
        catalog.is_view(None, &name) || schema.is_some_and(|schema| catalog.is_view(Some(&schema), &name))
    };
    word(lexemes, at).is_some_and(is_named) && !is_keyword(lexemes, at)
}
