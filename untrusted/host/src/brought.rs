//! Files that bring what evidence lacks: read anew for each, and handed on for clients to judge.

use std::fs;
use std::io;
use std::path::Path;

/// Why a file says nothing of use: one that brings what evidence lacks, or one of the kernel's.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read or written.
    #[error("{file}: {error}")]
    System {
        /// Which.
        file: String,
        /// What the operating system says.
        error: io::Error,
    },
    /// What is in it is not what should be there.
    #[error("{file}: {what}")]
    Content {
        /// Which.
        file: String,
        /// What is wrong.
        what: &'static str,
    },
}

/// A named file, and what is in it.
///
/// # Errors
/// [`FileError::System`].
pub(crate) fn read(path: &Path) -> Result<(String, Vec<u8>), FileError> {
    let file = path.display().to_string();
    match fs::read(path) {
        Ok(bytes) => Ok((file, bytes)),
        Err(error) => Err(FileError::System { file, error }),
    }
}

/// Intel's word on a platform, or nothing, where clients' policies have it.
///
/// # Errors
/// [`FileError`].
pub(crate) fn collateral(path: Option<&Path>) -> Result<Vec<u8>, FileError> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let (file, bytes) = read(path)?;
    if bytes.trim_ascii_start().first() == Some(&b'{') {
        return Ok(bytes);
    }
    Err(FileError::Content { file, what: "Intel's collateral is expected, a JSON object" })
}
