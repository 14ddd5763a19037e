//! The real way across the trust line: TLS 1.3 to the server, many calls at once on one stream.
//!
//! *Bounds.* [`IN_FLIGHT_MAX`] calls at once, further ones wait; 64 MiB of requests waiting to be written,
//! further ones wait; frames of at most [`FRAME_BYTES_MAX`]; each call ends by its deadline at the latest.
//!
//! *Loss.* When the connection breaks, every call in flight fails at once with [`ChannelError::Lost`]. The next
//! call connects again, at most one attempt at a time and with growing pauses between failing ones. A request
//! that may have reached the server is never sent again: what became of it is the caller's business.
//!
//! *Restarts.* Every new connection begins with `hello`. [`Connection::incarnation`] is up to date before the
//! first call goes out on it.

mod dial;
pub mod tls;

pub use dial::ConnectError;

use arras_certificates::{Certificate, Reloading};
use arras_engine::history::{Halt, History};
use arras_protocol::frame::FrameKind;
use arras_protocol::limits::{FRAME_BYTES_MAX, IN_FLIGHT_MAX};
use arras_protocol::{Channel, ChannelError, Protocol, Refusal, codec, hello};
use arras_transport::link::{Link, Unsent};
use dial::Dialled;
use rustls::ClientConfig;
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::{info, warn};

/// Bytes of requests waiting to be written, at most.
const QUEUED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Largest message that is decoded on the thread that serves its call, in bytes: a few tens of microseconds' work.
const DECODED_AT_ONCE_BYTES: usize = 64 * 1024;

/// Longest pause before another attempt to connect.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long a database that another proxy holds is waited for: one that is just ending gives it up.
const GIVEN_UP: Duration = Duration::from_secs(3);
const PAUSE_LEASED: Duration = Duration::from_millis(100);

/// How to reach a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Host and port.
    pub address: String,
    /// Certificates: see [`tls::reloading`] and [`tls::client_config`]. Each new connection goes by those then in force.
    pub tls: Reloading<ClientConfig>,
    /// The database the server must have; `None` accepts the one first met, and no other afterwards.
    pub database: Option<[u8; 16]>,
    /// How long a call may take, connecting included.
    pub deadline: Duration,
    /// How long connecting may take.
    pub connect: Duration,
    /// What the server must know, and what of it this proxy holds.
    pub history: Arc<History>,
}

impl Settings {
    /// Usual settings: calls may take 30 s, connecting 10 s, any database, to be read and
    /// written.
    #[must_use]
    pub fn new(address: impl Into<String>, tls: impl Into<Reloading<ClientConfig>>) -> Self {
        Self {
            address: address.into(),
            tls: tls.into(),
            database: None,
            deadline: Duration::from_secs(30),
            connect: Duration::from_secs(10),
            history: Arc::default(),
        }
    }
}

/// A connection to the server, made again when it breaks. Clones share it.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<ConnectionState>,
    deadline: Duration,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({})", self.shared.settings.address)
    }
}

struct ConnectionState {
    settings: Settings,
    in_flight: Semaphore,
    queue: Arc<Semaphore>,
    incarnation: watch::Sender<u64>,
    current: Mutex<Current>,
    /// Held by the one that connects.
    dialling: tokio::sync::Mutex<()>,
}

/// The link in use, and how connecting went.
struct Current {
    link: Arc<Link>,
    server: hello::Response,
    certificate: Option<Certificate>,
    attempts: u64,
    failures_in_a_row: u32,
    not_before: Instant,
    last_failure: String,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// [`ConnectError`], saying what to do about it.
    pub async fn open(settings: Settings) -> Result<Self, ConnectError> {
        let began = Instant::now();
        let Dialled { link, server, certificate } = loop {
            match dial::dial(&settings, settings.database).await {
                Err(ConnectError::Leased { .. }) if began.elapsed() < GIVEN_UP => sleep(PAUSE_LEASED).await,
                dialled => break dialled?,
            }
        };
        info!(address = settings.address, engine = server.engine, "connected to the server");
        let current = Current {
            link: Arc::new(link),
            attempts: 1,
            failures_in_a_row: 0,
            not_before: Instant::now() + pause_after(1),
            last_failure: String::new(),
            server,
            certificate,
        };
        let shared = ConnectionState {
            in_flight: Semaphore::new(IN_FLIGHT_MAX),
            queue: Arc::new(Semaphore::new(QUEUED_BYTES_MAX)),
            incarnation: watch::Sender::new(current.server.incarnation),
            current: Mutex::new(current),
            dialling: tokio::sync::Mutex::new(()),
            settings,
        };
        Ok(Self { deadline: shared.settings.deadline, shared: Arc::new(shared) })
    }

    /// Connects; while the server is not there, tries again with growing pauses. What waiting does not mend (a
    /// certificate, another version) is an error at once.
    ///
    /// # Errors
    /// [`ConnectError`] for which [`ConnectError::may_pass`] is false.
    pub async fn open_when_there(settings: Settings) -> Result<Self, ConnectError> {
        let mut failures: u32 = 0;
        loop {
            let error = match Self::open(settings.clone()).await {
                Err(error) if error.may_pass() => error,
                ended => return ended,
            };
            failures = failures.saturating_add(1);
            // Said ever more seldom: the first lines tell all there is to tell.
            if failures.is_power_of_two() {
                warn!(address = settings.address, failures, "waiting for the server: {error}");
            }
            sleep(pause_after(failures)).await;
        }
    }

    /// The same connection with another deadline for its calls.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { shared: Arc::clone(&self.shared), deadline }
    }

    /// Who the server said it is when it was last connected to.
    #[must_use]
    pub fn server(&self) -> hello::Response {
        self.shared.current().server.clone()
    }

    /// The certificate that the server showed when it was last connected to.
    #[must_use]
    pub fn certificate(&self) -> Option<Certificate> {
        self.shared.current().certificate.clone()
    }

    /// The server's incarnation. A change, even to the same, means that it was restarted or its storage set back, and
    /// that what was stored with relaxed durability may be gone.
    #[must_use]
    pub fn incarnation(&self) -> watch::Receiver<u64> {
        self.shared.incarnation.subscribe()
    }

    async fn call_until<P: Protocol>(
        &self,
        request: P::Request,
        until: Instant,
    ) -> Result<P::Response, ChannelError> {
        let mut body = codec::encode(&request);
        drop(request);
        if body.len() > FRAME_BYTES_MAX {
            return Err(ChannelError::TooLarge { request_bytes: body.len(), limit_bytes: FRAME_BYTES_MAX });
        }
        let closed = |_| ChannelError::Lost("this proxy is stopping".into());
        let _permit = self.shared.in_flight.acquire().await.map_err(closed)?;
        let room = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.shared.queue).acquire_many_owned(room).await.map_err(closed)?;
        let mut room = Some(room);
        loop {
            if let Some(halt) = self.shared.settings.history.halted() {
                return Err(halted(halt));
            }
            let link = self.shared.link(self.deadline).await?;
            let answered = match link.exchange(P::ID, body, until, room).await {
                Ok(answered) => answered?,
                // The link broke before the request was handed to it: nothing can have been sent.
                Err(Unsent { body: unsent, room: kept }) => {
                    (body, room) = (unsent, kept);
                    continue;
                }
            };
            return match answered {
                (FrameKind::Refusal, body) => {
                    let refusal = decoded::<Refusal>(body).await?;
                    self.shared.settings.history.refused(&refusal);
                    Err(ChannelError::Refused(refusal))
                }
                (_, body) => decoded(body).await,
            };
        }
    }
}

fn halted(halt: Halt) -> ChannelError {
    ChannelError::Halted(halt.to_string())
}

/// A message, decoded where that does not hold other calls up.
async fn decoded<T: DeserializeOwned + Send + 'static>(body: Vec<u8>) -> Result<T, ChannelError> {
    let decoded = if body.len() <= DECODED_AT_ONCE_BYTES {
        codec::decode(&body)
    } else {
        let elsewhere = tokio::task::spawn_blocking(move || codec::decode(&body));
        elsewhere.await.map_err(|_| ChannelError::Malformed("its reply could not be decoded".into()))?
    };
    decoded.map_err(|error| ChannelError::Malformed(error.to_string()))
}

impl<P: Protocol> Channel<P> for Connection {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        let until = Instant::now() + self.deadline;
        let late = || ChannelError::Deadline(u64::try_from(self.deadline.as_millis()).unwrap_or(u64::MAX));
        timeout_at(until, self.call_until::<P>(request, until)).await.unwrap_or_else(|_| Err(late()))
    }
}

impl ConnectionState {
    fn current(&self) -> MutexGuard<'_, Current> {
        // Nothing panics while it is held, and its fields hold together one by one.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> Result<Arc<Link>, u64> {
        let current = self.current();
        if current.link.is_open() { Ok(Arc::clone(&current.link)) } else { Err(current.attempts) }
    }

    /// The link in use, or a new one.
    async fn link(&self, patience: Duration) -> Result<Arc<Link>, ChannelError> {
        let attempts = match self.live() {
            Ok(link) => return Ok(link),
            Err(attempts) => attempts,
        };
        let _dialling = self.dialling.lock().await;
        match self.live() {
            Ok(link) => return Ok(link),
            // Somebody tried while this call waited: one failure is enough for all who waited.
            Err(now) if now != attempts => {
                return Err(ChannelError::Lost(self.current().last_failure.clone()));
            }
            Err(_) => {}
        }
        let (not_before, database) = {
            let current = self.current();
            (current.not_before, current.server.database)
        };
        sleep_until(not_before).await;
        let limit = self.settings.connect.min(patience);
        let settings = Settings { connect: limit, ..self.settings.clone() };
        match dial::dial(&settings, Some(database)).await {
            Ok(dialled) => Ok(self.linked(dialled)),
            Err(ConnectError::Halted(halt)) => Err(halted(halt)),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn linked(&self, Dialled { link, server, certificate }: Dialled) -> Arc<Link> {
        let link = Arc::new(link);
        let incarnation = server.incarnation;
        info!(address = self.settings.address, incarnation, "connected to the server again");
        // Before the link is to be had: whoever calls on it can know of the restart.
        let mut current = self.current();
        let set_back = current.server.setbacks != server.setbacks;
        self.incarnation
            .send_if_modified(|known| std::mem::replace(known, incarnation) != incarnation || set_back);
        current.link = Arc::clone(&link);
        (current.server, current.certificate) = (server, certificate);
        current.attempts += 1;
        current.failures_in_a_row = 0;
        // A server that greets and hangs up is not connected to in a tight loop.
        current.not_before = Instant::now() + pause_after(1);
        link
    }

    fn failed(&self, error: &ConnectError) -> ChannelError {
        let mut current = self.current();
        current.attempts += 1;
        current.failures_in_a_row = current.failures_in_a_row.saturating_add(1);
        let pause = pause_after(current.failures_in_a_row);
        current.not_before = Instant::now() + pause;
        current.last_failure = error.to_string();
        warn!(
            address = self.settings.address,
            failures = current.failures_in_a_row,
            pause_ms = pause.as_millis(),
            "cannot connect to the server: {error}"
        );
        ChannelError::Lost(current.last_failure.clone())
    }
}

/// How long to leave a server alone that could not be reached `failures` times in a row.
fn pause_after(failures: u32) -> Duration {
    let doubled = 2u32.saturating_pow(failures.saturating_sub(1).min(16));
    Duration::from_millis(50).saturating_mul(doubled).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests;
