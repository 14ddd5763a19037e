//! Something that happens once, and those who wait for it in the order in which they came: the runtime's own watch channels
//! wake them in an order that no seed says.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// False, and then true.
#[derive(Debug, Default)]
pub struct Flag {
    is_raised: AtomicBool,
    waiting: Notify,
}

impl Flag {
    /// Raises it; whether it was raised before.
    pub fn raise(&self) -> bool {
        let before = self.is_raised.swap(true, Ordering::SeqCst);
        self.waiting.notify_waiters();
        before
    }

    /// True once it was raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::SeqCst)
    }

    /// Completes when it is raised.
    pub async fn raised(&self) {
        loop {
            let mut next = std::pin::pin!(self.waiting.notified());
            next.as_mut().enable();
            if self.is_raised() {
                return;
            }
            next.await;
        }
    }
}
