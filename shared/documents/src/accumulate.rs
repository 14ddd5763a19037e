//! Accumulators of `$group` and friends.

mod number_sum;

pub use number_sum::NumberSum;
