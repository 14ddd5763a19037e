//! Connections to the host of the enclave, and the revision at which its collection must be.
//!
//! One connection is kept for each operation that is under way at a time, and used again.
//!
//! *Set back.* The collection's revision grows with every change. What the enclave has acknowledged, or was heard to be at, it must
//! not fall behind: a lower one is refused, on a new connection and with every change.
//!
//! *Held back.* Changes go one after the other. Each supposes the last revision that is known, and brings one that no other change
//! brings: so it is carried out before any later one or never, and if it is sent again after its acknowledgement was lost, once.

use super::Names;
use super::analysis::marked;
use super::talk::{Conversation, Host, unreachable};
use arras_engine::text::Answer;
use arras_protocol::RowId;
use arras_schemes::bisen::Salt;
use arras_schemes::bisen::message::{Hit, Refused, Reply, Request};
use arras_schemes::bisen::query::{Padding, Ranking, Search};
use arras_schemes::bisen::update::{DOCUMENTS_MAX, DocumentAction, Facts, Fence, Update};
use arras_search::condition::Condition;
use arras_search::grammar::QueryError;
use arras_search::language::Language;
use arras_search::profile::Profile;
use arras_search::search::{Wanted, request};
use arras_search::service::{ServiceError as Failure, Unreachable};
use arras_service::{Fault, ServiceError};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

pub(super) use arras_schemes::bisen::message::Opened;

/// Whose index it is that is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// The enclave's name of the collection that all of them are in.
    pub(super) collection: &'static str,
    /// What cannot be done without the host.
    pub(super) waits: &'static str,
    /// What is to be done if the enclave was set back.
    pub(super) mended_by: &'static str,
}

/// Operations under way at a time.
const CONNECTIONS_MAX: usize = 8;
/// Attempts at a change that comes late each time.
const LATE_MAX: usize = 16;

/// What asks a host.
#[derive(Debug)]
pub(super) struct Client {
    host: Arc<dyn Host>,
    of: Use,
    revisions: Arc<Revisions>,
    idle: Mutex<Vec<Connection>>,
    turns: Semaphore,
    /// Held by who changes something, with all attempts.
    lane: tokio::sync::Mutex<()>,
    /// Changes since it was last looked whether entries of no use are to be removed.
    changes: AtomicU32,
    /// Held while that is looked at and done: changes after which it is looked at.
    tidying: Arc<tokio::sync::Mutex<u32>>,
}

/// Changes after which it is looked whether there is much to be removed; more, each time that it could not be, or was of no use.
const CHANGES_PER_LOOK: u32 = 64;
const CHANGES_PER_LOOK_MAX: u32 = 1 << 20;

/// The collection's revisions, as far as this client knows them.
#[derive(Debug)]
struct Revisions {
    known: Mutex<Known>,
    of: Use,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// It must be at this one, or further.
    acknowledged: u128,
    /// The last that a change was to bring, whatever came of it.
    issued: u128,
}

/// The number of a revision, which grows with every change. The lower half tells clients, and their starts, apart.
fn number(revision: u128) -> u64 {
    (revision >> 64) as u64
}

impl Revisions {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing panics while it is held.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The enclave says, or acknowledges, that the collection is at this revision; before it was asked it was known to be at
    /// another.
    fn hear(&self, revision: u128, before: u128) -> Result<(), ServiceError> {
        let mut known = self.known();
        // It may have been forgotten meanwhile.
        let least = known.acknowledged.min(before);
        if revision < least {
            let message = format!(
                "its enclave was set back: it is at revision {}, and was at {}; {}",
                number(revision),
                number(least),
                self.of.mended_by
            );
            return Err(ServiceError::new(Fault::Corruption, message));
        }
        known.acknowledged = known.acknowledged.max(revision);
        Ok(())
    }

    /// The fence of a new change, which supposes the last revision that is known.
    fn issue(&self) -> Result<Issued, ServiceError> {
        let mut known = self.known();
        let next = number(known.issued.max(known.acknowledged)).checked_add(1);
        let next = next.ok_or_else(|| failed(&"the collection of text indexes is at its last revision"))?;
        known.issued = u128::from(next) << 64 | known.issued & u128::from(u64::MAX);
        Ok(Issued { supposed: known.acknowledged, next: known.issued })
    }

    /// True if a change is the next one or the last: it is carried out when it is sent again, or acknowledged. Any other was refused
    /// or lost, or others came behind it.
    fn stands(&self, issued: Issued) -> bool {
        let acknowledged = self.known().acknowledged;
        acknowledged == issued.supposed || acknowledged == issued.next
    }
}

/// What a change supposes, and brings. It is never sent with another supposition: one number would be two histories'.
#[derive(Clone, Copy)]
struct Issued {
    supposed: u128,
    next: u128,
}

/// A conversation with the collection open.
pub(super) struct Connection {
    talk: Box<dyn Conversation>,
    pub(super) opened: Opened,
    /// The last revision that was heard on it.
    heard: u128,
    revisions: Arc<Revisions>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

/// Updates that make up one operation, and what is left of them.
#[derive(Default)]
pub(super) struct Updates {
    /// Collection and salt.
    made_for: Option<(u32, Salt)>,
    left: VecDeque<Update>,
    /// Where the first of them stands, if it may have been sent.
    issued: Option<Issued>,
}

/// A `$search` that cannot be read.
pub(super) fn of_query(error: &QueryError) -> ServiceError {
    ServiceError::new(Fault::BadValue, format!("$search: {error}"))
}

fn failed(error: &dyn std::fmt::Display) -> ServiceError {
    ServiceError::new(Fault::Internal, error.to_string())
}

impl Client {
    pub(super) fn new(host: Arc<dyn Host>, of: Use) -> Self {
        Self {
            host,
            of,
            revisions: Arc::new(Revisions { known: Mutex::default(), of }),
            idle: Mutex::default(),
            turns: Semaphore::new(CONNECTIONS_MAX),
            lane: tokio::sync::Mutex::default(),
            changes: AtomicU32::new(0),
            tidying: Arc::new(tokio::sync::Mutex::new(CHANGES_PER_LOOK)),
        }
    }

    pub(super) fn expect(&self, acknowledged: u128, issued: u128) {
        // They are of an enclave that may have been set back.
        self.idle().clear();
        let mut known = self.revisions.known();
        *known = Known { acknowledged, issued: known.issued.max(issued) };
    }

    pub(super) fn acknowledged(&self) -> u128 {
        self.revisions.known().acknowledged
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        // Nothing panics while it is held.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns if there is a connection.
    pub(super) async fn ready(&self) -> Result<(), ServiceError> {
        if self.idle().is_empty() { self.run(|_| Box::pin(async { Ok(()) })).await } else { Ok(()) }
    }

    /// Takes all documents out of an index, and what is left of them out of the storage; others' changes come between.
    pub(super) async fn remove_all(&self, names: Names) -> Result<(), ServiceError> {
        let rows = self.run_change(|connection| connection.left_of(names)).await?;
        self.retire_all(names, &rows).await?;
        self.compact().await
    }

    /// Takes documents out of an index; others' changes come between.
    pub(super) async fn retire_all(&self, names: Names, rows: &[RowId]) -> Result<(), ServiceError> {
        for rows in rows.chunks(DOCUMENTS_MAX) {
            let rows: Arc<[RowId]> = rows.into();
            self.run_change(|connection| connection.retire(names, Arc::clone(&rows))).await?;
        }
        Ok(())
    }

    /// Does something that changes the collection: one at a time, each with all its attempts, before it takes a connection.
    pub(super) async fn run_change<T: Send>(
        &self,
        work: impl for<'c> FnMut(&'c mut Connection) -> Answer<'c, T> + Send,
    ) -> Result<T, ServiceError> {
        let _one_at_a_time = self.lane.lock().await;
        self.run(work).await
    }

    /// Behind a change, and beside what comes: has entries of no use removed, if they are many. Others' changes come between its
    /// rounds.
    pub(super) fn tidy(self: &Arc<Self>) {
        let changes = self.changes.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let Ok(mut per_look) = Arc::clone(&self.tidying).try_lock_owned() else { return };
        if changes < *per_look {
            return;
        }
        self.changes.store(0, Ordering::Relaxed);
        let client = Arc::clone(self);
        tokio::spawn(async move {
            let outcome = client.compact_if_due().await;
            let is_over = matches!(outcome, Ok(false));
            *per_look = if is_over { CHANGES_PER_LOOK } else { (*per_look * 2).min(CHANGES_PER_LOOK_MAX) };
            if let Err(error) = outcome {
                tracing::warn!(%error, "entries of text indexes that are of no use are not removed yet");
            }
        });
    }

    /// Whether there is still much to be removed.
    async fn compact_if_due(&self) -> Result<bool, ServiceError> {
        if !self.run(|connection| connection.is_to_be_compacted()).await? {
            return Ok(false);
        }
        self.compact().await?;
        self.run(|connection| connection.is_to_be_compacted()).await
    }

    async fn compact(&self) -> Result<(), ServiceError> {
        let mut from = None;
        loop {
            from = self.run_change(|connection| connection.compact(from)).await?;
            if from.is_none() {
                return Ok(());
            }
        }
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
        // One that was set back is not used again: whoever needs it hears so before anything is recorded.
        if done.as_ref().err().is_none_or(|error| error.fault != Fault::Corruption) {
            self.idle().push(connection);
        }
        done.map_err(|error| self.named(error))
    }

    /// The error with the host's name and what it means.
    fn named(&self, error: ServiceError) -> ServiceError {
        let host = self.host.place();
        let message = match error.fault {
            Fault::Unreachable => format!(
                "the host of boolean search at {host} cannot be reached ({}): {} wait for it; try again",
                error.message, self.of.waits
            ),
            _ => format!("the host of boolean search at {host}: {}", error.message),
        };
        ServiceError { message, ..error }
    }

    async fn connect(&self) -> Result<Connection, ServiceError> {
        // What is acknowledged while this connection comes about may not be in what is said on it.
        let before = self.acknowledged();
        let mut talk = self.host.begin().await?;
        let opened = open(&mut *talk, self.of.collection).await?;
        self.revisions.hear(opened.revision, before)?;
        let heard = opened.revision;
        Ok(Connection { talk, opened, heard, revisions: Arc::clone(&self.revisions) })
    }
}

/// Opens the collection, or makes it if there is none.
async fn open(talk: &mut dyn Conversation, collection: &str) -> Result<Opened, ServiceError> {
    let profile = Profile::new(Language::None);
    let reply = match ask(talk, Request::Open(collection.to_owned())).await {
        // That it is not there looks like that it is somebody else's, who then refuses to have it made.
        Ok(Reply::Refused(Refused::NotAllowed)) => {
            ask(talk, Request::Create { name: collection.to_owned(), settings: profile.settings() }).await?
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
        Failure::Refused(Refused::Memory { .. } | Refused::Keywords(_)) => Fault::MemoryExceeded,
        Failure::Refused(Refused::Storage(_)) | Failure::SetBack { .. } => Fault::Corruption,
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

    fn hear(&mut self, revision: u128, before: u128) -> Result<(), ServiceError> {
        self.heard = revision;
        self.revisions.hear(revision, before)
    }

    /// Sees that who answers here has what was acknowledged on other connections: a host may run two enclaves.
    async fn catch_up(&mut self) -> Result<(), ServiceError> {
        let before = self.revisions.known().acknowledged;
        if self.heard >= before {
            return Ok(());
        }
        match self.ask(Request::Open(self.revisions.of.collection.to_owned())).await? {
            Reply::Opened(opened) => self.hear(opened.revision, before),
            _ => Err(failure(Failure::Reply)),
        }
    }

    /// Carries a change out, durably; its reply. `issued`: where it stands, if it may have been sent already; it comes to none then if
    /// others came behind it, as it may have been carried out before them.
    async fn change(
        &mut self,
        issued: &mut Option<Issued>,
        request: impl Fn(Fence) -> Request,
    ) -> Result<Option<Reply>, ServiceError> {
        if issued.is_some_and(|issued| !self.revisions.stands(issued)) {
            return Ok(None);
        }
        let mut may_be_sent = issued.is_some();
        for _ in 0..LATE_MAX {
            let before = self.revisions.known().acknowledged;
            let fence = match *issued {
                Some(fence) => fence,
                None => *issued.insert(self.revisions.issue()?),
            };
            match ask(&mut *self.talk, request(Fence::new(fence.supposed, fence.next))).await? {
                // Others came before: one of another proxy, or one that was given up for lost.
                Reply::Refused(Refused::Stale(revision)) => self.hear(revision, before)?,
                Reply::Refused(refused) => return Err(failure(refused.into())),
                reply => {
                    if !matches!(reply, Reply::Compacted { read: 0, .. }) {
                        self.hear(fence.next, before)?;
                    }
                    return Ok(Some(reply));
                }
            }
            if std::mem::take(&mut may_be_sent) {
                return Ok(None);
            }
            *issued = None;
        }
        Err(unreachable(&"others change the same collection all the time"))
    }

    /// Carries an update out, durably: false if that may have been done already, and others came behind it.
    async fn update(&mut self, issued: &mut Option<Issued>, update: &Update) -> Result<bool, ServiceError> {
        let fenced = |fence| {
            let mut update = update.clone();
            update.fence = fence;
            Request::Update(update)
        };
        match self.change(issued, fenced).await? {
            Some(Reply::Updated) => Ok(true),
            Some(_) => Err(failure(Failure::Reply)),
            None => Ok(false),
        }
    }

    /// Carries updates out, one after the other, when they are there. What an attempt over another connection has left of them goes
    /// on, or all of them begin anew if others came between.
    pub(super) fn update_all(
        &mut self,
        updates: Arc<tokio::sync::Mutex<Updates>>,
        analyse: impl FnOnce() -> JoinHandle<Result<Vec<Update>, ServiceError>> + Send + 'static,
    ) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut updates = updates.lock().await;
            let made_for = Some((self.opened.collection, self.opened.salt));
            let mut analyse = Some(analyse);
            loop {
                if updates.made_for != made_for {
                    let Some(analyse) = analyse.take() else {
                        return Err(unreachable(&"others change the same collection all the time"));
                    };
                    let left = analyse().await.map_err(|error| failed(&error))??.into();
                    *updates = Updates { made_for, left, issued: None };
                }
                let Updates { left, issued, .. } = &mut *updates;
                let Some(update) = left.front() else { return Ok(()) };
                if self.update(issued, update).await? {
                    left.pop_front();
                    *issued = None;
                } else {
                    *updates = Updates::default();
                }
            }
        })
    }

    /// The rows of an index that meet a condition: so many at most, or all of them if that is 0.
    pub(super) fn search(
        &mut self,
        condition: Arc<Condition>,
        names: Names,
        top: u32,
    ) -> Answer<'_, Vec<RowId>> {
        Box::pin(async move { self.rows(&condition, names, top).await })
    }

    async fn rows(
        &mut self,
        condition: &Condition,
        names: Names,
        top: u32,
    ) -> Result<Vec<RowId>, ServiceError> {
        self.catch_up().await?;
        let wanted = Wanted { ranking: Ranking::None, top, padding: Padding::None };
        let salt = names.salt(&self.opened);
        let search = request(condition, self.opened.collection, &salt, wanted)
            .map_err(|error| ServiceError::new(Fault::BadValue, format!("$search: {error}")))?;
        let found = self.found(search).await?;
        Ok(found.into_iter().map(|hit| names.row(hit.name)).collect())
    }

    async fn found(&mut self, search: Search) -> Result<Vec<Hit>, ServiceError> {
        match self.ask(Request::Search(search)).await? {
            Reply::Found(page) => Ok(page.hits().collect()),
            _ => Err(failure(Failure::Reply)),
        }
    }

    /// The rows that an index has. Behind this no change comes that was made before.
    pub(super) fn left_of(&mut self, names: Names) -> Answer<'_, Vec<RowId>> {
        Box::pin(async move {
            self.update(&mut None, &Update::new(self.opened.collection)).await?;
            match marked() {
                Some(marked) => self.rows(&marked, names, 0).await,
                None => Ok(Vec::new()),
            }
        })
    }

    /// Takes rows out of an index.
    fn retire(&mut self, names: Names, rows: Arc<[RowId]>) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut update = Update::new(self.opened.collection);
            for row in &*rows {
                let retired = update.document(DocumentAction::Retire, names.document(*row), Facts::default());
                retired.map_err(|error| failed(&error))?;
            }
            self.update(&mut None, &update).await.map(drop)
        })
    }

    fn is_to_be_compacted(&mut self) -> Answer<'_, bool> {
        Box::pin(async move {
            let before = self.revisions.known().acknowledged;
            match self.ask(Request::Open(self.revisions.of.collection.to_owned())).await? {
                Reply::Opened(opened) => {
                    self.hear(opened.revision, before)?;
                    Ok(opened.is_to_be_compacted())
                }
                _ => Err(failure(Failure::Reply)),
            }
        })
    }

    /// A round of a compaction; where the next one begins, if there is one more.
    fn compact(&mut self, from: Option<u64>) -> Answer<'_, Option<u64>> {
        Box::pin(async move {
            let collection = self.opened.collection;
            match self.change(&mut None, |fence| Request::Compact { collection, from, fence }).await? {
                Some(Reply::Compacted { next, .. }) => Ok(next),
                _ => Err(failure(Failure::Reply)),
            }
        })
    }
}
