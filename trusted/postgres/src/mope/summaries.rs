//! Summaries as the arrays that `arras.mope_commit` takes.

use super::labels::to_database;
use arras_protocol::mope::Summary;

/// One row for each spread, and for each move of the summaries that are moves.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Flat {
    /// Which summary the row is of, from 0.
    pub(super) numbers: Vec<i32>,
    pub(super) lows: Vec<i64>,
    pub(super) highs: Vec<i64>,
    pub(super) starts: Vec<i64>,
    /// Half of a spread's step, rounded down.
    pub(super) halves: Vec<Option<i64>>,
    /// What is left of the step; none of a move.
    pub(super) odds: Vec<Option<i64>>,
    /// By how many bits a move's paths go down; none of a spread.
    pub(super) downs: Vec<Option<i32>>,
}

impl Flat {
    pub(super) fn of(summaries: &[Summary]) -> Self {
        let mut flat = Self::default();
        for (number, summary) in (0..).zip(summaries) {
            match summary {
                Summary::Spread { low, high, start, step } => {
                    flat.add(number, [*low, *high, *start]);
                    flat.halves.push(Some((step >> 1).cast_signed()));
                    flat.odds.push(Some((step & 1).cast_signed()));
                    flat.downs.push(None);
                }
                Summary::Moves(moves) => {
                    for step in moves {
                        flat.add(number, [step.low, step.high, step.start]);
                        flat.halves.push(None);
                        flat.odds.push(None);
                        flat.downs.push(Some(step.down.into()));
                    }
                }
            }
        }
        flat
    }

    fn add(&mut self, number: i32, [low, high, start]: [u64; 3]) {
        self.numbers.push(number);
        self.lows.push(to_database(low));
        self.highs.push(to_database(high));
        self.starts.push(to_database(start));
    }
}
