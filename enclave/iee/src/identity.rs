//! Who the enclave is to its clients: a key that it makes at each start. The certificate of it is the host's work, with evidence that
//! binds the key.

use crate::fault::Fault;
use arras_keys::Key;
use arras_schemes::bisen::channel::binding;
use rustls::crypto::ring::{default_provider, sign::any_eddsa_type};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, ServerConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zeroize::Zeroizing;

/// What comes before the seed of an Ed25519 key in PKCS #8 (RFC 8410, 7).
const PKCS8: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";

/// The host's clock. A host that stops it, or sets it back, has clients' certificates live longer; one that was wrong is right again.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(Ordering::Relaxed))))
    }
}

/// The enclave's key, and whom it takes.
pub(crate) struct Identity {
    key: Arc<dyn SigningKey>,
    pub(crate) public: Vec<u8>,
    /// What evidence is to bind.
    pub(crate) binding: [u8; 32],
    clients: Arc<dyn ClientCertVerifier>,
    clock: Arc<Clock>,
    /// How new connections are taken: none before there is a certificate.
    pub(crate) config: Option<Arc<ServerConfig>>,
}

impl Identity {
    /// A new key, for clients of an authority (DER).
    pub(crate) fn new(authority: &[u8], administrator: &str) -> Result<Self, Fault> {
        let pkcs8 = Zeroizing::new([PKCS8, Key::generate().expose()].concat());
        let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(&pkcs8[..])).map_err(|_| Fault::Authority)?;
        let public = key.public_key().ok_or(Fault::Authority)?.to_vec();
        let mut authorities = RootCertStore::empty();
        authorities.add(CertificateDer::from(authority)).map_err(|_| Fault::Authority)?;
        let clients =
            WebPkiClientVerifier::builder_with_provider(authorities.into(), default_provider().into())
                .build()
                .map_err(|_| Fault::Authority)?;
        let binding = binding(&public, authority, administrator);
        Ok(Self { key, public, binding, clients, clock: Arc::default(), config: None })
    }

    /// The host's clock says so many seconds since 1970.
    pub(crate) fn tell_time(&self, seconds: u64) {
        self.clock.0.store(seconds, Ordering::Relaxed);
    }

    /// Whether there is a certificate.
    pub(crate) fn is_shown(&self) -> bool {
        self.config.is_some()
    }

    /// New connections get this certificate. It is not looked at: clients judge its evidence, which binds the key, and see in the
    /// handshake that the key is here.
    pub(crate) fn present(&mut self, certificate: Vec<u8>) -> Result<(), Fault> {
        let key = CertifiedKey::new(vec![certificate.into()], Arc::clone(&self.key));
        let mut config =
            ServerConfig::builder_with_details(default_provider().into(), Arc::clone(&self.clock) as _)
                .with_protocol_versions(&[&rustls::version::TLS13])
                .map_err(|_| Fault::OutOfTurn)?
                .with_client_cert_verifier(Arc::clone(&self.clients))
                .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        // Each connection shows its evidence and its client's certificate anew.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        self.config = Some(Arc::new(config));
        Ok(())
    }
}
