//! Writes that wait for the store share its next commit: waiting for the device is most of a small write's time,
//! and it takes no longer for many.
//!
//! The first of those that wait leads: it applies each write behind a savepoint of one transaction, commits once,
//! and answers all. A write that is refused is rolled back alone. Nobody is answered before the commit, a refused one
//! neither: what refused it may be another write of the same commit.

use super::perform;
use crate::backend::storage;
use crate::lease::{Author, Writer};
use arras_protocol::Refusal;
use arras_protocol::write::{Request, Response};
use arras_storage::{Durability, Storage, Write};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of requests that share a commit, about: those that wait longer for it should not be many.
const BYTES_PER_COMMIT: usize = 8 * 1024 * 1024;

/// What a waiting write is told.
enum Signal {
    /// It is the first of those that wait, and leads.
    Lead,
    /// What became of it.
    Answer(Result<Response, Refusal>),
}

/// A write that waits for a commit.
struct Waiting {
    by: Author,
    request: Request,
    request_bytes: usize,
    signal: SyncSender<Signal>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Somebody leads, or has been told to.
    is_led: bool,
}

/// The writes that wait for the store.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Queue")
    }
}

/// The lead, which passes to the next one that waits when it is dropped: also by a panic, whose writes are refused.
struct Lead<'q> {
    queue: &'q Queue,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        // One whose thread is gone cannot lead.
        while let Some(next) = state.waiting.front() {
            if next.signal.send(Signal::Lead).is_ok() {
                return;
            }
            state.waiting.pop_front();
        }
        state.is_led = false;
    }
}

impl Lead<'_> {
    /// Commits what waits once the store lets this writer in, and answers it.
    fn commit<S: Storage>(&self, store: &S) {
        let writer = store.write().map_err(storage);
        let (requests, signals): (Vec<(Author, Request)>, Vec<SyncSender<Signal>>) =
            self.take().into_iter().map(|waiting| ((waiting.by, waiting.request), waiting.signal)).unzip();
        let answers = writer.and_then(|writer| apply_all(writer, requests));
        let mut answers = answers.map(Vec::into_iter);
        for signal in signals {
            let answer = match &mut answers {
                Ok(answers) => answers.next().unwrap_or_else(|| Err(failed())),
                Err(refusal) => Err(refusal.clone()),
            };
            // One whose connection is gone has nobody to tell.
            let _ = signal.send(Signal::Answer(answer));
        }
    }

    /// The writes of the next commit, in the order in which they came.
    fn take(&self) -> Vec<Waiting> {
        let mut state = self.queue.state();
        let mut bytes = 0_usize;
        let within = state.waiting.iter().take_while(|waiting| {
            let before = bytes;
            bytes = bytes.saturating_add(waiting.request_bytes);
            before < BYTES_PER_COMMIT
        });
        let number = within.count();
        state.waiting.drain(..number).collect()
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a write, all or nothing, in the next commit. Blocks until it is there.
    pub(crate) fn answer<S: Storage>(
        &self,
        store: &S,
        by: Writer<'_>,
        request: Request,
        request_bytes: usize,
    ) -> Result<Response, Refusal> {
        let by = by.author()?;
        // Two signals at most: the lead and the answer.
        let (signal, signals) = sync_channel(2);
        if !self.join(Waiting { by, request, request_bytes, signal }) {
            match next(&signals)? {
                Signal::Answer(answer) => return answer,
                Signal::Lead => {}
            }
        }
        let lead = Lead { queue: self };
        lead.commit(store);
        drop(lead);
        match next(&signals)? {
            Signal::Answer(answer) => answer,
            Signal::Lead => Err(failed()),
        }
    }

    /// Queues a write; true if it must lead.
    fn join(&self, waiting: Waiting) -> bool {
        let mut state = self.state();
        state.waiting.push_back(waiting);
        !std::mem::replace(&mut state.is_led, true)
    }
}

fn next(signals: &Receiver<Signal>) -> Result<Signal, Refusal> {
    signals.recv().map_err(|_| failed())
}

/// To those whose leader panicked.
fn failed() -> Refusal {
    Refusal::Storage("the request failed inside the server; its log says more".into())
}

/// The answer to each, once they are as durable as any of them asks for. An error is everybody's.
fn apply_all(
    mut writer: impl Write,
    requests: Vec<(Author, Request)>,
) -> Result<Vec<Result<Response, Refusal>>, Refusal> {
    let mut answers = Vec::with_capacity(requests.len());
    let mut needed = None;
    for (by, request) in requests {
        let durability = if request.operation.is_some() { Durability::Durable } else { Durability::Relaxed };
        writer.savepoint();
        let answer = perform(&mut writer, by, request);
        match &answer {
            Ok(Response { applied: true, .. }) if needed != Some(Durability::Durable) => {
                needed = Some(durability)
            }
            Ok(_) => {}
            Err(_) => writer.roll_back(),
        }
        answers.push(answer);
    }
    if let Some(durability) = needed {
        writer.commit(durability).map_err(storage)?;
    }
    Ok(answers)
}

#[cfg(test)]
mod tests;
