//! How much memory is in use.

/// Part of the memory that is for what one step computes and then lets go: one in so many.
const SCRATCH_PART: usize = 8;

/// Part of what is left that data may take; the rest is for searches and changes.
const KEPT_EIGHTHS: usize = 6;

/// Bytes in use of those that there are. What is counted is what grows with data or requests.
#[derive(Debug)]
pub(crate) struct Budget {
    total: usize,
    used: usize,
    /// Bytes of `used` that are data.
    kept: usize,
}

impl Budget {
    pub(crate) fn new(total: usize) -> Self {
        Self { total: total - total / SCRATCH_PART, used: 0, kept: 0 }
    }

    /// What one step may take beside everything that is counted.
    pub(crate) fn scratch(&self) -> usize {
        self.total / (SCRATCH_PART - 1)
    }

    pub(crate) fn free(&self) -> usize {
        self.total.saturating_sub(self.used)
    }

    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.free();
        if fits {
            self.used += bytes;
        }
        fits
    }

    /// How much more data there may be.
    pub(crate) fn free_for_data(&self) -> usize {
        self.for_data().saturating_sub(self.kept)
    }

    /// How much data there may be in all.
    pub(crate) fn for_data(&self) -> usize {
        self.total / 8 * KEPT_EIGHTHS
    }

    /// Lets go of data.
    pub(crate) fn drop_data(&mut self, bytes: usize) {
        self.kept = self.kept.saturating_sub(bytes);
        self.release(bytes);
    }

    /// Counts what was reserved as data.
    pub(crate) fn keep(&mut self, bytes: usize) {
        self.kept = self.kept.saturating_add(bytes);
    }

    /// Counts data that is there already.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.used = self.used.saturating_add(bytes);
        self.keep(bytes);
    }

    /// What one request can have once all others have ended.
    pub(crate) fn most(&self) -> usize {
        self.total.saturating_sub(self.kept)
    }

    pub(crate) fn release(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }
}
