//! The enclave: who is connected, who asks what, and what the tasks share.

use crate::budget::{Budget, Held, Reserved, Share};
use crate::channel::{Channels, Identity, Tls};
use crate::journal::{Journal, Sealer, Where};
use crate::lane::{Job, Stopped};
use crate::policy::{Owner, may_search};
use crate::spill::Fill;
use crate::state::State;
use crate::tasks::{Tasks, Waiting};
use arras_keys::Key;
use arras_primitives::hash::sha256;
use arras_primitives::prg::Prg;
use arras_protocol::Blob;
use arras_protocol::iee::{CONNECTIONS_MAX, ConnectionId, Fault, Incoming, Outgoing};
use arras_schemes::bisen::channel::{
    ADMITTED, CROWDED, EnclaveChannel, Named, REVOKED, SECURITY_VERSION, Said,
};
use arras_schemes::bisen::message::{Answer, Ask, Refused, Reply, Request, Rights, decode, encode};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Least memory that the enclave works with.
const MEMORY_MIN: u64 = 16 << 20;

/// Most connections of one client.
const CLIENT_CONNECTIONS_MAX: usize = CONNECTIONS_MAX / 8;

/// Bytes that a request takes beside its message until it is answered: those of a list, and for each of the message's own so many. A pair of
/// an update takes 164: stem, place, block, tag, order, put, and the record.
const REQUEST_BYTES: usize = 48 * 1024;
const REQUEST_TIMES: usize = 5;

/// A request: whose, and under which number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) connection: ConnectionId,
    number: u64,
}

struct Connection {
    channel: Box<dyn EnclaveChannel>,
    /// Who it is, once its channel is open.
    client: Option<Named>,
    /// What all connections of its name have of the memory.
    share: Share,
}

/// What the tasks share.
pub(crate) struct Core {
    pub(crate) root: Key,
    channels: Channels,
    /// Who it is to clients of attested channels.
    pub(crate) identity: Option<Identity>,
    pub(crate) prg: Prg,
    pub(crate) budget: Budget,
    pub(crate) state: State,
    pub(crate) journal: Journal,
    /// Seals what is kept.
    pub(crate) sealer: Sealer,
    pub(crate) tasks: Tasks,
    /// Changes that wait for their turns, and whose the last was.
    pub(crate) jobs: Waiting<Job>,
    pub(crate) last_job: u64,
    /// Whose results wait for a page to be taken, and what it has of the memory; who has waited longest comes first.
    pub(crate) unread: Vec<(Client, Share)>,
    /// How full the tables are, and its bounds that are not the memory's.
    pub(crate) fill: Fill,
    bounds: (usize, Option<u64>),
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: u64,
    /// Whether the state is loaded: there are no clients before.
    pub(crate) is_ready: bool,
}

/// What tasks have in their hands: all that they share.
#[derive(Clone)]
pub(crate) struct Enclave(Arc<Mutex<Core>>);

/// The enclave.
pub struct Iee {
    pub(crate) enclave: Enclave,
    has_ended: bool,
}

impl Drop for Iee {
    fn drop(&mut self) {
        // They have the enclave in their hands, and its keys.
        let tasks = std::mem::take(&mut self.enclave.core().tasks);
        drop(tasks);
    }
}

impl Iee {
    /// An enclave that waits for its launch. `root` is its own: what another one sealed it cannot open.
    #[must_use]
    pub fn new(root: Key, channels: Channels) -> Self {
        let core = Core {
            journal: Journal::default(),
            sealer: Sealer::new(&root),
            prg: Prg::new(Key::generate().expose_16()),
            root,
            channels,
            identity: None,
            budget: Budget::default(),
            state: State::default(),
            tasks: Tasks::default(),
            jobs: Waiting::new(),
            last_job: 0,
            unread: Vec::new(),
            fill: Fill::default(),
            bounds: (usize::MAX, None),
            connections: BTreeMap::new(),
            next_connection: 0,
            is_ready: false,
        };
        Self { enclave: Enclave(Arc::new(Mutex::new(core))), has_ended: false }
    }

    /// Holds no more keywords' counters in memory than this, though the launch's memory may have room for more (tests see to it so that
    /// counters are spilled), and no more records of keywords beside it than that: updates that need more are refused.
    #[must_use]
    pub fn with_bounds(self, counters_max: usize, spilled_max: u64) -> Self {
        self.enclave.core().bounds = (counters_max, Some(spilled_max));
        self
    }

    /// Takes a message of the host; what is to be sent to it, in this order.
    ///
    /// # Errors
    /// [`Fault`]: the enclave has ended.
    pub fn receive(&mut self, incoming: Incoming) -> Result<Vec<Outgoing>, Fault> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Err(Fault::Ended);
        }
        self.enclave.take(incoming)?;
        self.enclave.run()?;
        self.has_ended = false;
        Ok(self.enclave.core().tasks.take_out())
    }
}

impl Enclave {
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, incoming: Incoming) -> Result<(), Fault> {
        let mut core = self.core();
        match incoming {
            Incoming::Launch { memory_bytes, administrator, authority } => {
                let owner = core.launch(memory_bytes, administrator, authority.as_slice())?;
                core.tasks.spawn(None, Box::pin(self.clone().change_all(owner)));
            }
            Incoming::Connected { connection, seconds } => core.connected(connection, seconds)?,
            Incoming::FromClient { connection, bytes } => {
                if let Some((client, request)) = core.heard(connection, bytes.as_slice())
                    && let Err(refused) = self.serve(&mut core, client, request, bytes.len())
                {
                    core.answer(client, Reply::Refused(refused));
                }
            }
            Incoming::Disconnected(connection) => core.forget(connection),
            Incoming::Answer { ask, bytes } => core.tasks.answered(ask, bytes)?,
            Incoming::Certificate(certificate) => {
                core.identity.as_mut().ok_or(Fault::OutOfTurn)?.present(certificate.0)?;
            }
            Incoming::Again => core.tasks.give_turn()?,
        }
        Ok(())
    }

    /// Answers a request, or begins what does.
    fn serve(&self, core: &mut Core, client: Client, request: Request, bytes: usize) -> Result<(), Refused> {
        core.permit(client, &request)?;
        let bytes = REQUEST_BYTES + REQUEST_TIMES * bytes;
        match request {
            Request::Open(name) => {
                let rights = core.state.policy.rights(core.identity(client)?, &name)?;
                let reply = core.state.open(&name, rights.update)?;
                core.answer(client, reply);
            }
            Request::Search(search) => {
                let enclave = self.clone();
                let search = async move {
                    let done = enclave.search(client, search, bytes).await;
                    enclave.finish(client, done)
                };
                core.tasks.spawn(Some(client), Box::pin(search));
            }
            request => {
                let share = core.share(client);
                let reserved = core.make_room(bytes, &share)?;
                core.jobs.push_back((share.place, Job { client, request, reserved }));
            }
        }
        Ok(())
    }

    /// Answers a request that was carried out, or was not.
    pub(crate) fn finish(&self, client: Client, done: Result<Reply, Stopped>) -> Result<(), Fault> {
        let reply = match done {
            Ok(reply) => reply,
            Err(Stopped::Refused(refused)) => Reply::Refused(refused),
            Err(Stopped::Fault(fault)) => return Err(fault),
        };
        self.core().answer(client, reply);
        Ok(())
    }
}

impl Core {
    /// An attested enclave wants its certificate first; then, or at once, the state is loaded.
    fn launch(&mut self, memory_bytes: u64, administrator: String, authority: &[u8]) -> Result<Owner, Fault> {
        if memory_bytes < MEMORY_MIN {
            return Err(Fault::Memory);
        }
        if self.budget.total > 0 {
            return Err(Fault::OutOfTurn);
        }
        self.budget = Budget::new(usize::try_from(memory_bytes).map_err(|_| Fault::Memory)?);
        self.fill = Fill::new(self.budget.for_data(), self.bounds);
        let mut hash = [0; 32];
        if let Channels::Attested { debug } = self.channels {
            let (identity, public, binding) = Identity::new(authority, &administrator)?;
            let (version, quote) = (SECURITY_VERSION, Blob::default());
            self.tasks.out.push(Outgoing::Attest { public, binding, debug, version, quote });
            self.identity = Some(identity);
            hash = sha256(&[authority]);
        }
        Ok((administrator, hash))
    }

    /// How many there are, and that none takes too long to say who it is, is the host's business.
    fn connected(&mut self, connection: ConnectionId, seconds: u64) -> Result<(), Fault> {
        let is_full = self.connections.len() >= CONNECTIONS_MAX;
        if !self.is_ready || is_full || connection.0 < self.next_connection {
            return Err(Fault::OutOfTurn);
        }
        self.next_connection = connection.0.checked_add(1).ok_or(Fault::OutOfTurn)?;
        let channel: Box<dyn EnclaveChannel> = match self.channels {
            Channels::Attested { .. } => {
                let identity = self.identity.as_ref().ok_or(Fault::OutOfTurn)?;
                Box::new(Tls::open(identity, seconds).ok_or(Fault::OutOfTurn)?)
            }
            Channels::Other(open) => open(),
        };
        let share = Arc::new(Held { place: self.next_connection, ..Held::default() });
        self.connections.insert(connection, Connection { channel, client: None, share });
        Ok(())
    }

    /// What a client says; its request, if it is one.
    fn heard(&mut self, connection: ConnectionId, bytes: &[u8]) -> Option<(Client, Request)> {
        // One that was closed may have said more before it heard of it.
        let peer = self.connections.get_mut(&connection)?;
        let said = peer.channel.receive(bytes);
        match said {
            Some(Said::Nothing) => self.flush(connection),
            Some(Said::Client(client)) => self.admit_client(connection, client),
            Some(Said::Message(message)) => match decode(&message) {
                Ok(Ask { number, request }) => return Some((Client { connection, number }, request)),
                Err(_) => self.close(connection),
            },
            None => self.close(connection),
        }
        None
    }

    /// Sends what a channel has to say.
    fn flush(&mut self, connection: ConnectionId) {
        let pending = self.connections.get_mut(&connection).map(|peer| Blob(peer.channel.pending()));
        self.say(connection, pending.unwrap_or_default());
    }

    fn say(&mut self, connection: ConnectionId, bytes: Blob) {
        if !bytes.is_empty() {
            self.tasks.out.push(Outgoing::ToClient { connection, bytes });
        }
    }

    /// Tells a client that has shown its certificate whether it is taken.
    fn admit_client(&mut self, connection: ConnectionId, client: Named) {
        let others = self.connections_of(|other| other.name == client.name);
        let admission = if self.state.policy.revoked.contains(&client.serial) {
            REVOKED
        } else if others.len() >= CLIENT_CONNECTIONS_MAX {
            CROWDED
        } else {
            ADMITTED
        };
        let share = others.first().and_then(|other| Some(Arc::clone(&self.connections.get(other)?.share)));
        let Some(peer) = self.connections.get_mut(&connection) else { return };
        peer.channel.send(&[admission]);
        if admission != ADMITTED {
            return self.close(connection);
        }
        peer.share = share.unwrap_or_else(|| Arc::clone(&peer.share));
        peer.client = Some(client);
        self.flush(connection);
        self.tasks.out.push(Outgoing::Opened(connection));
    }

    /// What a client has of the memory.
    pub(crate) fn share(&self, client: Client) -> Share {
        self.connections.get(&client.connection).map(|peer| Arc::clone(&peer.share)).unwrap_or_default()
    }

    fn close(&mut self, connection: ConnectionId) {
        self.flush(connection);
        self.tasks.out.push(Outgoing::Close(connection));
        self.forget(connection);
    }

    /// Lets go of all that a connection had; a change that is under way goes on without an answer.
    fn forget(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
        self.jobs.retain(|(_, job)| job.client.connection != connection);
        self.unread.retain(|(client, _)| client.connection != connection);
        self.tasks.forget(|client| client.connection == connection);
    }

    /// Ends connections of clients that have lost all rights, or whose certificate is no longer taken.
    pub(crate) fn dismiss(&mut self, whose: impl Fn(&Named) -> bool) {
        self.connections_of(whose).into_iter().for_each(|connection| self.close(connection));
    }

    fn connections_of(&self, whose: impl Fn(&Named) -> bool) -> Vec<ConnectionId> {
        let theirs = self.connections.iter().filter(|(_, peer)| peer.client.as_ref().is_some_and(&whose));
        theirs.map(|(connection, _)| *connection).collect()
    }

    /// A reply, or a part of one, as it is sent.
    pub(crate) fn wrapped(&mut self, Client { connection, number }: Client, reply: Reply) -> Blob {
        let Some(peer) = self.connections.get_mut(&connection) else { return Blob::default() };
        peer.channel.send(&encode(&Answer { number, reply }));
        Blob(peer.channel.pending())
    }

    pub(crate) fn answer(&mut self, client: Client, reply: Reply) {
        let (connection, bytes) = (client.connection, self.wrapped(client, reply));
        self.say(connection, bytes);
    }

    /// Who asks; refused if it is gone.
    fn identity(&self, client: Client) -> Result<&str, Refused> {
        let named = self.connections.get(&client.connection).and_then(|peer| peer.client.as_ref());
        named.map(|named| named.name.as_str()).ok_or(Refused::NotAllowed)
    }

    pub(crate) fn rights(&self, client: Client, collection: u32) -> Result<Rights, Refused> {
        self.state.policy.rights(self.identity(client)?, &self.state.collection(collection)?.about.name)
    }

    /// Whether a client may ask this, now.
    pub(crate) fn permit(&self, client: Client, request: &Request) -> Result<(), Refused> {
        let permitted = match request {
            Request::Search(search) => may_search(&self.rights(client, search.collection)?, search),
            Request::Update(update) => self.rights(client, update.collection)?.update,
            Request::Compact { collection, .. } => self.rights(client, *collection)?.update,
            // What it may hear of a collection is looked at when it hears it.
            Request::Open(_) => true,
            Request::Create { .. }
            | Request::Grant { .. }
            | Request::Revoke(_)
            | Request::RevokeCertificate(_) => self.identity(client)? == self.state.policy.owner.0,
        };
        if permitted { Ok(()) } else { Err(Refused::NotAllowed) }
    }

    /// Seals what is kept.
    pub(crate) fn seal<T: Serialize>(&mut self, content: &T, at: Where<'_>) -> Vec<u8> {
        self.sealer.seal(content, at, &mut self.prg)
    }

    /// Makes room for a client, if need be by giving up results of one that has no less, itself among them, and has not taken a page for the
    /// longest time.
    pub(crate) fn make_room(&mut self, bytes: usize, share: &Share) -> Result<Reserved, Refused> {
        let most = self.budget.total.saturating_sub(self.state.bytes());
        if bytes > most {
            return Err(Refused::Memory { needed: bytes as u64, budget: most as u64 });
        }
        loop {
            if let Some(reserved) = self.budget.reserve(bytes, most, share) {
                return Ok(reserved);
            }
            // What others have under way comes back.
            let oldest =
                self.unread.iter().position(|(_, its)| its.bytes.load(Relaxed) >= share.bytes.load(Relaxed));
            let (reader, _) = self.unread.remove(oldest.ok_or(Refused::Busy)?);
            self.tasks.forget(|client| client == reader);
            self.answer(reader, Reply::Refused(Refused::Busy));
        }
    }

    /// Makes room for data that comes, until it is there, and for what is there beside it.
    pub(crate) fn make_room_for_data(&mut self, growth: usize, beside: usize) -> Result<Reserved, Refused> {
        let budget = self.budget.for_data().saturating_sub(self.state.bytes());
        if growth > budget {
            return Err(Refused::Memory { needed: growth as u64, budget: budget as u64 });
        }
        self.make_room(growth + beside, &Share::default())
    }
}
