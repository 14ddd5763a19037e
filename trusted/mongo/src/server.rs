//! The server: listener, connections, graceful stop.

use crate::commands::{self, Registry};
use crate::connection::{self, Peer};
use crate::cursors::{CursorLimits, CursorTable};
use crate::memory::Memory;
use crate::operations::Operations;
use crate::roster::Roster;
use arras_service::store::{Relief, Store};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

/// How long to wait after `accept` failed (out of file descriptors, say) before trying again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bounds of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most connections at a time. One more takes the place of the one that was idle for longest, and is closed only if
    /// commands of all others are being worked on.
    pub connections_max: usize,
    /// A connection that sent nothing for so long is closed. MongoDB itself never does; drivers reconnect. Within a
    /// message, in either direction, a peer may stand still for 30 s, and take a second for every 64 KiB.
    pub connection_idle: Duration,
    /// What requests and replies may hold in memory, together with the store's queries, about, in bytes.
    pub memory_bytes: usize,
    /// Most open cursors.
    pub cursors_max: usize,
    /// A cursor not used for so long is closed; MongoDB's own value is ten minutes.
    pub cursor_idle: Duration,
    /// How long an idle cursor keeps what it has on the disk where there is no room for what others spill.
    pub cursor_at_rest: Duration,
    /// How long a stop waits for commands under way and for clients to take their replies.
    pub stop_grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections_max: 1000,
            connection_idle: Duration::from_secs(3600),
            memory_bytes: 512 * 1024 * 1024,
            cursors_max: 10_000,
            cursor_idle: Duration::from_secs(600),
            cursor_at_rest: Duration::from_secs(10),
            stop_grace: Duration::from_secs(10),
        }
    }
}

/// A MongoDB server in front of a store.
pub struct Server<S: Store> {
    shared: Arc<ServerState<S>>,
    stop: watch::Sender<bool>,
}

impl<S: Store> Clone for Server<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), stop: self.stop.clone() }
    }
}

impl<S: Store> Server<S> {
    /// A server that answers from `store`.
    #[must_use]
    pub fn new(store: Arc<S>, options: Options) -> Self {
        let (count_max, idle, at_rest) = (options.cursors_max, options.cursor_idle, options.cursor_at_rest);
        let cursors = Arc::new(CursorTable::new(CursorLimits { count_max, idle, at_rest }));
        let relief: Arc<dyn Relief> = Arc::<CursorTable<S::Cursor>>::clone(&cursors);
        store.set_relief(Arc::downgrade(&relief));
        let memory = Memory::new(options.memory_bytes);
        let shared = ServerState {
            store,
            cursors,
            roster: Roster::new(options.connections_max),
            options,
            registry: commands::registry(),
            counters: Counters::default(),
            operations: Operations::default(),
            memory,
            started: Instant::now(),
        };
        Self { shared: Arc::new(shared), stop: watch::Sender::new(false) }
    }

    /// Serves plain TCP connections until `shutdown` completes; then lets commands under way finish, for
    /// [`Options::stop_grace`] at most, closes all connections and returns.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        let mut sweep = tokio::time::interval(self.sweep_period());
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                _ = sweep.tick() => self.shared.cursors.sweep(Instant::now()),
                Some(ended) = connections.join_next() => report_failure(ended),
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => {
                        // Replies are written whole: waiting to merge them with later ones only delays them.
                        stream.set_nodelay(true).ok();
                        let server = self.clone();
                        connections.spawn(async move { server.serve_connection(stream, address).await });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "could not accept a MongoDB connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(listener);
        self.stop();
        let drained = async {
            while let Some(ended) = connections.join_next().await {
                report_failure(ended);
            }
        };
        if timeout(self.shared.options.stop_grace, drained).await.is_err() {
            tracing::warn!(
                connections = connections.len(),
                "cutting off connections: their commands are not done, or their replies not taken"
            );
            connections.shutdown().await;
        }
    }

    /// Serves one connection that was accepted elsewhere, over TLS for instance, until either side closes it.
    pub async fn serve_connection<IO>(&self, stream: IO, address: SocketAddr)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let number = self.shared.counters.connections_made.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(place) = self.shared.roster.admit(number) else {
            tracing::warn!(peer = %address, limit = self.shared.options.connections_max,
                "MongoDB connection refused: commands of as many others are under way");
            return;
        };
        self.shared.counters.connections_open.fetch_add(1, Ordering::Relaxed);
        let _open = OpenConnection(&self.shared.counters);
        let peer = Peer { address, number };
        match connection::run(&self.shared, stream, &peer, (&place, self.stop.subscribe())).await {
            Ok(()) => tracing::debug!(peer = %address, "MongoDB connection closed"),
            Err(error) => tracing::info!(peer = %address, %error, "MongoDB connection closed"),
        }
    }

    /// Asks all connections to end after the command under way. [`Server::serve`] does so on shutdown; for
    /// connections given to [`Server::serve_connection`] the caller does.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Closes cursors that were not used for too long. [`Server::serve`] does so by itself.
    pub fn sweep_cursors(&self) {
        self.shared.cursors.sweep(Instant::now());
    }

    fn sweep_period(&self) -> Duration {
        (self.shared.options.cursor_idle / 4).clamp(Duration::from_millis(10), Duration::from_secs(60))
    }
}

fn report_failure(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        // The panic's own text may quote data; only that it happened is logged.
        tracing::error!(panicked = error.is_panic(), "a MongoDB connection failed inside the proxy");
    }
}

/// What all connections of a server share.
pub(crate) struct ServerState<S: Store> {
    pub(crate) store: Arc<S>,
    pub(crate) cursors: Arc<CursorTable<S::Cursor>>,
    roster: Roster,
    pub(crate) options: Options,
    pub(crate) registry: Registry<S>,
    pub(crate) counters: Counters,
    pub(crate) operations: Operations,
    pub(crate) memory: Memory,
    pub(crate) started: Instant,
}

/// Numbers for `serverStatus`.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections_open: AtomicU64,
    pub(crate) connections_made: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) commands_failed: AtomicU64,
}

/// Counts a connection as open while it lives, however it ends.
struct OpenConnection<'a>(&'a Counters);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.connections_open.fetch_sub(1, Ordering::Relaxed);
    }
}
