//! How much of the values a guess has right.

use super::{Knowledge, Recovery, Symmetry};
use serde::{Deserialize, Serialize};

/// A guess counts as close if it is off by at most this share of the domain's span.
pub const TOLERANCE: f64 = 0.01;

/// How good guesses are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Share of the records guessed exactly.
    pub exact: f64,
    /// Share of the records guessed within [`TOLERANCE`].
    pub close: f64,
    /// Mean absolute error, as a share of the domain's span.
    pub error: f64,
}

/// Scores pairs of value and guess.
fn of_pairs(pairs: impl Iterator<Item = (i64, i64)>, span: f64) -> Score {
    let (mut exact, mut close, mut error, mut count) = (0_usize, 0_usize, 0.0, 0_usize);
    for (value, guess) in pairs {
        let off = (value as f64 - guess as f64).abs() / span;
        exact += usize::from(value == guess);
        close += usize::from(off <= TOLERANCE);
        error += off;
        count += 1;
    }
    let count = count.max(1) as f64;
    Score { exact: exact as f64 / count, close: close as f64 / count, error: error / count }
}

/// Scores guesses as they are.
#[must_use]
pub fn score(values: &[i64], guesses: &[i64], knowledge: &Knowledge) -> Score {
    of_pairs(values.iter().copied().zip(guesses.iter().copied()), knowledge.span())
}

/// Scores guesses in the best of the forms that what the attacker saw leaves open; none if it leaves nothing open.
#[must_use]
pub fn up_to_symmetry(values: &[i64], recovery: &Recovery, knowledge: &Knowledge) -> Option<Score> {
    let span = knowledge.span();
    let best =
        |forms: &mut dyn Iterator<Item = Score>| forms.min_by(|one, other| one.error.total_cmp(&other.error));
    match &recovery.symmetry {
        Symmetry::None => None,
        Symmetry::Reflection => {
            let sum = knowledge.least.saturating_add(knowledge.greatest);
            let mirrored: Vec<i64> =
                recovery.guesses.iter().map(|guess| sum.saturating_sub(*guess)).collect();
            best(&mut [&recovery.guesses, &mirrored].into_iter().map(|form| score(values, form, knowledge)))
        }
        Symmetry::Rotation { positions } => {
            let at = |list: &[i64]| -> Vec<i64> { positions.iter().map(|record| list[*record]).collect() };
            let (values, guesses) = (at(values), at(&recovery.guesses));
            best(&mut (0..values.len()).map(|turn| {
                let turned = guesses[turn..].iter().chain(&guesses[..turn]);
                of_pairs(values.iter().copied().zip(turned.copied()), span)
            }))
        }
    }
}

/// The score of the best guesses without the server: the same value for every record, for each measure the one that
/// would be best if the records were the auxiliary data.
#[must_use]
pub fn baseline(values: &[i64], knowledge: &Knowledge) -> Score {
    let most_frequent = knowledge.histogram().into_iter().max_by_key(|(_, count)| *count);
    let reach = TOLERANCE * knowledge.span();
    let auxiliary = &knowledge.auxiliary;
    let within = |from: usize| {
        let limit = auxiliary[from] as f64 + 2.0 * reach;
        auxiliary.partition_point(|value| *value as f64 <= limit) - from
    };
    let densest = (0..auxiliary.len()).max_by_key(|from| within(*from));
    let centre = densest.map_or(0, |from| knowledge.clamped(auxiliary[from] as f64 + reach.floor()));
    let of = |guess: i64| score(values, &vec![guess; values.len()], knowledge);
    Score {
        exact: of(most_frequent.map_or(0, |(value, _)| value)).exact,
        close: of(centre).close,
        error: of(knowledge.quantile(0.5)).error,
    }
}
