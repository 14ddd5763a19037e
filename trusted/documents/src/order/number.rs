//! Exact comparison of numbers across types.

use crate::decimal::{self, Decimal};
use bson::Bson;
use std::cmp::Ordering;

/// 2^63 as a double.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// The value as an `i64` if it is a number with exactly that value.
pub fn as_exact_i64(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        #[allow(clippy::cast_possible_truncation)]
        Bson::Double(number) if number.trunc() == *number && (-TWO_63..TWO_63).contains(number) => {
            Some(*number as i64)
        }
        Bson::Decimal128(number) => {
            let decimal = decimal::of(*number);
            if decimal.is_integer() { i64::try_from(decimal.truncate_to_i128()?).ok() } else { None }
        }
        _ => None,
    }
}

/// The value as an `i64` with its fraction cut off; none if it is no number, NaN, or out of range.
pub fn as_lossy_i64(value: &Bson) -> Option<i64> {
    match value {
        Bson::Double(number) => as_exact_i64(&Bson::Double(number.trunc())),
        Bson::Decimal128(number) => i64::try_from(decimal::of(*number).truncate_to_i128()?).ok(),
        _ => as_exact_i64(value),
    }
}

/// The nearest double of a number; none if the value is no number.
pub fn as_f64(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        #[allow(clippy::cast_precision_loss)]
        Bson::Int64(number) => Some(*number as f64),
        Bson::Double(number) => Some(*number),
        Bson::Decimal128(number) => Some(decimal::of(*number).to_f64()),
        _ => None,
    }
}

/// Compares two numbers; values that are none are equal.
pub(crate) fn compare_numbers(left: &Bson, right: &Bson) -> Ordering {
    match (left, right) {
        (Bson::Int32(left), Bson::Int32(right)) => left.cmp(right),
        (Bson::Double(left), Bson::Double(right)) => compare_doubles(*left, *right),
        (Bson::Decimal128(left), Bson::Decimal128(right)) => decimal::of(*left).compare(decimal::of(*right)),
        (Bson::Decimal128(left), Bson::Double(right)) => {
            compare_decimal_with_double(decimal::of(*left), *right)
        }
        (Bson::Double(left), Bson::Decimal128(right)) => {
            compare_decimal_with_double(decimal::of(*right), *left).reverse()
        }
        (integer, Bson::Double(double)) => as_exact_i64(integer)
            .map_or(Ordering::Equal, |integer| compare_integer_with_double(integer, *double)),
        (Bson::Double(double), integer) => as_exact_i64(integer)
            .map_or(Ordering::Equal, |integer| compare_integer_with_double(integer, *double).reverse()),
        (integer, Bson::Decimal128(decimal)) => as_exact_i64(integer)
            .map_or(Ordering::Equal, |integer| Decimal::from(integer).compare(decimal::of(*decimal))),
        (Bson::Decimal128(decimal), integer) => as_exact_i64(integer)
            .map_or(Ordering::Equal, |integer| decimal::of(*decimal).compare(Decimal::from(integer))),
        _ => as_exact_i64(left).cmp(&as_exact_i64(right)),
    }
}

fn compare_doubles(left: f64, right: f64) -> Ordering {
    // Only a NaN leaves two doubles unordered.
    left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn compare_integer_with_double(integer: i64, double: f64) -> Ordering {
    if double.is_nan() || double < -TWO_63 {
        return Ordering::Greater;
    }
    if double >= TWO_63 {
        return Ordering::Less;
    }
    let whole = double.trunc();
    integer.cmp(&(whole as i64)).then_with(|| compare_doubles(whole, double))
}

/// Compares exactly: both sides are finite sums of powers of two and five, brought to a common integer scale.
pub(crate) fn compare_decimal_with_double(decimal: Decimal, double: f64) -> Ordering {
    let (negative, coefficient, exponent) = match decimal {
        Decimal::NaN => {
            return if double.is_nan() { Ordering::Equal } else { Ordering::Less };
        }
        Decimal::Infinity { negative } => {
            let infinity = if negative { f64::NEG_INFINITY } else { f64::INFINITY };
            return compare_doubles(infinity, double);
        }
        Decimal::Finite { negative, coefficient, exponent } => (negative, coefficient, exponent),
    };
    if double.is_nan() {
        return Ordering::Greater;
    }
    let nearest = decimal.to_f64();
    // Rounding to the nearest double is monotone, so a difference of the rounded value decides.
    if nearest != double || double.is_infinite() || coefficient == 0 {
        if nearest == double && double.is_infinite() {
            return if negative { Ordering::Greater } else { Ordering::Less };
        }
        return compare_doubles(nearest, double);
    }
    if double == 0.0 {
        return if negative { Ordering::Less } else { Ordering::Greater };
    }
    let (mantissa, binary_exponent) = arras_numbers::split(double.abs());
    let ordering = compare_scaled((coefficient, exponent), (mantissa, binary_exponent));
    if negative { ordering.reverse() } else { ordering }
}

/// Compares `c * 10^q` with `m * 2^e`, both positive and of nearly the same size.
fn compare_scaled(
    (coefficient, decimal_exponent): (u128, i32),
    (mantissa, exponent): (u64, i32),
) -> Ordering {
    let mut left = Natural::from(coefficient);
    let mut right = Natural::from(u128::from(mantissa));
    let fives = decimal_exponent.unsigned_abs();
    if decimal_exponent >= 0 {
        left.multiply_by_fives(fives);
    } else {
        right.multiply_by_fives(fives);
    }
    let shift = decimal_exponent - exponent;
    if shift >= 0 {
        left.shift_left(shift.unsigned_abs());
    } else {
        right.shift_left(shift.unsigned_abs());
    }
    left.compare(&right)
}

/// An unsigned integer of any size, least significant limb first, no leading zero limbs.
struct Natural(Vec<u32>);

impl From<u128> for Natural {
    #[allow(clippy::cast_possible_truncation)]
    fn from(value: u128) -> Self {
        let mut natural = Natural((0..4).map(|limb| (value >> (32 * limb)) as u32).collect());
        natural.trim();
        natural
    }
}

impl Natural {
    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn multiply(&mut self, factor: u32) {
        let mut carry = 0_u64;
        for limb in &mut self.0 {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            *limb = product as u32;
            carry = product >> 32;
        }
        if carry != 0 {
            self.0.push(carry as u32);
        }
    }

    fn multiply_by_fives(&mut self, count: u32) {
        const POWER: u32 = 13;
        for _ in 0..count / POWER {
            self.multiply(5_u32.pow(POWER));
        }
        self.multiply(5_u32.pow(count % POWER));
    }

    fn shift_left(&mut self, bits: u32) {
        self.multiply(1 << (bits % 32));
        let limbs = (bits / 32) as usize;
        self.0.splice(0..0, std::iter::repeat_n(0, limbs));
    }

    fn compare(&self, other: &Natural) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}
