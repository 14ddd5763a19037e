//! A sign to an operation that it is to end before it is done.
//!
//! A read is ended by dropping its future: nothing is left half done. A write is not, since its caller must be told
//! what became of it: it looks at this sign between two of its atomic parts, and ends there with the sign's error.

use crate::error::{Fault, ServiceError};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;

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
pub struct Interrupt(Arc<AtomicU8>);

impl Interrupt {
    /// Asks the operation to end; false if it was asked before.
    pub fn raise(&self, reason: Reason) -> bool {
        let sign = match reason {
            Reason::Killed => 1,
            Reason::Expired => 2,
            Reason::Gone => 3,
            Reason::Stopping => 4,
        };
        self.0.compare_exchange(0, sign, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Why the operation is to end, if it is.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        match self.0.load(Ordering::SeqCst) {
            0 => None,
            1 => Some(Reason::Killed),
            2 => Some(Reason::Expired),
            3 => Some(Reason::Gone),
            _ => Some(Reason::Stopping),
        }
    }

    /// Something that leaves nothing half done when it is dropped, until the operation is to end: that is looked at whenever it
    /// could go on.
    ///
    /// # Errors
    /// Its own, and [`Reason::error`].
    pub async fn during<T>(
        &self,
        work: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, ServiceError> {
        let mut work = pin!(work);
        poll_fn(|context| match self.check() {
            Ok(()) => work.as_mut().poll(context),
            Err(interrupted) => Poll::Ready(Err(interrupted)),
        })
        .await
    }

    /// Fails if the operation is to end.
    ///
    /// # Errors
    /// [`Reason::error`].
    pub fn check(&self) -> Result<(), ServiceError> {
        self.reason().map_or(Ok(()), |reason| Err(reason.error()))
    }
}
