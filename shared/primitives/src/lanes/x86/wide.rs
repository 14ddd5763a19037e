//! Many blocks under one key: sixteen quads in flight, whole cache lines in and out.
//!
//! Where a quad straddles two lines, each load and each store takes two accesses, which costs as much as a third of a
//! fast processor's AES rounds. So the blocks before the first line boundary are done apart.

use super::{Engine, QUAD, Vaes512};
use crate::Block;
use std::arch::x86_64::*;

/// Quads in flight: as many as hide a round's latency where two rounds start in a cycle, and leave registers for keys.
const FLIGHT: usize = 16;

/// Blocks in flight.
const STEP: usize = FLIGHT * QUAD;

/// Bytes of a cache line, which is a quad.
const LINE: usize = size_of::<__m512i>();

impl Vaes512 {
    /// Replaces each block by its image under `key`.
    #[inline]
    pub(in crate::lanes) fn encrypt_all(self, key: &Block, blocks: &mut [Block]) {
        // SAFETY: `self` proves the instructions.
        unsafe { encrypt_all(self, key, blocks) }
    }

    /// Writes the images of `first`, `first + 1`, ... under `key`.
    ///
    /// # Panics
    ///
    /// If the lower 64 bits of the counter overflow on the way.
    #[inline]
    pub(in crate::lanes) fn count_all(self, key: &Block, first: u128, output: &mut [Block]) {
        assert!((first as u64).checked_add(output.len() as u64).is_some(), "the counter's lower half");
        // SAFETY: `self` proves the instructions.
        unsafe { count_all(self, key, first, output) }
    }
}

/// Blocks before the first line boundary; none if no block begins at one.
#[inline(always)]
fn before_line(blocks: &[Block]) -> usize {
    let off = blocks.as_ptr().addr().wrapping_neg() % LINE;
    if off.is_multiple_of(size_of::<Block>()) { (off / size_of::<Block>()).min(blocks.len()) } else { 0 }
}

#[inline(always)]
fn load(four: &[Block; QUAD]) -> __m512i {
    // SAFETY: same size, all bit patterns valid.
    unsafe { std::mem::transmute::<[Block; QUAD], __m512i>(*four) }
}

#[inline(always)]
fn store(quad: __m512i) -> [Block; QUAD] {
    // SAFETY: same size, all bit patterns valid.
    unsafe { std::mem::transmute::<__m512i, [Block; QUAD]>(quad) }
}

#[target_feature(enable = "vaes,avx512f,avx512bw,avx512dq,avx512vl")]
fn encrypt_all(engine: Vaes512, key: &Block, blocks: &mut [Block]) {
    let keys = engine.expand([key; QUAD]);
    let (head, rest) = blocks.split_at_mut(before_line(blocks));
    encrypt_few(engine, &keys, head);
    let (steps, rest) = rest.as_chunks_mut::<STEP>();
    for step in steps {
        let mut quads = [engine.splat(0); FLIGHT];
        for (quad, four) in quads.iter_mut().zip(step.as_chunks::<QUAD>().0) {
            *quad = load(four);
        }
        let quads = engine.encrypt(&keys, quads);
        for (quad, four) in quads.into_iter().zip(step.as_chunks_mut::<QUAD>().0) {
            *four = store(quad);
        }
    }
    encrypt_few(engine, &keys, rest);
}

/// Fewer than [`STEP`] blocks, all in flight; what is missing is zeros.
#[inline(always)]
fn encrypt_few(engine: Vaes512, keys: &<Vaes512 as Engine>::Keys, blocks: &mut [Block]) {
    for some in blocks.chunks_mut(FEW * QUAD) {
        let mut padded = [[0; 16]; FEW * QUAD];
        padded[..some.len()].copy_from_slice(some);
        let mut quads = [engine.splat(0); FEW];
        for (quad, four) in quads.iter_mut().zip(padded.as_chunks::<QUAD>().0) {
            *quad = load(four);
        }
        for (quad, four) in engine.encrypt(keys, quads).into_iter().zip(padded.as_chunks_mut::<QUAD>().0) {
            *four = store(quad);
        }
        some.copy_from_slice(&padded[..some.len()]);
    }
}

/// Quads at a time of what is no whole step.
const FEW: usize = 4;

#[target_feature(enable = "vaes,avx512f,avx512bw,avx512dq,avx512vl")]
fn count_all(engine: Vaes512, key: &Block, first: u128, output: &mut [Block]) {
    let keys = engine.expand([key; QUAD]);
    let lanes: [Block; QUAD] = std::array::from_fn(|lane| first.wrapping_add(lane as u128).to_le_bytes());
    // The next counters; the upper halves stay as they are.
    let mut counters = load(&lanes);
    let ahead = |quads: usize| load(&[((quads * QUAD) as u128).to_le_bytes(); QUAD]);
    let (head, rest) = output.split_at_mut(before_line(output));
    if !head.is_empty() {
        let [quad] = engine.encrypt(&keys, [counters]);
        head.copy_from_slice(&store(quad)[..head.len()]);
        let skipped = load(&[(head.len() as u128).to_le_bytes(); QUAD]);
        counters = _mm512_add_epi64(counters, skipped);
    }
    let places: [__m512i; FLIGHT] = std::array::from_fn(ahead);
    let step_ahead = ahead(FLIGHT);
    let (steps, rest) = rest.as_chunks_mut::<STEP>();
    for step in steps {
        let mut quads = places;
        for quad in &mut quads {
            *quad = _mm512_add_epi64(*quad, counters);
        }
        let quads = engine.encrypt(&keys, quads);
        for (quad, four) in quads.into_iter().zip(step.as_chunks_mut::<QUAD>().0) {
            *four = store(quad);
        }
        counters = _mm512_add_epi64(counters, step_ahead);
    }
    for some in rest.chunks_mut(FEW * QUAD) {
        let mut quads = [counters; FEW];
        for (quad, place) in quads.iter_mut().zip(places) {
            *quad = _mm512_add_epi64(*quad, place);
        }
        let mut made = [[0; 16]; FEW * QUAD];
        for (quad, four) in engine.encrypt(&keys, quads).into_iter().zip(made.as_chunks_mut::<QUAD>().0) {
            *four = store(quad);
        }
        some.copy_from_slice(&made[..some.len()]);
        counters = _mm512_add_epi64(counters, ahead(FEW));
    }
}
