//! Serves the protocols to the proxy over TLS: accepts, shakes hands, bounds, dispatches, stops.
//!
//! *What is bounded.* Connections, handshakes under way and their duration, requests in flight a connection,
//! bytes held for a connection and for all of them, requests being worked on in all, and how slow a peer may be within a message. A
//! connection over a bound is made to wait (its socket is not read), never served less correctly. When there are too
//! many handshakes or connections, those that keep the server waiting give way ([`arras_transport::handshakes`], `admission`).
//!
//! *Log.* Connections, protocol names, sizes, times and refusals; never what a message holds.

mod admission;
mod connection;
pub mod memory;

use self::admission::Seats;
use self::memory::Memory;
use crate::Caller;
use crate::tls::describe_handshake_failure;
use arras_certificates::Reloading;
use arras_protocol::limits::IN_FLIGHT_MAX;
use arras_protocol::{ProtocolId, Refusal};
use arras_transport::handshakes::{Handshake, Handshakes};
use arras_transport::pace::Pace;
use arras_transport::tcp;
use rustls::ServerConfig;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

/// Answers requests: the keyless half behind the listener.
pub trait Handler: Send + Sync + 'static {
    /// Answers one encoded request of a protocol with its encoded response. May block; called on many threads
    /// at once.
    ///
    /// # Errors
    /// [`Refusal`], which is sent in place of the response.
    fn handle(&self, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal>;

    /// True for a request that is answered in less time than another thread takes to wake: it is handled where it was
    /// read.
    fn is_quick(&self, protocol: ProtocolId, body: &[u8]) -> bool {
        let _ = (protocol, body);
        false
    }

    /// What a request has the handler hold in memory while it works on it, beside its body and what is decoded of that, in
    /// bytes.
    fn held_beside(&self, protocol: ProtocolId, body: &[u8]) -> usize {
        let _ = (protocol, body);
        0
    }

    /// Does a little of what nobody waits for; true if there is more of it. May block.
    ///
    /// # Errors
    /// [`Refusal`]; it may be tried again.
    fn sweep(&self) -> Result<bool, Refusal> {
        Ok(false)
    }

    /// How often what is behind this went through what a crash does to it ([`arras_storage::Storage::setbacks`]). A
    /// connection that began before the last time gets no answer from after it: it ends, as with the process.
    fn setbacks(&self) -> u64 {
        0
    }

    /// The same for a connection; a handler that grants connections something knows them by their caller.
    ///
    /// # Errors
    /// [`Refusal`], which is sent in place of the response.
    fn handle_for(&self, caller: &Caller, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let _ = caller;
        self.handle(protocol, body)
    }

    /// A connection has ended, or begins nothing more.
    fn ended(&self, caller: &Caller) {
        let _ = caller;
    }
}

/// Bounds of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections served at once; a further one takes the place of the one unused for longest, and is closed if all
    /// have requests under way.
    pub connections_max: usize,
    /// Handshakes under way at once; for a further one, the oldest of the address that has most of them is dropped.
    pub handshakes_max: usize,
    /// Time from accepting a connection to its accepted `hello`.
    pub handshake: Duration,
    /// Requests in flight on one connection.
    pub in_flight_max: usize,
    /// Bytes of requests and replies held for one connection, above which its socket is not read. One frame
    /// more may be held, and the replies of requests that are being worked on.
    pub held_bytes_max: usize,
    /// Bytes held for the requests and replies of all connections together, half for each ([`memory`]); a request above
    /// that waits in turn.
    pub memory_bytes: usize,
    /// Requests worked on at once, over all connections.
    pub workers: usize,
    /// How long a peer may stand still within a message, in either direction ([`Pace::AtLeast`]).
    pub stall: Duration,
    /// It may take a second more for so many bytes of the message that have passed.
    pub bytes_per_second: u64,
    /// How long a stop waits for what is under way.
    pub stop_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            connections_max: 64,
            handshakes_max: 64,
            handshake: Duration::from_secs(10),
            in_flight_max: IN_FLIGHT_MAX,
            held_bytes_max: 64 * 1024 * 1024,
            memory_bytes: 256 * 1024 * 1024,
            workers: (cores * 4).max(8),
            stall: Duration::from_secs(30),
            bytes_per_second: 64 * 1024,
            stop_grace: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// What is asked of a peer within each message.
    fn pace(&self) -> Pace {
        Pace::AtLeast { stall: self.stall, bytes_per_second: self.bytes_per_second }
    }
}

/// How long sent bytes may stay unacknowledged.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(60);

/// What all connections of a listener share.
struct Serving<H> {
    handler: Arc<H>,
    tls: Reloading<ServerConfig>,
    limits: Limits,
    workers: Arc<Semaphore>,
    memory: Memory,
    /// The place of the write that is worked on where it was received.
    here: Semaphore,
    seats: Arc<Seats>,
    stop: watch::Receiver<bool>,
}

/// A bound listener.
pub struct Listener {
    tcp: TcpListener,
    tls: Reloading<ServerConfig>,
    limits: Limits,
    memory: Memory,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener")
            .field("tcp", &self.tcp)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Listener {
    /// Binds `address` (port 0: any free one). Each handshake goes by the `tls` in force when it begins.
    ///
    /// # Errors
    /// What the operating system says: the address is taken, or not this machine's.
    pub async fn bind(
        address: impl ToSocketAddrs,
        tls: impl Into<Reloading<ServerConfig>>,
        limits: Limits,
    ) -> io::Result<Self> {
        let tcp = TcpListener::bind(address).await?;
        let memory = Memory::new(limits.memory_bytes, limits.workers);
        Ok(Self { tcp, tls: tls.into(), limits, memory })
    }

    /// The account of what is held in memory, for measurements.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.memory.clone()
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves until `stop` completes; then takes no new connection, refuses new requests with
    /// [`Refusal::Stopping`], answers those under way, and returns.
    pub async fn serve<H: Handler>(self, handler: Arc<H>, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let handshakes = Handshakes::new(self.limits.handshakes_max);
        let serving = Arc::new(Serving {
            handler,
            tls: self.tls,
            memory: self.memory,
            workers: Arc::new(Semaphore::new(self.limits.workers)),
            here: Semaphore::new(1),
            seats: Seats::new(self.limits.connections_max, self.limits.in_flight_max),
            limits: self.limits,
            stop: stopped,
        });
        let mut tasks = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(_) = tasks.join_next() => {}
                accepted = self.tcp.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let handshake = handshakes.begin(peer.ip());
                        tasks.spawn(admit(Arc::clone(&serving), stream, peer, handshake));
                    }
                    Err(error) => {
                        // Out of file descriptors, mostly: wait for some to come free.
                        warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        }
        drop(self.tcp);
        info!(connections = tasks.len(), "stopping: finishing what is under way");
        stopping.send_replace(true);
        let finish = async { while tasks.join_next().await.is_some() {} };
        if timeout(serving.limits.stop_grace, finish).await.is_err() {
            warn!("stopped with requests still under way");
        }
    }
}

/// Shakes hands and serves one connection to its end.
async fn admit<H: Handler>(
    serving: Arc<Serving<H>>,
    stream: TcpStream,
    peer: SocketAddr,
    handshake: Handshake<IpAddr>,
) {
    let until = Instant::now() + serving.limits.handshake;
    if let Err(error) = tcp::tune(&stream, Some(UNACKNOWLEDGED_MAX)) {
        debug!(%peer, %error, "socket options");
    }
    let mut stop = serving.stop.clone();
    let acceptor = TlsAcceptor::from(serving.tls.current());
    let shaken = tokio::select! {
        shaken = timeout_at(until, acceptor.accept(stream)) => shaken,
        () = handshake.dropped() => {
            return warn!(%peer, "connection closed: too many handshakes, and this was the oldest of its address");
        }
        _ = stop.wait_for(|stop| *stop) => return,
    };
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return warn!(%peer, "connection refused: {}", describe_handshake_failure(&error));
        }
        Err(_) => return warn!(%peer, "connection closed: the TLS handshake took too long"),
    };
    let Some(seat) = serving.seats.take() else {
        let limit = serving.limits.connections_max;
        return warn!(%peer, limit, "connection closed: as many others have requests under way");
    };
    connection::serve(serving, stream, peer, (handshake, until), &seat).await;
}

impl<S: arras_storage::Storage> Handler for crate::Backend<S> {
    fn handle(&self, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        Self::handle(self, protocol, body)
    }

    fn is_quick(&self, protocol: ProtocolId, body: &[u8]) -> bool {
        // While the store is opened again, reading takes as long as that.
        self.store().is_ready() && Self::is_quick(protocol, body)
    }

    fn held_beside(&self, protocol: ProtocolId, body: &[u8]) -> usize {
        Self::held_beside(protocol, body)
    }

    fn sweep(&self) -> Result<bool, Refusal> {
        Self::sweep(self)
    }

    fn setbacks(&self) -> u64 {
        self.store().setbacks()
    }

    fn handle_for(&self, caller: &Caller, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        Self::handle_for(self, caller, protocol, body)
    }

    fn ended(&self, caller: &Caller) {
        Self::ended(self, caller);
    }
}
