//! Arithmetic on BSON numbers with MongoDB's type promotion: int32, int64, double, decimal.

use crate::decimal::Decimal;
use bson::{Bson, Decimal128};

/// A number of one of the four types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i32),
    Long(i64),
    Double(f64),
    Decimal(Decimal),
}

impl Number {
    /// The number in `value`, if it is one.
    pub(crate) fn of(value: &Bson) -> Option<Self> {
        match value {
            Bson::Int32(number) => Some(Number::Int(*number)),
            Bson::Int64(number) => Some(Number::Long(*number)),
            Bson::Double(number) => Some(Number::Double(*number)),
            Bson::Decimal128(number) => Some(Number::Decimal(Decimal::from(*number))),
            _ => None,
        }
    }

    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Number::Int(number) => f64::from(number),
            #[allow(clippy::cast_precision_loss)]
            Number::Long(number) => number as f64,
            Number::Double(number) => number,
            Number::Decimal(number) => number.to_f64(),
        }
    }

    pub(crate) fn as_decimal(self) -> Decimal {
        match self {
            Number::Int(number) => Decimal::from(i64::from(number)),
            Number::Long(number) => Decimal::from(number),
            Number::Double(number) => Decimal::from_f64_rounded(number),
            Number::Decimal(number) => number,
        }
    }

    /// The value of an int32 or int64.
    pub(crate) fn as_integer(self) -> Option<i64> {
        match self {
            Number::Int(number) => Some(i64::from(number)),
            Number::Long(number) => Some(number),
            Number::Double(_) | Number::Decimal(_) => None,
        }
    }

    /// Applies the operation of the wider type of the two. None: an int64 overflowed.
    pub(crate) fn combine(
        self,
        other: Self,
        integers: fn(i64, i64) -> Option<i64>,
        doubles: fn(f64, f64) -> f64,
        decimals: fn(Decimal, Decimal) -> Decimal,
    ) -> Option<Self> {
        Some(match (self, other) {
            (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
                Number::Decimal(decimals(self.as_decimal(), other.as_decimal()))
            }
            (Number::Double(_), _) | (_, Number::Double(_)) => {
                Number::Double(doubles(self.as_f64(), other.as_f64()))
            }
            _ => {
                let result = integers(self.as_integer()?, other.as_integer()?)?;
                match (self, other, i32::try_from(result)) {
                    (Number::Int(_), Number::Int(_), Ok(small)) => Number::Int(small),
                    _ => Number::Long(result),
                }
            }
        })
    }

    /// Sum; none if an int64 overflowed.
    pub(crate) fn add(self, other: Self) -> Option<Self> {
        self.combine(other, i64::checked_add, |left, right| left + right, Decimal::plus)
    }

    /// Difference; none if an int64 overflowed.
    pub(crate) fn subtract(self, other: Self) -> Option<Self> {
        self.combine(
            other,
            i64::checked_sub,
            |left, right| left - right,
            |left, right| left.plus(right.negated()),
        )
    }

    /// Product; none if an int64 overflowed.
    pub(crate) fn multiply(self, other: Self) -> Option<Self> {
        self.combine(other, i64::checked_mul, |left, right| left * right, Decimal::multiply)
    }
}

impl From<Number> for Bson {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(number) => Bson::Int32(number),
            Number::Long(number) => Bson::Int64(number),
            Number::Double(number) => Bson::Double(number),
            Number::Decimal(number) => Bson::Decimal128(Decimal128::from(number)),
        }
    }
}
