//! The channel to an enclave: TLS 1.3 (RFC 8446) with certificates on both sides. The enclave's is judged by its evidence alone, during the
//! handshake, before this client's certificate or anything else of its own is sent.

use crate::evidence::Refusal;
use crate::policy::ReleasePolicy;
use arras_protocol::evidence::{Evidence, OID};
use arras_schemes::bisen::channel::{
    ADMITTED, CROWDED, ChannelBroken, ClientChannel, REVOKED, binding, framed, unframed,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring::default_provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, OtherError,
    SignatureScheme,
};
use std::io::{Read, Write};
use std::sync::Arc;
use webpki::EndEntityCert;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Why a channel does not open, or is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The enclave is not one that the release policy accepts.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The enclave does not take this client's certificate: of another authority, ended, or of a name that is none.
    #[error("the enclave does not take this client's certificate: {0:?}")]
    NotAdmitted(AlertDescription),
    /// The administrator has revoked this client's certificate.
    #[error("this client's certificate is revoked")]
    Revoked,
    /// As many connections as one client may have are open in this client's name.
    #[error(
        "this client has as many connections to the enclave as one client may have; close some, or wait until they end"
    )]
    Crowded,
    /// What was said did not arrive as it was sent.
    #[error(transparent)]
    Broken(#[from] ChannelBroken),
    /// The other end does not speak as it should.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
}

/// What a client of enclaves has: its certificate, its administrator's authority and the release policy.
#[derive(Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
}

/// A client's own certificate.
pub struct Credentials {
    /// The administrator's authority.
    pub authority: CertificateDer<'static>,
    /// The client's certificate, which the authority signed.
    pub certificate: CertificateDer<'static>,
    /// Its private key.
    pub private: PrivateKeyDer<'static>,
}

impl Client {
    /// A client with a certificate, for enclaves that a policy accepts.
    ///
    /// # Errors
    /// Certificate and key do not belong together, or are none.
    pub fn new(credentials: Credentials, policy: ReleasePolicy) -> Result<Self, rustls::Error> {
        let provider = Arc::new(default_provider());
        let judge = Judge { policy, authority: credentials.authority, provider: Arc::clone(&provider) };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(judge))
            .with_client_auth_cert(vec![credentials.certificate], credentials.private)?;
        // Nothing is resumed: each channel shows evidence anew. And the host need not be told a name.
        config.resumption = rustls::client::Resumption::disabled();
        config.enable_sni = false;
        Ok(Self { config: Arc::new(config) })
    }

    /// The client's end of a new channel.
    ///
    /// # Errors
    /// The configuration does not do.
    pub fn channel(&self) -> Result<Channel, rustls::Error> {
        let name = ServerName::try_from("arras-enclave").map_err(|_| rustls::Error::UnsupportedNameType)?;
        let mut connection = ClientConnection::new(Arc::clone(&self.config), name)?;
        connection.set_buffer_limit(None);
        Ok(Channel { connection, admitted: false })
    }
}

/// Judges enclaves' certificates.
#[derive(Debug)]
struct Judge {
    policy: ReleasePolicy,
    authority: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl Judge {
    fn judge(&self, certificate: &CertificateDer<'_>, now: u64) -> Result<(), Refusal> {
        // The key is read as rustls reads it, which then checks that the other end has it.
        let public = EndEntityCert::try_from(certificate).map_err(|_| Refusal::Malformed)?;
        let binding = binding(&public.subject_public_key_info(), &self.authority, &self.policy.administrator);
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| Refusal::Malformed)?;
        let extension = parsed.extensions().iter().find(|extension| extension.oid.as_bytes() == OID);
        let evidence = Evidence::decode(extension.ok_or(Refusal::NoEvidence)?.value);
        self.policy.judge(&evidence.map_err(|_| Refusal::Malformed)?, &binding, now).map(drop)
    }
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let judged = self.judge(end_entity, now.as_secs());
        let refused = |refusal: Refusal| CertificateError::Other(OtherError(Arc::new(refusal)));
        judged.map(|()| ServerCertVerified::assertion()).map_err(|refusal| refused(refusal).into())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A client's end of a channel.
pub struct Channel {
    connection: ClientConnection,
    /// Whether the enclave has said that it takes this client.
    admitted: bool,
}

/// What an error of TLS is here.
fn named(error: rustls::Error) -> ChannelError {
    match &error {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) => {
            match inner.downcast_ref::<Refusal>() {
                Some(refusal) => refusal.clone().into(),
                None => ChannelError::Tls(error),
            }
        }
        rustls::Error::DecryptError | rustls::Error::InvalidMessage(_) => ChannelBroken::Altered.into(),
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::BadRecordMac
            | AlertDescription::DecodeError
            | AlertDescription::UnexpectedMessage => ChannelBroken::ReceivedAltered.into(),
            // A signature that does not hold: of another authority with the same name.
            AlertDescription::DecryptError
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied => ChannelError::NotAdmitted(*alert),
            _ => ChannelError::Tls(error),
        },
        _ => ChannelError::Tls(error),
    }
}

impl Channel {
    /// What comes out of the records in one message of the host.
    fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, ChannelError> {
        let mut plain = Vec::with_capacity(bytes.len());
        while !bytes.is_empty() {
            match self.connection.read_tls(&mut bytes) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Err(ChannelBroken::Altered.into()),
            }
            let state = self.connection.process_new_packets().map_err(named)?;
            let had = plain.len();
            plain.resize(had + state.plaintext_bytes_to_read(), 0);
            let rest = plain.get_mut(had..).unwrap_or_default();
            self.connection.reader().read_exact(rest).map_err(|_| ChannelBroken::Altered)?;
        }
        Ok(plain)
    }

    fn pending(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.connection.wants_write() && self.connection.write_tls(&mut bytes).is_ok() {}
        bytes
    }
}

impl ClientChannel for Channel {
    type Error = ChannelError;

    fn flight(&mut self) -> Vec<u8> {
        self.pending()
    }

    fn is_open(&self) -> bool {
        self.admitted
    }

    fn take(&mut self, flight: &[u8]) -> Result<(), ChannelError> {
        let opening = self.connection.is_handshaking();
        let plain = self.feed(flight)?;
        if opening {
            return if plain.is_empty() { Ok(()) } else { Err(ChannelBroken::Reframed.into()) };
        }
        match unframed(plain).ok_or(ChannelBroken::Reframed)?[..] {
            [ADMITTED] => self.admitted = true,
            [REVOKED] => return Err(ChannelError::Revoked),
            [CROWDED] => return Err(ChannelError::Crowded),
            _ => return Err(ChannelBroken::Greeting.into()),
        }
        Ok(())
    }

    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, ChannelError> {
        self.connection.writer().write_all(&framed(message)).map_err(|_| ChannelBroken::Altered)?;
        Ok(self.pending())
    }

    fn unwrap(&mut self, bytes: &[u8]) -> Result<Vec<u8>, ChannelError> {
        Ok(unframed(self.feed(bytes)?).ok_or(ChannelBroken::Reframed)?)
    }
}
