//! Keyless comparison of CLWW (FSE 2016): the first trit that differs decides.

use arras_protocol::ore::clww::{self, Trits};
use arras_protocol::ore::{MalformedCiphertext, Width};
use std::cmp::Ordering;

/// Compares two ciphertexts.
///
/// # Errors
/// [`MalformedCiphertext`]: a length is not the scheme's, or an element is not a trit.
#[inline]
pub fn compare(width: Width, query: &[u8], stored: &[u8]) -> Result<Ordering, MalformedCiphertext> {
    clww::compare(Trits::from_bytes(width, query)?, Trits::from_bytes(width, stored)?)
}
