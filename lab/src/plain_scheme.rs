//! The identity as an order-preserving "encryption": the baseline of the B+ tree. Here and not in the client, which
//! encrypts.

use arras_primitives::prg::Prg;
use arras_protocol::bplus::TieToken;
use arras_protocol::ore::{Scheme, Width};
use arras_schemes::OpenFailed;
use arras_schemes::ore::domain::{key_plaintext, plaintext_key};
use arras_schemes::ore::{EncryptFailed, Encrypted, End, OrderScheme};

/// No encryption.
#[derive(Clone, Copy, Debug)]
pub struct PlainScheme(pub Width);

impl PlainScheme {
    fn encode(self, value: u64) -> Result<Vec<u8>, EncryptFailed> {
        if value > self.0.greatest() {
            Err(EncryptFailed::OutsideDomain)
        } else {
            Ok(plaintext_key(self.0, value))
        }
    }
}

impl OrderScheme for PlainScheme {
    fn scheme(&self) -> Scheme {
        Scheme::Plain(self.0)
    }

    fn encrypt(&mut self, value: u64, _prg: &mut Prg) -> Result<Encrypted, EncryptFailed> {
        let stored = self.encode(value)?;
        Ok(Encrypted { query: stored.clone(), stored, replaced: Vec::new() })
    }

    fn bound(&self, value: u64, _end: End, _prg: &mut Prg) -> Result<Vec<u8>, EncryptFailed> {
        self.encode(value)
    }

    fn tie(&self, _: u64) -> Option<TieToken> {
        None
    }

    fn decrypt(&self, stored: &[u8]) -> Result<u64, OpenFailed> {
        key_plaintext(self.0, stored).ok_or(OpenFailed)
    }
}
