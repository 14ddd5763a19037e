//! The BSON comparison order, and a canonical encoding under which equal values have equal bytes.

use crate::decimal::{self, Decimal};
use bson::{Bson, DbPointer, Document};
use std::borrow::Borrow;
use std::cmp::Ordering;

mod canonical;
mod number;

pub use canonical::canonical;
pub use number::{as_exact_i64, as_f64, as_lossy_i64};
pub(crate) use number::{compare_decimal_with_double, compare_numbers};

/// Place of a value's type in the BSON order. Types of one class compare by value; null, numbers of all kinds,
/// and strings with symbols are such classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// `MinKey`.
    MinKey = 0x08,
    /// The deprecated `undefined`; also what an index holds for an empty array.
    Undefined = 0x18,
    /// Null. A missing field counts as null wherever values are ordered.
    Null = 0x20,
    /// Int32, int64, double, decimal128.
    Number = 0x28,
    /// String and symbol.
    String = 0x30,
    /// Document.
    Object = 0x38,
    /// Array.
    Array = 0x40,
    /// Binary data.
    Binary = 0x48,
    /// Object id.
    ObjectId = 0x50,
    /// Boolean.
    Boolean = 0x58,
    /// Date.
    Date = 0x60,
    /// Timestamp.
    Timestamp = 0x68,
    /// Regular expression.
    Regex = 0x70,
    /// The deprecated database pointer.
    DbPointer = 0x78,
    /// JavaScript code.
    Code = 0x80,
    /// JavaScript code with scope.
    CodeWithScope = 0x88,
    /// `MaxKey`.
    MaxKey = 0xF0,
}

/// The class of a value.
pub fn class(value: &Bson) -> Class {
    match value {
        Bson::MinKey => Class::MinKey,
        Bson::Undefined => Class::Undefined,
        Bson::Null => Class::Null,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => Class::Number,
        Bson::String(_) | Bson::Symbol(_) => Class::String,
        Bson::Document(_) => Class::Object,
        Bson::Array(_) => Class::Array,
        Bson::Binary(_) => Class::Binary,
        Bson::ObjectId(_) => Class::ObjectId,
        Bson::Boolean(_) => Class::Boolean,
        Bson::DateTime(_) => Class::Date,
        Bson::Timestamp(_) => Class::Timestamp,
        Bson::RegularExpression(_) => Class::Regex,
        Bson::DbPointer(_) => Class::DbPointer,
        Bson::JavaScriptCode(_) => Class::Code,
        Bson::JavaScriptCodeWithScope(_) => Class::CodeWithScope,
        Bson::MaxKey => Class::MaxKey,
    }
}

/// Compares two values in the BSON order: a total order in which 1, 1.0 and decimal 1.00 are equal, -0 equals 0,
/// and NaN is the lowest number, equal to itself. Numbers of different types compare exactly.
pub fn compare(left: &Bson, right: &Bson) -> Ordering {
    class(left).cmp(&class(right)).then_with(|| same_class(left, right))
}

/// True if two values compare equal.
pub fn equal(left: &Bson, right: &Bson) -> bool {
    compare(left, right).is_eq()
}

fn same_class(left: &Bson, right: &Bson) -> Ordering {
    match (left, right) {
        (Bson::Document(left), Bson::Document(right)) => compare_documents(left, right),
        (Bson::Array(left), Bson::Array(right)) => left
            .iter()
            .zip(right)
            .map(|(left, right)| compare(left, right))
            .find(|ordering| ordering.is_ne())
            .unwrap_or_else(|| left.len().cmp(&right.len())),
        (Bson::String(left) | Bson::Symbol(left), Bson::String(right) | Bson::Symbol(right))
        | (Bson::JavaScriptCode(left), Bson::JavaScriptCode(right)) => left.as_bytes().cmp(right.as_bytes()),
        (Bson::Binary(left), Bson::Binary(right)) => left
            .bytes
            .len()
            .cmp(&right.bytes.len())
            .then_with(|| u8::from(left.subtype).cmp(&u8::from(right.subtype)))
            .then_with(|| left.bytes.cmp(&right.bytes)),
        (Bson::ObjectId(left), Bson::ObjectId(right)) => left.bytes().cmp(&right.bytes()),
        (Bson::Boolean(left), Bson::Boolean(right)) => left.cmp(right),
        (Bson::DateTime(left), Bson::DateTime(right)) => left.cmp(right),
        (Bson::Timestamp(left), Bson::Timestamp(right)) => {
            (left.time, left.increment).cmp(&(right.time, right.increment))
        }
        (Bson::RegularExpression(left), Bson::RegularExpression(right)) => {
            let parts = |regex: &bson::Regex| (regex.pattern.to_string(), regex.options.to_string());
            parts(left).cmp(&parts(right))
        }
        (Bson::JavaScriptCodeWithScope(left), Bson::JavaScriptCodeWithScope(right)) => {
            left.code.cmp(&right.code).then_with(|| compare_documents(&left.scope, &right.scope))
        }
        (Bson::DbPointer(left), Bson::DbPointer(right)) => {
            let (left, right) = (pointer_bytes(left), pointer_bytes(right));
            left.len().cmp(&right.len()).then_with(|| left.cmp(&right))
        }
        _ => compare_numbers(left, right),
    }
}

/// A value, or a reference to one, that sorts in BSON order, for sets of them.
#[derive(Clone, Copy, Debug)]
pub struct Ordered<V>(pub V);

impl<V: Borrow<Bson>> PartialEq for Ordered<V> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<V: Borrow<Bson>> Eq for Ordered<V> {}

impl<V: Borrow<Bson>> PartialOrd for Ordered<V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<V: Borrow<Bson>> Ord for Ordered<V> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0.borrow(), other.0.borrow())
    }
}

/// Compares two documents field by field: class of the value, then name, then value; a prefix is less.
pub fn compare_documents(left: &Document, right: &Document) -> Ordering {
    left.iter()
        .zip(right.iter())
        .map(|((left_name, left), (right_name, right))| {
            class(left)
                .cmp(&class(right))
                .then_with(|| left_name.as_bytes().cmp(right_name.as_bytes()))
                .then_with(|| same_class(left, right))
        })
        .find(|ordering| ordering.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// The bytes of a database pointer, whose fields `bson` keeps to itself: namespace and id as encoded.
fn pointer_bytes(pointer: &DbPointer) -> Vec<u8> {
    let mut holder = Document::new();
    holder.insert("", Bson::DbPointer(pointer.clone()));
    // A pointer that cannot be encoded (a NUL in its name cannot be) orders before all others.
    holder.to_vec().unwrap_or_default()
}

/// True if two documents have the same encoding: same fields in the same order, same types, same bits. Unlike
/// `==`, which ignores the order of fields and tells NaN from itself.
pub fn identical_documents(left: &Document, right: &Document) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right.iter())
            .all(|((left_name, left), (right_name, right))| left_name == right_name && identical(left, right))
}

/// True if two values have the same encoding.
pub fn identical(left: &Bson, right: &Bson) -> bool {
    match (left, right) {
        (Bson::Double(left), Bson::Double(right)) => left.to_bits() == right.to_bits(),
        (Bson::Document(left), Bson::Document(right)) => identical_documents(left, right),
        (Bson::Array(left), Bson::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| identical(left, right))
        }
        (Bson::JavaScriptCodeWithScope(left), Bson::JavaScriptCodeWithScope(right)) => {
            left.code == right.code && identical_documents(&left.scope, &right.scope)
        }
        _ => left == right,
    }
}

/// True for a double or decimal NaN.
pub fn is_nan(value: &Bson) -> bool {
    match value {
        Bson::Double(double) => double.is_nan(),
        Bson::Decimal128(decimal) => decimal::of(*decimal) == Decimal::NaN,
        _ => false,
    }
}

/// MongoDB's alias of a value's type, as `$type` gives it.
pub fn type_name(value: &Bson) -> &'static str {
    match value {
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Document(_) => "object",
        Bson::Array(_) => "array",
        Bson::Binary(_) => "binData",
        Bson::Undefined => "undefined",
        Bson::ObjectId(_) => "objectId",
        Bson::Boolean(_) => "bool",
        Bson::DateTime(_) => "date",
        Bson::Null => "null",
        Bson::RegularExpression(_) => "regex",
        Bson::DbPointer(_) => "dbPointer",
        Bson::JavaScriptCode(_) => "javascript",
        Bson::Symbol(_) => "symbol",
        Bson::JavaScriptCodeWithScope(_) => "javascriptWithScope",
        Bson::Int32(_) => "int",
        Bson::Timestamp(_) => "timestamp",
        Bson::Int64(_) => "long",
        Bson::Decimal128(_) => "decimal",
        Bson::MinKey => "minKey",
        Bson::MaxKey => "maxKey",
    }
}

#[cfg(test)]
mod tests;
