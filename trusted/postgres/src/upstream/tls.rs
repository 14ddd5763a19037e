//! Whom TLS to the database believes.

use arras_transport::tls::{VERSIONS, authorities, provider};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What of a certificate is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// Its authority, its dates and the name in it: libpq's `verify-full`.
    Name,
    /// Not the name: `verify-ca`.
    Authority,
    /// Nothing but that the server has its key: `require`. Whoever is between can pass for the server.
    Nothing,
}

/// Whose certificates are believed.
#[derive(Clone, Debug)]
pub(super) enum Authorities {
    /// Those that the operating system believes.
    System,
    /// Those in a file.
    File(PathBuf),
}

/// Where operating systems keep the authorities that they believe, the first there is.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The configuration; what is wrong, as text, if there is none.
pub(super) fn config(judged: Judged, from: &Authorities) -> Result<Arc<ClientConfig>, String> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(VERSIONS)
        .map_err(|error| error.to_string())?;
    let roots = || roots(from).map(Arc::new);
    let config = match judged {
        Judged::Name => builder.with_root_certificates(roots()?),
        Judged::Authority => {
            let judge = WebPkiServerVerifier::builder_with_provider(roots()?, provider)
                .build()
                .map_err(|error| error.to_string())?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyName(judge)))
        }
        Judged::Nothing => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider))),
    };
    Ok(Arc::new(config.with_no_client_auth()))
}

fn roots(from: &Authorities) -> Result<RootCertStore, String> {
    match from {
        Authorities::File(path) => authorities(path).map_err(|error| error.to_string()),
        Authorities::System => {
            let there = SYSTEM_FILES.into_iter().map(Path::new).find(|path| path.exists());
            let path = there.ok_or("no file of authorities on this system; name one by sslrootcert=FILE")?;
            authorities(path).map_err(|error| format!("{error}; name a file by sslrootcert=FILE"))
        }
    }
}

/// Any name will do.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(own, between, name, stapled, now) {
            // The name is judged last, once the chain is known to hold.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Any certificate will do whose key the server has.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
