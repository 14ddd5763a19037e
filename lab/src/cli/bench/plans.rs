//! `arras lab bench plans`.

use crate::bench::BenchArguments;
use crate::bench::plans::{self, Fetched, PlansError, RATIO_MAX, Timed};
use crate::cli::{Failure, print, table};
use std::io::Write;
use std::path::Path;

/// Documents fetched and times, with the executables beside this one; fails if a shape fetches too many.
pub(super) fn run(arguments: &BenchArguments) -> Result<(), Failure> {
    let own = std::env::current_exe()?;
    let executables = arguments.before.clone();
    let directory = executables.unwrap_or_else(|| own.parent().unwrap_or(Path::new(".")).to_path_buf());
    // Lines, which are there also where no terminal is.
    let tell = |what: &str| {
        let _unread = writeln!(std::io::stderr(), "{what}");
    };
    let failed = |error: PlansError| Failure::Run(error.to_string());
    let installation = plans::start(&directory).map_err(failed)?;
    let (address, count, seed) = (installation.address(), arguments.documents, arguments.seed);
    let fetched = plans::fetched(address, count, seed, true, &tell).map_err(failed)?;
    let timed = plans::timed(address, count, seed, &tell).map_err(failed)?;
    let environment = crate::run::environment();
    if arguments.json {
        let line = serde_json::json!({
            "environment": environment, "documents": count, "seed": seed, "fetched": fetched, "timed": timed,
        });
        print(&line.to_string())?;
    } else {
        print(&format!(
            "{}\n{}\n{count} documents; {}, commit {}, seed {seed}\n",
            shapes(&fetched),
            lines(&timed),
            environment.machine,
            environment.commit,
        ))?;
    }
    let worse: Vec<&str> =
        fetched.iter().filter(|shape| shape.ratio() > RATIO_MAX).map(|shape| shape.shape.as_str()).collect();
    if worse.is_empty() {
        return Ok(());
    }
    Err(Failure::Run(format!("more than {RATIO_MAX} times the best plan's documents: {}", worse.join("; "))))
}

fn shapes(fetched: &[Fetched]) -> String {
    let row = |name: &str, results: u64, read: u64, best: u64, rest: [String; 4]| {
        let numbers = [results, read, best].map(|number| number.to_string());
        [vec![name.to_owned()], numbers.to_vec(), rest.to_vec()].concat()
    };
    let ratio = |fetched: u64, best: u64| format!("{:.2}", fetched as f64 / best.max(1) as f64);
    let mut rows: Vec<Vec<String>> = fetched
        .iter()
        .map(|shape| {
            let time = shape.milliseconds.map_or_else(String::new, |time| format!("{time:.1}"));
            let rest = [ratio(shape.fetched, shape.best), time, shape.plan.clone(), shape.best_plan.clone()];
            row(&shape.shape, shape.results, shape.fetched, shape.best, rest)
        })
        .collect();
    let sum = |of: fn(&Fetched) -> u64| fetched.iter().map(of).sum::<u64>();
    let (read, best) = (sum(|shape| shape.fetched), sum(|shape| shape.best));
    let time: f64 = fetched.iter().filter_map(|shape| shape.milliseconds).sum();
    let rest = [ratio(read, best), format!("{time:.1}"), String::new(), String::new()];
    rows.push(row("all", sum(|shape| shape.results), read, best, rest));
    let headings = ["query", "results", "fetched", "at best", "ratio", "ms", "plan", "best plan"];
    table::render(&headings, &rows)
}

fn lines(timed: &[Timed]) -> String {
    let rows: Vec<Vec<String>> = timed
        .iter()
        .map(|line| {
            let unit = if line.beside.is_some() { " times" } else { " ms" };
            let beside = line.beside.map_or_else(String::new, |beside| format!("{beside:.2}"));
            let number = |number: f64| format!("{number:.2}{unit}");
            let (measured, at_most) = (number(line.measured()), number(line.at_most));
            vec![line.what.clone(), format!("{:.2}", line.milliseconds), beside, measured, at_most]
        })
        .collect();
    table::render(&["query", "ms", "beside, ms", "measured", "at most"], &rows)
}
