//! The decision over integers, for when floating point cannot tell.
//!
//! Reals are integers over 2^`bits` (*fixed point*); every operation here is off by a few units at most, which are
//! counted. See `filter` for what is decided.
//!
//! Time depends on the values, and integers of any length are not wiped: about one decision in 2^40 comes here.

use super::coins::Coins;
use super::{Mode, Proposal};
use dashu_int::ops::BitTest;
use dashu_int::{IBig, UBig};

/// Bits of the first attempt, after the point.
const PRECISION: usize = 128;

/// If so many bits do not tell the ratio from a bound that the coins gave, they are taken to be equal: the ratio is a
/// fraction and may be. The probability of a sample changes by less than 2^-1000 if it is not.
const PRECISION_MAX: usize = 1024;

/// Bits carried beyond those claimed. The sums below are off by less than 2^150 units: a logarithm of a number below
/// 2^130 by less than 2^19 (`ln`), multiplied by numbers below 2^129, eight times.
const GUARD: usize = 160;

/// Whether a uniform real whose first 64 bits are `first` and whose next ones are the next words of the stream is
/// less than the ratio `R`. No more words are read than decide.
pub(super) fn accepts(proposal: &Proposal, mode: &Mode, first: u64, coins: &mut Coins<'_>) -> bool {
    let (mut prefix, mut words, mut precision) = (UBig::from(first), 1, PRECISION);
    loop {
        let fixed = Fixed::new(precision + GUARD);
        let error = IBig::ONE << GUARD;
        let ratio = fixed.ln_ratio(proposal, mode);
        let (least, most) = (&ratio - &error, &ratio + &error);
        let scale = &fixed.ln_2 * IBig::from(64 * words);
        // The uniform real is from `low` to `high`, in logarithms.
        let high = fixed.ln(&(&prefix + UBig::ONE)) - &scale;
        let low = (!prefix.is_zero()).then(|| fixed.ln(&prefix) - &scale);
        if least > high {
            return true;
        }
        if low.as_ref().is_some_and(|low| most < *low) {
            return false;
        }
        let below_high = most < high;
        let above_low = low.is_none_or(|low| least > low);
        if below_high && above_low {
            prefix = (prefix << 64) + UBig::from(coins.word());
            words += 1;
            precision += 64;
        } else if precision < PRECISION_MAX + 64 * words {
            precision *= 2;
        } else {
            return !below_high;
        }
    }
}

/// Arithmetic with so many bits after the point.
struct Fixed {
    bits: usize,
    ln_2: IBig,
    /// Numerators and denominators of Stirling's series: `B_2j / (2 j (2 j - 1))` for j from 1.
    stirling: Vec<(IBig, IBig)>,
}

impl Fixed {
    fn new(bits: usize) -> Self {
        let mut fixed = Self { bits, ln_2: IBig::ZERO, stirling: stirling_series(bits / 8) };
        // ln 2 = 2 artanh(1/3), with more bits because it is multiplied.
        let finer = Self { bits: bits + 32, ln_2: IBig::ZERO, stirling: Vec::new() };
        fixed.ln_2 = IBig::from(finer.artanh(&UBig::ONE, &UBig::from(3_u8)) >> 31);
        fixed
    }

    /// `artanh(numerator / denominator)` of a ratio from 0 to 1/3, off by less than `bits` units: a term is off by
    /// less than 2, and 9 times smaller than the one before.
    fn artanh(&self, numerator: &UBig, denominator: &UBig) -> UBig {
        let r = (numerator << self.bits) / denominator;
        let square = (&r * &r) >> self.bits;
        let (mut power, mut sum, mut odd) = (r, UBig::ZERO, 1_u32);
        while !power.is_zero() {
            sum += &power / UBig::from(odd);
            power = (power * &square) >> self.bits;
            odd += 2;
        }
        sum
    }

    /// The natural logarithm of a positive integer: of `x = m 2^k` with `m` from 1 to 2, `2 artanh((m - 1) / (m + 1)) +
    /// k ln 2`.
    fn ln(&self, x: &UBig) -> IBig {
        let exponent = x.bit_len() - 1;
        let power = UBig::ONE << exponent;
        let mantissa = self.artanh(&(x - &power), &(x + &power)) << 1;
        IBig::from(mantissa) + &self.ln_2 * IBig::from(exponent)
    }

    /// `ln Gamma(x) - ln(2 pi) / 2` of a positive integer, by Stirling's series; an argument too small for it is moved
    /// up first, `Gamma(x) = Gamma(x + n) / (x (x + 1) ... (x + n - 1))`.
    fn ln_gamma(&self, x: u128) -> IBig {
        let least = self.bits as u128;
        let moved = x.max(least);
        let product = (x..moved).fold(UBig::ONE, |product, factor| product * UBig::from(factor));
        let y = IBig::from(moved);
        let mut sum = ((self.ln(&UBig::from(moved)) * ((&y << 1) - IBig::ONE)) >> 1) - (&y << self.bits);
        // Terms shrink as far as they go here, and the first one left out bounds the error.
        let square = &y * &y;
        let mut power = y;
        for (numerator, denominator) in &self.stirling {
            let term = (numerator << self.bits) / (denominator * &power);
            if term.is_zero() {
                break;
            }
            sum += term;
            power *= &square;
        }
        sum - self.ln(&product)
    }

    /// `ln R`.
    fn ln_ratio(&self, proposal: &Proposal, mode: &Mode) -> IBig {
        let now = proposal.cells(mode);
        let mut sum = IBig::ZERO;
        for (before, now) in mode.cells.into_iter().zip(now) {
            sum += self.ln_gamma(before) - self.ln_gamma(now);
        }
        if let Some(flat) = proposal.tail {
            let product = |d: u128| UBig::from(d) * (UBig::from(d) + UBig::ONE);
            sum += self.ln(&product(proposal.distance)) - self.ln(&product(flat));
        }
        sum
    }
}

/// `B_2j / (2 j (2 j - 1))` for j from 1 to `terms`, by the tangent numbers `T_j`:
/// `B_2j = (-1)^(j-1) 2 j T_j / (4^j (4^j - 1))`.
fn stirling_series(terms: usize) -> Vec<(IBig, IBig)> {
    let mut tangents = vec![UBig::ONE; terms];
    for at in 1..terms {
        tangents[at] = &tangents[at - 1] * UBig::from(at);
    }
    for from in 1..terms {
        for at in from..terms {
            tangents[at] =
                &tangents[at - 1] * UBig::from(at - from) + &tangents[at] * UBig::from(at - from + 2);
        }
    }
    let term = |(at, tangent): (usize, UBig)| {
        let power = UBig::ONE << (2 * (at + 1));
        let sign = if at % 2 == 0 { IBig::ONE } else { IBig::NEG_ONE };
        let denominator = &power * (&power - UBig::ONE) * UBig::from(2 * at + 1);
        (sign * IBig::from(tangent), IBig::from(denominator))
    };
    tangents.into_iter().enumerate().map(term).collect()
}

#[cfg(test)]
mod tests;
