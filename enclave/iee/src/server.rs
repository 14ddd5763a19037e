//! The state machine: who is connected, what was asked of the host, what is under way.

use crate::boot::Boot;
use crate::budget::Budget;
use crate::channel::{Channel, Channels, Named, Said};
use crate::fault::Fault;
use crate::fetch::Fetch;
use crate::identity::Identity;
use crate::journal::Journal;
use crate::lane::Lane;
use crate::policy::may_search;
use crate::results::Results;
use crate::search::{Progress, Task};
use crate::spill::{Fill, Readings, SPILLED_MAX};
use crate::state::State;
use crate::{checkpoint, results};
use arras_keys::Key;
use arras_primitives::hash::sha256;
use arras_primitives::prg::Prg;
use arras_protocol::Blob;
use arras_protocol::iee::{AskId, CLIENT_REQUESTS_MAX, ConnectionId, Incoming, Outgoing};
use arras_schemes::bisen::channel::SECURITY_VERSION;
use arras_schemes::bisen::message::{Answer, Ask, Refused, Reply, Request, Rights};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Least memory that the enclave works with.
const MEMORY_MIN: u64 = 16 << 20;

/// Most connections.
const CONNECTIONS_MAX: usize = 4096;

/// Most bytes of messages that wait for the state to be loaded.
const HELD_BYTES_MAX: usize = 8 << 20;

/// Evidence is asked for anew after so long.
const RENEWAL_SECONDS: u64 = 10 * 60;

/// A handshake that takes longer is given up, by the host's clock.
const HANDSHAKE_SECONDS: u64 = 30;

/// A request: whose, and under which number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) connection: ConnectionId,
    /// Which of all connections: the host may use its name for it again.
    place: u64,
    pub(crate) number: u64,
}

struct Connection {
    channel: Channel,
    /// How many there were before it.
    place: u64,
    /// Who it is, once its channel is open.
    client: Option<Named>,
    /// When it began, by the host's clock.
    began: u64,
    /// Requests that are not answered.
    under_way: usize,
}

impl Connection {
    /// Its client's name, once its channel is open.
    fn name(&self) -> Option<&str> {
        self.client.as_ref().map(|client| client.name.as_str())
    }
}

/// What an answer of the host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Entries of a search.
    Search(u64),
    /// Entries of a compaction's round.
    Round,
    /// Entries or state were stored for the change under way.
    Stored,
    /// The counter was raised to the last record.
    Raised,
    /// What is no longer needed was removed.
    Removed,
    /// A piece of what is spilled, for searches.
    Read(u32),
    /// The same, for the checkpoint that is being written.
    Copied,
    /// A piece of state, or the counter, for the start.
    Boot,
    /// Evidence for the certificate.
    Evidence,
}

/// The enclave.
pub struct Iee {
    pub(crate) root: Key,
    channels: Channels,
    /// Who it is to clients of attested channels.
    identity: Option<Identity>,
    pub(crate) prg: Prg,
    pub(crate) budget: Budget,
    pub(crate) state: State,
    pub(crate) journal: Journal,
    pub(crate) pieces: checkpoint::Pieces,
    pub(crate) lane: Lane,
    pub(crate) results: Results,
    pub(crate) readings: Readings,
    /// How full the tables are; most keywords in them, if that is fewer than the launch's memory holds, and most records beside them.
    pub(crate) fill: Fill,
    counters_max: usize,
    spilled_max: u64,
    /// Under numbers that rise.
    pub(crate) searches: BTreeMap<u64, Task>,
    pub(crate) next_search: u64,
    /// Searches that can work on.
    ready: VecDeque<u64>,
    connections: BTreeMap<ConnectionId, Connection>,
    next_place: u64,
    asks: HashMap<AskId, Waiting>,
    next_ask: u64,
    pub(crate) boot: Boot,
    /// What came before the state was loaded.
    held: Vec<Incoming>,
    held_bytes: usize,
    again: bool,
    ended: bool,
    out: Vec<Outgoing>,
}

impl std::fmt::Debug for Iee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Iee(..)")
    }
}

impl Iee {
    /// An enclave that waits for its launch. `root` is its own: what another one sealed it cannot open.
    #[must_use]
    pub fn new(root: Key, channels: Channels) -> Self {
        Self {
            journal: Journal::new(&root),
            pieces: checkpoint::Pieces::new(&root),
            prg: Prg::new(Key::generate().expose_16()),
            root,
            channels,
            identity: None,
            budget: Budget::new(0),
            state: State::default(),
            lane: Lane::default(),
            results: Results::default(),
            readings: Readings::default(),
            fill: Fill::new(0, 0, 0),
            counters_max: usize::MAX,
            spilled_max: SPILLED_MAX,
            searches: BTreeMap::new(),
            next_search: 0,
            ready: VecDeque::new(),
            connections: BTreeMap::new(),
            next_place: 0,
            asks: HashMap::new(),
            next_ask: 0,
            boot: Boot::Unlaunched,
            held: Vec::new(),
            held_bytes: 0,
            again: false,
            ended: false,
            out: Vec::new(),
        }
    }

    /// Holds no more keywords' counters in memory than this, though the launch's memory may have room for more: tests see to it so
    /// that counters are spilled.
    #[must_use]
    pub fn with_counters(self, counters_max: usize) -> Self {
        Self { counters_max, ..self }
    }

    /// Keeps no more records of keywords beside its memory than this, in place of [`SPILLED_MAX`]: updates that need more are refused.
    #[must_use]
    pub fn with_spilled(self, spilled_max: u64) -> Self {
        Self { spilled_max, ..self }
    }

    /// Takes a message of the host; what is to be sent to it, in this order.
    ///
    /// # Errors
    /// [`Fault`]: the enclave has ended.
    pub fn receive(&mut self, incoming: Incoming) -> Result<Vec<Outgoing>, Fault> {
        if self.ended {
            return Err(Fault::Ended);
        }
        let taken = self.take(incoming);
        self.ended = taken.is_err();
        taken?;
        if !self.again && !self.ready.is_empty() {
            self.again = true;
            self.out.push(Outgoing::Again);
        }
        Ok(std::mem::take(&mut self.out))
    }

    fn take(&mut self, incoming: Incoming) -> Result<(), Fault> {
        match incoming {
            Incoming::Launch { memory_bytes, administrator, authority } => {
                if memory_bytes < MEMORY_MIN {
                    return Err(Fault::Memory);
                }
                self.budget = Budget::new(usize::try_from(memory_bytes).map_err(|_| Fault::Memory)?);
                self.fill = Fill::new(self.budget.for_data(), self.counters_max, self.spilled_max);
                self.launch(administrator, authority.as_slice())
            }
            Incoming::Connected(_) | Incoming::FromClient { .. } | Incoming::Disconnected(_)
                if !matches!(self.boot, Boot::Over) =>
            {
                self.held_bytes += match &incoming {
                    Incoming::FromClient { bytes, .. } => bytes.len(),
                    _ => 64,
                };
                self.held.push(incoming);
                if self.held_bytes > HELD_BYTES_MAX { Err(Fault::OutOfTurn) } else { Ok(()) }
            }
            Incoming::Connected(connection) => self.connected(connection),
            Incoming::FromClient { connection, bytes } => {
                self.heard(connection, bytes.as_slice());
                Ok(())
            }
            Incoming::Disconnected(connection) => {
                self.forget(connection);
                Ok(())
            }
            Incoming::Entries { ask, entries } => self.entries(ask, entries.as_slice()),
            Incoming::Done(ask) => match self.asks.remove(&ask) {
                Some(Waiting::Stored) => self.stored(),
                Some(Waiting::Removed) => {
                    self.removed(ask);
                    Ok(())
                }
                _ => Err(Fault::Unasked),
            },
            Incoming::Loaded { ask, state } => self.state_loaded(ask, state.as_ref().map(Blob::as_slice)),
            Incoming::Counter { ask, value } => match self.asks.remove(&ask) {
                Some(Waiting::Boot) => self.counter_read(value),
                // What it was before says that nobody else had raised it.
                Some(Waiting::Raised) if value == self.journal.counter => self.raised(),
                Some(Waiting::Raised) => Err(Fault::Forked),
                _ => Err(Fault::Unasked),
            },
            Incoming::Evidence { ask, evidence } => match self.asks.remove(&ask) {
                Some(Waiting::Evidence) => self.present(evidence.as_slice()),
                _ => Err(Fault::Unasked),
            },
            Incoming::Time(seconds) => {
                self.tell_time(seconds);
                Ok(())
            }
            Incoming::Again => {
                if !std::mem::take(&mut self.again) {
                    return Err(Fault::Unasked);
                }
                self.piece();
                Ok(())
            }
        }
    }

    fn state_loaded(&mut self, ask: AskId, state: Option<&[u8]>) -> Result<(), Fault> {
        match self.asks.remove(&ask) {
            Some(Waiting::Boot) => self.loaded(state),
            Some(Waiting::Read(piece)) => self.piece_read(piece, state),
            Some(Waiting::Copied) => self.copied(state),
            _ => Err(Fault::Unasked),
        }
    }

    /// An attested enclave wants its evidence first; then, or at once, the state is loaded.
    fn launch(&mut self, administrator: String, authority: &[u8]) -> Result<(), Fault> {
        if !matches!(self.boot, Boot::Unlaunched) || self.identity.is_some() {
            return Err(Fault::OutOfTurn);
        }
        if self.channels == Channels::Plain {
            self.lane.launched_by = (administrator, [0; 32]);
            self.begin_boot();
            return Ok(());
        }
        self.identity = Some(Identity::new(authority, &administrator)?);
        self.lane.launched_by = (administrator, sha256(&[authority]));
        self.attest();
        Ok(())
    }

    fn attest(&mut self) {
        let (Some(identity), Channels::Attested { debug }) = (&self.identity, self.channels) else { return };
        let binding = identity.binding;
        self.ask(Waiting::Evidence, |ask| Outgoing::Attest {
            ask,
            binding,
            debug,
            version: SECURITY_VERSION,
        });
    }

    fn present(&mut self, evidence: &[u8]) -> Result<(), Fault> {
        let presented = self.identity.as_mut().map(|identity| identity.present(evidence));
        presented.ok_or(Fault::Unasked)?.map_err(|_| Fault::Malformed)?;
        if matches!(self.boot, Boot::Unlaunched) {
            self.begin_boot();
        }
        Ok(())
    }

    /// Evidence is renewed before it is old; who has begun a handshake and does not end it makes place.
    fn tell_time(&mut self, seconds: u64) {
        let Some(identity) = &self.identity else { return };
        identity.tell_time(seconds);
        let now = identity.now();
        let asked = self.asks.values().any(|waiting| *waiting == Waiting::Evidence);
        if !asked && identity.renewed + RENEWAL_SECONDS <= now {
            self.attest();
        }
        self.close_those(|peer| peer.client.is_none() && peer.began + HANDSHAKE_SECONDS < now);
    }

    /// Clients are answered from now on.
    pub(crate) fn ready(&mut self) -> Result<(), Fault> {
        self.boot = Boot::Over;
        self.out.push(Outgoing::Ready);
        self.held_bytes = 0;
        std::mem::take(&mut self.held).into_iter().try_for_each(|held| self.take(held))
    }

    /// Asks the host for something.
    pub(crate) fn ask(&mut self, waiting: Waiting, question: impl FnOnce(AskId) -> Outgoing) {
        let ask = AskId(self.next_ask);
        self.next_ask += 1;
        self.asks.insert(ask, waiting);
        self.out.push(question(ask));
    }

    fn connected(&mut self, connection: ConnectionId) -> Result<(), Fault> {
        if self.connections.len() >= CONNECTIONS_MAX {
            self.out.push(Outgoing::Close(connection));
            return Ok(());
        }
        let began = self.identity.as_ref().map_or(0, Identity::now);
        let Some(channel) = Channel::open(self.identity.as_ref()) else { return Err(Fault::OutOfTurn) };
        let place = self.next_place;
        self.next_place += 1;
        let peer = Connection { channel, place, client: None, began, under_way: 0 };
        match self.connections.insert(connection, peer) {
            None => Ok(()),
            Some(_) => Err(Fault::OutOfTurn),
        }
    }

    fn heard(&mut self, connection: ConnectionId, bytes: &[u8]) {
        // One that was closed may have said more before it heard of it.
        let Some(peer) = self.connections.get_mut(&connection) else { return };
        let said = peer.channel.receive(bytes);
        let taken = match &said {
            Ok(Said::Client(client)) => Some(self.state.policy.takes(&client.serial)),
            Ok(Said::Nothing | Said::Message(_)) | Err(_) => None,
        };
        let mut bytes = peer.channel.pending();
        bytes.extend(taken.map(|taken| peer.channel.admit(taken)).unwrap_or_default());
        if !bytes.is_empty() {
            self.out.push(Outgoing::ToClient { connection, bytes: Blob(bytes) });
        }
        let said = match said {
            Ok(Said::Nothing) => return,
            Ok(Said::Client(client)) if taken == Some(true) => {
                peer.client = Some(client);
                return;
            }
            Ok(Said::Message(message)) => Ask::decode(&message).ok(),
            Ok(Said::Client(_)) | Err(_) => None,
        };
        let Some(Ask { number, request }) = said.filter(|_| peer.under_way < CLIENT_REQUESTS_MAX) else {
            return self.close(connection);
        };
        peer.under_way += 1;
        let client = Client { connection, place: peer.place, number };
        match self.request(client, request) {
            Ok(Some(reply)) => self.answer(client, reply),
            Ok(None) => {}
            Err(refused) => self.answer(client, Reply::Refused(refused)),
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        self.out.push(Outgoing::Close(connection));
        self.forget(connection);
    }

    /// Lets go of all that a connection had; changes that are under way go on without an answer.
    fn forget(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
        let waiting = self.readings.forget(connection) + self.lane.forget(connection);
        self.budget.release(self.results.close_all_of(connection) + waiting);
        let gone = self.searches.extract_if(.., |_, task| task.client.connection == connection);
        self.budget.release(gone.map(|(_, task)| task.reserved).sum());
        self.remove_next();
    }

    /// Ends connections of clients that have lost all rights, or whose certificate is no longer taken.
    pub(crate) fn dismiss(&mut self, whose: impl Fn(&Named) -> bool) {
        self.close_those(|peer| peer.client.as_ref().is_some_and(&whose));
    }

    fn close_those(&mut self, which: impl Fn(&Connection) -> bool) {
        let theirs: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|(_, peer)| which(peer))
            .map(|(connection, _)| *connection)
            .collect();
        theirs.into_iter().for_each(|connection| self.close(connection));
    }

    pub(crate) fn answer(&mut self, client: Client, reply: Reply) {
        let peer = self.connections.get_mut(&client.connection);
        let Some(peer) = peer.filter(|peer| peer.place == client.place) else { return };
        peer.under_way = peer.under_way.saturating_sub(1);
        let bytes = peer.channel.wrap(&Answer { number: client.number, reply }.encode());
        self.out.push(Outgoing::ToClient { connection: client.connection, bytes: Blob(bytes) });
    }

    /// The results of somebody whose rights have changed are asked for anew.
    pub(crate) fn give_up_results_of(&mut self, identity: &str) {
        let theirs = self.connections.iter().filter(|(_, peer)| peer.name() == Some(identity));
        for (connection, _) in theirs {
            self.budget.release(self.results.close_all_of(*connection));
        }
    }

    /// Who asks; refused if it is gone.
    fn identity(&self, client: Client) -> Result<&str, Refused> {
        let peer = self.connections.get(&client.connection).filter(|peer| peer.place == client.place);
        peer.and_then(Connection::name).ok_or(Refused::NotAllowed)
    }

    fn rights(&self, client: Client, collection: u32) -> Result<Rights, Refused> {
        self.state.policy.rights(self.identity(client)?, &self.state.collection(collection)?.name)
    }

    /// Whether a client may ask this, now.
    pub(crate) fn permit(&self, client: Client, request: &Request) -> Result<(), Refused> {
        let permitted = match request {
            Request::Open { name } => self.state.policy.rights(self.identity(client)?, name).is_ok(),
            Request::Search(search) => may_search(&self.rights(client, search.collection)?, search),
            Request::Update(update) => self.rights(client, update.collection)?.update,
            Request::Compact { collection, .. } => self.rights(client, *collection)?.update,
            // Of results that are its own.
            Request::More { .. } | Request::Close { .. } => true,
            Request::Create { .. }
            | Request::Grant { .. }
            | Request::Revoke { .. }
            | Request::RevokeCertificate { .. } => self.identity(client)? == self.state.policy.administrator,
        };
        if permitted { Ok(()) } else { Err(Refused::NotAllowed) }
    }

    fn request(&mut self, client: Client, request: Request) -> Result<Option<Reply>, Refused> {
        request.check_bounds()?;
        self.permit(client, &request)?;
        match request {
            Request::Open { name } => {
                let number = self.state.named(&name).ok_or(Refused::NotAllowed)?;
                Ok(Some(Reply::Opened(self.state.collection(number)?.opened(number))))
            }
            Request::Search(search) => {
                let groups = self.rights(client, search.collection)?.groups;
                self.look_up(client, search, groups)
            }
            Request::More { cursor } => {
                let found = self.results.get(cursor, client.connection).ok_or(Refused::Cursor)?;
                let collection = self.state.collection(found.collection)?;
                let (page, freed) =
                    self.results.more(cursor, &collection.documents).ok_or(Refused::Cursor)?;
                self.budget.release(freed);
                Ok(Some(Reply::Found(page)))
            }
            Request::Close { cursor } => {
                if self.results.get(cursor, client.connection).is_some() {
                    let freed = self.results.close(cursor);
                    self.budget.release(freed);
                }
                Ok(Some(Reply::Done))
            }
            Request::Update(ref update) => {
                update.check().map_err(|_| Refused::Update)?;
                self.queue(client, request)
            }
            Request::Compact { .. }
            | Request::Create { .. }
            | Request::Grant { .. }
            | Request::Revoke { .. }
            | Request::RevokeCertificate { .. } => self.queue(client, request),
        }
    }

    /// Makes room, if need be by giving up results that nobody has taken for the longest time.
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<(), Refused> {
        loop {
            if self.budget.reserve(bytes) {
                return Ok(());
            }
            match self.results.close_oldest() {
                Some(freed) => self.budget.release(freed),
                None => break,
            }
        }
        // What others have under way comes back.
        let most = self.budget.most();
        if bytes <= most {
            return Err(Refused::Busy);
        }
        Err(Refused::Memory { needed: bytes as u64, budget: most as u64 })
    }

    /// Asks for what a search needs next.
    pub(crate) fn pump(&mut self, number: u64) {
        let Some(mut task) = self.searches.remove(&number) else { return };
        if task.fetch.is_done() {
            self.ready.push_back(number);
        } else {
            self.fetch(&mut task.fetch, task.search.collection, Waiting::Search(number));
        }
        self.searches.insert(number, task);
    }

    /// Asks for entries, or for their removal, as far as that may be asked now.
    pub(crate) fn fetch(&mut self, fetch: &mut Fetch, collection: u32, waiting: Waiting) {
        loop {
            let Ok(collection) = self.state.collection(collection) else { return };
            let ask = AskId(self.next_ask);
            let Some(labels) = fetch.next(&collection.keys, ask, &mut self.prg) else { return };
            let labels = Blob(labels);
            match waiting {
                Waiting::Removed => self.ask(waiting, |ask| Outgoing::Remove { ask, labels }),
                _ => self.ask(waiting, |ask| Outgoing::Get { ask, labels }),
            }
        }
    }

    fn entries(&mut self, ask: AskId, entries: &[u8]) -> Result<(), Fault> {
        match self.asks.remove(&ask) {
            Some(Waiting::Search(number)) => {
                // Its client may be gone.
                let Some(task) = self.searches.get_mut(&number) else { return Ok(()) };
                let Ok(collection) = self.state.collection(task.search.collection) else { return Ok(()) };
                match task.fetch.arrive(&collection.keys, ask, entries) {
                    Ok(()) => self.pump(number),
                    Err(tampering) => self.end_search(number, Reply::Refused(Refused::Storage(tampering))),
                }
                Ok(())
            }
            Some(Waiting::Round) => self.round_entries(ask, entries),
            _ => Err(Fault::Unasked),
        }
    }

    fn end_search(&mut self, number: u64, reply: Reply) {
        if let Some(task) = self.searches.remove(&number) {
            self.budget.release(task.reserved);
            self.answer(task.client, reply);
        }
        self.remove_next();
    }

    /// One piece of the search whose turn it is.
    fn piece(&mut self) {
        let Some(number) = self.ready.pop_front() else { return };
        let Some(task) = self.searches.get_mut(&number) else { return };
        let Ok(collection) = self.state.collection(task.search.collection) else { return };
        let cursor = match task.piece(collection, &mut self.budget) {
            Ok(Progress::More) => return self.ready.push_back(number),
            Ok(Progress::Found(cursor)) => cursor,
            Err(refused) => return self.end_search(number, Reply::Refused(refused)),
        };
        // Its rights may have changed since it began.
        let seen = self.searches.get(&number).is_some_and(|task| {
            let rights = self.rights(task.client, task.search.collection);
            rights.is_ok_and(|rights| rights.groups == task.groups && may_search(&rights, &task.search))
        });
        let reply = if seen { self.keep(cursor) } else { Reply::Refused(Refused::NotAllowed) };
        self.end_search(number, reply);
    }

    /// The first page; the rest is kept for as long as there is room.
    fn keep(&mut self, mut cursor: results::Cursor) -> Reply {
        let bytes = cursor.bytes();
        if let Err(refused) = self.make_room(bytes) {
            return Reply::Refused(refused);
        }
        cursor.reserved = bytes;
        let Ok(collection) = self.state.collection(cursor.collection) else { return Reply::Done };
        let (page, freed) = self.results.begin(cursor, &collection.documents);
        self.budget.release(freed);
        Reply::Found(page)
    }
}
