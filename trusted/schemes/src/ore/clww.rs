//! Keyed half of CLWW ("Practical order-revealing encryption with limited leakage", Chenette, Lewi, Weis, Wu,
//! FSE 2016; §3.2 of the evaluation).
//!
//! Bit `i` becomes the trit `F(k, (n, i, the i bits before it)) + bit mod 3`.
//!
//! # Parameters
//! Width `n` of 32 or 64 bits. The PRF's 128-bit outputs are taken modulo 3 (bias below 2^-127). A ciphertext is stored as two planes of
//! bits, so that adding and comparing are a few operations on whole words.
//!
//! A ciphertext is not authenticated: who changes trits may get that of another plaintext (of an even value, the
//! last trit's successor gives the next value). Whatever the value belongs to must be sealed with it.
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
use arras_protocol::bplus::TieToken;
use arras_protocol::ore::clww::Trits;
use arras_protocol::ore::{Scheme, Width};

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

    /// The ciphertext's trits.
    ///
    /// # Errors
    /// [`EncryptFailed::OutsideDomain`].
    #[inline]
    pub fn encrypt_trits(&self, value: u64) -> Result<Trits, EncryptFailed> {
        if value > self.width.greatest() {
            return Err(EncryptFailed::OutsideDomain);
        }
        let masks = match self.width {
            Width::Bits32 => self.masks::<32>(value << 32),
            Width::Bits64 => self.masks::<64>(value),
        };
        Ok(plus_bits(masks, value))
    }

    /// The trits that hide the bits. `N` is the width in bits, `aligned` the value with its highest bit in the highest
    /// place.
    #[inline(always)]
    fn masks<const N: usize>(&self, aligned: u64) -> Trits {
        let (heads, prefixes) = (&Inputs::<N>::HEADS, &Inputs::<N>::PREFIXES);
        let mut blocks: [Block; N] = std::array::from_fn(|at| joined(aligned & prefixes[at], heads[at]));
        self.prefixes.blocks(&mut blocks);
        let mut trits = [0; N];
        trit::of_blocks(&blocks, &mut trits);
        planes(&trits)
    }

    /// The plaintext of a ciphertext. A ciphertext under another key passes with a chance of (2/3)^n: 2^-18.7 for 32
    /// bits, 2^-37.4 for 64.
    ///
    /// # Errors
    /// [`OpenFailed`] if it is not one of this key.
    pub fn decrypt_trits(&self, ciphertext: Trits) -> Result<u64, OpenFailed> {
        let bits = self.width.bits();
        let mut aligned = 0_u64;
        let mut wrong = ciphertext.malformed() || (ciphertext.ones | ciphertext.twos) > self.width.greatest();
        for position in 0..bits {
            let mask = trit::of_block(&self.prefixes.block(&prf_input(bits, position, aligned)));
            let place = bits - 1 - position;
            let trit = (ciphertext.ones >> place & 1) + 2 * (ciphertext.twos >> place & 1);
            let bit = (trit + 3 - u64::from(mask)) % 3;
            wrong |= bit == 2;
            aligned |= (bit & 1) << (u64::BITS - 1 - position);
        }
        if wrong { Err(OpenFailed) } else { Ok(aligned >> (u64::BITS - bits)) }
    }

    fn encrypt_bytes(&self, value: u64) -> Result<Vec<u8>, EncryptFailed> {
        Ok(self.encrypt_trits(value)?.to_bytes(self.width))
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

    fn tie(&self, _: u64) -> Option<TieToken> {
        None
    }

    fn decrypt(&self, stored: &[u8]) -> Result<u64, OpenFailed> {
        self.decrypt_trits(Trits::from_bytes(self.width, stored).map_err(|_| OpenFailed)?)
    }
}

/// What [`prf_input`] is made of, for all bits of a plaintext of `N`.
struct Inputs<const N: usize>;

impl<const N: usize> Inputs<N> {
    /// Which bits lie before each position.
    const PREFIXES: [u64; N] = {
        let mut prefixes = [0; N];
        let mut position = 0;
        while position < N {
            prefixes[position] = prefix(position as u32);
            position += 1;
        }
        prefixes
    };
    /// Width and position.
    const HEADS: [u64; N] = {
        let mut heads = [0; N];
        let mut position = 0;
        while position < N {
            heads[position] = head(N as u32, position as u32);
            position += 1;
        }
        heads
    };
}

const fn prefix(position: u32) -> u64 {
    !(u64::MAX >> position)
}

const fn head(bits: u32, position: u32) -> u64 {
    (bits | position << 8) as u64
}

#[inline(always)]
fn joined(prefix: u64, head: u64) -> Block {
    (u128::from(prefix) << 64 | u128::from(head)).to_le_bytes()
}

/// The PRF's input for the bit at `position`: distinct for all widths, positions and prefixes. Of the value, its
/// highest bit in the highest place, only the bits before `position` are in it.
fn prf_input(bits: u32, position: u32, aligned: u64) -> Block {
    joined(aligned & prefix(position), head(bits, position))
}

/// Trits plus bits, modulo 3: where the bit is set 0, 1, 2 become 1, 2, 0.
#[inline(always)]
fn plus_bits(trits: Trits, bits: u64) -> Trits {
    let Trits { ones, twos } = trits;
    Trits { ones: bits & !(ones | twos) | !bits & ones, twos: bits & ones | !bits & twos }
}

/// Trits as planes, the first highest.
#[inline(always)]
fn planes(trits: &[u8]) -> Trits {
    let (eights, _) = trits.as_chunks::<8>();
    eights.iter().fold(Trits { ones: 0, twos: 0 }, |planes, eight| {
        let eight = u64::from_be_bytes(*eight);
        Trits {
            ones: planes.ones << 8 | lowest_bits(eight),
            twos: planes.twos << 8 | lowest_bits(eight >> 1),
        }
    })
}

/// The lowest bit of each byte: one multiplication brings them together, each product of two ones to a place of its
/// own.
#[inline(always)]
fn lowest_bits(bytes: u64) -> u64 {
    (bytes & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_have_the_first_trit_highest() {
        let mut trits = [0; 64];
        (trits[0], trits[3], trits[63]) = (2, 1, 1);
        assert_eq!(planes(&trits), Trits { twos: 1 << 63, ones: 1 << 60 | 1 });
        assert_eq!(planes(&trits[..32]), Trits { twos: 1 << 31, ones: 1 << 28 });
    }

    #[test]
    fn lowest_bits_keep_their_order() {
        for pattern in 0..=255_u64 {
            let bytes = (0..8).fold(0, |bytes, at| bytes | (0xfe | pattern >> at & 1) << (8 * at));
            assert_eq!(lowest_bits(bytes), pattern);
        }
    }

    #[test]
    fn bits_are_added_modulo_3() {
        // Places: trits 0, 1, 2 without a bit, then with one.
        let trits = Trits { ones: 0b010_010, twos: 0b100_100 };
        assert_eq!(plus_bits(trits, 0b111_000), Trits { ones: 0b001_010, twos: 0b010_100 });
    }

    #[test]
    fn inputs_of_the_function_differ() {
        let inputs =
            [(32, 0, 0), (64, 0, 0), (32, 1, 0), (32, 1, 1 << 63), (32, 2, 1 << 62), (32, 2, 3 << 62)];
        let mut blocks = inputs.map(|(bits, position, prefix)| prf_input(bits, position, prefix)).to_vec();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), inputs.len());
    }
}
