//! Order-preserving, fixed-width encoding of one BSON value for range indexes.
//!
//! A key is one tag byte, the value's [`Class`] in the BSON order, and a body of fixed width. Numbers of all types
//! share a tag; their body is the nearest double made sortable (8 bytes) and what the value differs from it
//! (2 bytes), so that a body of [`NUMBER_BODY_BYTES`] keeps all integers and doubles apart. Strings keep their
//! first bytes. A shorter body is a prefix of a longer one.

use crate::order::{self, Class};
use crate::path;
use bson::{Bson, Document};

mod bounds;
mod number;

pub use bounds::{KeyRange, bounds, ranges};

/// Tag of a missing field: right below null.
const MISSING: u8 = Class::Null as u8 - 1;

/// Body bytes from which on every integer and double is kept exactly.
pub const NUMBER_BODY_BYTES: usize = 10;

/// A fixed-width key: one tag byte in BSON order, then a body.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderedKey {
    /// Tag and body: `1 + body_bytes` bytes. Monotone: a value that compares less never has greater bytes, and
    /// equal values have equal bytes.
    pub bytes: Vec<u8>,
    /// Nothing of the value was lost: two exact keys have equal bytes only if their values are equal.
    pub exact: bool,
}

/// Encodes a value with a body of `body_bytes` bytes.
pub fn encode(value: &Bson, body_bytes: usize) -> OrderedKey {
    let body = Body::of(value, body_bytes);
    let mut bytes = Vec::with_capacity(body_bytes + 1);
    bytes.push(order::class(value) as u8);
    bytes.extend(body.bytes.iter().take(body_bytes));
    bytes.resize(body_bytes + 1, 0);
    OrderedKey { bytes, exact: body.exact }
}

/// The key of a missing field: right below null.
pub fn encode_missing(body_bytes: usize) -> OrderedKey {
    let mut bytes = vec![MISSING];
    bytes.resize(body_bytes + 1, 0);
    OrderedKey { bytes, exact: true }
}

/// The keys an index on `path` holds for `document`, ascending, without duplicates: one for each element of an
/// array (multikey), at least one for each document.
pub fn entries(document: &Document, path: &str, body_bytes: usize) -> Vec<OrderedKey> {
    let mut keys = Vec::new();
    path::visit_index_values(document, path, &mut |value| {
        keys.push(value.map_or_else(|| encode_missing(body_bytes), |value| encode(value, body_bytes)));
    });
    keys.sort();
    // Of equal bytes the inexact key sorts first and stays: the entry then stands for more than one value.
    keys.dedup_by(|later, kept| later.bytes == kept.bytes);
    keys
}

/// The body of a key before it is cut or padded, and whether cutting it loses anything.
struct Body {
    bytes: Vec<u8>,
    exact: bool,
}

impl Body {
    fn of(value: &Bson, body_bytes: usize) -> Self {
        match value {
            Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => {
                let number = number::body(value);
                let kept = body_bytes.min(NUMBER_BODY_BYTES);
                Body { exact: number.exact && number.loses_nothing_past(kept), bytes: number.bytes.to_vec() }
            }
            Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => {
                let bytes: Vec<u8> = text.bytes().take(body_bytes).collect();
                // Padding looks like zero bytes of a longer string.
                Body { exact: text.len() < body_bytes && !bytes.contains(&0), bytes }
            }
            Bson::Binary(binary) => {
                // The order is by length, then subtype, then content.
                let length = u32::try_from(binary.bytes.len()).unwrap_or(u32::MAX);
                let mut bytes = length.to_be_bytes().to_vec();
                bytes.push(binary.subtype.into());
                bytes.extend(binary.bytes.iter().take(body_bytes));
                Body { exact: binary.bytes.len() + 5 <= body_bytes, bytes }
            }
            Bson::ObjectId(id) => Self::plain(id.bytes().to_vec(), body_bytes),
            Bson::Boolean(flag) => Self::plain(vec![u8::from(*flag)], body_bytes),
            Bson::DateTime(date) => {
                // The sign bit flipped: negative below positive.
                let biased = date.timestamp_millis().cast_unsigned() ^ (1 << 63);
                Self::plain(biased.to_be_bytes().to_vec(), body_bytes)
            }
            Bson::Timestamp(timestamp) => {
                let mut bytes = timestamp.time.to_be_bytes().to_vec();
                bytes.extend(timestamp.increment.to_be_bytes());
                Self::plain(bytes, body_bytes)
            }
            Bson::RegularExpression(regex) => {
                let bytes = regex.pattern.as_str().bytes().take(body_bytes).collect();
                Body { bytes, exact: false }
            }
            Bson::Null | Bson::Undefined | Bson::MinKey | Bson::MaxKey => Self::plain(Vec::new(), body_bytes),
            Bson::Document(_) | Bson::Array(_) | Bson::JavaScriptCodeWithScope(_) | Bson::DbPointer(_) => {
                Body { bytes: Vec::new(), exact: false }
            }
        }
    }

    /// A body of fixed length: exact if only zeros are cut off.
    fn plain(bytes: Vec<u8>, body_bytes: usize) -> Self {
        Body { exact: bytes.iter().skip(body_bytes).all(|byte| *byte == 0), bytes }
    }
}

#[cfg(test)]
mod tests;
