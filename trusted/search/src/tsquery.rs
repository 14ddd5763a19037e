//! PostgreSQL's ways to write what a text is searched for, as its functions that make a `tsquery` read them.
//!
//! Words become keywords by the analysis of the texts. Those that say nothing go out of a query, and keep their places in what is
//! one behind the other; a query of which nothing is left finds nothing.

mod reader;
mod sequence;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use crate::analysis::Analyzer;
use crate::condition::Condition;
use crate::grammar::{DEPTH_MAX, PARTS_MAX, QUERY_BYTES_MAX};
use crate::language::Language;
use sequence::Sequence;

/// Why there is no condition for a query.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TsQueryError {
    /// It is no query. As PostgreSQL says it.
    #[error("syntax error in tsquery: \"{0}\"")]
    Syntax(String),
    /// Longer than [`QUERY_BYTES_MAX`].
    #[error("a search of {0} bytes; it may have {QUERY_BYTES_MAX}")]
    TooLong(usize),
    /// It has more than [`PARTS_MAX`] words.
    #[error("a search of more than {PARTS_MAX} words")]
    TooManyParts,
    /// It is nested deeper than [`DEPTH_MAX`].
    #[error("a search of more than {DEPTH_MAX} parentheses and ! one within another")]
    TooDeep,
    /// A part of PostgreSQL's grammar that the index does not serve.
    #[error("{0}")]
    Unsupported(&'static str),
}

/// Beginnings of words.
const PREFIX: &str = "words are kept whole: \":*\" finds none by its beginning";
/// Classes of words.
const WEIGHT: &str = "words are kept without weights: nothing is found by \":A\" and the like";
/// What is next to one another.
const NEAR: &str = "beside <-> words and phrases stand, and | between such; no & and !";
/// Too many ways to be next to one another.
const WAYS: &str = "beside <-> too much stands to choose from with |";
/// Sequences that what stands beside `<->` may come to.
const WAYS_MAX: usize = 64;

/// A query, as it is written.
enum Query {
    /// A word, or what one piece of text says: words one behind the other.
    Words(String),
    /// The second begins so many words behind the end of the first.
    Near(Box<Self>, u32, Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
}

/// `to_tsquery`. None: it finds nothing.
///
/// # Errors
/// [`TsQueryError`].
pub fn formula(text: &str, language: Language) -> Result<Option<Condition>, TsQueryError> {
    check_length(text)?;
    match reader::formula(text)? {
        None => Ok(None),
        Some(query) => Reading::new(language).condition(&query),
    }
}

/// `plainto_tsquery`: all words of a text.
///
/// # Errors
/// [`TsQueryError`].
pub fn all(text: &str, language: Language) -> Result<Option<Condition>, TsQueryError> {
    check_length(text)?;
    let mut reading = Reading::new(language);
    let words = reading.sequence(text);
    if words.words.len() > PARTS_MAX {
        return Err(TsQueryError::TooManyParts);
    }
    let keywords = words.words.into_iter().map(|(_, keyword)| Condition::Keyword(keyword));
    Ok(joined(keywords.collect(), Condition::All))
}

/// `phraseto_tsquery`: all words of a text, one behind the other.
///
/// # Errors
/// [`TsQueryError`].
pub fn phrase(text: &str, language: Language) -> Result<Option<Condition>, TsQueryError> {
    check_length(text)?;
    Ok(Reading::new(language).sequence(text).into_condition())
}

/// `websearch_to_tsquery`: no text is refused for its form.
///
/// # Errors
/// [`TsQueryError`], for its size alone.
pub fn web(text: &str, language: Language) -> Result<Option<Condition>, TsQueryError> {
    check_length(text)?;
    Reading::new(language).condition(&reader::web(text)?)
}

fn check_length(text: &str) -> Result<(), TsQueryError> {
    if text.len() > QUERY_BYTES_MAX { Err(TsQueryError::TooLong(text.len())) } else { Ok(()) }
}

/// Several conditions as one; none of none.
fn joined(mut parts: Vec<Condition>, join: fn(Vec<Condition>) -> Condition) -> Option<Condition> {
    if parts.len() < 2 { parts.pop() } else { Some(join(parts)) }
}

/// Words become keywords.
struct Reading(Analyzer);

impl Reading {
    fn new(language: Language) -> Self {
        Self(Analyzer::new(language))
    }

    /// The words of a piece of text, one behind the other.
    fn sequence(&mut self, text: &str) -> Sequence {
        let mut sequence = Sequence::default();
        for word in self.0.words(text) {
            sequence.width = word.position + 1;
            sequence.words.extend(word.keyword.map(|keyword| (word.position, keyword)));
        }
        sequence
    }

    fn condition(&mut self, query: &Query) -> Result<Option<Condition>, TsQueryError> {
        Ok(match query {
            Query::Words(text) => self.sequence(text).into_condition(),
            Query::Near(..) => {
                let ways = self.ways(query)?.into_iter().filter_map(Sequence::into_condition);
                joined(ways.collect(), Condition::Any)
            }
            Query::All(parts) => joined(self.conditions(parts)?, Condition::All),
            Query::Any(parts) => joined(self.conditions(parts)?, Condition::Any),
            Query::Not(part) => self.condition(part)?.map(|part| Condition::Not(Box::new(part))),
        })
    }

    fn conditions(&mut self, parts: &[Query]) -> Result<Vec<Condition>, TsQueryError> {
        let mut found = Vec::with_capacity(parts.len());
        for part in parts {
            found.extend(self.condition(part)?);
        }
        Ok(found)
    }

    /// The sequences of which one must be there.
    fn ways(&mut self, query: &Query) -> Result<Vec<Sequence>, TsQueryError> {
        match query {
            Query::Words(text) => Ok(vec![self.sequence(text)]),
            Query::Any(parts) => {
                let mut ways = Vec::new();
                for part in parts {
                    ways.extend(self.ways(part)?);
                }
                Ok(ways)
            }
            Query::Near(first, distance, second) => {
                let (first, second) = (self.ways(first)?, self.ways(second)?);
                if first.len() * second.len() > WAYS_MAX {
                    return Err(TsQueryError::Unsupported(WAYS));
                }
                let behind =
                    |one: &Sequence| second.iter().map(|next| one.then(*distance, next)).collect::<Vec<_>>();
                Ok(first.iter().flat_map(behind).collect())
            }
            Query::All(_) | Query::Not(_) => Err(TsQueryError::Unsupported(NEAR)),
        }
    }
}
