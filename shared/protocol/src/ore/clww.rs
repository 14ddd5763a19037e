//! CLWW (Chenette, Lewi, Weis, Wu, FSE 2016): one trit a bit, two bits a trit.
//!
//! A ciphertext is two planes of one bit a trit: which trits are 2, then which are 1, each a big-endian number with
//! the trit of the plaintext's highest bit highest. Of 4^n such pairs the 3^n without a bit in both are ciphertexts.

use super::{MalformedCiphertext, Width};
use std::cmp::Ordering;

/// Bytes of a ciphertext: two bits a bit.
#[must_use]
pub const fn bytes(width: Width) -> usize {
    width.bytes() * 2
}

/// A ciphertext as numbers; those of 32-bit plaintexts have 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trits {
    /// The trits that are 1.
    pub ones: u64,
    /// The trits that are 2.
    pub twos: u64,
}

impl Trits {
    /// # Errors
    /// [`MalformedCiphertext`] if it is of another length. Trits are not looked at.
    #[inline]
    pub fn from_bytes(width: Width, ciphertext: &[u8]) -> Result<Self, MalformedCiphertext> {
        let planes = match width {
            Width::Bits32 => <[u8; 8]>::try_from(ciphertext).map(|bytes| {
                let both = u64::from_be_bytes(bytes);
                Self { ones: both & 0xffff_ffff, twos: both >> 32 }
            }),
            Width::Bits64 => <[u8; 16]>::try_from(ciphertext).map(|bytes| {
                let both = u128::from_be_bytes(bytes);
                Self { ones: both as u64, twos: (both >> 64) as u64 }
            }),
        };
        planes.map_err(|_| MalformedCiphertext("its length"))
    }

    /// The stored form.
    #[must_use]
    pub fn to_bytes(self, width: Width) -> Vec<u8> {
        match width {
            Width::Bits32 => (self.twos << 32 | self.ones).to_be_bytes().to_vec(),
            Width::Bits64 => (u128::from(self.twos) << 64 | u128::from(self.ones)).to_be_bytes().to_vec(),
        }
    }

    /// Whether a trit is neither 0, 1 nor 2.
    #[inline]
    #[must_use]
    pub const fn malformed(self) -> bool {
        self.ones & self.twos != 0
    }

    /// The places where two ciphertexts' trits differ, as bits. The highest is that of the first bit in which the
    /// plaintexts differ: what two ciphertexts leak besides the order.
    #[inline]
    #[must_use]
    pub const fn differing(self, other: Self) -> u64 {
        (self.ones ^ other.ones) | (self.twos ^ other.twos)
    }
}

/// Compares two ciphertexts.
///
/// The first trits that differ are one apart modulo 3, the greater plaintext's being the successor. Below them
/// nothing can be checked: the trits of different prefixes are independent.
///
/// # Leakage
/// The position of the first bit that differs, and the order.
///
/// # Cost
/// No primitive. Time depends on nothing but whether the numbers are ciphertexts, and equal.
///
/// # Errors
/// [`MalformedCiphertext`] if either has a trit of 3.
#[inline]
pub const fn compare(left: Trits, right: Trits) -> Result<Ordering, MalformedCiphertext> {
    if left.malformed() | right.malformed() {
        return Err(MalformedCiphertext("a trit of 3"));
    }
    let differing = left.differing(right);
    if differing == 0 {
        return Ok(Ordering::Equal);
    }
    // Where they differ the right trit is not the left one: 0 and 1, 1 and 2, 2 and 0.
    let successor = left.ones & right.twos
        | left.twos & !(right.ones | right.twos)
        | right.ones & !(left.ones | left.twos);
    let less = successor >> differing.ilog2() & 1 == 1;
    Ok(if less { Ordering::Less } else { Ordering::Greater })
}
