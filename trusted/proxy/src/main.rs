//! `arras`: the trusted side's executable.
#![forbid(unsafe_code)]

use arras_proxy::cli;
use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match cli::run(cli::Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("arras: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
