//! CLOZ (Cash, Liu, O'Neill, Zhandry, Zhang, ASIACRYPT 2018): permuted property-preserving hashes.
//!
//! A stored ciphertext is the hashes of its bits' numbers, then the sealed plaintext. A query ciphertext is the
//! hashes of their neighbours. `arras_primitives::pph` says what a hash is.

use super::Width;

/// Bytes of the hashes of a stored ciphertext: a compressed point of the first group for each bit, and one in front.
#[must_use]
pub const fn stored_hash_bytes(width: Width) -> usize {
    (width.bits() as usize + 1) * 48
}

/// Bytes of a stored ciphertext: the hashes, then nonce, plaintext and tag.
#[must_use]
pub const fn stored_bytes(width: Width) -> usize {
    stored_hash_bytes(width) + 12 + width.bytes() + 16
}

/// Bytes of a query ciphertext: two compressed points of the second group for each bit, and one in front.
#[must_use]
pub const fn query_bytes(width: Width) -> usize {
    (width.bits() as usize * 2 + 1) * 96
}
