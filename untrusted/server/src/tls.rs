//! Who may connect: TLS 1.3 with certificates on both sides.
//!
//! Accepted is a client certificate that (1) is signed by the deployment's own certificate authority, (2) is
//! made for client authentication, (3) is within its dates, and (4) carries the DNS name
//! [`PROXY_NAME`]. So the server's own certificate, stolen from here, opens no connection to another server.

use arras_certificates::Reloading;
use arras_protocol::hello::{PROXY_NAME, SERVER_NAME};
use arras_protocol::text;
use arras_transport::tls::{self, FileError, VERSIONS, provider};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    AlertDescription, CertificateError, DigitallySignedStruct, DistinguishedName, ServerConfig,
    SignatureScheme,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the server's certificates are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificatePaths {
    /// The deployment's certificate authority, PEM.
    pub authority: PathBuf,
    /// The server's certificate, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub private: PathBuf,
}

impl CertificatePaths {
    /// The names `arras init` gives them in the directory it makes for the server.
    #[must_use]
    pub fn in_directory(directory: &Path) -> Self {
        Self {
            authority: directory.join("ca.pem"),
            certificate: directory.join("server.pem"),
            private: directory.join("server.key"),
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
    #[error("{0}; copy the directory that `arras init` made for the server here again")]
    File(#[from] FileError),
    /// The private key's file is not there, or others may read it.
    #[error("{0}")]
    Key(FileError),
    /// The parts do not fit together.
    #[error(
        "the certificates do not fit together ({0}); copy all files of one `arras init` or `arras certificates renew` run"
    )]
    Unfit(String),
    /// No proxy would accept the certificate.
    #[error("{0}; copy the directory `server` of the last `arras certificates renew` here")]
    Unacceptable(FileError),
}

/// Reads the certificates, and again when [`Reloading::look`] finds the files changed: then only such as proxies of the
/// authority beside them accept today, so that files which are half replaced change nothing.
///
/// # Errors
/// [`TlsError`], naming the file.
pub fn reloading(paths: &CertificatePaths) -> Result<Reloading<ServerConfig>, TlsError> {
    let files = vec![paths.authority.clone(), paths.certificate.clone(), paths.private.clone()];
    let again = paths.clone();
    Reloading::open(
        files,
        || server_config(paths),
        move || {
            let config = server_config(&again)?;
            require_acceptable(&again)?;
            Ok(config)
        },
    )
}

/// Judges the server's own certificate as a proxy does that goes by the authority beside it.
fn require_acceptable(paths: &CertificatePaths) -> Result<(), TlsError> {
    let unacceptable =
        |error: &dyn std::fmt::Display| TlsError::Unacceptable(FileError::of(&paths.certificate, error));
    let authorities = Arc::new(tls::authorities(&paths.authority)?);
    let judge = WebPkiServerVerifier::builder_with_provider(authorities, provider())
        .build()
        .map_err(|error| unacceptable(&error))?;
    let chain = tls::certificates(&paths.certificate)?;
    let Some((own, between)) = chain.split_first() else { return Ok(()) };
    let name = ServerName::try_from(SERVER_NAME).map_err(|error| unacceptable(&error))?;
    judge
        .verify_server_cert(own, between, &name, &[], UnixTime::now())
        .map_err(|error| unacceptable(&arras_certificates::judged(&error)))?;
    Ok(())
}

/// Reads the certificates and makes the server's TLS configuration.
///
/// # Errors
/// [`TlsError`], naming the file.
pub fn server_config(paths: &CertificatePaths) -> Result<Arc<ServerConfig>, TlsError> {
    let authorities = Arc::new(tls::authorities(&paths.authority)?);
    let chain = tls::certificates(&paths.certificate)?;
    arras_storage::private::require_closed(&paths.private)
        .map_err(|error| TlsError::Key(FileError::of(&paths.private, &error)))?;
    let private = tls::private_key(&paths.private)?;
    let provider = provider();
    let chained = WebPkiClientVerifier::builder_with_provider(authorities, Arc::clone(&provider))
        .build()
        .map_err(|error| FileError::of(&paths.authority, &error))?;
    let name = ServerName::try_from(PROXY_NAME).map_err(|error| TlsError::Unfit(error.to_string()))?;
    let unfit = |error: rustls::Error| TlsError::Unfit(error.to_string());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(VERSIONS)
        .map_err(unfit)?
        .with_client_cert_verifier(Arc::new(ProxyOnly { chained, name }))
        .with_single_cert(chain, private)
        .map_err(unfit)?;
    // Every connection shows its certificate anew: a resumed one would outlive a renewed authority.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// The authority's verdict, and the name on top.
#[derive(Debug)]
struct ProxyOnly {
    chained: Arc<dyn ClientCertVerifier>,
    name: ServerName<'static>,
}

impl ClientCertVerifier for ProxyOnly {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chained.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.chained.verify_client_cert(end_entity, intermediates, now)?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, &self.name)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chained.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chained.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chained.supported_verify_schemes()
    }
}

/// A failed handshake, in words for the log.
pub(crate) fn describe_handshake_failure(error: &io::Error) -> String {
    use rustls::Error;
    let Some(failure) = tls::failure(error) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => "the client closed the connection during the handshake".into(),
            _ => text::line(&error.to_string()),
        };
    };
    match failure {
        Error::NoCertificatesPresented => "the client showed no certificate".into(),
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the client's certificate has expired; renew it where the proxy runs".into()
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "the client's certificate is of another certificate authority".into()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => format!("the client's certificate is not for the name {PROXY_NAME}"),
        Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        ) => "the client's certificate is not made for clients".into(),
        Error::InvalidMessage(_) => "the client does not speak TLS".into(),
        Error::PeerIncompatible(_) => "the client does not speak TLS 1.3".into(),
        Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError,
        ) => format!("the client does not accept this server's certificate ({failure})"),
        // It may quote what the certificate says.
        other => text::line(&other.to_string()),
    }
}
