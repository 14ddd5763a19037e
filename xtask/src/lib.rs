//! Tests about the code itself, and the one command that runs every test.
//!
//! * [`boundary`]: who may depend on whom;
//! * [`tidy`]: dead files, lengths, secret types, names, links;
//! * [`vectors`]: every known-answer file is used by a test;
//! * [`suite`]: all of that, cargo's tests, real drivers and fuzzing, with one summary.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command-line tool: its report is its output")]

pub mod boundary;
pub mod files;
pub mod metadata;
pub mod report;
pub mod suite;
mod table;
pub mod tidy;
pub mod vectors;
