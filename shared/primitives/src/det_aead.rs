//! Deterministic authenticated encryption: AES-128-SIV (RFC 5297).
//!
//! *Leakage.* Length and equality: equal (associated data, plaintext) pairs give equal ciphertexts.

use crate::meter::{Primitive, count};
use aes_siv::KeyInit;
use aes_siv::siv::{Aes128Siv, MAX_HEADERS};
use std::fmt;
use zeroize::Zeroizing;

pub use crate::OpenError;

/// Bytes that sealing adds: the synthetic initialisation vector, which is also the tag.
pub const OVERHEAD_BYTES: usize = 16;

/// Most associated strings in one call (RFC 5297, §7).
pub const ASSOCIATED_MAX: usize = MAX_HEADERS;

/// AES-128-SIV under one material.
pub struct DetAead {
    // The crate's cipher is not shareable (its MAC state is updated in place), so each call expands afresh.
    material: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for DetAead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DetAead(..)")
    }
}

impl DetAead {
    /// Takes `material`, which must be uniform: 16 bytes for authentication, 16 for encryption.
    #[must_use]
    pub fn new(material: &[u8; 32]) -> Self {
        Self { material: Zeroizing::new(*material) }
    }

    fn cipher(&self) -> Aes128Siv {
        Aes128Siv::new(&(*self.material).into())
    }

    /// Seals `plaintext`, bound to the vector of strings `associated` (moving a byte from one string to the
    /// next changes the result). Returns the 16-byte vector, then as many bytes as the plaintext.
    ///
    /// # Panics
    ///
    /// If there are more than [`ASSOCIATED_MAX`] associated strings.
    #[must_use]
    pub fn seal(&self, associated: &[&[u8]], plaintext: &[u8]) -> Vec<u8> {
        let mut sealed = vec![0; OVERHEAD_BYTES];
        sealed.extend_from_slice(plaintext);
        let (vector, body) = sealed.split_at_mut(OVERHEAD_BYTES);
        vector.copy_from_slice(&self.seal_in_place(associated, body));
        sealed
    }

    /// The 16 bytes that would lead the sealed form: a MAC of (`associated`, `plaintext`), and what a
    /// unique index stores in place of the value.
    ///
    /// # Panics
    ///
    /// If there are more than [`ASSOCIATED_MAX`] associated strings.
    #[must_use]
    pub fn tag(&self, associated: &[&[u8]], plaintext: &[u8]) -> [u8; 16] {
        self.seal_in_place(associated, &mut plaintext.to_vec())
    }

    fn seal_in_place(&self, associated: &[&[u8]], body: &mut [u8]) -> [u8; 16] {
        count(Primitive::Symmetric, 1);
        assert!(associated.len() <= ASSOCIATED_MAX, "too many associated strings");
        self.cipher()
            .encrypt_inout_detached(associated, body.into())
            .expect("fails only on too many associated strings")
            .into()
    }

    /// Opens what [`DetAead::seal`] returned.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if `sealed` was not made with this material and these associated strings, or was
    /// altered.
    pub fn open(&self, associated: &[&[u8]], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        count(Primitive::Symmetric, 1);
        let (vector, body) = sealed.split_first_chunk::<OVERHEAD_BYTES>().ok_or(OpenError)?;
        let mut plaintext = body.to_vec();
        self.cipher()
            .decrypt_inout_detached(associated, plaintext.as_mut_slice().into(), &(*vector).into())
            .map_err(|_| OpenError)?;
        Ok(plaintext)
    }
}

#[cfg(test)]
mod tests;
