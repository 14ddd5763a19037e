//! Keyless comparison of CLOZ (ASIACRYPT 2018): a pair of numbers one apart decides; there is none if the plaintexts
//! are equal.
//!
//! *Cost.* Three pairings a bit if equal, two on average else, and the check of every point: five sixths of the time are
//! pairings.
//!
//! *Errors.* A point off its curve, outside its group or neutral. Ciphertexts of different keys compare as equal:
//! nothing without a key can tell.

use arras_primitives::pph::{QueryHashes, StoredHashes, find_neighbours};
use arras_protocol::ore::cloz::stored_hash_bytes;
use arras_protocol::ore::{MalformedCiphertext, Width};
use std::cmp::Ordering;

/// Compares a query ciphertext with a stored one; both have the scheme's length.
pub(super) fn compare(width: Width, query: &[u8], stored: &[u8]) -> Result<Ordering, MalformedCiphertext> {
    let bits = width.bits() as usize;
    let hashes = stored.get(..stored_hash_bytes(width)).ok_or(MalformedCiphertext("its length"))?;
    let stored = StoredHashes::from_bytes(hashes, bits).ok_or(MalformedCiphertext("a point"))?;
    let query = QueryHashes::from_bytes(query, bits).ok_or(MalformedCiphertext("a point"))?;
    Ok(match find_neighbours(&query, &stored) {
        None => Ordering::Equal,
        Some(found) if found.is_successor => Ordering::Less,
        Some(_) => Ordering::Greater,
    })
}

#[cfg(test)]
mod tests;
