//! What keeps a request from being answered, by whose doing that is. No front end's codes: each has its own table of them.

use crate::interrupt::Reason;
use arras_documents::{QueryError, Rule};
use bson::Document;

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ServiceError {
    /// What kind of failure it is.
    pub fault: Fault,
    /// One line a person can act on; holds no sensitive value but those the caller sent.
    pub message: String,
    /// What the caller may be told besides: of a duplicate, the index's key pattern and the offending values; of a document
    /// that is not what is declared, what it lacks.
    pub details: Option<Box<Document>>,
}

impl ServiceError {
    /// An error without details.
    #[must_use]
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), details: None }
    }
}

impl From<QueryError> for ServiceError {
    fn from(error: QueryError) -> Self {
        Self::new(Fault::Language(error.rule()), error.message)
    }
}

/// Whose doing a failure is, and so who can do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The caller asked for what cannot be done as asked.
    Request,
    /// The data that is there stands against it, or has changed meanwhile.
    Data,
    /// There is not enough memory or disk for it.
    Resources,
    /// The server cannot be reached, or did not answer in time.
    Connection,
    /// The server did what no server of the protocol does.
    Server,
    /// The proxy itself failed, or must not go on.
    Proxy,
    /// The operation was ended from outside.
    Nobody,
}

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// What is asked breaks a rule of the document query language, which has its own table of them.
    Language(Rule),
    /// A value that cannot be what it is given as.
    BadValue,
    /// An option that is not allowed there.
    InvalidOptions,
    /// An option that an index on `_id` cannot have.
    InvalidIdIndexOption,
    /// An index that cannot be made.
    CannotCreateIndex,
    /// There is no such collection.
    NamespaceNotFound,
    /// There is such a collection.
    NamespaceExists,
    /// A database whose name differs in case only.
    DatabaseDiffersInCase,
    /// There is no such index.
    IndexNotFound,
    /// An index of that key has other options.
    IndexOptionsConflict,
    /// An index of that name has another key.
    IndexKeySpecsConflict,
    /// No index can answer, and reading everything is not allowed.
    NoPlan,
    /// A sort or a group would have to use the disk and must not.
    DiskUseForbidden,
    /// A unique value that is there already.
    DuplicateKey,
    /// A document that is not what is declared.
    Validation,
    /// Several arrays in the fields of one index.
    ParallelArrays,
    /// A document, or a write, that is too large.
    TooLarge,
    /// The collection went while it was used.
    Dropped,
    /// Others hold what a change needs; nothing was applied, and it may be tried again.
    Contended,
    /// More memory than a query may have.
    MemoryExceeded,
    /// The server has no room for it; nothing was applied.
    DiskFull,
    /// The server cannot be reached; nothing was applied, and it may be tried again.
    Unreachable,
    /// The server did not answer in time.
    TimedOut,
    /// It is not known yet whether a write was applied; it will be completed.
    InDoubt,
    /// What the server answered is not of what was written.
    Corruption,
    /// A reply that no server of the protocol gives, or a refusal that an honest proxy never meets.
    Peer,
    /// What was stored does not decode.
    MalformedDocument,
    /// Another proxy holds the server's lease.
    Fenced,
    /// This proxy and its server are not of one history.
    Halted,
    /// The proxy's own store.
    ProxyStore,
    /// A defect.
    Internal,
    /// Ended from outside.
    Interrupted(Reason),
}

impl Fault {
    /// Whose doing it is.
    #[must_use]
    pub fn blame(self) -> Blame {
        match self {
            Self::Language(_)
            | Self::BadValue
            | Self::InvalidOptions
            | Self::InvalidIdIndexOption
            | Self::CannotCreateIndex
            | Self::NamespaceNotFound
            | Self::NamespaceExists
            | Self::DatabaseDiffersInCase
            | Self::IndexNotFound
            | Self::IndexOptionsConflict
            | Self::IndexKeySpecsConflict
            | Self::NoPlan
            | Self::DiskUseForbidden
            | Self::ParallelArrays
            | Self::TooLarge => Blame::Request,
            Self::DuplicateKey | Self::Validation | Self::Dropped | Self::Contended => Blame::Data,
            Self::MemoryExceeded | Self::DiskFull => Blame::Resources,
            Self::Unreachable | Self::TimedOut | Self::InDoubt => Blame::Connection,
            Self::Corruption | Self::Peer | Self::MalformedDocument => Blame::Server,
            Self::Fenced | Self::Halted | Self::ProxyStore | Self::Internal => Blame::Proxy,
            Self::Interrupted(_) => Blame::Nobody,
        }
    }
}
