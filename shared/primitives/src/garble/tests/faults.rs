//! What must not work: altered circuits, labels of another garbling, wrong lengths.

use super::*;

fn setup(seed: u8, threshold: &[u8], a: &[u8]) -> (Block, Circuit, Garbled, Vec<Block>) {
    let mut generator = Prg::new(&[seed; 16]);
    let (material, delta) = (block(&mut generator), delta_from(&block(&mut generator)));
    let circuit = Circuit::new(&material, block(&mut generator), threshold);
    let garbled = garble(&delta, &[circuit.comparator()]).remove(0);
    let active = encode(&circuit.labels, &delta, a);
    (delta, circuit, garbled, active)
}

/// A flipped bit of a table is used or not, by the select bits; where it is used, the outcome label is
/// neither.
#[test]
fn altered_gates_never_give_the_other_outcome() {
    let (threshold, a) = ([0x80, 0x37], [0x7f, 0xa5]);
    let circuits = 8;
    let mut used = 0;
    for seed in 0..circuits {
        let (delta, circuit, mut garbled, active) = setup(seed, &threshold, &a);
        let honest = expected(&a, &threshold, &garbled, &delta);
        for at in 0..garbled.gates.len() {
            let bit = 1 << (at % 8);
            garbled.gates[at] ^= bit;
            let outcome = evaluate(&[circuit.evaluation(&active, &garbled)]).expect("lengths fit")[0];
            garbled.gates[at] ^= bit;
            assert_ne!(outcome, other_label(&honest, &delta), "byte {at}");
            used += usize::from(outcome != honest);
        }
    }
    let all = usize::from(circuits) * 16 * GATE_BYTES;
    assert!(all / 4 < used && used < 3 * all / 4, "about half of the tables are used, not {used} of {all}");
}

#[test]
fn labels_of_another_garbling_give_neither_outcome() {
    let (threshold, a) = ([0x80, 0x37, 0x11], [0x7f, 0xa5, 0xff]);
    let (delta, circuit, garbled, active) = setup(20, &threshold, &a);
    let outcomes = [garbled.outcome, other_label(&garbled.outcome, &delta)];
    let (_, _, _, elsewhere) = setup(21, &threshold, &a);
    let mut shuffled = active.clone();
    shuffled.swap(3, 17);
    let honest = circuit.evaluation(&active, &garbled);
    let wrong = [
        Evaluation { labels: &elsewhere, ..honest },
        Evaluation { labels: &shuffled, ..honest },
        Evaluation { nonce: [9; 16], ..honest },
        Evaluation { carry: [9; 16], ..honest },
    ];
    assert!(outcomes.contains(&evaluate(&[honest]).expect("lengths fit")[0]));
    for outcome in evaluate(&wrong).expect("lengths fit") {
        assert!(!outcomes.contains(&outcome));
    }
}

#[test]
fn wrong_lengths_are_errors() {
    let (_, circuit, garbled, active) = setup(30, &[1, 2], &[3, 4]);
    for length in [0, 1, 31, 32, 511, 513, 544] {
        let mut gates = garbled.gates.clone();
        gates.resize(length, 0);
        let honest = circuit.evaluation(&active, &garbled);
        let altered = Evaluation { gates: &gates, ..honest };
        let error = GarbleError::Gates { expected: 512, found: length };
        assert_eq!(evaluate(&[honest, altered]), Err(error));
    }
    let rows = seal_transition(&circuit.nonce, &garbled.outcome, &circuit.labels, &circuit.labels);
    for length in [0, 1, 255, 257, 272] {
        let mut rows = rows.clone();
        rows.resize(length, 0);
        let opened = open_transition(&circuit.nonce, &garbled.outcome, &rows, &active);
        assert_eq!(opened, Err(GarbleError::Rows { expected: 256, found: length }));
    }
    let told = GarbleError::Rows { expected: 256, found: 1 }.to_string();
    assert_eq!(told, "transition of 1 bytes where its labels ask for 256");
}

#[test]
#[should_panic(expected = "delta needs a select bit")]
fn delta_without_a_select_bit() {
    let circuit = Circuit::new(&[1; 16], [2; 16], &[3]);
    let _ = garble(&[2; 16], &[circuit.comparator()]);
}

#[test]
#[should_panic(expected = "one label for each bit")]
fn labels_and_threshold_of_different_widths() {
    let circuit = Circuit::new(&[1; 16], [2; 16], &[3]);
    let _ = garble(&delta_from(&[2; 16]), &[Comparator { threshold: &[3, 4], ..circuit.comparator() }]);
}

#[test]
#[should_panic(expected = "one width")]
fn a_child_of_another_width() {
    let _ = seal_transition(&[1; 16], &[2; 16], &[[3; 16]; 8], &[[3; 16]; 16]);
}
