//! What a front end for SQL asks of the words of one column's texts, which are kept apart from the database.
//!
//! A text has a name of its own, random bytes that are stored with it. What is kept of a name never changes; which names there
//! are the database says. So what is entered for a statement that then fails is found by nobody, and no result depends on when
//! entries of texts that are gone are removed.

use crate::ServiceError;
use std::future::Future;
use std::pin::Pin;

/// A text's name.
pub type TextName = [u8; 16];

/// What something that concerns words comes to.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, WordsError>> + Send + 'a>>;

/// A form that a search for words is written in: PostgreSQL's functions that make a `tsquery` of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordQuery {
    /// `to_tsquery`: words with `&`, `|`, `!`, `<->` and parentheses.
    Formula,
    /// `plainto_tsquery`: all words of a text.
    All,
    /// `phraseto_tsquery`: all words of a text, one behind the other.
    Phrase,
    /// `websearch_to_tsquery`: words, phrases in quotes, `or`, and `-` before what is not to be there.
    Web,
}

/// Which texts are asked for: those that a query finds, or all others that are known. What is stored between the search and the
/// statement is among neither, so that who denies the one by the other misses it, and takes it for nothing that it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that the query finds.
    Found,
    /// Those that it does not.
    Others,
}

/// Texts that a search may find: so many names are in one message.
pub const FOUND_MAX: usize = 1_000_000;

/// Why words are not found, or not entered.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WordsError {
    /// The query cannot be read.
    #[error("{0}")]
    Syntax(String),
    /// It can, and what it asks for cannot be looked for.
    #[error("{0}")]
    Unsupported(String),
    /// They are not all there now; it may be tried again.
    #[error("{0}")]
    NotReady(String),
    /// More are found than can be told.
    #[error("{0}")]
    TooMany(String),
    /// What keeps them cannot be asked.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// The words of one column's texts, as statements use them.
pub trait Words: Send + Sync {
    /// Enters texts, durably, each under a new name; in the order given, what the statement that then stores them carries for the
    /// name. It is good for a while.
    fn enter(&self, texts: Vec<String>) -> Answer<'_, Vec<Vec<u8>>>;

    /// The names of the texts, stored or not, that a query finds, or of all others.
    fn find<'a>(&'a self, query: &'a str, written: WordQuery, which: Which) -> Answer<'a, Vec<TextName>>;

    /// Whether a query finds a text without a word.
    ///
    /// # Errors
    /// The query cannot be read.
    fn finds_nothing_said(&self, query: &str, written: WordQuery) -> Result<bool, WordsError>;
}

/// What keeps the words of one column's texts.
pub trait WordStore: Send + Sync {
    /// Of how texts become words: what was entered under another is of no use.
    fn fingerprint(&self) -> [u8; 8];

    /// Enters texts, durably; again where one of the name is there.
    fn enter(&self, texts: Vec<(TextName, String)>) -> Answer<'_, ()>;

    /// The names of the texts that a query finds, or of all others; one more than [`FOUND_MAX`] at most.
    fn find<'a>(&'a self, query: &'a str, written: WordQuery, which: Which) -> Answer<'a, Vec<TextName>>;

    /// Whether a query finds a text without a word.
    ///
    /// # Errors
    /// The query cannot be read.
    fn finds_nothing_said(&self, query: &str, written: WordQuery) -> Result<bool, WordsError>;

    /// All names.
    fn all(&self) -> Answer<'_, Vec<TextName>>;

    /// Removes what is kept of names.
    fn retire(&self, names: Vec<TextName>) -> Answer<'_, ()>;
}
