//! What the server sees, beyond what `THREATS.md` says it does: nothing. Systems of the real executables with different
//! contents and the same stated leakage are driven through the MongoDB port; what their servers saw and stored must be
//! the same but for bytes that are uniformly random, and sets must reach a server in an order that says nothing.
//! `cargo build -p arras-proxy -p arras-server` makes the executables.
#![allow(clippy::unwrap_used)]

#[path = "../processes/certified.rs"]
mod certified;
mod counters;
#[path = "../processes/forwarder.rs"]
#[allow(dead_code, reason = "shared with the tests of the processes")]
mod forwarder;
mod observed;
mod orders;
#[path = "../processes/process.rs"]
#[allow(dead_code, reason = "shared with the tests of the processes")]
mod process;
mod random;
mod restored;
#[path = "../processes/searching.rs"]
#[allow(dead_code, reason = "shared with the tests of the processes")]
mod searching;
mod statistics;
mod stored;
#[path = "../processes/system.rs"]
#[allow(dead_code, reason = "shared with the tests of the processes")]
mod system;
mod text;
mod twins;
