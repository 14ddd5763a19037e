//! `cargo xtask`: see `cargo xtask help`.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use xtask::suite::{self, Context};
use xtask::{boundary, tidy, vectors};

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
    /// Checks that every known-answer file is used by a test.
    Vectors,
    /// Runs fuzz targets, all of them if none is named.
    Fuzz {
        /// Names of files in fuzz/src/bin.
        targets: Vec<String>,
        /// Seconds each target runs.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Runs the simulator (release): engine, server and applications in one thread, from one seed each. `cargo xtask simulate
    /// --help` shows its options.
    #[command(disable_help_flag = true)]
    Simulate {
        /// Handed on.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Runs every test. Installs what is missing with apt-get (Python, Node.js, Maven with a JDK, a C++
    /// compiler), and says so.
    Test {
        /// Runs this step only; may be repeated.
        #[arg(long, value_name = "STEP")]
        only: Vec<String>,
        /// Leaves this step out; may be repeated.
        #[arg(long, value_name = "STEP")]
        skip: Vec<String>,
        /// Names the steps and ends.
        #[arg(long)]
        list: bool,
        /// Seconds each fuzz target runs.
        #[arg(long, default_value_t = 10)]
        fuzz_seconds: u64,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Boundary => boundary::run().map(|report| report.print()),
        Command::Tidy => tidy::run().map(|report| report.print()),
        Command::Vectors => vectors::run().map(|report| report.print()),
        Command::Fuzz { targets, seconds } => suite::fuzz::run_named(&Context::new(seconds), &targets),
        Command::Simulate { options } => suite::simulate(&Context::new(0), &options),
        Command::Test { list: true, .. } => {
            suite::list();
            Ok(true)
        }
        Command::Test { only, skip, fuzz_seconds, .. } => {
            suite::run(&Context::new(fuzz_seconds), &only, &skip)
        }
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
