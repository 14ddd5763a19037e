//! [`super::of_blocks`] with AVX2: 32 blocks at a time.
//!
//! # Safety
//!
//! All `unsafe` here is the call of a function compiled for AVX2, of which an [`Avx2`] is the proof.

use crate::Block;
use crate::avx2::{Avx2, numbers, pair, to_bytes};
use std::arch::x86_64::*;

/// Blocks that are done at once.
pub(super) const AT_ONCE: usize = 32;

/// The blocks modulo 3.
#[inline]
pub(super) fn of_blocks(_: Avx2, blocks: &[Block; AT_ONCE]) -> [u8; AT_ONCE] {
    // SAFETY: the processor has AVX2.
    unsafe { with_avx2(blocks) }
}

#[target_feature(enable = "avx2")]
fn with_avx2(blocks: &[Block; AT_ONCE]) -> [u8; AT_ONCE] {
    let (eights, _) = blocks.as_chunks::<8>();
    let mut remainders = [_mm256_setzero_si256(); 4];
    for (remainders, eight) in remainders.iter_mut().zip(eights) {
        *remainders = of_eight(eight);
    }
    // Both packings work within halves: bytes come as 0 to 3 of each part, then 4 to 7 of each.
    let low = _mm256_packus_epi32(remainders[0], remainders[1]);
    let high = _mm256_packus_epi32(remainders[2], remainders[3]);
    let order = numbers([0, 4, 1, 5, 2, 6, 3, 7]);
    to_bytes(_mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order))
}

/// Eight blocks modulo 3, in order.
#[inline]
#[target_feature(enable = "avx2")]
fn of_eight(blocks: &[Block; 8]) -> __m256i {
    let zero = _mm256_setzero_si256();
    let (pairs, _) = blocks.as_chunks::<2>();
    let mut sums = [zero; 4];
    for (sum, two) in sums.iter_mut().zip(pairs) {
        // The sum of each half of a block, in 64 bits.
        *sum = _mm256_sad_epu8(pair(two), zero);
    }
    let low = _mm256_packus_epi32(sums[0], sums[1]);
    let high = _mm256_packus_epi32(sums[2], sums[3]);
    let halves = _mm256_packus_epi32(low, high);
    let whole = _mm256_madd_epi16(halves, _mm256_set1_epi16(1));
    let ordered = _mm256_permutevar8x32_epi32(whole, numbers([0, 4, 1, 5, 2, 6, 3, 7]));
    // 21846 = ceil(2^16 / 3), as in `remainder`.
    let quotient = _mm256_mulhi_epu16(ordered, _mm256_set1_epi16(21846));
    _mm256_sub_epi32(ordered, _mm256_mullo_epi16(quotient, _mm256_set1_epi16(3)))
}
