//! `arras lab compare`.

use super::{Failure, print, stop_flag, table, write_file};
use crate::compare::{self, Cell, CompareArguments, Figure, Jobs, PAPER_RECORDS, unexplained};
use crate::run::{Ending, RunResult, environment};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(super) fn run(arguments: &CompareArguments) -> Result<(), Failure> {
    if let Some(directory) = &arguments.figures {
        std::fs::create_dir_all(directory)
            .map_err(|source| Failure::Io { path: directory.clone(), source })?;
    }
    let stop = stop_flag();
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{elapsed} {wide_bar} {pos}/{len} {msg:32}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    let tell = |done: usize, of: usize, what: &str| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_owned());
    };
    let jobs = Jobs { workers: arguments.workers, tell: &tell, stop: &stop };
    let runs = arguments.run(&jobs).map_err(Failure::Fields)?;
    let mut cells: Vec<Cell> = runs.iter().flat_map(compare::table3).collect();
    cells.extend(compare::table4(arguments));
    let figures = match &arguments.figures {
        Some(directory) if !stop.load(Ordering::Relaxed) => draw(arguments, &jobs, &runs, directory)?,
        _ => Vec::new(),
    };
    bar.finish_and_clear();
    if arguments.json {
        print(&json_lines(arguments, &runs, &cells).join("\n"))?;
    } else {
        print(&tables(arguments, &runs, &cells))?;
        for figure in &figures {
            print(&format!("drawn: {}", figure.file))?;
        }
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Stopped);
    }
    judged(arguments, &runs, &cells)
}

fn draw(
    arguments: &CompareArguments,
    jobs: &Jobs<'_>,
    runs: &[RunResult],
    directory: &Path,
) -> Result<Vec<Figure>, Failure> {
    let (figure1, _) = compare::figure1(arguments.seed)?;
    let mut figures = vec![figure1, compare::figure2(runs)?];
    figures.extend(compare::figures3_and_4(arguments, jobs).map_err(Failure::Fields)??);
    for figure in &figures {
        write_file(&directory.join(figure.file), &figure.svg)?;
    }
    Ok(figures)
}

/// A run that failed is an error; at the paper's size, so is a cell out of the band that nobody has explained.
fn judged(arguments: &CompareArguments, runs: &[RunResult], cells: &[Cell]) -> Result<(), Failure> {
    for protocol in runs.iter().flat_map(|run| &run.protocols) {
        if let Ending::Failed(why) = &protocol.ending {
            return Err(Failure::Run(format!("{}: {why}", protocol.protocol)));
        }
    }
    match unexplained(cells).len() {
        count if count > 0 && arguments.records == PAPER_RECORDS => Err(Failure::Run(format!(
            "{count} cells are outside 0.5 to 2 times the paper's, and no reason is stated"
        ))),
        _ => Ok(()),
    }
}

fn json_lines(arguments: &CompareArguments, runs: &[RunResult], cells: &[Cell]) -> Vec<String> {
    let environment = environment();
    let cell = |cell: &Cell| {
        let line = serde_json::json!({
            "environment": environment, "seed": arguments.seed, "records": arguments.records,
            "queries": arguments.queries, "ratio": cell.ratio(), "cell": cell,
        });
        line.to_string()
    };
    runs.iter().flat_map(RunResult::json_lines).chain(cells.iter().map(cell)).collect()
}

fn tables(arguments: &CompareArguments, runs: &[RunResult], cells: &[Cell]) -> String {
    let mut text = String::new();
    for run in runs {
        text.push_str(&table::of_run(run));
        text.push('\n');
    }
    text.push_str(
        "Beside the paper (PVLDB 12(8), tables 3 and 4): per operation; page I/O with the results, bytes without.\n\n",
    );
    let row = |cell: &Cell| {
        vec![
            format!("{}: {}", cell.row, cell.column),
            cell.dataset.clone().unwrap_or_default(),
            table::short(cell.paper),
            cell.ours.map_or_else(|| "-".to_owned(), table::short),
            cell.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
        ]
    };
    let rows: Vec<Vec<String>> = cells.iter().map(row).collect();
    text.push_str(&table::render(&["cell", "data", "paper", "ours", "ratio"], &rows));
    let mut reasons: Vec<String> = Vec::new();
    for cell in cells {
        if let Some(reason) = &cell.reason {
            let line = format!("  {}, {}: {reason}", cell.row, cell.column);
            if !reasons.contains(&line) {
                reasons.push(line);
            }
        }
    }
    if !reasons.is_empty() {
        text.push_str("\nOutside 0.5 to 2, because:\n");
        text.push_str(&reasons.join("\n"));
        text.push('\n');
    }
    if arguments.records != PAPER_RECORDS {
        text.push_str("\nNot the paper's number of records: ratios are not to be read closely.\n");
    }
    text
}
