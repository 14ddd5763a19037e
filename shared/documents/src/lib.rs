//! MongoDB's query semantics on BSON documents: comparison order, filters, sorts, projections, updates,
//! aggregation expressions and stages, order-preserving keys.
//!
//! Pure functions of their arguments: no I/O, no keys, no clock but where an update or expression asks for the
//! current time while it is parsed. Behaviour follows MongoDB 7; where it cannot, the construct is refused with
//! an error that names it. Nothing here panics on input, and recursion is bounded by [`limits::DEPTH_MAX`].
#![forbid(unsafe_code)]

pub mod accumulate;
pub mod decimal;
mod error;
pub mod expression;
pub mod filter;
pub mod keys;
pub mod limits;
mod number;
pub mod order;
pub mod path;
pub mod pipeline;
pub mod projection;
pub mod sort;
pub mod update;

pub use error::QueryError;

#[cfg(test)]
mod samples;
