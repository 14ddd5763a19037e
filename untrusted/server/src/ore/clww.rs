//! Keyless comparison of CLWW (FSE 2016): the first trit that differs decides.

use arras_protocol::ore::clww;
use arras_protocol::ore::{MalformedCiphertext, Width};
use std::cmp::Ordering;

/// Compares two ciphertexts.
///
/// # Errors
/// [`MalformedCiphertext`]: a length is not the scheme's, or an element is not a trit.
#[inline]
pub fn compare(width: Width, query: &[u8], stored: &[u8]) -> Result<Ordering, MalformedCiphertext> {
    clww::compare(number(width, query)?, number(width, stored)?)
}

#[inline]
fn number(width: Width, ciphertext: &[u8]) -> Result<u128, MalformedCiphertext> {
    let number = match width {
        Width::Bits32 => ciphertext.try_into().map(|bytes| u128::from(u64::from_be_bytes(bytes))),
        Width::Bits64 => ciphertext.try_into().map(u128::from_be_bytes),
    };
    number.map_err(|_| MalformedCiphertext("its length"))
}
