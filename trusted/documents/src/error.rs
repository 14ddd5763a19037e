//! The one error of this crate: what MongoDB would have answered, with its code and wording.

use std::fmt;

/// A query, update or document that MongoDB's rules refuse. The caller (the application) is to blame, except
/// for the two limits (292 memory, 17419/10334 size), which blame the amount of data.
///
/// The message may quote values of the application's own documents, as MongoDB's does: it goes back to the
/// application and must not be logged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct QueryError {
    /// MongoDB's numeric error code.
    pub code: i32,
    /// MongoDB's name of the code; `Location<code>` for codes without a name.
    pub code_name: &'static str,
    /// What is wrong, in MongoDB's wording where it has one.
    pub message: String,
}

/// A rule of the language, by what MongoDB calls the breaking of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// MongoDB's number.
    pub code: i32,
    /// MongoDB's name of the number.
    pub code_name: &'static str,
}

impl QueryError {
    /// The rule that was broken.
    #[must_use]
    pub fn rule(&self) -> Rule {
        Rule { code: self.code, code_name: self.code_name }
    }

    /// An error by its parts.
    pub fn new(code: i32, code_name: &'static str, message: impl Into<String>) -> Self {
        QueryError { code, code_name, message: message.into() }
    }

    pub(crate) fn bad_value(message: impl Into<String>) -> Self {
        Self::new(2, "BadValue", message)
    }

    pub(crate) fn failed_to_parse(message: impl Into<String>) -> Self {
        Self::new(9, "FailedToParse", message)
    }

    pub(crate) fn type_mismatch(message: impl Into<String>) -> Self {
        Self::new(14, "TypeMismatch", message)
    }

    /// What does not fit memory cannot be put on the disk.
    pub fn no_disk(why: impl fmt::Display) -> Self {
        Self::new(
            14031,
            "OutOfDiskSpace",
            format!("what does not fit memory cannot be put on the disk: {why}"),
        )
    }

    /// A number, or a length, that is too large.
    pub fn overflow(message: impl Into<String>) -> Self {
        Self::new(15, "Overflow", message)
    }

    pub(crate) fn invalid_bson(message: impl Into<String>) -> Self {
        Self::new(22, "InvalidBSON", message)
    }

    pub(crate) fn path_not_viable(message: impl Into<String>) -> Self {
        Self::new(28, "PathNotViable", message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(40, "ConflictingUpdateOperators", message)
    }

    pub(crate) fn immutable(message: impl Into<String>) -> Self {
        Self::new(66, "ImmutableField", message)
    }

    pub(crate) fn conversion(message: impl Into<String>) -> Self {
        Self::new(241, "ConversionFailure", message)
    }

    pub(crate) fn memory(message: impl Into<String>) -> Self {
        Self::new(292, "QueryExceededMemoryLimitNoDiskUseAllowed", message)
    }

    /// A construct MongoDB has and Arras has not.
    pub(crate) fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(238, "NotImplemented", format!("Arras does not support {what}"))
    }
}

/// `location!(16020, "...", arguments)`: an error whose code MongoDB has given no name.
macro_rules! location {
    ($code:literal, $($message:tt)+) => {
        $crate::QueryError::new($code, concat!("Location", $code), format!($($message)+))
    };
}
pub(crate) use location;
