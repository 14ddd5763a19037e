//! Errors as PostgreSQL tells them: SQLSTATE, message, detail, hint, position.

use arras_service::words::WordsError;
use arras_service::{Blame, ServiceError};

/// An error for the client, in the fields of PostgreSQL's `ErrorResponse`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    /// Five characters: PostgreSQL's own code for the situation.
    pub sqlstate: &'static str,
    /// One line.
    pub message: String,
    /// Why, if that takes another line.
    pub detail: Option<Box<str>>,
    /// What to write or do instead.
    pub hint: Option<Box<str>>,
    /// Where in the client's text: characters from 1.
    pub position: Option<usize>,
    /// In the course of what: a row of `COPY`.
    pub context: Option<Box<str>>,
    /// The database has failed the transaction by it already.
    pub has_failed: bool,
}

/// PostgreSQL's codes that the rewriting answers with.
pub mod sqlstate {
    /// The statement asks for what an encrypted column cannot do.
    pub const FEATURE_NOT_SUPPORTED: &str = "0A000";
    /// The text is no statement.
    pub const SYNTAX_ERROR: &str = "42601";
    /// A column that the table has not.
    pub const UNDEFINED_COLUMN: &str = "42703";
    /// A name that more than one column has.
    pub const AMBIGUOUS_COLUMN: &str = "42702";
    /// The schema file and the table do not fit one another.
    pub const INVALID_TABLE_DEFINITION: &str = "42P16";
    /// A value of the wrong type.
    pub const DATATYPE_MISMATCH: &str = "42804";
    /// `undefined_function`, of an operator, too
    pub const UNDEFINED_FUNCTION: &str = "42883";
    /// A relation is not there.
    pub const UNDEFINED_TABLE: &str = "42P01";
    /// A parameter that the statement does not say the type of, or that the client did not bind.
    pub const UNDEFINED_PARAMETER: &str = "42P02";
    /// Not a value of the type, as text.
    pub const INVALID_TEXT_REPRESENTATION: &str = "22P02";
    /// Not a value of the type, as binary.
    pub const INVALID_BINARY_REPRESENTATION: &str = "22P03";
    /// A number that the type does not hold.
    pub const NUMERIC_VALUE_OUT_OF_RANGE: &str = "22003";
    /// A text longer than the type allows.
    pub const STRING_DATA_RIGHT_TRUNCATION: &str = "22001";
    /// Not a date.
    pub const INVALID_DATETIME_FORMAT: &str = "22007";
    /// A date that no calendar has, or that the type does not hold.
    pub const DATETIME_FIELD_OVERFLOW: &str = "22008";
    /// A row of `COPY` that is none.
    pub const BAD_COPY_FILE_FORMAT: &str = "22P04";
    /// A byte that no text holds.
    pub const CHARACTER_NOT_IN_REPERTOIRE: &str = "22021";
    /// Division by zero.
    pub const DIVISION_BY_ZERO: &str = "22012";
    /// NULL where there must be a value.
    pub const NOT_NULL_VIOLATION: &str = "23502";
    /// More than a statement may have.
    pub const PROGRAM_LIMIT_EXCEEDED: &str = "54000";
    /// Too much of a statement to analyse.
    pub const STATEMENT_TOO_COMPLEX: &str = "54001";
    /// What the server stores is not what was stored there.
    pub const DATA_CORRUPTED: &str = "XX001";
    /// A value that the database did not take.
    pub const INVALID_PARAMETER_VALUE: &str = "22023";
    /// What was read has changed meanwhile: the transaction may be tried again.
    pub const SERIALIZATION_FAILURE: &str = "40001";
    /// What is asked for is not in the state for it yet.
    pub const NOT_IN_PREREQUISITE_STATE: &str = "55000";
    /// Nobody has the right to.
    pub const INSUFFICIENT_PRIVILEGE: &str = "42501";
    /// Not enough memory or disk.
    pub const INSUFFICIENT_RESOURCES: &str = "53000";
    /// The database cannot be reached.
    pub const CONNECTION_FAILURE: &str = "08006";
    /// Another transaction waits for this one, and this one for it.
    pub const DEADLOCK_DETECTED: &str = "40P01";
    /// Others have locked it.
    pub const LOCK_NOT_AVAILABLE: &str = "55P03";
    /// The transaction has failed, and waits for its end.
    pub const IN_FAILED_TRANSACTION: &str = "25P02";
    /// Ended from outside.
    pub const QUERY_CANCELED: &str = "57014";
    /// The proxy failed.
    pub const INTERNAL_ERROR: &str = "XX000";
}

impl SqlError {
    /// An error with a message only.
    #[must_use]
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> Self {
        let (detail, hint, position, context, has_failed) = (None, None, None, None, false);
        Self { sqlstate, message: message.into(), detail, hint, position, context, has_failed }
    }

    /// The error with a detail.
    #[must_use]
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into().into()), ..self }
    }

    /// The error in the course of something, if it is not in another's already.
    #[must_use]
    pub fn context(self, context: impl FnOnce() -> String) -> Self {
        let context = self.context.or_else(|| Some(context().into()));
        Self { context, ..self }
    }

    /// The error with a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into().into()), ..self }
    }

    /// The error at a byte of the client's text, if it is not at one already.
    #[must_use]
    pub fn at(self, text: &str, byte: usize) -> Self {
        let position = self.position.or_else(|| text.get(..byte).map(|before| before.chars().count() + 1));
        Self { position, ..self }
    }
}

impl From<WordsError> for SqlError {
    fn from(error: WordsError) -> Self {
        let said = error.to_string();
        match error {
            WordsError::Syntax(_) => Self::new(sqlstate::SYNTAX_ERROR, said),
            WordsError::Unsupported(_) => Self::new(sqlstate::FEATURE_NOT_SUPPORTED, said),
            WordsError::TooMany(_) => {
                Self::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, said).hint("Look for more words.")
            }
            WordsError::NotReady(_) => {
                Self::new(sqlstate::NOT_IN_PREREQUISITE_STATE, said).hint("Try again.")
            }
            WordsError::Service(error) => error.into(),
        }
    }
}

impl From<ServiceError> for SqlError {
    fn from(error: ServiceError) -> Self {
        let sqlstate = match error.fault.blame() {
            Blame::Request => sqlstate::INVALID_PARAMETER_VALUE,
            Blame::Data => sqlstate::SERIALIZATION_FAILURE,
            Blame::Resources => sqlstate::INSUFFICIENT_RESOURCES,
            Blame::Connection => sqlstate::CONNECTION_FAILURE,
            Blame::Server => sqlstate::DATA_CORRUPTED,
            Blame::Proxy => sqlstate::INTERNAL_ERROR,
            Blame::Nobody => sqlstate::QUERY_CANCELED,
        };
        Self::new(sqlstate, error.message)
    }
}
