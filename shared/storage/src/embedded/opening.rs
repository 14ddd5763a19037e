//! From a directory to an engine whose every page is known to be right, or is checked when it is read.

use super::checked::{Checked, Medium, Plain, State};
use super::filters::Filters;
use super::memtable::Memtable;
use super::places;
use super::sums::{self, BLOCK_BYTES, Stored, Sums};
use super::values::Values;
use super::wal::{self, LogLimits, Logged, Mark, WriteAheadLog};
use super::{FILE, LOG, SUMS, Sizes, contained, environment, failed, opened};
use crate::{Changes, Durability, StorageError, private};
use redb::{Builder, Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What to do if the file is right and its sums are another one's.
const RESTORED_ALONE: &str =
    "if it was restored without the arras.sums beside it, remove that, and the file is checked whole";

/// Where the engine's file is.
#[derive(Debug)]
pub(super) enum Source {
    /// In a directory, with its sums beside it.
    Directory(PathBuf, Sizes),
    /// Behind a device of a test's making, and another for the log if there is one, without sums beside it.
    #[cfg(test)]
    Device(Arc<dyn Medium>, Option<(Arc<dyn Medium>, LogLimits)>),
}

/// An open engine.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) state: Arc<State>,
    pub(super) file: Arc<dyn Medium>,
    /// None for a device of a test's making that is without.
    pub(super) log: Option<Mutex<WriteAheadLog>>,
    /// What is committed and the engine does not have; nothing without a log.
    pub(super) memtable: Arc<Memtable>,
    /// Which keys it does not have.
    pub(super) filters: Arc<Filters>,
    /// What was read from it.
    pub(super) values: Arc<Values>,
    /// Bytes that relaxed commits changed since the engine was last to write its pages to the file.
    pub(super) relaxed_bytes: AtomicUsize,
    /// Held by who moves that to the engine; taken before the log.
    pub(super) merging: Mutex<()>,
    pub(super) limits: LogLimits,
}

impl Source {
    /// The directory, if it is one.
    pub(super) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(directory, _) => Some(directory),
            #[cfg(test)]
            Self::Device(..) => None,
        }
    }

    /// Opens the engine. After an unclean end, and if the sums are missing, this reads the whole file, from the device.
    pub(super) fn open(&self) -> Result<Opened, StorageError> {
        match self {
            Self::Directory(directory, sizes) => {
                let path = directory.join(FILE);
                let file = File::options().read(true).write(true).open(path);
                let file = file.map_err(|error| environment(&error))?;
                if file.metadata().map_err(|error| environment(&error))?.len() == 0 {
                    return Err(StorageError::Damaged("the file is empty".to_owned()));
                }
                let log = Plain(open_log(directory).map_err(|error| environment(&error))?);
                open(Arc::new(Plain(file)), Some(directory.join(SUMS)), *sizes)?
                    .with_log(Arc::new(log), LogLimits::with(*sizes))
            }
            #[cfg(test)]
            Self::Device(device, log) => {
                let opened = open(Arc::clone(device), None, Sizes::default())?;
                match log {
                    Some((log, limits)) => opened.with_log(Arc::clone(log), *limits),
                    None => Ok(opened),
                }
            }
        }
    }
}

/// Opens the log's file, which is made if there is none. Its entry in the directory is on the device before a record is.
fn open_log(directory: &Path) -> io::Result<File> {
    let path = directory.join(LOG);
    private::close_file(&path)?;
    let file = private::file_options().read(true).write(true).create(true).truncate(false).open(path)?;
    // Whoever made it may not have come so far.
    if file.metadata()?.len() == 0 {
        File::open(directory)?.sync_all()?;
    }
    Ok(file)
}

impl Opened {
    /// With the log beside it, and what that holds and the engine does not.
    fn with_log(mut self, file: Arc<dyn Medium>, limits: LogLimits) -> Result<Self, StorageError> {
        let marked = contained(|| marked(&self.database).map_err(failed))?;
        let mut log = WriteAheadLog::open(file, marked, limits, |changes, mark| {
            contained(|| replay(&self.database, changes, mark).map_err(failed))
        })?;
        if marked == Mark::default() {
            // A new store's first round.
            contained(|| self.start_round(&mut log).map_err(failed))?;
        }
        (self.log, self.limits) = (Some(Mutex::new(log)), limits);
        Ok(self)
    }

    /// The log, for as long as a commit takes.
    pub(super) fn log(&self) -> Option<MutexGuard<'_, WriteAheadLog>> {
        let log = self.log.as_ref()?;
        Some(log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn start_round(&self, log: &mut WriteAheadLog) -> Result<(), redb::Error> {
        let next = log.start_anew();
        let mut changes = Changes::new();
        next.mark(&mut changes);
        super::commit(self, &changes, Durability::Durable)?;
        log.started(next);
        Ok(())
    }
}

/// The number of the last commit of what the engine has.
fn marked(database: &Database) -> Result<Mark, redb::Error> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(places::definition(wal::MARK)) {
        Ok(table) => table,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Mark::default()),
        Err(error) => return Err(error.into()),
    };
    let key = places::prefix(wal::MARK);
    let Some(stored) = ReadableTable::get(&table, &*key)? else { return Ok(Mark::default()) };
    let mark = super::checked(places::engine_name(wal::MARK), &key, stored.value())?;
    Mark::decode(mark).ok_or_else(|| redb::Error::Corrupted("the mark of the last commit".into()))
}

/// Applies a record of the log, in memory: the log has it until the engine makes it durable.
fn replay(database: &Database, changes: &[Logged<'_>], mark: Mark) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(redb::Durability::None)?;
    for of_table in changes.chunk_by(|one, other| one.table == other.table) {
        let Some(Logged { table: name, .. }) = of_table.first() else { continue };
        let mut table = transaction.open_table(TableDefinition::<&[u8], &[u8]>::new(name))?;
        for Logged { key, value, .. } in of_table {
            match value {
                Some(value) => super::put(&mut table, name, key, value)?,
                None => drop(table.remove(*key)?),
            }
        }
    }
    let mut marked = Changes::new();
    mark.mark(&mut marked);
    // No table has a filter yet.
    super::committing::put_changes(&transaction, &Filters::default(), &marked)?;
    Ok(transaction.commit()?)
}

fn open(file: Arc<dyn Medium>, stored_at: Option<PathBuf>, sizes: Sizes) -> Result<Opened, StorageError> {
    let sums = match &stored_at {
        Some(path) => stored(&*file, path)?,
        None => None,
    };
    let known = sums.is_some();
    if !known {
        // Nobody knows what became of the last syncs: what is found is to be what the device has.
        file.forget_cached().map_err(|error| environment(&error))?;
    }
    let state = Arc::new(State::new(sums));
    let checked = Checked::new(Arc::clone(&file) as Arc<dyn StorageBackend>, Arc::clone(&state), stored_at)
        .map_err(|error| environment(&error))?;
    let repaired = Arc::new(AtomicBool::new(false));
    let mut builder = Builder::new();
    builder.set_cache_size(sizes.cache_bytes);
    builder.set_repair_callback({
        let repaired = Arc::clone(&repaired);
        move |_| repaired.store(true, Ordering::Release)
    });
    let mut database = contained(|| builder.create_with_backend(checked).map_err(|error| opened(&error)))
        .map_err(|error| state.damage().map_or(error, StorageError::Damaged))?;
    // The engine has read and checked every page itself if it repaired; otherwise it has yet to.
    if !known && !repaired.load(Ordering::Acquire) {
        integrity(&mut database)?;
    }
    state.learnt();
    Ok(Opened {
        database,
        state,
        file,
        log: None,
        memtable: Arc::default(),
        filters: Arc::default(),
        values: Arc::default(),
        relaxed_bytes: AtomicUsize::new(0),
        merging: Mutex::new(()),
        limits: LogLimits::with(sizes),
    })
}

/// The sums left by the last closing, if there are any. They are gone from the disk when this returns: the engine
/// changes the file as soon as it opens it.
fn stored(file: &dyn StorageBackend, path: &Path) -> Result<Option<Sums>, StorageError> {
    let found = Sums::load(path).map_err(|error| environment(&error))?;
    let sums = match found {
        Stored::Missing => None,
        Stored::Of(bytes, sums) => {
            let len = file.len().map_err(|error| environment(&error))?;
            if bytes != len {
                let told = format!("the file has {len} bytes and was closed with {bytes}; {RESTORED_ALONE}");
                return Err(StorageError::Damaged(told));
            }
            let mut header = vec![0; BLOCK_BYTES];
            file.read(0, &mut header).map_err(|error| environment(&error))?;
            if sums.get(0) != sums::sum(0, &header) {
                return Err(StorageError::Damaged(format!(
                    "the file's header is not the one it was closed with; {RESTORED_ALONE}"
                )));
            }
            Some(sums)
        }
    };
    Sums::forget(path).map_err(|error| environment(&error))?;
    Ok(sums)
}

/// Has the engine read every page in use and check it against the checksums that the pages above it hold.
pub(super) fn integrity(database: &mut Database) -> Result<(), StorageError> {
    match contained(|| database.check_integrity().map_err(|error| opened(&error)))? {
        true => Ok(()),
        false => Err(StorageError::Damaged("pages do not match their checksums".to_owned())),
    }
}
