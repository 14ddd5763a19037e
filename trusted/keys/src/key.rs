//! A secret of 32 bytes.

use arras_primitives::kdf::hkdf_sha256;
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Salt of every derivation: binds the tree to this product and to this version of the tree.
const DERIVATION_SALT: &[u8] = b"arras key tree 1";

/// A secret key of 32 bytes: a root, or a key derived from one.
///
/// It cannot be copied, compared, printed or serialised, and is wiped when dropped. Its bytes stay in one place: whoever
/// hands a key on moves a pointer, and leaves no copy behind that nobody would wipe.
pub struct Key(Box<[u8; Key::BYTES]>);

impl Zeroize for Key {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.zeroize();
    }
}

impl ZeroizeOnDrop for Key {}

impl Key {
    /// Length in bytes.
    pub const BYTES: usize = 32;

    /// Makes a key from the operating system's randomness.
    ///
    /// # Panics
    /// If the operating system has no randomness to give: nothing secret can be made then.
    #[must_use]
    pub fn generate() -> Self {
        let mut key = Self::blank();
        #[allow(clippy::expect_used, reason = "without randomness there is no safe way to go on")]
        getrandom::fill(key.0.as_mut_slice()).expect("the operating system's random generator failed");
        key
    }

    /// Takes a key out of a buffer and wipes the buffer. For keys that come from elsewhere: the keyring file,
    /// a replayed run of the lab.
    #[must_use]
    pub fn take_from(material: &mut [u8; Self::BYTES]) -> Self {
        let mut key = Self::blank();
        key.0.copy_from_slice(material);
        material.zeroize();
        key
    }

    /// Derives a key: HKDF-SHA256 of this one, with `path` as context. Parts are length-prefixed, so different
    /// paths never meet.
    ///
    /// The paths from a root are those of [`crate::Purpose`], by [`Key::child`]; call this directly only below
    /// its leaves.
    #[must_use]
    pub fn derive(&self, path: &[&[u8]]) -> Self {
        let mut key = Self::blank();
        hkdf_sha256(self.0.as_slice(), DERIVATION_SALT, path, key.0.as_mut_slice());
        key
    }

    /// The key's bytes, to be handed to a primitive at once and kept nowhere.
    #[must_use]
    pub fn expose(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// The first 16 bytes, for primitives of that size (AES-128). A key is used by [`Key::expose`] or by this,
    /// never by both.
    #[must_use]
    pub fn expose_16(&self) -> &[u8; 16] {
        let (halves, _) = self.0.as_chunks::<16>();
        &halves[0]
    }

    /// Room for a key that is written in place.
    #[cfg(feature = "keyring")]
    pub(crate) fn write_with<E>(
        write: impl FnOnce(&mut [u8; Self::BYTES]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut key = Self::blank();
        write(&mut key.0)?;
        Ok(key)
    }

    /// Where a key is about to be written.
    fn blank() -> Self {
        Self(Box::new([0; Self::BYTES]))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

#[cfg(test)]
mod tests;
