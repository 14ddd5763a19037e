use super::*;
use crate::vectors;

#[test]
fn fips180() {
    for case in vectors::read("sha_256_fips180.txt") {
        let input = case.bytes("input");
        assert_eq!(sha256(&[&input]), case.array("digest"), "{}", case.name());
        let (left, right) = input.split_at(input.len() / 3);
        assert_eq!(sha256(&[left, right]), case.array("digest"), "{} in two parts", case.name());
    }
}

#[test]
fn frames_tell_lists_apart() {
    let lists: [&[&[u8]]; 6] = [&[], &[b""], &[b"ab"], &[b"a", b"b"], &[b"", b"ab"], &[b"ab", b""]];
    for (position, left) in lists.iter().enumerate() {
        for right in &lists[..position] {
            assert_ne!(sha256_framed(left), sha256_framed(right));
        }
    }
    let written_out = [&[0, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 0, 0, 0, 0, 0, 2, b'b', b'c'][..]];
    assert_eq!(sha256_framed(&[b"a", b"bc"]), sha256(&written_out));
}
