//! The way between a proxy and its server: messages that are delayed, and so come in another order, are cut off, answered
//! late or never; and replies that become lies.

use crate::disk::{Disk, Process};
use crate::flag::Flag;
use crate::lies::Lie;
use crate::trace::Trace;
use crate::watch::Watch;
use arras_engine::history::History;
use arras_protocol::hello::{self, Hello};
use arras_protocol::limits::PROTOCOL_VERSION;
use arras_protocol::{Channel, ChannelError, Protocol, ProtocolId, Refusal, codec};
use arras_server::{Backend, Caller};
use rand::RngExt;
use rand::rngs::StdRng;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

/// How long a call waits for its reply.
const DEADLINE: Duration = Duration::from_secs(3);
/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(40);

/// How bad the network is, in chances of 1,000 for each message.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// The connection is cut on the way there, or on the way back.
    pub cut: u32,
    /// The message, or its reply, is never heard of again.
    pub lost: u32,
    /// It takes seconds.
    pub late: u32,
    /// Most milliseconds that a message usually takes.
    pub delay: u64,
}

impl Default for Weather {
    fn default() -> Self {
        Self { cut: 0, lost: 0, late: 0, delay: 4 }
    }
}

/// A server that runs.
pub struct Serving {
    /// The server's half.
    pub backend: Backend<Disk>,
    /// Its process.
    pub process: Arc<Process>,
}

/// What lies between all proxies and servers of a run.
pub struct Network {
    state: Mutex<State>,
    /// What the server has seen.
    pub watch: Watch,
    /// What happened.
    pub trace: Arc<Trace>,
}

struct State {
    weather: Weather,
    dice: StdRng,
    server: Option<Arc<Serving>>,
    lie: Option<Lie>,
    told: u64,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    pub(crate) there: Duration,
    pub(crate) back: Duration,
    pub(crate) cut_there: bool,
    pub(crate) cut_back: bool,
    pub(crate) lost_there: bool,
    pub(crate) lost_back: bool,
}

impl Network {
    /// A quiet network without a server.
    #[must_use]
    pub fn new(dice: StdRng, trace: Arc<Trace>) -> Arc<Self> {
        let state = State { weather: Weather::default(), dice, server: None, lie: None, told: 0 };
        Arc::new(Self { state: Mutex::new(state), watch: Watch::default(), trace })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the weather.
    pub fn set_weather(&self, weather: Weather) {
        self.state().weather = weather;
    }

    /// Puts a server at the other end, or takes it away.
    pub fn set_server(&self, server: Option<Arc<Serving>>) {
        self.state().server = server;
    }

    /// True if a server is there and alive.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.state().server.as_ref().is_some_and(|server| !server.process.is_dead())
    }

    /// The server tells this in the first reply that it can be told in.
    pub fn arm(&self, lie: Lie) {
        let mut state = self.state();
        (state.lie, state.told) = (Some(lie), 0);
    }

    /// The server is honest again; how many replies were lies.
    pub fn disarm(&self) -> u64 {
        let mut state = self.state();
        state.lie = None;
        state.told
    }

    /// A number up to `most`.
    pub(crate) fn chance(&self, most: u64) -> u64 {
        self.state().dice.random_range(0..=most)
    }

    pub(crate) fn fate(&self) -> Fate {
        let mut state = self.state();
        let Weather { cut, lost, late, delay } = state.weather;
        let delay_of = |dice: &mut StdRng| {
            let late = dice.random_range(0..1000) < late;
            let most = if late { 5000 } else { delay };
            Duration::from_millis(dice.random_range(0..=most))
        };
        let (there, back) = (delay_of(&mut state.dice), delay_of(&mut state.dice));
        let mut chance = |of_1000: u32| state.dice.random_range(0..1000) < of_1000;
        Fate {
            there,
            back,
            cut_there: chance(cut),
            cut_back: chance(cut),
            lost_there: chance(lost),
            lost_back: chance(lost),
        }
    }

    /// The server's answer.
    fn answer(&self, link: &Link, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        self.watch.request(protocol, body);
        let reply = link.server.backend.handle_for(&link.caller, protocol, body);
        self.trace.message(link.number, protocol, body, reply.as_deref().ok());
        let mut reply = reply?;
        let mut state = self.state();
        if let Some(lie) = state.lie
            && state.told == 0
            && lie.tell(protocol, &mut reply)
        {
            state.told += 1;
        }
        Ok(reply)
    }
}

/// A connection.
struct Link {
    number: u64,
    server: Arc<Serving>,
    caller: Caller,
    closed: Flag,
}

impl Link {
    /// Closes it; the server notices.
    fn close(&self) {
        if !self.closed.raise() {
            self.server.backend.ended(&self.caller);
        }
    }

    fn is_closed(&self) -> bool {
        self.closed.is_raised()
    }

    async fn closes(&self) {
        self.closed.raised().await;
    }
}

impl Drop for Link {
    /// Whoever was making it may have been given up: the server notices that, too.
    fn drop(&mut self) {
        self.close();
    }
}

/// A connection that is closed unless its greeting comes to its end.
struct GivenUp(Option<Arc<Link>>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        if let Some(link) = &self.0 {
            link.close();
        }
    }
}

/// One proxy's end of the network: a connection that is made again when it breaks, as the real one.
pub struct Wire {
    network: Arc<Network>,
    process: Arc<Process>,
    history: Arc<History>,
    link: Mutex<Option<Arc<Link>>>,
    /// Incarnation and setbacks of the server at the last greeting.
    greeted: Mutex<Option<(u64, u64)>>,
    restarts: watch::Sender<u64>,
    dialling: tokio::sync::Mutex<()>,
    links: AtomicU64,
}

impl Wire {
    /// A wire of a process.
    #[must_use]
    pub fn new(network: Arc<Network>, process: Arc<Process>, history: Arc<History>) -> Arc<Self> {
        Arc::new(Self {
            network,
            process,
            history,
            link: Mutex::new(None),
            greeted: Mutex::new(None),
            restarts: watch::Sender::new(0),
            dialling: tokio::sync::Mutex::new(()),
            links: AtomicU64::new(0),
        })
    }

    /// Changes with each restart of the server that was noticed.
    pub fn restarts(&self) -> watch::Receiver<u64> {
        self.restarts.subscribe()
    }

    /// Closes the connection, as the end of the process does.
    pub fn hang_up(&self) {
        if let Some(link) = self.current().take() {
            link.close();
        }
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Link>>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> Option<Arc<Link>> {
        self.current().clone().filter(|link| !link.is_closed() && !link.server.process.is_dead())
    }

    fn dead() -> ChannelError {
        ChannelError::Halted("this process is dead".into())
    }

    /// The connection, made if there is none. The server's greeting is compared with what is known before anything is
    /// asked on it.
    async fn link(&self) -> Result<Arc<Link>, ChannelError> {
        if let Some(link) = self.live() {
            return Ok(link);
        }
        let _dialling = self.dialling.lock().await;
        match self.live() {
            Some(link) => Ok(link),
            None => self.dial().await.map(|(link, _)| link),
        }
    }

    async fn dial(&self) -> Result<(Arc<Link>, hello::Response), ChannelError> {
        self.hang_up();
        sleep(PAUSE).await;
        if self.process.is_dead() {
            return Err(Self::dead());
        }
        let server = self.network.state().server.clone().filter(|server| !server.process.is_dead());
        let Some(server) = server else {
            return Err(ChannelError::Lost("nobody listens".into()));
        };
        let number = self.links.fetch_add(1, Ordering::Relaxed);
        let link = Arc::new(Link { number, server, caller: Caller::default(), closed: Flag::default() });
        // Whoever dials may be given up while the greeting is on its way.
        let mut given_up = GivenUp(Some(Arc::clone(&link)));
        let request = hello::Request { protocol_version: PROTOCOL_VERSION, purpose: self.history.purpose() };
        let reply =
            self.exchange(&link, Hello::ID, codec::encode(&request)).await.inspect_err(|_| link.close())?;
        let greeting: hello::Response =
            codec::decode(&reply).map_err(|error| ChannelError::Malformed(error.to_string()))?;
        if let Err(halt) = self.history.greeted(&greeting) {
            link.close();
            return Err(ChannelError::Halted(halt.to_string()));
        }
        let now = (greeting.incarnation, greeting.setbacks);
        let before = self.greeted.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        if before.is_some_and(|before| before != now) {
            self.restarts.send_modify(|restarts| *restarts += 1);
        }
        *self.current() = Some(Arc::clone(&link));
        given_up.0 = None;
        Ok((link, greeting))
    }

    /// Connects for the first time; the server's greeting.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn greet(&self) -> Result<hello::Response, ChannelError> {
        let _dialling = self.dialling.lock().await;
        self.dial().await.map(|(_, greeting)| greeting)
    }

    /// One message and its reply.
    async fn exchange(
        &self,
        link: &Arc<Link>,
        id: ProtocolId,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, ChannelError> {
        let (tell, told) = oneshot::channel();
        tokio::spawn(carry(Arc::clone(&self.network), Arc::clone(link), (id, body), tell));
        let outcome = tokio::select! {
            biased;
            () = self.process.dies() => return Err(Self::dead()),
            answered = timeout(DEADLINE, told) => answered,
            () = link.closes() => return Err(ChannelError::Lost("the connection was cut".into())),
        };
        match outcome {
            Ok(Ok(Ok(reply))) => Ok(reply),
            Ok(Ok(Err(refusal))) => {
                self.history.refused(&refusal);
                Err(ChannelError::Refused(refusal))
            }
            Ok(Err(_)) => Err(ChannelError::Lost("the connection was cut".into())),
            Err(_) => Err(ChannelError::Deadline(3000)),
        }
    }
}

/// Takes a message to the server and its reply back, whether or not anybody still waits for it.
async fn carry(
    network: Arc<Network>,
    link: Arc<Link>,
    (id, body): (ProtocolId, Vec<u8>),
    tell: oneshot::Sender<Result<Vec<u8>, Refusal>>,
) {
    let fate = network.fate();
    sleep(fate.there).await;
    if fate.cut_there || link.server.process.is_dead() {
        return link.close();
    }
    if fate.lost_there || link.is_closed() && fate.cut_back {
        return never(link, tell).await;
    }
    if link.is_closed() && id == Hello::ID {
        // A connection that ended before it was greeted on never held anything.
        return;
    }
    let reply = network.answer(&link, id, &body);
    if link.server.process.is_dead() {
        return link.close();
    }
    sleep(fate.back).await;
    if fate.cut_back {
        return link.close();
    }
    if fate.lost_back {
        return never(link, tell).await;
    }
    let _ = tell.send(reply);
}

/// Nothing comes of it, and the connection stays.
async fn never<T>(link: Arc<Link>, tell: oneshot::Sender<T>) {
    link.closes().await;
    drop(tell);
}

impl<P: Protocol> Channel<P> for Wire {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        let body = codec::encode(&request);
        drop(request);
        if self.process.is_dead() {
            return Err(Self::dead());
        }
        if let Some(halt) = self.history.halted() {
            return Err(ChannelError::Halted(halt.to_string()));
        }
        let link = self.link().await?;
        let reply = self.exchange(&link, P::ID, body).await?;
        codec::decode(&reply).map_err(|error| ChannelError::Malformed(error.to_string()))
    }
}
