//! Short runs of the fuzz targets in `fuzz/src/bin`, with the stable compiler and nothing to install: the
//! coverage instrumentation is LLVM's, libFuzzer comes with its crate.
//!
//! No address sanitizer: the code under test is safe Rust, and its panics, failed assertions and overflows end a
//! run just as well. Corpora stay in `fuzz/corpus` between runs; seeds are written by the targets themselves.

use super::process;
use super::{Context, Outcome, cargo};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Seconds all targets together may take on two cores, however many there are.
const TOTAL_SECONDS: u64 = 120;

/// What LLVM inserts so that libFuzzer sees coverage and comparisons.
const INSTRUMENTATION: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Builds and runs every target for the context's seconds.
///
/// # Errors
/// If the targets cannot be listed.
pub fn run(context: &Context) -> Result<Outcome, String> {
    run_targets(context, &targets(&context.root)?)
}

/// Builds all and runs the named targets.
///
/// # Errors
/// If a name is no target's.
pub fn run_named(context: &Context, names: &[String]) -> Result<bool, String> {
    process::stop_children_on_signals()?;
    let known = targets(&context.root)?;
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!("no fuzz target is called {unknown}; there are: {}", known.join(", ")));
    }
    let outcome = run_targets(context, if names.is_empty() { &known } else { names })?;
    for note in &outcome.notes {
        println!("{note}");
    }
    println!("{} passed, {} failed", outcome.passed, outcome.failed);
    Ok(outcome.failed == 0)
}

/// The targets: one a file.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("fuzz/src/bin");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let name = |path: PathBuf| {
        let is_source = path.extension().is_some_and(|ending| ending == "rs");
        path.file_stem().filter(|_| is_source).map(|stem| stem.to_string_lossy().into_owned())
    };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| name(entry.path())).collect();
    names.sort();
    Ok(names)
}

/// Has the targets built while an earlier step runs.
pub(super) fn build_ahead(context: &Context) {
    // Without a host the step says so.
    if let Ok(host) = host() {
        context.ahead.plan(context, &build(context, &host), "fuzz-build-ahead");
    }
}

fn folder(context: &Context) -> PathBuf {
    context.root.join("target/fuzz")
}

fn build(context: &Context, host: &str) -> Command {
    let arguments =
        ["build", "--bins", "--manifest-path", "fuzz/Cargo.toml", "--target", host, "--target-dir"];
    let mut build = cargo::command(context, &arguments);
    build.arg(folder(context)).env("RUSTFLAGS", INSTRUMENTATION);
    build
}

fn run_targets(context: &Context, names: &[String]) -> Result<Outcome, String> {
    context.ahead.wait();
    let host = host()?;
    let built = process::finish(&mut build(context, &host), &context.log("fuzz-build"))?;
    if !built.success {
        return Ok(Outcome::one(false).note(built.tail(40)));
    }
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(names.len().max(1));
    let share = TOTAL_SECONDS * workers as u64 / names.len().max(1) as u64;
    let seconds = context.fuzz_seconds.min(share.max(1));
    println!("    {} targets, {seconds} s each, {workers} at a time", names.len());
    let binaries = folder(context).join(&host).join("debug");
    let waiting = Mutex::new(names.iter());
    let total = Mutex::new(Outcome::default());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(name) = next(&waiting) {
                    let outcome = run_one(context, &binaries, name, seconds)
                        .unwrap_or_else(|error| Outcome::one(false).note(format!("{name}: {error}")));
                    total.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(outcome);
                }
            });
        }
    });
    let mut total = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    total.notes.sort();
    Ok(total)
}

fn next<'a>(waiting: &Mutex<std::slice::Iter<'a, String>>) -> Option<&'a String> {
    waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next()
}

fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|error| format!("rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say its host".into())
}

/// Writes the target's seeds, then fuzzes it.
fn run_one(context: &Context, binaries: &Path, name: &str, seconds: u64) -> Result<Outcome, String> {
    let corpus = context.root.join("fuzz/corpus").join(name);
    let artifacts = context.root.join("fuzz/artifacts").join(name);
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let log = context.log(&format!("fuzz-{name}"));
    let mut seed = Command::new(binaries.join(name));
    // `-runs=0`: a target without seeds ends too.
    seed.arg("-runs=0").env("ARRAS_FUZZ_SEEDS", &corpus).current_dir(&artifacts);
    let seeded = process::finish(&mut seed, &log)?;
    if !seeded.success {
        return Ok(Outcome::one(false).note(format!("{name} cannot write its seeds:\n{}", seeded.tail(10))));
    }
    // Targets that need files put them where nothing outlives the run.
    let temporary = context.scratch.join("fuzz-files");
    std::fs::create_dir_all(&temporary).map_err(|error| format!("{}: {error}", temporary.display()))?;
    let mut fuzz = Command::new(binaries.join(name));
    fuzz.env("TMPDIR", &temporary);
    fuzz.arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-max_len=8192", "-timeout=120", "-rss_limit_mb=2048", "-verbosity=1", "-print_final_stats=1"])
        .arg(&corpus)
        .current_dir(&context.scratch);
    let finished = process::finish(&mut fuzz, &log)?;
    let runs = finished.output.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let ran = runs.and_then(|runs| runs.trim().parse::<u64>().ok()).unwrap_or(0);
    let outcome = Outcome::one(finished.success && ran > 0);
    if outcome.failed == 0 {
        return Ok(outcome.note(format!("{name}: {ran} inputs")));
    }
    let panic = finished.output.lines().position(|line| line.contains("panicked at")).unwrap_or(0);
    let around: Vec<&str> = finished.output.lines().skip(panic).take(6).collect();
    Ok(outcome.note(format!(
        "{name}: {}\ninput in {}, log: {}",
        around.join("\n"),
        artifacts.display(),
        log.display()
    )))
}
