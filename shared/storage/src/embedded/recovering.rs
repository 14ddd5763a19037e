//! The engine behind a device that may fail: after a failed write it takes nothing more until it is opened again,
//! which happens here, without a restart of the process.

use super::background;
use super::checked::State;
use super::opening::{Opened, Source};
use super::sums::BLOCK_BYTES;
use super::wal::LogLimits;
use super::{closed, contained};
use crate::{Changes, Durability, StorageError};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};
use tracing::{debug, error, info};

/// After a failure, writes are refused for this many times as long as opening again took, so that a device that
/// keeps failing leaves most of the time to those who read.
const PAUSE_FACTOR: u32 = 20;
/// But no longer.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Free bytes of a file system that durable commits leave, at most: room for what the engine still holds in memory.
const RESERVE_BYTES: u64 = 4 << 20;
/// And at most one part in this of a small file system.
const RESERVE_SHARE: u64 = 16;
/// Pages that one changed key may have the engine write anew, in bytes.
const PAGES_BYTES: u64 = 16 << 10;

/// Without a write for so long, the engine's file takes what the log holds.
const LOG_REST: Duration = Duration::from_secs(2);
/// More than this is not moved to the engine's file while commits wait.
const SETTLED_BYTES: u64 = 256 << 10;

/// What a look at the whole file found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes read.
    pub bytes: u64,
    /// Where in the file, in bytes, blocks of 4 KiB begin that are not as they were written.
    pub damaged: Vec<u64>,
}

impl Scrubbed {
    /// The damage in words, if there is any.
    #[must_use]
    pub fn describe_damage(&self) -> Option<String> {
        let first = self.damaged.first()?;
        Some(format!(
            "{} of the file's blocks fail their checksum, the first at byte {first}",
            self.damaged.len()
        ))
    }
}

/// Which opening of the engine something belongs to.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) state: Arc<State>,
    generation: u64,
}

impl Origin {
    /// How often the device had failed before.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }
}

#[derive(Debug)]
struct Current {
    opened: Opened,
    generation: u64,
}

/// What went wrong since the last durable commit.
#[derive(Debug, Default)]
struct Trouble {
    /// The failure, which has been logged.
    told: Option<String>,
    not_before: Option<Instant>,
}

/// An engine that is opened again after its device failed.
#[derive(Debug)]
pub(super) struct Recovering {
    source: Source,
    /// None while closed, and while it cannot be opened.
    current: RwLock<Option<Current>>,
    /// How often the device failed. What was opened at another count takes nothing more.
    setbacks: AtomicU64,
    trouble: Mutex<Trouble>,
    closed: AtomicBool,
    /// Engine code has contradicted itself.
    pub(super) broken: AtomicBool,
    /// A thread waits until nothing is written any more.
    is_waiting_for_rest: AtomicBool,
    /// A thread merges.
    pub(super) is_merging: AtomicBool,
}

impl Recovering {
    pub(super) fn open(source: Source) -> Result<Self, StorageError> {
        let current = Some(Current { opened: source.open()?, generation: 0 });
        Ok(Self {
            source,
            current: RwLock::new(current),
            setbacks: AtomicU64::new(0),
            trouble: Mutex::default(),
            closed: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            is_waiting_for_rest: AtomicBool::new(false),
            is_merging: AtomicBool::new(false),
        })
    }

    pub(super) fn setbacks(&self) -> u64 {
        self.setbacks.load(Ordering::Acquire)
    }

    /// False while the engine is being opened again, or must be.
    pub(super) fn is_ready(&self) -> bool {
        match self.current.try_read() {
            Ok(current) => current.as_ref().is_some_and(|current| current.generation == self.setbacks()),
            Err(_) => false,
        }
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `run` on the engine, opened again if need be.
    pub(super) fn with<T>(
        &self,
        run: impl FnOnce(&Opened, Origin) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        loop {
            {
                let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
                if let Some(Current { opened, generation }) = &*current
                    && *generation == self.setbacks()
                {
                    let origin = Origin { state: Arc::clone(&opened.state), generation: *generation };
                    return run(opened, origin);
                }
            }
            self.reopen()?;
        }
    }

    /// Runs `run` on the engine if it is open.
    pub(super) fn with_current<T>(&self, run: impl FnOnce(&Opened, Origin) -> T) -> Option<T> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let Current { opened, generation } = current.as_ref()?;
        let origin = Origin { state: Arc::clone(&opened.state), generation: *generation };
        (*generation == self.setbacks()).then(|| run(opened, origin))
    }

    /// Runs `run` on the engine while nobody else uses it.
    pub(super) fn with_alone<T>(
        &self,
        run: impl FnOnce(&mut Opened) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        self.with(|_, _| Ok(()))?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        run(&mut current.as_mut().ok_or_else(closed)?.opened)
    }

    /// Closes the engine. Nobody is left to tell of a failure; the next opening finds what is wrong.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let current = self.current.write().unwrap_or_else(PoisonError::into_inner).take();
        let is_sound = current.as_ref().is_some_and(|current| current.generation == self.setbacks());
        let _closed = contained(|| {
            if let Some(Current { opened, .. }) = &current
                && is_sound
                && !self.is_broken()
            {
                opened.checkpoint().map_err(super::failed)?;
                opened
                    .log()
                    .map_or(Ok(()), |mut log| log.cut())
                    .map_err(|error| super::environment(&error))?;
            }
            Ok(())
        });
        let _closed = contained(|| {
            drop(current);
            Ok(())
        });
    }

    /// True if there is room for all that the engine may have in memory, and for the log, even where the engine's file
    /// doubles. Where there is less, durable commits are the engine's own, and meet the end of the room one by one.
    pub(super) fn has_ample_room(&self) -> bool {
        match &self.source {
            Source::Directory(directory, sizes) => {
                let ample = (sizes.cache_bytes as u64 + LogLimits::with(*sizes).log_bytes).saturating_mul(4);
                let system = rustix::fs::statvfs(directory);
                system.is_ok_and(|system| system.f_bavail.saturating_mul(system.f_frsize) >= ample)
            }
            #[cfg(test)]
            Source::Device(..) => true,
        }
    }

    /// Takes notice of an engine's error: after a failure of the device that opening is over.
    pub(super) fn heed(&self, origin: &Origin, failure: &redb::Error) {
        let over = match failure {
            redb::Error::Io(_) | redb::Error::PreviousIo | redb::Error::DatabaseClosed => true,
            // Of a foreign enum, open to more.
            _ => false,
        };
        let next = origin.generation + 1;
        let first = over
            && self
                .setbacks
                .compare_exchange(origin.generation, next, Ordering::AcqRel, Ordering::Acquire)
                .is_ok();
        if first {
            self.tell(failure.to_string());
        }
    }

    /// Notes a failure, and logs it if it is the first since writing last worked.
    fn tell(&self, what: String) {
        let mut trouble = self.trouble();
        if trouble.told.is_none() {
            error!("the store's device failed: {what}; writes are refused until it works again");
        }
        trouble.told = Some(what);
    }

    fn reopen(&self) -> Result<(), StorageError> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if !self.is_used() {
            return Err(closed());
        }
        let generation = self.setbacks();
        if current.as_ref().is_some_and(|current| current.generation == generation) {
            return Ok(());
        }
        if current.is_none() {
            self.check_pause()?;
        }
        let began = Instant::now();
        let old = current.take();
        let _closed = contained(|| {
            drop(old);
            Ok(())
        });
        let opened = self.source.open();
        self.trouble().not_before = Some(Instant::now() + (began.elapsed() * PAUSE_FACTOR).min(PAUSE_MAX));
        match opened {
            Ok(opened) => {
                *current = Some(Current { opened, generation });
                Ok(())
            }
            Err(failure) => {
                self.tell(failure.to_string());
                Err(failure)
            }
        }
    }

    /// Refuses while the device is left alone after a failure.
    fn check_pause(&self) -> Result<(), StorageError> {
        let mut trouble = self.trouble();
        match (trouble.not_before, &trouble.told) {
            (Some(until), Some(told)) if Instant::now() < until => {
                Err(StorageError::Environment(format!("{told}; trying again shortly")))
            }
            _ => {
                trouble.not_before = None;
                Ok(())
            }
        }
    }

    /// Refuses a commit for which the device has no room, before the engine meets that.
    pub(super) fn check_room(&self, changes: &Changes, durability: Durability) -> Result<(), StorageError> {
        self.check_pause()?;
        let Some(directory) = self.source.directory() else {
            return Ok(());
        };
        if durability == Durability::Relaxed && self.trouble().told.is_none() {
            return Ok(());
        }
        // Where the question is not answered, the write itself answers it.
        let Ok(system) = rustix::fs::statvfs(directory) else {
            return Ok(());
        };
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        let reserve = RESERVE_BYTES.min(system.f_blocks.saturating_mul(system.f_frsize) / RESERVE_SHARE);
        if free >= reserve.saturating_add(room(changes)) {
            return Ok(());
        }
        let what = format!("no space left in {}: {} KiB are free", directory.display(), free >> 10);
        self.tell(what.clone());
        Err(StorageError::Full(what))
    }

    /// A commit succeeded.
    pub(super) fn written(&self, durability: Durability) {
        if durability == Durability::Durable {
            let told = std::mem::take(&mut *self.trouble()).told;
            if let Some(told) = told {
                info!("the store takes writes again after: {told}");
            }
        }
    }

    /// One step of a scrub. None at the end, and once the store was closed or opened anew.
    fn scrub_step(&self, from: u64, damaged: &mut Vec<u64>) -> Result<Option<u64>, StorageError> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let Some(Current { opened, generation }) = &*current else {
            return Ok(None);
        };
        if *generation != self.setbacks() {
            return Ok(None);
        }
        let step = opened.state.scrub_step(&*opened.file, from, damaged);
        step.map_err(|error| super::environment(&error))
    }

    pub(super) fn scrub(
        &self,
        pace: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Scrubbed, StorageError> {
        let (mut blocks, mut from) = (Vec::new(), 0);
        while let Some(next) = self.scrub_step(from, &mut blocks)? {
            from = next;
            if pace(from * BLOCK_BYTES as u64).is_break() {
                break;
            }
        }
        let damaged = blocks.into_iter().map(|block| block * BLOCK_BYTES as u64).collect();
        Ok(Scrubbed { bytes: from * BLOCK_BYTES as u64, damaged })
    }

    /// True if the store is open, or would be if its device worked.
    fn is_used(&self) -> bool {
        !self.closed.load(Ordering::Acquire)
    }
}

/// How a store's file is read again while it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubPace {
    /// Bytes read in a second, at most.
    pub bytes_per_second: u64,
    /// From the end of one pass to the beginning of the next.
    pub rest: Duration,
}

impl Default for ScrubPace {
    fn default() -> Self {
        Self { bytes_per_second: 8 << 20, rest: Duration::from_secs(24 * 60 * 60) }
    }
}

/// Longest sleep of a scrub: it notices the end of the store after that.
const NAP: Duration = Duration::from_millis(500);

/// Has a thread take what the log holds into the engine's file once nothing is written any more, and clear the log; one
/// thread at a time, which ends then.
pub(super) fn rest_in_background(engine: &Arc<Recovering>) {
    if engine.is_waiting_for_rest.swap(true, Ordering::AcqRel) {
        return;
    }
    let waiting = Arc::downgrade(engine);
    let begun = background::begin("arras-log", move || {
        while rest(&waiting, NAP) {
            let Some(engine) = waiting.upgrade() else { return };
            // In steps, between which writers have their turn.
            let (mut cleared, mut is_merged) = (Clearing::InPart, false);
            while matches!(cleared, Clearing::Merged | Clearing::InPart) {
                cleared = engine.clear_log(is_merged);
                is_merged |= cleared == Clearing::Merged;
            }
            if cleared == Clearing::Over {
                return;
            }
        }
    });
    if begun.is_err() {
        // The next commit tries again.
        engine.is_waiting_for_rest.store(false, Ordering::Release);
    }
}

/// How far the clearing of the log has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clearing {
    /// Something was written a moment ago.
    NotYet,
    /// The engine has made durable what was committed before, and may now take the rest.
    Merged,
    /// There is more to clear.
    InPart,
    /// It is done, or cannot be.
    Over,
}

impl Recovering {
    /// Clears some of the log if nothing was written for a while. Commits wait while the engine takes what is left, which is to be
    /// little: much is merged before, once (`is_merged`), as relaxed commits may go on for ever.
    fn clear_log(&self, is_merged: bool) -> Clearing {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let sound = current.as_ref().filter(|current| current.generation == self.setbacks());
        let found = sound.and_then(|current| Some((current, current.opened.settled()?)));
        let Some((Current { opened, generation }, mut settled)) = found else {
            self.is_waiting_for_rest.store(false, Ordering::Release);
            return Clearing::Over;
        };
        if !settled.log.is_clear() {
            if !settled.log.rests_since(LOG_REST) {
                return Clearing::NotYet;
            }
            let origin = Origin { state: Arc::clone(&opened.state), generation: *generation };
            if !is_merged && opened.unsettled_bytes(&settled.log) > SETTLED_BYTES {
                drop(settled);
                return self.merge_before_rest(opened, &origin);
            }
            let cleared = self.guarded_write(&origin, || {
                opened.settle(&mut settled)?;
                settled.log.clear_some().map_err(redb::Error::Io)
            });
            match cleared {
                Ok(()) if !settled.log.is_clear() => return Clearing::InPart,
                Ok(()) => {}
                Err(failure) => error!("the log cannot be taken into the store's file: {failure}"),
            }
        }
        // Before the lock is given up: a commit after it begins another thread.
        self.is_waiting_for_rest.store(false, Ordering::Release);
        Clearing::Over
    }
}

impl Recovering {
    /// While commits go on.
    fn merge_before_rest(&self, opened: &Opened, origin: &Origin) -> Clearing {
        match self.merge_durably(opened, origin) {
            Ok(()) => Clearing::Merged,
            Err(failure) => {
                error!("the log cannot be taken into the store's file: {failure}");
                // Nothing is committed meanwhile: a commit after it begins another thread.
                let _log = opened.log();
                self.is_waiting_for_rest.store(false, Ordering::Release);
                Clearing::Over
            }
        }
    }
}

/// Reads the file again and again, at `pace`, until the store is closed, and logs the damage it finds.
pub(super) fn scrub_in_background(engine: Weak<Recovering>, pace: ScrubPace) {
    std::thread::spawn(move || {
        while let Some(scrubbed) = scrub_once(&engine, pace) {
            match scrubbed {
                Ok(Scrubbed { bytes, damaged }) if damaged.is_empty() => {
                    debug!(bytes, "the store's file was read again: no damage");
                }
                Ok(scrubbed) => error!(
                    bytes = scrubbed.bytes,
                    "the store's file is damaged: {}; what depends on it is refused: restore a backup",
                    scrubbed.describe_damage().unwrap_or_default()
                ),
                Err(failure) => error!("the store's file cannot be read: {failure}"),
            }
            if !rest(&engine, pace.rest) {
                break;
            }
        }
    });
}

/// Sleeps, unless the store is closed meanwhile: then false.
fn rest(engine: &Weak<Recovering>, time: Duration) -> bool {
    let until = Instant::now() + time;
    loop {
        if !engine.upgrade().is_some_and(|engine| engine.is_used()) {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(NAP));
    }
}

/// One pass; none if the store was closed meanwhile.
fn scrub_once(engine: &Weak<Recovering>, pace: ScrubPace) -> Option<Result<Scrubbed, StorageError>> {
    let began = Instant::now();
    let mut open = true;
    let scrubbed = engine.upgrade()?.scrub(&mut |bytes| {
        let due = Duration::from_millis(bytes.saturating_mul(1000) / pace.bytes_per_second.max(1));
        open = rest(engine, due.saturating_sub(began.elapsed()));
        if open { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    open.then_some(scrubbed)
}

/// Bytes that writing `changes` may take.
fn room(changes: &Changes) -> u64 {
    let of_one = |(key, value): (&Vec<u8>, &Option<bytes::Bytes>)| {
        PAGES_BYTES + 2 * (key.len() + value.as_ref().map_or(0, bytes::Bytes::len)) as u64
    };
    changes.values().flatten().map(of_one).sum()
}

#[cfg(test)]
mod tests;
