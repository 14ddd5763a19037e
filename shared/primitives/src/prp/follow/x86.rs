//! [`Follower::follow`] with AVX2: a permutation a lane.
//!
//! # Safety
//!
//! All `unsafe` here is the call of a function compiled for AVX2, of which an [`Avx2`] is the proof.

use super::super::SIDE_BY_SIDE;
use super::Follower;
use crate::Block;
use crate::avx2::{Avx2, numbers, to_numbers, vector};
use std::arch::x86_64::*;

/// Goes on by four choices an element of `words`.
#[inline]
pub(super) fn follow(_: Avx2, follower: &mut Follower, words: &[[Block; SIDE_BY_SIDE]]) {
    // SAFETY: the processor has AVX2.
    unsafe { with_avx2(follower, words) }
}

#[target_feature(enable = "avx2")]
fn with_avx2(follower: &mut Follower, words: &[[Block; SIDE_BY_SIDE]]) {
    let wanted = numbers(follower.wanted);
    let mut places = numbers(follower.places);
    let mut step = _mm256_set1_epi32(follower.step as i32);
    let mut doubtful = _mm256_setzero_si256();
    let one = _mm256_set1_epi32(1);
    for blocks in words {
        for drawn in transposed(blocks) {
            let next = _mm256_add_epi32(step, one);
            // The products of even lanes, and of odd ones; their upper halves are the choices.
            let even = _mm256_mul_epu32(drawn, next);
            let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(drawn), next);
            let chosen = _mm256_blend_epi32::<0b1010_1010>(_mm256_srli_epi64::<32>(even), odd);
            let low = _mm256_blend_epi32::<0b1010_1010>(even, _mm256_slli_epi64::<32>(odd));
            // At most `step`, as unsigned numbers.
            doubtful = _mm256_or_si256(doubtful, _mm256_cmpeq_epi32(_mm256_min_epu32(low, step), low));
            let moved = _mm256_and_si256(_mm256_cmpeq_epi32(chosen, places), _mm256_xor_si256(chosen, step));
            let placed = _mm256_andnot_si256(chosen, _mm256_cmpeq_epi32(wanted, step));
            places = _mm256_andnot_si256(placed, _mm256_xor_si256(places, moved));
            step = next;
        }
    }
    follower.places = to_numbers(places);
    follower.step = follower.step.wrapping_add(4 * words.len() as u32);
    follower.doubtful |= _mm256_movemask_epi8(doubtful) != 0;
}

/// The four words of each lane, by word.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(blocks: &[Block; SIDE_BY_SIDE]) -> [__m256i; 4] {
    let [a, b, c, d, e, f, g, h] = blocks;
    let a = _mm256_set_m128i(vector(e), vector(a));
    let b = _mm256_set_m128i(vector(f), vector(b));
    let c = _mm256_set_m128i(vector(g), vector(c));
    let d = _mm256_set_m128i(vector(h), vector(d));
    let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab, cd),
        _mm256_unpackhi_epi64(ab, cd),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}
