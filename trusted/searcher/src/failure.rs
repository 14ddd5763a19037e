//! Why the command failed: one line a person can act on, or of a query three.

use crate::progress::grouped;
use arras_attestation::channel::ChannelError;
use arras_keys::KeyringError;
use arras_search::condition::SaysNothing;
use arras_search::corpus::IndexError;
use arras_search::search::Unanswerable;
use arras_search::service::ServiceError;
use std::io;
use std::path::PathBuf;

/// The failure of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The query cannot be read: why, and below the query with its place.
    #[error("{error}\n{pointer}")]
    Query { pointer: String, error: arras_search::grammar::QueryError },
    /// The query says nothing.
    #[error(transparent)]
    SaysNothing(#[from] SaysNothing),
    /// The enclave cannot be asked it.
    #[error("{0}")]
    Unanswerable(#[from] Unanswerable),
    /// What is to be indexed is not there, and others.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The enclave.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The enclave is not trusted, or does not trust this client.
    #[error("no channel to the enclave: {0}")]
    Channel(#[from] ChannelError),
    /// The certificates.
    #[error("the certificates: {0}")]
    Certificates(String),
    /// There is no store to search.
    #[error("{0}: there is no store here; make one with: arras search index --store {0} PATH...")]
    NoStore(String),
    /// The enclave finds documents that the record of what was indexed does not have: a run was killed between the two, or the record
    /// is older, or was cut.
    #[error(
        "{0} of the documents that match are not in the record of what was indexed, and are not shown: run arras search index again, \
         which completes it; if their files are gone since, index into another store"
    )]
    Unrecorded(u64),
    /// The store that is to be made is a folder with others' files.
    #[error(
        "{}: the folder is not empty, and no store of arras search: name one that is empty or not there",
        .0.display()
    )]
    NotEmpty(PathBuf),
    /// The store cannot be used.
    #[error("{path}: {what}")]
    Store { path: PathBuf, what: String },
    /// The keyring does not open.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// The host, and with it the enclave, has ended.
    #[error("the store's host {what}: {why}{advice}")]
    Host { what: &'static str, why: String, advice: &'static str, is_of_the_store: bool },
    /// Host or enclave do not start.
    #[error("{0}")]
    Process(String),
    /// The page cannot be served.
    #[error("cannot listen on {address}: {what}; choose another --port")]
    Network { address: String, what: io::Error },
    /// The terminal or a pipe.
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
    /// All was done but for so many files and folders.
    #[error("{} could not be read (above); the index has of it what it had", grouped(*.0))]
    Unread(u64),
    /// It was stopped.
    #[error("stopped; what is done is kept, and the same command goes on from there")]
    Stopped,
}

impl Failure {
    /// Is it one that the host's end explains?
    pub(crate) fn is_of_the_connection(&self) -> bool {
        matches!(
            self,
            Self::Service(ServiceError::Unreachable(_))
                | Self::Index(IndexError::Service(ServiceError::Unreachable(_)))
                | Self::Channel(_)
        )
    }

    /// The process's exit code; `arras search --help` lists them.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Print(_) => 1,
            Self::Query { .. } | Self::SaysNothing(_) | Self::Unanswerable(_) => 2,
            Self::Index(IndexError::NoPath { .. }) | Self::NotEmpty(_) => 2,
            Self::Service(ServiceError::Profile(_)) => 2,
            Self::Keyring(_) => 3,
            Self::Host { is_of_the_store: true, .. }
            | Self::NoStore(_)
            | Self::Unrecorded(_)
            | Self::Store { .. }
            | Self::Certificates(_)
            | Self::Index(IndexError::Journal(_)) => 4,
            Self::Service(
                ServiceError::Unreachable(_)
                | ServiceError::Refused(_)
                | ServiceError::Reply
                | ServiceError::SetBack { .. },
            )
            | Self::Host { is_of_the_store: false, .. }
            | Self::Index(IndexError::Service(_))
            | Self::Network { .. }
            | Self::Channel(_)
            | Self::Process(_) => 5,
            Self::Unread(_) => 6,
            Self::Stopped => 130,
        }
    }
}
