//! `maxTimeMS` as a deadline.

use crate::error::CommandError;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// When a command must have its answer, if ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Option<Instant>,
}

impl Deadline {
    /// A deadline in `limit` from now; `None`: never.
    pub(crate) fn within(limit: Option<Duration>) -> Self {
        // A limit too far away to be represented is no limit.
        Self { at: limit.and_then(|limit| Instant::now().checked_add(limit)) }
    }

    /// What is left of it.
    pub(crate) fn time_left(self) -> Option<Duration> {
        self.at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Runs a read, abandoning it at the deadline.
    pub(crate) async fn read<T, E>(self, work: impl Future<Output = Result<T, E>>) -> Result<T, CommandError>
    where
        CommandError: From<E>,
    {
        match self.at {
            None => Ok(work.await?),
            Some(at) => Ok(tokio::time::timeout_at(at, work).await.map_err(|_| expired())??),
        }
    }

    /// Completes when it has passed.
    pub(crate) async fn passed(self) {
        match self.at {
            None => std::future::pending().await,
            Some(at) => tokio::time::sleep_until(at).await,
        }
    }

    /// Fails once the deadline has passed. For writes, which are never abandoned half way: asked between two
    /// statements.
    pub(crate) fn check(self) -> Result<(), CommandError> {
        match self.at {
            Some(at) if Instant::now() >= at => Err(expired()),
            _ => Ok(()),
        }
    }
}

fn expired() -> CommandError {
    CommandError::new(50, "MaxTimeMSExpired", "operation exceeded time limit")
}
