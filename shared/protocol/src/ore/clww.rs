//! CLWW (Chenette, Lewi, Weis, Wu, FSE 2016): one trit a bit, two bits a trit.
//!
//! A ciphertext is a big-endian number of two bits a trit, the trit of the plaintext's highest bit first. Of 4^n
//! numbers the 3^n without a `11` at a trit's place are ciphertexts.

use super::{MalformedCiphertext, Width};
use std::cmp::Ordering;

/// Bytes of a ciphertext: two bits a bit.
#[must_use]
pub const fn bytes(width: Width) -> usize {
    width.bytes() * 2
}

/// The lower bit of each trit.
const LOWER: u128 = u128::MAX / 3;

/// Compares two ciphertexts as numbers; those of 32-bit plaintexts are the lower halves.
///
/// The first trits that differ are one apart modulo 3, the greater plaintext's being the successor. Below them
/// nothing can be checked: the trits of different prefixes are independent.
///
/// # Leakage
/// The position of the first bit that differs, and the order.
///
/// # Cost
/// No primitive. Time depends on nothing but whether the numbers are ciphertexts.
///
/// # Errors
/// [`MalformedCiphertext`] if either has a `11` in place of a trit.
#[inline]
pub const fn compare(left: u128, right: u128) -> Result<Ordering, MalformedCiphertext> {
    if (left & left >> 1 | right & right >> 1) & LOWER != 0 {
        return Err(MalformedCiphertext("a trit of 3"));
    }
    let difference = left ^ right;
    if difference == 0 {
        return Ok(Ordering::Equal);
    }
    let shift = (difference.ilog2() & !1) as u128;
    let (left, right) = ((left >> shift & 3) as u32, (right >> shift & 3) as u32);
    Ok(if right == (left + 1) % 3 { Ordering::Less } else { Ordering::Greater })
}
