//! How much of the values a guess has right.

use super::span::Span;
use super::{Knowledge, Recovery, Symmetry};
use serde::{Deserialize, Serialize};

/// A guess counts as close if it is off by at most this share of the values' span.
pub const TOLERANCE: f64 = 0.01;

/// How good guesses are. Lengths are shares of the difference of the greatest and the least value attacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Share of the records guessed exactly.
    pub exact: f64,
    /// Share of the records guessed within [`TOLERANCE`]; none where the values are so near each other that only an
    /// exact guess is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub close: Option<f64>,
    /// Mean absolute error.
    pub error: f64,
}

/// The longest way that a close guess may be off, if it is more than none.
fn reach(span: f64) -> Option<u64> {
    let reach = (TOLERANCE * span).floor();
    (reach >= 1.0).then_some(reach as u64)
}

/// The span of the values that are attacked, at least 1: what errors are shares of.
fn span(values: &[i64]) -> f64 {
    Span::of(values).map_or(1.0, |span| (span.greatest as f64 - span.least as f64).max(1.0))
}

/// Scores pairs of value and guess.
fn of_pairs(pairs: impl Iterator<Item = (i64, i64)>, span: f64) -> Score {
    let (mut exact, mut close, mut error, mut count) = (0_usize, 0_usize, 0.0, 0_usize);
    let reach = reach(span);
    for (value, guess) in pairs {
        exact += usize::from(value == guess);
        close += usize::from(reach.is_some_and(|reach| value.abs_diff(guess) <= reach));
        error += (value as f64 - guess as f64).abs() / span;
        count += 1;
    }
    let count = count.max(1) as f64;
    Score { exact: exact as f64 / count, close: reach.map(|_| close as f64 / count), error: error / count }
}

/// Scores guesses as they are.
#[must_use]
pub fn score(values: &[i64], guesses: &[i64]) -> Score {
    of_pairs(values.iter().copied().zip(guesses.iter().copied()), span(values))
}

/// Scores guesses in the best of the forms that what the attacker saw leaves open; none if it leaves nothing open. The
/// form with the least error is scored in all measures.
#[must_use]
pub fn up_to_symmetry(values: &[i64], recovery: &Recovery, knowledge: &Knowledge) -> Option<Score> {
    let best =
        |forms: &mut dyn Iterator<Item = Score>| forms.min_by(|one, other| one.error.total_cmp(&other.error));
    match &recovery.symmetry {
        Symmetry::None => None,
        Symmetry::Reflection => {
            let sum = knowledge.least.saturating_add(knowledge.greatest);
            let mirrored: Vec<i64> =
                recovery.guesses.iter().map(|guess| sum.saturating_sub(*guess)).collect();
            best(&mut [&recovery.guesses, &mirrored].into_iter().map(|form| score(values, form)))
        }
        Symmetry::Rotation { positions } => {
            let at = |list: &[i64]| -> Vec<i64> { positions.iter().map(|record| list[*record]).collect() };
            let (values, guesses) = (at(values), at(&recovery.guesses));
            let span = span(&values);
            best(&mut (0..values.len()).map(|turn| {
                let turned = guesses[turn..].iter().chain(&guesses[..turn]);
                of_pairs(values.iter().copied().zip(turned.copied()), span)
            }))
        }
    }
}

/// What the best constant guess gets: one value for every record, for each measure the one that is best for these
/// records. Nobody who guesses one value gets more, however much is known of the distribution; as the mirror image or
/// the rotation of a constant is one, nor does anybody up to those.
#[must_use]
pub fn baseline(values: &[i64]) -> Score {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let Some(median) = sorted.get(sorted.len() / 2) else { return Score::default() };
    let count = sorted.len() as f64;
    let most = sorted.chunk_by(|one, other| one == other).map(<[i64]>::len).max().unwrap_or(0);
    // A guess reaches as far down as up.
    let within = |reach: u64| {
        let up_to =
            |from: i64| sorted.partition_point(|value| value.abs_diff(from) <= 2 * reach || *value < from);
        (0..sorted.len()).map(|from| up_to(sorted[from]) - from).max().unwrap_or(0)
    };
    let span = span(values);
    Score {
        exact: most as f64 / count,
        close: reach(span).map(|reach| within(reach) as f64 / count),
        error: score(values, &vec![*median; values.len()]).error,
    }
}
