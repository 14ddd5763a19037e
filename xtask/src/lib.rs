//! Tests about the code itself, and the one command that runs every test.
//!
//! * [`boundary`]: who may depend on whom.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "a command-line tool: its report is its output"
)]

pub mod boundary;
pub mod metadata;
pub mod report;
