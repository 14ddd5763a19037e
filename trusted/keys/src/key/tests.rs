#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::Purpose;
use std::collections::HashSet;

fn fixed(byte: u8) -> Key {
    Key::take_from(&mut [byte; Key::BYTES])
}

#[test]
fn taking_a_key_wipes_the_source() {
    let mut material = [7; Key::BYTES];
    let key = Key::take_from(&mut material);
    assert_eq!(material, [0; Key::BYTES]);
    assert_eq!(key.expose(), &[7; Key::BYTES]);
    assert_eq!(key.expose_16(), &[7; 16]);
}

#[test]
fn a_key_wipes_itself() {
    let mut key = fixed(7);
    key.zeroize();
    assert_eq!(key.expose(), &[0; Key::BYTES]);
}

#[test]
fn generated_keys_differ() {
    let keys: HashSet<_> = (0..100).map(|_| *Key::generate().expose()).collect();
    assert_eq!(keys.len(), 100);
}

#[test]
fn derivation_is_deterministic_and_separates_paths() {
    let paths: [&[&[u8]]; 7] =
        [&[], &[b""], &[b"", b""], &[b"ab"], &[b"a", b"b"], &[b"ab", b""], &[b"", b"ab"]];
    let derived: HashSet<_> = paths.iter().map(|path| *fixed(1).derive(path).expose()).collect();
    assert_eq!(derived.len(), paths.len());
    assert_eq!(fixed(1).derive(&[b"ab"]).expose(), fixed(1).derive(&[b"ab"]).expose());
    assert_ne!(fixed(1).derive(&[b"ab"]).expose(), fixed(2).derive(&[b"ab"]).expose());
}

/// The tree is part of the stored format. Expected values: HKDF-SHA256 by Python's `hmac`, over the path
/// with each part preceded by its length in 8 bytes, big endian.
#[test]
fn known_answers() {
    let root = fixed(0x2a);
    let collection = root.child(Purpose::Collection(&[1; 8]));
    let values = collection.child(Purpose::CollectionValuesSeal);
    for (key, expected) in [
        (&root.child(Purpose::ProxyStoreSeal), PROXY_STORE_SEAL),
        (&collection, COLLECTION),
        (&values, VALUES_SEAL),
    ] {
        assert_eq!(crate::files::to_hex(key.expose()), expected);
    }
}

const PROXY_STORE_SEAL: &str = "9bbfa30c3cdeb8733420a6259c2359a5012407b94ec557a35f2532f721dbdb72";
const COLLECTION: &str = "d96aa35556bfe4ab67499c8c7c9bd04117ed05080f07cfe9c7c0da1a5e7c6d07";
const VALUES_SEAL: &str = "8c879d296ec0513a9f1ff590e4c080493a07607ff849bca472648343ba44e04b";
