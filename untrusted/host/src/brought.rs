//! Files that bring what evidence lacks: read anew for each, and handed on for clients to judge.

use std::fs;
use std::io;
use std::path::Path;

/// Why a file brings nothing.
#[derive(Debug, thiserror::Error)]
pub enum BroughtError {
    /// It cannot be read.
    #[error("{file}: {error}")]
    File {
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
/// [`BroughtError::File`].
pub(crate) fn read(path: &Path) -> Result<(String, Vec<u8>), BroughtError> {
    let file = path.display().to_string();
    match fs::read(path) {
        Ok(bytes) => Ok((file, bytes)),
        Err(error) => Err(BroughtError::File { file, error }),
    }
}

/// Intel's word on a platform, or nothing, where clients' policies have it.
///
/// # Errors
/// [`BroughtError`].
pub(crate) fn collateral(path: Option<&Path>) -> Result<Vec<u8>, BroughtError> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let (file, bytes) = read(path)?;
    if bytes.trim_ascii_start().first() == Some(&b'{') {
        return Ok(bytes);
    }
    Err(BroughtError::Content { file, what: "Intel's collateral is expected, a JSON object" })
}
