#![allow(clippy::unwrap_used)]

use super::*;
use crate::samples::document;
use bson::doc;
use proptest::prelude::*;

fn nested(levels: usize) -> Document {
    (1..levels).fold(Document::new(), |inner, _| doc! { "a": inner })
}

/// The bytes of a document nested so deep that the library must not be asked to encode it.
fn deep_bytes(levels: usize) -> Vec<u8> {
    let mut bytes = vec![5, 0, 0, 0, 0];
    for _ in 1..levels {
        let length = i32::try_from(bytes.len() + 8).unwrap();
        let mut outer = length.to_le_bytes().to_vec();
        outer.extend([3, b'a', 0]);
        outer.extend(bytes);
        outer.push(0);
        bytes = outer;
    }
    bytes
}

#[test]
fn depth_is_bounded() {
    assert!(check_document(&nested(DEPTH_MAX).to_vec().unwrap()).is_ok());
    assert!(check_built(&nested(DEPTH_MAX)).is_ok());
    assert_eq!(check_document(&nested(DEPTH_MAX + 1).to_vec().unwrap()).unwrap_err().code, 15);
    assert_eq!(check_built(&nested(DEPTH_MAX + 1)).unwrap_err().code, 15);
    assert_eq!(check_document(&deep_bytes(2000)).unwrap_err().code, 15);
}

#[test]
fn size_is_bounded() {
    let large = doc! { "a": "x".repeat(DOCUMENT_BYTES_MAX) };
    assert_eq!(check_document(&large.to_vec().unwrap()).unwrap_err().code, 10334);
    assert_eq!(check_built(&large).unwrap_err().code, 10334);
}

#[test]
fn malformed_documents_are_refused() {
    let cases: &[(&str, &[u8])] = &[
        ("empty", &[]),
        ("shorter than any document", &[4, 0, 0, 0]),
        ("length too long", &[6, 0, 0, 0, 0]),
        ("length too short", &[5, 0, 0, 0, 0, 0]),
        ("negative length", &[255, 255, 255, 255, 0]),
        ("no terminator", &[5, 0, 0, 0, 1]),
        ("unknown type", &[8, 0, 0, 0, 0x20, b'a', 0, 0]),
        ("name without an end", &[8, 0, 0, 0, 0x0A, b'a', b'b', b'c']),
        ("name not UTF-8", &[8, 0, 0, 0, 0x0A, 0xFF, 0, 0]),
        ("boolean of two", &[9, 0, 0, 0, 8, b'a', 0, 2, 0]),
        ("string without its zero", &[14, 0, 0, 0, 2, b'a', 0, 2, 0, 0, 0, b'x', b'y', 0]),
        ("string of length zero", &[12, 0, 0, 0, 2, b'a', 0, 0, 0, 0, 0, 0]),
        ("inner document past the outer", &[13, 0, 0, 0, 3, b'a', 0, 9, 0, 0, 0, 0, 0]),
    ];
    for (what, bytes) in cases {
        assert_eq!(check_document(bytes).unwrap_err().code, 22, "{what}");
    }
}

proptest! {
    #[test]
    fn valid_documents_pass_and_truncated_ones_do_not(document in document()) {
        let bytes = document.to_vec().unwrap();
        check_document(&bytes).unwrap();
        prop_assert_eq!(check_built(&document).unwrap(), bytes.len());
        for length in 0..bytes.len() {
            prop_assert!(check_document(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn what_passes_can_be_decoded(document in document(), position in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = document.to_vec().unwrap();
        let position = position.index(bytes.len());
        bytes[position] = byte;
        if check_document(&bytes).is_ok() {
            prop_assert!(Document::from_reader(bytes.as_slice()).is_ok(), "{:?}", bytes);
        }
    }
}
