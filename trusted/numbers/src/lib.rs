//! Numbers of the four types that documents hold, and exact sums of them: what a range index seals as partial
//! aggregates (Arx §6), and what document semantics compute with. Knows no BSON, so that schemes may link it.
#![forbid(unsafe_code)]

pub mod decimal;
mod number;
mod number_sum;
mod superaccumulator;

pub use decimal::{Decimal, Rounding};
pub use number::Number;
pub use number_sum::{Malformed, NumberSum};

/// A finite double without its sign as mantissa and power of two.
#[must_use]
pub fn split(double: f64) -> (u64, i32) {
    let bits = double.to_bits();
    let biased = i32::try_from((bits >> 52) & 0x7FF).unwrap_or(0);
    let fraction = bits & ((1 << 52) - 1);
    if biased == 0 { (fraction, -1074) } else { (fraction | (1 << 52), biased - 1075) }
}
