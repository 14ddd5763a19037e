//! Durable commits of the proxy's own store, each shared by all writes that wait for one: the device takes no longer
//! for many records than for one.

use super::aside;
use super::local::{Change, LocalError, LocalStore};
use super::{NEWEST, STATE};
use arras_protocol::OperationId;
use arras_storage::{Durability, Storage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// A write that waits until it is recorded.
struct Waiting {
    operation: OperationId,
    changes: Vec<Change>,
    recorded: oneshot::Sender<Result<(), LocalError>>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    /// Changes that nobody waits for: they go with the next commit.
    along: Vec<Change>,
    /// The newest write recorded.
    newest: Option<OperationId>,
    /// A thread is at work on the queue.
    is_served: bool,
}

/// The queue before the proxy's own store.
pub(super) struct Commits<S: Storage> {
    shared: Arc<Common<S>>,
}

struct Common<S: Storage> {
    local: Arc<LocalStore<S>>,
    queue: Mutex<Queue>,
}

impl<S: Storage> std::fmt::Debug for Commits<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Commits")
    }
}

impl<S: Storage> Commits<S> {
    pub(super) fn new(local: Arc<LocalStore<S>>) -> Self {
        Self { shared: Arc::new(Common { local, queue: Mutex::default() }) }
    }

    /// Records `operation` with its changes; durable once it returns. That it is the newest, if it is, is recorded
    /// with it.
    ///
    /// # Errors
    /// [`LocalError`]; nothing changed, unless it [is undecided](LocalError::is_undecided).
    pub(super) async fn record(
        &self,
        operation: OperationId,
        changes: Vec<Change>,
    ) -> Result<(), LocalError> {
        let (recorded, outcome) = oneshot::channel();
        let is_served = {
            let mut queue = self.shared.queue();
            queue.waiting.push(Waiting { operation, changes, recorded });
            std::mem::replace(&mut queue.is_served, true)
        };
        if !is_served {
            serve(Serving { shared: Arc::clone(&self.shared) });
        }
        outcome.await.unwrap_or_else(|_| {
            Err(arras_storage::StorageError::Undecided("the thread that writes it failed".into()).into())
        })
    }

    /// Adds a change to the next commit. A crash before it loses the change.
    pub(super) fn send_along(&self, changes: Vec<Change>) {
        self.shared.queue().along.extend(changes);
    }
}

impl<S: Storage> Common<S> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while it is held.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if nothing waits any more: then nobody is at work on the queue.
    fn ends_if_idle(&self) -> bool {
        let mut queue = self.queue();
        queue.is_served = !queue.waiting.is_empty();
        !queue.is_served
    }

    /// Commits what is queued; false if nothing waits any more.
    fn commit_next(&self) -> bool {
        if self.ends_if_idle() {
            return false;
        }
        let (waiting, along, newest) = {
            let mut queue = self.queue();
            let waiting = std::mem::take(&mut queue.waiting);
            let newest = waiting.iter().map(|waiting| waiting.operation).max().max(queue.newest);
            (waiting, std::mem::take(&mut queue.along), newest)
        };
        let mark = newest.map(|newest| self.local.set(STATE, NEWEST, &newest));
        let all = along.iter().chain(waiting.iter().flat_map(|waiting| &waiting.changes)).chain(&mark);
        let outcome = self.local.apply(all, Durability::Durable);
        {
            let mut queue = self.queue();
            if outcome.as_ref().is_err_and(LocalError::is_undecided) {
                // It may be on record already, and no later one may lower it.
                queue.newest = newest;
            }
            if outcome.is_ok() {
                queue.newest = newest;
            } else {
                // What goes along is tried again with the next commit, before what came meanwhile.
                let later = std::mem::replace(&mut queue.along, along);
                queue.along.extend(later);
            }
        }
        for waiting in waiting {
            // One that has gone away finds its write recorded.
            let _ = waiting.recorded.send(outcome.clone());
        }
        true
    }
}

/// Commits what is queued: the first time on the thread of the one who came first, which saves a lone write the way
/// to another thread and back; what came meanwhile on a thread of its own.
fn serve<S: Storage>(mut serving: Serving<S>) {
    if aside::has_threads() {
        // Whoever waits is told of a panic by the end of its `Serving`.
        let first = catch_unwind(AssertUnwindSafe(|| {
            aside::here(move || serving.shared.commit_next().then_some(serving))
        }));
        match first {
            Ok(Some(left)) if !left.shared.ends_if_idle() => serving = left,
            Ok(_) | Err(_) => return,
        }
    }
    aside::run(move || serving.run());
}

/// The thread at work on a queue.
struct Serving<S: Storage> {
    shared: Arc<Common<S>>,
}

impl<S: Storage> Serving<S> {
    fn run(&self) {
        while self.shared.commit_next() {}
    }
}

impl<S: Storage> Drop for Serving<S> {
    /// After a panic, those that wait are told and the next one finds the queue unserved.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut queue = self.shared.queue();
            queue.is_served = false;
            queue.waiting.clear();
        }
    }
}

impl<S: Storage> Drop for Commits<S> {
    /// A proxy that stops leaves nothing for its next start to send again.
    fn drop(&mut self) {
        let along = std::mem::take(&mut self.shared.queue().along);
        if let Err(error) = self.shared.local.apply(&along, Durability::Relaxed) {
            tracing::warn!(%error, "writes that are done cannot be struck off the log");
        }
    }
}

#[cfg(test)]
mod tests;
