//! The simulator: two minutes of it from a fresh seed, and whether it still finds what it must.

use super::cargo;
use super::process;
use super::{Context, Outcome};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds of runs from a fresh seed, on each core.
const SECONDS: &str = "120";

/// Seconds of runs by each protocol of an order in its turn, beside the search for defects.
const SECONDS_OF_ORDERS: &str = "30";

const ENDED: &str = "a thread of the simulator's has ended";

/// Seeds between those that the cores begin at: more than one of them comes to.
const SEEDS_APART: u64 = 1_000_000_000;

/// Three checks: no run fails, whatever protocol keeps orders, and every seeded defect is found. By what the tests were built with, whose additions and assertions are
/// checked, so that nothing is compiled again; long runs are worth a build of their own.
pub(super) fn run(context: &Context) -> Result<Outcome, String> {
    let built = cargo::build(context)?;
    if !built.success {
        return Ok(Outcome::one(false).note(built.tail(40)));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let mut outcome = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..cores)
            .map(|core| {
                let seed =
                    (u64::try_from(now.as_micros()).unwrap_or_default() + core * SEEDS_APART).to_string();
                scope.spawn(move || {
                    let options = ["--seed", &seed, "--runs", "100000", "--seconds", SECONDS];
                    simulated(context, &format!("simulator-{core}"), &options)
                })
            })
            .collect();
        runs.into_iter().try_fold(Outcome::default(), |mut all, run| {
            all.add(run.join().map_err(|_| ENDED.to_owned())??);
            Ok::<_, String>(all)
        })
    })?;
    let orders = ["--every-order", "--runs", "100000", "--seconds", SECONDS_OF_ORDERS];
    std::thread::scope(|scope| {
        let orders = scope.spawn(|| simulated(context, "simulator-orders", &orders));
        outcome.add(simulated(context, "simulator-mutations", &["--mutations"])?);
        outcome.add(orders.join().map_err(|_| ENDED.to_owned())??);
        Ok(outcome)
    })
}

fn simulated(context: &Context, name: &str, options: &[&str]) -> Result<Outcome, String> {
    let log = context.log(name);
    let mut simulator = Command::new(context.root.join("target/debug/arras-simulator"));
    let finished = process::finish(simulator.args(options).current_dir(&context.root), &log)?;
    let told = if finished.success { finished.tail(1) } else { finished.tail(60) };
    let seed = finished.output.lines().find(|line| line.starts_with("from seed")).unwrap_or_default();
    Ok(Outcome::one(finished.success).note(format!("{seed}: {told} (log: {})", log.display())))
}

/// Builds the simulator as it is released and hands options on to it; true if no run failed.
///
/// # Errors
/// If it cannot be built or run.
pub fn simulate(context: &Context, options: &[String]) -> Result<bool, String> {
    let run = ["run", "--release", "--quiet", "--package", "arras-simulator", "--"];
    let arguments: Vec<&str> = run.into_iter().chain(options.iter().map(String::as_str)).collect();
    let status = cargo::command(context, &arguments).status();
    status.map(|status| status.success()).map_err(|error| format!("cannot run cargo: {error}"))
}
