//! What a query examined, counted while it runs: `explain` reports it.
//!
//! A store notes where it takes entries of an index and documents from its server; the notes go to the tally of
//! whoever polls the work, so that nothing between the two has to hand a counter on.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

thread_local! {
    static CURRENT: RefCell<Option<Arc<Tally>>> = const { RefCell::new(None) };
}

/// Counts of entries and documents.
#[derive(Debug, Default)]
pub struct Tally {
    entries: AtomicU64,
    documents: AtomicU64,
}

impl Tally {
    /// The tally of the work this is called in, for work that goes on in another task.
    #[must_use]
    pub fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Entries of indexes that were examined.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Documents that were fetched, one that was fetched twice counted twice.
    pub fn documents(&self) -> u64 {
        self.documents.load(Ordering::Relaxed)
    }
}

/// Notes that so many entries of an index came.
pub fn entries(count: usize) {
    note(|tally| &tally.entries, count);
}

/// Notes that so many documents came.
pub fn documents(count: usize) {
    note(|tally| &tally.documents, count);
}

fn note(of: fn(&Tally) -> &AtomicU64, count: usize) {
    CURRENT.with_borrow(|current| {
        if let Some(tally) = current {
            of(tally).fetch_add(count as u64, Ordering::Relaxed);
        }
    });
}

/// Work that is counted.
pub struct Counted<F> {
    tally: Option<Arc<Tally>>,
    work: Pin<Box<F>>,
}

impl<F> std::fmt::Debug for Counted<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counted").field("tally", &self.tally).finish_non_exhaustive()
    }
}

/// Has work count what it examines in a tally, or in none.
pub fn counted<F: Future>(tally: Option<Arc<Tally>>, work: F) -> Counted<F> {
    Counted { tally, work: Box::pin(work) }
}

/// Puts the tally back that was there before, also when the work panics.
struct Before(Option<Arc<Tally>>);

impl Drop for Before {
    fn drop(&mut self) {
        let before = self.0.take();
        CURRENT.with_borrow_mut(|current| *current = before);
    }
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let own = self.tally.clone();
        let _before = Before(CURRENT.with_borrow_mut(|current| std::mem::replace(current, own)));
        self.work.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn finished<F: Future>(work: F) -> F::Output {
        let mut work = Box::pin(work);
        loop {
            if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return done;
            }
        }
    }

    #[test]
    fn work_counts_in_its_own_tally_and_in_no_other() {
        let (outer, inner) = (Arc::new(Tally::default()), Arc::new(Tally::default()));
        let nested = Arc::clone(&inner);
        finished(counted(Some(Arc::clone(&outer)), async move {
            documents(2);
            counted(Some(nested), async { entries(5) }).await;
            counted(Tally::current(), async { documents(3) }).await;
            counted(None, async { documents(100) }).await;
        }));
        documents(100);
        assert_eq!((outer.entries(), outer.documents()), (0, 5));
        assert_eq!((inner.entries(), inner.documents()), (5, 0));
    }
}
