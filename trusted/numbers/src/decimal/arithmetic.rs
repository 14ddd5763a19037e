//! Finite decimals by sign, coefficient and exponent.

use super::{COEFFICIENT_MAX, DIGITS_MAX, Decimal, EXPONENT_MAX, EXPONENT_MIN};
use std::cmp::Ordering;

fn digits(value: u128) -> u32 {
    value.checked_ilog10().map_or(0, |log| log + 1)
}

pub(super) fn compare_magnitudes((a, a_exponent): (u128, i32), (b, b_exponent): (u128, i32)) -> Ordering {
    // Position of the leading digit first; then both are brought to 38 digits, which is exact.
    let lead = |value: u128, exponent: i32| i64::from(digits(value)) + i64::from(exponent);
    lead(a, a_exponent).cmp(&lead(b, b_exponent)).then_with(|| {
        let scale = |value: u128| value * 10_u128.pow(38_u32.saturating_sub(digits(value)));
        scale(a).cmp(&scale(b))
    })
}

/// Sum of two finite values, the first with the greater or equal exponent.
pub(super) fn add_finite(
    (a_negative, a, a_exponent): (bool, u128, i32),
    (b_negative, b, b_exponent): (bool, u128, i32),
) -> Decimal {
    let exact_zero =
        Decimal::Finite { negative: a_negative && b_negative, coefficient: 0, exponent: b_exponent };
    if a == 0 && b == 0 {
        return exact_zero;
    }
    if a == 0 {
        return round(b_negative, b, b_exponent, false);
    }
    // a is scaled up to at most 37 digits; what is left of the gap scales b down, with a sticky digit.
    let gap = (a_exponent - b_exponent).unsigned_abs();
    let scale = gap.min(37 - digits(a));
    let a_scaled = a * 10_u128.pow(scale);
    let (b_scaled, lost) = match 10_u128.checked_pow(gap - scale) {
        Some(divisor) => (b / divisor, !b.is_multiple_of(divisor)),
        None => (0, b != 0),
    };
    let exponent = a_exponent - i32::try_from(scale).unwrap_or(0);
    if a_negative == b_negative {
        return round(a_negative, a_scaled + b_scaled, exponent, lost);
    }
    if lost {
        // The true difference lies strictly between two integers: one below, and sticky.
        return round(a_negative, a_scaled - b_scaled - 1, exponent, true);
    }
    match a_scaled.cmp(&b_scaled) {
        Ordering::Equal => Decimal::Finite { negative: false, coefficient: 0, exponent },
        Ordering::Greater => round(a_negative, a_scaled - b_scaled, exponent, false),
        Ordering::Less => round(b_negative, b_scaled - a_scaled, exponent, false),
    }
}

pub(super) fn divide_finite(
    negative: bool,
    (a, a_exponent): (u128, i32),
    (b, b_exponent): (u128, i32),
) -> Decimal {
    // Long division, one digit a step, until 36 digits stand or nothing remains.
    let mut quotient = a / b;
    let mut remainder = a % b;
    let mut exponent = a_exponent - b_exponent;
    while remainder != 0 && digits(quotient) < 36 && exponent > 2 * EXPONENT_MIN {
        remainder *= 10;
        quotient = quotient * 10 + remainder / b;
        remainder %= b;
        exponent -= 1;
    }
    round(negative, quotient, exponent, remainder != 0)
}

/// Rounds to 34 digits and the exponent range; `sticky`: something nonzero below the coefficient was dropped.
pub(super) fn round(negative: bool, coefficient: u128, exponent: i32, sticky: bool) -> Decimal {
    let too_many = digits(coefficient).saturating_sub(DIGITS_MAX);
    let below = u32::try_from(EXPONENT_MIN - exponent).unwrap_or(0);
    let drop = too_many.max(below);
    let mut value = coefficient;
    let mut exponent = exponent;
    if drop > 0 {
        let (quotient, remainder, half) = match 10_u128.checked_pow(drop) {
            Some(divisor) => (coefficient / divisor, coefficient % divisor, divisor / 2),
            None => (0, coefficient, u128::MAX),
        };
        let up = remainder > half || (remainder == half && (sticky || quotient % 2 == 1));
        value = quotient + u128::from(up);
        exponent += i32::try_from(drop).unwrap_or(0);
        if value > COEFFICIENT_MAX {
            value /= 10;
            exponent += 1;
        }
    }
    while exponent > EXPONENT_MAX && value != 0 {
        match value.checked_mul(10).filter(|scaled| *scaled <= COEFFICIENT_MAX) {
            Some(scaled) => value = scaled,
            None => return Decimal::Infinity { negative },
        }
        exponent -= 1;
    }
    Decimal::Finite { negative, coefficient: value, exponent: exponent.min(EXPONENT_MAX) }
}

/// A product of two 128-bit numbers.
pub(super) struct Wide {
    high: u128,
    low: u128,
}

impl Wide {
    pub(super) fn product(a: u128, b: u128) -> Self {
        let mask = u128::from(u64::MAX);
        let (a_high, a_low) = (a >> 64, a & mask);
        let (b_high, b_low) = (b >> 64, b & mask);
        let low = a_low * b_low;
        let middle = a_high * b_low + (low >> 64);
        let middle_low = a_low * b_high + (middle & mask);
        Wide {
            high: a_high * b_high + (middle >> 64) + (middle_low >> 64),
            low: (middle_low << 64) | (low & mask),
        }
    }

    /// The leading digits as a `u128`, how many were dropped, and whether a nonzero one was.
    pub(super) fn to_digits(&self) -> (u128, i32, bool) {
        let mut wide = Wide { high: self.high, low: self.low };
        let mut dropped = 0;
        let mut sticky = false;
        while wide.high != 0 {
            sticky |= wide.divide_by_ten() != 0;
            dropped += 1;
        }
        (wide.low, dropped, sticky)
    }

    fn divide_by_ten(&mut self) -> u128 {
        let high = self.high / 10;
        let mask = u128::from(u64::MAX);
        let upper = ((self.high % 10) << 64) | (self.low >> 64);
        let lower = ((upper % 10) << 64) | (self.low & mask);
        self.high = high;
        self.low = ((upper / 10) << 64) | (lower / 10);
        lower % 10
    }
}
