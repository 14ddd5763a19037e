//! `arras lab bench bisen`, with `arras-host` and `arras-enclave` beside this executable.

use crate::bench::BenchArguments;
use crate::bench::bisen::{self, BisenBench, Line};
use crate::cli::{Failure, print, table};
use std::io::Write;
use std::path::Path;

pub(super) fn run(arguments: &BenchArguments) -> Result<(), Failure> {
    let own = std::env::current_exe()?;
    let beside = own.parent().unwrap_or(Path::new("."));
    let bench = BisenBench {
        executables: arguments.before.clone().unwrap_or_else(|| beside.to_path_buf()),
        texts: arguments.texts.clone(),
        pairs: arguments.pairs.max(1000),
        service_pairs: arguments.service_pairs.max(1000),
        rounds: arguments.rounds.max(1),
        services: !arguments.own_services,
        plain: arguments.plain,
    };
    // Lines, which are there also where no terminal is: a run takes minutes.
    let lines = bisen::run(&bench, &|what| {
        let _unread = writeln!(std::io::stderr(), "{what}");
    });
    let lines = lines.map_err(|error| Failure::Run(error.to_string()))?;
    let environment = crate::run::environment();
    if arguments.json {
        let line = |line| serde_json::json!({ "environment": environment, "line": line }).to_string();
        return print(&lines.iter().map(line).collect::<Vec<_>>().join("\n"));
    }
    let row = |line: &Line| {
        let ours = if line.ours.is_nan() { String::new() } else { table::short(line.ours) };
        let what = format!("{}: {}", line.figure, line.what);
        let ours = format!("{ours} {}", line.unit);
        vec![what, line.at.clone(), ours, line.paper.to_owned(), line.wanted.to_owned()]
    };
    let rows: Vec<Vec<String>> = lines.iter().map(row).collect();
    print(&format!(
        "{}\nof {}; {}, commit {}\n",
        table::render(&["figure", "at", "ours", "the paper's", "wanted"], &rows),
        bench.texts.display(),
        environment.machine,
        environment.commit
    ))
}
