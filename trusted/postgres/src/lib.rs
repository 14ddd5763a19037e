//! PostgreSQL front end: wire protocol and SQL rewriting.
//!
//! Nothing is here yet; the crate exists so that `cargo xtask boundary` holds its place in the trust
//! order from the first commit: a front end that cannot see `trusted/keys`.
#![forbid(unsafe_code)]
