//! A client's credentials in a folder: `ca.pem`, and `NAME.pem` and `NAME.key` of each client there.

use crate::authority::{certificate, private};
use crate::channel::Credentials;
use arras_storage::private::require_closed;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The file with the authority's certificate.
pub const AUTHORITY: &str = "ca.pem";

/// A file of the folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {what}")]
pub struct FolderError {
    /// The file, or the folder itself.
    pub path: PathBuf,
    /// What is wrong with it, or what the operating system says.
    pub what: String,
}

impl FolderError {
    fn of(path: &Path, what: &dyn Display) -> Self {
        Self { path: path.into(), what: what.to_string() }
    }
}

/// What a folder has of the client with a name.
///
/// # Errors
/// A file cannot be read or is not what it should be, or others than its owner may read the private key.
pub fn credentials(folder: &Path, name: &str) -> Result<Credentials, FolderError> {
    let key = folder.join(format!("{name}.key"));
    require_closed(&key).map_err(|error| FolderError::of(&key, &error))?;
    let pem = |name: &str| {
        let path = folder.join(name);
        certificate(&read(&path)?).map_err(|error| FolderError::of(&path, &error))
    };
    Ok(Credentials {
        authority: pem(AUTHORITY)?,
        certificate: pem(&format!("{name}.pem"))?,
        private: private(&read(&key)?).map_err(|error| FolderError::of(&key, &error))?,
    })
}

fn read(path: &Path) -> Result<Zeroizing<String>, FolderError> {
    fs::read_to_string(path).map(Zeroizing::new).map_err(|error| FolderError::of(path, &error))
}
