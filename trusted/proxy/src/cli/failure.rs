//! Why a command failed: one line a person can act on.

use crate::certificates::CertificateError;
use crate::configuration::ConfigurationError;
use crate::connection::ConnectError;
use crate::connection::tls::TlsError;
use crate::init::InitError;
use arras_engine::OpenError;
use arras_engine::history::Halt;
use arras_engine::local::LocalError;
use arras_keys::KeyringError;
use arras_planner::schema::SchemaError;
use arras_storage::StorageError;
use std::io;
use std::path::PathBuf;

/// The failure of a command.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Certificates cannot be made.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// A check or comparison of the command's own came out badly; it has said which.
    #[error("{0}")]
    Check(String),
    /// The configuration is wrong.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The server does not answer as it should.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The proxy's data directory cannot be used.
    #[error("{path}: {what}")]
    Data {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The engine does not start.
    #[error(transparent)]
    Engine(#[from] OpenError),
    /// The proxy stopped because it must not go on.
    #[error(transparent)]
    Halted(#[from] Halt),
    /// `init` failed.
    #[error(transparent)]
    Init(#[from] InitError),
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The keyring does not open.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another --listen address")]
    Listen {
        /// The address.
        address: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// The schema file is wrong.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The server's process cannot be started.
    #[error("{0}")]
    ServerProcess(String),
    /// The operating system does not let the process start.
    #[error("the operating system does not let arras start: {0}")]
    System(#[from] io::Error),
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is nothing to unlock the keyring with.
    #[error("{0}")]
    Unlock(String),
}

impl Failure {
    /// The process's exit code; `arras --help` lists them.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Check(_) => 1,
            Self::Configuration(_)
            | Self::Init(InitError::NotEmpty(_) | InitError::Io { .. })
            | Self::Io { .. }
            | Self::Schema(_) => 2,
            Self::Certificates(_)
            | Self::Init(InitError::Keyring(_) | InitError::Certificates(_))
            | Self::Keyring(_)
            | Self::Tls(_)
            | Self::Unlock(_) => 3,
            Self::Data { .. } => 4,
            Self::Engine(OpenError::Local(LocalError::WrongKeyring)) => 3,
            Self::Engine(error) if error.is_of_own_store() => 4,
            Self::Engine(
                OpenError::Local(_)
                | OpenError::KeyVersion(_)
                | OpenError::History(_)
                | OpenError::Witness(_)
                | OpenError::Restore(_),
            )
            | Self::Halted(_)
            | Self::Connect(ConnectError::Halted(_)) => 4,
            Self::Connect(_)
            | Self::Engine(_)
            | Self::Listen { .. }
            | Self::ServerProcess(_)
            | Self::System(_) => 5,
        }
    }

    /// A failure of the storage engine at `path`.
    #[must_use]
    pub fn data(path: PathBuf, error: StorageError) -> Self {
        let what = match error {
            StorageError::InUse => "another arras proxy uses this data directory; stop it first".into(),
            StorageError::Damaged(what) => format!("damaged ({what}); restore it from a backup"),
            StorageError::Environment(what) | StorageError::Undecided(what) | StorageError::Full(what) => {
                format!("{what}; check that it is a writable directory")
            }
        };
        Self::Data { path, what }
    }
}
