//! Connections to the host of the enclave.
//!
//! One is kept for each operation that is under way at a time, and used again. At each connection the enclave says how many entries
//! it has: fewer than it has acknowledged, and its state was set back. Only a start of the enclave can do that, which ends
//! all connections.

use super::Names;
use super::analysis::marked;
use super::channel::{Channels, Linked};
use arras_protocol::RowId;
use arras_schemes::bisen::message::{Hit, Page, Refused, Reply, Request};
use arras_schemes::bisen::query::{Padding, Ranking, Search};
use arras_schemes::bisen::update::{DOCUMENTS_MAX, DocumentAction, Facts, Update};
use arras_search::condition::Condition;
use arras_search::grammar::QueryError;
use arras_search::language::Language;
use arras_search::link::OpenError;
use arras_search::profile::Profile;
use arras_search::search::{Wanted, request};
use arras_search::service::{Collection, SearchService, ServiceError as Failure, Unreachable};
use arras_service::{Fault, ServiceError};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

pub(super) use arras_schemes::bisen::message::Opened;

/// The collection of all text indexes.
const COLLECTION: &str = "arras text indexes";
/// Operations under way at a time.
const CONNECTIONS_MAX: usize = 8;
/// How long a connection may take to come about.
const CONNECTING: Duration = Duration::from_secs(5);
/// How long an answer may take.
const ANSWERING: Duration = Duration::from_secs(60);

/// What asks a host.
#[derive(Debug)]
pub(super) struct Client {
    host: String,
    channels: Channels,
    /// Entries that the enclave has acknowledged, at least.
    entries: Arc<AtomicU64>,
    idle: Mutex<Vec<Connection>>,
    turns: Semaphore,
}

/// A connection with the collection open.
pub(super) struct Connection {
    link: Linked,
    pub(super) opened: Opened,
    entries: Arc<AtomicU64>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

/// A `$search` that cannot be read.
pub(super) fn of_query(error: &QueryError) -> ServiceError {
    ServiceError::new(Fault::BadValue, format!("$search: {error}"))
}

impl Client {
    pub(super) fn new(host: &str, channels: Channels) -> Self {
        let (host, turns) = (host.to_owned(), Semaphore::new(CONNECTIONS_MAX));
        Self { host, channels, entries: Arc::default(), idle: Mutex::default(), turns }
    }

    pub(super) fn expect(&self, entries: u64) {
        self.entries.store(entries, Ordering::SeqCst);
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.entries.load(Ordering::SeqCst)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        // Nothing panics while it is held.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns if there is a connection.
    pub(super) async fn ready(self: Arc<Self>) -> Result<(), ServiceError> {
        if self.idle().is_empty() { self.run(|_| Ok(())).await } else { Ok(()) }
    }

    /// Does something over a connection, on a thread that may wait. What fails over a connection from before is tried once more
    /// over a new one.
    pub(super) async fn run<T: Send + 'static>(
        self: Arc<Self>,
        mut work: impl FnMut(&mut Connection) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let failed = |error: &dyn std::fmt::Display| ServiceError::new(Fault::Internal, error.to_string());
        let _turn = self.turns.acquire().await.map_err(|error| failed(&error))?;
        let client = Arc::clone(&self);
        let worked = tokio::task::spawn_blocking(move || {
            let idle = client.idle().pop();
            if let Some(mut connection) = idle {
                match work(&mut connection) {
                    Err(error) if error.fault == Fault::Unreachable => client.idle().clear(),
                    done => return client.done(connection, done),
                }
            }
            let mut connection = client.connect()?;
            match work(&mut connection) {
                Err(error) if error.fault == Fault::Unreachable => Err(error),
                done => client.done(connection, done),
            }
        });
        let done = worked.await.map_err(|error| failed(&error))?;
        done.map_err(|error: ServiceError| self.named(error))
    }

    fn done<T>(&self, connection: Connection, done: Result<T, ServiceError>) -> Result<T, ServiceError> {
        self.idle().push(connection);
        done
    }

    /// The error with the host's name and what it means.
    fn named(&self, error: ServiceError) -> ServiceError {
        let host = &self.host;
        let message = match error.fault {
            Fault::Unreachable => format!(
                "the host of boolean search at {host} cannot be reached ({}): $text, and writes of collections with a text index, wait \
                 for it; try again",
                error.message
            ),
            _ => format!("the host of boolean search at {host}: {}", error.message),
        };
        ServiceError { message, ..error }
    }

    fn connect(&self) -> Result<Connection, ServiceError> {
        let expected = self.acknowledged();
        let stream = self.stream().map_err(|error| unreachable(&error))?;
        let mut link = self.channels.open(stream).map_err(|error| match &error {
            OpenError::Stream(why) => unreachable(&why.0),
            OpenError::Channel(_) => ServiceError::new(Fault::Peer, error.to_string()),
        })?;
        let opened = Collection::create(&mut link, COLLECTION, Profile::new(Language::None));
        let opened = opened.map(|collection| collection.opened).map_err(failure)?;
        if opened.entries < expected {
            let message = format!(
                "its enclave was set back: it has {} entries of {expected} that it acknowledged; drop all text indexes and create \
                 them again",
                opened.entries
            );
            return Err(ServiceError::new(Fault::Corruption, message));
        }
        Ok(Connection { link, opened, entries: Arc::clone(&self.entries) })
    }

    fn stream(&self) -> std::io::Result<TcpStream> {
        let mut failed = std::io::Error::other("its name means no address");
        for address in self.host.to_socket_addrs()? {
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
}

fn unreachable(error: &dyn std::fmt::Display) -> ServiceError {
    ServiceError::new(Fault::Unreachable, error.to_string())
}

fn failure(failure: Failure) -> ServiceError {
    let fault = match &failure {
        Failure::Unreachable(Unreachable(why)) => return unreachable(why),
        Failure::Refused(Refused::Busy) => return unreachable(&failure),
        Failure::Refused(Refused::Memory { .. } | Refused::Keywords { .. }) => Fault::MemoryExceeded,
        Failure::Refused(Refused::Storage(_)) => Fault::Corruption,
        Failure::Refused(_) | Failure::Reply | Failure::Profile(_) => Fault::Peer,
    };
    ServiceError::new(fault, failure.to_string())
}

impl Connection {
    fn ask(&mut self, request: Request) -> Result<Reply, ServiceError> {
        match self.link.ask(request).map_err(|error| failure(error.into()))? {
            Reply::Refused(refused) => Err(failure(refused.into())),
            reply => Ok(reply),
        }
    }

    /// Carries an update out, durably.
    pub(super) fn update(&mut self, update: Update) -> Result<(), ServiceError> {
        let pairs = update.pair_count() as u64;
        match self.ask(Request::Update(update))? {
            Reply::Updated => {
                self.entries.fetch_add(pairs, Ordering::SeqCst);
                Ok(())
            }
            _ => Err(failure(Failure::Reply)),
        }
    }

    /// The rows of an index that meet a condition.
    pub(super) fn search(&mut self, condition: &Condition, names: Names) -> Result<Vec<RowId>, ServiceError> {
        let wanted = Wanted { ranking: Ranking::None, top: 0, padding: Padding::None };
        let salt = names.salt(&self.opened);
        let search = request(condition, self.opened.collection, &salt, wanted)
            .map_err(|error| ServiceError::new(Fault::BadValue, format!("$search: {error}")))?;
        let found = self.found(search)?;
        Ok(found.into_iter().map(|hit| names.row(hit.name)).collect())
    }

    fn found(&mut self, search: Search) -> Result<Vec<Hit>, ServiceError> {
        let mut found = Vec::new();
        let mut page = self.page(Request::Search(search))?;
        loop {
            found.extend(page.hits());
            match page.cursor() {
                0 => return Ok(found),
                cursor => page = self.page(Request::More { cursor })?,
            }
        }
    }

    fn page(&mut self, request: Request) -> Result<Page, ServiceError> {
        match self.ask(request)? {
            Reply::Found(page) => Ok(page),
            _ => Err(failure(Failure::Reply)),
        }
    }

    /// Takes all documents out of an index, and what is left of them out of the storage.
    pub(super) fn remove_all(&mut self, names: Names) -> Result<(), ServiceError> {
        let rows = match marked() {
            Some(marked) => self.search(&marked, names)?,
            None => Vec::new(),
        };
        for chunk in rows.chunks(DOCUMENTS_MAX) {
            let mut update = Update::new(self.opened.collection);
            for row in chunk {
                let retired = update.document(DocumentAction::Retire, names.document(*row), Facts::default());
                retired.map_err(|error| ServiceError::new(Fault::Internal, error.to_string()))?;
            }
            self.update(update)?;
        }
        let collection = self.opened.collection;
        let mut from = None;
        loop {
            match self.ask(Request::Compact { collection, from })? {
                Reply::Compacted { next: Some(next), .. } => from = Some(next),
                Reply::Compacted { next: None, .. } => break,
                _ => return Err(failure(Failure::Reply)),
            }
        }
        // What it has by now it is not to lose.
        if let Reply::Opened(opened) = self.ask(Request::Open { name: COLLECTION.to_owned() })? {
            self.entries.store(opened.entries, Ordering::SeqCst);
        }
        Ok(())
    }
}
