//! `arras lab bench mope`.

use crate::bench::BenchArguments;
use crate::bench::mope::{self, Line, MopeBench};
use crate::cli::{Failure, print, table};
use indicatif::ProgressBar;
use std::time::Duration;

pub(super) fn run(arguments: &BenchArguments) -> Result<(), Failure> {
    let bench = MopeBench {
        values: arguments.values.max(1000),
        callers: 5000,
        seed: arguments.seed,
        pyope: arguments.pyope.clone(),
        postgres: arguments.postgres,
        figures: arguments.figures.clone(),
    };
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(200));
    let lines = mope::run(&bench, &|what| spinner.set_message(what.to_owned()));
    spinner.finish_and_clear();
    let lines = lines.map_err(|error| Failure::Run(error.to_string()))?;
    let environment = crate::run::environment();
    let missed = lines.iter().filter(|line| !line.is_met());
    let missed: Vec<String> =
        missed.map(|line| format!("{}: {} at {}", line.figure, line.what, line.at)).collect();
    let ended = super::missed(missed.iter().map(String::as_str));
    if arguments.json {
        let line = |line| serde_json::json!({ "environment": environment, "line": line }).to_string();
        print(&lines.iter().map(line).collect::<Vec<_>>().join("\n"))?;
        return ended;
    }
    let row = |line: &Line| {
        let ours = if line.ours.is_nan() { String::new() } else { table::short(line.ours) };
        let what = format!("{}: {}", line.figure, line.what);
        let wanted = line.wanted.map(|wanted| wanted.to_string()).unwrap_or_default();
        vec![what, line.at.clone(), format!("{ours} {}", line.unit), line.paper.to_owned(), wanted]
    };
    let rows: Vec<Vec<String>> = lines.iter().map(row).collect();
    print(&format!(
        "{}\nseed {}; {}, commit {}\n",
        table::render(&["figure", "at", "ours", "the paper's", "wanted"], &rows),
        arguments.seed,
        environment.machine,
        environment.commit
    ))?;
    ended
}
