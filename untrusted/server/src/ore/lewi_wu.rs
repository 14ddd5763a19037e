//! Keyless comparison of Lewi-Wu (CCS 2016): the first block that differs decides.

use arras_protocol::ore::{MalformedCiphertext, Width};
use std::cmp::Ordering;

/// Compares a query ciphertext with a stored one; both have the scheme's length.
pub(super) fn compare(
    _width: Width,
    _block_bits: u8,
    query: &[u8],
    stored: &[u8],
) -> Result<Ordering, MalformedCiphertext> {
    let _ = (query, stored);
    Err(MalformedCiphertext("not served yet"))
}
