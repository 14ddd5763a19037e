//! A processor with AVX2, proven by a value; vectors from blocks and back.
//!
//! # Safety
//!
//! All `unsafe` here is a copy between types of the same size of which all bit patterns are valid.

use crate::Block;
use std::arch::x86_64::{__m128i, __m256i};

/// A processor with AVX2: made by [`Avx2::detect`] only, so that holding one is the proof.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// Asks the processor (once; the answer is kept).
    #[inline]
    pub(crate) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }
}

/// A block as a vector.
#[inline(always)]
pub(crate) fn vector(block: &Block) -> __m128i {
    // SAFETY: same size, all bit patterns valid.
    unsafe { std::mem::transmute::<Block, __m128i>(*block) }
}

/// Two blocks as a vector, the first in the lower half.
#[inline(always)]
pub(crate) fn pair(blocks: &[Block; 2]) -> __m256i {
    // SAFETY: same size, all bit patterns valid.
    unsafe { std::mem::transmute::<[Block; 2], __m256i>(*blocks) }
}

/// Eight numbers as a vector.
#[inline(always)]
pub(crate) fn numbers(numbers: [u32; 8]) -> __m256i {
    // SAFETY: same size, all bit patterns valid.
    unsafe { std::mem::transmute::<[u32; 8], __m256i>(numbers) }
}

/// A vector as eight numbers.
#[inline(always)]
pub(crate) fn to_numbers(vector: __m256i) -> [u32; 8] {
    // SAFETY: same size, all bit patterns valid.
    unsafe { std::mem::transmute::<__m256i, [u32; 8]>(vector) }
}

/// A vector as bytes.
#[inline(always)]
pub(crate) fn to_bytes(vector: __m256i) -> [u8; 32] {
    // SAFETY: same size, all bit patterns valid.
    unsafe { std::mem::transmute::<__m256i, [u8; 32]>(vector) }
}
