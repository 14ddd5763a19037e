//! Charts as SVG, readable in light and dark, with a title and a description for those who do not see them.

mod attacks;
mod bars;
mod lines;
mod page;
#[cfg(test)]
mod tests;

pub use attacks::of_attacks;
pub use bars::{BarPanel, BarRow, Scale, bar_chart};
pub use lines::{Axis, Line, LinePanel, line_chart};
pub(crate) use page::percent;

use crate::run::{RunResult, Stage, StageResult};

/// A chart cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlotError(pub String);

/// A measure of a stage: its name, and its value where there is one.
pub type Measure = (&'static str, fn(&StageResult) -> Option<f64>);

/// What is drawn of a stage.
pub const MEASURES: [Measure; 3] = [
    ("page I/O", StageResult::page_io),
    ("messages", |stage| Some(stage.messages())),
    ("bytes, results excluded", |stage| Some(stage.bytes())),
];

/// Page I/O, messages and bytes of a run: an operation of the construction, and a query.
///
/// # Errors
/// [`PlotError`].
pub fn of_run(result: &RunResult) -> Result<String, PlotError> {
    of_runs(&[(result.request.dataset.name(), result)])
}

/// The same of several runs of the same protocols, such as on several data sets, each with its name.
///
/// # Errors
/// [`PlotError`].
pub fn of_runs(runs: &[(&str, &RunResult)]) -> Result<String, PlotError> {
    let Some((_, first)) = runs.first() else { return Err(PlotError("no run to draw".to_owned())) };
    let mut panels = Vec::new();
    for (stage, what) in [(Stage::Construction, "Insertion"), (Stage::Queries, "Query")] {
        for (measure, of) in MEASURES {
            let value = |name: &str, run: &RunResult| {
                let protocol = run.protocols.iter().find(|protocol| protocol.protocol == name)?;
                of(protocol.stage(stage)?)
            };
            let rows = first.protocols.iter().map(|protocol| BarRow {
                label: protocol.title.clone(),
                values: runs.iter().map(|(_, run)| value(&protocol.protocol, run)).collect(),
            });
            let (title, scale) = (format!("{what}: {measure}"), Scale::Logarithmic);
            panels.push(BarPanel { title, scale, rows: rows.collect() });
        }
    }
    let series: Vec<String> = runs.iter().map(|(name, _)| (*name).to_owned()).collect();
    let request = &first.request;
    let title = format!(
        "Cost of each protocol, {} records, {} queries, pages of {} bytes",
        request.records, request.queries, request.page_bytes
    );
    bar_chart(&title, &series, &panels, 3)
}
