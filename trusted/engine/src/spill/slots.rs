//! The file that all spill to, and its room.

use super::{SLOT_BYTES, failed};
use crate::Settings;
use arras_documents::QueryError;
use arras_primitives::aead::Aead;
use arras_service::store::Relief;
use rand::CryptoRng;
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Free space that is left on the disk for what is stored: more than the store needs in order not to commit with care.
const RESERVE_BYTES: u64 = 2 << 30;
/// Of a small disk only this part is left.
const RESERVE_SHARE: u64 = 8;
/// Free slots beside those in use whose room the disk does not get back: writing them again costs less.
const KEPT_SLOTS: u64 = 2048;

/// One file for everything that is spilled, made when it is first needed.
pub(crate) struct SpillFile {
    directory: PathBuf,
    pub(super) aead: Aead,
    /// Seals so far; no two have the same nonce.
    pub(super) seals: AtomicU64,
    pub(super) runs: AtomicU64,
    /// Most slots.
    limit: u64,
    slots: Mutex<Slots>,
    relief: Mutex<Option<Weak<dyn Relief>>>,
}

#[derive(Default)]
struct Slots {
    file: Option<Arc<File>>,
    /// Slots that were used and are not, and still have their room.
    free: Vec<u64>,
    /// Those whose room the disk has back.
    holes: Vec<u64>,
    /// The file system takes none back: it is not asked again.
    is_kept: bool,
    /// Slots the file has.
    count: u64,
}

impl Slots {
    fn used(&self) -> u64 {
        self.count - (self.free.len() + self.holes.len()) as u64
    }

    /// Gives the room of all free slots back to the disk. What the file system cannot give back is free as before.
    fn punch(&mut self) {
        let Some(file) = &self.file else { return };
        self.free.sort_unstable();
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let is_punched = self.free.chunk_by(|slot, next| slot + 1 == *next).all(|together| {
            let start = together.first().map_or(0, |slot| slot * SLOT_BYTES);
            rustix::fs::fallocate(file, flags, start, together.len() as u64 * SLOT_BYTES).is_ok()
        });
        if is_punched {
            self.holes.append(&mut self.free);
        }
        self.is_kept = !is_punched;
    }
}

/// Whether the disk has room for a further slot beside its reserve.
fn has_room(file: &File) -> bool {
    // Where the question is not answered, the write itself answers it.
    rustix::fs::fstatvfs(file).map_or(true, |system| {
        let bytes = |blocks: u64| blocks.saturating_mul(system.f_frsize);
        bytes(system.f_bavail) >= RESERVE_BYTES.min(bytes(system.f_blocks) / RESERVE_SHARE) + SLOT_BYTES
    })
}

impl SpillFile {
    /// A file in `directory` of `limit_bytes` at most, under a key of its own.
    pub(crate) fn new(directory: PathBuf, limit_bytes: u64, rng: &mut impl CryptoRng) -> Arc<Self> {
        let mut key = zeroize::Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *key);
        let aead = Aead::new(&key);
        let (seals, runs, slots, relief) = Default::default();
        Arc::new(Self { directory, aead, seals, runs, limit: limit_bytes / SLOT_BYTES, slots, relief })
    }

    /// The same, as the settings have it.
    pub(crate) fn of(settings: &Settings) -> Arc<Self> {
        let folder = settings.spill_directory.clone();
        Self::new(folder, settings.spill_bytes, &mut settings.random.rng())
    }

    /// Who is asked for room where there is none.
    pub(crate) fn set_relief(&self, relief: Weak<dyn Relief>) {
        *self.relief.lock().unwrap_or_else(PoisonError::into_inner) = Some(relief);
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot to be written.
    ///
    /// # Errors
    /// 14031 if there is no room for it.
    pub(super) fn take(&self) -> Result<(Arc<File>, u64), QueryError> {
        loop {
            if let Some(taken) = self.try_take()? {
                return Ok(taken);
            }
            // Not under the lock: what gives way gives slots back.
            let relief = self.relief.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if !relief.and_then(|relief| relief.upgrade()).is_some_and(|relief| relief.relieve()) {
                return Err(QueryError::no_disk(format_args!(
                    "queries have {} MiB there, and the rest of it is for what is stored: narrow the query, or try again when \
                     other queries and their cursors have ended",
                    (self.slots().used() * SLOT_BYTES) >> 20
                )));
            }
        }
    }

    /// None if there is no room.
    fn try_take(&self) -> Result<Option<(Arc<File>, u64)>, QueryError> {
        let mut slots = self.slots();
        let file = match &slots.file {
            Some(file) => Arc::clone(file),
            None => {
                let file = tempfile::tempfile_in(&self.directory).map_err(|error| failed(&error))?;
                Arc::clone(slots.file.insert(Arc::new(file)))
            }
        };
        if slots.used() >= self.limit {
            return Ok(None);
        }
        if let Some(slot) = slots.free.pop() {
            return Ok(Some((file, slot)));
        }
        if !has_room(&file) {
            return Ok(None);
        }
        let slot = slots.holes.pop().unwrap_or_else(|| {
            slots.count += 1;
            slots.count - 1
        });
        Ok(Some((file, slot)))
    }

    /// Gives slots back.
    pub(super) fn give_back(&self, unused: impl IntoIterator<Item = u64>) {
        let mut slots = self.slots();
        slots.free.extend(unused);
        let used = slots.used();
        if used == 0 {
            // Nothing is in it: the disk has it back. If not, it is used again.
            *slots = Slots::default();
        } else if !slots.is_kept && slots.free.len() as u64 > used + KEPT_SLOTS {
            slots.punch();
        }
    }

    /// The file, if there is one, and the slots it has.
    #[cfg(test)]
    pub(super) fn file(&self) -> (Option<Arc<File>>, u64) {
        let slots = self.slots();
        (slots.file.clone(), slots.count)
    }
}
