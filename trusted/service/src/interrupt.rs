//! A sign to an operation that it is to end before it is done.
//!
//! A read is ended by dropping its future: nothing is left half done. A write is not, since its caller must be told
//! what became of it: it looks at this sign between two of its atomic parts, and ends there with the sign's error.

use crate::error::{Fault, ServiceError};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::Notify;

/// Why an operation is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Somebody asked for it (`killOp`).
    Killed,
    /// Its time is over (`maxTimeMS`).
    Expired,
    /// The client that asked for it has gone.
    Gone,
    /// The process stops.
    Stopping,
}

impl Reason {
    /// What the operation answers.
    #[must_use]
    pub fn error(self) -> ServiceError {
        let message = match self {
            Self::Killed => "operation was interrupted",
            Self::Expired => "operation exceeded time limit",
            Self::Gone => "operation was interrupted because the client disconnected",
            Self::Stopping => "interrupted at shutdown",
        };
        ServiceError::new(Fault::Interrupted(self), message)
    }
}

/// The sign; copies are the same one. The first reason given stays.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Sign>);

#[derive(Debug, Default)]
struct Sign {
    reason: AtomicU8,
    raised: Notify,
}

impl Interrupt {
    /// Asks the operation to end; false if it was asked before.
    pub fn raise(&self, reason: Reason) -> bool {
        let sign = match reason {
            Reason::Killed => 1,
            Reason::Expired => 2,
            Reason::Gone => 3,
            Reason::Stopping => 4,
        };
        let is_first = self.0.reason.compare_exchange(0, sign, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        self.0.raised.notify_waiters();
        is_first
    }

    /// Why the operation is to end, if it is.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        match self.0.reason.load(Ordering::SeqCst) {
            0 => None,
            1 => Some(Reason::Killed),
            2 => Some(Reason::Expired),
            3 => Some(Reason::Gone),
            _ => Some(Reason::Stopping),
        }
    }

    /// Completes when the operation is asked to end.
    pub async fn raised(&self) -> Reason {
        loop {
            let mut raised = pin!(self.0.raised.notified());
            // Listening before looking: a sign that is given in between is heard.
            raised.as_mut().enable();
            if let Some(reason) = self.reason() {
                return reason;
            }
            raised.await;
        }
    }

    /// Something that leaves nothing half done when it is dropped, until the operation is to end: whatever it waits for.
    ///
    /// # Errors
    /// Its own, and [`Reason::error`].
    pub async fn during<T>(
        &self,
        work: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, ServiceError> {
        tokio::select! {
            biased;
            reason = self.raised() => Err(reason.error()),
            outcome = work => outcome,
        }
    }

    /// Fails if the operation is to end.
    ///
    /// # Errors
    /// [`Reason::error`].
    pub fn check(&self) -> Result<(), ServiceError> {
        self.reason().map_or(Ok(()), |reason| Err(reason.error()))
    }
}
