//! Pseudorandom generator: AES-128 in counter mode under a seed. A run that takes its randomness from a
//! [`Prg`] replays from the seed.
//!
//! The stream is `AES_seed(0) || AES_seed(1) || ...` with the counter as a little-endian 128-bit integer.
//! How it is cut into calls does not matter: `fill` of 3 bytes then 5 gives what one `fill` of 8 gives.

use crate::{BLOCK_BYTES, Block};
use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use rand::{TryCryptoRng, TryRng};
use std::convert::Infallible;
use std::fmt;
use zeroize::Zeroize;

/// Blocks made at a time when less is asked for: one pass of the widest AES instructions.
const AHEAD_BLOCKS: usize = 16;

/// The generator. Also a [`rand::CryptoRng`].
pub struct Prg {
    cipher: Aes128,
    counter: u128,
    ahead: [Block; AHEAD_BLOCKS],
    used_bytes: usize,
}

impl fmt::Debug for Prg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prg(..)")
    }
}

impl Drop for Prg {
    fn drop(&mut self) {
        self.ahead.zeroize();
    }
}

impl Prg {
    /// Starts the stream of `seed`, which must be uniform and used for nothing else.
    #[must_use]
    pub fn new(seed: &Block) -> Self {
        Self {
            cipher: Aes128::new(&(*seed).into()),
            counter: 0,
            ahead: [[0; BLOCK_BYTES]; AHEAD_BLOCKS],
            used_bytes: AHEAD_BLOCKS * BLOCK_BYTES,
        }
    }

    /// Writes the next bytes of the stream over `output`.
    pub fn fill(&mut self, output: &mut [u8]) {
        let (kept, rest) = output.split_at_mut(output.len().min(self.ahead_bytes()));
        self.take_ahead(kept);
        let direct = rest.len() - rest.len() % (AHEAD_BLOCKS * BLOCK_BYTES);
        let (direct, last) = rest.split_at_mut(direct);
        Self::make(&self.cipher, &mut self.counter, direct.as_chunks_mut().0);
        if !last.is_empty() {
            Self::make(&self.cipher, &mut self.counter, &mut self.ahead);
            self.used_bytes = 0;
            self.take_ahead(last);
        }
    }

    /// The next whole blocks of the stream.
    pub fn fill_blocks(&mut self, output: &mut [Block]) {
        self.fill(output.as_flattened_mut());
    }

    /// The next 8 bytes of the stream, as a little-endian integer.
    pub fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn ahead_bytes(&self) -> usize {
        AHEAD_BLOCKS * BLOCK_BYTES - self.used_bytes
    }

    fn take_ahead(&mut self, output: &mut [u8]) {
        let until = self.used_bytes + output.len();
        output.copy_from_slice(&self.ahead.as_flattened()[self.used_bytes..until]);
        self.used_bytes = until;
    }

    fn make(cipher: &Aes128, counter: &mut u128, blocks: &mut [Block]) {
        for block in blocks.iter_mut() {
            *block = counter.to_le_bytes();
            *counter = counter.wrapping_add(1);
        }
        cipher.encrypt_blocks(Array::cast_slice_from_core_mut(blocks));
    }
}

impl TryRng for Prg {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.next_u64())
    }

    fn try_fill_bytes(&mut self, output: &mut [u8]) -> Result<(), Infallible> {
        self.fill(output);
        Ok(())
    }
}

impl TryCryptoRng for Prg {}

#[cfg(test)]
mod tests;
