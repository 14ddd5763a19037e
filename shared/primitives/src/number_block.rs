//! Authenticated encryption of a number of 64 bits in one AES block: for ordered indexes, where thousands of short numbers
//! are opened for each request.
//!
//! *Deterministic* ([`NumberBlock::seal_each`]), 16 bytes: `AES_k1(number || 0^64)`. Encode-then-encipher (Bellare and
//! Rogaway, ASIACRYPT 2000): as AES is a permutation that looks random, equal numbers and only those give equal blocks, and
//! a block that was not sealed opens to one with the redundancy at a chance of 2^-64.
//!
//! *Randomised* ([`NumberBlock::seal_fresh`]), 24 bytes: `AES_k1(number || t) || nonce` with a fresh nonce of 64 bits and
//! `t` = the first 8 bytes of `AES_k2(number || nonce)`. The input of the cipher repeats only where number and `t` do; a
//! forgery must hit `t`, 2^-64 a try.
//!
//! *Leakage.* Deterministic: equality. Randomised: nothing but a repetition of the same number under the same nonce, 2^-64
//! for each two seals of one number.
//!
//! A material serves one of the two forms.

use crate::meter::{Primitive, count};
use crate::prf::Prf;
use crate::wipe::wipe;
use crate::{BLOCK_BYTES, Block, OpenError};
use aes::Aes128;
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use std::fmt;

/// Bytes of the nonce of the randomised form.
pub const NONCE_BYTES: usize = 8;

/// Bytes of a number in the randomised form.
pub const FRESH_BYTES: usize = BLOCK_BYTES + NONCE_BYTES;

/// Numbers worked on side by side.
const STEP: usize = 128;

/// Seals and opens numbers under one material.
pub struct NumberBlock {
    cipher: Aes128,
    tag: Prf,
}

impl fmt::Debug for NumberBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NumberBlock(..)")
    }
}

impl NumberBlock {
    /// Expands `material`, which must be uniform.
    #[must_use]
    pub fn new(material: &[u8; 32]) -> Self {
        let (halves, _) = material.as_chunks::<16>();
        Self { cipher: Aes128::new(&halves[0].into()), tag: Prf::new(&halves[1]) }
    }

    /// Appends the block of each number to `sealed`.
    pub fn seal_each(&self, numbers: impl Iterator<Item = u64>, sealed: &mut Vec<u8>) {
        let from = sealed.len();
        for number in numbers {
            sealed.extend_from_slice(&number.to_be_bytes());
            sealed.extend_from_slice(&[0; BLOCK_BYTES - 8]);
        }
        let (blocks, _) = sealed[from..].as_chunks_mut::<BLOCK_BYTES>();
        count(Primitive::Symmetric, blocks.len());
        self.cipher.encrypt_blocks(Array::cast_slice_from_core_mut(blocks));
    }

    /// Appends the number of each block to `numbers`, as 8 bytes, the most significant first; nothing if one of them does
    /// not open.
    ///
    /// # Errors
    /// [`OpenError`] if a block was not sealed with this material, or `sealed` is not of whole blocks.
    pub fn open_each(&self, sealed: &[u8], numbers: &mut Vec<u8>) -> Result<(), OpenError> {
        let (sealed, []) = sealed.as_chunks::<BLOCK_BYTES>() else { return Err(OpenError) };
        count(Primitive::Symmetric, sealed.len());
        let from = numbers.len();
        let mut redundancy = 0;
        let mut room = [[0; BLOCK_BYTES]; STEP];
        for sealed in sealed.chunks(STEP) {
            let blocks = &mut room[..sealed.len()];
            blocks.copy_from_slice(sealed);
            self.cipher.decrypt_blocks(Array::cast_slice_from_core_mut(blocks));
            for block in &*blocks {
                let block = u128::from_be_bytes(*block);
                redundancy |= block as u64;
                numbers.extend_from_slice(&((block >> 64) as u64).to_be_bytes());
            }
        }
        wipe(room[..sealed.len().min(STEP)].as_flattened_mut());
        self.end(redundancy, from, numbers)
    }

    /// Appends a number in the randomised form. The nonce must be fresh and uniform.
    pub fn seal_fresh(&self, number: u64, nonce: [u8; NONCE_BYTES], sealed: &mut Vec<u8>) {
        count(Primitive::Symmetric, 1);
        let tag = self.tag.block(&joined(number, u64::from_be_bytes(nonce)));
        let (tag, _) = tag.as_chunks::<8>();
        let mut block = joined(number, u64::from_be_bytes(tag[0])).into();
        self.cipher.encrypt_block(&mut block);
        let block: Block = block.into();
        sealed.extend_from_slice(&block);
        sealed.extend_from_slice(&nonce);
    }

    /// The same as [`Self::open_each`] of the randomised form.
    ///
    /// # Errors
    /// [`OpenError`] if one was not sealed with this material, or `sealed` is not of whole ones.
    pub fn open_fresh_each(&self, sealed: &[u8], numbers: &mut Vec<u8>) -> Result<(), OpenError> {
        let (sealed, []) = sealed.as_chunks::<FRESH_BYTES>() else { return Err(OpenError) };
        count(Primitive::Symmetric, sealed.len());
        let from = numbers.len();
        let mut difference = 0;
        let mut room = [[0; BLOCK_BYTES]; STEP];
        let mut tags = [[0; BLOCK_BYTES]; STEP];
        for sealed in sealed.chunks(STEP) {
            let (blocks, tags) = (&mut room[..sealed.len()], &mut tags[..sealed.len()]);
            for (block, sealed) in blocks.iter_mut().zip(sealed) {
                block.copy_from_slice(&sealed[..BLOCK_BYTES]);
            }
            self.cipher.decrypt_blocks(Array::cast_slice_from_core_mut(blocks));
            for ((block, sealed), tag) in blocks.iter().zip(sealed).zip(&mut *tags) {
                tag[..8].copy_from_slice(&block[..8]);
                tag[8..].copy_from_slice(&sealed[BLOCK_BYTES..]);
                numbers.extend_from_slice(&block[..8]);
            }
            self.tag.blocks(tags);
            for (block, tag) in blocks.iter().zip(&*tags) {
                difference |=
                    (u128::from_be_bytes(*block) as u64) ^ ((u128::from_be_bytes(*tag) >> 64) as u64);
            }
        }
        wipe(room[..sealed.len().min(STEP)].as_flattened_mut());
        self.end(difference, from, numbers)
    }

    /// Takes back what was appended unless all opened.
    fn end(&self, difference: u64, from: usize, numbers: &mut Vec<u8>) -> Result<(), OpenError> {
        if crate::ct::equal(&difference.to_be_bytes(), &[0; 8]) {
            return Ok(());
        }
        wipe(&mut numbers[from..]);
        numbers.truncate(from);
        Err(OpenError)
    }
}

/// Two numbers as a block.
fn joined(first: u64, second: u64) -> Block {
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}

#[cfg(test)]
mod tests;
