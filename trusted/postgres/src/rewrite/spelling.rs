//! A statement's tokens as the parser knows them, where it does not know how PostgreSQL spells something. They keep their places:
//! what is replaced is the client's text.

use super::mention::is_reserved;
use crate::text::Lexemes;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::Range;

/// First words of statements in which `TABLE t` may be a query.
const WITH_QUERIES: [&str; 12] = [
    "table", "select", "with", "values", "insert", "update", "delete", "merge", "explain", "copy", "create",
    "declare",
];
/// Words before `TABLE` where it is no query.
const BEFORE_NAMES: [&str; 9] =
    ["create", "into", "temp", "temporary", "local", "global", "unlogged", "foreign", "external"];

/// Words that may follow `TABLE t` where it is a query.
const BEHIND_QUERIES: [&str; 11] =
    ["order", "limit", "offset", "fetch", "for", "union", "intersect", "except", "on", "returning", "with"];
/// Words that begin a clause of a query, or of what changes rows.
const CLAUSES: [&str; 16] = [
    "select",
    "from",
    "where",
    "group",
    "having",
    "window",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    "set",
    "values",
    "returning",
    "union",
    "into",
];

/// The tokens for the parser: without `ONLY` before a table, which it takes for the table, `*` behind one, the finer locks (`FOR NO
/// KEY UPDATE`, `FOR KEY SHARE`), what says whether the ends of `BETWEEN` have an order, and the condition of the index that a conflict
/// is of; `TABLE t` is `SELECT * FROM t`.
pub(super) fn for_parser(lexemes: &Lexemes) -> Vec<TokenWithSpan> {
    let mut tokens = Vec::with_capacity(lexemes.list.len());
    let conditions: Vec<_> =
        (0..lexemes.list.len()).filter_map(|at| condition_of_conflict(lexemes, at)).collect();
    for (at, token) in lexemes.tokens().into_iter().enumerate() {
        if is_table_query(lexemes, at) {
            let same = |other: Token| TokenWithSpan { token: other, span: token.span };
            tokens.extend([Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")].map(same));
        } else if !(is_only(lexemes, at)
            || is_of_lock(lexemes, at)
            || is_of_between(lexemes, at)
            || is_of_heirs(lexemes, at)
            || conditions.iter().any(|tokens| tokens.contains(&at)))
        {
            tokens.push(token);
        }
    }
    tokens
}

/// The tokens from `WHERE` on of `ON CONFLICT (...) WHERE ... DO`, whose parenthesis opens at a token.
pub(super) fn condition_of_conflict(lexemes: &Lexemes, open: usize) -> Option<Range<usize>> {
    let is_conflict = lexemes.is_word(open.checked_sub(1)?, "conflict")
        && lexemes.is_word(open.checked_sub(2)?, "on")
        && matches!(lexemes.token(open), Some(Token::LParen));
    is_conflict.then_some(())?;
    let start = lexemes.after_parentheses(open)?;
    lexemes.is_word(start, "where").then_some(())?;
    let mut depth = 0_usize;
    for at in start..lexemes.list.len() {
        match lexemes.token(at) {
            Some(Token::LParen | Token::LBracket) => depth += 1,
            Some(Token::RParen | Token::RBracket) => depth = depth.checked_sub(1)?,
            _ if depth == 0 && lexemes.is_word(at, "do") => return Some(start..at),
            _ => {}
        }
    }
    None
}

/// Does `*` behind a table say that those which inherit from it are meant, too?
fn is_of_heirs(lexemes: &Lexemes, at: usize) -> bool {
    if !matches!(lexemes.token(at), Some(Token::Mul)) {
        return false;
    }
    let Some(mut start) = at.checked_sub(1) else { return false };
    let is_name = matches!(lexemes.token(start), Some(Token::Word(_))) && !is_reserved(lexemes, start);
    while start >= 2 && matches!(lexemes.token(start - 1), Some(Token::Period)) {
        start -= 2;
    }
    is_name && start.checked_sub(1).is_some_and(|before| names_relation(lexemes, before))
}

/// Does a relation's name follow a token: behind `FROM`, `JOIN`, `UPDATE`, `TABLE`, or a comma between relations?
pub(super) fn names_relation(lexemes: &Lexemes, before: usize) -> bool {
    let is = |word: &str| lexemes.is_word(before, word);
    match lexemes.token(before) {
        Some(Token::Comma) => clause(lexemes, before).is_some_and(|at| reads_from(lexemes, at)),
        Some(Token::Word(_)) => {
            is("join")
                || is("update")
                || (is("table") && is_table_query(lexemes, before))
                || (is("from") && reads_from(lexemes, before))
        }
        _ => false,
    }
}

/// Is it the `FROM` of a query or a `DELETE`, not of `IS DISTINCT FROM` or `extract(day FROM ...)`?
pub(super) fn reads_from(lexemes: &Lexemes, at: usize) -> bool {
    let is = |at: usize, words: &[&str]| words.iter().any(|word| lexemes.is_word(at, word));
    let of_clause = || clause(lexemes, at).is_some_and(|before| is(before, &["select", "set"]));
    let Some(before) = at.checked_sub(1) else { return false };
    is(at, &["from"]) && !is(before, &["distinct"]) && (is(before, &["delete"]) || of_clause())
}

/// The word that begins the clause which a token is in, before it and in the same parentheses.
fn clause(lexemes: &Lexemes, at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for before in (0..at).rev() {
        match lexemes.token(before) {
            Some(Token::RParen | Token::RBracket) => depth += 1,
            Some(Token::LParen | Token::LBracket) => depth = depth.checked_sub(1)?,
            Some(Token::Word(_)) if depth == 0 => {
                let is_comparison = lexemes.is_word(before, "from")
                    && before.checked_sub(1).is_some_and(|at| lexemes.is_word(at, "distinct"));
                if !is_comparison && CLAUSES.iter().any(|word| lexemes.is_word(before, word)) {
                    return Some(before);
                }
            }
            _ => {}
        }
    }
    None
}

/// Is it `TABLE` where that begins a query?
pub(super) fn is_table_query(lexemes: &Lexemes, at: usize) -> bool {
    let is = |at: usize, words: &[&str]| words.iter().any(|word| lexemes.is_word(at, word));
    let is_name = |at: usize| matches!(lexemes.token(at), Some(Token::Word(_))) && !is_reserved(lexemes, at);
    let begins = is(0, &WITH_QUERIES) || matches!(lexemes.token(0), Some(Token::LParen));
    let follows = at.checked_sub(1).is_none_or(|before| {
        let is_sign = !matches!(lexemes.token(before), Some(Token::Word(_) | Token::LParen | Token::RParen));
        !is(before, &BEFORE_NAMES) && !is_sign
    });
    let name = if is(at + 1, &["only"]) { at + 2 } else { at + 1 };
    begins && follows && is(at, &["table"]) && is_name(name) && ends_as_query(lexemes, name)
}

/// Is nothing behind `TABLE t` that only a list of relations has?
fn ends_as_query(lexemes: &Lexemes, mut name: usize) -> bool {
    while matches!(lexemes.token(name + 1), Some(Token::Period)) {
        name += 2;
    }
    let behind = if matches!(lexemes.token(name + 1), Some(Token::Mul)) { name + 2 } else { name + 1 };
    match lexemes.token(behind) {
        None | Some(Token::RParen) => true,
        Some(_) => BEHIND_QUERIES.iter().any(|word| lexemes.is_word(behind, word)),
    }
}

/// Does it say of `BETWEEN` that its ends may stand in either order?
pub(in crate::rewrite) fn is_symmetric(lexemes: &Lexemes, at: usize) -> bool {
    lexemes.is_word(at, "symmetric") && is_of_between(lexemes, at)
}

fn is_of_between(lexemes: &Lexemes, at: usize) -> bool {
    let is_behind = at.checked_sub(1).is_some_and(|before| lexemes.is_word(before, "between"));
    is_behind && (lexemes.is_word(at, "symmetric") || lexemes.is_word(at, "asymmetric"))
}

fn is_of_lock(lexemes: &Lexemes, at: usize) -> bool {
    let is = |at: usize, word: &str| lexemes.is_word(at, word);
    let behind = |count: usize, word: &str| at.checked_sub(count).is_some_and(|at| is(at, word));
    let no_key = |at: usize| is(at, "no") && is(at + 1, "key") && is(at + 2, "update");
    (behind(1, "for") && (no_key(at) || (is(at, "key") && is(at + 1, "share"))))
        || (behind(2, "for") && at.checked_sub(1).is_some_and(no_key))
}

fn is_only(lexemes: &Lexemes, at: usize) -> bool {
    let follows = at.checked_sub(1).is_some_and(|before| {
        matches!(lexemes.token(before), Some(Token::Comma))
            || ["from", "join", "using", "update"].iter().any(|word| lexemes.is_word(before, word))
            || is_table_query(lexemes, before)
    });
    follows && lexemes.is_word(at, "only") && matches!(lexemes.token(at + 1), Some(Token::Word(_)))
}
