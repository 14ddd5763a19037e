//! `arras lab bench`.

mod bisen;
mod mope;
mod plans;

use super::{Failure, print, table};
use crate::bench::memory::{self, MemoryBench};
use crate::bench::postgres::{self, PostgresBench};
use crate::bench::service::{self, ServiceBench};
use crate::bench::{self, BenchArguments, Subject};
use indicatif::ProgressBar;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

pub(super) fn run(arguments: &BenchArguments) -> Result<(), Failure> {
    if arguments.subject == Subject::Service {
        return service(arguments);
    }
    if arguments.subject == Subject::Memory {
        return memory(arguments);
    }
    if arguments.subject == Subject::Plans {
        return plans::run(arguments);
    }
    if arguments.subject == Subject::Postgres {
        return of_postgres(arguments);
    }
    if arguments.subject == Subject::Mope {
        return mope::run(arguments);
    }
    if arguments.subject == Subject::Bisen {
        return bisen::run(arguments);
    }
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(200));
    let measured = bench::run(arguments, &|what| spinner.set_message(what.to_owned()));
    spinner.finish_and_clear();
    if arguments.json {
        return print(&bench::json_lines(&measured, arguments.seed).join("\n"));
    }
    let rows: Vec<Vec<String>> = measured
        .iter()
        .map(|line| {
            let times = [line.timing.median_ns, line.timing.least_ns, line.timing.most_ns].map(table::short);
            let bits = line.bits.map_or_else(String::new, |bits| bits.to_string());
            [vec![format!("{}: {}", line.subject, line.operation), bits], times.to_vec()].concat()
        })
        .collect();
    let environment = crate::run::environment();
    print(&format!(
        "{}\nOther libraries and ours in one run: cargo run --release --manifest-path lab/opponents/Cargo.toml\n\
         {}, commit {}, seed {}\n",
        table::render(&["operation", "bits", "median ns", "least", "most"], &rows),
        environment.machine,
        environment.commit,
        arguments.seed
    ))
}

/// Memory of the proxy, and waits beside heavy filters, with the executables beside this one.
fn memory(arguments: &BenchArguments) -> Result<(), Failure> {
    let own = std::env::current_exe()?;
    let executables = arguments.before.clone();
    let directory = executables.unwrap_or_else(|| own.parent().unwrap_or(Path::new(".")).to_path_buf());
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(200));
    let tell = |what: &str| spinner.set_message(what.to_owned());
    let waits = memory::beside_heavy_filters(&directory, &tell);
    let bench = MemoryBench { directory, megabytes: arguments.megabytes };
    let figures = waits.and_then(|waits| Ok([memory::run(&bench, &tell)?, waits].concat()));
    spinner.finish_and_clear();
    let figures = figures.map_err(|error| Failure::Run(error.to_string()))?;
    let rows: Vec<Vec<String>> = figures
        .iter()
        .map(|figure| {
            let number = |number: f64| format!("{number:.1} {}", figure.unit);
            let target = if figure.target.is_finite() { number(figure.target) } else { String::new() };
            vec![figure.what.clone(), target, number(figure.measured)]
        })
        .collect();
    let environment = crate::run::environment();
    print(&format!(
        "{}\n{} MB of documents; {}, commit {}\n",
        table::render(&["of the proxy", "at most", "measured"], &rows),
        arguments.megabytes,
        environment.machine,
        environment.commit
    ))?;
    missed(
        figures
            .iter()
            .filter(|figure| figure.measured.is_nan() || figure.measured > figure.target)
            .map(|figure| figure.what.as_str()),
    )
}

/// What encryption costs an application of PostgreSQL, with the `arras` beside this executable.
fn of_postgres(arguments: &BenchArguments) -> Result<(), Failure> {
    let own = std::env::current_exe()?;
    let bench = PostgresBench {
        directory: own.parent().unwrap_or(Path::new(".")).to_path_buf(),
        time: arguments.time() * 10,
        rounds: arguments.rounds.max(1),
    };
    let measured = postgres::run(&bench, &|what| {
        let _unread = writeln!(std::io::stderr(), "{what}");
    });
    let figures = measured.map_err(|error| Failure::Run(error.to_string()))?;
    let environment = crate::run::environment();
    if arguments.json {
        let line = |figure| serde_json::json!({ "environment": environment, "figure": figure }).to_string();
        print(&figures.iter().map(line).collect::<Vec<_>>().join("\n"))?;
        return missed(figures.iter().filter(|figure| figure.is_missed()).map(|figure| figure.what));
    }
    let rows: Vec<Vec<String>> = figures
        .iter()
        .map(|figure| {
            let measured = format!("{:.2} {}", figure.measured, figure.unit);
            vec![figure.what.to_owned(), measured, figure.target.to_string()]
        })
        .collect();
    print(&format!(
        "{}\n{}, commit {}\n",
        table::render(&["of PostgreSQL", "measured", "to be"], &rows),
        environment.machine,
        environment.commit
    ))?;
    missed(figures.iter().filter(|figure| figure.is_missed()).map(|figure| figure.what))
}

/// Rates of the whole system, with the executables beside this one.
fn service(arguments: &BenchArguments) -> Result<(), Failure> {
    let own = std::env::current_exe()?;
    let bench = ServiceBench {
        directory: own.parent().unwrap_or(Path::new(".")).to_path_buf(),
        before: arguments.before.clone(),
        time: arguments.time() * 10 / 3,
        rounds: 3 * arguments.rounds.max(1),
    };
    // Lines, which are there also where no terminal is: a run takes minutes, and what it has measured so far counts if
    // it is stopped.
    let measured = service::run(&bench, &|what| {
        let _unread = writeln!(std::io::stderr(), "{what}");
    });
    let rates = measured.map_err(|error| Failure::Run(error.to_string()))?;
    let environment = crate::run::environment();
    if arguments.json {
        let line = |rate| serde_json::json!({ "environment": environment, "rate": rate }).to_string();
        print(&rates.iter().map(line).collect::<Vec<_>>().join("\n"))?;
        return below_target(&service::ratios(&rates));
    }
    let rows: Vec<Vec<String>> = rates
        .iter()
        .map(|rate| {
            let (system, load) = (rate.system.clone(), format!("{:?}", rate.load));
            let clients = rate.clients.to_string();
            let milliseconds = 1000.0 * rate.clients as f64 / rate.per_second;
            let (rate, each) = (format!("{:.0}", rate.per_second), format!("{milliseconds:.2}"));
            vec![system, load, clients, rate, each]
        })
        .collect();
    let ratios = service::ratios(&rates);
    let shown: Vec<Vec<String>> = ratios
        .iter()
        .map(|(name, ratio, target)| {
            let target = target.map_or_else(String::new, |target| format!("{target:.2}"));
            vec![(*name).to_owned(), format!("{ratio:.2}"), target]
        })
        .collect();
    print(&format!(
        "{}\n{}\n{}, commit {}\n",
        table::render(&["system", "load", "clients", "a second", "ms each"], &rows),
        table::render(&["of these", "ratio", "at least"], &shown),
        environment.machine,
        environment.commit
    ))?;
    below_target(&ratios)
}

/// A failure if there are ratios below what they are to be at least.
fn below_target(ratios: &[(&str, f64, Option<f64>)]) -> Result<(), Failure> {
    let is_below = |ratio: f64, target: f64| ratio.is_nan() || ratio < target;
    let below =
        ratios.iter().filter(|(_, ratio, target)| target.is_some_and(|target| is_below(*ratio, target)));
    missed(below.map(|one| one.0))
}

/// A failure if there are any figures that are not what they are to be.
fn missed<'f>(figures: impl Iterator<Item = &'f str>) -> Result<(), Failure> {
    let missed: Vec<&str> = figures.collect();
    if missed.is_empty() { Ok(()) } else { Err(Failure::Run(format!("missed: {}", missed.join("; ")))) }
}
