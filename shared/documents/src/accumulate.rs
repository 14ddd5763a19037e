//! Accumulators of `$group` and friends.

mod number_sum;
mod superaccumulator;

pub use number_sum::NumberSum;
