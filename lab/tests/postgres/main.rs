//! The PostgreSQL side against a real PostgreSQL, started for the test.
#![allow(clippy::unwrap_used)]

mod access;
mod dev;
mod differential;
mod encrypted;
mod extended;
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
