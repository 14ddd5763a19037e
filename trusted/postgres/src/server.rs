//! The listener: connections, their number, and a stop that lets statements end.

use crate::Question;
use crate::access::Access;
use crate::cancel::{Cancellable, Key};
use crate::error::SqlError;
use crate::listener::{Listener, Origin, Peer};
use crate::replies::{self, Authentication};
use crate::rewriting::Rewriting;
use crate::session::{self, End, Ends, Surroundings};
use crate::startup::{self, Opening, StartupFailure, Wanted};
use crate::stream::Socket;
use crate::upstream::{Begun, Login, Upstream};
use arras_transport::handshakes::Handshakes;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

/// How long to wait after `accept` failed (out of file descriptors, say) before trying again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bounds of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most sessions at a time; one more is refused as PostgreSQL refuses it.
    pub connections_max: usize,
    /// Most connections at a time that have not said yet who they are; for one more, the oldest of the address that has most of them
    /// is closed.
    pub opening_max: usize,
    /// How long a client may take to say who it is and to prove it: PostgreSQL's `authentication_timeout`.
    pub opening: Duration,
    /// How long a stop waits for statements under way.
    pub stop_grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections_max: 1000,
            opening_max: 1024,
            opening: Duration::from_secs(60),
            stop_grace: Duration::from_secs(10),
        }
    }
}

/// What all connections share.
struct ServerState {
    upstream: Upstream,
    access: Access,
    options: Options,
    rewriting: Option<Arc<Rewriting>>,
    sessions: Cancellable,
    /// Room for sessions.
    room: Semaphore,
    opening: Arc<Handshakes<Origin>>,
}

/// A PostgreSQL server in front of another.
#[derive(Clone)]
pub struct Server {
    shared: Arc<ServerState>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// A server that lets in whom `access` does, in front of `upstream`; without `rewriting` nothing is encrypted.
    #[must_use]
    pub fn new(
        upstream: Upstream,
        access: Access,
        options: Options,
        rewriting: Option<Arc<Rewriting>>,
    ) -> Self {
        let room = Semaphore::new(options.connections_max.min(Semaphore::MAX_PERMITS));
        let opening = Handshakes::new(options.opening_max);
        let shared = ServerState {
            upstream,
            access,
            options,
            rewriting,
            sessions: Cancellable::default(),
            room,
            opening,
        };
        Self { shared: Arc::new(shared), stop: watch::Sender::new(false) }
    }

    /// Serves connections until `shutdown` completes; then lets statements under way end, for [`Options::stop_grace`] at
    /// most, closes all connections and returns.
    pub async fn serve(&self, listener: impl Into<Listener>, shutdown: impl Future<Output = ()>) {
        let listener = listener.into();
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some(ended) = connections.join_next() => report_failure(ended),
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let (shared, stop) = (Arc::clone(&self.shared), self.stop.subscribe());
                        connections.spawn(async move { shared.connection(stream, peer, stop).await });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "could not accept a PostgreSQL connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(listener);
        self.stop.send_replace(true);
        let drained = async {
            while let Some(ended) = connections.join_next().await {
                report_failure(ended);
            }
        };
        if timeout(self.shared.options.stop_grace, drained).await.is_err() {
            tracing::warn!(
                connections = connections.len(),
                "cutting off PostgreSQL sessions with statements under way"
            );
            connections.shutdown().await;
        }
    }
}

fn report_failure(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        // The panic's own text may quote data; only that it happened is logged.
        tracing::error!(panicked = error.is_panic(), "a PostgreSQL connection failed inside the proxy");
    }
}

impl ServerState {
    /// Serves one connection to its end.
    async fn connection(&self, stream: Socket, peer: Peer, mut stop: watch::Receiver<bool>) {
        let place = self.opening.begin(peer.origin());
        let heard = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = place.dropped() => {
                let why = "too many have not said yet who they are, and this was the oldest of its address";
                return tracing::warn!(%peer, "PostgreSQL connection closed: {why}");
            }
            heard = timeout(self.options.opening, startup::hear(stream, peer, &self.access)) => heard,
        };
        drop(place);
        match heard {
            Err(_) => tracing::info!(%peer, "PostgreSQL connection closed: it did not say in time who it is"),
            Ok(Err(error)) => {
                tracing::info!(%peer, %error, "PostgreSQL connection closed before a session began")
            }
            Ok(Ok(Wanted::Cancel { process, secret, mut stream })) => {
                self.cancel(Key { process, secret }, peer).await;
                // libpq waits for the end, and takes TLS that is cut for an attack.
                let _ = timeout(self.options.opening, stream.shutdown()).await;
            }
            Ok(Ok(Wanted::Session(opening))) => match self.session(opening, stop).await {
                Ok(End::Lost(Some(error))) => {
                    tracing::warn!(%peer, upstream = %self.upstream, %error, "the connection to the database broke");
                }
                Ok(end) => tracing::debug!(%peer, ?end, "PostgreSQL session ended"),
                Err(error) => tracing::info!(%peer, %error, "no PostgreSQL session"),
            },
        }
    }

    async fn cancel(&self, shown: Key, peer: Peer) {
        // Nothing is said to whoever asks, as PostgreSQL says nothing.
        let Some(request) = self.sessions.cancel(shown) else {
            tracing::info!(%peer, "a request to cancel names no session");
            return;
        };
        if let Err(error) = self.upstream.cancel(request.upstream.process, request.upstream.secret).await {
            tracing::warn!(%peer, %error, "a request to cancel could not be passed on");
        }
    }

    /// Begins a session at the database and runs it.
    async fn session(
        &self,
        mut opening: Opening,
        stop: watch::Receiver<bool>,
    ) -> Result<End, StartupFailure> {
        let client = &mut opening.stream;
        let Ok(_place) = self.room.try_acquire() else {
            return Err(
                startup::refused(client, SqlError::new("53300", "sorry, too many clients already")).await
            );
        };
        let parameters = parameters(&self.upstream, &opening.user, opening.parameters);
        let named = parameters.iter().find(|(name, _)| name == "database");
        let connected = named.map_or_else(String::new, |(_, database)| database.clone());
        // What was acknowledged by now must be there.
        let question = self.question(&connected);
        let mut begun = match self.upstream.login(&parameters).await {
            Ok(Login::Begun(begun)) => begun,
            Ok(Login::Refused { error, of_proxy: false }) => {
                client.write_all(&error).await?;
                client.shutdown().await?;
                return Err(StartupFailure::Refused(SqlError::new(
                    "08004",
                    "the database refused the session",
                )));
            }
            Ok(Login::Refused { of_proxy: true, .. }) => {
                tracing::warn!(upstream = %self.upstream, "the database does not let the proxy in");
                let refusal = SqlError::new("08004", "the database does not let the proxy in");
                return Err(startup::refused(client, refusal).await);
            }
            Err(error) => {
                tracing::warn!(upstream = %self.upstream, %error, "the database cannot be used");
                let refusal = SqlError::new("08001", "the proxy has no connection to the database");
                return Err(startup::refused(client, refusal).await);
            }
        };
        if let Some(question) = question
            && let Err(refusal) = self.compare(&question, &mut begun).await
        {
            return Err(startup::refused(client, refusal).await);
        }
        let Begun { stream: database, beginning, process, secret } = begun;
        let entered = self.sessions.enter(Key { process, secret });
        opening.stream.write_all(&greeting(&beginning, entered.shown)).await?;
        opening.stream.flush().await?;
        let ends = Ends { client: opening.stream, database, beginning };
        let (upstream, rewriting) = (&self.upstream, self.rewriting.as_deref());
        let around = Surroundings { entered: &entered, upstream, rewriting, database: &connected };
        Ok(session::run(ends, around, stop).await)
    }
}

impl ServerState {
    /// What a session in a database asks before it begins: the one in which the proxy keeps its mark.
    fn question(&self, connected: &str) -> Option<Question> {
        let own = self.upstream.database().unwrap_or_else(|| self.upstream.user("postgres"));
        let freshness = self.rewriting.as_ref().filter(|_| connected == own)?.freshness()?;
        Some(freshness.question())
    }

    /// Compares the database that a session has begun in with what it acknowledged before.
    async fn compare(&self, question: &Question, begun: &mut Begun) -> Result<(), SqlError> {
        let answer = match begun.ask(&question.statement).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(upstream = %self.upstream, %error, "the database cannot be used");
                return Err(SqlError::new("08001", "the proxy has no connection to the database"));
            }
        };
        let answer = match answer {
            Ok(answer) => answer,
            // The schema of the proxy is gone, and was there; or the function is, which came with the mark.
            Err(code) if matches!(&*code, "3F000" | "42883") => None,
            Err(code) => {
                let text = format!("the database does not say whether it was set back (SQLSTATE {code})");
                return Err(SqlError::new("08004", text));
            }
        };
        question.judge(answer.as_deref()).map_err(|set_back| {
            tracing::error!(upstream = %self.upstream, error = %set_back, "no session begins");
            set_back.told()
        })
    }
}

/// What a session begins with at the database.
fn parameters(upstream: &Upstream, user: &str, sent: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut parameters = vec![("user".to_owned(), upstream.user(user).to_owned())];
    parameters.extend(sent.into_iter().filter(|(_, value)| !value.is_empty()));
    if !parameters.iter().any(|(name, _)| name == "database") {
        let database = upstream.database().unwrap_or(user).to_owned();
        parameters.push(("database".to_owned(), database));
    }
    parameters
}

/// What a client's session begins with: it is let in, the database's settings, what to cancel by, and that it may begin.
fn greeting(beginning: &[u8], shown: Key) -> Vec<u8> {
    let mut out = Vec::with_capacity(beginning.len() + 64);
    Authentication::Ok.encode(&mut out);
    // `ReadyForQuery` is the last: six bytes.
    let (settings, ready) = beginning.split_at(beginning.len().saturating_sub(6));
    out.extend_from_slice(settings);
    replies::key(&mut out, shown.process, shown.secret);
    out.extend_from_slice(ready);
    out
}
