//! Order-preserving, fixed-width encoding of one BSON value for range indexes.

use crate::filter::Test;
use bson::{Bson, Document};

/// A fixed-width key: one tag byte in BSON order, then a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedKey {
    /// Tag and body: `1 + body_bytes` bytes. Monotone: a value that compares less never has greater bytes, and
    /// equal values have equal bytes.
    pub bytes: Vec<u8>,
    /// Nothing of the value was lost: two exact keys have equal bytes only if their values are equal.
    pub exact: bool,
}

/// An inclusive range of key bytes.
pub type KeyRange = (Vec<u8>, Vec<u8>);

/// Encodes a value with a body of `body_bytes` bytes.
pub fn encode(value: &Bson, body_bytes: usize) -> OrderedKey {
    let _ = value;
    OrderedKey {
        bytes: vec![0; body_bytes + 1],
        exact: false,
    }
}

/// The key of a missing field: right below null.
pub fn encode_missing(body_bytes: usize) -> OrderedKey {
    OrderedKey {
        bytes: vec![0; body_bytes + 1],
        exact: false,
    }
}

/// The keys an index on `path` holds for `document`, sorted, without duplicates: one for each element of an
/// array (multikey), at least one for each document.
pub fn entries(document: &Document, path: &str, body_bytes: usize) -> Vec<OrderedKey> {
    let _ = (document, path);
    vec![encode_missing(body_bytes)]
}

/// An inclusive range of keys such that every document whose value at the path passes `test` has an
/// [`entries`] key in it. None: no such range (the test needs a scan). The caller re-checks what it finds.
pub fn bounds(test: &Test, body_bytes: usize) -> Option<KeyRange> {
    ranges(test, body_bytes).and_then(|ranges| Some((ranges.first()?.0.clone(), ranges.last()?.1.clone())))
}

/// Like [`bounds`], as several disjoint ascending ranges (`$in` has one a value). Empty: nothing can match.
pub fn ranges(test: &Test, body_bytes: usize) -> Option<Vec<KeyRange>> {
    let _ = (test, body_bytes);
    None
}
