//! Values that were read from the engine a moment ago.
//!
//! Finding a value takes the engine several pages, a search in each, and the value's checksum: several times as long as
//! all that is done with it then. What is read again and again is therefore kept here as it was handed out, in memory
//! that is bounded: what is read for the second time since it was put. Much is read once (a circuit is evaluated, and
//! made anew), and to keep that would cost more than it saves.
//!
//! *States.* An entry is of the engine's state that it was read from, and of every later one until its key is put or
//! removed. [`Values::change`] surrounds a commit to the engine, after which the entries of changed keys are dropped.
//! States are numbered, by even numbers; while one is replaced by the next the number is odd. A snapshot uses what was
//! read from its own state or an earlier one, and adds to it while its state is the engine's.

use super::memtable::Key;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory for them, in bytes.
const BYTES: usize = 32 << 20;

/// Parts of it, each with a lock of its own.
const SHARDS: usize = 8;

/// Longest value that is kept, in bytes.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// What an entry takes up besides key and value, in bytes, about.
const ENTRY_BYTES: usize = 128;

/// Places in the order of eviction that may be out of date, besides as many as there are entries.
const STALE_MAX: usize = 256;

/// How many hashes of keys that were read once a part remembers.
const SEEN: usize = 1 << 14;

/// A state of the engine: how often it was changed, twice.
pub(super) type State = u64;

/// Takes a hash for what it is.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

struct Entry {
    table: &'static str,
    key: Key,
    value: Bytes,
    /// The state that it was read from.
    read_from: State,
    /// It was used since its turn to go came last.
    is_used: bool,
}

impl Entry {
    fn is_of(&self, table: &str, key: &[u8]) -> bool {
        self.key.as_slice() == key && self.table == table
    }

    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.key.as_slice().len() + self.value.len()
    }
}

/// Entries by the hash of table and key; of two with the same one the later is kept.
#[derive(Default)]
struct Shard {
    entries: HashMap<u64, Entry, BuildHasherDefault<Hashed>>,
    /// In which order they may have to go (the clock: one that was used meanwhile goes to the end instead).
    order: VecDeque<u64>,
    bytes: usize,
    /// Hashes of what was read once, each in the place that it names itself.
    seen: Vec<u64>,
}

impl Shard {
    /// Notes that a key was read; true if it had been noted before.
    fn note_read(&mut self, hash: u64) -> bool {
        if self.seen.is_empty() {
            self.seen.resize(SEEN, 0);
        }
        let Some(seen) = self.seen.get_mut(hash as usize % SEEN) else { return false };
        std::mem::replace(seen, hash) == hash
    }

    /// A key has another value now, which has not been read yet.
    fn forget_read(&mut self, hash: u64) {
        if let Some(seen) = self.seen.get_mut(hash as usize % SEEN).filter(|seen| **seen == hash) {
            *seen = 0;
        }
    }

    fn remove(&mut self, hash: u64) {
        if let Some(entry) = self.entries.remove(&hash) {
            self.bytes -= entry.bytes();
        }
    }

    fn insert(&mut self, hash: u64, entry: Entry, bytes_max: usize) {
        self.remove(hash);
        self.bytes += entry.bytes();
        while self.bytes > bytes_max {
            let Some(first) = self.order.pop_front() else { break };
            match self.entries.get_mut(&first) {
                Some(entry) if entry.is_used => {
                    entry.is_used = false;
                    self.order.push_back(first);
                }
                Some(_) => self.remove(first),
                None => {}
            }
        }
        self.entries.insert(hash, entry);
        self.order.push_back(hash);
        if self.order.len() > 2 * self.entries.len() + STALE_MAX {
            let entries = &self.entries;
            let mut seen = std::collections::HashSet::with_capacity(entries.len());
            self.order.retain(|hash| entries.contains_key(hash) && seen.insert(*hash));
        }
    }
}

/// See the module.
pub(super) struct Values {
    hashing: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    state: AtomicU64,
    bytes: usize,
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Values")
    }
}

impl Default for Values {
    fn default() -> Self {
        Self::within(BYTES)
    }
}

/// A change of the engine's state; it is over when this is dropped.
pub(super) struct Change<'v>(&'v Values);

impl Change<'_> {
    /// A key has another value, or none, in the new state.
    pub(super) fn drop_value(&self, table: &str, key: &[u8]) {
        let (hash, mut shard) = self.0.shard(table, key);
        shard.remove(hash);
        shard.forget_read(hash);
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_add(1, Ordering::SeqCst);
    }
}

impl Values {
    /// With so much memory.
    fn within(bytes: usize) -> Self {
        Self { hashing: RandomState::new(), shards: Default::default(), state: AtomicU64::new(0), bytes }
    }

    fn shard(&self, table: &str, key: &[u8]) -> (u64, MutexGuard<'_, Shard>) {
        let hash = self.hashing.hash_one((table, key));
        let shard = &self.shards[(hash >> 61) as usize % SHARDS];
        (hash, shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Opens a view of the engine by `begin`; of which state it is, or none if that changed meanwhile.
    pub(super) fn begin<T>(&self, begin: impl FnOnce() -> T) -> (T, Option<State>) {
        let before = self.state.load(Ordering::SeqCst);
        let begun = begin();
        let is_same = before.is_multiple_of(2) && before == self.state.load(Ordering::SeqCst);
        (begun, is_same.then_some(before))
    }

    /// To be held from before a commit to the engine until each key that it changed was named. One at a time.
    pub(super) fn change(&self) -> Change<'_> {
        self.state.fetch_add(1, Ordering::SeqCst);
        Change(self)
    }

    /// What `key` is in a state, if it is known.
    pub(super) fn get(&self, table: &'static str, key: &[u8], state: State) -> Option<Bytes> {
        let (hash, mut shard) = self.shard(table, key);
        let entry = shard.entries.get_mut(&hash)?;
        if entry.read_from > state || !entry.is_of(table, key) {
            return None;
        }
        entry.is_used = true;
        Some(entry.value.clone())
    }

    /// Keeps what was read from a state, if that is still the engine's, and it was read before.
    pub(super) fn keep(&self, table: &'static str, key: &[u8], value: &Bytes, state: State) {
        if value.len() > VALUE_BYTES_MAX {
            return;
        }
        let (hash, mut shard) = self.shard(table, key);
        // Under the lock: what is kept before the state changes is dropped with it, if it is to be.
        if self.state.load(Ordering::SeqCst) != state || !shard.note_read(hash) {
            return;
        }
        let entry = Entry {
            table,
            key: Key::from_slice(key),
            value: value.clone(),
            read_from: state,
            is_used: false,
        };
        shard.insert(hash, entry, self.bytes / SHARDS);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn bytes(number: u64) -> Bytes {
        Bytes::copy_from_slice(&number.to_be_bytes())
    }

    fn state(values: &Values) -> State {
        values.begin(|| ()).1.unwrap()
    }

    /// Reads a value twice.
    fn keep(values: &Values, table: &'static str, key: &[u8], value: &Bytes, state: State) {
        values.keep(table, key, value, state);
        values.keep(table, key, value, state);
    }

    #[test]
    fn what_is_read_once_is_not_kept() {
        let values = Values::default();
        values.keep("t", b"a", &bytes(1), 0);
        assert_eq!(values.get("t", b"a", 0), None);
        values.keep("t", b"a", &bytes(1), 0);
        assert_eq!(values.get("t", b"a", 0), Some(bytes(1)));
        values.change().drop_value("t", b"a");
        values.keep("t", b"a", &bytes(2), 2);
        assert_eq!(values.get("t", b"a", 2), None, "once since it was put");
    }

    #[test]
    fn a_value_is_of_the_state_it_was_read_from_until_it_is_changed() {
        let values = Values::default();
        let first = state(&values);
        keep(&values, "t", b"a", &bytes(1), first);
        keep(&values, "t", b"b", &bytes(2), first);
        let change = values.change();
        assert_eq!(values.begin(|| ()).1, None, "between two states");
        keep(&values, "t", b"c", &bytes(3), first);
        change.drop_value("t", b"a");
        drop(change);
        let second = state(&values);
        for state in [first, second] {
            assert_eq!(values.get("t", b"a", state), None);
            assert_eq!(values.get("t", b"b", state), Some(bytes(2)));
            assert_eq!(
                values.get("t", b"c", state),
                None,
                "it was read from a state that was being replaced"
            );
            assert_eq!(values.get("u", b"b", state), None);
        }
        keep(&values, "t", b"a", &bytes(4), second);
        keep(&values, "t", b"b", &bytes(5), first);
        assert_eq!(values.get("t", b"a", first), None, "not in the earlier state");
        assert_eq!(values.get("t", b"a", second), Some(bytes(4)));
        assert_eq!(values.get("t", b"b", second), Some(bytes(2)), "what an earlier state has says nothing");
    }

    #[test]
    fn a_view_that_was_opened_while_the_state_changed_is_of_none() {
        let values = Values::default();
        let (_, during) = values.begin(|| drop(values.change()));
        assert_eq!(during, None);
        assert_eq!(values.begin(|| ()).1, Some(2));
    }

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let values = Values::within(SHARDS * 20 * (ENTRY_BYTES + 16));
        for number in 0..20_000_u64 {
            keep(&values, "t", &number.to_be_bytes(), &bytes(number), 0);
            if number % 50 == 0 {
                assert_eq!(values.get("t", &number.to_be_bytes(), 0), Some(bytes(number)));
            }
            // Used each time, the first one never has to go.
            assert_eq!(values.get("t", &0_u64.to_be_bytes(), 0), Some(bytes(0)));
        }
        let shards = values.shards.iter().map(|shard| shard.lock().unwrap());
        for shard in shards {
            let counted: usize = shard.entries.values().map(Entry::bytes).sum();
            assert_eq!(shard.bytes, counted);
            assert!(shard.bytes <= values.bytes / SHARDS);
            assert!(shard.order.len() <= 2 * shard.entries.len() + STALE_MAX);
        }
        keep(&values, "t", b"long", &Bytes::from(vec![0; VALUE_BYTES_MAX + 1]), 0);
        assert_eq!(values.get("t", b"long", 0), None);
    }

    #[test]
    fn what_comes_and_goes_leaves_nothing_in_the_order() {
        let values = Values::default();
        for number in 0..10_000_u64 {
            keep(&values, "t", b"a", &bytes(number), 2 * number);
            let change = values.change();
            change.drop_value("t", b"a");
        }
        for shard in &values.shards {
            let shard = shard.lock().unwrap();
            assert_eq!((shard.entries.len(), shard.bytes), (0, 0));
            assert!(shard.order.len() <= STALE_MAX + 1);
        }
    }
}
