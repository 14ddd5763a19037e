use super::{Cover, Node};

/// All values below the nodes, in the nodes' order.
fn values(nodes: &[Node]) -> Vec<u64> {
    nodes.iter().flat_map(|node| (0..1_u64 << node.level).map(|at| node.least() + at)).collect()
}

/// The fewest nodes that cover a range, by the definition: a node is taken whole or its halves are looked at.
fn fewest(node: Node, lower: u64, upper: u64) -> usize {
    let (least, greatest) = (node.least(), node.least() + ((1 << node.level) - 1));
    if greatest < lower || upper < least {
        0
    } else if lower <= least && greatest <= upper {
        1
    } else {
        node.halves().into_iter().map(|half| fewest(half, lower, upper)).sum()
    }
}

#[test]
fn every_range_of_small_domains_is_covered_exactly_and_by_the_fewest_nodes() {
    for bits in 1..=7_u8 {
        for lower in 0..1_u64 << bits {
            for upper in lower..1 << bits {
                let nodes = Cover::Best.of(lower, upper);
                assert_eq!(values(&nodes), (lower..=upper).collect::<Vec<_>>());
                assert_eq!(nodes.len(), fewest(Node::root(bits), lower, upper));
                assert!(nodes.len() <= 1.max(2 * (usize::from(bits) - 1)));
            }
        }
    }
}

#[test]
fn uniform_covers_depend_on_the_width_alone() {
    let bits = 7_u8;
    for width in 1..=1_u64 << bits {
        let mut levels = None;
        for lower in 0..=(1 << bits) - width {
            let upper = lower + width - 1;
            let nodes = Cover::Uniform.of(lower, upper);
            assert_eq!(values(&nodes), (lower..=upper).collect::<Vec<_>>());
            assert!(nodes.len() <= 2 * usize::from(bits));
            let mut found: Vec<u8> = nodes.iter().map(|node| node.level).collect();
            found.sort_unstable();
            assert_eq!(*levels.get_or_insert_with(|| found.clone()), found, "{lower}..={upper}");
        }
    }
}

#[test]
fn crossed_bounds_have_no_cover() {
    assert!(Cover::Best.of(5, 4).is_empty());
    assert!(Cover::Uniform.of(u64::MAX, 0).is_empty());
}

#[test]
fn nodes_at_the_ends_of_64_bits() {
    let root = Node::root(64);
    assert!(root.covers(0) && root.covers(u64::MAX));
    assert_eq!(Cover::Best.of(0, u64::MAX), [root]);
    assert_eq!(Cover::Best.of(u64::MAX, u64::MAX), [Node { level: 0, prefix: u64::MAX }]);
    assert_eq!(Cover::Best.of(1, u64::MAX - 1).len(), 126);
}
