//! The machine of boolean search: the enclave's own code, and a host that moves its messages and keeps its entries and state on a disk
//! that goes wrong. What it keeps in which transactions is the host's own ([`arras_host::store::kept`]).
//!
//! The enclave draws labels and nonces from the operating system. So a run's trace has kinds of messages, and neither their bytes nor
//! what depends on them.

use crate::disk::{Content, Disk, Machine, Process};
use crate::flag::Flag;
use crate::network::Network;
use crate::talking::channels;
use arras_host::store::kept;
use arras_iee::{Fault, Iee};
use arras_keys::Key;
use arras_protocol::Blob;
use arras_protocol::iee::{AskId, ConnectionId, Incoming, Outgoing, counter_value};
use arras_storage::StorageError;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Who makes collections: the proxy.
pub(crate) const ADMINISTRATOR: &str = "proxy";
/// Memory of the enclave, in bytes.
const MEMORY: u64 = 64 << 20;
/// Most milliseconds that the host takes to a thing, and to say that it is done.
const WORKING: u64 = 2;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the machine keeps beside its processes.
pub struct Searching {
    pub(crate) network: Arc<Network>,
    pub(crate) machine: Machine,
    /// The monotonic counter, which no disk sets back.
    counter: Mutex<u64>,
    running: Mutex<Option<Arc<Hosting>>>,
    /// Why an enclave ended by itself, since that was last asked.
    fault: Mutex<Option<Fault>>,
}

/// What the machine kept at one moment.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    disk: Content,
    counter: u64,
}

impl Searching {
    /// A machine that nothing runs on.
    #[must_use]
    pub fn new(network: Arc<Network>, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            network,
            machine: Machine::new(seed),
            counter: Mutex::new(0),
            running: Mutex::new(None),
            fault: Mutex::new(None),
        })
    }

    /// Starts a host and its enclave; clients are answered once it is ready.
    pub(crate) fn start(self: &Arc<Self>) {
        let (process, disk) = self.machine.start();
        let hosting = Arc::new(Hosting {
            machine: Arc::clone(self),
            iee: Mutex::new(Iee::new(Key::take_from(&mut [9; Key::BYTES]), channels())),
            disk,
            process,
            ready: Flag::default(),
            clients: Mutex::default(),
        });
        *lock(&self.running) = Some(Arc::clone(&hosting));
        self.network.trace.note(|| "the host of boolean search starts".into());
        hosting.tell(Incoming::Launch {
            memory_bytes: MEMORY,
            administrator: ADMINISTRATOR.into(),
            authority: Blob::default(),
        });
    }

    /// True if a host is alive, ready or not.
    pub(crate) fn runs(&self) -> bool {
        lock(&self.running).as_ref().is_some_and(|hosting| !hosting.process.is_dead())
    }

    /// The host, if it is alive and answers clients.
    pub(crate) fn hosting(&self) -> Option<Arc<Hosting>> {
        let running = lock(&self.running).clone();
        running.filter(|hosting| !hosting.process.is_dead() && hosting.ready.is_raised())
    }

    /// Why an enclave has ended by itself.
    pub(crate) fn take_fault(&self) -> Option<Fault> {
        lock(&self.fault).take()
    }

    /// What is kept now.
    pub(crate) fn copy(&self) -> Kept {
        Kept { disk: self.machine.copy(), counter: *lock(&self.counter) }
    }

    /// How many entries are kept now.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> usize {
        self.machine.copy().count(kept::ENTRIES)
    }

    /// Ends what runs and sets the disk back, or forth; `counter`: the monotonic counter with it.
    pub(crate) fn restore(&self, kept: &Kept, counter: bool) {
        *lock(&self.running) = None;
        self.machine.restore(&kept.disk);
        if counter {
            *lock(&self.counter) = kept.counter;
        }
    }
}

/// A host that runs.
pub(crate) struct Hosting {
    machine: Arc<Searching>,
    iee: Mutex<Iee>,
    disk: Disk,
    pub(crate) process: Arc<Process>,
    ready: Flag,
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    next: u64,
    /// Where what the enclave says to each goes.
    open: BTreeMap<u64, mpsc::UnboundedSender<Vec<u8>>>,
}

impl Hosting {
    /// Seats a client that greets; what it is told comes out of the other end, which ends with the connection.
    pub(crate) fn connect(
        self: &Arc<Self>,
        greeting: Vec<u8>,
    ) -> (ConnectionId, mpsc::UnboundedReceiver<Vec<u8>>) {
        let (say, heard) = mpsc::unbounded_channel();
        let connection = {
            let mut clients = lock(&self.clients);
            clients.next += 1;
            let number = clients.next;
            clients.open.insert(number, say);
            ConnectionId(number)
        };
        self.tell(Incoming::Connected { connection, seconds: 0 });
        self.hear(connection, greeting);
        (connection, heard)
    }

    /// A message of a client has come.
    pub(crate) fn hear(self: &Arc<Self>, connection: ConnectionId, bytes: Vec<u8>) {
        if lock(&self.clients).open.contains_key(&connection.0) {
            self.tell(Incoming::FromClient { connection, bytes: Blob(bytes) });
        }
    }

    /// A client is gone.
    pub(crate) fn gone(self: &Arc<Self>, connection: ConnectionId) {
        if lock(&self.clients).open.remove(&connection.0).is_some() {
            self.tell(Incoming::Disconnected(connection));
        }
    }

    fn tell(self: &Arc<Self>, incoming: Incoming) {
        // What is dropped when a run has ended says nothing any more.
        if self.process.is_dead() || Handle::try_current().is_err() {
            return;
        }
        let said = lock(&self.iee).receive(incoming);
        match said {
            Ok(said) => said.into_iter().for_each(|message| self.take(message)),
            Err(fault) => {
                self.machine.network.trace.note(|| format!("the enclave ends: {fault}"));
                lock(&self.machine.fault).get_or_insert(fault);
                self.machine.machine.kill();
            }
        }
    }

    fn take(self: &Arc<Self>, message: Outgoing) {
        match message {
            Outgoing::Ready => {
                self.machine.network.trace.note(|| "the enclave is ready".into());
                self.ready.raise();
            }
            // No search of the simulation has more results than a page.
            Outgoing::ToClient { connection, bytes } | Outgoing::Part { connection, bytes, .. } => {
                if let Some(client) = lock(&self.clients).open.get(&connection.0) {
                    let _ = client.send(bytes.0);
                }
            }
            Outgoing::Close(connection) => drop(lock(&self.clients).open.remove(&connection.0)),
            Outgoing::Again => {
                let hosting = Arc::clone(self);
                tokio::spawn(async move {
                    tokio::task::yield_now().await;
                    hosting.tell(Incoming::Again);
                });
            }
            Outgoing::Get { ask, labels } => self.keep(ask, "reads entries", move |disk| {
                let bytes = Some(Blob(kept::get(disk, labels.as_slice())?));
                Ok(Incoming::Answer { ask, bytes })
            }),
            Outgoing::Put { ask, entries } => {
                self.keep(ask, "puts entries", move |disk| done(ask, kept::put(disk, entries.as_slice())));
            }
            Outgoing::Remove { ask, labels } => {
                self.keep(ask, "removes entries", move |disk| {
                    done(ask, kept::remove(disk, labels.as_slice()))
                });
            }
            Outgoing::Save { ask, name, state } => {
                self.keep(ask, "saves state", move |disk| done(ask, kept::save(disk, name, state.as_slice())))
            }
            Outgoing::Load { ask, name } => self.keep(ask, "loads state", move |disk| {
                let bytes = kept::load(disk, name)?.map(Blob);
                Ok(Incoming::Answer { ask, bytes })
            }),
            Outgoing::Forget { ask, until } => {
                self.keep(ask, "forgets state", move |disk| done(ask, kept::forget(disk, until)));
            }
            Outgoing::ReadCounter(ask) => self.count(ask, None),
            Outgoing::RaiseCounter { ask, from, to } => self.count(ask, Some((from, to))),
            // Channels are plain: nobody asks for evidence.
            Outgoing::Attest { .. } | Outgoing::Opened(_) => {}
        }
    }

    /// Works on the disk after a while, and tells the enclave after another.
    fn keep(
        self: &Arc<Self>,
        ask: AskId,
        what: &'static str,
        work: impl FnOnce(&Disk) -> Result<Incoming, StorageError> + Send + 'static,
    ) {
        let hosting = Arc::clone(self);
        tokio::spawn(async move {
            hosting.work().await;
            if hosting.process.is_dead() {
                return;
            }
            match work(&hosting.disk) {
                Ok(answer) => {
                    hosting.machine.network.trace.note(|| format!("    the host {what} ({})", ask.0));
                    hosting.work().await;
                    hosting.tell(answer);
                }
                // A host that cannot keep what it is to keep ends.
                Err(error) => {
                    hosting.machine.network.trace.note(|| format!("the host ends: {error}"));
                    if !hosting.process.is_dead() {
                        hosting.machine.machine.kill();
                    }
                }
            }
        });
    }

    async fn work(&self) {
        let ms = self.machine.network.chance(WORKING);
        sleep(Duration::from_millis(ms)).await;
    }

    /// Reads the counter, or raises it, in no time: it is one step, done or not.
    fn count(self: &Arc<Self>, ask: AskId, raise: Option<(u64, u64)>) {
        let hosting = Arc::clone(self);
        tokio::spawn(async move {
            hosting.work().await;
            if hosting.process.is_dead() {
                return;
            }
            let value = {
                let mut counter = lock(&hosting.machine.counter);
                let value = *counter;
                if let Some((_, to)) = raise.filter(|(from, to)| *from == value && *to > value) {
                    *counter = to;
                }
                value
            };
            hosting.work().await;
            hosting.tell(Incoming::Answer { ask, bytes: counter_value(value) });
        });
    }
}

fn done(ask: AskId, kept: Result<(), StorageError>) -> Result<Incoming, StorageError> {
    kept.map(|()| Incoming::Answer { ask, bytes: None })
}
