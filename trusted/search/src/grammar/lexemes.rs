//! A query cut into lexemes.

use super::{Mistake, QueryError};
use std::ops::Range;

/// A lexeme of a query.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind<'q> {
    Open,
    Close,
    And,
    Or,
    /// `NOT`, or a minus before what it denies.
    Not,
    Word(&'q str),
    Phrase(&'q str),
    /// A filter's name and what is behind its colon.
    Filter(&'q str, &'q str),
}

/// A lexeme and its place in bytes.
#[derive(Clone, Debug)]
pub(super) struct Lexeme<'q> {
    pub(super) kind: Kind<'q>,
    pub(super) place: Range<usize>,
}

/// Reads lexemes one after the other.
pub(super) struct Lexemes<'q> {
    query: &'q str,
    at: usize,
}

impl<'q> Lexemes<'q> {
    pub(super) fn new(query: &'q str) -> Self {
        Self { query, at: 0 }
    }

    /// The next one; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<Lexeme<'q>>, QueryError> {
        let rest = &self.query[self.at..];
        let start = self.at + (rest.len() - rest.trim_start().len());
        let rest = &self.query[start..];
        let Some(first) = rest.chars().next() else {
            self.at = self.query.len();
            return Ok(None);
        };
        let (kind, end) = match first {
            '(' => (Kind::Open, start + 1),
            ')' => (Kind::Close, start + 1),
            '"' => {
                let (words, end) = self.quoted(start)?;
                (Kind::Phrase(words), end)
            }
            '-' if rest[1..].chars().next().is_some_and(denied) => (Kind::Not, start + 1),
            _ => self.word_or_filter(start)?,
        };
        self.at = end;
        Ok(Some(Lexeme { kind, place: start..end }))
    }

    /// What stands in quotation marks that begin at a place, and the end behind them.
    fn quoted(&self, start: usize) -> Result<(&'q str, usize), QueryError> {
        let inside = &self.query[start + 1..];
        let Some(length) = inside.find('"') else {
            return Err(QueryError::new(self.query, start..start + 1, Mistake::UnclosedPhrase));
        };
        Ok((&inside[..length], start + length + 2))
    }

    fn word_or_filter(&self, start: usize) -> Result<(Kind<'q>, usize), QueryError> {
        let rest = &self.query[start..];
        let length = rest.find(ends_word).unwrap_or(rest.len());
        let (word, end) = (&rest[..length], start + length);
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
        if let Some((name, value)) = word.split_once(':').filter(|(name, _)| is_name(name)) {
            if value.is_empty() && self.query[end..].starts_with('"') {
                let (value, end) = self.quoted(end)?;
                return Ok((Kind::Filter(name, value), end));
            }
            return Ok((Kind::Filter(name, value), end));
        }
        let kind = match word {
            "AND" => Kind::And,
            "OR" => Kind::Or,
            "NOT" => Kind::Not,
            _ => Kind::Word(word),
        };
        Ok((kind, end))
    }
}

fn ends_word(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '(' | ')' | '"')
}

/// Whether a minus before this letter denies what begins with it.
fn denied(letter: char) -> bool {
    !letter.is_whitespace() && letter != ')'
}
