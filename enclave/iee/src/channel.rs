//! The enclave's end of a client's channel: who speaks, and what it says.

use crate::identity::Identity;
use crate::names::common_name;
use arras_schemes::bisen::channel::{ChannelBroken, Plain, framed, unframed};
use rustls::ServerConnection;
use rustls::pki_types::CertificateDer;
use std::io::Read;
use webpki::EndEntityCert;

/// Which channels the enclave takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// TLS 1.3 that ends in here, under a key that evidence binds; clients have certificates of the administrator's authority.
    Attested {
        /// Whether the enclave runs without its walls: what its evidence then says, so that clients can refuse it.
        debug: bool,
    },
    /// Without protection: for tests and the laboratory. The host reads and alters what clients say, and clients are who they say
    /// they are.
    Plain,
}

/// A client, as its certificate has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    /// Its name: the certificate's one common name.
    pub(crate) name: String,
    /// The certificate's serial number.
    pub(crate) serial: Vec<u8>,
}

/// One client's.
pub(crate) enum Channel {
    /// Nothing has come yet on a channel without protection.
    New,
    Plain(Plain),
    Tls(Box<ServerConnection>),
}

/// What a client's bytes were.
pub(crate) enum Said {
    /// A part of the handshake.
    Nothing,
    Client(Named),
    Message(Vec<u8>),
}

impl Channel {
    /// A channel by the identity that the enclave has; without one, a plain one.
    pub(crate) fn open(identity: Option<&Identity>) -> Option<Self> {
        let Some(identity) = identity else { return Some(Self::New) };
        let mut connection = ServerConnection::new(identity.config.clone()?).ok()?;
        // What is written is taken at once.
        connection.set_buffer_limit(None);
        Some(Self::Tls(Box::new(connection)))
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<Said, ChannelBroken> {
        match self {
            Self::New => {
                let name = Plain::greeted(bytes)?;
                *self = Self::Plain(Plain::default());
                Ok(Said::Client(Named { name, serial: Vec::new() }))
            }
            Self::Plain(plain) => plain.unwrap(bytes).map(|message| Said::Message(message.to_vec())),
            Self::Tls(connection) => receive(connection, bytes),
        }
    }

    /// Says whether a client is taken, where channels can say it.
    pub(crate) fn admit(&mut self, admission: u8) -> Vec<u8> {
        match self {
            Self::New | Self::Plain(_) => Vec::new(),
            Self::Tls(_) => self.wrap(&[admission]),
        }
    }

    pub(crate) fn wrap(&mut self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::New => Vec::new(),
            Self::Plain(plain) => plain.wrap(message),
            Self::Tls(connection) => {
                // Neither fails: there is no limit, and the bytes go to memory.
                let _ = std::io::Write::write_all(&mut connection.writer(), &framed(message));
                self.pending()
            }
        }
    }

    /// What the channel itself has to say: of the handshake, or why it ends.
    pub(crate) fn pending(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Self::Tls(connection) = self {
            while connection.wants_write() && connection.write_tls(&mut bytes).is_ok() {}
        }
        bytes
    }
}

/// Takes what is in one message of the host: flights of a handshake, or one whole message of the client's.
fn receive(connection: &mut ServerConnection, mut bytes: &[u8]) -> Result<Said, ChannelBroken> {
    let opening = connection.is_handshaking();
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        match connection.read_tls(&mut bytes) {
            Ok(1..) => {}
            // The client has said that it is done, or what comes is too long for a record.
            Ok(0) | Err(_) => return Err(ChannelBroken::Altered),
        }
        let state = connection.process_new_packets().map_err(|_| ChannelBroken::Altered)?;
        let had = plain.len();
        plain.resize(had + state.plaintext_bytes_to_read(), 0);
        connection.reader().read_exact(&mut plain[had..]).map_err(|_| ChannelBroken::Altered)?;
    }
    match (opening, connection.is_handshaking(), plain.is_empty()) {
        (true, true, true) => Ok(Said::Nothing),
        (true, false, true) => {
            let certificate = connection.peer_certificates().and_then(|chain| chain.first());
            certificate.and_then(named).map(Said::Client).ok_or(ChannelBroken::Greeting)
        }
        (true, _, false) => Err(ChannelBroken::Reframed),
        (false, ..) => unframed(plain).map(Said::Message),
    }
}

fn named(certificate: &CertificateDer<'_>) -> Option<Named> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let name = common_name(certificate.subject())?;
    Some(Named { name, serial: certificate.serial().to_vec() })
}
