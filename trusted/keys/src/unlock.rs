//! What unlocks a keyring: a passphrase, or a key file.

use crate::error::KeyringError;
use crate::files;
use crate::key::Key;
use argon2::{Algorithm, Argon2, Block, Params, Version};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// A passphrase: not printable, wiped when dropped.
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// Takes the passphrase as typed or as read from where the administrator keeps it.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// True if there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The words themselves, to be used at once.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Stretches the passphrase with Argon2id.
    pub(crate) fn stretch(&self, cost: Cost, salt: &[u8]) -> Result<Key, KeyringError> {
        let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(Key::BYTES))
            .map_err(|error| KeyringError::Cost(error.to_string()))?;
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        // The library would not wipe memory of its own.
        let mut blocks = Zeroizing::new(vec![Block::default(); argon2.params().block_count()]);
        let words = self.0.as_bytes();
        let blocks = blocks.as_mut_slice();
        Key::write_with(|out| argon2.hash_password_into_with_memory(words, salt, out, blocks))
            .map_err(|error| KeyringError::Cost(error.to_string()))
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(secret)")
    }
}

/// What opens a keyring. Consumed by the one use.
#[derive(Debug)]
pub enum Unlock {
    /// A file of 32 random bytes in hexadecimal, kept apart from the keyring (a mounted secret, a hardware
    /// token's file system). Made by [`create_key_file`].
    KeyFile(PathBuf),
    /// Something a person knows.
    Passphrase(Passphrase),
}

/// What guessing a passphrase costs: Argon2id's parameters (RFC 9106).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Memory, in KiB.
    pub memory_kib: u32,
    /// Passes over the memory.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

impl Cost {
    /// For new keyrings: 64 MiB, 3 passes, one lane; about 0.1 s on a server's core.
    pub const DEFAULT: Self = Self { memory_kib: 64 * 1024, passes: 3, lanes: 1 };

    /// The least a keyring may be opened with, so that a weak file is not mistaken for a sound one.
    pub const MINIMUM: Self = Self { memory_kib: 19 * 1024, passes: 2, lanes: 1 };

    /// The most: a damaged file must not exhaust the machine.
    pub const MAXIMUM: Self = Self { memory_kib: 4 * 1024 * 1024, passes: 64, lanes: 16 };

    /// True if no parameter is below its counterpart in `least`.
    pub(crate) fn is_at_least(self, least: Self) -> bool {
        self.memory_kib >= least.memory_kib && self.passes >= least.passes && self.lanes >= least.lanes
    }
}

/// Writes a new key file: 32 random bytes as one line of hexadecimal, readable by its owner only.
///
/// # Errors
/// [`KeyringError::Exists`] if there is a file at `path`, [`KeyringError::Io`] if it cannot be written.
pub fn create_key_file(path: &Path) -> Result<(), KeyringError> {
    let digits = Zeroizing::new(files::to_hex(Key::generate().expose()));
    // Room for all of it at once: a growing string would leave a copy of the digits behind.
    let mut line = Zeroizing::new(String::with_capacity(digits.len() + 1));
    line.push_str(&digits);
    line.push('\n');
    files::create(path, line.as_bytes())
}

/// Reads a key file.
pub(crate) fn read_key_file(path: &Path) -> Result<Key, KeyringError> {
    let text = Zeroizing::new(files::read_private(path)?);
    let text = std::str::from_utf8(&text).unwrap_or_default();
    let bytes = Zeroizing::new(files::from_hex(text.trim_end_matches(['\n', '\r'])).unwrap_or_default());
    let Ok(material) = <&[u8; Key::BYTES]>::try_from(bytes.as_slice()) else {
        return Err(KeyringError::KeyFile { path: path.to_path_buf() });
    };
    let mut material = *material;
    Ok(Key::take_from(&mut material))
}
