//! AES-128 on several independently keyed lanes at once.
//!
//! Garbling keys its hash afresh for each circuit, and each node of a token tree is a key, so what both need
//! is many keys with few blocks each. Four lanes of different keys make a *quad*: with VAES and AVX-512 a quad
//! is one register, and one instruction does a round of four keys. With AES-NI it is four registers; elsewhere
//! the `aes` crate does the work. The choice is made at run time ([`Backend::best`]); the results are equal.
//!
//! Kernels are written once, generic over the crate-private `Engine` and free of `unsafe`: an engine value proves that the
//! processor has the instructions.

use crate::Block;

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
        Self::ALL
            .into_iter()
            .find(|backend| backend.is_available())
            .unwrap_or(Backend::Portable)
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
    type Keys;

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
}

/// For each key, the images of the same two inputs: `outputs[i] = (AES_keys[i](first), AES_keys[i](second))`.
///
/// # Panics
///
/// If `keys` and `outputs` differ in length.
pub fn encrypt_two(keys: &[Block], inputs: (u128, u128), outputs: &mut [(Block, Block)]) {
    encrypt_two_on(Backend::best(), keys, inputs, outputs);
}

/// [`encrypt_two`] on a back end of the caller's choice.
///
/// # Panics
///
/// If `keys` and `outputs` differ in length.
pub fn encrypt_two_on(
    backend: Backend,
    keys: &[Block],
    inputs: (u128, u128),
    outputs: &mut [(Block, Block)],
) {
    assert_eq!(keys.len(), outputs.len(), "one output for each key");
    backend.run(EncryptTwo {
        keys,
        inputs,
        outputs,
    });
}

struct EncryptTwo<'a> {
    keys: &'a [Block],
    inputs: (u128, u128),
    outputs: &'a mut [(Block, Block)],
}

impl Work for EncryptTwo<'_> {
    type Output = ();

    #[inline(always)]
    fn run<E: Engine>(self, engine: E) {
        let inputs = [engine.splat(self.inputs.0), engine.splat(self.inputs.1)];
        for (keys, outputs) in self.keys.chunks(QUAD).zip(self.outputs.chunks_mut(QUAD)) {
            let schedule = engine.expand(lanes_of(keys));
            let images = engine.encrypt(&schedule, inputs);
            let pairs = engine.store(images[0]).into_iter().zip(engine.store(images[1]));
            for (output, pair) in outputs.iter_mut().zip(pairs) {
                *output = pair;
            }
        }
    }
}

/// Up to four items as four: the last one again where there are fewer. `items` is not empty.
#[inline(always)]
pub(crate) fn lanes_of<T>(items: &[T]) -> [&T; QUAD] {
    let last = items.len() - 1;
    [
        &items[0],
        &items[last.min(1)],
        &items[last.min(2)],
        &items[last.min(3)],
    ]
}
