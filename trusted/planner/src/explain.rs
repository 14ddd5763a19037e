//! How a query would run and what it would leak.

/// How a query would run.
#[derive(Clone, Debug, Default)]
pub struct Explanation {}
