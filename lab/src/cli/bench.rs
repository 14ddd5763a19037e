//! `arras lab bench`.

use super::{Failure, print, table};
use crate::bench::{self, BenchArguments};
use indicatif::ProgressBar;
use std::time::Duration;

pub(super) fn run(arguments: &BenchArguments) -> Result<(), Failure> {
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
