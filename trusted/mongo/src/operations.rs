//! The operations under way: what `currentOp` lists and `killOp` ends.

use crate::connection::Peer;
use crate::memory::Share;
use arras_service::interrupt::{Interrupt, Reason};
use bson::{Document, doc};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Every operation under way, by its number.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    last: i32,
    running: BTreeMap<i32, Arc<State>>,
}

/// One of them, as others see it.
#[derive(Debug)]
struct State {
    peer: SocketAddr,
    connection: u64,
    began: Instant,
    interrupt: Interrupt,
    /// Its client waits for the answer, as far as is known; and is gone.
    waited_for: AtomicBool,
    gone: AtomicBool,
    what: Mutex<What>,
}

/// What an operation does. Names of commands and collections only: a command's content is not another client's
/// business.
#[derive(Clone, Debug, Default)]
struct What {
    command: &'static str,
    namespace: String,
}

impl Operations {
    /// Enters an operation of a connection; it is listed until the guard goes.
    pub(crate) fn begin(&self, peer: &Peer) -> Operation<'_> {
        let state = Arc::new(State {
            peer: peer.address,
            connection: peer.number,
            began: Instant::now(),
            interrupt: Interrupt::default(),
            waited_for: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            what: Mutex::default(),
        });
        let mut table = self.lock();
        let number = loop {
            table.last = table.last.checked_add(1).unwrap_or(1);
            if !table.running.contains_key(&table.last) {
                break table.last;
            }
        };
        table.running.insert(number, Arc::clone(&state));
        Operation { operations: self, number, state, held: Mutex::new(None) }
    }

    /// Asks an operation to end; false if there is none of that number.
    pub(crate) fn kill(&self, number: i32) -> bool {
        let state = self.lock().running.get(&number).cloned();
        state.is_some_and(|state| {
            state.interrupt.raise(Reason::Killed);
            true
        })
    }

    /// The operations under way as `currentOp` shows them, the oldest first.
    pub(crate) fn list(&self) -> Vec<Document> {
        let running: Vec<(i32, Arc<State>)> =
            self.lock().running.iter().map(|(number, state)| (*number, Arc::clone(state))).collect();
        running.iter().map(|(number, state)| state.shown(*number)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing panics while the lock is held.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn shown(&self, number: i32) -> Document {
        let What { command, namespace } = self.what.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kind = match command {
            "find" | "count" | "distinct" | "aggregate" => "query",
            "getMore" => "getmore",
            "insert" => "insert",
            "update" | "findAndModify" | "findandmodify" => "update",
            "delete" => "remove",
            _ => "command",
        };
        let micros = i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX);
        doc! {
            "type": "op",
            "opid": number,
            "active": true,
            "op": kind,
            "ns": namespace.as_str(),
            "command": { command: namespace.split_once('.').map_or("", |(_, collection)| collection) },
            "client": self.peer.to_string(),
            "connectionId": i64::try_from(self.connection).unwrap_or(i64::MAX),
            "desc": format!("conn{}", self.connection),
            "secs_running": micros / 1_000_000,
            "microsecs_running": micros,
            "killPending": self.interrupt.reason().is_some(),
        }
    }
}

/// An operation's own handle; it is under way while this lives.
pub(crate) struct Operation<'o> {
    operations: &'o Operations,
    number: i32,
    state: Arc<State>,
    /// Memory for its reply.
    held: Mutex<Option<Share>>,
}

impl Operation<'_> {
    /// Holds memory for its reply.
    pub(crate) fn hold(&self, share: Option<Share>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = share;
    }

    /// What it holds, for whoever writes its reply.
    pub(crate) fn let_go(&self) -> Option<Share> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Says what the operation is, once that is known.
    pub(crate) fn describe(&self, command: &'static str, namespace: String) {
        *self.state.what.lock().unwrap_or_else(PoisonError::into_inner) = What { command, namespace };
    }

    /// Its sign to end, for whoever does its work.
    pub(crate) fn interrupt(&self) -> Interrupt {
        self.state.interrupt.clone()
    }

    /// Asks it to end.
    pub(crate) fn raise(&self, reason: Reason) {
        self.state.interrupt.raise(reason);
    }

    /// The client waits for its answer: it ends if that client is gone.
    pub(crate) fn is_waited_for(&self) {
        self.state.waited_for.store(true, Ordering::SeqCst);
        if self.state.gone.load(Ordering::SeqCst) {
            self.raise(Reason::Gone);
        }
    }

    /// The client has closed its connection. One that wants no answer may do so as soon as it has said what is to be done.
    pub(crate) fn client_is_gone(&self) {
        self.state.gone.store(true, Ordering::SeqCst);
        if self.state.waited_for.load(Ordering::SeqCst) {
            self.raise(Reason::Gone);
        }
    }

    /// Completes when it is asked to end.
    pub(crate) async fn interrupted(&self) -> Reason {
        self.state.interrupt.raised().await
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.operations.lock().running.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn an_operation_ends_with_its_client_if_that_waits_for_the_answer() {
        let operations = Operations::default();
        let peer = Peer { address: (Ipv4Addr::LOCALHOST, 7).into(), number: 1 };
        for waits_first in [false, true] {
            let operation = operations.begin(&peer);
            if waits_first {
                operation.is_waited_for();
            }
            assert_eq!(operation.interrupt().reason(), None);
            operation.client_is_gone();
            assert_eq!(operation.interrupt().reason(), waits_first.then_some(Reason::Gone));
            operation.is_waited_for();
            assert_eq!(operation.interrupt().reason(), Some(Reason::Gone));
        }
    }
}
