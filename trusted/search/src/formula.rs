//! What a query says, as it was written: words, phrases, fields and ranges under AND, OR and NOT.
//!
//! A [`Formula`] prints as a query that reads as the same formula.

use std::fmt;

/// A boolean formula over words as they were written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Formula {
    /// The document has the word.
    Word(String),
    /// It has the words in this order, one behind the other.
    Phrase(String),
    /// A field of it has the words, one behind the other.
    Field(Field, String),
    /// A number of it is in a range.
    Range(Range),
    /// All of these hold.
    All(Vec<Self>),
    /// One of these holds.
    Any(Vec<Self>),
    /// This does not hold.
    Not(Box<Self>),
}

/// A part of a document that a query may name.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Field {
    /// Names and addresses that a message is copied to.
    Cc,
    /// Names and addresses that a message is from.
    From,
    /// The folders and the name of a document.
    Path,
    /// What a message is about.
    Subject,
    /// Names and addresses that a message is to.
    To,
    /// What a document is: `mail`, or how its file's name ends.
    Type,
}

/// A number of a document that a query may compare.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Number {
    /// When a message was sent or a file changed last: seconds since 1970, UTC.
    Date,
    /// Bytes.
    Size,
}

/// Numbers from one to another, both of them with it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Range {
    /// Which number.
    pub number: Number,
    /// The smallest; any if there is none.
    pub at_least: Option<i64>,
    /// The largest; any if there is none.
    pub at_most: Option<i64>,
}

impl Field {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::ALL.len();
    /// Every field, in the order of their names.
    pub const ALL: [Self; 6] = [Self::Cc, Self::From, Self::Path, Self::Subject, Self::To, Self::Type];

    /// What a query calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cc => "cc",
            Self::From => "from",
            Self::Path => "path",
            Self::Subject => "subject",
            Self::To => "to",
            Self::Type => "type",
        }
    }

    /// Whether it is written in the language of the text; the others are names, in which every word says something.
    #[must_use]
    pub fn is_prose(self) -> bool {
        match self {
            Self::Subject => true,
            Self::Cc | Self::From | Self::Path | Self::To | Self::Type => false,
        }
    }
}

impl Number {
    /// Every number, in the order of their names.
    pub const ALL: [Self; 2] = [Self::Date, Self::Size];

    /// What a query calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::Size => "size",
        }
    }
}

/// How tightly what is printed binds: what binds less goes in parentheses.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum Binding {
    Any,
    All,
    Not,
}

impl Formula {
    fn binding(&self) -> Binding {
        match self {
            Self::Any(_) => Binding::Any,
            Self::All(_) => Binding::All,
            Self::Not(_) | Self::Word(_) | Self::Phrase(_) | Self::Field(..) | Self::Range(_) => Binding::Not,
        }
    }
}

fn joined(parts: &[Formula], word: &str, inside: Binding, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            formatter.write_str(word)?;
        }
        if part.binding() <= inside {
            write!(formatter, "({part})")?;
        } else {
            write!(formatter, "{part}")?;
        }
    }
    Ok(())
}

impl fmt::Display for Formula {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => formatter.write_str(word),
            Self::Phrase(words) => write!(formatter, "\"{words}\""),
            Self::Field(field, words) => write!(formatter, "{}:\"{words}\"", field.name()),
            Self::Range(range) => range.fmt(formatter),
            Self::All(parts) => joined(parts, " AND ", Binding::All, formatter),
            Self::Any(parts) => joined(parts, " OR ", Binding::Any, formatter),
            Self::Not(part) if part.binding() < Binding::Not => write!(formatter, "NOT ({part})"),
            Self::Not(part) => write!(formatter, "NOT {part}"),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let print = |value: Option<i64>| match (value, self.number) {
            (None, _) => String::new(),
            (Some(value), Number::Size) => value.to_string(),
            (Some(seconds), Number::Date) => crate::grammar::print_time(seconds),
        };
        write!(formatter, "{}:{}..{}", self.number.name(), print(self.at_least), print(self.at_most))
    }
}
