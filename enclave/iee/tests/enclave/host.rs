//! A host in memory with its clients, honest unless told otherwise, which notes the shape of all that it sees.

use arras_iee::{Channels, Fault, Iee, SPILLED_MAX};
use arras_keys::Key;
use arras_protocol::Blob;
use arras_protocol::codec::{encode, encoded_bytes};
use arras_protocol::iee::{
    ConnectionId, ENTRY_BYTES, Incoming, LABEL_BYTES, Outgoing, SEALED_BYTES, StateName, counter_value,
};
use arras_schemes::bisen::channel::Plain;
use arras_schemes::bisen::message::{Answer, Ask, Opened, Page, Refused, Reply, Request, Settings};
use arras_schemes::bisen::query::{Padding, Search};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

pub(crate) const ADMINISTRATOR: &str = "ada";

/// What survives the enclave: storage, state, counter.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    pub(crate) entries: HashMap<[u8; LABEL_BYTES], [u8; SEALED_BYTES]>,
    pub(crate) state: BTreeMap<StateName, Vec<u8>>,
    pub(crate) counter: u64,
}

impl Disk {
    /// The number of the last record that the counter has followed.
    pub(crate) fn counted(&self) -> u64 {
        self.counter & ((1 << 40) - 1)
    }
}

/// What a message of the host answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Count,
    Do,
    Get,
    Load,
    Nothing,
    Part,
}

/// What the host says in place of what it should.
pub(crate) type Lie = Box<dyn FnMut(Incoming, To) -> Vec<Incoming>>;

/// A host that keeps answers of a kind to itself.
pub(crate) fn without(kept: To) -> Option<Lie> {
    Some(Box::new(move |incoming, to| if to == kept { Vec::new() } else { vec![incoming] }))
}

/// One that keeps them for later.
pub(crate) fn keeping(kept: To) -> (Option<Lie>, Rc<RefCell<Vec<Incoming>>>) {
    let held: Rc<RefCell<Vec<Incoming>>> = Rc::default();
    let hold = Rc::clone(&held);
    let lie: Lie = Box::new(move |incoming, to| {
        if to == kept {
            hold.borrow_mut().push(incoming);
            return Vec::new();
        }
        vec![incoming]
    });
    (Some(lie), held)
}

pub(crate) struct Host {
    iee: Iee,
    pub(crate) disk: Disk,
    queue: VecDeque<(Incoming, To)>,
    clients: BTreeMap<ConnectionId, Plain>,
    answers: HashMap<(ConnectionId, u64), VecDeque<Reply>>,
    pub(crate) closed: Vec<ConnectionId>,
    number: u64,
    pub(crate) lie: Option<Lie>,
    pub(crate) is_ready: bool,
    /// Kind and length of each message of the enclave.
    pub(crate) shape: Vec<(String, usize)>,
    /// Labels of each question and of each put.
    pub(crate) gets: Vec<Vec<[u8; LABEL_BYTES]>>,
    pub(crate) puts: Vec<Vec<[u8; LABEL_BYTES]>>,
    /// Stops carrying messages after so many, as a crash would.
    pub(crate) crash_after: Option<usize>,
}

fn kind(message: &Outgoing) -> String {
    let text = format!("{message:?}");
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}

impl Host {
    pub(crate) fn new(disk: Disk) -> Self {
        Self::with_memory(disk, 64 << 20)
    }

    /// One whose enclave has no more than so many keywords in its tables.
    pub(crate) fn with_counters(disk: Disk, counters_max: usize) -> Self {
        Self::with_bounds(disk, counters_max, SPILLED_MAX)
    }

    /// The same, and no more than so many records beside them.
    pub(crate) fn with_bounds(disk: Disk, counters_max: usize, spilled_max: u64) -> Self {
        let host = Self::new(disk);
        Self { iee: host.iee.with_bounds(counters_max, spilled_max), ..host }
    }

    pub(crate) fn with_memory(disk: Disk, memory_bytes: u64) -> Self {
        let mut host = Self {
            iee: Iee::new(Key::take_from(&mut [7; 32]), Channels::Other(Plain::enclave)),
            disk,
            queue: VecDeque::new(),
            clients: BTreeMap::new(),
            answers: HashMap::new(),
            closed: Vec::new(),
            number: 0,
            lie: None,
            is_ready: false,
            shape: Vec::new(),
            gets: Vec::new(),
            puts: Vec::new(),
            crash_after: None,
        };
        host.say(Incoming::Launch {
            memory_bytes,
            administrator: ADMINISTRATOR.into(),
            authority: Vec::new().into(),
        });
        host
    }

    pub(crate) fn with_administrator(disk: Disk, name: &str) -> Self {
        let mut host = Self::new(disk);
        host.queue.clear();
        host.say(Incoming::Launch {
            memory_bytes: 64 << 20,
            administrator: name.into(),
            authority: Vec::new().into(),
        });
        host
    }

    /// One that has started.
    pub(crate) fn started(disk: Disk) -> Self {
        Self::new(disk).start()
    }

    pub(crate) fn start(mut self) -> Self {
        self.run().unwrap();
        assert!(self.is_ready);
        self
    }

    /// Connects a client, without carrying a message yet.
    pub(crate) fn announce(&mut self, number: u64, identity: &str) -> ConnectionId {
        let connection = ConnectionId(number);
        self.say(Incoming::Connected { connection, seconds: 0 });
        self.clients.insert(connection, Plain::default());
        self.say(Incoming::FromClient { connection, bytes: Blob(Plain::greet(identity)) });
        connection
    }

    pub(crate) fn connect(&mut self, number: u64, identity: &str) -> ConnectionId {
        let connection = self.announce(number, identity);
        self.run().unwrap();
        connection
    }

    pub(crate) fn say(&mut self, incoming: Incoming) {
        self.queue.push_back((incoming, To::Nothing));
    }

    /// Sends a request; its number.
    pub(crate) fn send(&mut self, connection: ConnectionId, request: Request) -> u64 {
        self.number += 1;
        let ask = Ask { number: self.number, request }.encode();
        let bytes = Blob(self.clients.get_mut(&connection).unwrap().wrap(&ask));
        self.say(Incoming::FromClient { connection, bytes });
        self.number
    }

    /// The next answer to a request that has come: to a search there may be several.
    pub(crate) fn answer(&mut self, connection: ConnectionId, number: u64) -> Option<Reply> {
        self.answers.get_mut(&(connection, number))?.pop_front()
    }

    pub(crate) fn try_call(
        &mut self,
        connection: ConnectionId,
        request: Request,
    ) -> Result<Option<Reply>, Fault> {
        let number = self.send(connection, request);
        self.run()?;
        Ok(self.answer(connection, number))
    }

    /// Connects if need be, and asks: for a host that lies, whose enclave may not even start.
    pub(crate) fn attempt(&mut self, identity: &str, request: Request) -> Result<Option<Reply>, Fault> {
        let connection = ConnectionId(1);
        // Nobody is seated before the enclave has its state.
        self.run()?;
        if self.clients.is_empty() && self.closed.is_empty() && self.is_ready {
            self.announce(1, identity);
        }
        if self.clients.is_empty() {
            return Ok(None);
        }
        self.try_call(connection, request)
    }

    pub(crate) fn call(&mut self, connection: ConnectionId, request: Request) -> Reply {
        self.try_call(connection, request).unwrap().expect("an answer")
    }

    pub(crate) fn create(&mut self, connection: ConnectionId, name: &str, fields: u8) -> Opened {
        let settings = Settings { fields, padding: Padding::None, profile: Blob::default() };
        match self.call(connection, Request::Create { name: name.into(), settings }) {
            Reply::Opened(opened) => opened,
            other => panic!("{other:?}"),
        }
    }

    /// All pages of a search.
    pub(crate) fn search(&mut self, connection: ConnectionId, search: Search) -> Result<Vec<Page>, Refused> {
        let mut pages: Vec<Page> = Vec::new();
        let number = self.send(connection, Request::Search(search));
        self.run().unwrap();
        while !pages.last().is_some_and(Page::is_last) {
            match self.answer(connection, number).expect("an answer") {
                Reply::Found(page) => pages.push(page),
                Reply::Refused(refused) => return Err(refused),
                other => panic!("{other:?}"),
            }
        }
        Ok(pages)
    }

    /// Carries messages until nothing is left.
    pub(crate) fn run(&mut self) -> Result<(), Fault> {
        while self.step()? {}
        Ok(())
    }

    /// Carries one message of those that wait; whether there was one.
    pub(crate) fn step(&mut self) -> Result<bool, Fault> {
        let Some((incoming, to)) = self.queue.pop_front() else { return Ok(false) };
        let said = match &mut self.lie {
            Some(lie) => lie(incoming, to),
            None => vec![incoming],
        };
        for incoming in said {
            let decoded = Incoming::decode(&encode(&incoming)).map_err(|_| Fault::Malformed)?;
            for message in self.iee.receive(decoded)? {
                if let Some(left) = &mut self.crash_after {
                    if *left == 0 {
                        self.queue.clear();
                        return Ok(false);
                    }
                    *left -= 1;
                }
                self.take(message);
            }
        }
        Ok(true)
    }

    fn take(&mut self, message: Outgoing) {
        self.shape.push((kind(&message), encoded_bytes(&message)));
        Outgoing::decode(&encode(&message)).unwrap();
        let (ask, to, bytes) = match message {
            Outgoing::Ready => return self.is_ready = true,
            Outgoing::Opened(_) => return,
            Outgoing::ToClient { connection, bytes } => return self.deliver(connection, &bytes),
            Outgoing::Part { ask, connection, bytes } => {
                self.deliver(connection, &bytes);
                (ask, To::Part, None)
            }
            Outgoing::Close(connection) => {
                self.closed.push(connection);
                self.clients.remove(&connection);
                return;
            }
            Outgoing::Get { ask, labels } => {
                let (labels, _) = labels.as_slice().as_chunks::<LABEL_BYTES>();
                self.gets.push(labels.to_vec());
                let entry = |label| self.disk.entries.get(label).copied().unwrap_or([0; SEALED_BYTES]);
                let entries: Vec<[u8; SEALED_BYTES]> = labels.iter().map(entry).collect();
                (ask, To::Get, Some(Blob(entries.as_flattened().to_vec())))
            }
            Outgoing::Put { ask, entries } => {
                self.puts.push(Vec::new());
                for entry in entries.as_slice().as_chunks::<ENTRY_BYTES>().0 {
                    let (label, sealed) = entry.split_first_chunk::<LABEL_BYTES>().unwrap();
                    self.puts.last_mut().unwrap().push(*label);
                    let before = self.disk.entries.insert(*label, sealed.try_into().unwrap());
                    assert!(before.is_none_or(|before| before == *sealed), "one content a label");
                }
                (ask, To::Do, None)
            }
            Outgoing::Remove { ask, labels } => {
                for label in labels.as_slice().as_chunks::<LABEL_BYTES>().0 {
                    self.disk.entries.remove(label);
                }
                (ask, To::Do, None)
            }
            Outgoing::Save { ask, name, state } => {
                self.disk.state.insert(name, state.0);
                (ask, To::Do, None)
            }
            Outgoing::Load { ask, name } => (ask, To::Load, self.disk.state.get(&name).cloned().map(Blob)),
            Outgoing::Forget { ask, until } => {
                self.disk.state.retain(|name, _| match name {
                    StateName::Head => true,
                    StateName::Log(number) => *number > until,
                    StateName::Checkpoint { generation, .. } => *generation >= until,
                });
                (ask, To::Do, None)
            }
            Outgoing::ReadCounter(ask) => (ask, To::Count, counter_value(self.disk.counter)),
            Outgoing::RaiseCounter { ask, from, to } => {
                let value = self.disk.counter;
                assert!(to > from, "it only grows");
                if value == from {
                    self.disk.counter = to;
                }
                (ask, To::Count, counter_value(value))
            }
            Outgoing::Attest { .. } => panic!("nothing is attested on plain channels"),
            Outgoing::Again => return self.say(Incoming::Again),
        };
        self.queue.push_back((Incoming::Answer { ask, bytes }, to));
    }

    fn deliver(&mut self, connection: ConnectionId, bytes: &Blob) {
        if let Some(channel) = self.clients.get_mut(&connection) {
            let answer = Answer::decode(channel.unwrap(bytes.as_slice()).unwrap()).unwrap();
            self.answers.entry((connection, answer.number)).or_default().push_back(answer.reply);
        }
    }
}
