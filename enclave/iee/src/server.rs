//! The enclave: who is connected, who asks what, and what the tasks share.

use crate::budget::{Budget, Held, Reserved, Share};
use crate::channel::{Channels, Identity, Tls};
use crate::checkpoint::STEP_BYTES;
use crate::journal::{Journal, Sealer};
use crate::lane::Job;
use crate::policy::{Owner, may_search};
use crate::results::Results;
use crate::spill::{Fill, Readings};
use crate::state::State;
use crate::tasks::Tasks;
use arras_keys::Key;
use arras_primitives::hash::sha256;
use arras_primitives::prg::Prg;
use arras_protocol::Blob;
use arras_protocol::iee::{CLIENT_REQUESTS_MAX, CONNECTIONS_MAX, ConnectionId, Fault, Incoming, Outgoing};
use arras_schemes::bisen::channel::{
    ADMITTED, CROWDED, EnclaveChannel, Named, REVOKED, SECURITY_VERSION, Said,
};
use arras_schemes::bisen::message::{Answer, Ask, Refused, Reply, Request, Rights, decode, encode};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Least memory that the enclave works with.
const MEMORY_MIN: u64 = 16 << 20;

/// Most connections of one client.
const CLIENT_CONNECTIONS_MAX: usize = CONNECTIONS_MAX / 8;

/// A request: whose, and under which number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) connection: ConnectionId,
    /// Which of all connections: the host may use its name for it again.
    place: u64,
    number: u64,
}

struct Connection {
    channel: Box<dyn EnclaveChannel>,
    /// How many there were before it.
    place: u64,
    /// Who it is, once its channel is open.
    client: Option<Named>,
    /// What all connections of its name have of the memory.
    share: Share,
    /// Requests that are not answered.
    under_way: usize,
}

/// What the tasks share.
pub(crate) struct Core {
    pub(crate) root: Key,
    channels: Channels,
    /// Who it is to clients of attested channels.
    pub(crate) identity: Option<Identity>,
    /// Whom the launch named.
    pub(crate) launched_by: Option<Owner>,
    pub(crate) prg: Prg,
    pub(crate) budget: Budget,
    pub(crate) state: State,
    pub(crate) journal: Journal,
    /// Seals checkpoints.
    pub(crate) pieces: Sealer,
    pub(crate) tasks: Tasks,
    /// Changes that wait for their turns, and whose the last was.
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) last_job: u64,
    pub(crate) results: Results,
    pub(crate) readings: Readings,
    /// How full the tables are, and its bounds that are not the memory's.
    pub(crate) fill: Fill,
    bounds: (usize, Option<u64>),
    connections: BTreeMap<ConnectionId, Connection>,
    next_place: u64,
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

impl std::fmt::Debug for Iee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Iee(..)")
    }
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
            journal: Journal::new(&root),
            pieces: Sealer::new(&root, b"checkpoint", STEP_BYTES),
            prg: Prg::new(Key::generate().expose_16()),
            root,
            channels,
            identity: None,
            launched_by: None,
            budget: Budget::default(),
            state: State::default(),
            tasks: Tasks::default(),
            jobs: VecDeque::new(),
            last_job: 0,
            results: Results::default(),
            readings: Readings::default(),
            fill: Fill::default(),
            bounds: (usize::MAX, None),
            connections: BTreeMap::new(),
            next_place: 0,
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
                core.launch(memory_bytes, administrator, authority.as_slice())?;
                core.tasks.spawn(None, self.clone().change_all());
                core.tasks.spawn(None, self.clone().read_all());
            }
            Incoming::Connected(_) if !core.is_ready => return Err(Fault::OutOfTurn),
            Incoming::Connected(connection) => core.connected(connection)?,
            Incoming::FromClient { connection, bytes } => {
                if let Some((client, request)) = core.heard(connection, bytes.as_slice())
                    && let Some(reply) = self
                        .serve(&mut core, client, request)
                        .unwrap_or_else(|refused| Some(Reply::Refused(refused)))
                {
                    core.answer(client, reply);
                }
            }
            Incoming::Disconnected(connection) => core.forget(connection),
            Incoming::Entries { ask, .. }
            | Incoming::Done(ask)
            | Incoming::Loaded { ask, .. }
            | Incoming::Counter { ask, .. } => core.tasks.answered(ask, incoming)?,
            Incoming::Certificate(certificate) => {
                core.identity.as_mut().ok_or(Fault::OutOfTurn)?.present(certificate.0)?;
            }
            Incoming::Time(seconds) => core.identity.iter().for_each(|identity| identity.tell_time(seconds)),
            Incoming::Again => core.tasks.give_turn()?,
        }
        Ok(())
    }

    /// The reply to a request, unless it waits for others.
    fn serve(&self, core: &mut Core, client: Client, request: Request) -> Result<Option<Reply>, Refused> {
        core.permit(client, &request)?;
        match request {
            Request::Open(name) => {
                let rights = core.state.policy.rights(core.identity(client)?, &name)?;
                core.state.open(&name, rights.update).map(Some)
            }
            Request::Search(search) => {
                let enclave = self.clone();
                core.tasks.spawn(Some(client.connection), async move {
                    let reply = enclave.search(client, search).await.unwrap_or_else(Reply::Refused);
                    enclave.core().answer(client, reply);
                    Ok(())
                });
                Ok(None)
            }
            Request::More(cursor) => {
                let page = core.results.more(cursor, client.connection, &core.state);
                page.map(|page| Some(Reply::Found(page))).ok_or(Refused::Cursor)
            }
            request => core.queue(client, request).map(|()| None),
        }
    }
}

impl Core {
    /// An attested enclave wants its certificate first; then, or at once, the state is loaded.
    fn launch(&mut self, memory_bytes: u64, administrator: String, authority: &[u8]) -> Result<(), Fault> {
        if memory_bytes < MEMORY_MIN {
            return Err(Fault::Memory);
        }
        if self.launched_by.is_some() {
            return Err(Fault::OutOfTurn);
        }
        self.budget = Budget::new(usize::try_from(memory_bytes).map_err(|_| Fault::Memory)?);
        self.fill = Fill::new(self.budget.for_data(), self.bounds);
        let mut hash = [0; 32];
        if let Channels::Attested { debug } = self.channels {
            let identity = Identity::new(authority, &administrator)?;
            let (public, binding) = (Blob(identity.public.clone()), identity.binding);
            self.tasks.say(Outgoing::Attest { public, binding, debug, version: SECURITY_VERSION });
            self.identity = Some(identity);
            hash = sha256(&[authority]);
        }
        self.launched_by = Some((administrator, hash));
        Ok(())
    }

    /// How many there are, and that none takes too long to say who it is, is the host's business.
    fn connected(&mut self, connection: ConnectionId) -> Result<(), Fault> {
        let channel: Box<dyn EnclaveChannel> = match self.channels {
            Channels::Attested { .. } => {
                Box::new(self.identity.as_ref().and_then(Tls::open).ok_or(Fault::OutOfTurn)?)
            }
            Channels::Other(open) => open(),
        };
        let share = Held::by(self.next_place + 1);
        let peer = Connection { channel, place: self.next_place, client: None, share, under_way: 0 };
        self.next_place += 1;
        match self.connections.insert(connection, peer) {
            None if self.connections.len() <= CONNECTIONS_MAX => Ok(()),
            _ => Err(Fault::OutOfTurn),
        }
    }

    /// What a client says; its request, if it is one.
    fn heard(&mut self, connection: ConnectionId, bytes: &[u8]) -> Option<(Client, Request)> {
        // One that was closed may have said more before it heard of it.
        let peer = self.connections.get_mut(&connection)?;
        let said = peer.channel.receive(bytes);
        let answer = peer.channel.pending();
        if !answer.is_empty() {
            self.tasks.say(Outgoing::ToClient { connection, bytes: Blob(answer) });
        }
        match said {
            Some(Said::Nothing) => return None,
            Some(Said::Client(client)) => {
                self.admit_client(connection, client);
                return None;
            }
            Some(Said::Message(message)) if peer.under_way < CLIENT_REQUESTS_MAX => {
                if let Ok(Ask { number, request }) = decode(&message) {
                    peer.under_way += 1;
                    return Some((Client { connection, place: peer.place, number }, request));
                }
            }
            Some(Said::Message(_)) | None => {}
        }
        self.close(connection);
        None
    }

    /// Tells a client that has shown its certificate whether it is taken.
    fn admit_client(&mut self, connection: ConnectionId, client: Named) {
        let others = self.connections_of(|other| other.name == client.name);
        let admission = if !self.state.policy.takes(&client.serial) {
            REVOKED
        } else if others.len() >= CLIENT_CONNECTIONS_MAX {
            CROWDED
        } else {
            ADMITTED
        };
        let share = others.first().and_then(|other| Some(Arc::clone(&self.connections.get(other)?.share)));
        let Some(peer) = self.connections.get_mut(&connection) else { return };
        let bytes = Blob(peer.channel.admit(admission));
        if !bytes.is_empty() {
            self.tasks.say(Outgoing::ToClient { connection, bytes });
        }
        if admission != ADMITTED {
            return self.close(connection);
        }
        peer.share = share.unwrap_or_else(|| Arc::clone(&peer.share));
        peer.client = Some(client);
        self.tasks.say(Outgoing::Opened(connection));
    }

    /// What a client has of the memory.
    pub(crate) fn share(&self, client: Client) -> Share {
        self.connections.get(&client.connection).map(|peer| Arc::clone(&peer.share)).unwrap_or_default()
    }

    fn close(&mut self, connection: ConnectionId) {
        self.tasks.say(Outgoing::Close(connection));
        self.forget(connection);
    }

    /// Lets go of all that a connection had; a change that is under way goes on without an answer.
    fn forget(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
        self.results.close_all_of(connection);
        self.jobs.retain(|job| job.client.connection != connection);
        self.tasks.forget(connection);
    }

    /// Ends connections of clients that have lost all rights, or whose certificate is no longer taken.
    pub(crate) fn dismiss(&mut self, whose: impl Fn(&Named) -> bool) {
        self.connections_of(whose).into_iter().for_each(|connection| self.close(connection));
    }

    /// The results of somebody whose rights have changed are asked for anew.
    pub(crate) fn give_up_results_of(&mut self, identity: &str) {
        let theirs = self.connections_of(|client| client.name == identity);
        theirs.into_iter().for_each(|connection| self.results.close_all_of(connection));
    }

    fn connections_of(&self, whose: impl Fn(&Named) -> bool) -> Vec<ConnectionId> {
        let theirs = self.connections.iter().filter(|(_, peer)| peer.client.as_ref().is_some_and(&whose));
        theirs.map(|(connection, _)| *connection).collect()
    }

    pub(crate) fn answer(&mut self, client: Client, reply: Reply) {
        let peer = self.connections.get_mut(&client.connection);
        let Some(peer) = peer.filter(|peer| peer.place == client.place) else { return };
        peer.under_way = peer.under_way.saturating_sub(1);
        let bytes = Blob(peer.channel.wrap(&encode(&Answer { number: client.number, reply })));
        self.tasks.say(Outgoing::ToClient { connection: client.connection, bytes });
    }

    /// Who asks; refused if it is gone.
    fn identity(&self, client: Client) -> Result<&str, Refused> {
        let peer = self.connections.get(&client.connection).filter(|peer| peer.place == client.place);
        let named = peer.and_then(|peer| peer.client.as_ref());
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
            // Of results that are its own; what it may hear of a collection is looked at when it hears it.
            Request::More(_) | Request::Open(_) => true,
            Request::Create { .. }
            | Request::Grant { .. }
            | Request::Revoke(_)
            | Request::RevokeCertificate(_) => self.identity(client)? == self.state.policy.owner.0,
        };
        if permitted { Ok(()) } else { Err(Refused::NotAllowed) }
    }

    /// Makes room for a client, if need be by giving up results that nobody has taken for the longest time: its own, or of who has
    /// more, if it is not to have more.
    pub(crate) fn make_room(&mut self, bytes: usize, share: &Share) -> Result<Reserved, Refused> {
        let most = self.budget.most();
        if bytes > most {
            return Err(Refused::Memory { needed: bytes as u64, budget: most as u64 });
        }
        loop {
            if let Some(reserved) = self.budget.reserve(bytes, share) {
                return Ok(reserved);
            }
            let its = if self.budget.is_fair(bytes, share) { None } else { Some(share) };
            if !self.results.close_oldest(its) {
                // What others have under way comes back.
                return Err(Refused::Busy);
            }
        }
    }

    /// Makes room for data, and for what is there beside it for a while.
    pub(crate) fn make_room_for_data(&mut self, growth: usize, beside: usize) -> Result<Reserved, Refused> {
        let budget = self.budget.free_for_data();
        if growth > budget {
            return Err(Refused::Memory { needed: growth as u64, budget: budget as u64 });
        }
        drop(self.make_room(growth + beside, &Share::default())?);
        self.budget.kept += growth;
        self.make_room(beside, &Share::default())
    }
}
