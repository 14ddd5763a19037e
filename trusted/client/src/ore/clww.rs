//! Keyed half of CLWW ("Practical order-revealing encryption with limited leakage", Chenette, Lewi, Weis, Wu,
//! FSE 2016; §3.2 of the evaluation).
//!
//! Bit `i` becomes the trit `F(k, (n, i, the i bits before it)) + bit mod 3`.
//!
//! # Parameters
//! Width `n` of 32 or 64 bits. The PRF's 128-bit outputs are taken modulo 3 (bias below 2^-127).
//!
//! # Leakage
//! Of any two ciphertexts the order and the position of the first bit that differs; equality. Ciphertexts are
//! deterministic.
//!
//! # Cost
//! `n` PRF calls a plaintext in one batch; none to compare.
//!
//! # Deviations
//! The PRF's input holds width and position beside the prefix, so that runs of zeros at different positions do not
//! repeat a trit's mask.

use super::{EncryptFailed, Encrypted, End, OrderScheme};
use crate::error::OpenFailed;
use arras_keys::{Key, Purpose};
use arras_primitives::prf::Prf;
use arras_primitives::prg::Prg;
use arras_primitives::{Block, trit};
use arras_protocol::ore::{Scheme, Width};

/// Most trits of a ciphertext.
const TRITS_MAX: usize = 64;

/// Encrypts and decrypts under one index's key.
pub struct Clww {
    width: Width,
    prefixes: Prf,
}

impl std::fmt::Debug for Clww {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clww({:?})", self.width)
    }
}

impl Clww {
    /// Derives the scheme's key from the index's.
    #[must_use]
    pub fn new(index: &Key, width: Width) -> Self {
        Self { width, prefixes: Prf::new(index.child(Purpose::ClwwPrefix).expose_16()) }
    }

    /// The ciphertext as a number (its big-endian bytes are the stored form; of 32-bit plaintexts it is below 2^64).
    ///
    /// # Errors
    /// [`EncryptFailed::OutsideDomain`].
    #[inline]
    pub fn encrypt_number(&self, value: u64) -> Result<u128, EncryptFailed> {
        if value > self.width.greatest() {
            return Err(EncryptFailed::OutsideDomain);
        }
        let bits = self.width.bits();
        let (mut inputs, mut trits) = ([[0; 16]; TRITS_MAX], [0; TRITS_MAX]);
        let (inputs, trits) = (&mut inputs[..bits as usize], &mut trits[..bits as usize]);
        // The highest bit is shifted out last: a prefix of no bits is 0.
        let aligned = value << (u64::BITS - bits);
        for (position, input) in inputs.iter_mut().enumerate() {
            let prefix = aligned.unbounded_shr(u64::BITS - position as u32);
            *input = prf_input(bits, position as u32, prefix);
        }
        self.prefixes.blocks(inputs);
        trit::of_blocks(inputs, trits);
        for (position, trit) in trits.iter_mut().enumerate() {
            let sum = *trit + (aligned >> (u64::BITS - 1 - position as u32) & 1) as u8;
            *trit = if sum == 3 { 0 } else { sum };
        }
        Ok(packed(trits))
    }

    /// The plaintext of a ciphertext. A ciphertext under another key passes with a chance of (2/3)^n: 2^-18.7 for 32
    /// bits, 2^-37.4 for 64.
    ///
    /// # Errors
    /// [`OpenFailed`] if it is not one of this key.
    pub fn decrypt_number(&self, ciphertext: u128) -> Result<u64, OpenFailed> {
        let bits = self.width.bits();
        let mut prefix = 0;
        let mut wrong = ciphertext.unbounded_shr(2 * bits) != 0;
        for position in 0..bits {
            let mask = trit::of_block(&self.prefixes.block(&prf_input(bits, position, prefix)));
            let trit = (ciphertext >> (2 * (bits - 1 - position)) & 3) as u8;
            let bit = (trit + 3 - mask) % 3;
            wrong |= trit == 3 || bit == 2;
            prefix = prefix << 1 | u64::from(bit & 1);
        }
        if wrong { Err(OpenFailed) } else { Ok(prefix) }
    }

    fn encrypt_bytes(&self, value: u64) -> Result<Vec<u8>, EncryptFailed> {
        let number = self.encrypt_number(value)?.to_be_bytes();
        Ok(number[number.len() - 2 * self.width.bytes()..].to_vec())
    }
}

impl OrderScheme for Clww {
    fn scheme(&self) -> Scheme {
        Scheme::Clww(self.width)
    }

    fn encrypt(&mut self, value: u64, _: &mut Prg) -> Result<Encrypted, EncryptFailed> {
        let stored = self.encrypt_bytes(value)?;
        Ok(Encrypted { query: stored.clone(), stored, replaced: Vec::new() })
    }

    fn bound(&self, value: u64, _: End, _: &mut Prg) -> Result<Vec<u8>, EncryptFailed> {
        self.encrypt_bytes(value)
    }

    fn decrypt(&self, stored: &[u8]) -> Result<u64, OpenFailed> {
        let number = match self.width {
            Width::Bits32 => stored.try_into().map(|bytes| u128::from(u64::from_be_bytes(bytes))),
            Width::Bits64 => stored.try_into().map(u128::from_be_bytes),
        };
        self.decrypt_number(number.map_err(|_| OpenFailed)?)
    }
}

/// The PRF's input for the bit at `position`: distinct for all widths, positions and prefixes.
#[inline(always)]
fn prf_input(bits: u32, position: u32, prefix: u64) -> Block {
    let head = u128::from(bits) << 120 | u128::from(position) << 112;
    (head | u128::from(prefix)).to_be_bytes()
}

/// Two bits a trit, the first in the highest bits.
#[inline(always)]
fn packed(trits: &[u8]) -> u128 {
    let mut bytes = [0; TRITS_MAX / 4];
    let (fours, _) = trits.as_chunks::<4>();
    for (byte, four) in bytes.iter_mut().zip(fours) {
        let word = u32::from_be_bytes(*four);
        *byte = (word | word >> 6 | word >> 12 | word >> 18) as u8;
    }
    u128::from_be_bytes(bytes) >> (128 - 2 * trits.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_puts_the_first_trit_highest() {
        let mut trits = [0; 64];
        trits[0] = 2;
        trits[3] = 1;
        trits[63] = 1;
        assert_eq!(packed(&trits), 2 << 126 | 1 << 120 | 1);
        assert_eq!(packed(&trits[..32]), 2 << 62 | 1 << 56);
    }

    #[test]
    fn inputs_of_the_function_differ() {
        let inputs = [(32, 0, 0), (64, 0, 0), (32, 1, 0), (32, 1, 1), (32, 2, 1), (32, 2, 3)];
        let mut blocks = inputs.map(|(bits, position, prefix)| prf_input(bits, position, prefix)).to_vec();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), inputs.len());
    }
}
