//! How the proxy knows the server: TLS 1.3 with certificates on both sides.
//!
//! Accepted is a server certificate that is signed by the deployment's own certificate authority, made for
//! server authentication, within its dates, and for the DNS name [`SERVER_NAME`], whatever the address. No
//! public authority is trusted.
//!
//! *Two authorities.* While a new authority takes the place of an old one, the file of authorities holds both, and the
//! proxy has a certificate of each: it shows the one whose authority the server says that it accepts (RFC 8446, 4.2.4),
//! so that a server works before and after it is given its new files.

use arras_certificates::{Certificate, Reloading};
use arras_protocol::hello::{PROXY_NAME, SERVER_NAME};
use arras_protocol::text;
use arras_transport::tls::{self, FileError, VERSIONS, provider};
use rustls::client::{ResolvesClientCert, Resumption, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, CertificateError, ClientConfig, SignatureScheme};
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
    /// The certificate and key of the authority before, while two are in use; the files need not be there.
    pub former: (PathBuf, PathBuf),
}

impl CertificatePaths {
    /// The names [`crate::certificates`] gives them.
    #[must_use]
    pub fn in_directory(directory: &Path) -> Self {
        Self {
            authority: directory.join("ca.pem"),
            certificate: directory.join("proxy.pem"),
            private: directory.join("proxy.key"),
            former: (directory.join("proxy.former.pem"), directory.join("proxy.former.key")),
        }
    }

    /// Those of the files that hold certificates.
    #[must_use]
    pub fn public(&self) -> Vec<PathBuf> {
        vec![self.authority.clone(), self.certificate.clone()]
    }
}

/// Why the certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or is not PEM of what it should be.
    #[error(transparent)]
    File(#[from] FileError),
    /// The parts do not fit together.
    #[error(
        "the certificates do not fit together ({0}); run `arras certificates renew` (again, if it was interrupted), or put \
         all files of one run of it in their place"
    )]
    Unfit(String),
}

/// Reads the certificates, and again when [`Reloading::look`] finds the files changed: then only such as a server of the
/// authority beside them accepts today, so that files which are half replaced change nothing.
///
/// # Errors
/// [`TlsError`], naming the file.
pub fn reloading(paths: &CertificatePaths) -> Result<Reloading<ClientConfig>, TlsError> {
    let files = vec![
        paths.authority.clone(),
        paths.certificate.clone(),
        paths.private.clone(),
        paths.former.0.clone(),
        paths.former.1.clone(),
    ];
    let again = paths.clone();
    Reloading::open(
        files,
        || client_config(paths),
        move || {
            let config = client_config(&again)?;
            require_acceptable(&again)?;
            Ok(config)
        },
    )
}

/// Judges the proxy's own certificate as a server does that goes by the authority beside it.
///
/// # Errors
/// [`TlsError`], naming the file.
pub fn require_acceptable(paths: &CertificatePaths) -> Result<(), TlsError> {
    let unacceptable = |error: &dyn std::fmt::Display| FileError::of(&paths.certificate, error);
    let authorities = Arc::new(tls::authorities(&paths.authority)?);
    let judge: Arc<dyn ClientCertVerifier> =
        WebPkiClientVerifier::builder_with_provider(authorities, provider())
            .build()
            .map_err(|error| unacceptable(&error))?;
    let chain = tls::certificates(&paths.certificate)?;
    let Some((own, between)) = chain.split_first() else { return Ok(()) };
    let name = ServerName::try_from(PROXY_NAME).map_err(|error| unacceptable(&error))?;
    judge
        .verify_client_cert(own, between, UnixTime::now())
        .and_then(|_| verify_server_name(&ParsedCertificate::try_from(own)?, &name))
        .map_err(|error| unacceptable(&arras_certificates::judged(&error)).into())
}

/// A certificate that the proxy can show, and the encoded name of its authority.
#[derive(Debug)]
struct Identity {
    authority: Vec<u8>,
    shown: Arc<CertifiedKey>,
}

/// The proxy's certificates, the preferred one first; never empty.
#[derive(Debug)]
struct Identities(Vec<Identity>);

impl ResolvesClientCert for Identities {
    fn resolve(&self, accepted: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let suits = |identity: &&Identity| accepted.contains(&identity.authority.as_slice());
        // Where none suits, the server says so better than a handshake without one would.
        self.0.iter().find(suits).or(self.0.first()).map(|identity| Arc::clone(&identity.shown))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn identity(certificate: &Path, private: &Path, provider: &CryptoProvider) -> Result<Identity, TlsError> {
    let chain = tls::certificates(certificate)?;
    arras_storage::private::require_closed(private).map_err(|error| FileError::of(private, &error))?;
    let own = tls::private_key(private)?;
    let first = chain.first().ok_or_else(|| FileError::of(certificate, &"no certificate in it"))?;
    let authority =
        Certificate::from_der(first).map_err(|error| FileError::of(certificate, &error))?.issuer_name;
    let shown = CertifiedKey::from_der(chain, own, provider)
        .map_err(|error: rustls::Error| TlsError::Unfit(error.to_string()))?;
    Ok(Identity { authority, shown: Arc::new(shown) })
}

/// Reads the certificates and makes the proxy's TLS configuration towards the server.
///
/// # Errors
/// [`TlsError`], naming the file.
pub fn client_config(paths: &CertificatePaths) -> Result<Arc<ClientConfig>, TlsError> {
    let authorities = tls::authorities(&paths.authority)?;
    let provider = provider();
    let mut identities = vec![identity(&paths.certificate, &paths.private, &provider)?];
    if paths.former.0.exists() {
        identities.push(identity(&paths.former.0, &paths.former.1, &provider)?);
    }
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(VERSIONS)
        .map_err(|error| TlsError::Unfit(error.to_string()))?
        .with_root_certificates(authorities)
        .with_client_cert_resolver(Arc::new(Identities(identities)));
    // Every connection judges certificates anew.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// What went wrong between TCP and the greeting, and what to do about it.
pub(super) fn describe_failure(error: &io::Error) -> String {
    use rustls::Error;
    let Some(failure) = tls::failure(error) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                "the server closed the connection before it was established; its log says why".into()
            }
            _ => text::line(&error.to_string()),
        };
    };
    match failure {
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the server's certificate has expired; run `arras certificates renew` here and copy the \
             server's files to it"
                .into()
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
            "the server says that this proxy's certificate has expired; run `arras certificates renew`".into()
        }
        Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied,
        ) => format!(
            "the server does not accept this proxy's certificate ({failure}); copy the server's files of this \
             proxy's `arras init` run to it"
        ),
        // It may quote what the certificate says.
        other => text::line(&other.to_string()),
    }
}
