//! The PostgreSQL side against a real PostgreSQL, started for the test.
#![allow(clippy::unwrap_used)]

mod differential;
mod private;
mod tpcc;
