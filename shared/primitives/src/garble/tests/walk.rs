//! Circuits chained by transitions, as an index chains them down a tree.

use super::*;

/// A search tree with a circuit in each node.
struct Node {
    circuit: Circuit,
    garbled: Garbled,
    /// Left and right: the transition's rows, and the child.
    children: [Option<(Vec<u8>, Box<Node>)>; 2],
}

/// Builds the tree of sorted `thresholds`; the labels of a node's child are unlocked by its outcome.
fn build(
    material: &[u8; 16],
    delta: &Block,
    thresholds: &[Vec<u8>],
    generator: &mut Prg,
) -> Option<Box<Node>> {
    if thresholds.is_empty() {
        return None;
    }
    let middle = thresholds.len() / 2;
    let circuit = Circuit::new(material, block(generator), &thresholds[middle]);
    let garbled = garble(delta, &[circuit.comparator()]).remove(0);
    let sides = [
        (&thresholds[..middle], other_label(&garbled.outcome, delta)),
        (&thresholds[middle + 1..], garbled.outcome),
    ];
    let children = sides.map(|(side, outcome)| {
        let child = build(material, delta, side, generator)?;
        Some((seal_transition(&circuit.nonce, &outcome, &circuit.labels, &child.circuit.labels), child))
    });
    Some(Box::new(Node { circuit, garbled, children }))
}

/// Walks as the evaluator does: with active labels and select bits only. Returns the directions taken.
fn walk(root: &Node, mut active: Vec<Block>) -> Vec<bool> {
    let mut directions = Vec::new();
    let mut node = root;
    loop {
        let outcome = evaluate(&[node.circuit.evaluation(&active, &node.garbled)]).expect("lengths fit")[0];
        let right = select_bit(&outcome) == select_bit(&node.garbled.outcome);
        directions.push(right);
        let Some((rows, child)) = &node.children[usize::from(right)] else {
            return directions;
        };
        active = open_transition(&node.circuit.nonce, &outcome, rows, &active).expect("lengths fit");
        node = child;
    }
}

/// The same walk in the clear.
fn walk_in_the_clear(root: &Node, value: &[u8]) -> Vec<bool> {
    let mut directions = Vec::new();
    let mut node = root;
    loop {
        let right = value >= node.circuit.threshold.as_slice();
        directions.push(right);
        let Some((_, child)) = &node.children[usize::from(right)] else {
            return directions;
        };
        node = child;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_walk_ends_where_the_value_belongs(
        seed: [u8; 16],
        bytes in 1..=16_usize,
        thresholds in prop::collection::btree_set(any::<[u8; 16]>(), 1..40),
        value: [u8; 16],
        existing in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut generator = Prg::new(&seed);
        let (material, delta) = (block(&mut generator), delta_from(&block(&mut generator)));
        let mut thresholds: Vec<Vec<u8>> = thresholds.iter().map(|value| value[..bytes].to_vec()).collect();
        thresholds.dedup();
        let root = build(&material, &delta, &thresholds, &mut generator).expect("at least one threshold");
        let value = existing.map_or(value[..bytes].to_vec(), |index| index.get(&thresholds).clone());
        let active = encode(&root.circuit.labels, &delta, &value);
        prop_assert_eq!(walk(&root, active), walk_in_the_clear(&root, &value));
    }

    /// A transition carries any labels over, and neither another outcome label nor another nonce opens it.
    #[test]
    fn a_transition_opens_for_its_outcome_only(
        nonce: Block,
        outcome: Block,
        other: Block,
        pairs in prop::collection::vec(any::<(Block, Block)>(), 1..70),
    ) {
        prop_assume!(outcome != other && nonce != other);
        let (own, child): (Vec<Block>, Vec<Block>) = pairs.into_iter().unzip();
        let rows = seal_transition(&nonce, &outcome, &own, &child);
        prop_assert_eq!(rows.len(), BLOCK_BYTES * own.len());
        prop_assert_eq!(open_transition(&nonce, &outcome, &rows, &own), Ok(child.clone()));
        for (nonce, outcome) in [(nonce, other), (other, outcome)] {
            let opened = open_transition(&nonce, &outcome, &rows, &own).expect("lengths fit");
            prop_assert!(opened.iter().zip(&child).all(|(opened, child)| opened != child));
        }
    }
}
