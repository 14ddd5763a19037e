//! The enclave's end of a client's channel: who it is, who speaks, and what is said.
//!
//! The enclave's key is made at each start. The certificate of it is the host's work, with evidence that binds the key.

use arras_keys::Key;
use arras_protocol::Blob;
use arras_protocol::iee::{Fault, IDENTITY_BYTES_MAX};
use arras_schemes::bisen::channel::{EnclaveChannel, Named, Said, binding, framed, unframed};
use rustls::crypto::ring::{default_provider, sign::any_eddsa_type};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use webpki::EndEntityCert;
use zeroize::Zeroizing;

/// Which channels the enclave takes.
#[derive(Clone, Copy, Debug)]
pub enum Channels {
    /// TLS 1.3 that ends in here, under a key that evidence binds; clients have certificates of the administrator's authority.
    Attested {
        /// Whether the enclave runs without its walls: what its evidence then says, so that clients can refuse it.
        debug: bool,
    },
    /// Others: for tests and the laboratory, which bring them along.
    Other(fn() -> Box<dyn EnclaveChannel>),
}

/// One that ends in here.
pub(crate) struct Tls(Box<ServerConnection>);

impl Tls {
    /// At this time of the host's; none before there is a certificate.
    pub(crate) fn open(identity: &Identity, seconds: u64) -> Option<Self> {
        identity.clock.0.store(seconds, Ordering::Relaxed);
        let mut connection = ServerConnection::new(identity.config.clone()?).ok()?;
        // What is written is taken at once.
        connection.set_buffer_limit(None);
        Some(Self(Box::new(connection)))
    }
}

impl EnclaveChannel for Tls {
    /// Takes what is in one message of the host: flights of a handshake, or one whole message of the client's.
    fn receive(&mut self, mut bytes: &[u8]) -> Option<Said> {
        let (connection, mut plain) = (&mut self.0, Vec::new());
        let opening = connection.is_handshaking();
        while !bytes.is_empty() {
            // None if the client has said that it is done, or what comes is too long for a record.
            connection.read_tls(&mut bytes).ok().filter(|read| *read > 0)?;
            let state = connection.process_new_packets().ok()?;
            let had = plain.len();
            plain.resize(had + state.plaintext_bytes_to_read(), 0);
            connection.reader().read_exact(&mut plain[had..]).ok()?;
        }
        match (opening, connection.is_handshaking(), plain.is_empty()) {
            (true, true, true) => Some(Said::Nothing),
            (true, false, true) => named(connection.peer_certificates()?.first()?).map(Said::Client),
            (true, _, false) => None,
            (false, ..) => unframed(plain).map(Said::Message),
        }
    }

    fn send(&mut self, message: &[u8]) {
        // It does not fail: there is no limit.
        let _ = self.0.writer().write_all(&framed(message));
    }

    fn pending(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.0.wants_write() && self.0.write_tls(&mut bytes).is_ok() {}
        bytes
    }
}

fn named(certificate: &CertificateDer<'_>) -> Option<Named> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let name = common_name(certificate.subject())?;
    Some(Named { name, serial: certificate.serial().to_vec() })
}

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
    clients: Arc<dyn ClientCertVerifier>,
    clock: Arc<Clock>,
    /// How new connections are taken: none before there is a certificate.
    pub(crate) config: Option<Arc<ServerConfig>>,
}

impl Identity {
    /// A new key, for clients of an authority (DER); its public half, and what evidence is to bind.
    pub(crate) fn new(authority: &[u8], administrator: &str) -> Result<(Self, Blob, [u8; 32]), Fault> {
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
        Ok((Self { key, clients, clock: Arc::default(), config: None }, Blob(public), binding))
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

/// The name in a certificate's subject (the content of its sequence), which is one common name and nothing else, so short that lengths in
/// it (DER, ITU-T X.690) are bytes.
fn common_name(subject: &[u8]) -> Option<String> {
    // A set of one sequence: `id-at-commonName` and a UTF-8 or printable string.
    let [0x31, set, 0x30, part, 0x06, 3, 0x55, 4, 3, 0x0c | 0x13, length, name @ ..] = subject else {
        return None;
    };
    let lengths = [9, 7, 0].map(|before| before + name.len());
    let fits = lengths == [set, part, length].map(|length| usize::from(*length));
    let name = String::from_utf8(name.to_vec()).ok()?;
    (fits && (1..=IDENTITY_BYTES_MAX).contains(&name.len())).then_some(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// An element of a tag with a content of less than 128 bytes.
    fn element(tag: u8, content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        [&[tag, content.len() as u8], &content[..]].concat()
    }

    /// A part of a name: the last byte of its kind's identifier, its string's tag, and the string.
    fn part(kind: u8, tag: u8, name: &str) -> Vec<u8> {
        let kind = element(0x06, &[&[0x55, 0x04, kind]]);
        element(0x31, &[&element(0x30, &[&kind, &element(tag, &[name.as_bytes()])])])
    }

    #[test]
    fn the_one_common_name_is_read() {
        for length in [1, 64, IDENTITY_BYTES_MAX] {
            let name = "n".repeat(length);
            for tag in [0x0c, 0x13] {
                assert_eq!(common_name(&part(3, tag, &name)).unwrap(), name);
            }
        }
        let (one, organisation) = (part(3, 0x0c, "ada"), part(10, 0x0c, "eve"));
        let joined = element(0x31, &[&one[2..], &part(3, 0x0c, "eve")[2..]]);
        let mut wrong = vec![
            [&one[..], &part(3, 0x0c, "eve")].concat(),
            [&organisation[..], &one].concat(),
            [&one[..], &organisation].concat(),
            joined,
            part(3, 0x0c, ""),
            part(3, 0x0c, &"n".repeat(IDENTITY_BYTES_MAX + 1)),
            part(3, 0x16, "ada"),
            one[..8].to_vec(),
            organisation,
            vec![],
        ];
        // No length may say another thing than the bytes.
        for at in [1, 3, 10] {
            for more in [1, 255] {
                let mut other = one.clone();
                other[at] = other[at].wrapping_add(more);
                wrong.push(other);
            }
        }
        for wrong in wrong {
            assert_eq!(common_name(&wrong), None, "{wrong:?}");
        }
        assert_eq!(common_name(&[&one[..11], b"\xff\xff\xff"].concat()), None);
    }
}
