//! The deployment's own certificate authority, and the two certificates it signs: one for the server, one for
//! this proxy.
//!
//! ```text
//! <proxy's directory>/   ca.pem  ca.key  proxy.pem  proxy.key     stays here; ca.key is for renewal
//!                        proxy.former.pem  proxy.former.key       while a new authority takes the old one's place
//! <server's directory>/  ca.pem  server.pem  server.key           is copied to the server's machine
//! ```
//! The server accepts clients by authority, purpose and the name [`PROXY_NAME`]; the proxy accepts the server
//! by authority, purpose and the name [`SERVER_NAME`]. Neither certificate can stand in for the other. These
//! keys protect the connection, not the data: who has the server's key can pose as the server, and still reads
//! no plaintext.

mod listing;
mod renewal;

pub use listing::{Listed, list};
pub use renewal::{Renewed, Wish, renew};

use arras_protocol::hello::{PROXY_NAME, SERVER_NAME};
use arras_storage::private;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zeroize::Zeroizing;

/// How long the authority lasts.
pub const AUTHORITY_LIFETIME: Duration = Duration::from_secs(20 * 365 * DAY_SECONDS);

/// How long the two certificates last; [`renew()`] makes new ones.
pub const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(2 * 365 * DAY_SECONDS);

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Certificates are valid from a day before they were made, for clocks that are behind.
const CLOCK_LEEWAY: Duration = Duration::from_secs(DAY_SECONDS);

/// Name of the authority, for people.
const AUTHORITY_NAME: &str = "Arras deployment";

/// Why certificates could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// There are certificates already.
    #[error(
        "{0}: there is already a file; certificates are never overwritten by init: move it away, or renew"
    )]
    Exists(PathBuf),
    /// The environment failed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The authority's files do not belong together, or are no keys.
    #[error(
        "{path}: {what}; restore the file, or begin a new authority: arras certificates renew --new-authority"
    )]
    Authority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The authority's key is not there.
    #[error(
        "{0}: not there; put it back for the time of the renewal, or begin a new authority: \
         arras certificates renew --new-authority"
    )]
    AuthorityAway(PathBuf),
    /// A certificate cannot be read.
    #[error(transparent)]
    Read(#[from] arras_transport::tls::FileError),
    /// A new authority is taking an old one's place already.
    #[error(
        "{0}: a new authority is taking the old one's place already; carry the server's files to it, end that with \
         `arras certificates renew --finish`, and repeat"
    )]
    Overlap(PathBuf),
    /// The signing library declined.
    #[error("cannot make a certificate: {0}")]
    Signing(#[from] rcgen::Error),
}

/// Makes an authority and both certificates. Directories are made if they do not exist; nothing is overwritten.
/// `now` is in seconds since 1970.
///
/// # Errors
/// [`CertificateError`]; files written before the failure stay.
pub fn create(proxy_directory: &Path, server_directory: &Path, now: u64) -> Result<(), CertificateError> {
    let private = KeyPair::generate()?;
    let params = authority_params(AUTHORITY_NAME, now);
    let authority = params.self_signed(&private)?;
    let place = |path: PathBuf, text: &str| write_new(&path, text).map(|()| path);
    for directory in [proxy_directory, server_directory] {
        private::make_directory(directory).map_err(io_error(directory))?;
        place(directory.join("ca.pem"), &authority.pem())?;
    }
    place(proxy_directory.join("ca.key"), &pem_of(&private))?;
    let issuer = Issuer::new(params, private);
    for (role, directory) in [(Role::Server, server_directory), (Role::Proxy, proxy_directory)] {
        let (certificate, private) = issue(role, &issuer, now)?;
        place(directory.join(role.certificate_file()), &certificate)?;
        place(directory.join(role.private_file()), &private)?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Role {
    Proxy,
    Server,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Proxy => PROXY_NAME,
            Self::Server => SERVER_NAME,
        }
    }

    fn purpose(self) -> ExtendedKeyUsagePurpose {
        match self {
            Self::Proxy => ExtendedKeyUsagePurpose::ClientAuth,
            Self::Server => ExtendedKeyUsagePurpose::ServerAuth,
        }
    }

    fn certificate_file(self) -> &'static str {
        match self {
            Self::Proxy => "proxy.pem",
            Self::Server => "server.pem",
        }
    }

    fn private_file(self) -> &'static str {
        match self {
            Self::Proxy => "proxy.key",
            Self::Server => "server.key",
        }
    }
}

fn authority_params(name: &str, now: u64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_dates(&mut params, now, AUTHORITY_LIFETIME);
    params
}

fn issue(
    role: Role,
    issuer: &Issuer<'_, KeyPair>,
    now: u64,
) -> Result<(String, Zeroizing<String>), CertificateError> {
    let private = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![role.name().to_owned()])?;
    params.distinguished_name = common_name(role.name());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![role.purpose()];
    params.use_authority_key_identifier_extension = true;
    set_dates(&mut params, now, CERTIFICATE_LIFETIME);
    let certificate = params.signed_by(&private, issuer)?;
    Ok((certificate.pem(), pem_of(&private)))
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn set_dates(params: &mut CertificateParams, now: u64, lifetime: Duration) {
    let now = date_time_ymd(1970, 1, 1) + Duration::from_secs(now);
    params.not_before = now - CLOCK_LEEWAY;
    params.not_after = now + lifetime;
}

fn pem_of(private: &KeyPair) -> Zeroizing<String> {
    Zeroizing::new(private.serialize_pem())
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> CertificateError + '_ {
    move |source| CertificateError::Io { path: path.to_path_buf(), source }
}

/// Writes a file, readable by its owner only, that must not exist yet.
fn write_new(path: &Path, text: &str) -> Result<(), CertificateError> {
    let mut file = match private::file_options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(CertificateError::Exists(path.to_path_buf()));
        }
        opened => opened.map_err(io_error(path))?,
    };
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io_error(path))
}

/// Replaces a file as a whole.
fn replace(path: &Path, text: &str) -> Result<(), CertificateError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let beside = path.with_file_name(name);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(&beside)(error)),
        _ => {}
    }
    write_new(&beside, text)?;
    fs::rename(&beside, path).map_err(io_error(path))?;
    let directory = path.parent().unwrap_or(Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(io_error(directory))
}

#[cfg(test)]
mod tests;
