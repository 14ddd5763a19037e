//! Which tables a statement makes, changes or drops, by its tokens alone.

use crate::catalog::Tables;
use crate::text::{Lexemes, name_of};
use sqlparser::tokenizer::Token;
use std::collections::BTreeSet;

/// Words between the first and `TABLE` or `VIEW`.
const BETWEEN: [&str; 10] = [
    "or",
    "replace",
    "global",
    "local",
    "temp",
    "temporary",
    "unlogged",
    "recursive",
    "materialized",
    "foreign",
];
/// Words before a table's name.
const BEFORE_NAME: [&str; 5] = ["if", "not", "exists", "only", "table"];
/// Words between `INTO` and the name of a table that a query makes.
const BEHIND_INTO: [&str; 6] = ["temp", "temporary", "unlogged", "global", "local", "table"];

/// The tables that a statement makes, changes or drops: what their names mean behind it may be something else.
pub(super) fn tables(statement: &Lexemes) -> Tables {
    let is = |at: usize, words: &[&str]| words.iter().any(|word| statement.is_word(at, word));
    let has = |words: &[&str]| (1..statement.list.len()).any(|at| is(at, words));
    // Code, and what another transaction has prepared.
    let is_of_two_phases = is(0, &["prepare"]) && is(1, &["transaction"])
        || is(0, &["commit", "rollback"]) && is(1, &["prepared"]);
    if is(0, &["do"]) || is_of_two_phases || (is(0, &["explain"]) && has(&["create"])) {
        return Tables::All;
    }
    if is(0, &["select", "with", "explain"]) {
        return Tables::Of(made_by_query(statement));
    }
    if !is(0, &["create", "alter", "drop"]) {
        return Tables::default();
    }
    let what = (1..statement.list.len()).find(|at| !is(*at, &BETWEEN)).unwrap_or(1);
    if !is(what, &["table", "view"]) {
        // A schema's tables go with it, and a type's columns.
        let takes_along = || has(&["cascade"]) && !is(what, &["index", "sequence", "trigger"]);
        let goes_on = !is(0, &["create"]) && (is(what, &["schema", "owned"]) || takes_along());
        return if goes_on { Tables::All } else { Tables::default() };
    }
    let at = (what..statement.list.len()).find(|at| !is(*at, &BEFORE_NAME)).unwrap_or(what);
    let renames = is(0, &["alter"]) && has(&["rename", "schema"]);
    let names = match is(0, &["drop"]) || renames {
        true => words(statement, at..statement.list.len()).collect(),
        false => name_at(statement, at).into_iter().collect(),
    };
    Tables::Of(names)
}

/// What `SELECT INTO` makes, wherever it stands; `INSERT INTO` makes nothing.
fn made_by_query(statement: &Lexemes) -> BTreeSet<String> {
    let is = |at: usize, words: &[&str]| words.iter().any(|word| statement.is_word(at, word));
    let makes = |at: &usize| is(*at, &["into"]) && !is(at - 1, &["insert", "merge"]);
    let name = |at: usize| {
        let at = (at + 1..statement.list.len()).find(|at| !is(*at, &BEHIND_INTO))?;
        name_at(statement, at)
    };
    (1..statement.list.len()).filter(makes).filter_map(name).collect()
}

fn words(statement: &Lexemes, tokens: std::ops::Range<usize>) -> impl Iterator<Item = String> {
    tokens.filter_map(|at| match statement.token(at) {
        Some(Token::Word(word)) => Some(name_of(word)),
        _ => None,
    })
}

/// The last part of the name that begins at a token.
fn name_at(statement: &Lexemes, mut at: usize) -> Option<String> {
    while matches!(statement.token(at + 1), Some(Token::Period)) {
        at += 2;
    }
    words(statement, at..at + 1).next()
}
