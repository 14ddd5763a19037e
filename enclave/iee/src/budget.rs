//! How much memory is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Part of the memory that is for what one step computes and then lets go: one in so many.
const SCRATCH_PART: usize = 8;

/// Part of what is left that data may take; the rest is for searches and changes.
const KEPT_EIGHTHS: usize = 6;

/// Bytes in use of those that there are, beside data. What is counted is what grows with data or requests.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    pub(crate) total: usize,
    reserved: Arc<AtomicUsize>,
}

/// What one client has reserved, by all its connections.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) bytes: AtomicUsize,
    /// Tells clients apart; 0 is the enclave itself.
    pub(crate) place: u64,
}

pub(crate) type Share = Arc<Held>;

/// Bytes that are counted for as long as this is there.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    all: Arc<AtomicUsize>,
    share: Share,
    bytes: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
        self.share.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

impl Budget {
    pub(crate) fn new(total: usize) -> Self {
        Self { total: total - total / SCRATCH_PART, ..Self::default() }
    }

    /// What one step may take beside everything that is counted.
    pub(crate) fn scratch(&self) -> usize {
        self.total / (SCRATCH_PART - 1)
    }

    /// Reserves of so many bytes that are left beside data, if a client may have so much more: the last quarter of what there is, is for who
    /// has nothing.
    pub(crate) fn reserve(&self, bytes: usize, most: usize, share: &Share) -> Option<Reserved> {
        let left = most.checked_sub(self.reserved.load(Relaxed))?.checked_sub(bytes)?;
        (bytes == 0 || share.bytes.load(Relaxed) == 0 || left >= most / 4).then(|| {
            self.reserved.fetch_add(bytes, Relaxed);
            share.bytes.fetch_add(bytes, Relaxed);
            Reserved { all: Arc::clone(&self.reserved), share: Arc::clone(share), bytes }
        })
    }

    /// How much data there may be.
    pub(crate) fn for_data(&self) -> usize {
        self.total / 8 * KEPT_EIGHTHS
    }
}
