//! Randomised authenticated encryption: AES-256-GCM-SIV (RFC 8452).
//!
//! *Leakage.* The plaintext's length. If a nonce repeats under one material, also whether the two
//! (associated data, plaintext) pairs are equal; nothing else is lost (misuse resistance).
//!
//! *Parameters.* A key hierarchy that seals more than 2^32 messages with random nonces should derive fresh
//! material: RFC 8452, §9 gives the bounds.

use crate::meter::{Primitive, count};
use aes_gcm_siv::aead::{AeadInOut, KeyInit};
use aes_gcm_siv::{Aes256GcmSiv, Nonce, Tag};
use std::fmt;

pub use crate::OpenError;

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 12;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// Bytes that sealing adds: nonce and tag.
pub const OVERHEAD_BYTES: usize = NONCE_BYTES + TAG_BYTES;

/// AES-256-GCM-SIV under one material.
pub struct Aead {
    cipher: Aes256GcmSiv,
}

impl fmt::Debug for Aead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Aead(..)")
    }
}

impl Aead {
    /// Expands `material`, which must be uniform.
    #[must_use]
    pub fn new(material: &[u8; 32]) -> Self {
        Self { cipher: Aes256GcmSiv::new(&(*material).into()) }
    }

    /// Seals `plaintext`, bound to `associated`. Returns nonce, ciphertext, tag:
    /// [`OVERHEAD_BYTES`] more than the plaintext.
    ///
    /// # Panics
    ///
    /// If plaintext or associated data exceed the cipher's limit of 2^36 bytes.
    #[must_use]
    pub fn seal(&self, nonce: &[u8; NONCE_BYTES], associated: &[u8], plaintext: &[u8]) -> Vec<u8> {
        count(Primitive::Symmetric, 1);
        let mut sealed = Vec::with_capacity(plaintext.len() + OVERHEAD_BYTES);
        sealed.extend_from_slice(nonce);
        sealed.extend_from_slice(plaintext);
        let body = &mut sealed[NONCE_BYTES..];
        let tag = self
            .cipher
            .encrypt_inout_detached(&Nonce::from(*nonce), associated, body.into())
            .expect("below the cipher's limit of 2^36 bytes");
        sealed.extend_from_slice(&tag);
        sealed
    }

    /// Opens what [`Aead::seal`] returned.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if `sealed` was not made with this material and this associated data, or was altered.
    pub fn open(&self, associated: &[u8], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        count(Primitive::Symmetric, 1);
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(OpenError)?;
        let (body, tag) = rest.split_last_chunk::<TAG_BYTES>().ok_or(OpenError)?;
        let mut plaintext = body.to_vec();
        self.cipher
            .decrypt_inout_detached(
                &Nonce::from(*nonce),
                associated,
                plaintext.as_mut_slice().into(),
                &Tag::from(*tag),
            )
            .map_err(|_| OpenError)?;
        Ok(plaintext)
    }
}

#[cfg(test)]
mod tests;
