//! `arras-lab`: what `arras lab` runs.
#![forbid(unsafe_code)]

use arras_lab::cli;
use clap::Parser;
use std::process::ExitCode;

/// That of the executables that ship, so that what is measured in this process is what they have.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match cli::run(cli::Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("arras lab: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
