//! What both sides' TLS goes by: its version and cipher suites, and the files of certificates and keys.
//!
//! Whom a side accepts is its own `tls` module's.

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{RootCertStore, SupportedProtocolVersion};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The versions spoken: TLS 1.3 alone (RFC 8446).
pub const VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// The implementation of the cryptography below TLS.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A file that cannot be read or is not PEM (RFC 7468) of what it should be.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {what}")]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

impl FileError {
    /// Names the file of an error.
    #[must_use]
    pub fn of(path: &Path, what: &dyn Display) -> Self {
        Self { path: path.to_path_buf(), what: what.to_string() }
    }
}

/// Reads the certificates of a file in their order, at least one; what else is in it is passed over.
///
/// # Errors
/// [`FileError`].
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| FileError::of(path, &error))?;
    if certificates.is_empty() {
        return Err(FileError::of(path, &"no certificate in it"));
    }
    Ok(certificates)
}

/// Reads the authorities of a file, at least one: whose certificates are believed, and nobody else's.
///
/// # Errors
/// [`FileError`].
pub fn authorities(path: &Path) -> Result<RootCertStore, FileError> {
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(path)? {
        authorities.add(certificate).map_err(|error| FileError::of(path, &error))?;
    }
    Ok(authorities)
}

/// Reads a private key. Whether others may read the file, too, is not looked at.
///
/// # Errors
/// [`FileError`].
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| FileError::of(path, &error))
}

/// What TLS itself says of a stream's failure (a certificate, a peer that speaks something else); `None` if the stream
/// below it failed.
#[must_use]
pub fn failure(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

#[cfg(test)]
mod tests;
