//! Figures 1 to 4 of the paper.

use super::{CompareArguments, DATASETS, Jobs};
use crate::bench::{self, BenchArguments, Measured, Role, Subject};
use crate::datasets::Dataset;
use crate::plots::{
    Axis, BarPanel, BarRow, Line, LinePanel, MEASURES, PlotError, Scale, bar_chart, line_chart, of_runs,
};
use crate::protocols::{Work, named};
use crate::run::{FieldError, RunRequest, RunResult, Stage};

/// A drawn figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its file's name.
    pub file: &'static str,
    /// The drawing, as SVG.
    pub svg: String,
}

/// Sizes of figure 3, in percent of the records.
const SIZES: [usize; 5] = [20, 40, 60, 80, 100];

/// Sizes of queries of figure 4a, in percent of the data.
const SHARES: [f64; 5] = [0.5, 1.0, 1.5, 2.0, 3.0];

/// Queries in figure 4b.
const TRACED: usize = 100;

/// Figure 1: times of schemes and primitives.
///
/// # Errors
/// [`PlotError`].
pub fn figure1(seed: u64) -> Result<(Figure, Vec<Measured>), PlotError> {
    let measured = bench::run(&BenchArguments::of(Subject::All, 200, seed), &|_| {});
    let panel = |title: &str, lines: &dyn Fn(&&Measured) -> bool, named_by: &dyn Fn(&Measured) -> String| {
        let rows = measured.iter().filter(lines).map(|line| BarRow {
            label: named_by(line),
            values: vec![Some(line.timing.median_ns).filter(|time| *time > 0.0)],
        });
        BarPanel { title: title.to_owned(), scale: Scale::Logarithmic, rows: rows.collect() }
    };
    let scheme = |operation: &'static str| {
        move |line: &&Measured| line.bits == Some(32) && line.operation == operation
    };
    let subject = |line: &Measured| line.subject.clone();
    let panels = [
        panel("Encryption, 32 bits: ns", &scheme("encrypt"), &subject),
        panel("Comparison, 32 bits: ns", &scheme("compare"), &subject),
        panel("Primitives: ns", &|line| line.role == Role::Primitive, &|line| {
            format!("{}, {}", line.subject, line.operation)
        }),
    ];
    let svg = bar_chart("Figure 1: schemes and primitives", &["median".to_owned()], &panels, 3)?;
    Ok((Figure { file: "figure1.svg", svg }, measured))
}

/// Figure 2: what the protocols cost on each data set.
///
/// # Errors
/// [`PlotError`].
pub fn figure2(runs: &[RunResult]) -> Result<Figure, PlotError> {
    let named: Vec<(&str, &RunResult)> = DATASETS.iter().map(|dataset| dataset.name()).zip(runs).collect();
    Ok(Figure { file: "figure2.svg", svg: of_runs(&named)? })
}

fn percent_of(records: usize, percent: usize) -> usize {
    (records * percent / 100).max(1)
}

/// The runs of figure 3, growing with the size of the data.
fn scalability_requests(arguments: &CompareArguments) -> Vec<RunRequest> {
    let of_size = |percent: &usize| RunRequest {
        records: percent_of(arguments.records, *percent),
        ..arguments.request(Dataset::Uniform)
    };
    SIZES.iter().map(of_size).collect()
}

/// The runs of figure 4a, growing with the size of the queries. As many queries as the paper's line needs.
fn share_requests(arguments: &CompareArguments) -> Vec<RunRequest> {
    // One whose construction takes longest is left out: its queries are flat in the paper, too.
    let takes_longest = |name: &String| named(name).is_some_and(|protocol| protocol.work == Work::Most);
    let protocols: Vec<String> =
        arguments.protocols().into_iter().filter(|name| !takes_longest(name)).collect();
    let of_share = |percent: &f64| RunRequest {
        protocols: protocols.clone(),
        queries: arguments.queries.min(200),
        query_share: percent / 100.0,
        ..arguments.request(Dataset::Uniform)
    };
    SHARES.iter().map(of_share).collect()
}

/// A line a protocol: over the runs, a measure of a stage.
fn over_runs(
    runs: &[RunResult],
    along: &[f64],
    stage: Stage,
    measure: fn(&crate::run::StageResult) -> Option<f64>,
) -> Vec<Line> {
    let Some(first) = runs.first() else { return Vec::new() };
    let line = |name: &str, title: &str| {
        let point = |(run, x): (&RunResult, &f64)| {
            let protocol = run.protocols.iter().find(|protocol| protocol.protocol == name)?;
            Some((*x, measure(protocol.stage(stage)?)?))
        };
        Line { label: title.to_owned(), points: runs.iter().zip(along).filter_map(point).collect() }
    };
    first.protocols.iter().map(|protocol| line(&protocol.protocol, &protocol.title)).collect()
}

/// Figure 3: how costs grow with the data. Figures 4a and 4b: with the queries' size, and from query to query.
///
/// # Errors
/// What cannot be run, by field. The inner error: what cannot be drawn.
pub fn figures3_and_4(
    arguments: &CompareArguments,
    jobs: &Jobs<'_>,
) -> Result<Result<Vec<Figure>, PlotError>, Vec<FieldError>> {
    let grown = jobs.run(scalability_requests(arguments))?;
    let widened = jobs.run(share_requests(arguments))?;
    Ok(draw3(&grown).and_then(|figure3| Ok(vec![figure3, draw4(&widened, &grown)?])))
}

fn draw3(grown: &[RunResult]) -> Result<Figure, PlotError> {
    let along: Vec<f64> = SIZES.iter().map(|percent| *percent as f64).collect();
    let stages =
        [(Stage::Construction, "Insertion"), (Stage::FirstQuery, "First query"), (Stage::Queries, "Query")];
    let mut panels = Vec::new();
    for (stage, what) in stages {
        for (measure, of) in MEASURES {
            panels.push(LinePanel {
                title: format!("{what}: {measure}"),
                x_title: "% of the records".to_owned(),
                y_axis: Axis::Logarithmic,
                lines: over_runs(grown, &along, stage, of),
            });
        }
    }
    Ok(Figure { file: "figure3.svg", svg: line_chart("Figure 3: costs as the data grows", &panels, 3)? })
}

fn draw4(widened: &[RunResult], grown: &[RunResult]) -> Result<Figure, PlotError> {
    let mut panels = vec![LinePanel {
        title: "4a. Query: page I/O".to_owned(),
        x_title: "size of the query, % of the data".to_owned(),
        y_axis: Axis::Logarithmic,
        lines: over_runs(widened, &SHARES, Stage::Queries, crate::run::StageResult::page_io),
    }];
    let traces = |of: fn(&crate::run::QueryTrace) -> u64| -> Vec<Line> {
        let Some(run) = grown.last() else { return Vec::new() };
        let line = |protocol: &crate::run::ProtocolResult| Line {
            label: protocol.title.clone(),
            points: protocol
                .queries
                .iter()
                .take(TRACED)
                .enumerate()
                .map(|(at, query)| (at as f64 + 1.0, of(query) as f64))
                .collect(),
        };
        run.protocols.iter().map(line).collect()
    };
    panels.push(LinePanel {
        title: "4b. Page I/O, query after query".to_owned(),
        x_title: "query".to_owned(),
        y_axis: Axis::Logarithmic,
        lines: traces(|query| query.page_io),
    });
    let svg = line_chart("Figure 4: costs by the queries' size, and from query to query", &panels, 2)?;
    Ok(Figure { file: "figure4.svg", svg })
}
