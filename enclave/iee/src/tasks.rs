//! What is under way, as tasks: straight code that waits for the host's answers and for one another.
//!
//! One goes on at a time. Whenever the host says something, each is polled, in the order in which they began, until none goes on
//! any more ([`Enclave::run`]). What they share is locked for as long as one step takes, never across an
//! `await`: tasks are `Send`, and what a lock gives is not.

use crate::budget::Share;
use crate::server::{Client, Core, Enclave};
use arras_protocol::Blob;
use arras_protocol::iee::{AskId, Fault, Outgoing, StateName};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::task::{Context, Poll, Waker};

/// Questions of one kind that a task has under way at once: one is answered while the other is worked on.
pub(crate) const FLIGHTS_MAX: usize = 2;

pub(crate) type Boxed = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

/// What waits for its turn, in the order in which it came, and whose it is.
pub(crate) type Waiting<T> = VecDeque<(u64, T)>;

/// The first of the next client, as turns go behind the last one's.
pub(crate) fn next_turn<T>(waiting: &mut Waiting<T>, last: &mut u64) -> Option<T> {
    let turn = |(at, (whose, _)): &(usize, &(u64, T))| (whose <= last, *whose, *at);
    let (at, _) = waiting.iter().enumerate().min_by_key(turn)?;
    let (whose, next) = waiting.remove(at)?;
    *last = whose;
    Some(next)
}

/// Tasks, and what they wait for.
#[derive(Default)]
pub(crate) struct Tasks {
    /// Under numbers that rise, but for the one that is polled; whose search each is, with whom it is let go.
    tasks: BTreeMap<u64, (Option<Client>, Boxed)>,
    next: u64,
    /// Whether one has gone on, so that others may.
    moved: bool,
    asks: HashMap<AskId, SyncSender<Option<Blob>>>,
    next_ask: u64,
    /// Who waits for a turn to compute, and whose the last was.
    turns: Waiting<SyncSender<()>>,
    last_turn: u64,
    /// Whether the host was asked for the next turn.
    again: bool,
    /// What is to be said to the host.
    pub(crate) out: Vec<Outgoing>,
}

impl Tasks {
    pub(crate) fn spawn(&mut self, client: Option<Client>, task: Boxed) {
        self.tasks.insert(self.next, (client, task));
        self.next += 1;
        self.moved = true;
    }

    /// Lets go of searches.
    pub(crate) fn forget(&mut self, whose: impl Fn(Client) -> bool) {
        self.tasks.retain(|_, (client, _)| !client.is_some_and(&whose));
        self.moved = true;
    }

    /// The task that is to be polled next, from a number on.
    fn take(&mut self, from: u64) -> Option<(u64, (Option<Client>, Boxed))> {
        let number = *self.tasks.range(from..).next()?.0;
        Some((number, self.tasks.remove(&number)?))
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
        // Who waited may be gone.
        let _ = next_turn(&mut self.turns, &mut self.last_turn).map(|turn| turn.send(()));
        Ok(())
    }

    /// Takes an answer of the host. Who asked may be gone.
    pub(crate) fn answered(&mut self, ask: AskId, bytes: Option<Blob>) -> Result<(), Fault> {
        self.asks.remove(&ask).ok_or(Fault::Unasked).map(|tell| _ = tell.send(bytes))
    }
}

impl Enclave {
    /// Has all tasks go on as far as they can.
    pub(crate) fn run(&self) -> Result<(), Fault> {
        loop {
            let mut next = 0;
            while let Some((number, mut task)) = { self.core().tasks.take(next) } {
                next = number + 1;
                match task.1.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => _ = self.core().tasks.tasks.insert(number, task),
                    Poll::Ready(ended) => ended?,
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
    pub(crate) fn ask(&self, question: impl FnOnce(AskId) -> Outgoing) -> impl Future<Output = Option<Blob>> {
        let tasks = &mut self.core().tasks;
        let (ask, (tell, answer)) = (AskId(tasks.next_ask), sync_channel(1));
        tasks.next_ask += 1;
        tasks.out.push(question(ask));
        tasks.asks.insert(ask, tell);
        self.until(move |_| answer.try_recv().ok())
    }

    pub(crate) fn load(&self, name: StateName) -> impl Future<Output = Option<Blob>> {
        self.ask(move |ask| Outgoing::Load { ask, name })
    }

    pub(crate) async fn save(&self, name: StateName, state: Vec<u8>) {
        self.ask(|ask| Outgoing::Save { ask, name, state: Blob(state) }).await;
    }

    /// The counter's value, before it is raised if that is what is asked.
    pub(crate) async fn counter(&self, question: impl FnOnce(AskId) -> Outgoing) -> Result<u64, Fault> {
        let value = self.ask(question).await.and_then(|bytes| bytes.0.try_into().ok());
        value.map(u64::from_le_bytes).ok_or(Fault::Unasked)
    }

    /// Waits until whatever else has arrived was taken, and other clients have had theirs.
    pub(crate) fn turn(&self, share: &Share) -> impl Future<Output = ()> {
        let (tell, turn) = sync_channel(1);
        self.core().tasks.turns.push_back((share.place, tell));
        self.until(move |_| turn.try_recv().ok())
    }
}

/// Asks one question after the other, two at once, and takes the answers in the order of the questions.
pub(crate) async fn in_flights<Question, Answer: Future, Wrong>(
    mut ask: impl FnMut() -> Option<(Question, Answer)>,
    mut take: impl FnMut(Question, Answer::Output) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    let mut next = ask();
    while let Some((question, answer)) = next {
        next = ask();
        take(question, answer.await)?;
    }
    Ok(())
}
