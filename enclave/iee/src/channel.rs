//! The enclave's end of a client's channel: who speaks, and what it says.

use crate::identity::Identity;
use crate::names::common_name;
use arras_schemes::bisen::channel::{EnclaveChannel, Named, Said, framed, unframed};
use rustls::ServerConnection;
use rustls::pki_types::CertificateDer;
use std::io::Read;
use webpki::EndEntityCert;

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
    /// None before there is a certificate.
    pub(crate) fn open(identity: &Identity) -> Option<Self> {
        let mut connection = ServerConnection::new(identity.config.clone()?).ok()?;
        // What is written is taken at once.
        connection.set_buffer_limit(None);
        Some(Self(Box::new(connection)))
    }
}

impl EnclaveChannel for Tls {
    fn receive(&mut self, bytes: &[u8]) -> Option<Said> {
        receive(&mut self.0, bytes)
    }

    fn admit(&mut self, admission: u8) -> Vec<u8> {
        self.wrap(&[admission])
    }

    fn wrap(&mut self, message: &[u8]) -> Vec<u8> {
        // Neither fails: there is no limit, and the bytes go to memory.
        let _ = std::io::Write::write_all(&mut self.0.writer(), &framed(message));
        self.pending()
    }

    fn pending(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.0.wants_write() && self.0.write_tls(&mut bytes).is_ok() {}
        bytes
    }
}

/// Takes what is in one message of the host: flights of a handshake, or one whole message of the client's.
fn receive(connection: &mut ServerConnection, mut bytes: &[u8]) -> Option<Said> {
    let opening = connection.is_handshaking();
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        match connection.read_tls(&mut bytes) {
            Ok(1..) => {}
            // The client has said that it is done, or what comes is too long for a record.
            Ok(0) | Err(_) => return None,
        }
        let state = connection.process_new_packets().ok()?;
        let had = plain.len();
        plain.resize(had + state.plaintext_bytes_to_read(), 0);
        connection.reader().read_exact(&mut plain[had..]).ok()?;
    }
    match (opening, connection.is_handshaking(), plain.is_empty()) {
        (true, true, true) => Some(Said::Nothing),
        (true, false, true) => {
            let certificate = connection.peer_certificates().and_then(|chain| chain.first());
            certificate.and_then(named).map(Said::Client)
        }
        (true, _, false) => None,
        (false, ..) => unframed(plain).map(Said::Message),
    }
}

fn named(certificate: &CertificateDer<'_>) -> Option<Named> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let name = common_name(certificate.subject())?;
    Some(Named { name, serial: certificate.serial().to_vec() })
}
