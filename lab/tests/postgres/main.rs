//! The PostgreSQL side against a real PostgreSQL, started for the test.
#![allow(clippy::unwrap_used)]

mod access;
#[path = "../processes/canaries.rs"]
mod canaries;
mod canary;
mod dev;
mod differential;
mod doctor;
mod encrypted;
mod extended;
mod faults;
mod memory;
mod mope;
mod named;
mod outages;
mod private;
mod programs;
mod proxy;
mod shown;
mod stored;
mod tools;
mod tpcc;
mod twins;
