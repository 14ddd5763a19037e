//! The simulator: two minutes of it from a fresh seed, and whether it still finds what it must.

use super::cargo;
use super::process;
use super::{Context, Outcome};

/// Seconds of runs from a fresh seed.
const SECONDS: &str = "120";

fn arguments<'o>(options: &[&'o str]) -> Vec<&'o str> {
    let run = ["run", "--release", "--quiet", "--package", "arras-simulator", "--"];
    run.iter().copied().chain(options.iter().copied()).collect()
}

/// Two checks: no run fails, every seeded defect is found.
pub(super) fn run(context: &Context) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let checks = [
        ("simulator", vec!["--runs", "100000", "--seconds", SECONDS]),
        ("simulator-mutations", vec!["--mutations"]),
    ];
    for (name, options) in checks {
        let log = context.log(name);
        let finished = process::finish(&mut cargo::command(context, &arguments(&options)), &log)?;
        let told = if finished.success { finished.tail(1) } else { finished.tail(60) };
        let seed = finished.output.lines().find(|line| line.starts_with("from seed")).unwrap_or_default();
        outcome.add(Outcome::one(finished.success).note(format!("{seed}: {told} (log: {})", log.display())));
    }
    Ok(outcome)
}

/// Hands options on to the simulator; true if no run failed.
///
/// # Errors
/// If it cannot be built or run.
pub fn simulate(context: &Context, options: &[String]) -> Result<bool, String> {
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let status = cargo::command(context, &arguments(&options)).status();
    status.map(|status| status.success()).map_err(|error| format!("cannot run cargo: {error}"))
}
