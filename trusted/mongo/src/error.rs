//! Errors a command answers with: MongoDB's code, its name and one line of text.

use crate::answer::Answer;
use arras_documents::QueryError;
use arras_planner::store::StoreError;
use bson::{Bson, Document, doc};

/// What a command answers: its reply without `ok`, or an error.
pub(crate) type CommandResult = Result<Document, CommandError>;

/// What a command answers that may hand out documents of a cursor.
pub(crate) type AnswerResult = Result<Answer, CommandError>;

/// An error in MongoDB's form.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CommandError {
    /// MongoDB's code.
    pub(crate) code: i32,
    /// Its name.
    pub(crate) code_name: &'static str,
    /// What went wrong and, where there is one, the fix.
    pub(crate) message: String,
    /// Further fields of the error document, such as `keyPattern` and `keyValue`.
    pub(crate) details: Option<Box<Document>>,
}

impl CommandError {
    pub(crate) fn new(code: i32, code_name: &'static str, message: impl Into<String>) -> Self {
        Self { code, code_name, message: message.into(), details: None }
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

    pub(crate) fn invalid_namespace(message: impl Into<String>) -> Self {
        Self::new(73, "InvalidNamespace", message)
    }

    /// A part of MongoDB's language that is understood and refused, because leaving it out would change what
    /// the command means.
    pub(crate) fn unsupported(what: impl std::fmt::Display) -> Self {
        Self::new(238, "NotImplemented", format!("Arras does not support {what}"))
    }

    /// The reply to a command that failed.
    pub(crate) fn to_reply(&self) -> Document {
        let mut reply = doc! {
            "ok": 0.0,
            "errmsg": self.message.as_str(),
            "code": self.code,
            "codeName": self.code_name,
        };
        reply.extend(self.further_fields());
        reply
    }

    fn further_fields(&self) -> Document {
        self.details.as_deref().cloned().unwrap_or_default()
    }

    /// The element of `writeErrors` for the statement at `index`.
    pub(crate) fn to_write_error(&self, index: usize) -> Bson {
        let mut error = doc! { "index": index_of(index), "code": self.code };
        error.extend(self.further_fields());
        error.insert("errmsg", self.message.as_str());
        Bson::Document(error)
    }
}

/// A position in a batch as MongoDB's int32; batches are at most 100,000 long.
fn index_of(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self { code: error.code, code_name: error.code_name, message: error.message, details: error.details }
    }
}

impl From<QueryError> for CommandError {
    fn from(error: QueryError) -> Self {
        Self::new(error.code, error.code_name, error.message)
    }
}
