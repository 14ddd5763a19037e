//! The way to a host of boolean search: a connection for each conversation, and the channel to the enclave over it, attested, or plain
//! for trials.
//!
//! *Given up.* What waits for the host waits on a thread. A search that is given up, as by a cancellation, closes the connection, which
//! ends the wait; and there are only so many threads, however many come and go while a host says nothing.

use crate::configuration::{ConfigurationError, Search};
use arras_attestation::channel::{Channel, ChannelError, Client};
use arras_attestation::folder::credentials;
use arras_attestation::policy::ReleasePolicy;
use arras_schemes::bisen::message::{Reply, Request};
use arras_search::link::{Link, OpenError};
use arras_search::service::{SearchService, Unreachable};
use arras_service::{Fault, ServiceError};
use arras_text::talk::{Conversation, Host, Saying, unreachable};
use std::io;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How long a connection may take to come about.
const CONNECTING: Duration = Duration::from_secs(5);
/// How long an answer may take.
const ANSWERING: Duration = Duration::from_secs(60);
/// Threads that wait for a host at a time.
const WAITING_MAX: usize = 16;

/// The host that a configuration names.
///
/// # Errors
/// [`ConfigurationError`] if what the channel goes by cannot be read.
pub fn host(search: &Search) -> Result<Arc<dyn Host>, ConfigurationError> {
    let channels = Arc::new(Channels::new(search)?);
    Ok(Arc::new(Connecting { host: search.host.clone(), channels, threads: Threads::new() }))
}

#[derive(Debug)]
struct Connecting {
    host: String,
    channels: Arc<Channels>,
    threads: Threads,
}

/// Threads that may wait.
#[derive(Clone, Debug)]
struct Threads(Arc<Semaphore>);

impl Threads {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(WAITING_MAX)))
    }

    /// Does something on one of them, which is taken until that is done, whether or not it is waited for.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        let failed = |error: String| ServiceError::new(Fault::Internal, error);
        let seat = Arc::clone(&self.0).acquire_owned().await.map_err(|error| failed(error.to_string()))?;
        let done = spawn_blocking(move || {
            let _seat = seat;
            work()
        });
        done.await.map_err(|error| failed(error.to_string()))
    }
}

/// Closes a connection when it is dropped, also under what waits for it on another thread.
struct Closing(TcpStream);

impl Drop for Closing {
    fn drop(&mut self) {
        // It may be closed already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Host for Connecting {
    fn place(&self) -> String {
        self.host.clone()
    }

    fn begin(&self) -> Saying<'_, Result<Box<dyn Conversation>, ServiceError>> {
        let (host, channels) = (self.host.clone(), Arc::clone(&self.channels));
        Box::pin(async move {
            let connected = self.threads.run(move || {
                let stream = connect(&host)?;
                Ok((stream.try_clone().map(Closing)?, stream))
            });
            let (closing, stream) = connected.await?.map_err(|error: io::Error| unreachable(&error))?;
            let opened = self.threads.run(move || {
                channels.open(stream).map_err(|error| match &error {
                    OpenError::Stream(why) => unreachable(&why.0),
                    OpenError::Channel(_) => ServiceError::new(Fault::Peer, error.to_string()),
                })
            });
            let linked = Some(opened.await??);
            Ok(Box::new(Talking { linked, threads: self.threads.clone(), _closing: closing })
                as Box<dyn Conversation>)
        })
    }
}

fn connect(host: &str) -> io::Result<TcpStream> {
    let mut failed = io::Error::other("its name means no address");
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECTING) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(ANSWERING))?;
                stream.set_write_timeout(Some(ANSWERING))?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// A conversation, on threads that may wait while something is asked.
struct Talking {
    /// None once a request was given up.
    linked: Option<Linked>,
    threads: Threads,
    _closing: Closing,
}

impl Conversation for Talking {
    fn ask(&mut self, request: Request) -> Saying<'_, Result<Reply, Unreachable>> {
        Box::pin(async move {
            let gone = |why: &dyn std::fmt::Display| Unreachable(why.to_string());
            let mut linked =
                self.linked.take().ok_or_else(|| gone(&"a request before this one was given up"))?;
            let asked = self.threads.run(move || {
                let reply = linked.ask(request);
                (linked, reply)
            });
            let (linked, reply) = asked.await.map_err(|error| gone(&error))?;
            self.linked = Some(linked);
            reply
        })
    }
}

/// Begins channels.
enum Channels {
    /// That open to enclaves of the release policy only.
    Attested(Client),
    /// That protect nothing, as somebody.
    Plain(String),
}

impl std::fmt::Debug for Channels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::Attested(_)) { "Attested" } else { "Plain" })
    }
}

fn wrong(path: &Path, what: &dyn std::fmt::Display) -> ConfigurationError {
    ConfigurationError { path: path.to_owned(), what: what.to_string() }
}

impl Channels {
    /// As the configuration says.
    ///
    /// # Errors
    /// A file cannot be read or is not what it should be.
    fn new(search: &Search) -> Result<Self, ConfigurationError> {
        let Some((certificates, policy)) = search.attested() else {
            tracing::warn!(
                host = search.host,
                "[search]: the channel is plain: the host can read and change what is said to the enclave; for trials only"
            );
            return Ok(Self::Plain(search.identity.clone()));
        };
        let own = credentials(certificates, &search.identity)
            .map_err(|error| ConfigurationError { path: error.path, what: error.what })?;
        let text = std::fs::read_to_string(policy).map_err(|error| wrong(policy, &error))?;
        let policy = ReleasePolicy::read(&text).map_err(|error| wrong(policy, &error))?;
        Client::new(own, policy).map(Self::Attested).map_err(|error| wrong(certificates, &error))
    }

    /// A channel over a stream.
    fn open(&self, stream: TcpStream) -> Result<Linked, OpenError<ChannelError>> {
        match self {
            Self::Attested(client) => {
                let channel =
                    client.channel().map_err(|error| OpenError::Channel(ChannelError::Tls(error)))?;
                Link::open(stream, channel).map(|link| Linked::Attested(Box::new(link)))
            }
            Self::Plain(identity) => Ok(Linked::Plain(Link::plain(stream, identity)?)),
        }
    }
}

/// An open channel.
enum Linked {
    Attested(Box<Link<TcpStream, Channel>>),
    Plain(Link<TcpStream>),
}

impl SearchService for Linked {
    fn ask(&mut self, request: Request) -> Result<Reply, Unreachable> {
        match self {
            Self::Attested(link) => link.ask(request),
            Self::Plain(link) => link.ask(request),
        }
    }
}
