//! What the client keeps of a value that has entries: under which counters they are.
//!
//! A record has the same number of bytes whatever it says ([`RECORD_BYTES`]). It names at most [`RUNS_MAX`] runs of
//! counters, outside of which no entry is, and how many entries each run has. So the client knows how many entries
//! the value has, how many counters of a search would find none, and, as long as entries go in the order in which
//! they came (either way) or one at a time, a search covers hardly a counter in vain.

use crate::contract::Held;
use rand::CryptoRng;
use std::collections::BTreeSet;
use std::ops::Range;

/// Runs a record names at most; past it the two with the smallest gap between them become one.
pub const RUNS_MAX: usize = 4;
/// Length of a record.
pub const RECORD_BYTES: usize = SALT_BYTES + 4 + RUNS_MAX * 12;
const SALT_BYTES: usize = 8;

/// Tells the trees of one value apart: drawn when the value gets its first entry, and anew when all its entries are
/// numbered anew. A value that comes back after it was gone shares nothing with what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt(pub [u8; SALT_BYTES]);

impl Salt {
    fn random(rng: &mut impl CryptoRng) -> Self {
        let mut salt = [0; SALT_BYTES];
        rng.fill_bytes(&mut salt);
        Self(salt)
    }

    /// What a document's header keeps of the salt.
    fn tag(self) -> [u8; 4] {
        let [first, second, third, fourth, ..] = self.0;
        [first, second, third, fourth]
    }
}

/// Counters from `start` up to `end`, of which `live` have an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first.
    pub start: u32,
    /// After the last.
    pub end: u32,
    /// How many have an entry; never none.
    pub live: u32,
}

impl Run {
    fn covered(self) -> u32 {
        self.end - self.start
    }

    fn holes(self) -> u32 {
        self.covered() - self.live
    }
}

/// A record was not made by [`Occurrences::encode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a record of a value's entries")]
pub struct NoRecord;

/// A value's entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrences {
    salt: Salt,
    next: u32,
    /// Ascending, apart from each other.
    runs: Vec<Run>,
}

impl Occurrences {
    /// Of a value that has none yet.
    #[must_use]
    pub fn new(rng: &mut impl CryptoRng) -> Self {
        Self { salt: Salt::random(rng), next: 0, runs: Vec::new() }
    }

    /// The salt of its tree.
    #[must_use]
    pub fn salt(&self) -> Salt {
        self.salt
    }

    /// Where its entries are, ascending.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The counter that is taken next.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Number of entries.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.live)).sum()
    }

    /// Counters that a search covers in vain.
    #[must_use]
    pub fn holes(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.holes())).sum()
    }

    /// True if the counter may have an entry.
    #[must_use]
    pub fn covers(&self, counter: u32) -> bool {
        self.runs.iter().any(|run| (run.start..run.end).contains(&counter))
    }

    /// Takes a counter for a new entry; none if all have been taken.
    pub fn take(&mut self) -> Option<u32> {
        let counter = self.next;
        self.next = counter.checked_add(1)?;
        match self.runs.last_mut() {
            Some(last) if last.end == counter => {
                last.end = self.next;
                last.live += 1;
            }
            _ => self.runs.push(Run { start: counter, end: self.next, live: 1 }),
        }
        self.bound();
        Some(counter)
    }

    /// The same, as the header of the entry's document keeps it.
    pub fn take_held(&mut self) -> Option<Held> {
        self.take().map(|counter| Held { tree: self.salt.tag(), counter })
    }

    /// True if an entry may be there: it is of this tree, and its counter is covered.
    #[must_use]
    pub fn may_hold(&self, held: Held) -> bool {
        held.tree == self.salt.tag() && self.covers(held.counter)
    }

    /// Notes that the entry of `counter` goes. False if no entry can be there: nothing changes.
    pub fn release(&mut self, counter: u32) -> bool {
        let Some(place) = self.runs.iter().position(|run| (run.start..run.end).contains(&counter)) else {
            return false;
        };
        let Some(run) = self.runs.get_mut(place) else {
            return false;
        };
        let dense = run.holes() == 0;
        run.live -= 1;
        if run.live == 0 {
            self.runs.remove(place);
        } else if counter == run.start {
            run.start += 1;
        } else if counter + 1 == run.end {
            run.end -= 1;
        } else if dense {
            let after = Run { start: counter + 1, end: run.end, live: run.end - counter - 1 };
            *run = Run { start: run.start, end: counter, live: counter - run.start };
            self.runs.insert(place + 1, after);
            self.bound();
        }
        true
    }

    /// Notes that no counter of `piece` has an entry any more: what begins or ends there is covered no further. A run
    /// knows only how many of its counters have one, not which.
    pub fn vacate(&mut self, piece: &Range<u32>) {
        for run in &mut self.runs {
            let start = if piece.start <= run.start { run.start.max(piece.end) } else { run.start };
            let end = if piece.end >= run.end { run.end.min(piece.start) } else { run.end };
            if end.checked_sub(start).is_some_and(|covered| covered >= run.live) {
                (run.start, run.end) = (start, end);
            }
        }
    }

    /// The stretches of counters that all have an entry, ascending, if the counters in `released` are all that have
    /// none within the runs.
    #[must_use]
    pub fn dense_stretches(&self, released: &BTreeSet<u32>) -> Option<Vec<Range<u32>>> {
        let mut stretches = Vec::new();
        for run in &self.runs {
            let (mut start, mut holes) = (run.start, 0);
            for gone in released.range(run.start..run.end) {
                stretches.push(start..*gone);
                (start, holes) = (gone + 1, holes + 1);
            }
            stretches.push(start..run.end);
            if holes != run.holes() {
                return None;
            }
        }
        stretches.retain(|stretch| !stretch.is_empty());
        Some(stretches)
    }

    /// Notes that all counters in `stretches`, which ascend, have an entry: a run whose entries they account for covers
    /// no others any more.
    pub fn know_dense(&mut self, stretches: &[Range<u32>]) {
        let mut runs: Vec<Run> = Vec::new();
        for run in std::mem::take(&mut self.runs) {
            let within = stretches.iter().map(|dense| dense.start.max(run.start)..dense.end.min(run.end));
            let within: Vec<Range<u32>> = within.filter(|dense| !dense.is_empty()).collect();
            if within.iter().map(|dense| dense.end - dense.start).sum::<u32>() != run.live {
                runs.push(run);
                continue;
            }
            for Range { start, end } in within {
                match runs.last_mut().filter(|last| last.end == start && last.holes() == 0) {
                    Some(last) => *last = Run { start: last.start, end, live: end - last.start },
                    None => runs.push(Run { start, end, live: end - start }),
                }
            }
        }
        self.runs = runs;
        self.bound();
    }

    /// These entries, if what led from them to `later` did not happen: the counters that it took stay taken, since
    /// they may have been seen.
    #[must_use]
    pub fn without_those_of(mut self, later: &Self) -> Self {
        if self.salt == later.salt {
            self.next = self.next.max(later.next);
        }
        self
    }

    /// Joins runs until a record can name them.
    fn bound(&mut self) {
        while self.runs.len() > RUNS_MAX {
            let gap = |place: &usize| match (self.runs.get(*place), self.runs.get(place + 1)) {
                (Some(before), Some(after)) => after.start - before.end,
                _ => u32::MAX,
            };
            let place = (0..self.runs.len() - 1).min_by_key(gap).unwrap_or_default();
            let after = self.runs.remove(place + 1);
            if let Some(run) = self.runs.get_mut(place) {
                *run = Run { start: run.start, end: after.end, live: run.live + after.live };
            }
        }
    }

    /// The record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut record = Vec::with_capacity(RECORD_BYTES);
        record.extend(self.salt.0);
        record.extend(self.next.to_be_bytes());
        for run in &self.runs {
            [run.start, run.end, run.live].iter().for_each(|number| record.extend(number.to_be_bytes()));
        }
        record.resize(RECORD_BYTES, 0);
        record
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`NoRecord`].
    pub fn decode(record: &[u8]) -> Result<Self, NoRecord> {
        let (salt, numbers) = record.split_first_chunk().ok_or(NoRecord)?;
        let (numbers, rest) = numbers.as_chunks::<4>();
        if record.len() != RECORD_BYTES || !rest.is_empty() {
            return Err(NoRecord);
        }
        let mut numbers = numbers.iter().map(|number| u32::from_be_bytes(*number));
        let mut number = || numbers.next().ok_or(NoRecord);
        let next = number()?;
        let mut runs: Vec<Run> = Vec::new();
        for _ in 0..RUNS_MAX {
            let run = Run { start: number()?, end: number()?, live: number()? };
            if run.live == 0 {
                continue;
            }
            let from = runs.last().map_or(0, |last| last.end);
            let apart = from <= run.start && run.start < run.end && run.end <= next;
            if !apart || run.live > run.covered() {
                return Err(NoRecord);
            }
            runs.push(run);
        }
        Ok(Self { salt: Salt(*salt), next, runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn fresh() -> Occurrences {
        Occurrences::new(&mut rand::rng())
    }

    proptest! {
        /// Beside a set that is exact: the same number of entries, all of them covered, and the record comes back.
        #[test]
        fn every_entry_is_covered_and_counted(turns in prop::collection::vec(any::<Option<prop::sample::Index>>(), 1..300)) {
            let (mut occurrences, mut exact) = (fresh(), BTreeSet::new());
            for turn in turns {
                match turn {
                    Some(place) if !exact.is_empty() => {
                        let counter = *exact.iter().nth(place.index(exact.len())).expect("is in range");
                        exact.remove(&counter);
                        prop_assert!(occurrences.release(counter));
                    }
                    _ => {
                        let counter = occurrences.take().expect("there are more");
                        prop_assert!(exact.insert(counter), "a counter is taken once");
                    }
                }
                prop_assert_eq!(occurrences.live(), exact.len() as u64);
                prop_assert!(exact.iter().all(|counter| occurrences.covers(*counter)));
                prop_assert!(occurrences.runs().len() <= RUNS_MAX);
                let record = occurrences.encode();
                prop_assert_eq!(record.len(), RECORD_BYTES);
                prop_assert_eq!(Occurrences::decode(&record), Ok(occurrences.clone()));
            }
        }
    }

    #[test]
    fn entries_that_go_in_order_or_one_by_one_leave_nothing_to_cover_in_vain() {
        let mut queue = fresh();
        for counter in 0..20_000 {
            queue.take();
            if counter >= 10 {
                assert!(queue.release(counter - 10));
            }
        }
        assert_eq!((queue.live(), queue.holes()), (10, 0));
        // One that stays while another comes and goes.
        let mut away_and_back = fresh();
        away_and_back.take();
        for _ in 0..20_000 {
            let counter = away_and_back.take().expect("there are more");
            assert!(away_and_back.release(counter));
        }
        assert_eq!((away_and_back.live(), away_and_back.holes()), (1, 0));
    }

    #[test]
    fn a_stretch_with_holes_is_emptied_by_moving_what_is_left_of_it() {
        let mut occurrences = fresh();
        (0..100).for_each(|_| assert!(occurrences.take().is_some()));
        // The last one stays, so that the next counter follows on the stretch.
        let gone: Vec<u32> = (10..70).filter(|counter| counter % 3 != 0).collect();
        assert!(gone.iter().all(|counter| occurrences.release(*counter)));
        assert!(occurrences.holes() > 0);
        for begin in (0..100).step_by(25) {
            let piece = begin..begin + 25;
            // In no order, as the server names them.
            for left in piece.clone().rev().filter(|counter| !gone.contains(counter)) {
                assert!(occurrences.release(left) && occurrences.take().is_some());
            }
            occurrences.vacate(&piece);
        }
        assert_eq!((occurrences.live(), occurrences.holes()), (60, 0));
    }

    #[test]
    fn stretches_that_are_known_to_be_full_leave_nothing_to_cover_in_vain() {
        let mut occurrences = fresh();
        (0..1000).for_each(|_| assert!(occurrences.take().is_some()));
        let released: BTreeSet<u32> = [100, 300, 301, 500, 700, 900].into();
        assert!(released.iter().all(|gone| occurrences.release(*gone)));
        assert!(occurrences.holes() > 0, "more stretches than a record names");
        let stretches = occurrences.dense_stretches(&released).expect("they are all that went");
        assert_eq!(stretches, [0..100, 101..300, 302..500, 501..700, 701..900, 901..1000]);
        let but_one = released.iter().copied().filter(|gone| *gone != 500).collect();
        let exact = occurrences.runs().iter().all(|run| !(run.start..run.end).contains(&500));
        assert!(exact || occurrences.dense_stretches(&but_one).is_none());
        // The least ones go to the end, until a record can name what is left.
        for stretch in [0..100, 101..300] {
            for counter in stretch.rev() {
                assert!(occurrences.release(counter) && occurrences.take().is_some());
            }
        }
        occurrences.know_dense(&[302..500, 501..700, 701..900, 901..occurrences.next()]);
        assert_eq!((occurrences.live(), occurrences.holes()), (994, 0));
        assert_eq!(occurrences.runs().len(), 4);
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let mut occurrences = fresh();
        (0..5).for_each(|_| assert!(occurrences.take().is_some()));
        let record = occurrences.encode();
        assert_eq!(Occurrences::decode(&record[1..]), Err(NoRecord));
        assert_eq!(Occurrences::decode(&[record.as_slice(), &[0]].concat()), Err(NoRecord));
        let mut many = record;
        many[SALT_BYTES + 4 + 11] = 6;
        assert_eq!(Occurrences::decode(&many), Err(NoRecord), "more entries than counters");
    }
}
