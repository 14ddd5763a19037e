//! Connections to the host of the enclave.
//!
//! One is kept for each operation that is under way at a time, and used again. At each connection the enclave says how many entries
//! it has: fewer than it has acknowledged, and its state was set back. Only a start of the enclave can do that, which ends
//! all connections.

use super::Names;
use super::analysis::marked;
use super::talk::{Conversation, Host, unreachable};
use arras_engine::text::Answer;
use arras_protocol::RowId;
use arras_schemes::bisen::message::{Hit, Page, Refused, Reply, Request};
use arras_schemes::bisen::query::{Padding, Ranking, Search};
use arras_schemes::bisen::update::{DOCUMENTS_MAX, DocumentAction, Facts, Update};
use arras_search::condition::Condition;
use arras_search::grammar::QueryError;
use arras_search::language::Language;
use arras_search::profile::Profile;
use arras_search::search::{Wanted, request};
use arras_search::service::{ServiceError as Failure, Unreachable};
use arras_service::{Fault, ServiceError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

pub(super) use arras_schemes::bisen::message::Opened;

/// The collection of all text indexes.
const COLLECTION: &str = "arras text indexes";
/// Operations under way at a time.
const CONNECTIONS_MAX: usize = 8;

/// What asks a host.
#[derive(Debug)]
pub(super) struct Client {
    host: Arc<dyn Host>,
    expected: Arc<Mutex<Expected>>,
    idle: Mutex<Vec<Connection>>,
    turns: Semaphore,
}

/// What the enclave must have.
#[derive(Debug, Default)]
struct Expected {
    /// Entries that it has acknowledged, or said to have, at least.
    entries: u64,
    /// It is about to have fewer: what it says to have is not yet what it must have.
    lessens: bool,
    /// Changes when what it must have becomes less: what was said before says nothing any more.
    generation: u64,
    /// Changes when the enclave says what it has: an update that was under way then may be in that.
    said: u64,
}

impl Expected {
    /// What it must have, whatever was said before.
    fn anew(&mut self, entries: u64, lessens: bool) {
        *self = Self { entries, lessens, generation: self.generation + 1, said: self.said + 1 };
    }
}

fn locked(expected: &Mutex<Expected>) -> MutexGuard<'_, Expected> {
    // Nothing panics while it is held.
    expected.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A conversation with the collection open.
pub(super) struct Connection {
    talk: Box<dyn Conversation>,
    pub(super) opened: Opened,
    expected: Arc<Mutex<Expected>>,
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

fn failed(error: &dyn std::fmt::Display) -> ServiceError {
    ServiceError::new(Fault::Internal, error.to_string())
}

impl Client {
    pub(super) fn new(host: Arc<dyn Host>) -> Self {
        Self {
            host,
            expected: Arc::default(),
            idle: Mutex::default(),
            turns: Semaphore::new(CONNECTIONS_MAX),
        }
    }

    pub(super) fn expect(&self, entries: u64) {
        let mut expected = locked(&self.expected);
        // A removal that is under way says itself what it left.
        match expected.lessens {
            true => expected.anew(0, true),
            false => expected.anew(entries, false),
        }
    }

    pub(super) fn lessen(&self) {
        locked(&self.expected).anew(0, true);
    }

    pub(super) fn acknowledged(&self) -> u64 {
        locked(&self.expected).entries
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        // Nothing panics while it is held.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns if there is a connection.
    pub(super) async fn ready(&self) -> Result<(), ServiceError> {
        if self.idle().is_empty() { self.run(|_| Box::pin(async { Ok(()) })).await } else { Ok(()) }
    }

    /// Does something over a connection. What fails over a connection from before is tried once more over a new one.
    pub(super) async fn run<T: Send>(
        &self,
        mut work: impl for<'c> FnMut(&'c mut Connection) -> Answer<'c, T> + Send,
    ) -> Result<T, ServiceError> {
        let _turn = self.turns.acquire().await.map_err(|error| failed(&error))?;
        let idle = self.idle().pop();
        if let Some(mut connection) = idle {
            match work(&mut connection).await {
                Err(error) if error.fault == Fault::Unreachable => self.idle().clear(),
                done => return self.done(connection, done),
            }
        }
        let mut connection = self.connect().await.map_err(|error| self.named(error))?;
        match work(&mut connection).await {
            Err(error) if error.fault == Fault::Unreachable => Err(self.named(error)),
            done => self.done(connection, done),
        }
    }

    fn done<T>(&self, connection: Connection, done: Result<T, ServiceError>) -> Result<T, ServiceError> {
        self.idle().push(connection);
        done.map_err(|error| self.named(error))
    }

    /// The error with the host's name and what it means.
    fn named(&self, error: ServiceError) -> ServiceError {
        let host = self.host.place();
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

    async fn connect(&self) -> Result<Connection, ServiceError> {
        // What is acknowledged while this connection comes about may not be in what is said on it.
        let (generation, before) = {
            let expected = locked(&self.expected);
            (expected.generation, expected.entries)
        };
        let mut talk = self.host.begin().await?;
        let opened = open(&mut *talk).await?;
        self.compare(opened.entries, generation, before)?;
        Ok(Connection { talk, opened, expected: Arc::clone(&self.expected) })
    }

    /// Whether the enclave has what it must have had `before`. What it has beyond (updates whose acknowledgement was lost, with the
    /// proxy or on the way) it must have from now on, too.
    fn compare(&self, entries: u64, generation: u64, before: u64) -> Result<(), ServiceError> {
        let mut expected = locked(&self.expected);
        if expected.generation != generation {
            // It was said before, or while, it became less: the next connection compares.
            return Ok(());
        }
        if entries < before {
            let message = format!(
                "its enclave was set back: it has {entries} entries of {before} that it had; drop all text indexes and create them \
                 again"
            );
            return Err(ServiceError::new(Fault::Corruption, message));
        }
        if !expected.lessens {
            expected.entries = expected.entries.max(entries);
            expected.said += 1;
        }
        Ok(())
    }
}

/// Opens the collection, or makes it if there is none.
async fn open(talk: &mut dyn Conversation) -> Result<Opened, ServiceError> {
    let profile = Profile::new(Language::None);
    let reply = match ask(talk, Request::Open { name: COLLECTION.to_owned() }).await {
        // That it is not there looks like that it is somebody else's, who then refuses to have it made.
        Ok(Reply::Refused(Refused::NotAllowed)) => {
            ask(talk, Request::Create { name: COLLECTION.to_owned(), settings: profile.settings() }).await?
        }
        reply => reply?,
    };
    match reply {
        Reply::Opened(opened) => {
            profile.check(&opened.settings).map_err(|error| failure(error.into()))?;
            Ok(opened)
        }
        Reply::Refused(refused) => Err(failure(refused.into())),
        _ => Err(failure(Failure::Reply)),
    }
}

async fn ask(talk: &mut dyn Conversation, request: Request) -> Result<Reply, ServiceError> {
    talk.ask(request).await.map_err(|error| failure(error.into()))
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
    async fn ask(&mut self, request: Request) -> Result<Reply, ServiceError> {
        match ask(&mut *self.talk, request).await? {
            Reply::Refused(refused) => Err(failure(refused.into())),
            reply => Ok(reply),
        }
    }

    /// Carries an update out, durably.
    async fn update(&mut self, update: Update) -> Result<(), ServiceError> {
        let pairs = update.pair_count() as u64;
        let said = locked(&self.expected).said;
        match self.ask(Request::Update(update)).await? {
            Reply::Updated => self.count(pairs, said).await,
            _ => Err(failure(Failure::Reply)),
        }
    }

    /// Counts what was acknowledged to an update that began when what the enclave must have was `said`. If it was said anew
    /// meanwhile, with or without the update, the enclave says what it has now.
    async fn count(&mut self, pairs: u64, said: u64) -> Result<(), ServiceError> {
        let generation = {
            let mut expected = locked(&self.expected);
            if expected.lessens {
                return Ok(());
            }
            if expected.said == said {
                expected.entries += pairs;
                return Ok(());
            }
            expected.generation
        };
        if let Reply::Opened(opened) = self.ask(Request::Open { name: COLLECTION.to_owned() }).await? {
            let mut expected = locked(&self.expected);
            if expected.generation == generation && !expected.lessens {
                expected.entries = expected.entries.max(opened.entries);
                expected.said += 1;
            }
        }
        Ok(())
    }

    /// Carries updates out, one after the other, when they are there.
    pub(super) fn update_all(
        &mut self,
        updates: JoinHandle<Result<Vec<Update>, ServiceError>>,
    ) -> Answer<'_, ()> {
        Box::pin(async move {
            for update in updates.await.map_err(|error| failed(&error))?? {
                self.update(update).await?;
            }
            Ok(())
        })
    }

    /// The rows of an index that meet a condition.
    pub(super) fn search(&mut self, condition: Arc<Condition>, names: Names) -> Answer<'_, Vec<RowId>> {
        Box::pin(async move { self.rows(&condition, names).await })
    }

    async fn rows(&mut self, condition: &Condition, names: Names) -> Result<Vec<RowId>, ServiceError> {
        let wanted = Wanted { ranking: Ranking::None, top: 0, padding: Padding::None };
        let salt = names.salt(&self.opened);
        let search = request(condition, self.opened.collection, &salt, wanted)
            .map_err(|error| ServiceError::new(Fault::BadValue, format!("$search: {error}")))?;
        let found = self.found(search).await?;
        Ok(found.into_iter().map(|hit| names.row(hit.name)).collect())
    }

    async fn found(&mut self, search: Search) -> Result<Vec<Hit>, ServiceError> {
        let mut found = Vec::new();
        let mut page = self.page(Request::Search(search)).await?;
        loop {
            found.extend(page.hits());
            match page.cursor() {
                0 => return Ok(found),
                cursor => page = self.page(Request::More { cursor }).await?,
            }
        }
    }

    async fn page(&mut self, request: Request) -> Result<Page, ServiceError> {
        match self.ask(request).await? {
            Reply::Found(page) => Ok(page),
            _ => Err(failure(Failure::Reply)),
        }
    }

    /// Takes all documents out of an index, and what is left of them out of the storage.
    pub(super) async fn remove_all(&mut self, names: Names) -> Result<(), ServiceError> {
        let rows = match marked() {
            Some(marked) => self.rows(&marked, names).await?,
            None => Vec::new(),
        };
        for chunk in rows.chunks(DOCUMENTS_MAX) {
            let mut update = Update::new(self.opened.collection);
            for row in chunk {
                let retired = update.document(DocumentAction::Retire, names.document(*row), Facts::default());
                retired.map_err(|error| failed(&error))?;
            }
            self.update(update).await?;
        }
        let collection = self.opened.collection;
        let mut from = None;
        loop {
            match self.ask(Request::Compact { collection, from }).await? {
                Reply::Compacted { next: Some(next), .. } => from = Some(next),
                Reply::Compacted { next: None, .. } => break,
                _ => return Err(failure(Failure::Reply)),
            }
        }
        // What it has by now it is not to lose.
        if let Reply::Opened(opened) = self.ask(Request::Open { name: COLLECTION.to_owned() }).await? {
            locked(&self.expected).anew(opened.entries, false);
        }
        Ok(())
    }
}
