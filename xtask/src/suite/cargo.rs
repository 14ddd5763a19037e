//! The steps that are cargo's.

use super::postgres_folders::{self, PostgresFolders};
use super::process::{self, Finished};
use super::{Context, Outcome};
use crate::metadata;
use std::process::Command;

/// The binaries that ship.
pub(super) const BINARIES: [&str; 5] =
    ["arras-proxy", "arras-server", "arras-host", "arras-iee", "arras-searcher"];

/// Crates that ship with less than the tests of the workspace are built with, where the laboratory asks for all there is.
const SHIPPED: [&str; 4] = ["arras-server", "arras-engine", "arras-planner", "arras-postgres"];

/// Tests that run beside one another, a core: those of several processes wait for one another most of the time.
const THREADS_PER_CORE: usize = 2;

/// A cargo command in the repository, free of what the surrounding cargo put into the environment.
pub(super) fn command(context: &Context, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(&context.root).env("CARGO_TERM_COLOR", "never");
    for (name, _) in std::env::vars_os() {
        let inherited = name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST"));
        if inherited {
            command.env_remove(name);
        }
    }
    command
}

fn finish(context: &Context, log: &str, arguments: &[&str]) -> Result<Finished, String> {
    process::finish(&mut command(context, arguments), &context.log(log))
}

/// One check: the command succeeds.
fn succeeds(context: &Context, log: &str, arguments: &[&str]) -> Result<Outcome, String> {
    let finished = finish(context, log, arguments)?;
    let outcome = Outcome::one(finished.success);
    if finished.success {
        return Ok(outcome);
    }
    Ok(outcome.note(finished.tail(40)).note(format!(
        "cargo {}: log: {}",
        arguments.join(" "),
        context.log(log).display()
    )))
}

/// One check for the workspace and one for each crate outside of it.
pub(super) fn format(context: &Context) -> Result<Outcome, String> {
    let mut outcome = succeeds(context, "format", &["fmt", "--all", "--check"])?;
    let workspace = metadata::load(&context.root.join("Cargo.toml"))?;
    for manifest in metadata::outlying(&context.root, &workspace)? {
        let manifest = manifest.to_string_lossy();
        let style = context.root.join("rustfmt.toml");
        let style = style.to_string_lossy();
        let arguments = ["fmt", "--check", "--manifest-path", &manifest, "--", "--config-path", &style];
        outcome.add(succeeds(context, "format-outlying", &arguments)?);
    }
    Ok(outcome)
}

pub(super) fn clippy(context: &Context) -> Result<Outcome, String> {
    succeeds(context, "clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

/// Checks each binary by itself: together they would share features that one of them needs and forgot.
pub(super) fn alone(context: &Context) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    for package in BINARIES {
        outcome.add(succeeds(context, &format!("alone-{package}"), &["check", "--package", package])?);
    }
    Ok(outcome)
}

/// Unit tests of what ships, with the features that it ships with.
pub(super) fn shipped(context: &Context) -> Result<Outcome, String> {
    let packages = SHIPPED.iter().flat_map(|package| ["--package", package]);
    let arguments: Vec<&str> = ["test", "--lib", "--no-fail-fast"].into_iter().chain(packages).collect();
    tested(&mut command(context, &arguments), context, "shipped")
}

/// Builds all binaries with the features that the tests are built with, and the tests: whichever step asks first, nothing
/// is compiled twice.
pub(super) fn build(context: &Context) -> Result<Finished, String> {
    finish(context, "build", &["build", "--workspace", "--bins", "--tests"])
}

/// Licences, sources and bans of what is depended on (`deny.toml`), where cargo-deny is installed.
pub(super) fn deny(context: &Context) -> Result<Outcome, String> {
    if !finish(context, "deny", &["deny", "--version"])?.success {
        return Ok(Outcome::default().note("left out: cargo-deny is not installed"));
    }
    succeeds(context, "deny", &["deny", "--all-features", "check", "licenses", "sources", "bans"])
}

pub(super) fn doc(context: &Context) -> Result<Outcome, String> {
    let mut command = command(context, &["doc", "--workspace", "--no-deps", "--keep-going"]);
    let finished = process::finish(command.env("RUSTDOCFLAGS", "-D warnings"), &context.log("doc"))?;
    let outcome = Outcome::one(finished.success);
    Ok(if finished.success { outcome } else { outcome.note(finished.tail(40)) })
}

pub(super) fn tests(context: &Context) -> Result<Outcome, String> {
    // Tests of two processes start binaries of other packages.
    let built = build(context)?;
    if !built.success {
        return Ok(Outcome::one(false).note(built.tail(40)));
    }
    context.ahead.begin();
    let mut tests = command(context, &["test", "--workspace", "--no-fail-fast"]);
    let threads = std::thread::available_parallelism().map_or(1, usize::from) * THREADS_PER_CORE;
    tests.env("RUST_TEST_THREADS", threads.to_string());
    let folders = PostgresFolders::in_memory();
    if let Some(folders) = &folders {
        tests.env(postgres_folders::VARIABLE, folders.path());
    }
    tested(&mut tests, context, "tests")
}

/// Runs tests and adds up their results.
fn tested(tests: &mut Command, context: &Context, log: &str) -> Result<Outcome, String> {
    let finished = process::finish(tests, &context.log(log))?;
    let mut outcome = count(&finished.output);
    if outcome.failed == 0 && (!finished.success || outcome.passed == 0) {
        outcome.failed = 1;
        outcome.notes.push(finished.tail(40));
    }
    if outcome.failed > 0 {
        outcome.notes.extend(last_words(&finished.output));
        outcome.notes.push(format!("log: {}", context.log(log).display()));
    }
    Ok(outcome)
}

/// The last lines that each failed test printed: a seed that fails by chance is told here or nowhere, where logs are thrown away.
fn last_words(output: &str) -> Vec<String> {
    const LINES: usize = 12;
    const LETTERS: usize = 400;
    let mut tests: Vec<Vec<String>> = Vec::new();
    let mut within = false;
    for line in output.lines() {
        if line.starts_with("---- ") && line.ends_with(" stdout ----") {
            within = true;
            tests.push(vec![line.to_owned()]);
        } else if line == "failures:" {
            within = false;
        } else if let Some(test) = tests.last_mut().filter(|_| within && !line.trim().is_empty()) {
            test.push(line.chars().take(LETTERS).collect());
            if test.len() > LINES + 1 {
                test.remove(1);
            }
        }
    }
    tests.iter().map(|test| test.join("\n")).collect()
}

/// Adds up the results in the output of `cargo test`, and names what failed.
fn count(output: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let mut ignored = 0;
    let mut suite = "";
    let mut slow: Vec<&str> = Vec::new();
    for line in output.lines() {
        let line = line.trim();
        if let Some((test, _)) = line.split_once(" ... ") {
            slow.retain(|slow| *slow != test);
        }
        if let Some(test) = line.strip_suffix(" has been running for over 60 seconds") {
            slow.push(test);
        } else if line.starts_with("process didn't exit successfully") && line.contains("(signal:") {
            outcome.failed += 1;
            outcome.notes.push(format!("{line}; not ended: {}", std::mem::take(&mut slow).join(", ")));
        } else if line.starts_with("Running ") || line.starts_with("Doc-tests ") {
            suite = line;
            slow.clear();
        } else if let Some(result) = line.strip_prefix("test result: ") {
            outcome.passed += number_before(result, " passed");
            outcome.failed += number_before(result, " failed");
            ignored += number_before(result, " ignored");
        } else if line.starts_with("test ") && line.ends_with("... FAILED") {
            outcome.notes.push(format!("{line} ({suite})"));
        }
    }
    if ignored > 0 {
        outcome.notes.push(format!("{ignored} ignored"));
    }
    outcome
}

fn number_before(text: &str, word: &str) -> usize {
    let before = text.split(word).next().unwrap_or_default();
    before
        .rsplit(|letter: char| !letter.is_ascii_digit())
        .next()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{count, last_words};

    #[test]
    fn results_add_up_and_failures_are_named() {
        let output = "\
     Running unittests src/lib.rs (target/debug/deps/a-1)
test one ... ok
test two ... FAILED
test result: FAILED. 12 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.00s
     Running unittests src/lib.rs (target/debug/deps/b-1)
test three has been running for over 60 seconds
test four has been running for over 60 seconds
test four ... ok
  process didn't exit successfully: `b-1` (signal: 9, SIGKILL: kill)
   Doc-tests arras_a
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
";
        let outcome = count(output);
        assert_eq!((outcome.passed, outcome.failed), (15, 2));
        let failed = "test two ... FAILED (Running unittests src/lib.rs (target/debug/deps/a-1))";
        let killed = "process didn't exit successfully: `b-1` (signal: 9, SIGKILL: kill); not ended: test \
                      three";
        assert_eq!(outcome.notes, [failed, killed, "2 ignored"]);
    }

    #[test]
    fn of_what_a_failed_test_printed_the_last_lines_are_told() {
        let lines: String = (0..30).map(|line| format!("line {line}\n\n")).collect();
        let output = format!(
            "test one ... FAILED\n\nfailures:\n\n---- one stdout ----\n{lines}\n---- two stdout ----\n{}\n\n\
             failures:\n    one\n    two\n",
            "x".repeat(1000)
        );
        let words = last_words(&output);
        assert_eq!(words.len(), 2);
        assert!(words[0].starts_with("---- one stdout ----\nline 18\n") && words[0].ends_with("\nline 29"));
        assert_eq!(words[1], format!("---- two stdout ----\n{}", "x".repeat(400)));
    }
}
