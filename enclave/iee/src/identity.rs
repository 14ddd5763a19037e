//! Who the enclave is to its clients: a key that it makes at each start, and a certificate of it with the evidence that binds the key.

use crate::fault::Fault;
use crate::names::{element, name_of, sequence};
use arras_keys::Key;
use arras_protocol::evidence::OID;
use arras_schemes::bisen::channel::binding;
use rustls::crypto::ring::{default_provider, sign::any_eddsa_type};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, ServerConfig, SignatureScheme};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zeroize::Zeroizing;

/// What comes before the seed of an Ed25519 key in PKCS #8 (RFC 8410, 7).
const PKCS8: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";

/// Ed25519 as an `AlgorithmIdentifier` (RFC 8410, 3).
const ED25519: &[u8] = b"\x30\x05\x06\x03\x2b\x65\x70";

/// 1970 to 9999: how long a certificate is good for, its evidence says.
const EVER: &[u8] = b"\x30\x20\x17\x0d700101000000Z\x18\x0f99991231235959Z";

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
    public: Vec<u8>,
    /// What evidence is to bind.
    pub(crate) binding: [u8; 32],
    clients: Arc<dyn ClientCertVerifier>,
    clock: Arc<Clock>,
    /// Seconds by which the clock went on, all told: what lasts goes by it, however the clock is set.
    pub(crate) elapsed: u64,
    /// How new connections are taken: none before there is evidence.
    pub(crate) config: Option<Arc<ServerConfig>>,
    /// When the newest evidence came, of [`Self::elapsed`].
    pub(crate) renewed: u64,
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
        let (clock, config) = (Arc::default(), None);
        Ok(Self { key, public, binding, clients, clock, elapsed: 0, config, renewed: 0 })
    }

    /// The host's clock says so many seconds since 1970.
    pub(crate) fn tell_time(&mut self, seconds: u64) {
        let passed = seconds.saturating_sub(self.clock.0.swap(seconds, Ordering::Relaxed));
        self.elapsed = self.elapsed.saturating_add(passed);
    }

    /// New connections get a certificate with this evidence. It is not looked at: clients judge it.
    pub(crate) fn present(&mut self, evidence: &[u8]) -> Result<(), rustls::Error> {
        let certificate = self.certificate(evidence)?;
        let key = CertifiedKey::new(vec![certificate], Arc::clone(&self.key));
        let mut config =
            ServerConfig::builder_with_details(default_provider().into(), Arc::clone(&self.clock) as _)
                .with_protocol_versions(&[&rustls::version::TLS13])?
                .with_client_cert_verifier(Arc::clone(&self.clients))
                .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        // Each connection shows its evidence and its client's certificate anew.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        self.config = Some(Arc::new(config));
        self.renewed = self.elapsed;
        Ok(())
    }

    fn certificate(&self, evidence: &[u8]) -> Result<CertificateDer<'static>, rustls::Error> {
        let name = name_of("arras-enclave");
        let extension = sequence(&[&element(0x06, &[&OID]), &element(0x04, &[evidence])]);
        let extensions = element(0xa3, &[&sequence(&[&extension])]);
        let (version, serial) = (b"\xa0\x03\x02\x01\x02", b"\x02\x01\x01");
        let signed = sequence(&[version, serial, ED25519, &name, EVER, &name, &self.public, &extensions]);
        let signer = self.key.choose_scheme(&[SignatureScheme::ED25519]);
        let signer = signer.ok_or_else(|| rustls::Error::General("no Ed25519".into()))?;
        let signature = element(0x03, &[&[0], &signer.sign(&signed)?]);
        Ok(CertificateDer::from(sequence(&[&signed, ED25519, &signature])))
    }
}
