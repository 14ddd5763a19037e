use super::*;
use crate::vectors;
use proptest::prelude::*;

#[test]
fn second_implementation() {
    for case in vectors::read("token_tree.txt") {
        let (root, height) = (case.array("root"), case.number("height") as u8);
        let found = leaf(&root, height, case.number("counter"));
        assert_eq!(found, case.array("leaf"), "{}", case.name());
        assert_eq!(leaf_label(&found), case.array("label"), "{}", case.name());
        assert_eq!(leaf_mask(&found), case.array("mask"), "{}", case.name());
    }
}

/// Every leaf by its own path.
fn leaves(root: &Block, height: u8) -> Vec<Block> {
    (0..1 << height).map(|counter| leaf(root, height, counter)).collect()
}

#[test]
fn every_cover_of_small_trees() {
    let root = [7; 16];
    for height in 0..=7 {
        let all = leaves(&root, height);
        for count in 0..=all.len() {
            let nodes = cover(&root, height, count as u64);
            assert_eq!(nodes.len(), count.count_ones() as usize, "fewest nodes for {count}");
            assert!(nodes.is_sorted_by(|left, right| left.1 > right.1), "one node a height, highest first");
            let expanded: Vec<Block> =
                nodes.iter().flat_map(|(node, height)| expand(node, *height, u64::MAX)).collect();
            assert_eq!(expanded, all[..count], "leaves below {count} at height {height}");
        }
    }
}

#[test]
fn every_limit_of_an_expansion() {
    let root = [8; 16];
    for height in 0..=9 {
        let all = leaves(&root, height);
        for limit in [0, 1, 2, 3, 63, 64, 65, 127, 128, 129, 200, 511, 512, 513] {
            let some: Vec<Block> = expand(&root, height, limit as u64).collect();
            assert_eq!(some, all[..limit.min(all.len())], "{limit} of height {height}");
        }
    }
}

proptest! {
    #[test]
    fn cover_of_a_high_tree_holds_its_leaves(root: [u8; 16], height in 10..=HEIGHT_MAX, fraction: u64) {
        let count = fraction >> (64 - height);
        let nodes = cover(&root, height, count);
        prop_assert!(nodes.len() <= usize::from(height));
        let mut first = 0;
        for (node, level) in nodes {
            prop_assert_eq!(expand(&node, level, 1).next(), Some(leaf(&root, height, first)));
            let within = (1 << level) - 1;
            prop_assert_eq!(leaf(&node, level, within), leaf(&root, height, first + within));
            first += 1 << level;
        }
        prop_assert_eq!(first, count);
    }

    #[test]
    fn batches_and_items_are_the_same_leaves(root: [u8; 16], limit in 0..400_u64, singles in 0..100_usize) {
        let all: Vec<Block> = expand(&root, 8, limit).collect();
        let mut mixed = expand(&root, 8, limit);
        let mut found: Vec<Block> = mixed.by_ref().take(singles).collect();
        loop {
            let batch = mixed.next_batch();
            if batch.is_empty() {
                break;
            }
            found.extend(batch);
        }
        prop_assert_eq!(found, all);
        prop_assert_eq!(mixed.next(), None);
    }

    #[test]
    fn labels_and_masks_in_batches(leaves in prop::collection::vec(any::<Block>(), 0..20)) {
        let each: Vec<_> = leaves.iter().map(|leaf| (leaf_label(leaf), leaf_mask(leaf))).collect();
        prop_assert_eq!(labels_and_masks(&leaves), each);
    }
}

#[test]
fn derivations_differ() {
    let node = [3; 16];
    let (left, right) = both(&node);
    assert_eq!((left, right), (child(&node, false), child(&node, true)));
    let all = [node, left, right, leaf_label(&node), leaf_mask(&node)];
    for (position, one) in all.iter().enumerate() {
        assert!(!all[..position].contains(one));
    }
}

/// What a peer claims of a node's height must not cost more than the limit allows.
#[test]
fn absurd_heights_stay_cheap() {
    let mut leaves = expand(&[1; 16], u8::MAX, 3);
    assert_eq!(leaves.by_ref().count(), 3);
    assert_eq!(leaves.next(), None);
}

#[test]
#[should_panic(expected = "no such leaf")]
fn no_leaf_past_the_last() {
    let _ = leaf(&[0; 16], 4, 16);
}

#[test]
#[should_panic(expected = "more leaves than the tree has")]
fn no_cover_past_the_last() {
    let _ = cover(&[0; 16], 4, 17);
}
