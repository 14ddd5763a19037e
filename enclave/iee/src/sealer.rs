//! Sealing of the state: records of the log, pieces of checkpoints.

use crate::fault::Fault;
use arras_keys::Key;
use arras_primitives::aead::{Aead, NONCE_BYTES};
use arras_primitives::prg::Prg;
use arras_protocol::codec;
use arras_schemes::padding::{pad_in_proportion, unpad};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Seals what is kept under one purpose.
pub(crate) struct Sealer {
    aead: Aead,
    /// Lengths are multiples of so many bytes, or of an eighth of themselves.
    step: usize,
}

impl Sealer {
    pub(crate) fn new(root: &Key, purpose: &[u8], step: usize) -> Self {
        Self { aead: Aead::new(root.derive(&[b"bisen", purpose]).expose()), step }
    }

    pub(crate) fn seal<T: Serialize>(&self, content: &T, associated: &[u8], prg: &mut Prg) -> Vec<u8> {
        let mut nonce = [0; NONCE_BYTES];
        prg.fill(&mut nonce);
        self.aead.seal(&nonce, associated, &pad_in_proportion(codec::encode(content), self.step))
    }

    /// [`Fault::StateAltered`] if it was not sealed here for this place.
    pub(crate) fn open<T: DeserializeOwned>(&self, associated: &[u8], sealed: &[u8]) -> Result<T, Fault> {
        let padded = self.aead.open(associated, sealed).map_err(|_| Fault::StateAltered)?;
        let content = unpad(&padded).map_err(|_| Fault::StateAltered)?;
        codec::decode(content).map_err(|_| Fault::StateAltered)
    }
}
