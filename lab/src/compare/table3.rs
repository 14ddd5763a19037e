//! Table 3: what the protocols cost an operation.

use super::cell::{Cell, Reasons, explain};
use crate::run::{ProtocolResult, RunResult, Stage, StageResult};

/// Page I/O and its kin, as columns are named.
const CONSTRUCTION_IO: &str = "construction page I/O";
const CONSTRUCTION_MESSAGES: &str = "construction messages";
const CONSTRUCTION_BYTES: &str = "construction bytes";
const QUERY_IO: &str = "query page I/O";
const QUERY_MESSAGES: &str = "query messages";
const QUERY_BYTES: &str = "query bytes";

const BPLUS: &str = "B+ tree with ORE";
const KERSCHBAUM: &str = "Kerschbaum-Tueno";
const POPE_WARM: &str = "POPE, warm";
const POPE_COLD: &str = "POPE, cold";
const BRC: &str = "Logarithmic-BRC";
const ORAM: &str = "Path ORAM";

/// A row of the table: our protocols it is the mean of, the stage its queries are, and the paper's values:
/// construction I/O, messages, bytes; query I/O, messages, bytes.
struct Row {
    name: &'static str,
    protocols: &'static [&'static str],
    queries: Stage,
    paper: [Option<f64>; 6],
}

const COLUMNS: [&str; 6] =
    [CONSTRUCTION_IO, CONSTRUCTION_MESSAGES, CONSTRUCTION_BYTES, QUERY_IO, QUERY_MESSAGES, QUERY_BYTES];

/// The table. The paper's means are over the B+ trees of five schemes; ours are over four, without CLOZ.
const ROWS: [Row; 6] = [
    Row {
        name: BPLUS,
        protocols: &["bplus_bclo", "bplus_clww", "bplus_lewi_wu", "bplus_fh_ope"],
        queries: Stage::Queries,
        paper: [Some(3.0), Some(2.0), Some(177.0), Some(44.0), Some(2.0), Some(342.0)],
    },
    Row {
        name: KERSCHBAUM,
        protocols: &["kerschbaum_tueno"],
        queries: Stage::Queries,
        paper: [Some(494.0), Some(40.0), Some(671.0), Some(7.0), Some(86.0), Some(1453.0)],
    },
    Row {
        name: POPE_WARM,
        protocols: &["pope"],
        queries: Stage::Queries,
        paper: [Some(1.0), Some(2.0), Some(32.0), Some(300.0), Some(914.0), Some(43_331.0)],
    },
    Row {
        name: POPE_COLD,
        protocols: &["pope"],
        queries: Stage::FirstQuery,
        paper: [None, None, None, Some(2175.0), Some(497_722.0), Some(9_056_644.0)],
    },
    Row {
        name: BRC,
        protocols: &["logarithmic_brc"],
        queries: Stage::Queries,
        paper: [None, Some(1.0), None, Some(40.0), Some(2.0), Some(391.0)],
    },
    Row {
        name: ORAM,
        protocols: &["path_oram"],
        queries: Stage::Queries,
        paper: [Some(31.0), Some(143.0), Some(18_254.0), Some(185.0), Some(490.0), Some(62_662.0)],
    },
];

/// Why cells are outside the band. Checked: `compare` fails on a cell that has no reason here.
pub(super) const REASONS: Reasons = &[];

/// The table, on the data of one run.
#[must_use]
pub fn table3(run: &RunResult) -> Vec<Cell> {
    ROWS.iter().flat_map(|row| cells(row, run)).collect()
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
        explain(&mut cell, REASONS);
        Some(cell)
    };
    values.filter_map(cell).collect()
}
