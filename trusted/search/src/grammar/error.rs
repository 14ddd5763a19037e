//! What is wrong with a query, and where.

use super::{DEPTH_MAX, PARTS_MAX, QUERY_BYTES_MAX};
use crate::formula::{Field, Number};
use std::fmt;
use std::ops::Range;

/// Letters of a long query that are shown on either side of a mistake.
const SHOWN: usize = 40;

/// A query that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QueryError {
    /// Where in the query, in bytes; on letters' boundaries.
    pub place: Range<usize>,
    /// What is wrong there.
    pub mistake: Mistake,
    /// How many letters are before the place.
    before: usize,
}

/// What is wrong with a query.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Mistake {
    /// There is nothing.
    #[error("the query is empty")]
    Empty,
    /// It is longer than [`QUERY_BYTES_MAX`].
    #[error("the query has {0} bytes; it may have {QUERY_BYTES_MAX}")]
    TooLong(usize),
    /// It is nested deeper than [`DEPTH_MAX`].
    #[error("more than {DEPTH_MAX} parentheses and NOTs one within another")]
    TooDeep,
    /// It has more parts than [`PARTS_MAX`].
    #[error("more than {PARTS_MAX} words, phrases and filters")]
    TooManyParts,
    /// A phrase has no end.
    #[error("this quotation mark is never closed")]
    UnclosedPhrase,
    /// A parenthesis has no end.
    #[error("this parenthesis is never closed")]
    UnclosedParenthesis,
    /// A parenthesis ends that never began.
    #[error("there is no parenthesis to close here")]
    UnopenedParenthesis,
    /// An operator has nothing to work on.
    #[error("expected a word, a \"phrase\", a filter or a parenthesis {0}")]
    MissingPart(&'static str),
    /// A filter that there is not.
    #[error("there is no filter {0}:; there is {list} (a word with a colon goes in quotation marks)", list = filters())]
    UnknownFilter(String),
    /// A filter without what to filter by.
    #[error("nothing behind {0}:")]
    EmptyFilter(&'static str),
    /// No range of dates.
    #[error(
        "{0:?} is no date and no range of dates: write 2001, 2001-05, 2001-05-31, 2001-01..2001-06, >=2001-05 or <2001"
    )]
    NoDate(String),
    /// No range of sizes.
    #[error("{0:?} is no size and no range of sizes: write 500, >10k, <=2M, 10k..1G")]
    NoSize(String),
    /// A range that ends before it begins.
    #[error("this range ends before it begins")]
    Backwards,
}

fn filters() -> String {
    let names =
        Field::ALL.iter().map(|field| field.name()).chain(Number::ALL.iter().map(|number| number.name()));
    names.map(|name| format!("{name}:")).collect::<Vec<_>>().join(" ")
}

impl QueryError {
    pub(super) fn new(query: &str, place: Range<usize>, mistake: Mistake) -> Self {
        let before = query[..place.start].chars().count();
        Self { place, mistake, before }
    }

    /// The query around the place, and a line below it that points there; empty for a query that is none or too long.
    #[must_use]
    pub fn pointer(&self, query: &str) -> String {
        let (Some(start), Some(here), Some(end)) =
            (query.get(..self.place.start), query.get(self.place.clone()), query.get(self.place.end..))
        else {
            return String::new();
        };
        if query.trim().is_empty() || matches!(self.mistake, Mistake::TooLong(_)) {
            return String::new();
        }
        // One line, whatever the query has of white space and control characters.
        let plain =
            |text: &str| text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect::<String>();
        let skipped = start.chars().count().saturating_sub(SHOWN);
        let start = plain(&start.chars().skip(skipped).collect::<String>());
        let here: String = plain(&here.chars().take(SHOWN).collect::<String>());
        let end = plain(&end.chars().take(SHOWN).collect::<String>());
        let marks = "^".repeat(here.chars().count().max(1));
        let blank = " ".repeat(start.chars().count());
        format!("{start}{here}{end}\n{blank}{marks}")
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mistake {
            Mistake::Empty | Mistake::TooLong(_) => self.mistake.fmt(formatter),
            Mistake::TooDeep
            | Mistake::TooManyParts
            | Mistake::UnclosedPhrase
            | Mistake::UnclosedParenthesis
            | Mistake::UnopenedParenthesis
            | Mistake::MissingPart(_)
            | Mistake::UnknownFilter(_)
            | Mistake::EmptyFilter(_)
            | Mistake::NoDate(_)
            | Mistake::NoSize(_)
            | Mistake::Backwards => write!(formatter, "column {}: {}", self.before + 1, self.mistake),
        }
    }
}

impl std::error::Error for QueryError {}
