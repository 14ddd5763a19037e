//! How the proxy knows the server: TLS 1.3 with certificates on both sides.
//!
//! Accepted is a server certificate that is signed by the deployment's own certificate authority, made for
//! server authentication, within its dates, and for the DNS name [`SERVER_NAME`], whatever the address. No
//! public authority is trusted.

use arras_protocol::hello::SERVER_NAME;
use arras_protocol::text;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the proxy's certificates are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificatePaths {
    /// The deployment's certificate authority, PEM.
    pub authority: PathBuf,
    /// The proxy's certificate, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub private: PathBuf,
}

impl CertificatePaths {
    /// The names [`crate::certificates`] gives them.
    #[must_use]
    pub fn in_directory(directory: &Path) -> Self {
        Self {
            authority: directory.join("ca.pem"),
            certificate: directory.join("proxy.pem"),
            private: directory.join("proxy.key"),
        }
    }
}

/// Why the certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or is not PEM of what it should be.
    #[error("{path}: {what}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The parts do not fit together.
    #[error("the certificates do not fit together ({0}); use all files of one `arras init` run")]
    Unfit(String),
}

/// Reads the certificates and makes the proxy's TLS configuration towards the server.
///
/// # Errors
/// [`TlsError`], naming the file.
pub fn client_config(paths: &CertificatePaths) -> Result<Arc<ClientConfig>, TlsError> {
    let mut authority = RootCertStore::empty();
    for certificate in certificates(&paths.authority)? {
        authority.add(certificate).map_err(|error| unusable(&paths.authority, &error))?;
    }
    let chain = certificates(&paths.certificate)?;
    arras_storage::private::require_closed(&paths.private)
        .map_err(|error| unusable(&paths.private, &error))?;
    let private =
        PrivateKeyDer::from_pem_file(&paths.private).map_err(|error| unusable(&paths.private, &error))?;
    let unfit = |error: rustls::Error| TlsError::Unfit(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unfit)?
        .with_root_certificates(authority)
        .with_client_auth_cert(chain, private)
        .map_err(unfit)?;
    // Every connection judges certificates anew.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> TlsError {
    TlsError::File { path: path.to_path_buf(), what: error.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(path, &error))?;
    if certificates.is_empty() {
        return Err(unusable(path, &"no certificate in it"));
    }
    Ok(certificates)
}

/// True if TLS itself failed (a certificate, a peer that speaks something else), not the stream below it.
pub(super) fn is_of_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

/// What went wrong between TCP and the greeting, and what to do about it.
pub(super) fn describe_failure(error: &io::Error) -> String {
    use rustls::Error;
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                "the server closed the connection before it was established; its log says why".into()
            }
            _ => text::line(&error.to_string()),
        };
    };
    match tls {
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the server's certificate has expired; renew the certificates and copy the server's to it".into()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "the server's certificate is not valid yet; compare the clocks".into(),
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "the server's certificate is of another certificate authority; copy the server's files of this \
             proxy's `arras init` run to it"
                .into()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName
            | CertificateError::NotValidForNameContext { .. }
            | CertificateError::InvalidPurpose
            | CertificateError::InvalidPurposeContext { .. },
        ) => format!("the certificate shown there is not that of {SERVER_NAME}"),
        Error::InvalidMessage(_) => "what listens there does not speak TLS".into(),
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server asks for a certificate and this proxy showed none".into()
        }
        Error::AlertReceived(AlertDescription::CertificateExpired) => {
            "the server says that this proxy's certificate has expired; renew the certificates".into()
        }
        Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied,
        ) => format!(
            "the server does not accept this proxy's certificate ({tls}); copy the server's files of this \
             proxy's `arras init` run to it"
        ),
        // It may quote what the certificate says.
        other => text::line(&other.to_string()),
    }
}
