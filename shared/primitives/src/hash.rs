//! SHA-256 over strings.

use crate::meter::{Primitive, count};
use sha2::{Digest, Sha256};

/// SHA-256 of the concatenation of `parts`.
#[must_use]
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    count(Primitive::Hash, 1);
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

/// SHA-256 of `parts`, each preceded by its length as a big-endian 64-bit integer: different lists never
/// give the same input, so a first part that names the purpose separates domains.
#[must_use]
pub fn sha256_framed(parts: &[&[u8]]) -> [u8; 32] {
    count(Primitive::Hash, 1);
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests;
