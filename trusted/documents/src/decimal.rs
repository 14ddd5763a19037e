//! Decimals as BSON carries them.

use bson::Decimal128;

pub use arras_numbers::{Decimal, Rounding};

/// A stored decimal, taken apart.
#[must_use]
pub fn of(value: Decimal128) -> Decimal {
    Decimal::from_bytes(value.bytes())
}

/// A decimal as it is stored, rounded to 34 digits.
#[must_use]
pub fn stored(value: Decimal) -> Decimal128 {
    Decimal128::from_bytes(value.to_bytes())
}

/// Reads text as MongoDB's string conversion does; none if it is not a number.
#[must_use]
pub fn parse(text: &str) -> Option<Decimal> {
    text.parse::<Decimal128>().ok().map(of)
}

#[cfg(test)]
mod tests;
