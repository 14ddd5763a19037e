//! How wide the envelope must be.
//!
//! Let `f(d)` be the probability at distance `d` above the mode divided by that of the mode, and `b_j` one more than
//! the mode's cells. The envelope is 1 for `d <= s` and `s (s + 1) / (d (d + 1))` beyond, so it lies above `f` if
//! `d (d + 1) f(d) <= s (s + 1)` for all `d > s`.
//!
//! The ratio of neighbours is `f(d + 1) / f(d) = (b_2 - 1 - d) (b_3 - 1 - d) / ((b_1 + d) (b_4 + d))`, at most 1 at
//! `d = 0` and falling. With `-ln(1 - x) >= x` and `ln(1 + x) >= 2 x / (2 + x)`, for any real `D` and all
//! `0 <= d <= D`,
//!
//! ```text
//! -ln(f(d + 1) / f(d)) >= c d,  c = sum of 2 / (2 b_j + D) over the four cells.
//! ```
//!
//! Take `D` with `c D^2 >= 2`. From `d = sqrt(2 / c)` on, `d (d + 1) f(d)` does not grow: `ln((d + 2) / d) <= 2 / d`,
//! which is at most `c d` up to `D` and at most `c D` beyond. So it is greatest at some `d <= sqrt(2 / c) + 1 <= D + 1`,
//! where the sum of the neighbours' ratios gives `f(d) <= exp(-c d (d - 1) / 2)`, and hence
//!
//! ```text
//! d (d + 1) f(d) <= x exp(-c x / 2) exp(c d) <= 2 / (e c) exp(c (D + 1)),  x = d (d + 1).
//! ```
//!
//! Below the mode the cells change places and all holds as above.
//!
//! The result decides samples, so it must be the same everywhere: it uses only additions, multiplications, divisions and
//! square roots of binary64, which IEEE 754 rounds in one way. It need not be the least one, only
//! large enough: every condition is met with a margin far above rounding.

/// Relative margin of each condition; rounding errors here are below 2^-48.
const MARGIN: f64 = 1.0 + 1.0 / (1_u64 << 30) as f64;

/// `2 / e`, rounded up.
const TWO_BY_E: f64 = 0.735_758_882_342_885;

/// Half the width `s` of the flat part, for one more than each cell of the mode.
pub(super) fn flat(cells: &[u128; 4]) -> u128 {
    let cells = cells.map(|cell| cell as f64);
    let sum = |reach: f64| cells.iter().map(|cell| 2.0 / (2.0 * cell + reach)).sum::<f64>();
    // Grows towards a limit at which the condition holds with room, so it ends.
    let (mut reach, mut curvature) = (0.0, sum(0.0));
    while curvature * reach * reach < 2.0 * MARGIN {
        reach = (2.0 / curvature).sqrt() * (1.0 + 1.0 / 64.0);
        curvature = sum(reach);
    }
    let bound = TWO_BY_E / curvature * exp_above(curvature * (reach + 1.0)) * MARGIN;
    // The least `s` with `s (s + 1) >= bound`, and at most one more.
    ((bound + 0.25).sqrt() + 0.5) as u128
}

/// At least `exp(x)`, for `0 <= x <= 8`, close to it for small `x`.
fn exp_above(x: f64) -> f64 {
    // exp(z) <= 1 + z + z^2 / 2 + z^3 / 4 for z from 0 to 1.
    let z = x / 8.0;
    let root = 1.0 + z * (1.0 + z * (0.5 + z * 0.25));
    let fourth = root * root;
    let half = fourth * fourth;
    half * half
}
