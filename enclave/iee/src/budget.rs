//! How much memory is in use.

use std::cell::Cell;
use std::rc::Rc;

/// Part of the memory that is for what one step computes and then lets go: one in so many.
const SCRATCH_PART: usize = 8;

/// Part of what is left that data may take; the rest is for searches and changes.
const KEPT_EIGHTHS: usize = 6;

/// Bytes in use of those that there are. What is counted is what grows with data or requests.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    total: usize,
    used: Cell<usize>,
    /// Bytes of `used` that are data.
    kept: Cell<usize>,
}

/// Bytes that are counted for as long as this is there.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    budget: Rc<Budget>,
    bytes: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.budget.used.update(|used| used.saturating_sub(self.bytes));
    }
}

impl Reserved {
    /// Counts some of them as data.
    pub(crate) fn keep(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.budget.kept.update(|kept| kept.saturating_add(bytes));
    }
}

impl Budget {
    pub(crate) fn new(total: usize) -> Rc<Self> {
        Rc::new(Self { total: total - total / SCRATCH_PART, ..Self::default() })
    }

    /// What one step may take beside everything that is counted.
    pub(crate) fn scratch(&self) -> usize {
        self.total / (SCRATCH_PART - 1)
    }

    pub(crate) fn free(&self) -> usize {
        self.total.saturating_sub(self.used.get())
    }

    pub(crate) fn reserve(self: &Rc<Self>, bytes: usize) -> Option<Reserved> {
        (bytes <= self.free()).then(|| {
            self.used.update(|used| used + bytes);
            Reserved { budget: Rc::clone(self), bytes }
        })
    }

    /// How much more data there may be.
    pub(crate) fn free_for_data(&self) -> usize {
        self.for_data().saturating_sub(self.kept.get())
    }

    /// How much data there may be in all.
    pub(crate) fn for_data(&self) -> usize {
        self.total / 8 * KEPT_EIGHTHS
    }

    /// Lets go of data.
    pub(crate) fn drop_data(&self, bytes: usize) {
        self.kept.update(|kept| kept.saturating_sub(bytes));
        self.used.update(|used| used.saturating_sub(bytes));
    }

    /// Counts data that is there already.
    pub(crate) fn take(&self, bytes: usize) {
        self.kept.update(|kept| kept.saturating_add(bytes));
        self.used.update(|used| used.saturating_add(bytes));
    }

    /// What one request can have once all others have ended.
    pub(crate) fn most(&self) -> usize {
        self.total.saturating_sub(self.kept.get())
    }
}
