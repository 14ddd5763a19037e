//! Half-gates (Zahur, Rosulek, Evans, EUROCRYPT 2015, ePrint 2014/756) for one circuit family: the comparator
//! of ArxRange, `a < v` for a hidden `v`.
//!
//! *Circuit.* From the least significant bit, `c' = v_i ? (!a_i OR c) : (!a_i AND c)` with `c_0 = 0`; the
//! last `c` is `a < v`. Each bit is one gate of odd parity. Half-gates hide the inversions of such a gate's
//! inputs and output, so tables and evaluation are the same whatever `v` is: `v` needs no wires.
//!
//! *Hash.* `H(x, t) = AES_nonce(sigma(x) xor t) xor sigma(x)` with `sigma(L || R) = (L xor R) || L` (Guo,
//! Katz, Wang, Weng, Yu, ePrint 2019/1168): a key for each circuit keeps the bound from degrading with the
//! number of circuits under one delta. Tweaks are `2i` and `2i + 1` for the halves of gate `i`, and `2^63`
//! for transitions. Blocks are little-endian 128-bit integers; the select bit is the least significant bit of
//! the first byte.
//!
//! The bound is for labels as garbling makes them, pseudorandom and never chosen by the evaluator ("naturally
//! derived keys" in half-gates' terms): the hash is not for other uses.
//!
//! *Use.* A nonce names one garbling: labels, delta and nonce never meet twice with different content, and a
//! garbling is evaluated on one input. Evaluating it on two reveals delta.
//!
//! *Leakage.* Width, and to the evaluator the outcome's select bit.

use crate::lanes::{Backend, Engine, QUAD, Work, encrypt_each, lanes_of};
use crate::prg;
use crate::{BLOCK_BYTES, Block};
use std::array;
use std::fmt;

/// Bytes of a gate's table: generator half, then evaluator half.
pub const GATE_BYTES: usize = 2 * BLOCK_BYTES;

const TWEAK_TRANSITION: u128 = 1 << 63;

/// Quads garbled in lockstep: enough to hide the latency of the carry chain.
const GARBLE_QUADS: usize = 2;

/// Quads evaluated in lockstep: half the work a gate, so twice as many.
const EVALUATE_QUADS: usize = 4;

/// A circuit, transition or label set that was received does not have the form that its width asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GarbleError {
    /// Gates are not [`GATE_BYTES`] bytes for each input label.
    #[error("garbled circuit of {found} bytes where its inputs ask for {expected}")]
    Gates {
        /// Bytes for the number of labels.
        expected: usize,
        /// Bytes there are.
        found: usize,
    },
    /// Rows of a transition are not 16 bytes for each label.
    #[error("transition of {found} bytes where its labels ask for {expected}")]
    Rows {
        /// Bytes for the number of labels.
        expected: usize,
        /// Bytes there are.
        found: usize,
    },
}

/// What to garble.
#[derive(Clone, Copy)]
pub struct Comparator<'a> {
    /// Names the garbling; key of its hash.
    pub nonce: Block,
    /// Labels for 0 of the input wires, least significant bit first.
    pub labels: &'a [Block],
    /// Label for 0 of the constant carry input.
    pub carry: Block,
    /// The hidden `v`, big endian: one byte for 8 labels.
    pub threshold: &'a [u8],
}

impl fmt::Debug for Comparator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Comparator({} bits)", self.labels.len())
    }
}

/// A garbled comparator.
#[derive(Clone)]
pub struct Garbled {
    /// [`GATE_BYTES`] a bit, least significant bit first. Public.
    pub gates: Vec<u8>,
    /// Secret: output label for 0, which is `a >= v` ("right"). That for `a < v` is this xor delta.
    pub outcome: Block,
}

impl fmt::Debug for Garbled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Garbled({} bytes)", self.gates.len())
    }
}

/// What to evaluate. The labels may be used for this once.
#[derive(Clone, Copy)]
pub struct Evaluation<'a> {
    /// Names the garbling; key of its hash.
    pub nonce: Block,
    /// Active labels of the input wires, least significant bit first.
    pub labels: &'a [Block],
    /// Active label of the constant carry input.
    pub carry: Block,
    /// The gates ([`Garbled::gates`]).
    pub gates: &'a [u8],
}

impl fmt::Debug for Evaluation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Evaluation({} bits)", self.labels.len())
    }
}

/// Makes 16 uniform bytes a delta: with a set select bit, so that the two labels of a wire differ in theirs.
#[must_use]
pub fn delta_from(uniform: &Block) -> Block {
    let mut delta = *uniform;
    delta[0] |= 1;
    delta
}

/// The select bit of a label (point-and-permute).
#[must_use]
pub fn select_bit(label: &Block) -> bool {
    label[0] & 1 == 1
}

/// `label xor delta`: the label of the other value.
#[must_use]
pub fn other_label(label: &Block, delta: &Block) -> Block {
    xor(label, delta)
}

fn xor(left: &Block, right: &Block) -> Block {
    (u128::from_le_bytes(*left) ^ u128::from_le_bytes(*right)).to_le_bytes()
}

/// Labels for 0 of a circuit's `bits` input wires and of its carry input: the first bytes of the generator
/// seeded with `AES_material(nonce)`.
#[must_use]
pub fn derive_labels(material: &[u8; 16], nonce: &Block, bits: usize) -> (Vec<Block>, Block) {
    let mut seed = [*nonce];
    encrypt_each(&[*material], &mut seed);
    let mut labels = vec![[0; BLOCK_BYTES]; bits + 1];
    prg::stream(&seed[0], &mut labels);
    let carry = labels.pop().unwrap_or_default();
    (labels, carry)
}

/// Active labels for the input `value` (big endian), from labels for 0. Takes the same time for every value.
///
/// # Panics
///
/// If there are not 8 labels for each byte of `value`.
#[must_use]
pub fn encode(labels0: &[Block], delta: &Block, value: &[u8]) -> Vec<Block> {
    assert_eq!(labels0.len(), 8 * value.len(), "one label for each bit");
    let delta = u128::from_le_bytes(*delta);
    let mut active = Vec::with_capacity(labels0.len());
    for (labels, byte) in labels0.chunks_exact(8).zip(value.iter().rev()) {
        for (bit, label) in labels.iter().enumerate() {
            let mask = u128::from((byte >> bit) & 1).wrapping_neg();
            active.push((u128::from_le_bytes(*label) ^ (delta & mask)).to_le_bytes());
        }
    }
    active
}

/// Garbles comparators, several in lockstep: fastest when there are at least 8 of one width.
///
/// # Panics
///
/// If `delta` has no select bit ([`delta_from`]), or a comparator does not have 8 labels for each byte of its
/// threshold.
#[must_use]
pub fn garble(delta: &Block, comparators: &[Comparator<'_>]) -> Vec<Garbled> {
    garble_on(Backend::best(), delta, comparators)
}

/// [`garble`] on a back end of the caller's choice.
///
/// # Panics
///
/// As [`garble`].
#[must_use]
pub fn garble_on(backend: Backend, delta: &Block, comparators: &[Comparator<'_>]) -> Vec<Garbled> {
    assert!(select_bit(delta), "delta needs a select bit");
    for comparator in comparators {
        assert_eq!(comparator.labels.len(), 8 * comparator.threshold.len(), "one label for each bit");
    }
    let mut garbled = vec![Garbled { gates: Vec::new(), outcome: [0; BLOCK_BYTES] }; comparators.len()];
    for run in by_width(comparators.len(), |position| comparators[position].labels.len()) {
        for batch in run.chunks(GARBLE_QUADS * QUAD) {
            let circuits: Vec<Comparator<'_>> = batch.iter().map(|&position| comparators[position]).collect();
            let done = if circuits.len() > QUAD {
                backend.run(GarbleQuads::<GARBLE_QUADS> { delta, circuits: &circuits })
            } else {
                backend.run(GarbleQuads::<1> { delta, circuits: &circuits })
            };
            for (&position, circuit) in batch.iter().zip(done) {
                garbled[position] = circuit;
            }
        }
    }
    garbled
}

/// Indexes of circuits, in runs of equal width.
fn by_width(count: usize, width: impl Fn(usize) -> usize) -> Vec<Vec<usize>> {
    let mut positions: Vec<usize> = (0..count).collect();
    positions.sort_by_key(|&position| width(position));
    positions.chunk_by(|&left, &right| width(left) == width(right)).map(<[usize]>::to_vec).collect()
}

/// Circuits for each lane of `QUADS` quads, the last one again where there are fewer.
#[inline(always)]
fn quads_of<T, const QUADS: usize>(circuits: &[T]) -> [[&T; QUAD]; QUADS] {
    let last = circuits.len() - 1;
    array::from_fn(|quad| lanes_of(&circuits[last.min(quad * QUAD)..]))
}

/// Loads each quad, and expands each quad's keys. (Here and below engine calls stay out of closures: a
/// closure may be compiled without the engine's instructions.)
#[inline(always)]
fn load_all<E: Engine, const QUADS: usize>(engine: E, blocks: [[&Block; QUAD]; QUADS]) -> [E::Quad; QUADS] {
    let mut quads = [engine.load(blocks[0]); QUADS];
    for (quad, blocks) in quads.iter_mut().zip(blocks) {
        *quad = engine.load(blocks);
    }
    quads
}

#[inline(always)]
fn expand_all<E: Engine, const QUADS: usize>(engine: E, nonces: [[&Block; QUAD]; QUADS]) -> [E::Keys; QUADS] {
    let first = engine.expand(nonces[0]);
    let mut keys = array::from_fn(|_| first.clone());
    for (keys, nonces) in keys.iter_mut().zip(nonces).skip(1) {
        *keys = engine.expand(nonces);
    }
    keys
}

#[inline(always)]
fn store_all<E: Engine, const QUADS: usize>(engine: E, quads: [E::Quad; QUADS]) -> [[Block; QUAD]; QUADS] {
    let mut blocks = [[[0; BLOCK_BYTES]; QUAD]; QUADS];
    for (blocks, quad) in blocks.iter_mut().zip(quads) {
        *blocks = engine.store(quad);
    }
    blocks
}

/// `H` of blocks whose `sigma` is given: the input and the mask of the cipher are both made of it.
#[inline(always)]
fn hash<E: Engine, const N: usize>(
    engine: E,
    keys: &E::Keys,
    sigmas: [E::Quad; N],
    tweaks: [E::Quad; N],
) -> [E::Quad; N] {
    let mut inputs = sigmas;
    for (input, tweak) in inputs.iter_mut().zip(tweaks) {
        *input = engine.xor(*input, tweak);
    }
    let mut images = engine.encrypt(keys, inputs);
    for (image, sigma) in images.iter_mut().zip(sigmas) {
        *image = engine.xor(*image, sigma);
    }
    images
}

/// At most `QUADS * QUAD` comparators of one width, at least one.
struct GarbleQuads<'a, const QUADS: usize> {
    delta: &'a Block,
    circuits: &'a [Comparator<'a>],
}

impl<const QUADS: usize> Work for GarbleQuads<'_, QUADS> {
    type Output = Vec<Garbled>;

    #[inline(always)]
    fn run<E: Engine>(self, engine: E) -> Vec<Garbled> {
        let bits = self.circuits[0].labels.len();
        let lanes = quads_of::<_, QUADS>(self.circuits);
        let keys = expand_all(engine, lanes.map(|quad| quad.map(|circuit| &circuit.nonce)));
        let mut carries = load_all(engine, lanes.map(|quad| quad.map(|circuit| &circuit.carry)));
        let mut gates: [[Vec<[Block; 2]>; QUAD]; QUADS] =
            array::from_fn(|_| array::from_fn(|_| Vec::with_capacity(bits)));
        let delta = engine.load([self.delta; QUAD]);
        for byte in 0..bits / 8 {
            let thresholds =
                lanes.map(|quad| quad.map(|circuit| circuit.threshold[circuit.threshold.len() - 1 - byte]));
            for bit in 0..8 {
                let gate = 8 * byte + bit as usize;
                let tweaks = [engine.splat(2 * gate as u128), engine.splat(2 * gate as u128 + 1)];
                for quad in 0..QUADS {
                    let input = engine.load(lanes[quad].map(|circuit| &circuit.labels[gate]));
                    let threshold = engine.splat_bytes(thresholds[quad]);
                    let inverted = engine.where_bit(threshold, bit, delta);
                    let (table, carry) =
                        garble_gate(engine, &keys[quad], tweaks, delta, inverted, input, carries[quad]);
                    carries[quad] = carry;
                    let [generator, evaluator] = table;
                    let halves = engine.store(generator).into_iter().zip(engine.store(evaluator));
                    for (gates, (generator, evaluator)) in gates[quad].iter_mut().zip(halves) {
                        gates.push([generator, evaluator]);
                    }
                }
            }
        }
        let outcomes = store_all(engine, carries);
        gates
            .into_iter()
            .flatten()
            .zip(outcomes.into_iter().flatten())
            .take(self.circuits.len())
            .map(|(gates, outcome)| Garbled { gates: gates.into_flattened().into_flattened(), outcome })
            .collect()
    }
}

/// One gate of each lane. `inverted` is delta in lanes with `v_i = 1`, else 0. Returns generator and
/// evaluator halves, and the output label for 0.
#[inline(always)]
fn garble_gate<E: Engine>(
    engine: E,
    keys: &E::Keys,
    tweaks: [E::Quad; 2],
    delta: E::Quad,
    inverted: E::Quad,
    input: E::Quad,
    carry: E::Quad,
) -> ([E::Quad; 2], E::Quad) {
    // v_i = 0: !a AND c. v_i = 1: !a OR c = !(a AND !c). As an AND of x and y:
    let x = engine.xor(input, engine.xor(inverted, delta));
    let y = engine.xor(carry, inverted);
    let sigma_delta = engine.sigma(delta);
    let (sigma_x, sigma_y) = (engine.sigma(x), engine.sigma(y));
    let sigmas = [sigma_x, engine.xor(sigma_x, sigma_delta), sigma_y, engine.xor(sigma_y, sigma_delta)];
    let [x0, x1, y0, y1] = hash(engine, keys, sigmas, [tweaks[0], tweaks[0], tweaks[1], tweaks[1]]);
    let generator_half = engine.xor(engine.xor(x0, x1), engine.where_odd(y, delta));
    let from_generator = engine.xor(x0, engine.where_odd(x, generator_half));
    let y_both = engine.xor(y0, y1);
    let from_evaluator = engine.xor(y0, engine.where_odd(y, y_both));
    let output = engine.xor(engine.xor(from_generator, inverted), from_evaluator);
    ([generator_half, engine.xor(y_both, x)], output)
}

/// Evaluates garbled comparators, several in lockstep: fastest when there are at least 16 of one width.
/// Returns the active outcome label of each. Gates that were altered give a label that unlocks nothing.
///
/// # Errors
///
/// [`GarbleError::Gates`] if gates and labels of an evaluation do not go together.
pub fn evaluate(evaluations: &[Evaluation<'_>]) -> Result<Vec<Block>, GarbleError> {
    evaluate_on(Backend::best(), evaluations)
}

/// [`evaluate`] on a back end of the caller's choice.
///
/// # Errors
///
/// As [`evaluate`].
pub fn evaluate_on(backend: Backend, evaluations: &[Evaluation<'_>]) -> Result<Vec<Block>, GarbleError> {
    for evaluation in evaluations {
        let (expected, found) = (GATE_BYTES * evaluation.labels.len(), evaluation.gates.len());
        if expected != found {
            return Err(GarbleError::Gates { expected, found });
        }
    }
    let mut outcomes = vec![[0; BLOCK_BYTES]; evaluations.len()];
    for run in by_width(evaluations.len(), |position| evaluations[position].labels.len()) {
        for batch in run.chunks(EVALUATE_QUADS * QUAD) {
            let circuits: Vec<Evaluation<'_>> = batch.iter().map(|&position| evaluations[position]).collect();
            let circuits = circuits.as_slice();
            let done = match circuits.len().div_ceil(QUAD) {
                1 => backend.run(EvaluateQuads::<1> { circuits }),
                2 => backend.run(EvaluateQuads::<2> { circuits }),
                _ => backend.run(EvaluateQuads::<EVALUATE_QUADS> { circuits }),
            };
            for (&position, outcome) in batch.iter().zip(done) {
                outcomes[position] = outcome;
            }
        }
    }
    Ok(outcomes)
}

/// At most `QUADS * QUAD` circuits of one width, at least one.
struct EvaluateQuads<'a, const QUADS: usize> {
    circuits: &'a [Evaluation<'a>],
}

impl<const QUADS: usize> Work for EvaluateQuads<'_, QUADS> {
    type Output = Vec<Block>;

    #[inline(always)]
    fn run<E: Engine>(self, engine: E) -> Vec<Block> {
        let bits = self.circuits[0].labels.len();
        let lanes = quads_of::<_, QUADS>(self.circuits);
        let keys = expand_all(engine, lanes.map(|quad| quad.map(|circuit| &circuit.nonce)));
        let mut carries = load_all(engine, lanes.map(|quad| quad.map(|circuit| &circuit.carry)));
        let halves = lanes.map(|quad| quad.map(|circuit| circuit.gates.as_chunks::<BLOCK_BYTES>().0));
        for gate in 0..bits {
            let tweaks = [engine.splat(2 * gate as u128), engine.splat(2 * gate as u128 + 1)];
            for quad in 0..QUADS {
                let input = engine.load(lanes[quad].map(|circuit| &circuit.labels[gate]));
                let generator_half = engine.load(halves[quad].map(|halves| &halves[2 * gate]));
                let evaluator_half = engine.load(halves[quad].map(|halves| &halves[2 * gate + 1]));
                let carry = carries[quad];
                let sigmas = [engine.sigma(input), engine.sigma(carry)];
                let [from_input, from_carry] = hash(engine, &keys[quad], sigmas, tweaks);
                let generator = engine.xor(from_input, engine.where_odd(input, generator_half));
                let table = engine.xor(evaluator_half, input);
                let evaluator = engine.xor(from_carry, engine.where_odd(carry, table));
                carries[quad] = engine.xor(generator, evaluator);
            }
        }
        let outcomes = store_all(engine, carries);
        outcomes.into_iter().flatten().take(self.circuits.len()).collect()
    }
}

/// Lets the outcome label `outcome` of a circuit unlock a child: for each input wire, the child's label xor
/// the circuit's own, under a pad that the outcome label gives. Labels may be those for 0 or any that differ
/// from them by delta on both sides alike. 16 bytes for each wire.
///
/// One outcome label seals one transition, ever.
///
/// # Panics
///
/// If the circuits differ in width.
#[must_use]
pub fn seal_transition(nonce: &Block, outcome: &Block, own: &[Block], child: &[Block]) -> Vec<u8> {
    assert_eq!(own.len(), child.len(), "circuits of one index have one width");
    let mut rows = transition_pad(nonce, outcome, own.len());
    for ((row, own), child) in rows.iter_mut().zip(own).zip(child) {
        *row = xor(row, &xor(own, child));
    }
    rows.into_flattened()
}

/// The child's active labels, from the circuit's own active labels. Under a wrong outcome label the result
/// is noise: transitions are not authenticated, the next circuit's outcome is what shows it.
///
/// # Errors
///
/// [`GarbleError::Rows`] if there is not one row for each label.
pub fn open_transition(
    nonce: &Block,
    outcome: &Block,
    rows: &[u8],
    active: &[Block],
) -> Result<Vec<Block>, GarbleError> {
    let expected = BLOCK_BYTES * active.len();
    if rows.len() != expected {
        return Err(GarbleError::Rows { expected, found: rows.len() });
    }
    let mut labels = transition_pad(nonce, outcome, active.len());
    for ((label, row), active) in labels.iter_mut().zip(rows.as_chunks().0).zip(active) {
        *label = xor(label, &xor(row, active));
    }
    Ok(labels)
}

fn transition_pad(nonce: &Block, outcome: &Block, rows: usize) -> Vec<Block> {
    let label = u128::from_le_bytes(*outcome);
    let sigma = label.rotate_left(64) ^ (label & (u128::MAX << 64));
    let mut image = [(sigma ^ TWEAK_TRANSITION).to_le_bytes()];
    encrypt_each(&[*nonce], &mut image);
    let seed = (u128::from_le_bytes(image[0]) ^ sigma).to_le_bytes();
    let mut pad = vec![[0; BLOCK_BYTES]; rows];
    prg::stream(&seed, &mut pad);
    pad
}

#[cfg(test)]
mod tests;
