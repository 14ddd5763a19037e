//! How much memory is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Part of the memory that is for what one step computes and then lets go: one in so many.
const SCRATCH_PART: usize = 8;

/// Part of what is left that data may take; the rest is for searches and changes.
const KEPT_EIGHTHS: usize = 6;

/// Bytes in use of those that there are. What is counted is what grows with data or requests.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    total: usize,
    /// Bytes that are data, or are counted as such before it comes.
    pub(crate) kept: usize,
    /// Bytes beside them.
    reserved: Arc<AtomicUsize>,
}

/// What one client has reserved, by all its connections.
#[derive(Debug, Default)]
pub(crate) struct Held {
    bytes: AtomicUsize,
    /// Tells clients apart; 0 is the enclave itself.
    pub(crate) place: u64,
}

pub(crate) type Share = Arc<Held>;

impl Held {
    pub(crate) fn by(place: u64) -> Share {
        Arc::new(Self { place, ..Self::default() })
    }
}

/// Bytes that are counted for as long as this is there.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    all: Arc<AtomicUsize>,
    share: Share,
    bytes: usize,
}

impl Reserved {
    /// Whose.
    pub(crate) fn place(&self) -> u64 {
        self.share.place
    }

    /// Whether it is of somebody who has no less than another.
    pub(crate) fn is_of_no_less(&self, share: &Share) -> bool {
        self.share.bytes.load(Relaxed) >= share.bytes.load(Relaxed)
    }
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

    pub(crate) fn free(&self) -> usize {
        self.most().saturating_sub(self.reserved.load(Relaxed))
    }

    /// Whether a client may have so much more: the last quarter of what there is, is for who has nothing.
    pub(crate) fn is_fair(&self, bytes: usize, share: &Share) -> bool {
        bytes == 0 || share.bytes.load(Relaxed) == 0 || self.free().saturating_sub(bytes) >= self.most() / 4
    }

    pub(crate) fn reserve(&self, bytes: usize, share: &Share) -> Option<Reserved> {
        (bytes <= self.free() && self.is_fair(bytes, share)).then(|| {
            self.reserved.fetch_add(bytes, Relaxed);
            share.bytes.fetch_add(bytes, Relaxed);
            Reserved { all: Arc::clone(&self.reserved), share: Arc::clone(share), bytes }
        })
    }

    /// How much more data there may be.
    pub(crate) fn free_for_data(&self) -> usize {
        self.for_data().saturating_sub(self.kept)
    }

    /// How much data there may be in all.
    pub(crate) fn for_data(&self) -> usize {
        self.total / 8 * KEPT_EIGHTHS
    }

    /// What one request can have once all others have ended.
    pub(crate) fn most(&self) -> usize {
        self.total.saturating_sub(self.kept)
    }
}
