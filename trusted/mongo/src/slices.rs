//! What the front end does to many documents, off the threads that serve connections and in turns with other heavy work.

use crate::error::CommandError;
use arras_documents::QueryError;
use arras_documents::spill::Pause;
use arras_service::store::{Cursor, Turn};
use bson::Document;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

/// A turn ends with the first document after so long.
const SLICE: Duration = Duration::from_millis(4);
/// Work that is over so soon is done where it is asked for: handing it to another thread would take longer.
const AT_ONCE: Duration = Duration::from_micros(500);

/// What `each` makes of documents, in their order. Dropped, it ends after the slice under way.
pub(crate) async fn run<C: Cursor>(
    documents: Vec<Document>,
    each: impl Fn(Document, &mut Vec<Document>) -> Result<(), QueryError> + Send + 'static,
) -> Result<Vec<Document>, CommandError> {
    let made = Vec::with_capacity(documents.len());
    let mut state = (documents.into_iter(), made, each);
    advance(&mut state, AT_ONCE)?;
    while state.0.len() > 0 {
        let _turn = C::turn().await;
        let slice = tokio::task::spawn_blocking(move || {
            advance(&mut state, SLICE)?;
            Ok::<_, QueryError>(state)
        });
        state = slice.await.map_err(|_| failed())??;
    }
    Ok(state.1)
}

/// Goes on until everything is made or so much time is over.
fn advance<E>(
    (documents, made, each): &mut (std::vec::IntoIter<Document>, Vec<Document>, E),
    within: Duration,
) -> Result<(), QueryError>
where
    E: Fn(Document, &mut Vec<Document>) -> Result<(), QueryError>,
{
    let began = Instant::now();
    for document in documents {
        each(document, made)?;
        if began.elapsed() >= within {
            break;
        }
    }
    Ok(())
}

/// Bytes of a message from which on it takes long to read.
const LARGE_MESSAGE: usize = 64 * 1024;

/// Does what a message of so many bytes asks for; if it is a large one, where it keeps no thread that serves
/// connections from others.
pub(crate) async fn apart<F: Future>(message_bytes: usize, work: F) -> F::Output {
    let threads = Handle::try_current().is_ok_and(|now| now.runtime_flavor() == RuntimeFlavor::MultiThread);
    if message_bytes < LARGE_MESSAGE || !threads {
        return work.await;
    }
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| tokio::task::block_in_place(|| work.as_mut().poll(context))).await
}

/// The error for work that broke off.
pub(crate) fn failed() -> CommandError {
    CommandError::new(1, "InternalError", "the aggregation failed inside the proxy")
}

/// Does work that waits for documents again and again on a thread of its own; its result, or nothing if it breaks off.
/// Not on one of the runtime's: as many such works as it has threads would wait for documents that no thread is left to
/// open, for ever.
pub(crate) fn on_own_thread<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<oneshot::Receiver<R>, CommandError> {
    let (done, result) = oneshot::channel();
    let thread = std::thread::Builder::new().name("pipeline".into());
    // One that has gone away has no use for the result.
    let spawned = thread.spawn(move || drop(done.send(work())));
    spawned.map(|_| result).map_err(|error| {
        tracing::warn!(%error, "there is no thread for a pipeline");
        failed()
    })
}

/// Turns of work that has a thread of its own for longer than one.
pub(crate) struct Turns<C> {
    runtime: Handle,
    /// The one it has, and since when.
    turn: Mutex<Option<(Option<Turn>, Instant)>>,
    /// Gone when nobody waits for the work any more.
    waiting: Weak<()>,
    of: PhantomData<fn() -> C>,
}

impl<C: Cursor> Turns<C> {
    /// For work that will run on a thread on which it may block; to be called where it is not. It ends when `waiting` is dropped.
    pub(crate) fn new(waiting: &Arc<()>) -> Arc<Self> {
        let (runtime, waiting) = (Handle::current(), Arc::downgrade(waiting));
        Arc::new(Self { runtime, turn: Mutex::default(), waiting, of: PhantomData })
    }

    /// Goes on: at once within a turn, or after waiting for the next one.
    ///
    /// # Errors
    /// Nobody waits for the work any more.
    pub(crate) fn go_on(&self) -> Result<(), QueryError> {
        if self.waiting.strong_count() == 0 {
            return Err(ended());
        }
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if turn.as_ref().is_none_or(|(_, since)| since.elapsed() >= SLICE) {
            *turn = None;
            let next = self.runtime.block_on(C::turn());
            *turn = Some((next, Instant::now()));
        }
        Ok(())
    }

    /// Gives a turn back, before a wait.
    pub(crate) fn give_back(&self) {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl<C: Cursor> Pause for Turns<C> {
    fn pause(&self) -> Result<(), QueryError> {
        self.go_on()
    }
}

/// The error that ends work whose result nobody waits for.
pub(crate) fn ended() -> QueryError {
    QueryError::new(11601, "Interrupted", "operation was interrupted")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn what_a_large_message_asks_for_keeps_no_thread_from_others() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (done, waiting) = mpsc::channel();
        let large = async move {
            tokio::spawn(async move { done.send(()).unwrap() });
            // As long as this runs, the only worker is somewhere else, or the other task would never be.
            waiting.recv_timeout(Duration::from_secs(60))
        };
        let met = runtime.block_on(async { tokio::spawn(apart(LARGE_MESSAGE, large)).await.unwrap() });
        assert_eq!(met, Ok(()));
    }
}
