//! The xor of many blocks' images, where the blocks are pieces of a string behind their numbers: they are put together in registers,
//! and come to no memory. Two blocks a register, which more processors have than four.

use super::{AesNi, Engine, QUAD, ROUNDS, block, vector};
use crate::Block;
use std::arch::x86_64::*;
use zeroize::Zeroize;

/// Bytes of a piece.
const PIECE: usize = 12;

/// Blocks of a register.
const PAIR: usize = 2;

/// Pairs in flight.
const FLIGHT: usize = 8;

/// Pairs in flight of what is less.
const FEW: usize = 4;

/// Bytes that a pair is read with: a block has as many behind its piece as its number takes.
const READ: usize = PIECE + size_of::<Block>();

/// Bytes that the pairs in flight are read with.
const WINDOW: usize = (FLIGHT - 1) * PAIR * PIECE + READ;

/// One key, on a processor with VAES and AVX2.
pub(crate) struct PieceSums {
    schedule: [Block; ROUNDS + 1],
}

impl Drop for PieceSums {
    fn drop(&mut self) {
        self.schedule.zeroize();
    }
}

impl PieceSums {
    /// None if this processor has no instructions for it.
    pub(crate) fn new(key: &Block) -> Option<Self> {
        let engine = AesNi::detect().filter(|_| is_x86_feature_detected!("vaes"))?;
        let schedule = engine.expand([key; QUAD]).map(|[key, ..]| block(key));
        is_x86_feature_detected!("avx2").then_some(Self { schedule })
    }

    /// Of pieces the first of which has so many before it. A block is a number, big-endian, and a piece.
    #[inline]
    pub(crate) fn sum(&self, before: u32, pieces: &[[u8; PIECE]]) -> Block {
        // SAFETY: `new` has asked the processor for the instructions, and nothing else makes `self`.
        unsafe { sum(&self.schedule, before, pieces) }
    }
}

/// See [`PieceSums::sum`].
#[target_feature(enable = "vaes,avx2")]
fn sum(schedule: &[Block; ROUNDS + 1], before: u32, pieces: &[[u8; PIECE]]) -> Block {
    let zeros = _mm256_setzero_si256();
    let mut keys = [zeros; ROUNDS + 1];
    for (pair, key) in keys.iter_mut().zip(schedule) {
        *pair = _mm256_broadcastsi128_si256(vector(key));
    }
    let [first, second] = [1, 2].map(|ahead| before.wrapping_add(ahead).cast_signed());
    let mut numbers = _mm256_set_epi32(0, 0, 0, second, 0, 0, 0, first);
    let mut sum = zeros;
    let (mut rest, mut left) = (pieces.as_flattened(), pieces.len());
    while let Some(window) = rest.first_chunk::<WINDOW>() {
        let mut pairs = [zeros; FLIGHT];
        for (at, pair) in pairs.iter_mut().enumerate() {
            *pair = numbered(&mut numbers, blocks(&window[at * PAIR * PIECE..]));
        }
        for pair in encrypt(&keys, pairs) {
            sum = _mm256_xor_si256(sum, pair);
        }
        (rest, left) = (&rest[FLIGHT * PAIR * PIECE..], left - FLIGHT * PAIR);
    }
    while left > 0 {
        let mut pairs = [zeros; FEW];
        for pair in &mut pairs {
            *pair = numbered(&mut numbers, blocks(rest));
            rest = rest.get(PAIR * PIECE..).unwrap_or_default();
        }
        for pair in encrypt(&keys, pairs) {
            sum = match left {
                0 => sum,
                1 => _mm256_xor_si256(sum, _mm256_blend_epi32::<0b1111>(zeros, pair)),
                _ => _mm256_xor_si256(sum, pair),
            };
            left -= left.min(PAIR);
        }
    }
    block(_mm_xor_si128(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum)))
}

/// The two pieces that a string begins with, each with the bytes behind it; zeros where it ends before.
#[inline(always)]
fn blocks(string: &[u8]) -> [Block; PAIR] {
    let mut padded = [0; READ];
    let read = string.first_chunk::<READ>().unwrap_or_else(|| {
        padded[..string.len()].copy_from_slice(string);
        &padded
    });
    let (first, second) = (read.first_chunk(), read.last_chunk());
    [first.copied().unwrap_or_default(), second.copied().unwrap_or_default()]
}

/// Two pieces, each behind its number instead of before other bytes; and the next two numbers.
#[inline]
#[target_feature(enable = "avx2")]
fn numbered(numbers: &mut __m256i, [first, second]: [Block; PAIR]) -> __m256i {
    // The lowest word with its bytes in the other order, zeros behind it.
    let big_endian = _mm256_broadcastsi128_si256(_mm_set_epi32(-1, -1, -1, 0x0001_0203));
    let pieces = _mm256_bslli_epi128::<4>(_mm256_set_m128i(vector(&second), vector(&first)));
    let pair = _mm256_or_si256(pieces, _mm256_shuffle_epi8(*numbers, big_endian));
    *numbers = _mm256_add_epi32(*numbers, _mm256_set1_epi64x(PAIR as i64));
    pair
}

#[inline]
#[target_feature(enable = "vaes,avx2")]
fn encrypt<const N: usize>(keys: &[__m256i; ROUNDS + 1], mut pairs: [__m256i; N]) -> [__m256i; N] {
    for pair in &mut pairs {
        *pair = _mm256_xor_si256(*pair, keys[0]);
    }
    for key in &keys[1..ROUNDS] {
        for pair in &mut pairs {
            *pair = _mm256_aesenc_epi128(*pair, *key);
        }
    }
    for pair in &mut pairs {
        *pair = _mm256_aesenclast_epi128(*pair, keys[ROUNDS]);
    }
    pairs
}
