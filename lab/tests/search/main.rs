//! Boolean search with real storage services, and as the processes that a person starts, which
//! `cargo build -p arras-host -p arras-iee -p arras-searcher` makes.
#![allow(clippy::unwrap_used)]

mod attested;
mod client;
mod command;
mod deployment;
#[path = "../processes/dice.rs"]
#[allow(dead_code, reason = "shared with the tests of the proxy")]
mod dice;
mod gramine;
mod hosted;
mod in_postgres;
mod large;
mod lost_postgres;
#[path = "../processes/process.rs"]
#[allow(dead_code, reason = "shared with the tests of the proxy")]
mod process;
mod said;
mod serve;
mod spilled;
mod storage;
mod stores;
mod tpm;
mod tsm;
