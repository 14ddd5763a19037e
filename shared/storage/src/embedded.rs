//! The embedded, durable implementation: one `redb` file in a directory. `docs/storage.md` has the measurements
//! that chose the engine.

mod background;
pub(crate) mod checked;
mod committing;
mod filter;
mod filters;
mod guarding;
mod memtable;
mod merging;
mod opening;
mod places;
mod recovering;
mod snapshot;
mod sums;
mod values;
mod wal;

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableHandle};

#[cfg(test)]
use checked::Medium;
use committing::{Commit, commit, put};
use opening::{Opened, Source};
use recovering::{Origin, Recovering};
pub use recovering::{ScrubPace, Scrubbed};
use snapshot::EmbeddedSnapshot;
use snapshot::{Beside, EngineSnapshot};
#[cfg(test)]
pub(crate) use wal::LogLimits;

use crate::staged::{Changes, Engine, Staged, Turn};
use crate::{Durability, RUNNING, Storage, StorageError, private};

/// The engine's file inside the data directory.
const FILE: &str = "arras.redb";

/// The sums of its blocks, while it is closed.
const SUMS: &str = "arras.sums";

/// Durable commits that are not in the engine's file yet.
const LOG: &str = "arras.wal";

/// Under which name the engine's file is made, so that a crash while making it leaves nothing to repair.
const UNFINISHED: &str = "arras.redb.new";

/// The file whose lock says that the directory is in use.
const LOCK: &str = "LOCK";

/// What a transaction is told whose snapshot is not of what the store has.
const SET_BACK: &str =
    "the device failed under the transaction, and the store went on from an earlier commit";

/// Bytes of the checksum behind each value.
const CHECKSUM_BYTES: usize = 4;

/// Memory that an embedded store takes for itself, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// For pages of the engine's file, read and not yet written. The log takes up to three eighths as much of the disk.
    pub cache_bytes: usize,
    /// For what was committed and is not in the engine: with more it is merged, with twice as much commits wait, while half
    /// as much again is being merged. The more comes together, the fewer pages are written for it.
    pub memtable_bytes: usize,
}

impl Default for Sizes {
    /// For a process that shares its machine with the application. (The engine's own default is a cache of 1 GiB.)
    fn default() -> Self {
        Self { cache_bytes: 256 << 20, memtable_bytes: 32 << 20 }
    }
}

impl Sizes {
    /// For a process whose work is the store, with so many bytes of cache.
    #[must_use]
    pub const fn of_server(cache_bytes: usize) -> Self {
        Self { cache_bytes, memtable_bytes: cache_bytes / 16 * 3 }
    }
}

/// A durable store in one file of a directory.
///
/// A commit goes to a table in memory. A relaxed one ends there; a durable one is first appended, with the relaxed
/// ones before it, to a log, which is synced. When there is much in memory, a thread merges it into the engine, whose
/// pages stay in memory or in free pages of its file. When the log is long, and when nothing was written for a while,
/// the engine takes the rest, writes what it has in memory, waits for the device, and then names it in the file's
/// header; the log starts over. Whatever instant a crash picks, the header names a complete state, and the log holds
/// what is missing in it.
///
/// Every block of the file that is read is checked against the sum it was written with, across closing and opening,
/// so that a damaged page is found before an answer depends on it ([`StorageError::Damaged`]).
///
/// When the device fails (a full disk), the operation that met it fails, and so do the snapshots open at that time.
/// The next one goes on from the last durable commit: see [`Storage::setbacks`].
///
/// # Security
/// Pages are copied on write, and freed pages are not wiped: see `docs/storage.md`.
#[derive(Debug)]
pub struct Embedded {
    engine: Arc<Recovering>,
    turn: Turn,
    /// Locked until the database is closed.
    lock: Option<File>,
}

impl Embedded {
    /// [`Self::open_with`] of the default.
    ///
    /// # Errors
    /// The same.
    pub fn open(directory: &Path) -> Result<Self, StorageError> {
        Self::open_with(directory, Sizes::default())
    }

    /// Opens the store in `directory`, which is made if it does not exist, and closed to other users of the machine.
    ///
    /// After an unclean end this reads the whole file once and checks it.
    ///
    /// # Errors
    /// [`StorageError::InUse`] while another store has the directory open, in this process or another;
    /// [`StorageError::Damaged`] if the file is not one this engine left; [`StorageError::Environment`] if the
    /// directory cannot be used.
    pub fn open_with(directory: &Path, sizes: Sizes) -> Result<Self, StorageError> {
        private::close_directory(
            directory,
            &[FILE, LOCK, SUMS, "arras.sums.new", UNFINISHED, LOG, RUNNING, "running.json.new"],
        )
        .map_err(|error| environment(&error))?;
        let lock = lock(directory)?;
        let path = directory.join(FILE);
        private::close_file(&path).map_err(|error| environment(&error))?;
        if !path.try_exists().map_err(|error| environment(&error))? {
            none_was_there(directory)?;
            create(directory, &path)?;
        }
        Self::over(Source::Directory(directory.to_path_buf(), sizes), Some(lock))
    }

    fn over(source: Source, lock: Option<File>) -> Result<Self, StorageError> {
        let engine = Arc::new(Recovering::open(source)?);
        // What the log holds after a crash.
        recovering::rest_in_background(&engine);
        Ok(Self { engine, turn: Turn::default(), lock })
    }

    /// Opens the store in the file behind `backend`.
    #[cfg(test)]
    pub(crate) fn open_backend(backend: impl Medium) -> Result<Self, StorageError> {
        Self::over(Source::Device(Arc::new(backend), None), None)
    }

    /// The same, with the log behind another.
    #[cfg(test)]
    pub(crate) fn open_backends(
        backend: impl Medium,
        log: impl Medium,
        limits: LogLimits,
    ) -> Result<Self, StorageError> {
        Self::over(Source::Device(Arc::new(backend), Some((Arc::new(log), limits))), None)
    }

    /// Bytes of what is committed and not being merged, about.
    #[cfg(test)]
    pub(crate) fn memtable_bytes(&self) -> usize {
        self.engine.with(|opened, _| Ok(opened.memtable.active_bytes())).unwrap_or(usize::MAX)
    }

    /// Has the engine have what is committed.
    #[cfg(test)]
    pub(crate) fn merge(&self) {
        let merged = self.engine.with(|opened, origin| self.engine.merge(opened, &origin));
        assert!(merged.is_ok(), "{merged:?}");
    }

    /// True if there is a store in `directory`.
    ///
    /// # Errors
    /// [`StorageError::Environment`] if the directory cannot be looked into.
    pub fn exists(directory: &Path) -> Result<bool, StorageError> {
        directory.join(FILE).try_exists().map_err(|error| environment(&error))
    }

    /// Checks every block of the file against the sum it was written with, every page in use against the checksum
    /// that the page above it holds, and every value against its own; how many entries each table has.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if something does not match, naming where.
    pub fn verify(&mut self) -> Result<BTreeMap<String, u64>, StorageError> {
        let scrubbed = self.scrub(&mut |_| ControlFlow::Continue(()))?;
        if let Some(damage) = scrubbed.describe_damage() {
            return Err(StorageError::Damaged(damage));
        }
        self.checkpoint()?;
        self.engine.with_alone(|opened| opening::integrity(&mut opened.database))?;
        self.engine.with(|opened, origin| self.guarded(&origin, || entries_by_table(&opened.database)))
    }

    /// Has a thread read the whole file again and again at `pace`, and log the damage it finds, until the store is
    /// closed.
    pub fn scrub_in_background(&self, pace: ScrubPace) {
        recovering::scrub_in_background(Arc::downgrade(&self.engine), pace);
    }

    /// Reads the whole file and compares it with the sums its blocks were written with, while the store is in use.
    /// After each step of 256 KiB `pace` is told how many bytes have been read so far; it may wait, or end the scrub.
    ///
    /// What the operating system holds of the file in memory is not read from the device again.
    ///
    /// # Errors
    /// [`StorageError::Environment`] if the file cannot be read. Damage is no error here but what it is for.
    pub fn scrub(&self, pace: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Scrubbed, StorageError> {
        self.engine.scrub(pace)
    }

    /// Gives space back to the file system by moving pages down and cutting the file; true if anything moved.
    ///
    /// # Errors
    /// [`StorageError`] if the engine fails.
    pub fn compact(&mut self) -> Result<bool, StorageError> {
        self.checkpoint()?;
        self.engine.with_alone(|opened| {
            contained(|| opened.database.compact().map_err(|error| failed(error.into())))
        })
    }

    /// Has the engine's file hold everything, and nothing need the log.
    fn checkpoint(&self) -> Result<(), StorageError> {
        self.engine.with(|opened, origin| self.engine.guarded_write(&origin, || opened.checkpoint()))
    }

    /// Runs engine code that reads: see [`Recovering::guarded`].
    fn guarded<T>(
        &self,
        origin: &Origin,
        run: impl FnOnce() -> Result<T, redb::Error>,
    ) -> Result<T, StorageError> {
        self.engine.guarded(origin, run)
    }
}

/// The checksum that follows a stored value. The engine checks its own only after an unclean end and on
/// [`Embedded::verify`], so a bit that flips on the device would otherwise be handed out as data. It tells
/// accidents, not attacks.
fn checksum(table: &str, key: &[u8], value: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    for part in [table.as_bytes(), &(key.len() as u64).to_le_bytes(), key, value] {
        hasher.update(part);
    }
    hasher.finalize().to_le_bytes()
}

/// The value in `stored`, if its checksum holds.
fn checked<'v>(table: &str, key: &[u8], stored: &'v [u8]) -> Result<&'v [u8], redb::Error> {
    match stored.split_last_chunk() {
        Some((value, sum)) if *sum == checksum(table, key, value) => Ok(value),
        _ => Err(redb::Error::Corrupted(format!("a value in table {table} fails its checksum"))),
    }
}

/// Locks `directory` for this store alone.
fn lock(directory: &Path) -> Result<File, StorageError> {
    let path = directory.join(LOCK);
    private::close_file(&path).map_err(|error| environment(&error))?;
    let lock = private::file_options().write(true).create(true).truncate(false).open(path);
    let lock = lock.map_err(|error| environment(&error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StorageError::InUse),
        Err(TryLockError::Error(error)) => Err(environment(&error)),
    }
}

/// That a directory without the file has nothing that only lies beside one.
fn none_was_there(directory: &Path) -> Result<(), StorageError> {
    for beside in [SUMS, LOG] {
        if directory.join(beside).try_exists().map_err(|error| environment(&error))? {
            let told = format!(
                "{FILE} is missing, and {beside} of it is there: put it back, or remove the whole directory"
            );
            return Err(StorageError::Damaged(told));
        }
    }
    Ok(())
}

/// Makes an empty database at `path`, whole or not at all, whatever crash intervenes.
fn create(directory: &Path, path: &Path) -> Result<(), StorageError> {
    let unfinished = directory.join(UNFINISHED);
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(environment(&error)),
        _ => {}
    }
    private::file_options()
        .write(true)
        .create_new(true)
        .open(&unfinished)
        .map_err(|error| environment(&error))?;
    contained(|| Database::create(&unfinished).map(drop).map_err(|error| opened(&error)))?;
    std::fs::rename(&unfinished, path).map_err(|error| environment(&error))?;
    // The file's entry in the directory, and the directory's own.
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    for directory in std::iter::once(directory).chain(parent) {
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| environment(&error))?;
    }
    Ok(())
}

/// Runs engine code; its panic becomes an error.
fn contained<T>(run: impl FnOnce() -> Result<T, StorageError>) -> Result<T, StorageError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(StorageError::Damaged(format!("the engine stopped: {message}")))
    })
}

fn environment(error: &io::Error) -> StorageError {
    StorageError::Environment(error.to_string())
}

fn closed() -> StorageError {
    StorageError::Environment("the store is closed".to_owned())
}

/// Blame for a failed opening.
fn opened(error: &redb::DatabaseError) -> StorageError {
    match error {
        redb::DatabaseError::DatabaseAlreadyOpen => StorageError::InUse,
        redb::DatabaseError::Storage(redb::StorageError::Io(error)) => read_failed(error),
        redb::DatabaseError::Storage(redb::StorageError::Corrupted(_))
        | redb::DatabaseError::RepairAborted
        | redb::DatabaseError::UpgradeRequired(_) => StorageError::Damaged(error.to_string()),
        _ => StorageError::Environment(error.to_string()),
    }
}

/// Blame for a failed operation.
fn failed(error: redb::Error) -> StorageError {
    match error {
        redb::Error::Io(error) => read_failed(&error),
        redb::Error::Corrupted(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. } => StorageError::Damaged(error.to_string()),
        _ => StorageError::Environment(error.to_string()),
    }
}

fn read_failed(error: &io::Error) -> StorageError {
    match error.kind() {
        // A foreign or cut file.
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput => {
            StorageError::Damaged(error.to_string())
        }
        _ => environment(error),
    }
}

impl Engine for Embedded {
    type Snapshot<'a> = EmbeddedSnapshot<'a>;

    fn snapshot(&self) -> Result<EmbeddedSnapshot<'_>, StorageError> {
        self.engine.with(|opened, origin| {
            let begin = || {
                // Before the state that they are asked about.
                let known = opened.filters.known();
                let begin = || self.guarded(&origin, || Ok(opened.database.begin_read()?));
                let (transaction, state) = opened.values.begin(begin);
                Ok((transaction?, Beside::new(opened, known, state)))
            };
            let (view, (transaction, beside)) = opened.memtable.view(begin)?;
            Ok(EmbeddedSnapshot::new(view, EngineSnapshot::new(self, transaction, origin, beside)))
        })
    }

    fn setbacks_at(snapshot: &EmbeddedSnapshot<'_>) -> u64 {
        snapshot.generation()
    }

    fn apply(&self, changes: Changes, durability: Durability, setbacks: u64) -> Result<(), StorageError> {
        if changes.is_empty() && durability == Durability::Relaxed {
            return Ok(());
        }
        let was_broken = self.engine.is_broken();
        let mut own = Commit { changes, durability, mark: None };
        let mut was_tried = false;
        let outcome = self.engine.with(|opened, origin| {
            if origin.generation() != setbacks {
                // What it was made of may be gone.
                return Err(StorageError::Environment(SET_BACK.to_owned()));
            }
            self.engine.check_room(&own.changes, durability)?;
            was_tried = true;
            if opened.log.is_some() {
                self.commit_logged(opened, &origin, &mut own)
            } else {
                self.engine.guarded_write(&origin, || commit(opened, &own.changes, durability))
            }
        });
        match outcome {
            // The device failed under it. What opening the file again finds has reached the device.
            Err(failure @ StorageError::Environment(_)) if was_tried && self.setbacks() != setbacks => {
                match self.holds(&own) {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(failure),
                    Err(_) => Err(StorageError::Undecided(failure.to_string())),
                }
            }
            Err(StorageError::Damaged(what)) if self.engine.is_broken() && !was_broken => {
                Err(StorageError::Undecided(what))
            }
            outcome => outcome.inspect(|()| self.engine.written(durability)),
        }
    }
}

/// Reads every entry and checks its value; how many each table has.
fn entries_by_table(database: &Database) -> Result<BTreeMap<String, u64>, redb::Error> {
    let transaction = database.begin_read()?;
    let mut counts = BTreeMap::new();
    for table in transaction.list_tables()? {
        let name = table.name().to_owned();
        let entries = transaction.open_table(TableDefinition::<&[u8], &[u8]>::new(&name))?;
        if !places::is_group(&name) {
            counts.insert(name.clone(), 0);
        }
        for entry in ReadableTable::iter(&entries)? {
            let (key, value) = entry?;
            checked(&name, key.value(), value.value())?;
            let table = places::table_of(&name, key.value());
            if table == wal::MARK.0 {
                continue;
            }
            *counts.entry(table.into_owned()).or_default() += 1;
        }
    }
    Ok(counts)
}

impl Drop for Embedded {
    /// Closes the file, relaxed commits included.
    fn drop(&mut self) {
        self.engine.close();
        // Closing the descriptor is not enough: a child process forked meanwhile holds a copy until it runs its
        // program.
        if let Some(lock) = &self.lock {
            let _unlocked = lock.unlock();
        }
    }
}

impl Storage for Embedded {
    type Reader<'a> = EmbeddedSnapshot<'a>;
    type Writer<'a> = Staged<'a, Self>;

    fn read(&self) -> Result<EmbeddedSnapshot<'_>, StorageError> {
        self.snapshot()
    }

    fn write(&self) -> Result<Staged<'_, Self>, StorageError> {
        Staged::begin(self, &self.turn)
    }

    fn engine(&self) -> String {
        "redb 4.4".to_owned()
    }

    fn is_ready(&self) -> bool {
        self.engine.is_ready()
    }

    fn setbacks(&self) -> u64 {
        self.engine.setbacks()
    }
}
