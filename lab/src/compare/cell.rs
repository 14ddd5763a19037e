//! A value of the paper's, ours beside it.

use serde::{Deserialize, Serialize};

/// Ratios that need no explanation.
const BAND: std::ops::RangeInclusive<f64> = 0.5..=2.0;

/// How our value compares with the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    /// Not measured.
    Missing,
    /// Less than half.
    Below,
    /// About the same.
    Within,
    /// More than twice.
    Above,
}

/// A value of the paper's, ours beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The paper's table.
    pub table: u8,
    /// The data set, for table 3.
    pub dataset: Option<String>,
    /// The table's row.
    pub row: String,
    /// The table's column.
    pub column: String,
    /// The paper's value.
    pub paper: f64,
    /// Ours.
    pub ours: Option<f64>,
    /// Why it is not about the same, if it is not.
    pub reason: Option<String>,
}

impl Cell {
    /// Ours as a multiple of the paper's. Where the paper has 0: 1 if ours is 0, too.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let ours = self.ours?;
        if self.paper == 0.0 {
            Some(if ours == 0.0 { 1.0 } else { f64::INFINITY })
        } else {
            Some(ours / self.paper)
        }
    }

    /// How ours compares.
    #[must_use]
    pub fn band(&self) -> Band {
        match self.ratio() {
            None => Band::Missing,
            Some(ratio) if BAND.contains(&ratio) => Band::Within,
            Some(ratio) if ratio < *BAND.start() => Band::Below,
            Some(_) => Band::Above,
        }
    }
}

/// Cells that are outside the band without a reason.
#[must_use]
pub fn unexplained(cells: &[Cell]) -> Vec<&Cell> {
    let outside = |cell: &&Cell| matches!(cell.band(), Band::Above | Band::Below) && cell.reason.is_none();
    cells.iter().filter(outside).collect()
}

/// Why a cell of a row and column is below or above: row, column, in which way, reason.
pub(crate) type Reason = (&'static str, &'static str, Band, &'static str);
/// Several of them.
pub(crate) type Reasons = &'static [Reason];

/// Fills in the reason of a cell that is outside the band.
pub(super) fn explain(cell: &mut Cell, reasons: &[Reason]) {
    let band = cell.band();
    let found = reasons
        .iter()
        .find(|(row, column, way, _)| *row == cell.row && *column == cell.column && *way == band);
    cell.reason = match band {
        Band::Above | Band::Below => found.map(|(.., reason)| (*reason).to_owned()),
        Band::Missing | Band::Within => None,
    };
}
