//! Deterministic authenticated encryption of a number and a block, as two blocks of which the first opens alone.
//!
//! For ordered arrays that are searched by the number: a probe moves one AES block, and the pair with its
//! authentication takes no more than 32 bytes.
//!
//! *Construction*, after the synthetic-IV and encode-then-encipher paradigms (Rogaway and Shrimpton, EUROCRYPT
//! 2006; Bellare and Rogaway, ASIACRYPT 2000). For a number `h` of 64 bits, a block `b` and associated `a` of 64 bits:
//! `t` = the first 8 bytes of the CBC-MAC under `k1` of `h || a || b` (always two blocks, for which CBC-MAC is a
//! pseudorandom function: Bellare, Kilian and Rogaway, JCSS 2000); the first sealed block is `AES_k2(h || t)`, the
//! second `b xor AES_k3(first)`. Distinct pairs give distinct `h || t` unless their tags collide, so the first blocks
//! look random and the second are masked by fresh pseudorandom blocks. A forgery must hit `t`: 2^-64 a try, as an
//! altered first block opens to random bytes and an altered second one changes `b`.
//!
//! *Rank.* `h || t` as a number: pairs are ordered by `h`, and those of equal `h` by a pseudorandom function of the
//! pair. It is known to whoever holds the material, for a pair that is not stored as well.
//!
//! *Leakage.* Equality of whole pairs under the same associated bytes, up to collisions at 2^-64 for each two pairs.
//! The first block alone is not authenticated: it opens to some number.

use crate::meter::{Primitive, count};
use crate::prf::Prf;
use crate::{BLOCK_BYTES, Block, OpenError};
use aes::Aes128;
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use std::fmt;

/// Bytes of a sealed pair.
pub const SEALED_BYTES: usize = 2 * BLOCK_BYTES;

/// Bytes of associated data.
pub const ASSOCIATED_BYTES: usize = 8;

/// Seals and opens pairs under one material and one associated string.
pub struct DetPair {
    tag: Prf,
    head: Aes128,
    mask: Prf,
    associated: [u8; ASSOCIATED_BYTES],
}

impl fmt::Debug for DetPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DetPair(..)")
    }
}

/// The number of a rank.
#[must_use]
pub fn rank_number(rank: u128) -> u64 {
    (rank >> 64) as u64
}

impl DetPair {
    /// Expands `material`, which must be uniform.
    #[must_use]
    pub fn new(material: &[u8; 16], associated: [u8; ASSOCIATED_BYTES]) -> Self {
        let expand = Prf::new(material);
        let part = |number: u8| zeroize::Zeroizing::new(expand.block(&[number; BLOCK_BYTES]));
        let head = Aes128::new(&(*part(2)).into());
        Self { tag: Prf::new(&part(1)), head, mask: Prf::new(&part(3)), associated }
    }

    /// What the pair is ordered by.
    #[must_use]
    pub fn rank(&self, number: u64, block: &Block) -> u128 {
        let mut first = [0; BLOCK_BYTES];
        first[..8].copy_from_slice(&number.to_be_bytes());
        first[8..].copy_from_slice(&self.associated);
        let state = u128::from_be_bytes(self.tag.block(&first)) ^ u128::from_be_bytes(*block);
        let tag = u128::from_be_bytes(self.tag.block(&state.to_be_bytes())) >> 64;
        u128::from(number) << 64 | tag
    }

    /// Seals a pair.
    #[must_use]
    pub fn seal(&self, number: u64, block: &Block) -> [u8; SEALED_BYTES] {
        count(Primitive::Symmetric, 1);
        let mut first = self.rank(number, block).to_be_bytes().into();
        self.head.encrypt_block(&mut first);
        let first: Block = first.into();
        let masked = u128::from_be_bytes(self.mask.block(&first)) ^ u128::from_be_bytes(*block);
        let mut sealed = [0; SEALED_BYTES];
        sealed[..BLOCK_BYTES].copy_from_slice(&first);
        sealed[BLOCK_BYTES..].copy_from_slice(&masked.to_be_bytes());
        sealed
    }

    /// The rank in the first block of a sealed pair. Not authenticated.
    #[must_use]
    pub fn open_rank(&self, first: &Block) -> u128 {
        count(Primitive::Symmetric, 1);
        let mut first = (*first).into();
        self.head.decrypt_block(&mut first);
        u128::from_be_bytes(first.into())
    }

    /// Opens pairs that follow each other in `sealed`.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if one was not sealed with this material and associated bytes, or was altered; or if `sealed` is
    /// not of whole pairs.
    pub fn open_each(&self, sealed: &[u8]) -> Result<Vec<(u128, Block)>, OpenError> {
        let (blocks, []) = sealed.as_chunks::<BLOCK_BYTES>() else { return Err(OpenError) };
        let (pairs, []) = blocks.as_chunks::<2>() else { return Err(OpenError) };
        count(Primitive::Symmetric, pairs.len());
        let mut masks: Vec<Block> = pairs.iter().map(|pair| pair[0]).collect();
        let mut ranks = masks.clone();
        self.mask.blocks(&mut masks);
        self.head.decrypt_blocks(Array::cast_slice_from_core_mut(&mut ranks));
        let mut opened = Vec::with_capacity(pairs.len());
        let mut difference = 0;
        for ((pair, rank), mask) in pairs.iter().zip(ranks).zip(masks) {
            let block = (u128::from_be_bytes(pair[1]) ^ u128::from_be_bytes(mask)).to_be_bytes();
            let rank = u128::from_be_bytes(rank);
            difference |= self.rank(rank_number(rank), &block) ^ rank;
            opened.push((rank, block));
        }
        let authentic = crate::ct::equal(&difference.to_be_bytes(), &[0; BLOCK_BYTES]);
        if authentic { Ok(opened) } else { Err(OpenError) }
    }
}

#[cfg(test)]
mod tests;
