//! Quads by AES instructions of x86-64.
//!
//! # Safety
//!
//! All `unsafe` here is a call of an intrinsic that the processor must have, or of a function compiled for
//! it. The engines have a private field and are made by `detect` only, which asks the processor; so holding
//! one is the proof. No pointer is formed: vectors come from arrays and go to arrays of the same size by
//! value. Nothing here depends on secret data in time: no table look-up, no branch on a lane's content.
//!
//! Intrinsics are called in the methods themselves and never in closures: a closure is compiled without the
//! method's instructions and would call them out of line.

mod pieces;
mod wide;

pub(crate) use pieces::PieceSums;

use super::{Engine, QUAD, Work};
use crate::Block;
use std::arch::x86_64::*;

/// Rounds of AES-128.
const ROUNDS: usize = 10;

/// Round constants of the key schedule, in the position of a word's first byte.
const ROUND_CONSTANTS: [i32; ROUNDS] = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36];

/// Copies the rotated last word of a round key to all words: with equal columns the row shift of a last AES
/// round is void, and what remains is the byte substitution that the key schedule asks for.
const ROTATE_LAST_WORD: i32 = 0x0c0f_0e0d;

#[inline(always)]
fn vector(block: &Block) -> __m128i {
    // SAFETY: same size, all bit patterns valid.
    unsafe { std::mem::transmute::<Block, __m128i>(*block) }
}

#[inline(always)]
fn block(vector: __m128i) -> Block {
    // SAFETY: same size, all bit patterns valid.
    unsafe { std::mem::transmute::<__m128i, Block>(vector) }
}

/// A processor with AES-NI and SSSE3.
#[derive(Clone, Copy)]
pub(super) struct AesNi(());

impl AesNi {
    /// Asks the processor (once; the answer is kept).
    #[inline]
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("aes") && is_x86_feature_detected!("ssse3")).then_some(AesNi(()))
    }
}

#[target_feature(enable = "aes,ssse3")]
fn run_aes_ni<W: Work>(engine: AesNi, work: W) -> W::Output {
    work.run(engine)
}

impl Engine for AesNi {
    type Quad = [__m128i; QUAD];
    type Keys = [[__m128i; QUAD]; ROUNDS + 1];

    fn run<W: Work>(self, work: W) -> W::Output {
        // SAFETY: `self` proves the instructions.
        unsafe { run_aes_ni(self, work) }
    }

    #[inline(always)]
    fn load(self, blocks: [&Block; QUAD]) -> Self::Quad {
        blocks.map(vector)
    }

    #[inline(always)]
    fn store(self, quad: Self::Quad) -> [Block; QUAD] {
        quad.map(block)
    }

    #[inline(always)]
    fn splat(self, value: u128) -> Self::Quad {
        [vector(&value.to_le_bytes()); QUAD]
    }

    #[inline(always)]
    fn splat_bytes(self, bytes: [u8; QUAD]) -> Self::Quad {
        bytes.map(|byte| vector(&[byte; 16]))
    }

    #[inline(always)]
    fn xor(self, mut left: Self::Quad, right: Self::Quad) -> Self::Quad {
        for lane in 0..QUAD {
            // SAFETY: `self` proves the instructions.
            left[lane] = unsafe { _mm_xor_si128(left[lane], right[lane]) };
        }
        left
    }

    #[inline(always)]
    fn sigma(self, mut quad: Self::Quad) -> Self::Quad {
        for lane in &mut quad {
            // SAFETY: `self` proves the instructions.
            *lane = unsafe {
                let upper = _mm_and_si128(*lane, _mm_set_epi64x(-1, 0));
                _mm_xor_si128(_mm_shuffle_epi32::<0x4e>(*lane), upper)
            };
        }
        quad
    }

    #[inline(always)]
    fn where_odd(self, mut selector: Self::Quad, value: Self::Quad) -> Self::Quad {
        for lane in &mut selector {
            // SAFETY: `self` proves the instructions.
            *lane = unsafe { _mm_shuffle_epi32::<0>(*lane) };
        }
        self.where_bit(selector, 0, value)
    }

    #[inline(always)]
    fn where_bit(self, bytes: Self::Quad, bit: u32, mut value: Self::Quad) -> Self::Quad {
        for lane in 0..QUAD {
            // SAFETY: `self` proves the instructions.
            value[lane] = unsafe {
                let bit = _mm_set1_epi32(1 << bit);
                _mm_and_si128(value[lane], _mm_cmpeq_epi32(_mm_and_si128(bytes[lane], bit), bit))
            };
        }
        value
    }

    #[inline(always)]
    fn expand(self, keys: [&Block; QUAD]) -> Self::Keys {
        let mut current = self.load(keys);
        let mut schedule = [current; ROUNDS + 1];
        for round in 0..ROUNDS {
            for key in &mut current {
                // SAFETY: `self` proves the instructions.
                *key = unsafe {
                    let rotated = _mm_shuffle_epi8(*key, _mm_set1_epi32(ROTATE_LAST_WORD));
                    let substituted = _mm_aesenclast_si128(rotated, _mm_set1_epi32(ROUND_CONSTANTS[round]));
                    let mut next = _mm_xor_si128(*key, _mm_slli_si128::<4>(*key));
                    next = _mm_xor_si128(next, _mm_slli_si128::<8>(next));
                    _mm_xor_si128(next, substituted)
                };
            }
            schedule[round + 1] = current;
        }
        schedule
    }

    #[inline(always)]
    fn encrypt<const N: usize>(self, keys: &Self::Keys, mut quads: [Self::Quad; N]) -> [Self::Quad; N] {
        // Lane by lane: a lane's round keys are loaded once, and N states hide the latency of a round.
        for lane in 0..QUAD {
            for quad in &mut quads {
                // SAFETY: `self` proves the instructions.
                quad[lane] = unsafe { _mm_xor_si128(quad[lane], keys[0][lane]) };
            }
            for key in &keys[1..ROUNDS] {
                for quad in &mut quads {
                    // SAFETY: `self` proves the instructions.
                    quad[lane] = unsafe { _mm_aesenc_si128(quad[lane], key[lane]) };
                }
            }
            for quad in &mut quads {
                // SAFETY: `self` proves the instructions.
                quad[lane] = unsafe { _mm_aesenclast_si128(quad[lane], keys[ROUNDS][lane]) };
            }
        }
        quads
    }
}

/// A processor with VAES and the foundation, byte and word, doubleword and quadword parts of AVX-512.
#[derive(Clone, Copy)]
pub(super) struct Vaes512(());

impl Vaes512 {
    /// Asks the processor (once; the answer is kept).
    #[inline]
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl"))
        .then_some(Vaes512(()))
    }
}

#[target_feature(enable = "vaes,avx512f,avx512bw,avx512dq,avx512vl")]
fn run_vaes512<W: Work>(engine: Vaes512, work: W) -> W::Output {
    work.run(engine)
}

impl Engine for Vaes512 {
    type Quad = __m512i;
    type Keys = [__m512i; ROUNDS + 1];

    fn run<W: Work>(self, work: W) -> W::Output {
        // SAFETY: `self` proves the instructions.
        unsafe { run_vaes512(self, work) }
    }

    #[inline(always)]
    fn load(self, blocks: [&Block; QUAD]) -> Self::Quad {
        let [b0, b1, b2, b3] = blocks.map(vector);
        // SAFETY: `self` proves the instructions.
        unsafe {
            let quad = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(b0), b1);
            _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(quad, b2), b3)
        }
    }

    #[inline(always)]
    fn store(self, quad: Self::Quad) -> [Block; QUAD] {
        // SAFETY: `self` proves the instructions.
        let lanes = unsafe {
            [
                _mm512_extracti32x4_epi32::<0>(quad),
                _mm512_extracti32x4_epi32::<1>(quad),
                _mm512_extracti32x4_epi32::<2>(quad),
                _mm512_extracti32x4_epi32::<3>(quad),
            ]
        };
        lanes.map(block)
    }

    #[inline(always)]
    fn splat(self, value: u128) -> Self::Quad {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_broadcast_i32x4(vector(&value.to_le_bytes())) }
    }

    #[inline(always)]
    fn splat_bytes(self, bytes: [u8; QUAD]) -> Self::Quad {
        const LANE: i64 = 0x0101_0101_0101_0101;
        // SAFETY: `self` proves the instructions.
        unsafe {
            let spread = _mm512_set1_epi32(i32::from_le_bytes(bytes));
            let choice = _mm512_setr_epi64(0, 0, LANE, LANE, 2 * LANE, 2 * LANE, 3 * LANE, 3 * LANE);
            _mm512_shuffle_epi8(spread, choice)
        }
    }

    #[inline(always)]
    fn xor(self, left: Self::Quad, right: Self::Quad) -> Self::Quad {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_xor_si512(left, right) }
    }

    #[inline(always)]
    fn sigma(self, quad: Self::Quad) -> Self::Quad {
        // SAFETY: `self` proves the instructions.
        unsafe {
            let swapped = _mm512_shuffle_epi32::<0x4e>(quad);
            _mm512_mask_xor_epi64(swapped, 0b1010_1010, swapped, quad)
        }
    }

    #[inline(always)]
    fn where_odd(self, selector: Self::Quad, value: Self::Quad) -> Self::Quad {
        // SAFETY: `self` proves the instructions.
        let selector = unsafe { _mm512_shuffle_epi32::<0>(selector) };
        self.where_bit(selector, 0, value)
    }

    #[inline(always)]
    fn where_bit(self, bytes: Self::Quad, bit: u32, value: Self::Quad) -> Self::Quad {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_maskz_mov_epi32(_mm512_test_epi32_mask(bytes, _mm512_set1_epi32(1 << bit)), value) }
    }

    #[inline(always)]
    fn expand(self, keys: [&Block; QUAD]) -> Self::Keys {
        let mut schedule = [self.load(keys); ROUNDS + 1];
        for round in 0..ROUNDS {
            let key = schedule[round];
            // SAFETY: `self` proves the instructions.
            schedule[round + 1] = unsafe {
                let rotated = _mm512_shuffle_epi8(key, _mm512_set1_epi32(ROTATE_LAST_WORD));
                let substituted =
                    _mm512_aesenclast_epi128(rotated, _mm512_set1_epi32(ROUND_CONSTANTS[round]));
                let mut next = _mm512_xor_si512(key, _mm512_bslli_epi128::<4>(key));
                next = _mm512_xor_si512(next, _mm512_bslli_epi128::<8>(next));
                _mm512_xor_si512(next, substituted)
            };
        }
        schedule
    }

    #[inline(always)]
    fn encrypt<const N: usize>(self, keys: &Self::Keys, mut quads: [Self::Quad; N]) -> [Self::Quad; N] {
        for quad in &mut quads {
            // SAFETY: `self` proves the instructions.
            *quad = unsafe { _mm512_xor_si512(*quad, keys[0]) };
        }
        for key in &keys[1..ROUNDS] {
            for quad in &mut quads {
                // SAFETY: `self` proves the instructions.
                *quad = unsafe { _mm512_aesenc_epi128(*quad, *key) };
            }
        }
        for quad in &mut quads {
            // SAFETY: `self` proves the instructions.
            *quad = unsafe { _mm512_aesenclast_epi128(*quad, keys[ROUNDS]) };
        }
        quads
    }
}
