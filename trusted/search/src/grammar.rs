//! The two ways to write a query: `(whale OR ship) AND NOT captain` ([`parse`]), and MongoDB's `$search` ([`text_search`]).
//! Both give a [`crate::formula::Formula`].

mod error;
mod lexemes;
mod numbers;
mod parser;
mod text;

pub use error::{Mistake, QueryError};
pub(crate) use numbers::print_time;
pub use parser::parse;
pub use text::text_search;

/// Bytes of a query.
pub const QUERY_BYTES_MAX: usize = 64 << 10;
/// Words, phrases and filters of a query.
pub const PARTS_MAX: usize = 1024;
/// Parentheses and NOTs one within another.
pub const DEPTH_MAX: usize = 64;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests;
