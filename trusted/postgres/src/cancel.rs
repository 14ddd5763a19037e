//! Requests to cancel: a client names its session by numbers that the proxy gave it, and the database's own session is
//! cancelled by the numbers that the database gave.

use crate::error::{SqlError, sqlstate};
use rand::Rng;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What a session is cancelled by: the number of its process and a secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) process: i32,
    pub(crate) secret: i32,
}

/// What a session is known by at the database, and who is told that it is cancelled.
type Known = (Key, Arc<Notify>);

/// The sessions that can be cancelled.
#[derive(Clone, Default)]
pub(crate) struct Cancellable {
    keys: Arc<Mutex<HashMap<Key, Known>>>,
}

impl Cancellable {
    /// Enters a session of the database, until what is returned is dropped; what its client is to name it by. The process
    /// is the database's own, which statements can ask for; the secret is not.
    pub(crate) fn enter(&self, upstream: Key) -> Entered {
        let mut keys = self.lock();
        loop {
            let secret = rand::rng().next_u32().cast_signed();
            let shown = Key { process: upstream.process, secret };
            if let std::collections::hash_map::Entry::Vacant(place) = keys.entry(shown) {
                let cancelled = Arc::new(Notify::new());
                place.insert((upstream, Arc::clone(&cancelled)));
                return Entered { sessions: self.clone(), shown, upstream, cancelled };
            }
        }
    }

    /// Cancels what the proxy does for a session that a client names; what the database knows it by.
    pub(crate) fn cancel(&self, shown: Key) -> Option<Key> {
        let (upstream, cancelled) = self.lock().get(&shown).cloned()?;
        // Whoever does nothing now has nothing cancelled.
        cancelled.notify_waiters();
        Some(upstream)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Known>> {
        // Nothing panics while it is held.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that can be cancelled.
pub(crate) struct Entered {
    sessions: Cancellable,
    pub(crate) shown: Key,
    pub(crate) upstream: Key,
    cancelled: Arc<Notify>,
}

impl Entered {
    /// Does what the proxy does for a statement, unless that is cancelled meanwhile.
    ///
    /// # Errors
    /// 57014, or what `work` says.
    pub(crate) async fn unless_cancelled<T>(
        &self,
        work: impl Future<Output = Result<T, SqlError>>,
    ) -> Result<T, SqlError> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.cancelled.notified() => {
                Err(SqlError::new(sqlstate::QUERY_CANCELED, "canceling statement due to user request"))
            }
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.shown);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_by_what_its_client_was_given_while_it_lives() {
        let sessions = Cancellable::default();
        let upstream = Key { process: 7, secret: 9 };
        let entered = sessions.enter(upstream);
        let shown = entered.shown;
        assert_eq!(shown.process, 7);
        assert!(sessions.cancel(shown) == Some(upstream));
        assert!(sessions.cancel(Key { secret: shown.secret.wrapping_add(1), ..shown }).is_none());
        let waits = |cancels: bool| {
            let waiting = entered.unless_cancelled(std::future::pending::<Result<(), SqlError>>());
            let mut waiting = std::pin::pin!(waiting);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            if cancels {
                sessions.cancel(shown);
            }
            waiting.as_mut().poll(&mut context).map(|ended| ended.unwrap_err().sqlstate)
        };
        assert_eq!(waits(true), std::task::Poll::Ready("57014"));
        assert!(waits(false).is_pending(), "one that came between two statements is none of the next");
        drop(entered);
        assert!(sessions.cancel(shown).is_none());
    }
}
