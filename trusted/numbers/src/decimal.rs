//! Decimal128 arithmetic: IEEE 754-2008, 34 digits, ties to even.

use std::cmp::Ordering;

mod arithmetic;

use arithmetic::{Wide, add_finite, compare_magnitudes, divide_finite, round};

const DIGITS_MAX: u32 = 34;
/// Largest coefficient: 34 nines.
pub const COEFFICIENT_MAX: u128 = 10_u128.pow(DIGITS_MAX) - 1;
/// Smallest power of ten.
pub const EXPONENT_MIN: i32 = -6176;
/// Largest power of ten.
pub const EXPONENT_MAX: i32 = 6111;

/// A Decimal128 taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decimal {
    /// Not a number (the sign and the payload are dropped).
    NaN,
    /// Plus or minus infinity.
    Infinity {
        /// Below zero.
        negative: bool,
    },
    /// `coefficient * 10^exponent`.
    Finite {
        /// Below zero, or minus zero.
        negative: bool,
        /// At most 34 digits.
        coefficient: u128,
        /// Power of ten.
        exponent: i32,
    },
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Decimal::from_i128(i128::from(value))
    }
}

impl Decimal {
    /// Zero.
    pub const ZERO: Decimal = Decimal::Finite { negative: false, coefficient: 0, exponent: 0 };

    /// Bytes of the interchange format.
    pub const BYTES: usize = 16;

    /// Reads the interchange format: IEEE 754's binary integer decimal, little endian.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let bits = u128::from_le_bytes(bytes);
        let negative = bits >> 127 == 1;
        if (bits >> 123) & 0xF == 0xF {
            return if (bits >> 122) & 1 == 1 { Decimal::NaN } else { Decimal::Infinity { negative } };
        }
        let (biased, coefficient) = if (bits >> 125) & 3 == 3 {
            // Second form: a coefficient of 114 bits starting with 100, always above the 34-digit limit.
            ((bits >> 111) & 0x3FFF, COEFFICIENT_MAX + 1)
        } else {
            ((bits >> 113) & 0x3FFF, bits & ((1 << 113) - 1))
        };
        // IEEE 754: a non-canonical coefficient counts as zero.
        let coefficient = if coefficient > COEFFICIENT_MAX { 0 } else { coefficient };
        let exponent = i32::try_from(biased).unwrap_or(0) + EXPONENT_MIN;
        Decimal::Finite { negative, coefficient, exponent }
    }

    /// Writes the interchange format.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let bits = match self {
            Decimal::NaN => 0x1F_u128 << 122,
            Decimal::Infinity { negative } => (u128::from(negative) << 127) | (0x1E_u128 << 122),
            Decimal::Finite { negative, coefficient, exponent } => {
                match round(negative, coefficient, exponent, false) {
                    Decimal::Finite { negative, coefficient, exponent } => {
                        let biased = u128::try_from(exponent - EXPONENT_MIN).unwrap_or(0);
                        (u128::from(negative) << 127) | (biased << 113) | coefficient
                    }
                    special => return special.to_bytes(),
                }
            }
        };
        bits.to_le_bytes()
    }

    /// An integer, rounded to 34 digits.
    pub fn from_i128(value: i128) -> Self {
        round(value < 0, value.unsigned_abs(), 0, false)
    }

    /// A double rounded to 15 significant digits, as MongoDB converts them in arithmetic.
    pub fn from_f64_rounded(value: f64) -> Self {
        if !value.is_finite() {
            return Self::from_f64_special(value);
        }
        Self::parse_scientific(&format!("{value:.14e}"))
    }

    /// A double rounded to 34 significant digits.
    pub fn from_f64(value: f64) -> Self {
        if !value.is_finite() {
            return Self::from_f64_special(value);
        }
        Self::parse_scientific(&format!("{value:.33e}")).reduced()
    }

    fn from_f64_special(value: f64) -> Self {
        if value.is_nan() { Decimal::NaN } else { Decimal::Infinity { negative: value < 0.0 } }
    }

    /// Reads `[-]d.ddde[-]dd`, the form `format!("{:e}")` writes.
    fn parse_scientific(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let fraction_digits = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let mut coefficient: u128 = 0;
        for digit in mantissa.bytes().filter(u8::is_ascii_digit) {
            coefficient = coefficient * 10 + u128::from(digit - b'0');
        }
        let exponent = exponent.parse::<i32>().unwrap_or(0) - i32::try_from(fraction_digits).unwrap_or(0);
        round(mantissa.starts_with('-'), coefficient, exponent, false)
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Decimal::NaN => f64::NAN,
            Decimal::Infinity { negative } => {
                if negative {
                    f64::NEG_INFINITY
                } else {
                    f64::INFINITY
                }
            }
            Decimal::Finite { negative, coefficient, exponent } => {
                let magnitude: f64 = format!("{coefficient}e{exponent}").parse().unwrap_or(0.0);
                if negative { -magnitude } else { magnitude }
            }
        }
    }

    /// The integer part, toward zero, if it fits; none for NaN and infinity too.
    pub fn truncate_to_i128(self) -> Option<i128> {
        let Decimal::Finite { negative, coefficient, exponent } = self.reduced() else {
            return None;
        };
        let magnitude = match u32::try_from(exponent) {
            Ok(exponent) => coefficient.checked_mul(10_u128.checked_pow(exponent)?)?,
            Err(_) => 10_u128.checked_pow(exponent.unsigned_abs()).map_or(0, |divisor| coefficient / divisor),
        };
        let magnitude = i128::try_from(magnitude).ok()?;
        Some(if negative { -magnitude } else { magnitude })
    }

    /// True if there is no fractional part (false for NaN and infinity).
    pub fn is_integer(self) -> bool {
        match self.reduced() {
            Decimal::Finite { exponent, .. } => exponent >= 0,
            _ => false,
        }
    }

    /// True for a value below zero (false for minus zero and NaN).
    pub fn is_negative(self) -> bool {
        match self {
            Decimal::NaN => false,
            Decimal::Infinity { negative } => negative,
            Decimal::Finite { negative, coefficient, .. } => negative && coefficient != 0,
        }
    }

    /// True for plus and minus zero.
    pub fn is_zero(self) -> bool {
        matches!(self, Decimal::Finite { coefficient: 0, .. })
    }

    /// The same value with its trailing zeros moved to the exponent; zero gets exponent 0.
    pub fn reduced(self) -> Self {
        let Decimal::Finite { negative, mut coefficient, mut exponent } = self else {
            return self;
        };
        if coefficient == 0 {
            return Decimal::Finite { negative, coefficient: 0, exponent: 0 };
        }
        while coefficient.is_multiple_of(10) {
            coefficient /= 10;
            exponent += 1;
        }
        Decimal::Finite { negative, coefficient, exponent }
    }

    /// Minus this.
    pub fn negated(self) -> Self {
        match self {
            Decimal::NaN => Decimal::NaN,
            Decimal::Infinity { negative } => Decimal::Infinity { negative: !negative },
            Decimal::Finite { negative, coefficient, exponent } => {
                Decimal::Finite { negative: !negative, coefficient, exponent }
            }
        }
    }

    /// Sum, rounded to 34 digits.
    pub fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Decimal::NaN, _) | (_, Decimal::NaN) => Decimal::NaN,
            (Decimal::Infinity { negative: a }, Decimal::Infinity { negative: b }) if a != b => Decimal::NaN,
            (Decimal::Infinity { .. }, _) => self,
            (_, Decimal::Infinity { .. }) => other,
            (
                Decimal::Finite { negative: a_negative, coefficient: a, exponent: a_exponent },
                Decimal::Finite { negative: b_negative, coefficient: b, exponent: b_exponent },
            ) => {
                if a_exponent < b_exponent {
                    return add_finite((b_negative, b, b_exponent), (a_negative, a, a_exponent));
                }
                add_finite((a_negative, a, a_exponent), (b_negative, b, b_exponent))
            }
        }
    }

    /// Product, rounded to 34 digits.
    pub fn multiply(self, other: Self) -> Self {
        match (self, other) {
            (Decimal::NaN, _) | (_, Decimal::NaN) => Decimal::NaN,
            (Decimal::Infinity { negative }, rest) | (rest, Decimal::Infinity { negative }) => {
                if rest.is_zero() {
                    return Decimal::NaN;
                }
                let other_negative = matches!(
                    rest,
                    Decimal::Finite { negative: true, .. } | Decimal::Infinity { negative: true }
                );
                Decimal::Infinity { negative: negative != other_negative }
            }
            (
                Decimal::Finite { negative: a_negative, coefficient: a, exponent: a_exponent },
                Decimal::Finite { negative: b_negative, coefficient: b, exponent: b_exponent },
            ) => {
                let product = Wide::product(a, b);
                let (coefficient, dropped, sticky) = product.to_digits();
                let exponent = a_exponent + b_exponent + dropped;
                round(a_negative != b_negative, coefficient, exponent, sticky)
            }
        }
    }

    /// Quotient, rounded to 34 digits. Division by zero gives infinity or NaN.
    pub fn divide(self, other: Self) -> Self {
        let sign = |value: Decimal| {
            matches!(value, Decimal::Finite { negative: true, .. } | Decimal::Infinity { negative: true })
        };
        let negative = sign(self) != sign(other);
        match (self, other) {
            (Decimal::NaN, _) | (_, Decimal::NaN) => Decimal::NaN,
            (Decimal::Infinity { .. }, Decimal::Infinity { .. }) => Decimal::NaN,
            (Decimal::Infinity { .. }, _) => Decimal::Infinity { negative },
            (_, Decimal::Infinity { .. }) => {
                Decimal::Finite { negative, coefficient: 0, exponent: EXPONENT_MIN }
            }
            (
                Decimal::Finite { coefficient: a, exponent: a_exponent, .. },
                Decimal::Finite { coefficient: b, exponent: b_exponent, .. },
            ) => {
                if b == 0 {
                    return if a == 0 { Decimal::NaN } else { Decimal::Infinity { negative } };
                }
                divide_finite(negative, (a, a_exponent), (b, b_exponent))
            }
        }
    }

    /// Remainder of the division toward zero, with the sign of `self`. NaN if `other` is zero.
    pub fn remainder(self, other: Self) -> Self {
        match (self, other) {
            (Decimal::Finite { .. }, Decimal::Infinity { .. }) => self,
            (
                Decimal::Finite { negative, coefficient: a, exponent: a_exponent },
                Decimal::Finite { coefficient: b, exponent: b_exponent, .. },
            ) if b != 0 => {
                let exponent = a_exponent.min(b_exponent);
                // a * 10^i mod b * 10^j, where one of i and j is 0.
                let remainder = if a_exponent >= b_exponent {
                    let mut remainder = a % b;
                    for _ in 0..(a_exponent - b_exponent) {
                        if remainder == 0 {
                            break;
                        }
                        remainder = remainder * 10 % b;
                    }
                    Some(remainder)
                } else {
                    let shift = (b_exponent - a_exponent).unsigned_abs();
                    let scaled = 10_u128.checked_pow(shift).and_then(|power| b.checked_mul(power));
                    Some(scaled.map_or(a, |scaled| a % scaled))
                };
                remainder.map_or(Decimal::NaN, |remainder| round(negative, remainder, exponent, false))
            }
            _ => Decimal::NaN,
        }
    }

    /// Rounded to `places` decimal places (negative: tens, hundreds...) by `mode`.
    pub fn to_places(self, places: i32, mode: Rounding) -> Self {
        let Decimal::Finite { negative, coefficient, exponent } = self else {
            return self;
        };
        let drop = -places - exponent;
        if drop <= 0 {
            return self;
        }
        let divisor = u32::try_from(drop).ok().and_then(|drop| 10_u128.checked_pow(drop));
        let (quotient, remainder, half) = match divisor {
            Some(divisor) => (coefficient / divisor, coefficient % divisor, divisor / 2),
            None => (0, coefficient, u128::MAX),
        };
        let up = match mode {
            Rounding::HalfEven => remainder > half || (remainder == half && quotient % 2 == 1),
            Rounding::TowardZero => false,
            Rounding::Floor => negative && remainder != 0,
            Rounding::Ceiling => !negative && remainder != 0,
        };
        round(negative, quotient + u128::from(up), -places, false)
    }

    /// Exact order by value; NaN below everything and equal to itself.
    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Decimal::NaN, Decimal::NaN) => Ordering::Equal,
            (Decimal::NaN, _) => Ordering::Less,
            (_, Decimal::NaN) => Ordering::Greater,
            _ => self.signed_magnitude(other),
        }
    }

    fn signed_magnitude(self, other: Self) -> Ordering {
        let sign = |value: Decimal| {
            if value.is_zero() {
                0
            } else if value.is_negative() {
                -1
            } else {
                1
            }
        };
        let by_sign = sign(self).cmp(&sign(other));
        if by_sign.is_ne() || sign(self) == 0 {
            return by_sign;
        }
        let magnitudes = match (self.reduced(), other.reduced()) {
            (Decimal::Infinity { .. }, Decimal::Infinity { .. }) => Ordering::Equal,
            (Decimal::Infinity { .. }, _) => Ordering::Greater,
            (_, Decimal::Infinity { .. }) => Ordering::Less,
            (
                Decimal::Finite { coefficient: a, exponent: a_exponent, .. },
                Decimal::Finite { coefficient: b, exponent: b_exponent, .. },
            ) => compare_magnitudes((a, a_exponent), (b, b_exponent)),
            _ => Ordering::Equal,
        };
        if self.is_negative() { magnitudes.reverse() } else { magnitudes }
    }
}

/// How [`Decimal::to_places`] rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, ties to even.
    HalfEven,
    /// Toward zero.
    TowardZero,
    /// Toward minus infinity.
    Floor,
    /// Toward plus infinity.
    Ceiling,
}
