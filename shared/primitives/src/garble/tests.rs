//! Garbled comparators against integers, against a second implementation, on every engine this processor has.

use super::*;
use crate::hash::sha256;
use crate::prg::Prg;
use crate::vectors;
use proptest::prelude::*;

mod faults;
mod walk;

fn available() -> impl Iterator<Item = Backend> {
    Backend::ALL.into_iter().filter(|backend| backend.is_available())
}

fn block(generator: &mut Prg) -> Block {
    let mut block = [0; 16];
    generator.fill(&mut block);
    block
}

/// A comparator with all that is needed to garble and evaluate it.
struct Circuit {
    nonce: Block,
    labels: Vec<Block>,
    carry: Block,
    threshold: Vec<u8>,
}

impl Circuit {
    fn new(material: &[u8; 16], nonce: Block, threshold: &[u8]) -> Self {
        let (labels, carry) = derive_labels(material, &nonce, 8 * threshold.len());
        Self { nonce, labels, carry, threshold: threshold.to_vec() }
    }

    fn comparator(&self) -> Comparator<'_> {
        Comparator { nonce: self.nonce, labels: &self.labels, carry: self.carry, threshold: &self.threshold }
    }

    fn evaluation<'a>(&self, active: &'a [Block], garbled: &'a Garbled) -> Evaluation<'a> {
        Evaluation { nonce: self.nonce, labels: active, carry: self.carry, gates: &garbled.gates }
    }
}

/// The outcome label that `a` must give: compared as big-endian integers.
fn expected(a: &[u8], threshold: &[u8], garbled: &Garbled, delta: &Block) -> Block {
    if a < threshold { other_label(&garbled.outcome, delta) } else { garbled.outcome }
}

#[test]
fn second_implementation() {
    for case in vectors::read("garbled_comparator.txt") {
        let (material, delta) = (case.array("material"), case.array("delta"));
        let circuit = Circuit::new(&material, case.array("nonce"), &case.bytes("threshold"));
        assert_eq!(circuit.carry, case.array("carry"), "{}", case.name());
        for backend in available() {
            let garbled = garble_on(backend, &delta, &[circuit.comparator()]).remove(0);
            assert_eq!(garbled.gates[..GATE_BYTES], case.bytes("first_gate"), "{} {backend:?}", case.name());
            assert!(garbled.gates.ends_with(&case.bytes("last_gate")), "{} {backend:?}", case.name());
            assert_eq!(sha256(&[&garbled.gates]), case.array("gates_sha256"), "{} {backend:?}", case.name());
            assert_eq!(garbled.outcome, case.array("outcome"), "{} {backend:?}", case.name());
            let (child, _) = derive_labels(&material, &case.array("child_nonce"), circuit.labels.len());
            let rows = seal_transition(&circuit.nonce, &garbled.outcome, &circuit.labels, &child);
            assert_eq!(sha256(&[&rows]), case.array("right_rows_sha256"), "{}", case.name());
        }
    }
}

#[test]
fn every_byte_against_every_byte() {
    let mut generator = Prg::new(&[1; 16]);
    let (material, delta) = (block(&mut generator), delta_from(&block(&mut generator)));
    for v in 0..=255_u8 {
        let circuits: Vec<Circuit> =
            (0..256).map(|_| Circuit::new(&material, block(&mut generator), &[v])).collect();
        let comparators: Vec<_> = circuits.iter().map(Circuit::comparator).collect();
        let garbled = garble(&delta, &comparators);
        let active: Vec<_> = circuits
            .iter()
            .zip(0..=255_u8)
            .map(|(circuit, a)| encode(&circuit.labels, &delta, &[a]))
            .collect();
        let evaluations: Vec<_> = circuits
            .iter()
            .zip(active.iter().zip(&garbled))
            .map(|(circuit, (active, garbled))| circuit.evaluation(active, garbled))
            .collect();
        let outcomes = evaluate(&evaluations).expect("lengths fit");
        for (a, (outcome, garbled)) in (0..=255_u8).zip(outcomes.iter().zip(&garbled)) {
            assert_eq!(*outcome, expected(&[a], &[v], garbled, &delta), "{a} < {v}");
            assert_eq!(
                select_bit(outcome) == select_bit(&garbled.outcome),
                a >= v,
                "select bit of {a} < {v}"
            );
        }
    }
}

/// A threshold and an input that often have a long prefix in common.
fn near(bytes: usize) -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let random = prop::collection::vec(any::<u8>(), bytes);
    (random.clone(), random, 0..=bytes).prop_map(|(threshold, mut input, same)| {
        input[..same].copy_from_slice(&threshold[..same]);
        (threshold, input)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Batches of several widths, in any order, of sizes that leave lanes and quads unused.
    #[test]
    fn batches_compare_as_integers_on_every_engine(
        seed: [u8; 16],
        cases in prop::collection::vec((1..=32_usize).prop_flat_map(near), 1..40),
        width: Option<u8>,
    ) {
        let mut generator = Prg::new(&seed);
        let (material, delta) = (block(&mut generator), delta_from(&block(&mut generator)));
        // Half of the runs have one width, so that full batches occur.
        let width = width.map_or(32, |width| usize::from(width % 32) + 1);
        let cut = |value: &[u8]| value[..value.len().min(width)].to_vec();
        let cases: Vec<_> = cases.iter().map(|(threshold, input)| (cut(threshold), cut(input))).collect();
        let circuits: Vec<Circuit> = cases
            .iter()
            .map(|(threshold, _)| Circuit::new(&material, block(&mut generator), threshold))
            .collect();
        let comparators: Vec<_> = circuits.iter().map(Circuit::comparator).collect();
        let mut tables: Option<Vec<Vec<u8>>> = None;
        for backend in available() {
            let garbled = garble_on(backend, &delta, &comparators);
            let active: Vec<_> =
                circuits.iter().zip(&cases).map(|(circuit, (_, a))| encode(&circuit.labels, &delta, a)).collect();
            let evaluations: Vec<_> = circuits
                .iter()
                .zip(active.iter().zip(&garbled))
                .map(|(circuit, (active, garbled))| circuit.evaluation(active, garbled))
                .collect();
            let outcomes = evaluate_on(backend, &evaluations).expect("lengths fit");
            for ((outcome, garbled), (threshold, a)) in outcomes.iter().zip(&garbled).zip(&cases) {
                prop_assert_eq!(*outcome, expected(a, threshold, garbled, &delta), "{:?}", backend);
                prop_assert_eq!(garbled.gates.len(), GATE_BYTES * 8 * threshold.len());
            }
            let gates: Vec<_> = garbled.into_iter().map(|garbled| garbled.gates).collect();
            prop_assert_eq!(tables.get_or_insert_with(|| gates.clone()), &gates, "{:?}", backend);
        }
    }

    /// A circuit's result does not depend on what it is batched with.
    #[test]
    fn a_batch_is_circuit_by_circuit(seed: [u8; 16], thresholds in prop::collection::vec(any::<[u8; 4]>(), 0..30)) {
        let mut generator = Prg::new(&seed);
        let (material, delta) = (block(&mut generator), delta_from(&block(&mut generator)));
        let circuits: Vec<Circuit> = thresholds
            .iter()
            .map(|threshold| Circuit::new(&material, block(&mut generator), threshold))
            .collect();
        let comparators: Vec<_> = circuits.iter().map(Circuit::comparator).collect();
        let batch = garble(&delta, &comparators);
        prop_assert_eq!(batch.len(), comparators.len());
        for (comparator, together) in comparators.iter().zip(&batch) {
            let alone = garble(&delta, &[*comparator]).remove(0);
            prop_assert_eq!(&alone.gates, &together.gates);
            prop_assert_eq!(alone.outcome, together.outcome);
        }
    }

    #[test]
    fn labels_of_a_bit_are_delta_apart(seed: [u8; 16], value in prop::collection::vec(any::<u8>(), 1..20)) {
        let delta = delta_from(&seed);
        let (labels, _) = derive_labels(&seed, &[5; 16], 8 * value.len());
        let active = encode(&labels, &delta, &value);
        for (position, (active, label)) in active.iter().zip(&labels).enumerate() {
            let bit = value[value.len() - 1 - position / 8] >> (position % 8) & 1;
            prop_assert_eq!(*active, if bit == 1 { other_label(label, &delta) } else { *label });
            prop_assert_eq!(select_bit(active) != select_bit(label), bit == 1);
        }
    }
}

#[test]
fn labels_depend_on_material_and_nonce() {
    let (labels, carry) = derive_labels(&[1; 16], &[2; 16], 16);
    assert_eq!((labels.clone(), carry), derive_labels(&[1; 16], &[2; 16], 16));
    let mut all = labels;
    all.push(carry);
    for (material, nonce) in [([1; 16], [3; 16]), ([2; 16], [2; 16])] {
        let (labels, carry) = derive_labels(&material, &nonce, 16);
        all.extend(labels);
        all.push(carry);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 3 * 17, "all labels differ");
}

#[test]
fn nothing_to_do() {
    assert!(garble(&delta_from(&[0; 16]), &[]).is_empty());
    assert_eq!(evaluate(&[]), Ok(Vec::new()));
    let empty = Comparator { nonce: [1; 16], labels: &[], carry: [2; 16], threshold: &[] };
    let garbled = garble(&delta_from(&[0; 16]), &[empty]).remove(0);
    assert_eq!((garbled.gates.len(), garbled.outcome), (0, [2; 16]));
}

/// The tables of two thresholds have nothing in common but their length.
#[test]
fn what_is_stored_shows_the_width_only() {
    let mut generator = Prg::new(&[6; 16]);
    let (material, delta) = (block(&mut generator), delta_from(&block(&mut generator)));
    for bytes in [1, 4, 16, 32] {
        let thresholds = [vec![0; bytes], vec![255; bytes], vec![0x5a; bytes]];
        let circuits = thresholds.map(|threshold| Circuit::new(&material, block(&mut generator), &threshold));
        let garbled = garble(&delta, &circuits.each_ref().map(Circuit::comparator));
        for one in &garbled {
            assert_eq!(one.gates.len(), garbled[0].gates.len());
        }
        let mut halves: Vec<&[u8]> = garbled.iter().flat_map(|one| one.gates.chunks(BLOCK_BYTES)).collect();
        let count = halves.len();
        halves.sort_unstable();
        halves.dedup();
        assert_eq!(halves.len(), count, "no half appears twice");
    }
}

#[test]
fn shows_no_labels() {
    let circuit = Circuit::new(&[1; 16], [2; 16], &[3]);
    let garbled = garble(&delta_from(&[4; 16]), &[circuit.comparator()]).remove(0);
    assert_eq!(format!("{:?}", circuit.comparator()), "Comparator(8 bits)");
    assert_eq!(format!("{garbled:?}"), "Garbled(256 bytes)");
    assert_eq!(format!("{:?}", circuit.evaluation(&circuit.labels, &garbled)), "Evaluation(8 bits)");
}
