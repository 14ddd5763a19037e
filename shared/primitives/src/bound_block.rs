//! Deterministic authenticated encryption of one block under a label, many at once: for stores of label and sealed block,
//! where an entry must not open under another's label.
//!
//! *Construction.* SIV (Rogaway and Shrimpton, EUROCRYPT 2006): the tag is the CBC-MAC under `k1` of `label || block`,
//! always two blocks, for which CBC-MAC is a pseudorandom function (Bellare, Kilian and Rogaway, JCSS 2000); the body is
//! `block xor AES_k2(tag)`. A nonce is not needed and none can be repeated: under one label equal blocks look equal, and different
//! ones show nothing. A forgery must hit the tag: 2^-128 a try.
//!
//! *Bounds.* After `q` blocks an attacker's advantage is about `q^2 / 2^126`.
//!
//! *Leakage.* Equality of blocks under one label.

use crate::meter::{Primitive, count};
use crate::prf::Prf;
use crate::wipe::wipe;
use crate::{BLOCK_BYTES, Block};
use std::fmt;

/// Bytes of a sealed block: body, tag.
pub const SEALED_BYTES: usize = 2 * BLOCK_BYTES;

/// Blocks worked on side by side: enough for the widest instructions to be worth their key schedule.
const STEP: usize = 512;

/// Seals and opens blocks under one material.
pub struct BoundBlock {
    tag: Prf,
    mask: Prf,
}

impl fmt::Debug for BoundBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoundBlock(..)")
    }
}

fn xor(into: &mut Block, other: &Block) {
    *into = (u128::from_ne_bytes(*into) ^ u128::from_ne_bytes(*other)).to_ne_bytes();
}

impl BoundBlock {
    /// Expands `material`, which must be uniform.
    #[must_use]
    pub fn new(material: &[u8; 32]) -> Self {
        let (halves, _) = material.as_chunks::<16>();
        Self { tag: Prf::new(&halves[0]), mask: Prf::new(&halves[1]) }
    }

    /// Writes the tags of blocks under their labels.
    fn tags(&self, labels: &[Block], blocks: &[Block], tags: &mut [Block]) {
        tags.copy_from_slice(labels);
        self.tag.blocks(tags);
        tags.iter_mut().zip(blocks).for_each(|(tag, block)| xor(tag, block));
        self.tag.blocks(tags);
    }

    fn mask(&self, tags: &[Block], blocks: &mut [Block]) {
        let mut masks = [[0; BLOCK_BYTES]; STEP];
        let masks = &mut masks[..tags.len()];
        masks.copy_from_slice(tags);
        self.mask.blocks(masks);
        blocks.iter_mut().zip(&*masks).for_each(|(block, mask)| xor(block, mask));
        wipe(masks.as_flattened_mut());
    }

    /// Replaces blocks by their bodies, and writes their tags.
    ///
    /// # Panics
    /// If the three are not equally many.
    pub fn seal_each(&self, labels: &[Block], blocks: &mut [Block], tags: &mut [Block]) {
        assert!(labels.len() == blocks.len() && blocks.len() == tags.len(), "one label and one tag a block");
        count(Primitive::Symmetric, blocks.len());
        let parts = labels.chunks(STEP).zip(blocks.chunks_mut(STEP)).zip(tags.chunks_mut(STEP));
        for ((labels, blocks), tags) in parts {
            self.tags(labels, blocks, tags);
            self.mask(tags, blocks);
        }
    }

    /// Replaces bodies by the blocks they were.
    ///
    /// # Errors
    /// The place of the first that was not sealed with this material under its label, or was altered. The blocks are of no use
    /// then, and all zero.
    ///
    /// # Panics
    /// If the three are not equally many.
    pub fn open_each(&self, labels: &[Block], blocks: &mut [Block], tags: &[Block]) -> Result<(), usize> {
        assert!(labels.len() == blocks.len() && blocks.len() == tags.len(), "one label and one tag a block");
        count(Primitive::Symmetric, blocks.len());
        let mut expected = [[0; BLOCK_BYTES]; STEP];
        let parts = labels.chunks(STEP).zip(blocks.chunks_mut(STEP)).zip(tags.chunks(STEP));
        let mut wrong = None;
        for (part, ((labels, blocks), tags)) in parts.enumerate() {
            let expected = &mut expected[..tags.len()];
            self.mask(tags, blocks);
            self.tags(labels, blocks, expected);
            let differing = expected.iter().zip(tags).fold(0, |differing, (one, other)| {
                differing | (u128::from_ne_bytes(*one) ^ u128::from_ne_bytes(*other))
            });
            // Which one, only if one is: that they differ is said anyway.
            if differing != 0 {
                let place = expected.iter().zip(tags).position(|(one, other)| one != other);
                wrong = place.map(|place| part * STEP + place);
                break;
            }
        }
        let Some(place) = wrong else { return Ok(()) };
        wipe(blocks.as_flattened_mut());
        Err(place)
    }
}

#[cfg(test)]
mod tests;
