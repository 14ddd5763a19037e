//! Bodies of numbers.

use super::NUMBER_BODY_BYTES;
use crate::decimal::{self, Decimal, Rounding};
use crate::order;
use bson::Bson;
use std::cmp::Ordering;

const DOUBLE_BYTES: usize = 8;

/// Residual code of a value that is its double.
const NO_RESIDUAL: i16 = 0;
/// Codes for values out of the residual's reach; odd, so never the code of an exact value.
const FAR_BELOW: i16 = -0x7FFF;
const FAR_ABOVE: i16 = 0x7FFF;
/// Largest residual with a code of its own.
const RESIDUAL_MAX: i128 = 0x3FFF - 1;

pub(super) struct NumberBody {
    pub(super) bytes: [u8; NUMBER_BODY_BYTES],
    pub(super) exact: bool,
}

impl NumberBody {
    fn new(nearest: f64, residual: i16) -> Self {
        // Even codes stand for one value each.
        let exact = residual & 1 == 0;
        let mut bytes = [0; NUMBER_BODY_BYTES];
        let (double, rest) = bytes.split_at_mut(DOUBLE_BYTES);
        double.copy_from_slice(&sortable(nearest).to_be_bytes());
        rest.copy_from_slice(&(residual.cast_unsigned() ^ 0x8000).to_be_bytes());
        NumberBody { bytes, exact }
    }

    /// True if the bytes from `kept` on are those of every value whose tail is plain: zeros for positive numbers,
    /// ones for negative ones, no residual.
    pub(super) fn loses_nothing_past(&self, kept: usize) -> bool {
        if kept == 0 {
            return false;
        }
        let positive = self.bytes.first().is_some_and(|byte| byte & 0x80 != 0);
        let fill = if positive { 0x00 } else { 0xFF };
        self.bytes.iter().enumerate().skip(kept).all(|(offset, byte)| match offset {
            DOUBLE_BYTES => *byte == 0x80,
            offset if offset > DOUBLE_BYTES => *byte == 0x00,
            _ => *byte == fill,
        })
    }
}

/// Bits of a double in its order: NaN 0, then minus infinity; minus zero is zero.
fn sortable(double: f64) -> u64 {
    if double.is_nan() {
        return 0;
    }
    let bits = if double == 0.0 { 0 } else { double.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }
}

pub(super) fn body(value: &Bson) -> NumberBody {
    match value {
        Bson::Double(double) => NumberBody::new(*double, NO_RESIDUAL),
        Bson::Decimal128(decimal) => decimal_body(decimal::of(*decimal)),
        integer => {
            let integer = order::as_exact_i64(integer).unwrap_or(0);
            #[allow(clippy::cast_precision_loss)]
            let nearest = integer as f64;
            NumberBody::new(nearest, integral_residual(i128::from(integer), nearest))
        }
    }
}

/// Code of `value - nearest`, both integers within +-2^120.
fn integral_residual(value: i128, nearest: f64) -> i16 {
    #[allow(clippy::cast_possible_truncation)]
    let residual = value - nearest as i128;
    if residual > RESIDUAL_MAX {
        FAR_ABOVE
    } else if residual < -RESIDUAL_MAX {
        FAR_BELOW
    } else {
        i16::try_from(2 * residual).unwrap_or(NO_RESIDUAL)
    }
}

fn decimal_body(decimal: Decimal) -> NumberBody {
    /// Doubles from here on are integers.
    const INTEGERS_FROM: f64 = 9_007_199_254_740_992.0;
    /// 2^120: below it integers fit in `i128` with room for a residual.
    const INTEGERS_TO: f64 = 1.329_227_995_784_916e36;

    if let Decimal::Infinity { negative } = decimal {
        return NumberBody::new(if negative { f64::NEG_INFINITY } else { f64::INFINITY }, NO_RESIDUAL);
    }
    let nearest = decimal.to_f64();
    if nearest.is_infinite() {
        // Finite, but beyond all doubles: next to the greatest one.
        let above = nearest > 0.0;
        return NumberBody::new(f64::MAX.copysign(nearest), if above { FAR_ABOVE } else { FAR_BELOW });
    }
    if nearest.is_nan() {
        return NumberBody::new(nearest, NO_RESIDUAL);
    }
    let side = order::compare_decimal_with_double(decimal, nearest);
    if side == Ordering::Equal {
        return NumberBody::new(nearest, NO_RESIDUAL);
    }
    if nearest.abs() < INTEGERS_FROM {
        // Less than one away. Odd codes: between the double and the next integer residual.
        return NumberBody::new(nearest, if side == Ordering::Less { -1 } else { 1 });
    }
    if nearest.abs() >= INTEGERS_TO {
        return NumberBody::new(nearest, if side == Ordering::Less { FAR_BELOW } else { FAR_ABOVE });
    }
    let whole = decimal.to_places(0, Rounding::Floor);
    let code = whole.truncate_to_i128().map_or(FAR_ABOVE, |whole| integral_residual(whole, nearest));
    let fractional = !decimal.is_integer() && code != FAR_ABOVE && code != FAR_BELOW;
    NumberBody::new(nearest, code + i16::from(fractional))
}
