//! Lists of rows that a query has found: 16 bytes a row, of the budget for memory.

use super::budget::{Budget, Claim};
use arras_protocol::RowId;
use arras_service::ServiceError;
use std::ops::Deref;

/// Rows fewer than which a list is too small to count.
const UNCOUNTED: usize = 1024;

/// Rows, and the memory they take.
#[derive(Debug)]
pub(super) struct Rows {
    rows: Vec<RowId>,
    /// Of these so many at the beginning are done with.
    done: usize,
    /// How many there were to be when there was no memory.
    refused: usize,
    claim: Claim,
}

impl Rows {
    /// No rows.
    pub(super) fn new(budget: &Budget) -> Self {
        Self { rows: Vec::new(), done: 0, refused: 0, claim: budget.claim() }
    }

    /// Adds rows. Error 146 if there is no memory for them.
    pub(super) fn extend(
        &mut self,
        further: impl ExactSizeIterator<Item = RowId>,
    ) -> Result<(), ServiceError> {
        let wanted = self.rows.len() + further.len();
        if wanted > self.rows.capacity() {
            // As the list grows the old one and the new are there for a while.
            let capacity = wanted.max(self.rows.capacity().saturating_mul(3) / 2);
            if capacity > UNCOUNTED {
                let held =
                    self.claim.hold(capacity.saturating_add(self.rows.capacity()) * size_of::<RowId>());
                held.inspect_err(|_| self.refused = wanted)?;
            }
            self.rows.reserve_exact(capacity - self.rows.len());
        }
        self.rows.extend(further);
        Ok(())
    }

    /// How many have been met, those included that there was no memory for.
    pub(super) fn met(&self) -> usize {
        self.rows.len().max(self.refused)
    }

    /// Puts them in their own order, each once.
    pub(super) fn sort(&mut self) {
        self.rows.drain(..self.done);
        self.done = 0;
        self.rows.sort_unstable();
        self.rows.dedup();
    }

    /// Leaves those out that do not pass.
    pub(super) fn retain(&mut self, passes: impl FnMut(&RowId) -> bool) {
        self.rows.retain(passes);
    }

    /// Is done with the first of them.
    pub(super) fn pass(&mut self, count: usize) {
        self.done = self.done.saturating_add(count).min(self.rows.len());
    }
}

impl Deref for Rows {
    type Target = [RowId];

    fn deref(&self) -> &[RowId] {
        self.rows.get(self.done..).unwrap_or_default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn row(number: u32) -> RowId {
        let mut row = RowId([0; 16]);
        row.0[..4].copy_from_slice(&number.to_be_bytes());
        row
    }

    #[test]
    fn rows_are_counted_and_refused_beyond_the_budget() {
        let budget = Budget::new(8 << 20);
        let mut rows = Rows::new(&budget);
        let chunk = |number: u32| (number * 1000..(number + 1) * 1000).map(row);
        let added = (0..1000).take_while(|number| rows.extend(chunk(*number)).is_ok()).count();
        assert!((50..131).contains(&added), "{added} thousand rows in 2 MiB");
        assert!(budget.held_bytes() >= rows.len() * 16 && budget.held_bytes() <= 2 << 20);
        drop(rows);
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn rows_that_are_done_with_are_left_out() {
        let budget = Budget::new(8 << 20);
        let mut rows = Rows::new(&budget);
        rows.extend([3, 1, 2, 3].map(row).into_iter()).unwrap();
        rows.pass(1);
        assert_eq!(*rows, [row(1), row(2), row(3)]);
        rows.sort();
        rows.retain(|other| *other != row(2));
        rows.pass(1);
        assert_eq!(*rows, [row(3)]);
        rows.pass(7);
        assert!(rows.is_empty());
    }
}
