//! `cargo xtask`: see `cargo xtask help`.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use xtask::{boundary, tidy};

/// Checks on the code itself, and every test in one command.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks that no dependency crosses a trust boundary.
    Boundary,
    /// Checks files: dead ones, lengths, secret types, names, links.
    Tidy,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Boundary => boundary::run().map(|report| report.print()),
        Command::Tidy => tidy::run().map(|report| report.print()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
