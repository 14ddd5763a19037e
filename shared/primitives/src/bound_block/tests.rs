use super::*;
use crate::vectors;

fn blocks_of(bytes: &[u8]) -> Vec<Block> {
    bytes.as_chunks::<16>().0.to_vec()
}

#[test]
fn second_implementation() {
    for case in vectors::read("bound_block.txt") {
        let sealer = BoundBlock::new(&case.array("material"));
        let field = |name| blocks_of(&case.bytes(name));
        let (labels, mut opened) = (field("labels"), field("bodies"));
        let outcome = sealer.open_each(&labels, &mut opened, &field("tags"));
        assert_eq!(outcome.is_ok(), case.must_pass(), "{}", case.name());
        if case.must_pass() {
            assert_eq!(opened, field("blocks"), "{}", case.name());
            let (mut bodies, mut tags) = (opened, vec![[0; 16]; labels.len()]);
            sealer.seal_each(&labels, &mut bodies, &mut tags);
            assert_eq!((bodies, tags), (field("bodies"), field("tags")), "{}", case.name());
        }
    }
}

#[test]
fn the_first_that_does_not_open_is_named_and_nothing_is_shown() {
    let sealer = BoundBlock::new(&[7; 32]);
    let labels: Vec<Block> = (0..1300_u128).map(u128::to_le_bytes).collect();
    let mut bodies = vec![[9; 16]; labels.len()];
    let mut tags = vec![[0; 16]; labels.len()];
    sealer.seal_each(&labels, &mut bodies, &mut tags);
    // Equal blocks under different labels have nothing in common.
    let different: std::collections::BTreeSet<Block> = bodies.iter().chain(&tags).copied().collect();
    assert_eq!(different.len(), 2 * labels.len());
    for place in [0, 511, 512, 1299] {
        let (mut altered, mut opened) = (tags.clone(), bodies.clone());
        altered[place][3] ^= 4;
        assert_eq!(sealer.open_each(&labels, &mut opened, &altered), Err(place));
        assert!(opened.iter().all(|block| *block == [0; 16]));
    }
    sealer.open_each(&labels, &mut bodies, &tags).expect("as they were sealed");
    assert!(bodies.iter().all(|block| *block == [9; 16]));
}
