//! Kellaris, Kollios, Nissim, O'Neill, *Generic attacks on secure outsourced databases* (CCS 2016), §4: how many records
//! have each value, from the volumes of uniform range queries alone.
//!
//! *Has.* How many records each search returned; that queries are uniform over all ranges of the span, the span's
//! size, and the number of records.
//!
//! *Method.* Let `s_0 = 0, ..., s_N = n` count the records up to each value. A range's volume is the difference of two
//! of these sums, so how often each volume is returned, times the number of ranges, gives the multiset of all their
//! differences; the sums follow up to reflection.
//!
//! *Deviations.* The paper factors a polynomial whose coefficients are these numbers. Here the sums are placed one by
//! one, the greatest difference left first, with backtracking, as points on a line are found from their distances
//! (Skiena, Smith, Lemke, 1990): the same solutions, and fast unless data are made against it. Where the observed
//! numbers are no multiset of differences (too few queries), or there are more steps than [`STEPS_MAX`], there is no
//! answer: it is all or nothing. If several solutions fit, the first one found is taken.
//!
//! *Cost.* Of the order of N^4 log N queries in general; each number of ranges must be exact when rounded.

use super::observed::Returned;
use super::span::{Estimates, Span};

/// Most sums placed, false ones included.
pub const STEPS_MAX: usize = 200_000;

/// Most values in the span: the number of ranges is its square.
pub const VALUES_MAX: u64 = 1024;

/// Estimates the value of each rank, from the lowest record on, up to reflection; nothing if the volumes do not fit.
#[must_use]
pub fn recover(searches: &[Returned], records: usize, span: Span) -> Estimates {
    let nothing = vec![None; records];
    let Some(differences) = differences(searches, records, span.count()) else { return nothing };
    let Some(sums) = sums(differences, records, span.count() as usize) else { return nothing };
    let mut estimates = Vec::with_capacity(records);
    for (place, two) in sums.windows(2).enumerate() {
        estimates.resize(two[1], Some(span.value(place as u64)));
    }
    estimates
}

/// How many ranges there are of each volume: the observed shares times all ranges, rounded so that the sum is right.
fn differences(searches: &[Returned], records: usize, values: u64) -> Option<Vec<i64>> {
    if values > VALUES_MAX || searches.is_empty() {
        return None;
    }
    let mut seen = vec![0u64; records + 1];
    for search in searches {
        *seen.get_mut(usize::try_from(search.volume).ok()?)? += 1;
    }
    let ranges = values * (values + 1) / 2;
    let queries = searches.len() as u64;
    let mut counts: Vec<i64> =
        seen.iter().map(|seen| i64::try_from(seen * ranges / queries).unwrap_or(i64::MAX)).collect();
    // What is missing goes where most was cut off.
    let missing = ranges as i64 - counts.iter().sum::<i64>();
    let mut places: Vec<usize> = (0..seen.len()).filter(|at| seen[*at] > 0).collect();
    places.sort_by_key(|at| std::cmp::Reverse(seen[*at] * ranges % queries));
    places.iter().take(usize::try_from(missing).ok()?).for_each(|at| counts[*at] += 1);
    Some(counts)
}

/// The search for the sums.
struct Placing {
    /// Differences left, by size.
    left: Vec<i64>,
    /// Sums placed.
    sums: Vec<usize>,
    records: usize,
    steps: usize,
}

/// Finds the `values + 1` sums whose differences are given.
fn sums(differences: Vec<i64>, records: usize, values: usize) -> Option<Vec<usize>> {
    let mut placing = Placing { left: differences, sums: vec![0], records, steps: 0 };
    if !placing.place(records) || !placing.rest(values + 1) {
        return None;
    }
    placing.sums.sort_unstable();
    Some(placing.sums)
}

impl Placing {
    /// Places a sum and takes its differences away; changes nothing if they are not all there.
    fn place(&mut self, sum: usize) -> bool {
        self.steps += 1;
        for at in 0..self.sums.len() {
            let difference = self.sums[at].abs_diff(sum);
            self.left[difference] -= 1;
            if self.left[difference] < 0 {
                self.sums[..=at].iter().for_each(|placed| self.left[placed.abs_diff(sum)] += 1);
                return false;
            }
        }
        self.sums.push(sum);
        true
    }

    fn take_back(&mut self) {
        if let Some(sum) = self.sums.pop() {
            self.sums.iter().for_each(|placed| self.left[placed.abs_diff(sum)] += 1);
        }
    }

    /// Places all other sums: without recursion, each choice being the far end first and then its mirror image.
    fn rest(&mut self, count: usize) -> bool {
        // What is to be tried: how many sums were placed before, and the sum.
        let mut choices: Vec<(usize, usize)> = Vec::new();
        loop {
            if self.sums.len() == count {
                return true;
            }
            if self.steps > STEPS_MAX {
                return false;
            }
            if let Some(greatest) = (0..self.left.len()).rev().find(|size| self.left[*size] > 0) {
                let mirrored = self.records - greatest;
                if mirrored != greatest {
                    choices.push((self.sums.len(), mirrored));
                }
                choices.push((self.sums.len(), greatest));
            }
            loop {
                let Some((placed, sum)) = choices.pop() else { return false };
                while self.sums.len() > placed {
                    self.take_back();
                }
                if self.place(sum) {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ideal::{Ideal, dense};
    use super::*;

    fn recovered(values: Vec<i64>, queries: usize) -> (Vec<i64>, Estimates, Span) {
        let ideal = Ideal::new(values, queries, 1);
        let estimates = recover(&ideal.recording.observed.searches, ideal.values.len(), ideal.span());
        let mut sorted = ideal.values.clone();
        sorted.sort_unstable();
        let span = ideal.span();
        (sorted, estimates, span)
    }

    fn is_right(sorted: &[i64], estimates: &Estimates, span: Span) -> bool {
        let mirrored = sorted.iter().rev().map(|value| Some(span.least + span.greatest - value));
        sorted.iter().map(|value| Some(*value)).eq(estimates.iter().copied())
            || mirrored.eq(estimates.iter().copied())
    }

    #[test]
    fn enough_volumes_give_the_number_of_records_of_each_value() {
        for values in [dense(8, 1, 1), vec![1, 1, 1, 2, 4, 4, 5, 8, 8, 8, 8, 8], dense(10, 3, 1)] {
            let (sorted, estimates, span) = recovered(values, 200_000);
            assert!(is_right(&sorted, &estimates, span), "{sorted:?} {estimates:?}");
        }
    }

    #[test]
    fn few_volumes_give_nothing() {
        let (sorted, estimates, _) = recovered(vec![1, 1, 1, 2, 4, 4, 5, 8, 8, 8, 8, 8], 30);
        assert_eq!(estimates, vec![None; sorted.len()]);
    }

    #[test]
    fn volumes_that_are_padded_give_nothing() {
        let ideal = Ideal::new(vec![1, 1, 1, 2, 4, 4, 5, 8, 8, 8, 8, 8], 100_000, 1);
        let mut searches = ideal.recording.observed.searches.clone();
        searches.iter_mut().for_each(|search| search.volume = search.volume.next_multiple_of(4));
        let estimates = recover(&searches, 12, ideal.span());
        let mut sorted = ideal.values.clone();
        sorted.sort_unstable();
        assert!(!is_right(&sorted, &estimates, ideal.span()), "{estimates:?}");
        let beyond = [Returned { volume: 13, items: Vec::new() }];
        assert_eq!(recover(&beyond, 12, ideal.span()), vec![None; 12]);
    }
}
