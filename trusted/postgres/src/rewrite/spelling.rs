//! A statement's tokens as the parser knows them, where it does not know how PostgreSQL spells something. They keep their places:
//! what is replaced is the client's text.

use super::mention::is_reserved;
use crate::text::Lexemes;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// First words of statements in which `TABLE t` may be a query.
const WITH_QUERIES: [&str; 12] = [
    "table", "select", "with", "values", "insert", "update", "delete", "merge", "explain", "copy", "create",
    "declare",
];
/// Words before `TABLE` where it is no query.
const BEFORE_NAMES: [&str; 9] =
    ["create", "into", "temp", "temporary", "local", "global", "unlogged", "foreign", "external"];

/// The tokens for the parser: without `ONLY` before a table, which it takes for the table, the finer locks (`FOR NO KEY UPDATE`,
/// `FOR KEY SHARE`) and what says whether the ends of `BETWEEN` have an order; `TABLE t` is `SELECT * FROM t`.
pub(super) fn for_parser(lexemes: &Lexemes) -> Vec<TokenWithSpan> {
    let mut tokens = Vec::with_capacity(lexemes.list.len());
    for (at, token) in lexemes.tokens().into_iter().enumerate() {
        if is_table_query(lexemes, at) {
            let same = |other: Token| TokenWithSpan { token: other, span: token.span };
            tokens.extend([Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")].map(same));
        } else if !(is_only(lexemes, at) || is_of_lock(lexemes, at) || is_of_between(lexemes, at)) {
            tokens.push(token);
        }
    }
    tokens
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
    begins && follows && is(at, &["table"]) && (is_name(at + 1) || (is(at + 1, &["only"]) && is_name(at + 2)))
}

/// Does it say of `BETWEEN` that its ends may stand in either order?
pub(super) fn is_symmetric(lexemes: &Lexemes, at: usize) -> bool {
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
