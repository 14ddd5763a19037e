//! Quads by the `aes` crate, one lane after the other. The crate uses what AES instructions there are, or a
//! bit-sliced implementation: constant time everywhere.

use super::{Engine, QUAD, Work};
use crate::Block;
use aes::Aes128Enc;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use std::array;

/// Needs nothing of the processor.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Engine for Portable {
    type Quad = [u128; QUAD];
    type Keys = [Aes128Enc; QUAD];

    fn run<W: Work>(self, work: W) -> W::Output {
        work.run(self)
    }

    fn load(self, blocks: [&Block; QUAD]) -> Self::Quad {
        blocks.map(|block| u128::from_le_bytes(*block))
    }

    fn store(self, quad: Self::Quad) -> [Block; QUAD] {
        quad.map(u128::to_le_bytes)
    }

    fn splat(self, value: u128) -> Self::Quad {
        [value; QUAD]
    }

    fn splat_bytes(self, bytes: [u8; QUAD]) -> Self::Quad {
        bytes.map(|byte| u128::from_le_bytes([byte; 16]))
    }

    fn xor(self, left: Self::Quad, right: Self::Quad) -> Self::Quad {
        array::from_fn(|lane| left[lane] ^ right[lane])
    }

    fn sigma(self, quad: Self::Quad) -> Self::Quad {
        quad.map(|block| block.rotate_left(64) ^ (block & (u128::MAX << 64)))
    }

    fn where_odd(self, selector: Self::Quad, value: Self::Quad) -> Self::Quad {
        array::from_fn(|lane| value[lane] & (selector[lane] & 1).wrapping_neg())
    }

    fn where_bit(self, bytes: Self::Quad, bit: u32, value: Self::Quad) -> Self::Quad {
        self.where_odd(bytes.map(|block| block >> bit), value)
    }

    fn expand(self, keys: [&Block; QUAD]) -> Self::Keys {
        keys.map(|key| Aes128Enc::new(&(*key).into()))
    }

    fn encrypt<const N: usize>(self, keys: &Self::Keys, quads: [Self::Quad; N]) -> [Self::Quad; N] {
        let mut images = quads;
        for (lane, cipher) in keys.iter().enumerate() {
            let mut blocks = quads.map(|quad| quad[lane].to_le_bytes().into());
            cipher.encrypt_blocks(&mut blocks);
            for (image, block) in images.iter_mut().zip(blocks) {
                image[lane] = u128::from_le_bytes(block.into());
            }
        }
        images
    }

    fn stream(self, seed: &Block, first: u128, output: &mut [Block]) {
        for (offset, block) in output.iter_mut().enumerate() {
            *block = first.wrapping_add(offset as u128).to_le_bytes();
        }
        Aes128Enc::new(&(*seed).into()).encrypt_blocks(Array::cast_slice_from_core_mut(output));
    }
}

/// There is no faster way.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) enum PieceSums {}

#[cfg(not(target_arch = "x86_64"))]
impl PieceSums {
    pub(crate) fn new(_: &Block) -> Option<Self> {
        None
    }

    pub(crate) fn sum(&self, _: u32, _: &[[u8; 12]]) -> Block {
        match *self {}
    }
}
