//! Who may connect to the proxy, and how.

use crate::scram::Verifier;
use arras_transport::tls::{self, FileError, VERSIONS, provider};
use rand::Rng;
use rustls::ServerConfig;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;

/// Who may connect, and how.
pub struct Access {
    /// With it, TLS is spoken, and asked of whoever is on another machine.
    pub(crate) tls: Option<Acceptor>,
    /// Whoever can reach the listener is let in if there are none.
    pub(crate) users: Option<Users>,
    /// Makes the salt that is shown for a user that there is not.
    pub(crate) mask: [u8; 32],
}

impl Access {
    /// Lets these users in, or whoever can reach the listener if there are none.
    #[must_use]
    pub fn new(users: Option<Users>, tls: Option<Acceptor>) -> Self {
        let mut mask = [0; 32];
        rand::rng().fill_bytes(&mut mask);
        Self { tls, users, mask }
    }
}

/// Users, and what their passwords are checked by.
#[derive(Clone, Default)]
pub struct Users {
    verifiers: HashMap<String, Verifier>,
    peers: HashMap<String, u32>,
}

impl Users {
    /// Adds a user; false if it is there already.
    pub fn add(&mut self, name: String, verifier: Verifier) -> bool {
        self.verifiers.insert(name, verifier).is_none()
    }

    /// Lets an operating system's user in as a user, without a password, by a socket of this machine: PostgreSQL's `peer`. False if
    /// another is let in so already.
    pub fn add_peer(&mut self, name: String, number: u32) -> bool {
        self.peers.insert(name, number).is_none()
    }

    /// Is who comes by a socket of this machine let in as that user?
    pub(crate) fn is_peer(&self, name: &str, number: Option<u32>) -> bool {
        number.is_some() && self.peers.get(name).copied() == number
    }

    pub(crate) fn verifier(&self, name: &str) -> Option<Verifier> {
        self.verifiers.get(name).cloned()
    }
}

/// Begins TLS with clients, by a certificate that can be read again.
pub struct Acceptor {
    config: RwLock<Arc<ServerConfig>>,
}

impl Acceptor {
    /// Reads a certificate's chain and its key, PEM both.
    ///
    /// # Errors
    /// [`FileError`], naming the file.
    pub fn read(certificate: &Path, private: &Path) -> Result<Self, FileError> {
        Ok(Self { config: RwLock::new(config(certificate, private)?) })
    }

    pub(crate) fn current(&self) -> TlsAcceptor {
        // Nothing panics while it is held.
        TlsAcceptor::from(Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn config(certificate: &Path, private: &Path) -> Result<Arc<ServerConfig>, FileError> {
    let chain = tls::certificates(certificate)?;
    let key = tls::private_key(private)?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(VERSIONS)
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| FileError::of(certificate, &error))?;
    // PostgreSQL's registered name: libpq asks for it, and begins TLS unasked only where it is there.
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(Arc::new(config))
}
