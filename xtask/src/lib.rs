//! Tests about the code itself, and the one command that runs every test.
//!
//! * [`boundary`]: who may depend on whom;
//! * [`tidy`]: dead files, lengths, secret types, names, links.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "a command-line tool: its report is its output"
)]

pub mod boundary;
pub mod files;
pub mod metadata;
pub mod report;
pub mod tidy;
