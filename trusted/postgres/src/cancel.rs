//! Requests to cancel: a client names its session by numbers that the proxy gave it, and the database's own session is
//! cancelled by the numbers that the database gave. One request cancels one statement: what the proxy does for it ends only when
//! the request has reached the database, so that it does not meet the next one there.

use crate::error::{SqlError, sqlstate};
use rand::Rng;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What a session is cancelled by: the number of its process and a secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) process: i32,
    pub(crate) secret: i32,
}

/// What the proxy does for a statement: whether somebody has asked to cancel it, and who is told that it is.
#[derive(Default)]
struct Work {
    asked: AtomicBool,
    cancelled: Notify,
}

/// What the proxy does for a session now.
type Doing = Arc<Mutex<Option<Arc<Work>>>>;

/// What a session is known by at the database, and what is done for it.
type Known = (Key, Doing);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request to cancel what a session did when it came. Dropped, it takes effect on what the proxy does.
pub(crate) struct Request {
    /// What the database knows the session by.
    pub(crate) upstream: Key,
    work: Option<Arc<Work>>,
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(work) = &self.work {
            work.cancelled.notify_one();
        }
    }
}

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
                let doing = Doing::default();
                place.insert((upstream, Arc::clone(&doing)));
                return Entered { sessions: self.clone(), shown, upstream, doing };
            }
        }
    }

    /// Asks to cancel what a session that a client names does now, at the database and here: to be dropped when the database has
    /// been asked.
    pub(crate) fn cancel(&self, shown: Key) -> Option<Request> {
        let (upstream, doing) = self.lock().get(&shown).cloned()?;
        // Whoever does nothing now has nothing cancelled.
        let doing = locked(&doing);
        if let Some(work) = &*doing {
            // Under the lock: work that ends now has been asked, or is not the one that is.
            work.asked.store(true, Ordering::SeqCst);
        }
        let work = doing.clone();
        Some(Request { upstream, work })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Known>> {
        locked(&self.keys)
    }
}

fn cancelled() -> SqlError {
    SqlError::new(sqlstate::QUERY_CANCELED, "canceling statement due to user request")
}

/// A session that can be cancelled.
pub(crate) struct Entered {
    sessions: Cancellable,
    pub(crate) shown: Key,
    pub(crate) upstream: Key,
    doing: Doing,
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
        let doing = self.begins();
        let done = tokio::select! {
            biased;
            done = work => Some(done),
            () = doing.cancelled.notified() => None,
        };
        match done {
            Some(done) if !self.ended(&doing).await => done,
            Some(_) => Err(cancelled()),
            None => {
                *locked(&self.doing) = None;
                Err(cancelled())
            }
        }
    }

    /// Waits for what the database does for the proxy. Who cancels it cancels it there: what the database says of that is
    /// returned when no signal of it can come any more.
    ///
    /// # Errors
    /// What `work` says, or 57014 if it was done before the request came to it.
    pub(crate) async fn done_there<T>(
        &self,
        work: impl Future<Output = Result<T, SqlError>>,
    ) -> Result<T, SqlError> {
        let doing = self.begins();
        let done = work.await;
        match self.ended(&doing).await {
            true => done.and_then(|_| Err(cancelled())),
            false => done,
        }
    }

    fn begins(&self) -> Arc<Work> {
        let doing = Arc::new(Work::default());
        *locked(&self.doing) = Some(Arc::clone(&doing));
        doing
    }

    /// Nothing more is done; whether somebody had asked to cancel it, once the database has been asked.
    async fn ended(&self, doing: &Work) -> bool {
        *locked(&self.doing) = None;
        let asked = doing.asked.load(Ordering::SeqCst);
        if asked {
            doing.cancelled.notified().await;
        }
        asked
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
        assert!(sessions.cancel(shown).unwrap().upstream == upstream);
        assert!(sessions.cancel(Key { secret: shown.secret.wrapping_add(1), ..shown }).is_none());
        let waits = |cancels: bool| {
            let waiting = entered.unless_cancelled(std::future::pending::<Result<(), SqlError>>());
            let mut waiting = std::pin::pin!(waiting);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            let request = cancels.then(|| sessions.cancel(shown).unwrap());
            assert!(waiting.as_mut().poll(&mut context).is_pending(), "the database was not asked yet");
            drop(request);
            waiting.as_mut().poll(&mut context).map(|ended| ended.unwrap_err().sqlstate)
        };
        assert_eq!(waits(true), std::task::Poll::Ready("57014"));
        assert!(waits(false).is_pending(), "one that came between two statements is none of the next");
        drop(entered);
        assert!(sessions.cancel(shown).is_none());
    }

    #[test]
    fn a_statement_whose_work_is_done_while_the_database_is_asked_is_cancelled_and_the_next_is_not() {
        let sessions = Cancellable::default();
        let entered = sessions.enter(Key { process: 7, secret: 9 });
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let (done, work) = tokio::sync::oneshot::channel();
        let working = entered.unless_cancelled(async { Ok(work.await.unwrap()) });
        let mut working = std::pin::pin!(working);
        assert!(working.as_mut().poll(&mut context).is_pending());
        let request = sessions.cancel(entered.shown).unwrap();
        done.send(5).unwrap();
        assert!(working.as_mut().poll(&mut context).is_pending());
        drop(request);
        let ended = working.as_mut().poll(&mut context).map(|ended| ended.unwrap_err().sqlstate);
        assert_eq!(ended, std::task::Poll::Ready("57014"));
        let next = std::pin::pin!(entered.unless_cancelled(std::future::ready(Ok(6))));
        assert!(matches!(next.poll(&mut context), std::task::Poll::Ready(Ok(6))));
    }

    #[test]
    fn what_is_done_at_the_database_ends_when_no_request_is_on_its_way_there() {
        let sessions = Cancellable::default();
        let entered = sessions.enter(Key { process: 7, secret: 9 });
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for (answer, code) in [(Ok(5), "57014"), (Err(SqlError::new("55P03", "")), "55P03")] {
            let (done, work) = tokio::sync::oneshot::channel();
            let mut working = std::pin::pin!(entered.done_there(async { work.await.unwrap() }));
            assert!(working.as_mut().poll(&mut context).is_pending());
            let request = sessions.cancel(entered.shown).unwrap();
            assert!(working.as_mut().poll(&mut context).is_pending());
            assert!(done.send(answer).is_ok());
            assert!(working.as_mut().poll(&mut context).is_pending(), "the database was not asked yet");
            drop(request);
            let ended = working.as_mut().poll(&mut context).map(|ended| ended.unwrap_err().sqlstate);
            assert_eq!(ended, std::task::Poll::Ready(code));
        }
        let next = std::pin::pin!(entered.done_there(std::future::ready(Ok(6))));
        assert!(matches!(next.poll(&mut context), std::task::Poll::Ready(Ok(6))));
    }
}
