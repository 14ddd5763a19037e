//! What is under way, as tasks: straight code that waits for the host's answers and for one another.
//!
//! One goes on at a time. Whenever the host says something, each is polled, in the order in which they began, until none goes on
//! any more ([`Enclave::run`]). What they share is locked for as long as one step takes, never across an
//! `await`: tasks are `Send`, and what a lock gives is not.

use crate::budget::Share;
use crate::server::{Core, Enclave};
use arras_protocol::Blob;
use arras_protocol::iee::{AskId, ConnectionId, Fault, Incoming, Outgoing, StateName};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::task::{Context, Poll, Waker};

/// Questions of one kind that a task has under way at once: one is answered while the other is worked on.
pub(crate) const FLIGHTS_MAX: usize = 2;

type Boxed = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

struct Task {
    /// Nothing while it is polled.
    future: Option<Boxed>,
    /// Whose search it is: it is let go with its client.
    connection: Option<ConnectionId>,
}

/// What to do with an answer; [`Fault::Unasked`] if it is of another kind.
type Taking = Box<dyn FnOnce(Incoming) -> Result<(), Fault> + Send>;

/// Tasks, and what they wait for.
#[derive(Default)]
pub(crate) struct Tasks {
    /// Under numbers that rise.
    tasks: BTreeMap<u64, Task>,
    next: u64,
    /// Whether one has gone on, so that others may.
    moved: bool,
    asks: HashMap<AskId, Taking>,
    next_ask: u64,
    /// Who waits for a turn to compute, by client, and whose the last was.
    turns: BTreeMap<u64, VecDeque<SyncSender<()>>>,
    last_turn: u64,
    /// Whether the host was asked for the next turn.
    again: bool,
    out: Vec<Outgoing>,
}

impl Tasks {
    pub(crate) fn spawn(
        &mut self,
        connection: Option<ConnectionId>,
        task: impl Future<Output = Result<(), Fault>> + Send + 'static,
    ) {
        self.tasks.insert(self.next, Task { future: Some(Box::pin(task)), connection });
        self.next += 1;
        self.moved = true;
    }

    /// Lets go of a client's searches.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.tasks.retain(|_, task| task.connection != Some(connection));
        self.moved = true;
    }

    /// The task that is to be polled next, from a number on.
    fn take(&mut self, from: u64) -> Option<(u64, Boxed)> {
        let (number, task) = self.tasks.range_mut(from..).next()?;
        Some((*number, task.future.take()?))
    }

    /// The number of the next task.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether searches that began before a task have ended.
    pub(crate) fn has_none_before(&self, number: u64) -> bool {
        !self.tasks.range(..number).any(|(_, task)| task.connection.is_some())
    }

    /// Says something to the host that it does not answer.
    pub(crate) fn say(&mut self, message: Outgoing) {
        self.out.push(message);
    }

    /// What is to be sent; with it the host is asked for a turn if somebody waits for one.
    pub(crate) fn take_out(&mut self) -> Vec<Outgoing> {
        if !self.again && !self.turns.is_empty() {
            self.again = true;
            self.out.push(Outgoing::Again);
        }
        std::mem::take(&mut self.out)
    }

    /// Gives the next client its turn, whatever it has that waits.
    pub(crate) fn give_turn(&mut self) -> Result<(), Fault> {
        if !std::mem::take(&mut self.again) {
            return Err(Fault::Unasked);
        }
        let next = self.turns.range(self.last_turn.saturating_add(1)..).next();
        let Some((whose, _)) = next.or_else(|| self.turns.first_key_value()) else { return Ok(()) };
        self.last_turn = *whose;
        if let Entry::Occupied(mut waiting) = self.turns.entry(self.last_turn) {
            // Who waited may be gone.
            waiting.get_mut().pop_front().map(|turn| turn.send(()));
            if waiting.get().is_empty() {
                waiting.remove();
            }
        }
        Ok(())
    }

    /// Takes an answer of the host. Who asked may be gone.
    pub(crate) fn answered(&mut self, ask: AskId, answer: Incoming) -> Result<(), Fault> {
        self.asks.remove(&ask).ok_or(Fault::Unasked)?(answer)
    }
}

impl Enclave {
    /// Has all tasks go on as far as they can.
    pub(crate) fn run(&self) -> Result<(), Fault> {
        loop {
            let mut next = 0;
            while let Some((number, mut future)) = { self.core().tasks.take(next) } {
                next = number + 1;
                match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => {
                        if let Some(task) = self.core().tasks.tasks.get_mut(&number) {
                            task.future = Some(future);
                        }
                    }
                    Poll::Ready(ended) => {
                        self.core().tasks.tasks.remove(&number);
                        ended?;
                    }
                }
            }
            // Others may go on now.
            if !std::mem::take(&mut self.core().tasks.moved) {
                return Ok(());
            }
        }
    }

    /// Waits until there is something.
    pub(crate) fn until<T>(&self, mut found: impl FnMut(&mut Core) -> Option<T>) -> impl Future<Output = T> {
        poll_fn(move |_| {
            let mut core = self.core();
            let found = found(&mut core);
            core.tasks.moved |= found.is_some();
            found.map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// Asks the host at once; its answer is to be waited for.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(AskId) -> Outgoing,
        read: fn(Incoming) -> Option<T>,
    ) -> impl Future<Output = T> {
        let tasks = &mut self.core().tasks;
        let (ask, (tell, answer)) = (AskId(tasks.next_ask), sync_channel(1));
        tasks.next_ask += 1;
        tasks.out.push(question(ask));
        let take = move |incoming| read(incoming).map(|read| drop(tell.send(read))).ok_or(Fault::Unasked);
        tasks.asks.insert(ask, Box::new(take));
        self.until(move |_| answer.try_recv().ok())
    }

    /// Sealed entries of labels.
    pub(crate) fn get(&self, labels: Vec<u8>) -> impl Future<Output = Vec<u8>> {
        let read = |said| if let Incoming::Entries { entries, .. } = said { Some(entries.0) } else { None };
        self.ask(|ask| Outgoing::Get { ask, labels: Blob(labels) }, read)
    }

    pub(crate) fn load(&self, name: StateName) -> impl Future<Output = Option<Blob>> {
        let read = |said| if let Incoming::Loaded { state, .. } = said { Some(state) } else { None };
        self.ask(move |ask| Outgoing::Load { ask, name }, read)
    }

    pub(crate) fn save(&self, name: StateName, state: Vec<u8>) -> impl Future<Output = ()> {
        self.have_done(move |ask| Outgoing::Save { ask, name, state: Blob(state) })
    }

    /// Has the host store or remove something.
    pub(crate) fn have_done(&self, what: impl FnOnce(AskId) -> Outgoing) -> impl Future<Output = ()> {
        self.ask(what, |answer| matches!(answer, Incoming::Done(_)).then_some(()))
    }

    /// The counter's value, before it is raised if that is what is asked.
    pub(crate) fn counter(&self, question: impl FnOnce(AskId) -> Outgoing) -> impl Future<Output = u64> {
        let read = |said| if let Incoming::Counter { value, .. } = said { Some(value) } else { None };
        self.ask(question, read)
    }

    /// Waits until whatever else has arrived was taken, and other clients have had theirs.
    pub(crate) fn turn(&self, share: &Share) -> impl Future<Output = ()> {
        let (tell, turn) = sync_channel(1);
        self.core().tasks.turns.entry(share.place).or_default().push_back(tell);
        self.until(move |_| turn.try_recv().ok())
    }
}

/// Asks one question after the other, two at once, and takes the answers in the order of the questions.
pub(crate) async fn in_flights<Question, Answer: Future, Wrong>(
    mut ask: impl FnMut() -> Option<(Question, Answer)>,
    mut take: impl FnMut(Question, Answer::Output) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    let mut under_way = VecDeque::with_capacity(FLIGHTS_MAX);
    loop {
        while under_way.len() < FLIGHTS_MAX
            && let Some(asked) = ask()
        {
            under_way.push_back(asked);
        }
        let Some((question, answer)) = under_way.pop_front() else { return Ok(()) };
        take(question, answer.await)?;
    }
}
