//! Which entries of a value are numbered anew, and how (Arx, VLDB'19, §5.3).
//!
//! *A value of few entries* is numbered anew as a whole, under another salt, in a random order. *One of many* is cleaned
//! piece by piece: the entries left in a stretch of counters move to counters not yet taken. Each piece is one write,
//! recorded with the value's record: entries out and in, and the headers of their documents, which hold the counters.
//! A crash leaves the state before it or after it; the tokens of both find every entry.
//!
//! *What it costs.* A value is worn if it has more holes than entries (and more than a few): so each
//! entry that moves is paid for by one that went. A value nobody searches for costs nothing but its record.

use super::occurrences::{Occurrences, RUNS_MAX, Run, Salt};
use super::staging::{ValueRecord, of_record, recorded};
use super::{ArxEqIndex, covered, searches};
use crate::contract::{Held, Occasion, Pending, Renumbered, Renumbering, Staged, State, Steps};
use crate::error::IndexError;
use arras_protocol::arx_eq::ArxEq as Protocol;
use arras_protocol::write::Step;
use arras_protocol::{Channel, RowId};
use rand::seq::SliceRandom;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Holes that are worth no cleanup, whatever the entries.
const HOLES_MIN: u64 = 16;
/// Most entries of a value that is numbered anew as a whole; and counters of a piece of one of more.
const PIECE: u32 = 1024;

/// How entries of a value are numbered anew.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Numbering {
    /// All of them, under another salt.
    Whole,
    /// Those at some counters, under counters not yet taken.
    Piece,
    /// The same, where all of these counters have an entry.
    Dense,
    /// The same; then all counters in `left` and from `next` on have one, and no others.
    LastDense { left: Vec<Range<u32>>, next: u32 },
}

impl Numbering {
    /// How many entries there must be at the counters, if that is known.
    fn entries(&self, before: &Occurrences, counters: &[Range<u32>]) -> Option<u64> {
        match self {
            Self::Whole => Some(before.live()),
            Self::Piece => None,
            Self::Dense | Self::LastDense { .. } => {
                Some(counters.iter().map(|piece| u64::from(piece.end - piece.start)).sum())
            }
        }
    }
}

/// What one write numbers anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    counters: Vec<Range<u32>>,
    numbering: Numbering,
}

/// True if a search of the value pays for more holes than entries.
pub(super) fn is_worn(occurrences: &Occurrences) -> bool {
    occurrences.holes() > occurrences.live().max(HOLES_MIN)
}

/// True if nothing shows that an entry of the value ever went; of many entries: no search covers it.
fn is_as_new(occurrences: &Occurrences) -> bool {
    if occurrences.live() > u64::from(PIECE) {
        return occurrences.holes() == 0;
    }
    let as_new = |run: &Run| run.start == 0 && u64::from(run.end) == occurrences.live();
    occurrences.live() == 0 || matches!(occurrences.runs(), [only] if as_new(only))
}

/// What of a value's entries is numbered anew. After a search only those that it showed: not if the value got entries, or
/// began anew, since.
pub(super) fn pieces(record: Option<&Occurrences>, occasion: &Occasion) -> Result<Vec<Piece>, IndexError> {
    let Some(now) = record else { return Ok(Vec::new()) };
    Ok(match occasion {
        Occasion::Searched(searched) => {
            let shown = |searched: &Occurrences| {
                now.salt() == searched.salt() && now.next() == searched.next() && is_worn(now)
            };
            let is_due = of_record(Some(searched))?.is_some_and(|searched| shown(&searched));
            if is_due { cut(now) } else { Vec::new() }
        }
        Occasion::Released(_) if is_as_new(now) => Vec::new(),
        Occasion::Released(released) => match now.dense_stretches(released) {
            Some(stretches) if now.live() > u64::from(PIECE) => least(stretches, now.next()),
            Some(_) | None => cut(now),
        },
    })
}

/// A value of few entries as a whole; the pieces of one of many that have holes.
fn cut(occurrences: &Occurrences) -> Vec<Piece> {
    let runs = occurrences.runs().iter();
    if occurrences.live() <= u64::from(PIECE) {
        let counters = runs.map(|run| run.start..run.end).collect();
        return vec![Piece { counters, numbering: Numbering::Whole }];
    }
    let sparse = runs.filter(|run| run.live < run.end - run.start);
    let pieces = sparse.flat_map(|run| short(run.start..run.end));
    pieces.map(|piece| Piece { counters: vec![piece], numbering: Numbering::Piece }).collect()
}

/// Counters, piece by piece.
fn short(counters: Range<u32>) -> impl Iterator<Item = Range<u32>> {
    let begins = counters.clone().step_by(PIECE as usize);
    begins.map(move |begin| begin..counters.end.min(begin.saturating_add(PIECE)))
}

/// Of a value whose entries are in these stretches, and nowhere else, the shortest ones, which move to its end, `next`, until a
/// record can name those that are left.
fn least(mut stretches: Vec<Range<u32>>, next: u32) -> Vec<Piece> {
    // What moves follows on the last one, if that reaches so far.
    let last = stretches.pop_if(|last| last.end == next);
    let mut moved = Vec::new();
    while stretches.len() >= RUNS_MAX {
        let shortest = (0..stretches.len()).min_by_key(|place| stretches.get(*place).map(Range::len));
        moved.extend(short(stretches.remove(shortest.unwrap_or_default())));
    }
    stretches.extend(last);
    let last_piece = Piece {
        counters: moved.pop().into_iter().collect(),
        numbering: Numbering::LastDense { left: stretches, next },
    };
    let dense = |piece| Piece { counters: vec![piece], numbering: Numbering::Dense };
    moved.into_iter().map(dense).chain([last_piece]).collect()
}

/// A value whose entries are numbered anew.
pub(super) struct Numbered<C> {
    index: Arc<ArxEqIndex<C>>,
    value: Vec<u8>,
    /// Of the tree that the pieces are of; none if there are none.
    salt: Option<Salt>,
    pieces: std::vec::IntoIter<Piece>,
    state: Arc<dyn State>,
}

impl<C> Numbered<C> {
    /// The pieces of a value by its record.
    pub(super) fn new(
        index: Arc<ArxEqIndex<C>>,
        value: Vec<u8>,
        record: Option<Occurrences>,
        pieces: Vec<Piece>,
        state: Arc<dyn State>,
    ) -> Self {
        let salt = record.map(|record| record.salt());
        Self { index, value, salt, pieces: pieces.into_iter(), state }
    }
}

impl<C: Channel<Protocol> + 'static> Renumbering for Numbered<C> {
    fn next(&mut self) -> Pending<'_, Result<Option<Box<dyn Renumbered>>, IndexError>> {
        Box::pin(async move {
            let Some(Piece { counters, numbering }) = self.pieces.next() else { return Ok(None) };
            let before = recorded(&*self.state, &self.index.keyed.record_name(&self.value))?;
            // One that began anew shares nothing with what it was.
            let Some(before) = before.filter(|before| Some(before.salt()) == self.salt) else {
                return Ok(None);
            };
            let mut rows = self.index.rows_at(&self.value, &before, &counters).await?;
            if numbering.entries(&before, &counters).is_some_and(|entries| entries != rows.len() as u64) {
                return Err(IndexError::Contradicted("an equality index lacks entries of a value"));
            }
            rows.shuffle(&mut self.state.randomness().rng());
            let whole = matches!(numbering, Numbering::Whole);
            let fresh = whole.then(|| Occurrences::new(&mut self.state.randomness().rng()));
            Ok(Some(Box::new(AtWork {
                index: Arc::clone(&self.index),
                value: self.value.clone(),
                rows,
                counters,
                numbering,
                now: before.clone(),
                before,
                fresh,
                steps: Steps::default(),
            }) as Box<dyn Renumbered>))
        })
    }
}

impl<C: Channel<Protocol>> ArxEqIndex<C> {
    /// The rows of a value's entries at some counters, each once.
    async fn rows_at(
        &self,
        value: &[u8],
        occurrences: &Occurrences,
        counters: &[Range<u32>],
    ) -> Result<Vec<RowId>, IndexError> {
        let salt = occurrences.salt();
        let tokens = counters.iter().flat_map(|piece| self.keyed.tokens_of(value, salt, piece.clone()));
        let mut rows = Vec::new();
        for values in searches(vec![tokens.collect()]) {
            let asked: u64 = values.iter().map(|tokens| covered(tokens)).sum();
            let reply = self.call(values).await?;
            rows.extend(reply.values.into_iter().flat_map(|matches| matches.rows));
            if rows.len() as u64 > asked.saturating_add(occurrences.live()) {
                return Err(IndexError::Peer("more rows than counters"));
            }
        }
        let mut seen = HashSet::with_capacity(rows.len());
        if !rows.iter().all(|row| seen.insert(*row)) {
            return Err(IndexError::Contradicted("an equality index repeats entries of a value"));
        }
        Ok(rows)
    }
}

/// A piece whose entries are known.
struct AtWork<C> {
    index: Arc<ArxEqIndex<C>>,
    value: Vec<u8>,
    rows: Vec<RowId>,
    counters: Vec<Range<u32>>,
    numbering: Numbering,
    before: Occurrences,
    now: Occurrences,
    /// What the value becomes that is numbered anew as a whole.
    fresh: Option<Occurrences>,
    steps: Steps,
}

impl<C: Send + Sync> Renumbered for AtWork<C> {
    fn rows(&self) -> &[RowId] {
        &self.rows
    }

    fn renumber(&mut self, row: RowId, held: Held) -> Result<Held, IndexError> {
        let (keyed, value) = (&self.index.keyed, self.value.as_slice());
        let named = self.counters.iter().any(|piece| piece.contains(&held.counter));
        if !named || !self.before.may_hold(held) || !self.now.release(held.counter) {
            let what = "an equality index names documents under other counters than theirs";
            return Err(IndexError::Contradicted(what));
        }
        self.steps.removed.push(Step::ArxEq(keyed.remove(value, self.before.salt(), held.counter)));
        let to = self.fresh.as_mut().unwrap_or(&mut self.now);
        let entry = to.take_held().ok_or(IndexError::Caller("a value has used all its counters"))?;
        self.steps.entries.push(Step::ArxEq(keyed.insert(value, to.salt(), entry.counter, row)));
        Ok(entry)
    }

    fn finish(self: Box<Self>) -> Staged {
        let Self { index, value, counters, numbering, before, mut now, fresh, steps, .. } = *self;
        match fresh {
            Some(fresh) => now = fresh,
            None => counters.iter().for_each(|piece| now.vacate(piece)),
        }
        if let Numbering::LastDense { mut left, next } = numbering {
            left.push(next..now.next());
            now.know_dense(&left);
        }
        let record = ValueRecord { before: Some(before), now };
        let state = vec![record.change(&index.keyed.record_name(&value))];
        Staged { steps, state, ..Staged::default() }
    }
}

#[cfg(test)]
mod tests;
