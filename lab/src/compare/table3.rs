//! Table 3: what the protocols cost an operation.

use super::cell::{Cell, Reason, Reasons, explain};
use crate::protocols;
use crate::run::{ProtocolResult, RunResult, Stage, StageResult};

/// Page I/O and its kin, as columns are named.
pub(crate) const CONSTRUCTION_IO: &str = "construction page I/O";
pub(crate) const CONSTRUCTION_MESSAGES: &str = "construction messages";
pub(crate) const CONSTRUCTION_BYTES: &str = "construction bytes";
pub(crate) const QUERY_IO: &str = "query page I/O";
pub(crate) const QUERY_MESSAGES: &str = "query messages";
pub(crate) const QUERY_BYTES: &str = "query bytes";

/// A row of the table: our protocols it is the mean of, the stage its queries are, and the paper's values:
/// construction I/O, messages, bytes; query I/O, messages, bytes.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) protocols: &'static [&'static str],
    pub(crate) queries: Stage,
    pub(crate) paper: [Option<f64>; 6],
}

const COLUMNS: [&str; 6] =
    [CONSTRUCTION_IO, CONSTRUCTION_MESSAGES, CONSTRUCTION_BYTES, QUERY_IO, QUERY_MESSAGES, QUERY_BYTES];

/// What the paper has of a protocol. Its means are over the B+ trees of five schemes; ours are over four, without CLOZ.
#[derive(Debug)]
pub(crate) struct Evaluated {
    /// Its rows, which stand in the table in the order of [`protocols::ALL`].
    pub(crate) rows: &'static [Row],
    /// Why their cells are outside the band. Checked: `compare` fails on a cell that has no reason here.
    pub(crate) reasons: Reasons,
}

fn evaluated() -> impl Iterator<Item = &'static Evaluated> {
    protocols::ALL.iter().filter_map(|protocol| protocol.table3)
}

/// Why cells are outside the band.
pub(super) fn reasons() -> Vec<Reason> {
    evaluated().flat_map(|evaluated| evaluated.reasons).copied().collect()
}

/// The table, on the data of one run.
#[must_use]
pub fn table3(run: &RunResult) -> Vec<Cell> {
    evaluated().flat_map(|evaluated| evaluated.rows).flat_map(|row| cells(row, run)).collect()
}

fn cells(row: &Row, run: &RunResult) -> Vec<Cell> {
    let measured = |name: &&str| run.protocols.iter().find(|protocol| protocol.protocol == *name);
    let protocols: Vec<&ProtocolResult> = row.protocols.iter().filter_map(measured).collect();
    let mean = |stage: Stage, of: &dyn Fn(&StageResult) -> Option<f64>| {
        let values: Option<Vec<f64>> = protocols.iter().map(|protocol| of(protocol.stage(stage)?)).collect();
        values
            .filter(|values| !values.is_empty())
            .map(|values| values.iter().sum::<f64>() / values.len() as f64)
    };
    let ours = [Stage::Construction, row.queries].map(|stage| {
        [
            mean(stage, &StageResult::page_io),
            mean(stage, &|stage| Some(stage.messages())),
            mean(stage, &|stage| Some(stage.bytes())),
        ]
    });
    let values = COLUMNS.iter().zip(row.paper).zip(ours.into_iter().flatten());
    let cell = |((column, paper), ours): ((&&str, Option<f64>), Option<f64>)| {
        let mut cell = Cell {
            table: 3,
            dataset: Some(run.request.dataset.name().to_owned()),
            row: row.name.to_owned(),
            column: (*column).to_owned(),
            paper: paper?,
            ours,
            reason: None,
        };
        explain(&mut cell, &reasons());
        Some(cell)
    };
    values.filter_map(cell).collect()
}
