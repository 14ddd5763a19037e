//! Pseudorandom generator: AES-128 in counter mode under a seed. A run that takes its randomness from a
//! [`Prg`] replays from the seed.
//!
//! The stream is `AES_seed(0) || AES_seed(1) || ...` with the counter as a little-endian 128-bit integer.
//! How it is cut into calls does not matter: `fill` of 3 bytes then 5 gives what one `fill` of 8 gives.

use crate::lanes::{Backend, STREAM_STEP, stream_on};
use crate::meter::{Primitive, count};
use crate::wipe::wipe;
use crate::{BLOCK_BYTES, Block};
use aes::Aes128Enc;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use rand::{TryCryptoRng, TryRng};
use std::convert::Infallible;
use std::fmt;
use zeroize::Zeroize;

const STEP_BYTES: usize = STREAM_STEP * BLOCK_BYTES;

/// The first blocks of the stream of `seed`, in one go: what a new [`Prg`] would fill `output` with.
pub fn stream(seed: &Block, output: &mut [Block]) {
    count(Primitive::Prg, 1);
    make(seed, 0, output);
}

/// Blocks from which on the `aes` crate is faster than two or four lanes: it uses VAES without AVX-512, too, but its
/// key schedule takes longer.
const LONG: usize = 128;

/// Blocks made at a time by the `aes` crate: 8 KiB stay in the first-level cache.
const PIECE: usize = 512;

fn make(seed: &Block, first: u128, output: &mut [Block]) {
    let backend = Backend::best();
    if backend == Backend::Vaes512 || output.len() < LONG {
        return stream_on(backend, seed, first, output);
    }
    count(Primitive::AesBlock, output.len());
    let cipher = Aes128Enc::new(&(*seed).into());
    for (piece, blocks) in output.chunks_mut(PIECE).enumerate() {
        let first = first.wrapping_add((piece * PIECE) as u128);
        for (place, block) in blocks.iter_mut().enumerate() {
            *block = first.wrapping_add(place as u128).to_le_bytes();
        }
        cipher.encrypt_blocks(Array::cast_slice_from_core_mut(blocks));
    }
}

/// The generator. Also a [`rand::CryptoRng`].
pub struct Prg {
    seed: Block,
    counter: u128,
    ahead: [Block; STREAM_STEP],
    used_bytes: usize,
}

impl fmt::Debug for Prg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prg(..)")
    }
}

impl Drop for Prg {
    fn drop(&mut self) {
        self.seed.zeroize();
        wipe(self.ahead.as_flattened_mut());
    }
}

impl Prg {
    /// Starts the stream of `seed`, which must be uniform and used for nothing else.
    #[must_use]
    pub fn new(seed: &Block) -> Self {
        Self { seed: *seed, counter: 0, ahead: [[0; BLOCK_BYTES]; STREAM_STEP], used_bytes: STEP_BYTES }
    }

    /// The stream of `seed` from its block `first` on. Costs no more than a stream from its beginning.
    #[must_use]
    pub fn from_block(seed: &Block, first: u128) -> Self {
        let mut prg = Self::new(seed);
        // The stream is made in whole steps.
        let skipped = (first % STREAM_STEP as u128) as usize;
        prg.counter = first - skipped as u128;
        if skipped > 0 {
            stream_on(Backend::best(), seed, prg.counter, &mut prg.ahead);
            prg.counter = prg.counter.wrapping_add(STREAM_STEP as u128);
            prg.used_bytes = skipped * BLOCK_BYTES;
        }
        prg
    }

    /// Writes the next bytes of the stream over `output`.
    pub fn fill(&mut self, output: &mut [u8]) {
        count(Primitive::Prg, 1);
        let (kept, rest) = output.split_at_mut(output.len().min(STEP_BYTES - self.used_bytes));
        self.take_ahead(kept);
        let (direct, last) = rest.split_at_mut(rest.len() - rest.len() % STEP_BYTES);
        if !direct.is_empty() {
            let blocks = direct.as_chunks_mut().0;
            make(&self.seed, self.counter, blocks);
            self.counter = self.counter.wrapping_add(blocks.len() as u128);
        }
        if !last.is_empty() {
            stream_on(Backend::best(), &self.seed, self.counter, &mut self.ahead);
            self.counter = self.counter.wrapping_add(STREAM_STEP as u128);
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

    fn take_ahead(&mut self, output: &mut [u8]) {
        let until = self.used_bytes + output.len();
        output.copy_from_slice(&self.ahead.as_flattened()[self.used_bytes..until]);
        self.used_bytes = until;
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
