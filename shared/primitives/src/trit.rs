//! Numbers modulo 3 from AES blocks, and their packing: what CLWW and Lewi-Wu ciphertexts are made of.
//!
//! *Bias.* A uniform block read as a 128-bit integer is `t` modulo 3 with a probability that differs from 1/3 by
//! less than 2^-127. As 256 is 1 modulo 3, the sum of a block's bytes has the same remainder, which is how it is
//! computed: no division, no branch, no table.

use crate::Block;
use crate::meter::{Primitive, count};
use aes::Aes128Enc;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use std::sync::LazyLock;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86;

/// Blocks whose byte sums are held at once.
const STEP: usize = 64;

/// A block modulo 3.
#[inline]
#[must_use]
pub fn of_block(block: &Block) -> u8 {
    remainder(byte_sum(block))
}

/// Each block modulo 3.
///
/// # Panics
///
/// If `blocks` and `trits` differ in length.
#[inline]
pub fn of_blocks(blocks: &[Block], trits: &mut [u8]) {
    assert_eq!(blocks.len(), trits.len(), "one trit for each block");
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = crate::avx2::Avx2::detect() {
        let ((many, blocks), (each, trits)) = (blocks.as_chunks(), trits.as_chunks_mut());
        for (trits, blocks) in each.iter_mut().zip(many) {
            *trits = x86::of_blocks(avx2, blocks);
        }
        return of_blocks_portably(blocks, trits);
    }
    of_blocks_portably(blocks, trits);
}

fn of_blocks_portably(blocks: &[Block], trits: &mut [u8]) {
    let mut sums = [0_u16; STEP];
    for (blocks, trits) in blocks.chunks(STEP).zip(trits.chunks_mut(STEP)) {
        for (sum, block) in sums.iter_mut().zip(blocks) {
            *sum = byte_sum(block);
        }
        for (trit, sum) in trits.iter_mut().zip(sums) {
            *trit = remainder(sum);
        }
    }
}

/// The key of the permutation in [`hash_each`]: any constant.
const PERMUTATION: [u8; 16] = *b"arras lewi-wu pi";

static CIPHER: LazyLock<Aes128Enc> = LazyLock::new(|| Aes128Enc::new(&PERMUTATION.into()));

/// Lewi-Wu's hash `H(input, nonce) = sigma(input ^ nonce) mod 3` of each input, with `sigma` AES-128 under a fixed key;
/// the inputs are lost.
///
/// *Model.* `sigma` is an ideal permutation that everybody can compute both ways; inputs are independent and
/// pseudorandom, nonces random and chosen by the one who encrypts. Let `q` count the points `input ^ nonce` hashed
/// under this constant by all users and indexes. As long as `sigma` was not asked at one, the trits of unknown inputs
/// differ from those of a random function by `q^2 / 2^129` at most. A question hits a point with a chance of about
/// `q / 2^128` forwards and `3 q / 2^128` backwards (a trit leaves a third of the images; fewer than 2^120 questions).
/// Two points coincide with a chance of at most `q^2 / 2^129`: then their trits are equal, which only who knows both
/// inputs can tell. An input that becomes known says nothing of others, and `sigma` can be programmed at its points, at
/// the same cost, as Lewi and Wu's proof does with `H`. With a key schedule a nonce (which would be most of a
/// comparison) a question would concern the points of one nonce, not all `q`. Fixed-key AES is a heuristic for
/// `sigma`; known-key distinguishers do not apply to secret points of which a trit is seen.
///
/// # Panics
///
/// If `inputs` and `trits` differ in length.
#[inline]
pub fn hash_each(nonce: &Block, inputs: &mut [Block], trits: &mut [u8]) {
    count(Primitive::Hash, inputs.len());
    count(Primitive::AesBlock, inputs.len());
    let nonce = u128::from_ne_bytes(*nonce);
    for input in &mut *inputs {
        *input = (u128::from_ne_bytes(*input) ^ nonce).to_ne_bytes();
    }
    CIPHER.encrypt_blocks(Array::cast_slice_from_core_mut(inputs));
    of_blocks(inputs, trits);
}

/// [`hash_each`] of one input.
#[inline]
#[must_use]
pub fn hash(nonce: &Block, input: &Block) -> u8 {
    count(Primitive::Hash, 1);
    count(Primitive::AesBlock, 1);
    let mut block = (u128::from_ne_bytes(*input) ^ u128::from_ne_bytes(*nonce)).to_ne_bytes().into();
    CIPHER.encrypt_block(&mut block);
    of_block(&block.into())
}

/// Packs trits, four a byte, the first in the lowest bits. A last byte of fewer than four is filled with zeros.
///
/// # Panics
///
/// If `packed` has not a byte for every four trits.
#[inline]
pub fn pack(trits: &[u8], packed: &mut [u8]) {
    assert_eq!(packed.len(), trits.len().div_ceil(4), "four trits a byte");
    let (fours, last) = trits.as_chunks::<4>();
    for (byte, four) in packed.iter_mut().zip(fours) {
        let word = u32::from_le_bytes(*four);
        *byte = (word | word >> 6 | word >> 12 | word >> 18) as u8;
    }
    if !last.is_empty()
        && let Some(byte) = packed.last_mut()
    {
        *byte = last.iter().rev().fold(0, |byte, trit| byte << 2 | trit);
    }
}

/// Unpacks what [`pack`] packed. A value of 3, which no packing gives, comes out as such.
///
/// # Panics
///
/// If `packed` has not a byte for every four trits.
#[inline]
pub fn unpack(packed: &[u8], trits: &mut [u8]) {
    assert_eq!(packed.len(), trits.len().div_ceil(4), "four trits a byte");
    for (trits, byte) in trits.chunks_mut(4).zip(packed) {
        for (place, trit) in trits.iter_mut().enumerate() {
            *trit = byte >> (2 * place) & 3;
        }
    }
}

#[inline(always)]
fn byte_sum(block: &Block) -> u16 {
    block.iter().map(|byte| u16::from(*byte)).sum()
}

/// `sum mod 3` for sums of 16 bytes: `21846 = ceil(2^16 / 3)` gives the exact quotient below 2^15.
#[inline(always)]
fn remainder(sum: u16) -> u8 {
    let quotient = ((u32::from(sum) * 21846) >> 16) as u16;
    (sum - 3 * quotient) as u8
}

#[cfg(test)]
mod tests;
