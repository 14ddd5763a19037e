//! Matching ciphertexts with values by how often they occur.

use super::Knowledge;

/// Most cells of a table that [`non_crossing`] fills.
pub(super) const CELLS_MAX: usize = 400_000_000;

/// A value that ciphertexts may stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) value: i64,
    /// Its share of the auxiliary data.
    pub(super) share: f64,
    /// The share of the auxiliary data that is not greater.
    pub(super) up_to: f64,
}

/// Candidates for at least `needed` different ciphertexts, ascending: the auxiliary values; all values of the domain if it
/// is not much larger; else, if there are too few, others evenly between them.
pub(super) fn candidates(knowledge: &Knowledge, needed: usize) -> Vec<Candidate> {
    let histogram = knowledge.histogram();
    let wanted = needed.max(histogram.len());
    let mut values: Vec<i64> = histogram.iter().map(|(value, _)| *value).collect();
    values.extend([knowledge.least, knowledge.greatest]);
    if knowledge.span() < 4.0 * wanted as f64 {
        values.extend(knowledge.least..=knowledge.greatest);
    }
    values.sort_unstable();
    values.dedup();
    let missing = needed.saturating_sub(values.len());
    if missing > 0 {
        let mut between = missing.div_ceil(values.len().saturating_sub(1).max(1)) as i64;
        loop {
            let mut all = values.clone();
            for pair in values.windows(2) {
                let step = pair[1].abs_diff(pair[0]) as f64 / (between as f64 + 1.0);
                all.extend((1..=between).map(|at| pair[0] + (step * at as f64) as i64));
            }
            all.sort_unstable();
            all.dedup();
            if all.len() >= needed || between > needed as i64 {
                values = all;
                break;
            }
            between = between.saturating_mul(2);
        }
    }
    let (mut at, mut seen) = (0, 0);
    let total = knowledge.auxiliary.len() as f64;
    let candidate = |value: i64| {
        while at < histogram.len() && histogram[at].0 < value {
            at += 1;
        }
        let count = histogram.get(at).filter(|(known, _)| *known == value).map_or(0, |(_, count)| *count);
        seen += count;
        Candidate { value, share: count as f64 / total, up_to: seen as f64 / total }
    };
    values.into_iter().map(candidate).collect()
}

/// The share of each group, and that of the groups up to it.
pub(super) fn shares(groups: &[Vec<usize>]) -> Vec<(f64, f64)> {
    let total = groups.iter().map(Vec::len).sum::<usize>().max(1) as f64;
    let mut seen = 0;
    let share = |group: &Vec<usize>| {
        seen += group.len();
        (group.len() as f64 / total, seen as f64 / total)
    };
    groups.iter().map(share).collect()
}

/// Assigns to each of `left` things one of `right`, ascending, at the least sum of costs. None if there are more things
/// than places.
pub(super) fn non_crossing(
    left: usize,
    right: usize,
    cost: impl Fn(usize, usize) -> f64,
) -> Option<Vec<usize>> {
    if left > right {
        return None;
    }
    // Least cost of the things so far, with the last of them not after a place; whether it is there.
    let mut best = vec![0.0; right + 1];
    let mut taken = vec![false; left * right];
    for thing in 0..left {
        let mut next = vec![f64::INFINITY; right + 1];
        for place in thing..=(right - left + thing) {
            let with = best[place] + cost(thing, place);
            taken[thing * right + place] = with < next[place];
            next[place + 1] = with.min(next[place]);
        }
        for place in right - left + thing + 1..right {
            next[place + 1] = next[place];
        }
        best = next;
    }
    let mut assigned = vec![0; left];
    let mut place = right;
    for thing in (0..left).rev() {
        place -= 1;
        while place > 0 && !taken[thing * right + place] {
            place -= 1;
        }
        assigned[thing] = place;
    }
    Some(assigned)
}

/// Guesses by record from guesses by group.
pub(super) fn spread(groups: &[Vec<usize>], guesses: impl Iterator<Item = i64>, records: usize) -> Vec<i64> {
    let mut by_record = vec![0; records];
    for (group, guess) in groups.iter().zip(guesses) {
        for record in group {
            by_record[*record] = guess;
        }
    }
    by_record
}
