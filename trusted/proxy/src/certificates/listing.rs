//! The certificates of a deployment that are on this machine, for people and programs.

use arras_certificates::{Certificate, date};
use arras_transport::tls::FileError;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// One certificate of the deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Whose it is.
    pub whose: &'static str,
    /// The file that it was read from.
    pub file: PathBuf,
    /// The name in it.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
    /// Serial number, hexadecimal.
    pub serial: String,
    /// SHA-256, hexadecimal.
    pub fingerprint: String,
    /// Valid from.
    pub from: String,
    /// Valid until.
    pub until: String,
    /// The same in seconds since 1970.
    pub until_seconds: u64,
    /// Whole days left.
    pub days_left: u64,
    /// Whether it has ended.
    pub ended: bool,
}

/// Reads the certificates of both directories; the one for the server need not be there any more. `now` is in seconds since
/// 1970.
///
/// # Errors
/// [`FileError`], naming the file.
pub fn list(proxy_directory: &Path, server_directory: &Path, now: u64) -> Result<Vec<Listed>, FileError> {
    let must = [
        ("authority (the proxy's copy)", proxy_directory.join("ca.pem")),
        ("proxy", proxy_directory.join("proxy.pem")),
    ];
    let may = [
        ("proxy, of the authority before", proxy_directory.join("proxy.former.pem")),
        ("authority (the server's copy)", server_directory.join("ca.pem")),
        ("server", server_directory.join("server.pem")),
    ];
    let may = may.into_iter().filter(|(_, path)| path.exists());
    let mut all = Vec::new();
    for (whose, file) in must.into_iter().chain(may) {
        let read = Certificate::read_all(&file)?;
        all.extend(read.into_iter().map(|certificate| listed(whose, file.clone(), certificate, now)));
    }
    Ok(all)
}

fn listed(whose: &'static str, file: PathBuf, certificate: Certificate, now: u64) -> Listed {
    Listed {
        whose,
        file,
        days_left: certificate.days_left(now),
        ended: certificate.has_ended(now),
        from: date(certificate.from),
        until: date(certificate.until),
        until_seconds: certificate.until,
        subject: certificate.subject,
        issuer: certificate.issuer,
        serial: certificate.serial,
        fingerprint: certificate.fingerprint,
    }
}
