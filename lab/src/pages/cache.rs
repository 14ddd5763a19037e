//! A cache of page names: constant work a page for LRU and FIFO, logarithmic in the cache's size for LFU.

use super::CachePolicy;
use arras_storage::Table;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::collections::BTreeSet;
use std::hash::BuildHasher;

/// No place.
const NONE: usize = usize::MAX;

/// A page in the cache.
#[derive(Debug)]
struct Slot {
    table: Table,
    key: Vec<u8>,
    page: usize,
    hash: u64,
    /// Neighbours in the queue, towards its front (next to leave) and its back.
    ahead: usize,
    behind: usize,
    /// How often it was used, and when last (LFU).
    uses: u64,
    used_at: u64,
}

/// Which pages are in the cache.
#[derive(Debug)]
pub(super) struct Cache {
    capacity: usize,
    policy: CachePolicy,
    places: HashTable<usize>,
    slots: Vec<Slot>,
    /// LRU and FIFO: the page that leaves next, and the one that came last.
    front: usize,
    back: usize,
    /// LFU: (uses, last use, place); the first leaves next.
    by_use: BTreeSet<(u64, u64, usize)>,
    clock: u64,
    hasher: DefaultHashBuilder,
}

impl Cache {
    /// An empty cache of `capacity` pages, at least one.
    pub(super) fn new(capacity: usize, policy: CachePolicy) -> Self {
        Self {
            capacity: capacity.max(1),
            policy,
            places: HashTable::new(),
            slots: Vec::new(),
            front: NONE,
            back: NONE,
            by_use: BTreeSet::new(),
            clock: 0,
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Uses the first `pages` pages under a key, in order; how many were not in the cache. They are afterwards.
    pub(super) fn touch(&mut self, table: Table, key: &[u8], pages: usize) -> u64 {
        let base = self.hasher.hash_one((table.0, key));
        let mut missed = 0;
        for page in 0..pages {
            let hash = base ^ (page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let slots = &self.slots;
            let same = |place: &usize| {
                let slot = &slots[*place];
                slot.page == page && slot.key == key && slot.table == table
            };
            match self.places.find(hash, same).copied() {
                Some(place) => self.used(place),
                None => {
                    missed += 1;
                    self.enter(table, key, page, hash);
                }
            }
        }
        missed
    }

    fn used(&mut self, place: usize) {
        match self.policy {
            CachePolicy::Fifo => {}
            CachePolicy::Lfu => {
                self.clock += 1;
                let slot = &mut self.slots[place];
                self.by_use.remove(&(slot.uses, slot.used_at, place));
                (slot.uses, slot.used_at) = (slot.uses + 1, self.clock);
                self.by_use.insert((slot.uses, slot.used_at, place));
            }
            CachePolicy::Lru => {
                if self.back != place {
                    self.unlink(place);
                    self.link_last(place);
                }
            }
        }
    }

    fn enter(&mut self, table: Table, key: &[u8], page: usize, hash: u64) {
        let place = if self.slots.len() < self.capacity {
            let (key, uses, used_at) = (key.to_vec(), 0, 0);
            self.slots.push(Slot { table, key, page, hash, ahead: NONE, behind: NONE, uses, used_at });
            self.slots.len() - 1
        } else {
            let place = self.leave();
            let slot = &mut self.slots[place];
            slot.key.clear();
            slot.key.extend_from_slice(key);
            (slot.table, slot.page, slot.hash) = (table, page, hash);
            place
        };
        match self.policy {
            CachePolicy::Lfu => {
                self.clock += 1;
                let slot = &mut self.slots[place];
                (slot.uses, slot.used_at) = (1, self.clock);
                self.by_use.insert((1, self.clock, place));
            }
            CachePolicy::Fifo | CachePolicy::Lru => self.link_last(place),
        }
        let slots = &self.slots;
        self.places.insert_unique(hash, place, |place| slots[*place].hash);
    }

    /// Frees the place of the page that leaves next. The cache is full.
    fn leave(&mut self) -> usize {
        let place = match self.policy {
            CachePolicy::Lfu => self.by_use.pop_first().map_or(0, |(_, _, place)| place),
            CachePolicy::Fifo | CachePolicy::Lru => {
                let place = self.front;
                self.unlink(place);
                place
            }
        };
        if let Ok(entry) = self.places.find_entry(self.slots[place].hash, |other| *other == place) {
            entry.remove();
        }
        place
    }

    fn unlink(&mut self, place: usize) {
        let (ahead, behind) = (self.slots[place].ahead, self.slots[place].behind);
        match ahead {
            NONE => self.front = behind,
            ahead => self.slots[ahead].behind = behind,
        }
        match behind {
            NONE => self.back = ahead,
            behind => self.slots[behind].ahead = ahead,
        }
    }

    fn link_last(&mut self, place: usize) {
        (self.slots[place].ahead, self.slots[place].behind) = (self.back, NONE);
        match self.back {
            NONE => self.front = place,
            back => self.slots[back].behind = place,
        }
        self.back = place;
    }
}
