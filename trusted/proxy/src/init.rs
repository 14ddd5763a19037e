//! What `arras init` makes: a directory with the keyring, the certificates and a commented configuration.
//!
//! ```text
//! <directory>/
//!   arras.toml       configuration; written last, so its presence means that the rest is complete
//!   keyring.json     root keys, sealed
//!   certificates/    this proxy's certificates, and the authority for renewing
//!   server/          to be copied to the server's machine
//! ```

use crate::certificates::{self, CertificateError};
use crate::configuration;
use arras_engine::witness;
use arras_keys::{Keyring, KeyringError, Unlock};
use arras_storage::private;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where things are in a configuration directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The configuration file.
    pub configuration: PathBuf,
    /// The keyring.
    pub keyring: PathBuf,
    /// The proxy's certificates.
    pub certificates: PathBuf,
    /// What the server's machine needs.
    pub server: PathBuf,
}

impl Layout {
    /// The layout under `directory`.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self {
            configuration: directory.join(configuration::FILE_NAME),
            keyring: directory.join("keyring.json"),
            certificates: directory.join("certificates"),
            server: directory.join("server"),
        }
    }
}

/// What the administrator chose.
#[derive(Debug)]
pub struct Choices {
    /// What shall unlock the keyring.
    pub unlock: Unlock,
    /// Where applications will connect, host and port.
    pub listen: String,
    /// Where the server is, host and port.
    pub server: String,
    /// The proxy's own data directory.
    pub data_dir: PathBuf,
}

/// Why the directory was not made. Nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The directory holds something.
    #[error("{0}: the directory is not empty; choose another one, nothing is ever overwritten")]
    NotEmpty(PathBuf),
    /// The environment failed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The keyring.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// The certificates.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
}

/// Makes the configuration directory and returns where things are in it. `now` is in seconds since 1970.
///
/// # Errors
/// [`InitError`]. The directory may exist but must be empty; it is closed to other users. After an error it is empty again.
pub fn init(directory: &Path, choices: Choices, now: u64) -> Result<Layout, InitError> {
    let io_error = |source| InitError::Io { path: directory.to_path_buf(), source };
    private::make_directory(directory).map_err(io_error)?;
    if fs::read_dir(directory).map_err(io_error)?.next().is_some() {
        return Err(InitError::NotEmpty(directory.to_path_buf()));
    }
    // What was put into it between the two looks is noticed: a directory is closed only if it is still empty.
    private::close_directory(directory, &[]).map_err(io_error)?;
    let layout = Layout::new(directory);
    let made = fill(&layout, choices, now);
    if made.is_err() {
        clear(&layout);
    }
    made.map(|()| layout)
}

fn fill(layout: &Layout, choices: Choices, now: u64) -> Result<(), InitError> {
    let key_file = match &choices.unlock {
        // The configuration's relative paths are relative to itself, the command line's are not.
        Unlock::KeyFile(path) => Some(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
        Unlock::Passphrase(_) => None,
    };
    certificates::create(&layout.certificates, &layout.server, now)?;
    Keyring::create(&layout.keyring, choices.unlock, now)?;
    let file = format!("{:016x}.witness", rand::random::<u64>());
    let text = configuration::template(&configuration::Values {
        listen: &choices.listen,
        server: &choices.server,
        data_dir: &choices.data_dir,
        witness: &witness::state_directory().join(file),
        key_file: key_file.as_deref(),
    });
    let path = &layout.configuration;
    let io_error = |source| InitError::Io { path: path.clone(), source };
    let mut file = private::file_options().write(true).create_new(true).open(path).map_err(io_error)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io_error)
}

/// Takes away what a failed `init` has made in what was an empty directory.
fn clear(layout: &Layout) {
    for file in [&layout.configuration, &layout.keyring] {
        let _ = fs::remove_file(file);
    }
    for directory in [&layout.certificates, &layout.server] {
        let _ = fs::remove_dir_all(directory);
    }
}

#[cfg(test)]
mod tests;
