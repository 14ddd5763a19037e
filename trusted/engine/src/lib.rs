//! The data service over encrypted indexes: plans a request, asks the keyless halves, opens what comes back,
//! checks it again in plaintext, and writes through the intent log.
#![forbid(unsafe_code)]

mod accepted;
mod apply;
pub mod aside;
mod beside;
mod budget;
mod builds;
pub mod catalog;
pub mod channel;
pub mod cleanup;
mod collection;
mod commits;
mod cursor;
mod cutting;
pub mod declared;
mod definition;
mod error;
mod exclusion;
mod facts;
mod fetch;
mod filling;
pub mod history;
pub mod index;
pub mod inspection;
pub mod intents;
mod joined;
mod known;
pub mod ledger;
mod leftover;
mod lengths;
pub mod local;
mod matches;
mod merged;
pub mod mutations;
mod natural;
mod planning;
mod point;
mod protocols;
mod read;
pub mod restore;
mod rows;
mod sample;
mod scan;
mod service;
mod slices;
mod spill;
pub mod standing;
mod terms;
pub mod text;
mod uniqueness;
pub mod upload;
mod values;
mod walk;
pub mod witness;
mod write;

use crate::history::{Halt, History};
use crate::witness::{Mark, Witness, WitnessError};
use arras_keys::Keyring;
use arras_planner::schema::Schema;
use arras_protocol::IndexId;
use arras_protocol::hello;
use arras_protocol::write::Step;
use arras_schemes::contract::Epochs;
use arras_schemes::contract::Place;
use arras_schemes::error::IndexError;
use arras_schemes::random::Randomness;
use arras_service::interrupt::Interrupt;
use arras_service::store::Namespace;
use arras_service::{Fault, ServiceError};
use arras_storage::{Durability, Storage, Table};
use catalog::CollectionRecord;
use channel::ServerChannel;
use cleanup::Cleanup;
use collection::Collection;
use index::{LiveIndex, Opening, RangeSettings};
use intents::Intents;
use local::{LocalError, LocalStore};
use mutations::{Mutation, Mutations};
use restore::Restored;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::mpsc;

pub use cursor::EngineCursor;

/// Facts about the proxy's own state.
const STATE: Table = Table("each_write.state");
const EPOCH: &[u8] = b"epoch";
/// How many starts there were.
const STARTS: &[u8] = b"starts";
/// No honest server's generation is so far ahead of the epochs that go by it.
const GENERATION_LEAD_MAX: u64 = 1 << 32;
const DATABASE: &[u8] = b"database";
/// The newest write recorded to be sent.
const NEWEST: &[u8] = b"newest";

/// What the memory that queries hold is bounded to unless the administrator says otherwise.
const MEMORY_BYTES: usize = 512 * 1024 * 1024;

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the administrator declared.
    pub schema: Schema,
    /// Parameters of range indexes.
    pub range: RangeSettings,
    /// When entries of equality indexes are numbered anew.
    pub cleanup: Cleanup,
    /// Bytes that queries and cursors together may hold, about.
    pub memory_bytes: usize,
    /// Where a file for what does not fit memory is made.
    pub spill_directory: PathBuf,
    /// Bytes of that file at most. There is never more in it than the disk has room for beside what is stored.
    pub spill_bytes: u64,
    /// How long a write is tried before it is reported in doubt.
    pub patience: Duration,
    /// Bytes of a request above which a write is cut, about.
    pub request_bytes: usize,
    /// What is known of the server's history; its connection's too.
    pub history: Arc<History>,
    /// What this machine has seen of that history, apart from the stores.
    pub witness: Option<Arc<Witness>>,
    /// Where keys of indexes, nonces and orders that are to say nothing come from.
    pub random: Randomness,
    /// Defects to be found by whoever opened the engine.
    pub mutations: Mutations,
    /// The engine makes by itself what the schema calls for and is not there.
    pub keep_schema_applied: bool,
    /// Keeps the entries of text indexes; without one there are none.
    pub text: Option<Arc<dyn text::TextService>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            schema: Schema::default(),
            range: RangeSettings::default(),
            cleanup: Cleanup::default(),
            memory_bytes: MEMORY_BYTES,
            spill_directory: std::env::temp_dir(),
            spill_bytes: u64::MAX,
            patience: Duration::from_secs(10),
            request_bytes: upload::REQUEST_BYTES,
            history: Arc::default(),
            witness: None,
            random: Randomness::default(),
            mutations: Mutations::default(),
            keep_schema_applied: true,
            text: None,
        }
    }
}

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The proxy's own store.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// The server.
    #[error("{}{}", if matches!(.0, IndexError::State(_)) { "" } else { "the server: " }, .0)]
    Index(#[from] IndexError),
    /// A write an earlier start left cannot be completed.
    #[error("completing what an earlier start left: {0}")]
    Intent(#[from] intents::WriteError),
    /// A collection's documents cannot be counted.
    #[error("counting a collection's documents: {0}")]
    Count(String),
    /// The server's history and this proxy's are not one.
    #[error(transparent)]
    History(#[from] Halt),
    /// Both sides were set back, or the witness of that cannot be used.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// What a restore calls for is not done.
    #[error("after the restore that was declared: {0}; the next start tries again")]
    Restore(String),
    /// A collection was made under a root the keyring no longer has.
    #[error("the keyring has no root of version {0}, which a collection was made under")]
    KeyVersion(u32),
}

impl OpenError {
    /// Is it the proxy's own store that failed while an index was read?
    #[must_use]
    pub fn is_of_own_store(&self) -> bool {
        matches!(self, Self::Index(IndexError::State(_)))
    }
}

/// The data service.
pub struct Engine<S: Storage, C: ServerChannel> {
    shared: Arc<Shared<S, C>>,
}

impl<S: Storage, C: ServerChannel> Clone for Engine<S, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<S: Storage, C: ServerChannel> std::fmt::Debug for Engine<S, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}

/// What every operation shares.
struct Shared<S: Storage, C> {
    keyring: Keyring,
    local: Arc<LocalStore<S>>,
    intents: Intents<S>,
    channel: Arc<C>,
    epochs: Arc<Epochs>,
    settings: Settings,
    /// Values of equality indexes to be cleaned.
    cleanups: mpsc::Sender<cleanup::Job>,
    collections: RwLock<BTreeMap<Namespace, Arc<Collection>>>,
    /// Who changes the catalog.
    definitions: exclusion::Definitions,
    /// What queries hold between two steps.
    budget: budget::Budget,
    /// Where sorts and groups put what does not fit memory.
    spill: Arc<spill::SpillFile>,
    /// Index builds under way.
    builds: builds::Builds,
    /// Asks that entries of dropped text indexes be removed.
    sweeps: mpsc::Sender<()>,
    /// The revision of text indexes is recorded by one at a time.
    recording_texts: std::sync::Mutex<()>,
    /// Starts so far, this one included.
    starts: u64,
    /// Insertion order: the number of this start in the high bits, so that it rises across starts.
    sequence: AtomicU64,
}

impl<S: Storage, C: ServerChannel> Engine<S, C> {
    /// Takes up the state in `local`: starts a new epoch, completes what an earlier start left, drops
    /// unfinished indexes and loads the others. `server` is who the server says it is.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(
        local: S,
        keyring: Keyring,
        channel: Arc<C>,
        server: &hello::Response,
        settings: Settings,
    ) -> Result<Self, OpenError> {
        // The store is sealed under the oldest root: rotation adds roots for what is made later.
        let (oldest, _) = keyring.versions().next().unwrap_or_default();
        let root = keyring.root(oldest).ok_or(OpenError::KeyVersion(oldest))?;
        let local = Arc::new(LocalStore::open_with(local, root, settings.random.clone())?);
        let Begun { epoch, starts, restored } = begin(&local, &settings, server)?;
        let accepts = restored == Some(Restored::ServerAlone);
        let witness = settings.witness.clone();
        let history = Arc::clone(&settings.history);
        let mut intents =
            Intents::open(Arc::clone(&local), epoch, settings.patience, history, settings.request_bytes)?;
        intents.mutations = settings.mutations;
        // Nothing is loaded yet that could be of before.
        let completed = intents.settle(&*channel, |_| std::future::ready(())).await?;
        if completed > 0 {
            tracing::info!(writes = completed, "completed the writes an earlier start left");
        }
        let ((cleanups, jobs), (sweeps, wanted)) = (mpsc::channel(cleanup::WAITING_MAX), mpsc::channel(1));
        let budget = budget::Budget::new(settings.memory_bytes);
        let spill = spill::SpillFile::of(&settings);
        let shared = Arc::new(Shared {
            keyring,
            local,
            intents,
            channel,
            epochs: Arc::new(Epochs::with(epoch, &settings.random)),
            settings,
            cleanups,
            collections: RwLock::default(),
            definitions: exclusion::Definitions::default(),
            budget,
            spill,
            builds: builds::Builds::default(),
            sweeps,
            recording_texts: std::sync::Mutex::default(),
            sequence: AtomicU64::new(starts << 40),
            starts,
        });
        shared.expect_text()?;
        for record in catalog::all(&shared.local)? {
            let record = match accepts {
                true => shared.as_on_server(record).await?,
                false => shared.drop_unfinished(record).await?,
            };
            let collection = shared.load(&record).await?;
            shared.count_once(&collection).await.map_err(|error| OpenError::Count(error.message))?;
            shared.register(collection);
        }
        shared.sweep_counters()?;
        match restored {
            Some(Restored::BothSides) => shared.make_anew().await?,
            Some(Restored::ServerAlone) => shared.make_indexes_again().await?,
            None => {}
        }
        if let Some(witness) = &witness {
            witness.advance(seen(server, epoch), restored.is_some())?;
        }
        tokio::spawn(text::sweep(Arc::downgrade(&shared), wanted));
        tokio::spawn(cleanup::run(Arc::downgrade(&shared), jobs));
        if shared.settings.keep_schema_applied {
            tokio::spawn(declared::keep_applied(Arc::downgrade(&shared)));
        }
        Ok(Self { shared })
    }

    /// Tells the range indexes that the server has restarted: they are loaded anew and their circuits remade before
    /// the next use.
    pub async fn server_restarted(&self) {
        let collections = self.shared.all_collections();
        for collection in collections {
            collection.server_restarted().await;
        }
    }
}

/// A start, as it was recorded.
struct Begun {
    epoch: u64,
    /// Starts so far, this one included.
    starts: u64,
    /// What was declared to be restored before it.
    restored: Option<Restored>,
}

/// What a machine that notes this start has seen.
fn seen(server: &hello::Response, epoch: u64) -> Mark {
    Mark { database: server.database, epoch, commits: server.commits }
}

/// Compares what is recorded with what the server says and with what this machine has seen, and records a start.
fn begin<S: Storage>(
    local: &LocalStore<S>,
    settings: &Settings,
    server: &hello::Response,
) -> Result<Begun, OpenError> {
    let (database, newest) = (local.get(STATE, DATABASE)?, local.get(STATE, NEWEST)?);
    let restored = restore::declared(local)?;
    let acknowledged = accepted::acknowledged(local, restored, server)?;
    let known = if settings.mutations.has(Mutation::SetbackNotNoticed) { 0 } else { acknowledged };
    settings.history.take_up(database, newest, known, server)?;
    local.acknowledged(acknowledged);
    let mut last = local.get::<u64>(STATE, EPOCH)?.unwrap_or(0);
    if restored.is_some() {
        last = last.saturating_add(restore::EPOCHS_SKIPPED);
    } else if let Some(witness) = &settings.witness {
        witness.check(seen(server, last))?;
    }
    let is_kept = !settings.mutations.has(Mutation::EpochNotRecorded);
    let epoch = later_epoch(last, if is_kept { server.generation } else { 0 });
    let passed_over = if restored.is_some() { restore::STARTS_SKIPPED } else { 0 };
    let starts = local.get::<u64>(STATE, STARTS)?.unwrap_or(0).saturating_add(1 + passed_over);
    let changes = [
        local.set(STATE, EPOCH, if is_kept { &epoch } else { &last }),
        local.set(STATE, STARTS, &starts),
        local.set(STATE, DATABASE, &server.database),
    ];
    local.apply(&changes, Durability::Durable)?;
    if restored == Some(Restored::ServerAlone) {
        accepted::forget_lost(local, acknowledged)?;
    }
    Ok(Begun { epoch, starts, restored })
}

/// The epoch of a start after `last`: also later than that of any other proxy which held the server's lease before it,
/// so that writes of two proxies that go by copies of one state never have one name.
fn later_epoch(last: u64, generation: u64) -> u64 {
    let believed = if generation.saturating_sub(last) < GENERATION_LEAD_MAX { generation } else { 0 };
    last.saturating_add(1).max(believed)
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    fn all_collections(&self) -> Vec<Arc<Collection>> {
        self.collections.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn collection(&self, ns: &Namespace) -> Option<Arc<Collection>> {
        self.collections.read().unwrap_or_else(PoisonError::into_inner).get(ns).cloned()
    }

    fn register(&self, collection: Arc<Collection>) {
        let ns = collection.ns.clone();
        self.collections.write().unwrap_or_else(PoisonError::into_inner).insert(ns, collection);
    }

    fn unregister(&self, ns: &Namespace) {
        self.collections.write().unwrap_or_else(PoisonError::into_inner).remove(ns);
    }

    /// An error if this proxy must not go on: it answers nothing more.
    fn standing(&self) -> Result<(), ServiceError> {
        self.settings.history.halted().map_or(Ok(()), |halt| Err(error::halted(halt)))
    }

    /// Completes writes whose outcome is unknown before anything else is asked of the server.
    async fn settled(&self) -> Result<(), ServiceError> {
        self.standing()?;
        if self.intents.in_doubt() {
            let hold = |steps: &[Step]| self.suspend(steps.iter().filter_map(Step::index).collect());
            self.intents.settle(&*self.channel, hold).await.map_err(error::write)?;
        }
        Ok(())
    }

    /// Has indexes alone, in the order in which a write takes them.
    async fn suspend(&self, indexes: BTreeSet<IndexId>) -> Vec<Place> {
        let mut suspended = Vec::with_capacity(indexes.len());
        for part in self.all_collections().iter().flat_map(|collection| collection.parts()) {
            if indexes.contains(&part.id) {
                suspended.push(Arc::clone(&part.half).suspend().await);
            }
        }
        suspended
    }

    /// Waits to be the one writer of a collection. The writer before may have left a write in doubt: what this one
    /// goes by must be of after it.
    async fn writer<'c>(
        &self,
        collection: &'c Collection,
    ) -> Result<tokio::sync::MutexGuard<'c, ()>, ServiceError> {
        self.writer_unless(collection, &Interrupt::default()).await
    }

    /// The same, unless the statement that is to write is to end before it has come to it.
    async fn writer_unless<'c>(
        &self,
        collection: &'c Collection,
        interrupt: &Interrupt,
    ) -> Result<tokio::sync::MutexGuard<'c, ()>, ServiceError> {
        let writer = interrupt.during(async { Ok(collection.writes.lock().await) }).await?;
        self.settled().await?;
        self.not_dropped(collection)?;
        Ok(writer)
    }

    /// An error if the collection was dropped while one waited to write to it.
    fn not_dropped(&self, collection: &Collection) -> Result<(), ServiceError> {
        let live = self.collection(&collection.ns).is_some_and(|live| live.id == collection.id);
        if live { Ok(()) } else { Err(error::dropped(&collection.ns)) }
    }

    /// The failure of a read; that its collection was dropped, if the server refuses for that.
    fn unless_dropped(&self, collection: &Collection, failure: ServiceError) -> ServiceError {
        match self.not_dropped(collection) {
            Err(dropped) if failure.fault == Fault::Peer => dropped,
            _ => failure,
        }
    }

    fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// What keyed halves are opened with.
    fn opening(&self) -> Opening<'_, C> {
        Opening {
            channel: &self.channel,
            epochs: &self.epochs,
            range: self.settings.range,
            state: &*self.local,
            starts: self.starts,
        }
    }

    /// Builds a collection's keyed halves.
    async fn load(&self, record: &CollectionRecord) -> Result<Arc<Collection>, OpenError> {
        record.built()?;
        let root = self.keyring.root(record.key_version).ok_or(OpenError::KeyVersion(record.key_version))?;
        let mut indexes = Vec::with_capacity(record.indexes.len());
        for index in &record.indexes {
            let request = index.request()?;
            let text = self.open_text(index, &request)?;
            let live = LiveIndex { text, ..self.opening().open(index, request, root).await? };
            for part in &live.parts {
                part.facts.set(facts::recorded(&self.local, part.id)?);
            }
            indexes.push(live);
        }
        Ok(Arc::new(Collection::new(record, root, indexes)))
    }

    /// Removes indexes that were being filled when an earlier start ended.
    async fn drop_unfinished(&self, mut record: CollectionRecord) -> Result<CollectionRecord, OpenError> {
        let (ready, unfinished): (Vec<_>, Vec<_>) = record.indexes.into_iter().partition(|index| index.ready);
        record.indexes = ready;
        if !unfinished.is_empty() {
            let steps =
                unfinished.iter().flat_map(|index| index.parts.iter().filter_map(index::drop_step)).collect();
            let mut changes = vec![catalog::record(&self.local, &record)];
            changes.extend(unfinished.iter().filter_map(|index| self.remove_text(index)));
            self.intents.perform(&*self.channel, steps, changes).await?;
            for part in unfinished.iter().flat_map(|index| &index.parts) {
                self.local.remove_as_named(apply::COUNTERS, part.id.as_bytes())?;
            }
            tracing::warn!(
                collection = %format_args!("{}.{}", record.database, record.collection),
                "dropped an index that was not finished when the proxy stopped; create it again"
            );
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests;
