//! CLOZ (Cash, Liu, O'Neill, Zhandry, Zhang, ASIACRYPT 2018): permuted property-preserving hashes.

use super::Width;

/// Bytes of a stored ciphertext.
#[must_use]
pub const fn stored_bytes(width: Width) -> usize {
    width.bits() as usize * 96
}

/// Bytes of a query ciphertext.
#[must_use]
pub const fn query_bytes(width: Width) -> usize {
    width.bits() as usize * 192
}
