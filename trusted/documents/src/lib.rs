//! MongoDB's query semantics on BSON documents: comparison order, filters, sorts, projections, updates,
//! aggregation expressions and stages, order-preserving keys.
//!
//! Pure functions of their arguments: no I/O, no keys, no clock but where an update or expression asks for the
//! current time while it is parsed. Behaviour follows MongoDB 7; where it cannot, the construct is refused with
//! an error that names it. Nothing here panics on input, and recursion is bounded by [`limits::DEPTH_MAX`].
//!
//! # Deviations
//!
//! Constructs MongoDB has and this crate has not fail with code 238 and their name; what differs silently is:
//!
//! * Sums of doubles are exact and rounded once ([`accumulate::NumberSum`]); MongoDB's carry 106 bits. A sum of
//!   minus zeros is plus zero.
//! * `$addToSet`, `$setUnion` and `$setIntersection` give their elements in BSON order; MongoDB promises none.
//! * Doubles in arithmetic with decimals round to 15 digits as MongoDB's; in `$sum` with decimals they keep 34.
//! * `undefined` (deprecated) equals null in filters, as it did before MongoDB 8.
//! * Regular expressions fold case by Unicode's simple rules, and refuse what needs backtracking.
//! * Positional `$` prefers the condition on the very array of the path; MongoDB takes the last array entered.
#![forbid(unsafe_code)]

pub mod accumulate;
mod clock;
pub mod decimal;
pub mod elements;
mod error;
pub mod expression;
pub mod filter;
pub mod keys;
pub mod limits;
pub mod number;
pub mod order;
pub mod path;
pub mod pipeline;
pub mod projection;
pub mod shown;
pub mod sort;
pub mod spill;
pub mod text;
pub mod timestamps;
pub mod update;

pub use error::{QueryError, Rule};

#[cfg(test)]
mod samples;
