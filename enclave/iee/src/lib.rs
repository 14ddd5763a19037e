//! Measured code that will run on the server's machine, trusted by attestation only.
//!
//! Nothing is here yet; the crate exists so that `cargo xtask boundary` holds its place in the trust
//! order from the first commit: it may reach `shared/` and `trusted/keys`, nothing under `untrusted/`
//! may reach it.
#![forbid(unsafe_code)]
