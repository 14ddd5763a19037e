//! Arithmetic on numbers of four types with MongoDB's promotion: int32, int64, double, decimal.

use crate::decimal::Decimal;

/// A number of one of the four types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// 32 bits.
    Int(i32),
    /// 64 bits.
    Long(i64),
    /// IEEE 754 binary64.
    Double(f64),
    /// IEEE 754 decimal128.
    Decimal(Decimal),
}

impl Number {
    /// The nearest double.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(number) => f64::from(number),
            #[allow(clippy::cast_precision_loss)]
            Number::Long(number) => number as f64,
            Number::Double(number) => number,
            Number::Decimal(number) => number.to_f64(),
        }
    }

    /// As a decimal: a double is rounded to 15 digits.
    pub fn as_decimal(self) -> Decimal {
        match self {
            Number::Int(number) => Decimal::from(i64::from(number)),
            Number::Long(number) => Decimal::from(number),
            Number::Double(number) => Decimal::from_f64_rounded(number),
            Number::Decimal(number) => number,
        }
    }

    /// The value of an int32 or int64.
    pub fn as_integer(self) -> Option<i64> {
        match self {
            Number::Int(number) => Some(i64::from(number)),
            Number::Long(number) => Some(number),
            Number::Double(_) | Number::Decimal(_) => None,
        }
    }

    /// Applies the operation of the wider type of the two. None: an int64 overflowed.
    pub fn combine(
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
    pub fn plus(self, other: Self) -> Option<Self> {
        self.combine(other, i64::checked_add, |left, right| left + right, Decimal::plus)
    }

    /// Difference; none if an int64 overflowed.
    pub fn subtract(self, other: Self) -> Option<Self> {
        self.combine(
            other,
            i64::checked_sub,
            |left, right| left - right,
            |left, right| left.plus(right.negated()),
        )
    }

    /// Product; none if an int64 overflowed.
    pub fn multiply(self, other: Self) -> Option<Self> {
        self.combine(other, i64::checked_mul, |left, right| left * right, Decimal::multiply)
    }
}
