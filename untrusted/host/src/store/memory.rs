//! In memory, gone with the process: for measurements and trials.

use super::{Store, StoreError, checkpoint_key, log_key, state_key};
use arras_protocol::Blob;
use arras_protocol::iee::{ENTRY_BYTES, LABEL_BYTES, SEALED_BYTES, StateName};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Label = [u8; LABEL_BYTES];
type Sealed = [u8; SEALED_BYTES];
type Shard = HashMap<Label, Sealed, BuildHasherDefault<ByLabel>>;

/// How many maps the entries lie in, by a byte of their labels: when one grows the others do not wait.
const SHARDS: usize = 256;

/// Labels are pseudo-random already: a part of one is its hash.
#[derive(Default)]
struct ByLabel(u64);

impl Hasher for ByLabel {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(part) = bytes.first_chunk::<8>() {
            self.0 = u64::from_le_bytes(*part);
        }
    }

    // The length of an array, which says nothing.
    fn write_usize(&mut self, _: usize) {}
}

/// Entries and state in memory.
pub struct MemoryStore {
    shards: Vec<Mutex<Shard>>,
    state: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), state: Mutex::default() }
    }
}

impl MemoryStore {
    /// Does something with each item's shard, one shard after the other: between two looks into memory that is far away there is no
    /// lock, so that the processor waits for several at a time.
    fn each<T>(&self, items: &[T], label: impl Fn(&T) -> Label, mut act: impl FnMut(&mut Shard, usize, &T)) {
        let shard_of = |item: &T| usize::from(label(item)[LABEL_BYTES - 1]);
        let mut order: Vec<(usize, usize)> =
            items.iter().enumerate().map(|(at, item)| (shard_of(item), at)).collect();
        order.sort_unstable();
        for group in order.chunk_by(|one, other| one.0 == other.0) {
            let Some(shard) = group.first().and_then(|(shard, _)| self.shards.get(*shard)) else { continue };
            let mut shard = lock(shard);
            for (_, at) in group {
                if let Some(item) = items.get(*at) {
                    act(&mut shard, *at, item);
                }
            }
        }
    }
}

/// Nothing is half done under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for MemoryStore {
    async fn get(&self, labels: Blob) -> Result<Vec<u8>, StoreError> {
        let (labels, _): (&[Label], _) = labels.as_slice().as_chunks();
        let mut entries = vec![[0; SEALED_BYTES]; labels.len()];
        self.each(
            labels,
            |label| *label,
            |shard, at, label| {
                if let (Some(sealed), Some(entry)) = (shard.get(label), entries.get_mut(at)) {
                    *entry = *sealed;
                }
            },
        );
        Ok(entries.into_flattened())
    }

    async fn put(&self, entries: Blob) -> Result<(), StoreError> {
        let (entries, _): (&[[u8; ENTRY_BYTES]], _) = entries.as_slice().as_chunks();
        let label = |entry: &[u8; ENTRY_BYTES]| entry.first_chunk().copied().unwrap_or_default();
        self.each(entries, label, |shard, _, entry| {
            if let (Some(label), Some(sealed)) = (entry.first_chunk(), entry.last_chunk()) {
                shard.insert(*label, *sealed);
            }
        });
        Ok(())
    }

    async fn remove(&self, labels: Blob) -> Result<(), StoreError> {
        let (labels, _): (&[Label], _) = labels.as_slice().as_chunks();
        self.each(
            labels,
            |label| *label,
            |shard, _, label| {
                shard.remove(label);
            },
        );
        Ok(())
    }

    async fn save(&self, name: StateName, state: Blob) -> Result<(), StoreError> {
        lock(&self.state).insert(state_key(name), state.0);
        Ok(())
    }

    async fn load(&self, name: StateName) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(lock(&self.state).get(&state_key(name)).cloned())
    }

    async fn forget(&self, until: u64) -> Result<(), StoreError> {
        let (first_log, first_checkpoint) = (log_key(0), checkpoint_key(0));
        let mut state = lock(&self.state);
        state.retain(|key, _| {
            let log = key.as_slice() >= &first_log[..] && key.as_slice() <= &log_key(until)[..];
            let checkpoint =
                key.as_slice() >= &first_checkpoint[..] && key.as_slice() < &checkpoint_key(until)[..];
            !log && !checkpoint
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_keeps_what_it_is_given() {
        crate::store::conformance::a_service_keeps_what_it_is_given(&MemoryStore::default()).await;
    }
}
