//! The decision in floating point, with a bound on its error.
//!
//! A proposal is accepted if a uniform real is less than `R`, the probability at the proposal divided by that of the
//! mode and by the envelope. With `b` one more than a cell of the mode, `e` the change of the cell (plus or minus the
//! distance) and `S` what Stirling's formula for `ln Gamma` leaves out,
//!
//! ```text
//! ln Gamma(b + e) - ln Gamma(b) = b h(e / b) + e ln b - ln(1 + e / b) / 2 + S(b + e) - S(b),
//! h(t) = (1 + t) ln(1 + t) - t >= 0,
//! ```
//!
//! and `ln R` is minus the sum of this over the cells, plus the logarithm of the envelope. The terms `e ln b` of the
//! four cells make one, of a ratio whose distance from 1 is computed over integers. So nothing large is subtracted from
//! anything large: each term is within 100 units of 2^-53 of its own size, and the sum of sizes, which is
//! what is kept beside the value, bounds the error.

use super::{Mode, Proposal};
use dashu_int::IBig;
use std::f64::consts::{LN_2, SQRT_2};

/// Error in the sum of terms divided by the sum of their sizes plus one: 512 units of 2^-53.
const RELATIVE_ERROR: f64 = 1.0 / (1_u64 << 44) as f64;

/// `ln(1 + t)` and `h(t)` are taken from their series for `t` up to this.
const NEAR: f64 = 0.25;

/// What is common to all proposals.
pub(super) struct Filter {
    cells: [f64; 4],
    stirling: [f64; 4],
    /// `ln(b_1 b_4 / (b_2 b_3))`.
    slope: f64,
}

/// A sum, with the sum of the sizes of what it was made of.
#[derive(Default)]
struct Sum {
    value: f64,
    size: f64,
}

impl Sum {
    fn add(&mut self, term: f64) {
        self.value += term;
        self.size += term.abs();
    }
}

impl Filter {
    pub(super) fn new(cells: &[u128; 4]) -> Self {
        let reals = cells.map(real);
        let products = (reals[0] * reals[3], reals[1] * reals[2]);
        let excess = cross_difference(cells) / products.1;
        let slope = if excess.abs() <= NEAR { near(excess).0 } else { ln(products.0 / products.1) };
        Self { cells: reals, stirling: reals.map(stirling_remainder), slope }
    }

    /// Whether a uniform real whose first 64 bits are `first` is less than `R`; `None` if it is too close to tell.
    pub(super) fn accepts(&self, proposal: &Proposal, mode: &Mode, first: u64) -> Option<bool> {
        if first == 0 {
            return None;
        }
        let mut sum = Sum::default();
        let distance = real(proposal.distance);
        let up = if proposal.below { -distance } else { distance };
        sum.add(-up * self.slope);
        let mut moved = None;
        for (cell, change) in [up, -up, -up, up].into_iter().enumerate() {
            let b = self.cells[cell];
            let t = change / b;
            let (log, h, now) = if t.abs() <= NEAR {
                let (log, h) = near(t);
                (log, h, b + change)
            } else {
                let now = real(moved.get_or_insert_with(|| proposal.cells(mode))[cell]);
                let log = ln(now / b);
                (log, now / b * log - t, now)
            };
            sum.add(-b * h);
            sum.add(0.5 * log);
            sum.add(self.stirling[cell] - stirling_remainder(now));
        }
        if let Some(flat) = proposal.tail {
            let flat = real(flat);
            sum.add(ln(distance * (distance + 1.0) / (flat * (flat + 1.0))));
        }
        // The uniform real is from `first` to `first + 1`, over 2^64.
        let uniform = first as f64;
        sum.add(-ln(uniform));
        sum.add(64.0 * LN_2);
        let error = RELATIVE_ERROR * (sum.size + 1.0);
        if sum.value > 1.0 / uniform + error {
            Some(true)
        } else if sum.value < -error {
            Some(false)
        } else {
            None
        }
    }
}

/// To the nearest of binary64.
fn real(number: u128) -> f64 {
    u64::try_from(number).map_or(number as f64, |number| number as f64)
}

/// `b_1 b_4 - b_2 b_3`.
fn cross_difference(cells: &[u128; 4]) -> f64 {
    let narrow = || {
        let left = cells[0].checked_mul(cells[3])?;
        let right = cells[1].checked_mul(cells[2])?;
        let difference = real(left.abs_diff(right));
        Some(if left < right { -difference } else { difference })
    };
    let wide = || {
        let [a, b, c, d] = cells.map(IBig::from);
        (a * d - b * c).to_f64().value()
    };
    narrow().unwrap_or_else(wide)
}

/// `ln(1 + t)` and `h(t)` for `|t| <= NEAR`, by `ln(1 + t) = 2 artanh(r)`, `r = t / (2 + t)`: both keep the relative
/// precision of `t`.
fn near(t: f64) -> (f64, f64) {
    let r = t / (2.0 + t);
    let square = r * r;
    // artanh(r) = r + r^3 rest
    let rest = if square < 1.0 / (1 << 20) as f64 {
        1.0 / 3.0 + square * (1.0 / 5.0 + square * (1.0 / 7.0))
    } else {
        series(square, 9)
    };
    let third = r * square * rest;
    (2.0 * (r + third), t * r + 2.0 * (1.0 + t) * third)
}

/// The first terms of `1/3 + z/5 + z^2/7 + ...`.
fn series(z: f64, terms: usize) -> f64 {
    const ODD_INVERSES: [f64; 11] = [
        1.0 / 3.0,
        1.0 / 5.0,
        1.0 / 7.0,
        1.0 / 9.0,
        1.0 / 11.0,
        1.0 / 13.0,
        1.0 / 15.0,
        1.0 / 17.0,
        1.0 / 19.0,
        1.0 / 21.0,
        1.0 / 23.0,
    ];
    ODD_INVERSES[..terms].iter().rev().fold(0.0, |sum, inverse| sum * z + inverse)
}

/// The natural logarithm of a positive normal number, within 8 units of 2^-53 of its size plus one.
fn ln(x: f64) -> f64 {
    const MANTISSA_BITS: u32 = 52;
    const ONE: u64 = 1023 << MANTISSA_BITS;
    let bits = x.to_bits();
    let mut exponent = (bits >> MANTISSA_BITS) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << MANTISSA_BITS) - 1) | ONE);
    if mantissa > SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    let r = (mantissa - 1.0) / (mantissa + 1.0);
    let square = r * r;
    exponent as f64 * LN_2 + 2.0 * (r + r * square * series(square, 11))
}

/// `S(x) = ln Gamma(x) - (x - 1/2) ln x + x - ln(2 pi) / 2` for an integer `x >= 1`, within 2^-53.
fn stirling_remainder(x: f64) -> f64 {
    const SMALL: [f64; 15] = [
        0.081_061_466_795_327_26,
        0.041_340_695_955_409_3,
        0.027_677_925_684_998_34,
        0.020_790_672_103_765_093,
        0.016_644_691_189_821_193,
        0.013_876_128_823_070_748,
        0.011_896_709_945_891_77,
        0.010_411_265_261_972_096,
        0.009_255_462_182_712_733,
        0.008_330_563_433_362_87,
        0.007_573_675_487_951_841,
        0.006_942_840_107_209_53,
        0.006_408_994_188_004_207,
        0.005_951_370_112_758_848,
        0.005_554_733_551_962_801,
    ];
    if x <= SMALL.len() as f64 {
        return SMALL[x as usize - 1];
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let rest = if x < 1024.0 {
        let sevenths = 1.0 / 1680.0 - square * (1.0 / 1188.0 - square * (691.0 / 360_360.0));
        1.0 / 360.0 - square * (1.0 / 1260.0 - square * sevenths)
    } else {
        1.0 / 360.0 - square * (1.0 / 1260.0)
    };
    inverse * (1.0 / 12.0 - square * rest)
}

#[cfg(test)]
mod tests;
