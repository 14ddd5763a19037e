//! The PostgreSQL side against a real PostgreSQL, started for the test.
#![allow(clippy::unwrap_used)]

mod access;
mod dev;
mod differential;
mod encrypted;
mod extended;
mod mope;
mod outages;
mod private;
mod programs;
mod proxy;
mod shown;
mod tpcc;
