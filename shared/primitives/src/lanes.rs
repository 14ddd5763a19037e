//! AES-128 on several independently keyed lanes at once.
//!
//! Garbling keys its hash afresh for each circuit, and each node of a token tree is a key, so what both need
//! is many keys with few blocks each. Four lanes of different keys make a *quad*: with VAES and AVX-512 a
//! quad is one register, and one instruction does a round of four keys. With AES-NI it is four registers;
//! elsewhere the `aes` crate does the work. The choice is made at run time ([`Backend::best`]); the results
//! are equal.
//!
//! Kernels are written once, generic over the crate-private `Engine` and free of `unsafe`: an engine value
//! proves that the processor has the instructions.

use crate::Block;
use crate::meter::{Primitive, count};

mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86;

/// Lanes of a quad.
pub(crate) const QUAD: usize = 4;

/// How quads are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// x86-64 AES-NI: a register a lane.
    AesNi,
    /// The `aes` crate, lane by lane.
    Portable,
    /// x86-64 VAES with AVX-512: four lanes a register.
    Vaes512,
}

impl Backend {
    /// All, fastest first.
    pub const ALL: [Backend; 3] = [Backend::Vaes512, Backend::AesNi, Backend::Portable];

    /// The fastest that this processor has.
    #[must_use]
    pub fn best() -> Self {
        Self::ALL.into_iter().find(|backend| backend.is_available()).unwrap_or(Backend::Portable)
    }

    /// Whether this processor has it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Backend::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Backend::AesNi => x86::AesNi::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Backend::Vaes512 => x86::Vaes512::detect().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// Runs `work` on this back end, or on the portable one where the processor lacks it.
    pub(crate) fn run<W: Work>(self, work: W) -> W::Output {
        #[cfg(target_arch = "x86_64")]
        match self {
            Backend::Vaes512 => {
                if let Some(engine) = x86::Vaes512::detect() {
                    return engine.run(work);
                }
            }
            Backend::AesNi => {
                if let Some(engine) = x86::AesNi::detect() {
                    return engine.run(work);
                }
            }
            Backend::Portable => {}
        }
        portable::Portable.run(work)
    }
}

/// A computation generic over the engine.
pub(crate) trait Work {
    /// What it gives.
    type Output;

    /// Does it. Implementations are `#[inline(always)]`, so that they are compiled with the instructions the
    /// engine needs.
    fn run<E: Engine>(self, engine: E) -> Self::Output;
}

/// Operations on quads of blocks. Blocks are read as little-endian 128-bit integers.
pub(crate) trait Engine: Copy {
    /// Four blocks, one a lane.
    type Quad: Copy;
    /// Round keys of four lanes.
    type Keys: Clone;

    /// Runs `work` compiled with this engine's instructions.
    fn run<W: Work>(self, work: W) -> W::Output;

    /// One block for each lane.
    fn load(self, blocks: [&Block; QUAD]) -> Self::Quad;
    /// The four blocks.
    fn store(self, quad: Self::Quad) -> [Block; QUAD];
    /// The same number in all lanes.
    fn splat(self, value: u128) -> Self::Quad;
    /// All bytes of a lane equal to its byte.
    fn splat_bytes(self, bytes: [u8; QUAD]) -> Self::Quad;
    /// Exclusive or.
    fn xor(self, left: Self::Quad, right: Self::Quad) -> Self::Quad;
    /// `sigma(L || R) = (L xor R) || L`, L being the upper 64 bits: the linear orthomorphism of the
    /// garbling hash.
    fn sigma(self, quad: Self::Quad) -> Self::Quad;
    /// `value` in lanes whose `selector` is odd, else 0.
    fn where_odd(self, selector: Self::Quad, value: Self::Quad) -> Self::Quad;
    /// `value` in lanes whose byte ([`Engine::splat_bytes`]) has bit `bit` set, else 0.
    fn where_bit(self, bytes: Self::Quad, bit: u32, value: Self::Quad) -> Self::Quad;
    /// Expands one AES-128 key for each lane.
    fn expand(self, keys: [&Block; QUAD]) -> Self::Keys;
    /// Encrypts each lane of each quad under the lane's key.
    fn encrypt<const N: usize>(self, keys: &Self::Keys, quads: [Self::Quad; N]) -> [Self::Quad; N];

    /// See [`stream_on`].
    #[inline(always)]
    fn stream(self, seed: &Block, first: u128, output: &mut [Block]) {
        let schedule = self.expand([seed; QUAD]);
        // Steps are aligned, so a place within one is the counter's lowest bits.
        let mut places = [self.splat(0); STREAM_QUADS];
        for (quad, places) in places.iter_mut().enumerate() {
            let [place0, place1, place2, place3] =
                [0, 1, 2, 3].map(|lane| ((quad * QUAD + lane) as u128).to_le_bytes());
            *places = self.load([&place0, &place1, &place2, &place3]);
        }
        for (step, output) in output.chunks_mut(STREAM_STEP).enumerate() {
            let counter = self.splat(first.wrapping_add((step * STREAM_STEP) as u128));
            let mut quads = places;
            for quad in &mut quads {
                *quad = self.xor(*quad, counter);
            }
            let quads = self.encrypt(&schedule, quads);
            for (blocks, quad) in output.chunks_mut(QUAD).zip(quads) {
                for (block, image) in blocks.iter_mut().zip(self.store(quad)) {
                    *block = image;
                }
            }
        }
    }
}

/// Replaces each block by its image under the key at its place.
///
/// # Panics
///
/// If `keys` and `blocks` differ in length.
pub fn encrypt_each(keys: &[Block], blocks: &mut [Block]) {
    encrypt_each_on(Backend::best(), keys, blocks);
}

/// [`encrypt_each`] on a back end of the caller's choice.
///
/// # Panics
///
/// If `keys` and `blocks` differ in length.
pub fn encrypt_each_on(backend: Backend, keys: &[Block], blocks: &mut [Block]) {
    assert_eq!(keys.len(), blocks.len(), "one block for each key");
    count(Primitive::AesBlock, blocks.len());
    backend.run(EncryptEach { keys, blocks });
}

struct EncryptEach<'a> {
    keys: &'a [Block],
    blocks: &'a mut [Block],
}

impl Work for EncryptEach<'_> {
    type Output = ();

    #[inline(always)]
    fn run<E: Engine>(self, engine: E) {
        for (keys, blocks) in self.keys.chunks(QUAD).zip(self.blocks.chunks_mut(QUAD)) {
            let schedule = engine.expand(lanes_of(keys));
            let [quad] = engine.encrypt(&schedule, [engine.load(lanes_of(blocks))]);
            for (block, image) in blocks.iter_mut().zip(engine.store(quad)) {
                *block = image;
            }
        }
    }
}

/// For each key, the images of the same two inputs: `outputs[i] = [AES_keys[i](inputs.0),
/// AES_keys[i](inputs.1)]`, inputs being little-endian 128-bit integers.
///
/// # Panics
///
/// If `keys` and `outputs` differ in length.
pub fn encrypt_two(keys: &[Block], inputs: (u128, u128), outputs: &mut [[Block; 2]]) {
    encrypt_two_on(Backend::best(), keys, inputs, outputs);
}

/// [`encrypt_two`] on a back end of the caller's choice.
///
/// # Panics
///
/// If `keys` and `outputs` differ in length.
pub fn encrypt_two_on(backend: Backend, keys: &[Block], inputs: (u128, u128), outputs: &mut [[Block; 2]]) {
    assert_eq!(keys.len(), outputs.len(), "one output for each key");
    count(Primitive::AesBlock, 2 * outputs.len());
    backend.run(EncryptTwo { keys, inputs, outputs });
}

struct EncryptTwo<'a> {
    keys: &'a [Block],
    inputs: (u128, u128),
    outputs: &'a mut [[Block; 2]],
}

impl Work for EncryptTwo<'_> {
    type Output = ();

    #[inline(always)]
    fn run<E: Engine>(self, engine: E) {
        let inputs = [engine.splat(self.inputs.0), engine.splat(self.inputs.1)];
        for (keys, outputs) in self.keys.chunks(QUAD).zip(self.outputs.chunks_mut(QUAD)) {
            let schedule = engine.expand(lanes_of(keys));
            let images = engine.encrypt(&schedule, inputs);
            let images = engine.store(images[0]).into_iter().zip(engine.store(images[1]));
            for (output, (first, second)) in outputs.iter_mut().zip(images) {
                *output = [first, second];
            }
        }
    }
}

/// Writes `AES_seed(first) || AES_seed(first + 1) || ...`, counters being little-endian 128-bit integers.
///
/// # Panics
///
/// If `first` is not a multiple of [`STREAM_STEP`].
pub(crate) fn stream_on(backend: Backend, seed: &Block, first: u128, output: &mut [Block]) {
    assert!(first.is_multiple_of(STREAM_STEP as u128), "the stream is made in whole steps");
    count(Primitive::AesBlock, output.len());
    #[cfg(target_arch = "x86_64")]
    if backend == Backend::Vaes512
        && output.len() >= WIDE_MIN
        && (first as u64).checked_add(output.len() as u64).is_some()
        && let Some(engine) = x86::Vaes512::detect()
    {
        return engine.count_all(seed, first, output);
    }
    backend.run(Stream { seed, first, output });
}

/// Blocks from which on a key schedule for four lanes is worth its while.
const WIDE_MIN: usize = 128;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::PieceSums;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::PieceSums;

/// Replaces each block by its image under `key`, where this processor has a faster way than the `aes` crate's for so
/// many; false if it has none, and nothing was done.
#[inline]
pub(crate) fn encrypt_wide(key: &Block, blocks: &mut [Block]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if blocks.len() >= WIDE_MIN
        && let Some(engine) = x86::Vaes512::detect()
    {
        engine.encrypt_all(key, blocks);
        return true;
    }
    let _ = (key, blocks);
    false
}

/// Blocks of a stream made at once.
pub(crate) const STREAM_STEP: usize = STREAM_QUADS * QUAD;

const STREAM_QUADS: usize = 8;

struct Stream<'a> {
    seed: &'a Block,
    first: u128,
    output: &'a mut [Block],
}

impl Work for Stream<'_> {
    type Output = ();

    #[inline(always)]
    fn run<E: Engine>(self, engine: E) {
        engine.stream(self.seed, self.first, self.output);
    }
}

/// Up to four items as four: the last one again where there are fewer. `items` is not empty.
#[inline(always)]
pub(crate) fn lanes_of<T>(items: &[T]) -> [&T; QUAD] {
    let last = items.len() - 1;
    [&items[0], &items[last.min(1)], &items[last.min(2)], &items[last.min(3)]]
}
