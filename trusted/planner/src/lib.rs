//! Schema and query patterns to indexes, leakage and cost; and the data-service trait front ends call.
#![forbid(unsafe_code)]

pub mod explain;
pub mod store;
