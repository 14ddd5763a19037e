//! Quads by AES instructions of x86-64.
//!
//! # Safety
//!
//! All `unsafe` here is a call of an intrinsic that the processor must have, or of a function compiled for it.
//! The engines have a private field and are made by `detect` only, which asks the processor; so holding one is the
//! proof. No pointer is formed: vectors come from arrays and go to arrays of the same size by value.
//! Nothing here depends on secret data in time: no table look-up, no branch on a lane's content.

use super::{Engine, QUAD, Work};
use crate::Block;
use std::arch::x86_64::*;
use std::array;

/// Rounds of AES-128.
const ROUNDS: usize = 10;

/// Round constants of the key schedule, in the position of a word's first byte.
const ROUND_CONSTANTS: [i32; ROUNDS] = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36];

/// Copies the rotated last word of a round key to all words: with equal columns the row shift of a last AES round is
/// void, and what remains is the byte substitution that the key schedule asks for.
const ROTATE_LAST_WORD: i32 = 0x0c0f_0e0d;

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

// SAFETY of every block below: `self` proves AES-NI and SSSE3; `Block` and `__m128i` have the same size and all
// bit patterns are valid for both.
impl Engine for AesNi {
    type Quad = [__m128i; QUAD];
    type Keys = [[__m128i; QUAD]; ROUNDS + 1];

    fn run<W: Work>(self, work: W) -> W::Output {
        // SAFETY: `self` proves the instructions.
        unsafe { run_aes_ni(self, work) }
    }

    #[inline(always)]
    fn load(self, blocks: [&Block; QUAD]) -> Self::Quad {
        // SAFETY: same size, all bit patterns valid.
        blocks.map(|block| unsafe { std::mem::transmute::<Block, __m128i>(*block) })
    }

    #[inline(always)]
    fn store(self, quad: Self::Quad) -> [Block; QUAD] {
        // SAFETY: same size, all bit patterns valid.
        quad.map(|block| unsafe { std::mem::transmute::<__m128i, Block>(block) })
    }

    #[inline(always)]
    fn splat(self, value: u128) -> Self::Quad {
        self.load([&value.to_le_bytes(); QUAD])
    }

    #[inline(always)]
    fn splat_bytes(self, bytes: [u8; QUAD]) -> Self::Quad {
        // SAFETY: `self` proves the instructions.
        bytes.map(|byte| unsafe { _mm_set1_epi8(byte as i8) })
    }

    #[inline(always)]
    fn xor(self, left: Self::Quad, right: Self::Quad) -> Self::Quad {
        // SAFETY: `self` proves the instructions.
        array::from_fn(|lane| unsafe { _mm_xor_si128(left[lane], right[lane]) })
    }

    #[inline(always)]
    fn sigma(self, quad: Self::Quad) -> Self::Quad {
        // SAFETY: `self` proves the instructions.
        quad.map(|block| unsafe {
            let upper = _mm_and_si128(block, _mm_set_epi64x(-1, 0));
            _mm_xor_si128(_mm_shuffle_epi32::<0x4e>(block), upper)
        })
    }

    #[inline(always)]
    fn where_odd(self, selector: Self::Quad, value: Self::Quad) -> Self::Quad {
        // SAFETY: `self` proves the instructions.
        self.where_bit(
            selector.map(|block| unsafe { _mm_shuffle_epi32::<0>(block) }),
            0,
            value,
        )
    }

    #[inline(always)]
    fn where_bit(self, bytes: Self::Quad, bit: u32, value: Self::Quad) -> Self::Quad {
        // SAFETY: `self` proves the instructions.
        array::from_fn(|lane| unsafe {
            let bit = _mm_set1_epi32(1 << bit);
            _mm_and_si128(value[lane], _mm_cmpeq_epi32(_mm_and_si128(bytes[lane], bit), bit))
        })
    }

    #[inline(always)]
    fn expand(self, keys: [&Block; QUAD]) -> Self::Keys {
        let mut schedule = [self.load(keys); ROUNDS + 1];
        for round in 0..ROUNDS {
            // SAFETY: `self` proves the instructions.
            schedule[round + 1] = schedule[round].map(|key| unsafe {
                let rotated = _mm_shuffle_epi8(key, _mm_set1_epi32(ROTATE_LAST_WORD));
                let substituted = _mm_aesenclast_si128(rotated, _mm_set1_epi32(ROUND_CONSTANTS[round]));
                let mut next = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
                next = _mm_xor_si128(next, _mm_slli_si128::<8>(next));
                _mm_xor_si128(next, substituted)
            });
        }
        schedule
    }

    #[inline(always)]
    fn encrypt<const N: usize>(self, keys: &Self::Keys, quads: [Self::Quad; N]) -> [Self::Quad; N] {
        let mut states = quads.map(|quad| self.xor(quad, keys[0]));
        for key in &keys[1..ROUNDS] {
            // SAFETY: `self` proves the instructions.
            states = states
                .map(|state| array::from_fn(|lane| unsafe { _mm_aesenc_si128(state[lane], key[lane]) }));
        }
        let key = &keys[ROUNDS];
        // SAFETY: `self` proves the instructions.
        states.map(|state| array::from_fn(|lane| unsafe { _mm_aesenclast_si128(state[lane], key[lane]) }))
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
        // SAFETY: same size, all bit patterns valid; `self` proves the instructions.
        unsafe {
            let [b0, b1, b2, b3] = blocks.map(|block| std::mem::transmute::<Block, __m128i>(*block));
            let quad = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(b0), b1);
            _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(quad, b2), b3)
        }
    }

    #[inline(always)]
    fn store(self, quad: Self::Quad) -> [Block; QUAD] {
        // SAFETY: same size, all bit patterns valid; `self` proves the instructions.
        unsafe {
            [
                _mm512_extracti32x4_epi32::<0>(quad),
                _mm512_extracti32x4_epi32::<1>(quad),
                _mm512_extracti32x4_epi32::<2>(quad),
                _mm512_extracti32x4_epi32::<3>(quad),
            ]
            .map(|block| std::mem::transmute::<__m128i, Block>(block))
        }
    }

    #[inline(always)]
    fn splat(self, value: u128) -> Self::Quad {
        // SAFETY: same size, all bit patterns valid; `self` proves the instructions.
        unsafe { _mm512_broadcast_i32x4(std::mem::transmute::<Block, __m128i>(value.to_le_bytes())) }
    }

    #[inline(always)]
    fn splat_bytes(self, bytes: [u8; QUAD]) -> Self::Quad {
        // SAFETY: `self` proves the instructions.
        unsafe {
            let quad = _mm512_castsi128_si512(_mm_cvtsi32_si128(i32::from_le_bytes(bytes)));
            // Lane i takes byte i of the lowest word, which the first step gives to every lane.
            let spread = _mm512_broadcast_i32x4(_mm512_castsi512_si128(quad));
            let [of0, of1, of2, of3] = [0_i64, 1, 2, 3].map(|lane| lane * 0x0101_0101_0101_0101);
            _mm512_shuffle_epi8(spread, _mm512_setr_epi64(of0, of0, of1, of1, of2, of2, of3, of3))
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
        self.where_bit(unsafe { _mm512_shuffle_epi32::<0>(selector) }, 0, value)
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
    fn encrypt<const N: usize>(self, keys: &Self::Keys, quads: [Self::Quad; N]) -> [Self::Quad; N] {
        let mut states = quads.map(|quad| self.xor(quad, keys[0]));
        for key in &keys[1..ROUNDS] {
            // SAFETY: `self` proves the instructions.
            states = states.map(|state| unsafe { _mm512_aesenc_epi128(state, *key) });
        }
        // SAFETY: `self` proves the instructions.
        states.map(|state| unsafe { _mm512_aesenclast_epi128(state, keys[ROUNDS]) })
    }
}
