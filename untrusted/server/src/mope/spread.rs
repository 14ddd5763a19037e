//! Spreading a range of labels anew, in place, some of them at a time; and moves of labels that spell paths.
//!
//! Labels that go down are moved from the lowest on, then those that go up from the highest on. Old labels and new ones are
//! both ascending, so none of them is moved to where another still is, and they are in order at every moment: what is
//! lower than one that goes up, and goes up, is lower than where that one is now.

use super::malformed;
use super::store::{Index, LABELS, TABLE};
use crate::backend::storage;
use arras_protocol::Refusal;
use arras_protocol::mope::{Label, Move};
use arras_storage::{Direction, Read, Write};
use std::ops::{Bound, ControlFlow};

/// Labels that are read at once.
const PAGE: usize = 1024;

/// Most labels that one summary's moves are about: they are held at once.
const MOVED_MAX: usize = 1 << 20;

/// The labels from `low` to `high` become `start`, `start + step`, ... in their order.
pub(super) struct Spread {
    pub(super) low: Label,
    pub(super) high: Label,
    pub(super) start: Label,
    pub(super) step: u64,
}

impl Spread {
    /// Where the one goes that has so many below it.
    fn target(&self, rank: u64) -> Option<Label> {
        self.step.checked_mul(rank)?.checked_add(self.start)
    }
}

/// A label and its ciphertext.
type Row = (Label, Vec<u8>);

/// Some labels from an end of a range.
fn page(
    reader: &impl Read,
    index: &Index,
    (low, high): (Bound<Label>, Bound<Label>),
    direction: Direction,
    most: usize,
) -> Result<Vec<Row>, Refusal> {
    let key = |label| index.label_key(label);
    let (low, high) = (low.map(key), high.map(key));
    let range = (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
    let (mut rows, mut failure) = (Vec::new(), None);
    let visit = &mut |key: &[u8], ciphertext: &[u8]| {
        match index.label_in(key) {
            Ok(label) => rows.push((label, ciphertext.to_vec())),
            Err(refusal) => failure = Some(refusal),
        }
        let goes_on = failure.is_none() && rows.len() < most;
        if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    reader.scan(LABELS, range, direction, visit).map_err(storage)?;
    failure.map_or(Ok(rows), Err)
}

fn place(writer: &mut impl Write, index: &Index, (old, ciphertext): Row, new: Label) -> Result<(), Refusal> {
    writer.delete(LABELS, &index.label_key(old)).map_err(storage)?;
    writer.put(LABELS, &index.label_key(new), &ciphertext).map_err(storage)?;
    writer.put(TABLE, &index.table_key(&ciphertext), &new.to_be_bytes()).map_err(storage)
}

/// Spreads a range.
pub(super) fn apply(writer: &mut impl Write, index: &Index, spread: &Spread) -> Result<(), Refusal> {
    let Spread { low, high, start, step } = *spread;
    if low > high || step == 0 || start == Label::MIN {
        return Err(malformed("a spread of no range, without a step, or from an end of the numbers"));
    }
    let count = downwards(writer, index, spread)?;
    let Some(highest) = count.checked_sub(1) else { return Ok(()) };
    upwards(writer, index, spread, highest)
}

/// Checks that the labels beside the range stay beside it.
fn check(reader: &impl Read, index: &Index, spread: &Spread, last: Label) -> Result<(), Refusal> {
    let below = (Bound::Included(Label::MIN), Bound::Excluded(spread.low));
    let below = page(reader, index, below, Direction::Descending, 1)?;
    let above = (Bound::Excluded(spread.high), Bound::Included(Label::MAX));
    let above = page(reader, index, above, Direction::Ascending, 1)?;
    let is_beside = below.iter().all(|(label, _)| *label < spread.start)
        && above.iter().all(|(label, _)| last < *label)
        && last < Label::MAX;
    if is_beside { Ok(()) } else { Err(malformed("a spread over labels beside its range")) }
}

/// How many labels there are; those that go down are moved.
fn downwards(writer: &mut impl Write, index: &Index, spread: &Spread) -> Result<u64, Refusal> {
    let (mut rank, mut from) = (0_u64, Bound::Included(spread.low));
    let mut count = 0_u64;
    // Nothing is moved before it is known that there is room.
    loop {
        let rows = page(writer, index, (from, Bound::Included(spread.high)), Direction::Ascending, PAGE)?;
        let Some((last, _)) = rows.last() else { break };
        count = count.saturating_add(rows.len() as u64);
        from = Bound::Excluded(*last);
    }
    let Some(highest) = count.checked_sub(1) else { return Ok(0) };
    let last = spread.target(highest).ok_or_else(|| malformed("a spread beyond the numbers"))?;
    check(writer, index, spread, last)?;
    from = Bound::Included(spread.low);
    while rank < count {
        let rows = page(writer, index, (from, Bound::Included(spread.high)), Direction::Ascending, PAGE)?;
        let Some((last, _)) = rows.last() else { break };
        from = Bound::Excluded(*last);
        for row in rows {
            let new = spread.target(rank).ok_or_else(|| malformed("a spread beyond the numbers"))?;
            rank = rank.saturating_add(1);
            if new < row.0 {
                place(writer, index, row, new)?;
            }
        }
    }
    Ok(count)
}

/// Moves those that go up. `rank`: of the highest.
fn upwards(writer: &mut impl Write, index: &Index, spread: &Spread, mut rank: u64) -> Result<(), Refusal> {
    let mut until = Bound::Included(spread.high);
    // Those that went down may be below the range now.
    let low = Bound::Included(spread.low.min(spread.start));
    loop {
        let rows = page(writer, index, (low, until), Direction::Descending, PAGE)?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        until = Bound::Excluded(*last);
        for row in rows {
            let new = spread.target(rank).ok_or_else(|| malformed("a spread beyond the numbers"))?;
            if new > row.0 {
                place(writer, index, row, new)?;
            }
            let Some(below) = rank.checked_sub(1) else { return Ok(()) };
            rank = below;
        }
    }
}

/// Applies moves, all at the same time: what goes where another one was goes there once that is gone.
pub(super) fn shift(writer: &mut impl Write, index: &Index, moves: &[Move]) -> Result<(), Refusal> {
    let mut moved = Vec::new();
    for step in moves.iter().filter(|step| step.low <= step.high) {
        let range = (Bound::Included(step.low), Bound::Included(step.high));
        let most = MOVED_MAX.saturating_sub(moved.len()).saturating_add(1);
        for (label, ciphertext) in page(writer, index, range, Direction::Ascending, most)? {
            writer.delete(LABELS, &index.label_key(label)).map_err(storage)?;
            moved.push((step.transform(label).unwrap_or(label), ciphertext));
        }
        if moved.len() > MOVED_MAX {
            return Err(Refusal::Limit(format!("moves of more than {MOVED_MAX} labels")));
        }
    }
    for (label, ciphertext) in moved {
        let by_label = index.label_key(label);
        if writer.get(LABELS, &by_label).map_err(storage)?.is_some() {
            return Err(malformed("a move onto a label that stays"));
        }
        writer.put(LABELS, &by_label, &ciphertext).map_err(storage)?;
        writer.put(TABLE, &index.table_key(&ciphertext), &label.to_be_bytes()).map_err(storage)?;
    }
    Ok(())
}
