//! Pseudorandom functions of AES-128: one block, many blocks, and strings (AES-CMAC, RFC 4493).

use crate::lanes::encrypt_wide;
use crate::meter::{Primitive, count};
use crate::{BLOCK_BYTES, Block};
use aes::Aes128Enc;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use cmac::{Cmac, Mac};
use std::fmt;
use zeroize::Zeroize;

/// AES-128 under one material, as a pseudorandom function.
///
/// [`Prf::block`] and [`Prf::mac`] are related (the second is built from the first): one material serves
/// either blocks or strings, not both.
pub struct Prf {
    cipher: Aes128Enc,
    /// For schedules of several lanes.
    material: Block,
    mac: Cmac<Aes128Enc>,
}

impl fmt::Debug for Prf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prf(..)")
    }
}

impl Drop for Prf {
    fn drop(&mut self) {
        self.material.zeroize();
    }
}

impl Prf {
    /// Expands `material`, which must be uniform.
    #[must_use]
    pub fn new(material: &[u8; 16]) -> Self {
        Self {
            cipher: Aes128Enc::new(&(*material).into()),
            material: *material,
            mac: Cmac::new(&(*material).into()),
        }
    }

    /// One AES call.
    #[must_use]
    pub fn block(&self, input: &Block) -> Block {
        count(Primitive::Prf, 1);
        count(Primitive::AesBlock, 1);
        let mut output = (*input).into();
        self.cipher.encrypt_block(&mut output);
        output.into()
    }

    /// Replaces each block by its image, at the speed of the widest AES instructions there are.
    pub fn blocks(&self, blocks: &mut [Block]) {
        self.wide_blocks(blocks.len(), blocks);
    }

    /// [`Prf::blocks`], where the blocks are the inputs of `calls` calls: a function with longer outputs asks for
    /// several blocks a call.
    pub fn wide_blocks(&self, calls: usize, blocks: &mut [Block]) {
        count(Primitive::Prf, calls);
        count(Primitive::AesBlock, blocks.len());
        if !encrypt_wide(&self.material, blocks) {
            self.cipher.encrypt_blocks(Array::cast_slice_from_core_mut(blocks));
        }
    }

    /// AES-CMAC of a string of any length.
    #[must_use]
    pub fn mac(&self, input: &[u8]) -> Block {
        count(Primitive::Prf, 1);
        count(Primitive::AesBlock, input.len().div_ceil(BLOCK_BYTES).max(1));
        self.mac.clone().chain_update(input).finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests;
