//! Table 3: what the protocols cost an operation.

use super::cell::{Band, Cell, Reasons, explain};
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
pub(super) const REASONS: Reasons = &[
    (
        BPLUS,
        CONSTRUCTION_IO,
        Band::Below,
        "the cache holds the upper nodes, and a page that was read to insert is in it when it is written",
    ),
    (
        BPLUS,
        QUERY_IO,
        Band::Above,
        "on uniform data a range of so many values holds three times as many records, and a page a tenth as many of \
         Lewi-Wu's ciphertexts as of the others, which weighs in the mean",
    ),
    (
        BPLUS,
        QUERY_IO,
        Band::Below,
        "on salaries a range of so many values holds half as many records: fewer pages of results",
    ),
    (
        BPLUS,
        QUERY_BYTES,
        Band::Below,
        "a query is one frame with the ciphertexts of its two ends; nothing but the records comes back",
    ),
    (
        KERSCHBAUM,
        CONSTRUCTION_IO,
        Band::Above,
        "entries are 32 bytes with the row's name (the paper's pages hold twice as many), and every page of the rotated \
         array counts when it is read and when it is written",
    ),
    (
        KERSCHBAUM,
        CONSTRUCTION_BYTES,
        Band::Above,
        "a probe is a frame with a header, and its reply the array's length and a sealed rank of 16 bytes",
    ),
    (
        KERSCHBAUM,
        QUERY_IO,
        Band::Above,
        "entries are 32 bytes with the row's name, and on uniform data a range of so many values holds three times as \
         many records: the pages of results count",
    ),
    (
        POPE_WARM,
        CONSTRUCTION_IO,
        Band::Below,
        "an insertion goes to the last page of the root's buffer, which the cache holds until it is full",
    ),
    (
        POPE_WARM,
        CONSTRUCTION_BYTES,
        Band::Above,
        "an element is sealed by itself, with its tie-break and the row's name, in a frame with a header",
    ),
    (
        POPE_WARM,
        QUERY_IO,
        Band::Below,
        "buffers move by whole pages, leaves come out of a split half full, and inner nodes stay in the cache",
    ),
    (POPE_WARM, QUERY_MESSAGES, Band::Below, CHUNKS),
    (
        POPE_COLD,
        QUERY_IO,
        Band::Above,
        "elements are 60 bytes with the row's name, and their pages count when they are read, when they are written to \
         the children's buffers and when they are removed, level by level",
    ),
    (POPE_COLD, QUERY_MESSAGES, Band::Below, CHUNKS),
    (BRC, CONSTRUCTION_MESSAGES, Band::Below, "all records go in one request; the paper counts one a record"),
    (
        ORAM,
        CONSTRUCTION_IO,
        Band::Below,
        "the client keeps the upper levels of every path, and a bucket that was read is in the cache when it is written",
    ),
    (ORAM, CONSTRUCTION_MESSAGES, Band::Below, WHOLE_PATHS),
    (ORAM, CONSTRUCTION_BYTES, Band::Above, WHOLE_BLOCKS),
    (
        ORAM,
        QUERY_IO,
        Band::Above,
        "on uniform data a range of so many values holds three times as many records, and for each leaf of it a path of \
         buckets of four pages each is read and written",
    ),
    (ORAM, QUERY_MESSAGES, Band::Below, WHOLE_PATHS),
    (ORAM, QUERY_BYTES, Band::Above, WHOLE_BLOCKS),
];

const CHUNKS: &str =
    "buffers are streamed in chunks of pages, not element by element, and both ends go down together";
const WHOLE_PATHS: &str =
    "all paths of an operation travel in one message, and what it writes back goes with the next";
const WHOLE_BLOCKS: &str = "a block is a page of 4 KiB, sealed, and whole buckets of four of them travel both ways; a query \
                            fetches a path for every leaf of its range";

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
