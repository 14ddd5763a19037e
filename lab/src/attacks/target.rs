//! What is attacked, and what the attacker knows beforehand.

use crate::datasets::NumberType;

/// What the attacker knows without the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knowledge {
    /// Values of the same kind as the records', ascending: the auxiliary data. Never empty.
    pub auxiliary: Vec<i64>,
    /// No record's value is smaller.
    pub least: i64,
    /// No record's value is greater.
    pub greatest: i64,
    /// How values become plaintexts.
    pub numbers: NumberType,
}

impl Knowledge {
    /// The difference of the greatest and the least value, at least 1.
    #[must_use]
    pub fn span(&self) -> f64 {
        (self.greatest as f64 - self.least as f64).max(1.0)
    }

    /// The auxiliary data as distinct values with their numbers of occurrences, ascending.
    #[must_use]
    pub fn histogram(&self) -> Vec<(i64, usize)> {
        self.auxiliary.chunk_by(|one, other| one == other).map(|run| (run[0], run.len())).collect()
    }

    /// The auxiliary value below which a share (0 to 1) of the auxiliary data lies.
    #[must_use]
    pub fn quantile(&self, share: f64) -> i64 {
        let last = self.auxiliary.len() - 1;
        let place = (share * self.auxiliary.len() as f64).floor().max(0.0) as usize;
        self.auxiliary[place.min(last)]
    }

    /// Brings a number to the nearest value there can be.
    #[must_use]
    pub fn clamped(&self, value: f64) -> i64 {
        (value.round() as i64).clamp(self.least, self.greatest)
    }
}

/// What is attacked: a run over these values. Attacks give the values to the client's half and look at the server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The records' values, in order of insertion.
    pub values: Vec<i64>,
    /// What the attacker knows beforehand.
    pub knowledge: Knowledge,
    /// Queries that are asked, for attacks that watch them.
    pub queries: usize,
    /// Size of a page, in bytes.
    pub page_bytes: usize,
    /// Everything random comes from it.
    pub seed: u64,
}
