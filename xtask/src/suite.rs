//! `cargo xtask test`: every test there is, in steps, with one summary.

mod ahead;
mod cargo;
mod drivers;
pub mod fuzz;
mod postgres;
mod postgres_folders;
mod process;
mod simulator;
mod tools;
mod web;

use crate::report::Report;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What a step counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Checks that hold.
    pub passed: usize,
    /// Checks that do not.
    pub failed: usize,
    /// What a person should see: failed tests, where the log is.
    pub notes: Vec<String>,
}

impl Outcome {
    /// One check.
    fn one(holds: bool) -> Self {
        Self { passed: usize::from(holds), failed: usize::from(!holds), notes: Vec::new() }
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.notes.extend(other.notes);
    }

    fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// What steps share.
#[derive(Debug)]
pub struct Context {
    /// The repository's root.
    pub root: PathBuf,
    /// Folder for what tests build and log; below `target/`.
    pub scratch: PathBuf,
    /// Seconds each fuzz target runs.
    pub fuzz_seconds: u64,
    ahead: ahead::Ahead,
}

impl Context {
    /// The context of this repository.
    #[must_use]
    pub fn new(fuzz_seconds: u64) -> Self {
        let root = crate::metadata::root();
        Self {
            scratch: root.join("target").join("xtask"),
            root,
            fuzz_seconds,
            ahead: ahead::Ahead::default(),
        }
    }

    fn log(&self, name: &str) -> PathBuf {
        self.scratch.join("logs").join(format!("{name}.log"))
    }
}

struct Step {
    name: &'static str,
    what: &'static str,
    needs: &'static [tools::Tool],
    run: fn(&Context) -> Result<Outcome, String>,
}

const STEPS: [Step; 15] = [
    Step { name: "format", what: "every crate is formatted", needs: &[], run: cargo::format },
    Step { name: "boundary", what: "no dependency crosses a trust boundary", needs: &[], run: boundary },
    Step { name: "tidy", what: "files, lengths, secret types, names, links", needs: &[], run: tidy },
    Step { name: "deny", what: "licences and sources of dependencies", needs: &[], run: cargo::deny },
    Step { name: "vectors", what: "every known-answer file is used", needs: &[], run: vectors },
    Step { name: "clippy", what: "no warning in any target", needs: &[], run: cargo::clippy },
    Step { name: "alone", what: "each binary compiles by itself", needs: &[], run: cargo::alone },
    Step {
        name: "tests",
        what: "unit, property, integration and documentation tests",
        needs: &[tools::POSTGRES, tools::REDIS, tools::TPM, tools::JDK, tools::MAVEN],
        run: cargo::tests,
    },
    Step {
        name: "shipped",
        what: "unit tests of what ships, without the laboratory's features",
        needs: &[],
        run: cargo::shipped,
    },
    Step {
        name: "simulator",
        what: "two minutes of simulated runs from a fresh seed, and each seeded defect found",
        needs: &[],
        run: simulator::run,
    },
    Step {
        name: "drivers",
        what: "real drivers, real processes, compared with a plaintext database",
        needs: &tools::DRIVERS,
        run: drivers::run,
    },
    Step {
        name: "postgres",
        what: "PostgreSQL's drivers and mappers on encrypted columns, compared with plaintext",
        needs: &tools::POSTGRES_DRIVERS,
        run: postgres::run,
    },
    Step {
        name: "web",
        what: "the lab's website and the page of searches in a real browser",
        needs: &tools::BROWSER,
        run: web::run,
    },
    Step { name: "fuzz", what: "every decoder for a few seconds", needs: &[tools::CXX], run: fuzz::run },
    Step { name: "doc", what: "documentation builds without a warning", needs: &[], run: cargo::doc },
];

pub use simulator::simulate;

fn counted(report: Result<Report, String>) -> Result<Outcome, String> {
    let report = report?;
    report.print();
    Ok(Outcome { passed: report.passed(), failed: report.failed(), notes: Vec::new() })
}

fn boundary(_: &Context) -> Result<Outcome, String> {
    counted(crate::boundary::run())
}

fn tidy(_: &Context) -> Result<Outcome, String> {
    counted(crate::tidy::run())
}

fn vectors(_: &Context) -> Result<Outcome, String> {
    counted(crate::vectors::run())
}

/// Prints the steps.
pub fn list() {
    for step in &STEPS {
        println!("{:<10}{}", step.name, step.what);
    }
}

/// Runs the steps named in `only` (all if empty) that are not in `skip`; true if nothing failed.
///
/// # Errors
/// If a name is no step's.
pub fn run(context: &Context, only: &[String], skip: &[String]) -> Result<bool, String> {
    if let Some(unknown) = only.iter().chain(skip).find(|name| !STEPS.iter().any(|step| step.name == **name))
    {
        return Err(format!("no step is called {unknown}; `cargo xtask test --list` names them"));
    }
    process::stop_children_on_signals()?;
    let chosen = |step: &&Step| {
        (only.is_empty() || only.iter().any(|name| name == step.name))
            && !skip.iter().any(|name| name == step.name)
    };
    let steps: Vec<&Step> = STEPS.iter().filter(chosen).collect();
    let missing = tools::install(steps.iter().flat_map(|step| step.needs));
    if steps.iter().any(|step| step.name == "fuzz") && !missing.contains_key(tools::CXX.name) {
        fuzz::build_ahead(context);
    }
    let mut results = Vec::new();
    for (offset, step) in steps.iter().enumerate() {
        println!("\n==> {} ({} of {}): {}", step.name, offset + 1, steps.len(), step.what);
        let begun = Instant::now();
        let outcome = match step.needs.iter().find_map(|tool| missing.get(tool.name)) {
            Some(reason) => Err(reason.clone()),
            None => (step.run)(context),
        };
        let outcome = outcome.unwrap_or_else(|error| Outcome::one(false).note(error));
        for note in &outcome.notes {
            println!("    {}", note.replace('\n', "\n    "));
        }
        println!("    {} passed, {} failed", outcome.passed, outcome.failed);
        results.push((step.name, outcome, begun.elapsed()));
    }
    Ok(summary(&results))
}

/// Prints the table and the closing line; true if nothing failed.
fn summary(results: &[(&str, Outcome, Duration)]) -> bool {
    println!("\n{:<10} {:>8} {:>8} {:>10}", "step", "passed", "failed", "seconds");
    for (name, outcome, elapsed) in results {
        let seconds = elapsed.as_secs_f64();
        println!("{name:<10} {:>8} {:>8} {seconds:>10.1}", outcome.passed, outcome.failed);
    }
    let passed: usize = results.iter().map(|(_, outcome, _)| outcome.passed).sum();
    let failed: usize = results.iter().map(|(_, outcome, _)| outcome.failed).sum();
    println!("\n{passed} passed, {failed} failed");
    failed == 0 && passed > 0
}
