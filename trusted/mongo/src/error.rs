//! Errors a command answers with: MongoDB's code, its name and one line of text.

use crate::answer::Answer;
use arras_documents::QueryError;
use arras_service::interrupt::Reason;
use arras_service::{Fault, ServiceError};
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
    /// That of the code in MongoDB's table, such as `BadValue`.
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

    /// The element of `writeErrors` for the statement at `position`.
    pub(crate) fn to_write_error(&self, position: usize) -> Bson {
        let mut error = doc! { "index": number_of(position), "code": self.code };
        error.extend(self.further_fields());
        error.insert("errmsg", self.message.as_str());
        Bson::Document(error)
    }
}

/// A position in a batch as MongoDB's int32; batches are at most 100,000 long.
fn number_of(position: usize) -> i32 {
    i32::try_from(position).unwrap_or(i32::MAX)
}

impl From<ServiceError> for CommandError {
    fn from(error: ServiceError) -> Self {
        let (code, code_name) = code_of(error.fault);
        Self { code, code_name, message: error.message, details: error.details }
    }
}

/// MongoDB's code for a failure, and its name.
///
/// A write whose outcome nobody knows yet has the code of one that is not confirmed: drivers do not send such a write again by
/// themselves; it could be applied twice. One whose server cannot be reached was not applied, and they may.
#[must_use]
pub fn code_of(fault: Fault) -> (i32, &'static str) {
    match fault {
        Fault::Language(rule) => (rule.code, rule.code_name),
        Fault::BadValue => (2, "BadValue"),
        Fault::InvalidOptions => (72, "InvalidOptions"),
        Fault::InvalidIdIndexOption => (197, "InvalidIndexSpecificationOption"),
        Fault::CannotCreateIndex => (67, "CannotCreateIndex"),
        Fault::NamespaceNotFound => (26, "NamespaceNotFound"),
        Fault::NamespaceExists => (48, "NamespaceExists"),
        Fault::DatabaseDiffersInCase => (13297, "DatabaseDifferCase"),
        Fault::IndexNotFound => (27, "IndexNotFound"),
        Fault::IndexOptionsConflict => (85, "IndexOptionsConflict"),
        Fault::IndexKeySpecsConflict => (86, "IndexKeySpecsConflict"),
        Fault::NoPlan => (291, "NoQueryExecutionPlans"),
        Fault::DiskUseForbidden => (292, "QueryExceededMemoryLimitNoDiskUseAllowed"),
        Fault::DuplicateKey => (11000, "DuplicateKey"),
        Fault::Validation => (121, "DocumentValidationFailure"),
        Fault::ParallelArrays => (171, "CannotIndexParallelArrays"),
        Fault::TooLarge => (10334, "BSONObjectTooLarge"),
        Fault::Dropped => (175, "QueryPlanKilled"),
        Fault::Contended => (112, "WriteConflict"),
        Fault::MemoryExceeded => (146, "ExceededMemoryLimit"),
        Fault::DiskFull => (14031, "OutOfDiskSpace"),
        Fault::Unreachable => (6, "HostUnreachable"),
        Fault::TimedOut => (89, "NetworkTimeout"),
        Fault::InDoubt => (64, "WriteConcernFailed"),
        Fault::Corruption => (246, "DataCorruptionDetected"),
        Fault::MalformedDocument => (22, "InvalidBSON"),
        Fault::Fenced => (10107, "NotWritablePrimary"),
        Fault::Peer | Fault::Halted | Fault::ProxyStore => (8, "UnknownError"),
        Fault::Internal => (1, "InternalError"),
        Fault::Interrupted(reason) => match reason {
            Reason::Killed => (11601, "Interrupted"),
            Reason::Expired => (50, "MaxTimeMSExpired"),
            Reason::Gone => (279, "ClientDisconnect"),
            Reason::Stopping => (11600, "InterruptedAtShutdown"),
        },
    }
}

impl From<QueryError> for CommandError {
    fn from(error: QueryError) -> Self {
        Self::new(error.code, error.code_name, error.message)
    }
}
