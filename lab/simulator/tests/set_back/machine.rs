//! A machine with a host and its enclave, in memory, and the ways of proxies to it.

use arras_iee::{Channels, Iee};
use arras_keys::Key;
use arras_protocol::Blob;
use arras_protocol::iee::{
    ConnectionId, ENTRY_BYTES, Incoming, LABEL_BYTES, Outgoing, SEALED_BYTES, StateName, counter_value,
};
use arras_schemes::bisen::channel::{ClientChannel, Plain};
use arras_schemes::bisen::message::{Answer, Ask, Reply, Request, Whole};
use arras_search::service::Unreachable;
use arras_service::ServiceError;
use arras_text::talk::{Conversation, Host, Saying, unreachable};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

const ADMINISTRATOR: &str = "proxy";

/// What survives the enclave, the monotonic counter with it.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    entries: HashMap<[u8; LABEL_BYTES], [u8; SEALED_BYTES]>,
    state: BTreeMap<StateName, Vec<u8>>,
    counter: u64,
}

/// What becomes of the next update, or connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The host keeps it, and the proxy hears that the connection is lost.
    HeldBack,
    /// It is carried out, and the proxy hears that the connection is lost.
    Unacknowledged,
    /// Nobody listens.
    Unconnected,
}

struct Running {
    iee: Iee,
    disk: Disk,
    /// Counts enclaves: a connection ends with the one that it was opened to.
    run: u64,
    next: u64,
    inbox: HashMap<ConnectionId, VecDeque<Vec<u8>>>,
    fates: VecDeque<Fate>,
    held: Vec<(u64, ConnectionId, Vec<u8>)>,
    /// Ends after so many messages of the enclave, and starts again on the disk as it is then, or on this one.
    ends_after: Option<(usize, Option<Disk>)>,
    puts: usize,
    starts: u128,
}

/// The machine.
#[derive(Clone)]
pub(crate) struct Machine(Arc<Mutex<Running>>);

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Machine")
    }
}

impl Machine {
    pub(crate) fn new() -> Self {
        let running = Running {
            iee: Iee::new(Key::take_from(&mut [7; Key::BYTES]), Channels::Other(Plain::enclave)),
            disk: Disk::default(),
            run: 0,
            next: 0,
            inbox: HashMap::new(),
            fates: VecDeque::new(),
            held: Vec::new(),
            ends_after: None,
            puts: 0,
            starts: 0,
        };
        let machine = Self(Arc::new(Mutex::new(running)));
        machine.running().start();
        machine
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap()
    }

    pub(crate) fn disk(&self) -> Disk {
        self.running().disk.clone()
    }

    /// Starts the enclave again, on a disk.
    pub(crate) fn set_disk(&self, disk: Disk) {
        let mut running = self.running();
        running.disk = disk;
        running.start();
    }

    /// Starts the enclave again after so many of its messages, on the disk as it is then, or on this one.
    pub(crate) fn end_after(&self, messages: usize, disk: Option<Disk>) {
        self.running().ends_after = Some((messages, disk));
    }

    /// Whether the end that was asked for is still to come; it does not come any more.
    pub(crate) fn is_to_end(&self) -> bool {
        self.running().ends_after.take().is_some()
    }

    pub(crate) fn meets(&self, fate: Fate) {
        self.running().fates.push_back(fate);
    }

    /// Hands the enclave what was held back.
    pub(crate) fn hand_over(&self) {
        let mut running = self.running();
        assert!(!running.held.is_empty(), "nothing was held back");
        for (run, connection, bytes) in std::mem::take(&mut running.held) {
            assert_eq!(run, running.run, "the enclave that it was for still runs");
            running.say(Incoming::FromClient { connection, bytes: Blob(bytes) });
        }
    }

    /// What a proxy's next start issues revisions from: greater numbers than those of any start before, and another lower half.
    pub(crate) fn next_start(&self) -> u128 {
        let mut running = self.running();
        running.starts += 1;
        (1000 * running.starts) << 64 | running.starts
    }

    /// The same for a proxy that goes by a copy of the first start's store.
    pub(crate) fn start_on_a_copy(&self) -> u128 {
        1000 << 64 | 77
    }

    /// Entries that are stored.
    pub(crate) fn entries(&self) -> usize {
        self.running().disk.entries.len()
    }

    /// Entries that were stored since the machine began.
    pub(crate) fn puts(&self) -> usize {
        self.running().puts
    }
}

impl Running {
    fn start(&mut self) {
        self.run += 1;
        self.inbox.clear();
        self.iee = Iee::new(Key::take_from(&mut [7; Key::BYTES]), Channels::Other(Plain::enclave));
        self.say(Incoming::Launch {
            memory_bytes: 64 << 20,
            administrator: ADMINISTRATOR.into(),
            authority: Blob::default(),
        });
    }

    /// Carries a message in, and all that follows from it.
    fn say(&mut self, incoming: Incoming) {
        let mut queue = VecDeque::from([incoming]);
        while let Some(incoming) = queue.pop_front() {
            for message in self.iee.receive(incoming).unwrap() {
                match &mut self.ends_after {
                    Some((0, _)) => {
                        let (_, disk) = self.ends_after.take().unwrap();
                        self.disk = disk.unwrap_or_else(|| self.disk.clone());
                        return self.start();
                    }
                    Some((left, _)) => *left -= 1,
                    None => {}
                }
                queue.extend(self.take(message));
            }
        }
    }

    fn take(&mut self, message: Outgoing) -> Option<Incoming> {
        let entry = |disk: &Disk, label| disk.entries.get(label).copied().unwrap_or([0; SEALED_BYTES]);
        let (ask, bytes) = match message {
            Outgoing::Ready | Outgoing::Opened(_) | Outgoing::Close(_) | Outgoing::Attest { .. } => {
                return None;
            }
            Outgoing::ToClient { connection, bytes } => {
                self.inbox.entry(connection).or_default().push_back(bytes.0);
                return None;
            }
            Outgoing::Part { ask, connection, bytes } => {
                self.inbox.entry(connection).or_default().push_back(bytes.0);
                (ask, None)
            }
            Outgoing::Get { ask, labels } => {
                let (labels, _) = labels.as_slice().as_chunks::<LABEL_BYTES>();
                let entries: Vec<_> = labels.iter().map(|label| entry(&self.disk, label)).collect();
                (ask, Some(Blob(entries.as_flattened().to_vec())))
            }
            Outgoing::Put { ask, entries } => {
                for entry in entries.as_slice().as_chunks::<ENTRY_BYTES>().0 {
                    let (label, sealed) = entry.split_first_chunk::<LABEL_BYTES>().unwrap();
                    self.disk.entries.insert(*label, sealed.try_into().unwrap());
                    self.puts += 1;
                }
                (ask, None)
            }
            Outgoing::Remove { ask, labels } => {
                for label in labels.as_slice().as_chunks::<LABEL_BYTES>().0 {
                    self.disk.entries.remove(label);
                }
                (ask, None)
            }
            Outgoing::Save { ask, name, state } => {
                self.disk.state.insert(name, state.0);
                (ask, None)
            }
            Outgoing::Load { ask, name } => (ask, self.disk.state.get(&name).cloned().map(Blob)),
            Outgoing::Forget { ask, .. } => (ask, None),
            Outgoing::ReadCounter(ask) => (ask, counter_value(self.disk.counter)),
            Outgoing::RaiseCounter { ask, from, to } => {
                let value = self.disk.counter;
                if value == from {
                    self.disk.counter = to;
                }
                (ask, counter_value(value))
            }
            Outgoing::Again => return Some(Incoming::Again),
        };
        Some(Incoming::Answer { ask, bytes })
    }
}

impl Host for Machine {
    fn place(&self) -> String {
        "the machine".into()
    }

    fn begin(&self) -> Saying<'_, Result<Box<dyn Conversation>, ServiceError>> {
        Box::pin(async move {
            let mut running = self.running();
            if running.fates.front() == Some(&Fate::Unconnected) {
                running.fates.pop_front();
                return Err(unreachable(&"nobody listens"));
            }
            running.next += 1;
            let (connection, mut channel) = (ConnectionId(running.next), Plain::client(ADMINISTRATOR));
            let bytes = Blob(channel.flight());
            running.say(Incoming::Connected { connection, seconds: 0 });
            running.say(Incoming::FromClient { connection, bytes });
            let (run, machine) = (running.run, self.clone());
            Ok(Box::new(Talking { machine, run, connection, channel, is_lost: false })
                as Box<dyn Conversation>)
        })
    }
}

struct Talking {
    machine: Machine,
    run: u64,
    connection: ConnectionId,
    channel: Plain,
    is_lost: bool,
}

impl Talking {
    fn exchange(&mut self, request: Request) -> Result<Reply, Unreachable> {
        let lost = || Unreachable("the connection is lost".into());
        let mut running = self.machine.running();
        if self.is_lost || running.run != self.run {
            return Err(lost());
        }
        let is_update = matches!(request, Request::Update(_));
        let fate = if is_update { running.fates.pop_front() } else { None };
        let bytes = self.channel.wrap(&Ask { number: 1, request }.encode());
        let connection = self.connection;
        self.is_lost = fate.is_some();
        if fate == Some(Fate::HeldBack) {
            running.held.push((self.run, connection, bytes));
            return Err(lost());
        }
        running.say(Incoming::FromClient { connection, bytes: Blob(bytes) });
        let mut whole = Whole::default();
        loop {
            let reply = running.inbox.get_mut(&connection).and_then(VecDeque::pop_front);
            let reply = reply.filter(|_| !self.is_lost && running.run == self.run).ok_or_else(lost)?;
            let answer = Answer::decode(self.channel.unwrap(&reply).unwrap()).unwrap();
            if let Some(reply) = whole.take(answer.reply) {
                return Ok(reply);
            }
        }
    }
}

impl Conversation for Talking {
    fn ask(&mut self, request: Request) -> Saying<'_, Result<Reply, Unreachable>> {
        Box::pin(async move { self.exchange(request) })
    }
}
