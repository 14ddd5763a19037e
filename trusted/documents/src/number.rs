//! Numbers as BSON carries them.

use crate::decimal;
use bson::Bson;

pub use arras_numbers::Number;

/// The number in `value`, if it is one.
#[must_use]
pub fn of(value: &Bson) -> Option<Number> {
    match value {
        Bson::Int32(number) => Some(Number::Int(*number)),
        Bson::Int64(number) => Some(Number::Long(*number)),
        Bson::Double(number) => Some(Number::Double(*number)),
        Bson::Decimal128(number) => Some(Number::Decimal(decimal::of(*number))),
        _ => None,
    }
}

/// A number as a value.
#[must_use]
pub fn stored(number: Number) -> Bson {
    match number {
        Number::Int(number) => Bson::Int32(number),
        Number::Long(number) => Bson::Int64(number),
        Number::Double(number) => Bson::Double(number),
        Number::Decimal(number) => Bson::Decimal128(decimal::stored(number)),
    }
}
