//! The command line of `arras lab`.

mod attack;
mod bench;
mod compare;
mod progress;
mod run;
mod serve;
mod table;

pub use attack::AttackArguments;
pub use run::RunArguments;
pub use serve::ServeArguments;

use crate::bench::BenchArguments;
use crate::compare::CompareArguments;
use crate::datasets::ImportError;
use crate::run::FieldError;
use clap::{Parser, Subcommand};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of what was stopped by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// `arras lab`: measurements.
#[derive(Debug, Parser)]
#[command(
    name = "arras-lab",
    bin_name = "arras lab",
    version,
    about = "Measures every protocol and scheme: cost, communication, page I/O, and what attacks recover",
    after_help = "Examples:\n  arras lab run --protocol all --records 10000 --queries 100\n  \
        arras lab run --protocol arx_range,bplus_clww --data pay.csv --column pay --json\n  \
        arras lab compare --records 24700 --figures figures\n  arras lab attack --attack all --records 1000\n  arras lab bench\n\n\
        Exit codes: 0 done, 1 a run failed or gave a wrong answer, 2 usage or input, 130 stopped by Ctrl-C \
        (what was finished is printed)."
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `arras lab` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Carry published attacks out against what the server sees; how much of the values they recover.
    Attack(Box<AttackArguments>),
    /// Time the schemes and the primitives.
    Bench(BenchArguments),
    /// Reproduce the tables and figures of the comparative evaluation (VLDB 2019), each cell beside the paper's.
    Compare(CompareArguments),
    /// Run protocols on data and queries; count what they cost and check every answer.
    Run(Box<RunArguments>),
    /// Serve the same as a website, on this machine.
    Serve(ServeArguments),
}

/// Why a command failed: one line a person can act on.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The options do not go together, or ask for what cannot be run.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Fields(Vec<FieldError>),
    /// A data or query file is wrong.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// An option is wrong.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// Nobody reads the output any more.
    #[error("the output cannot be written: {0}")]
    Output(#[from] io::Error),
    /// A plot cannot be drawn.
    #[error("the plot cannot be drawn: {0}")]
    Plot(#[from] crate::plots::PlotError),
    /// A run failed or gave a wrong answer; it has been printed which.
    #[error("{0}")]
    Run(String),
    /// It was stopped.
    #[error("stopped; what was finished is above")]
    Stopped,
}

impl Failure {
    /// The process's exit code; `arras lab --help` lists them.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Fields(_) | Self::Import(_) | Self::Io { .. } | Self::Usage(_) => 2,
            Self::Output(_) | Self::Plot(_) | Self::Run(_) => 1,
            Self::Stopped => INTERRUPTED,
        }
    }
}

/// Carries a command out.
///
/// # Errors
/// [`Failure`].
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Attack(arguments) => attack::run(*arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Run(arguments) => run::run(*arguments),
        Command::Serve(arguments) => serve::run(&arguments),
    }
}

/// A flag that Ctrl-C sets; a second Ctrl-C ends the process.
fn stop_flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let handle = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    };
    // Without a handler Ctrl-C simply ends the process.
    let _ = ctrlc::set_handler(handle);
    stop
}

/// Prints to standard output.
fn print(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        output.write_all(b"\n")?;
    }
    Ok(output.flush()?)
}

/// Refuses, before any work, a plot into a directory that is not there.
fn check_plot(plot: Option<&Path>) -> Result<(), Failure> {
    match plot.and_then(Path::parent) {
        Some(directory) if !directory.as_os_str().is_empty() && !directory.is_dir() => {
            Err(Failure::Usage(format!("--plot: there is no directory {}", directory.display())))
        }
        _ => Ok(()),
    }
}

/// How a command ends whose results are printed: with what failed, or that it was stopped.
fn ended(failed: &[String], stop: &AtomicBool) -> Result<(), Failure> {
    if !failed.is_empty() {
        return Err(Failure::Run(format!("failed: {}; why is said above", failed.join(", "))));
    }
    if stop.load(Ordering::Relaxed) { Err(Failure::Stopped) } else { Ok(()) }
}

fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|source| Failure::Io { path: path.to_path_buf(), source })
}
