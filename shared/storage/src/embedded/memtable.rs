//! The memtable: what is committed and not in the engine yet.
//!
//! A durable commit is in the log, so the engine need not have it at once. Keys are random, and a commit of many
//! would have the engine copy nearly a page for each; those of many commits, put in key order at once, share pages,
//! and what was removed meanwhile never gets there. Small commits cost the engine nothing.
//!
//! Two *layers*: the active one takes commits, the frozen one is being merged into the engine and does not change. A
//! key has *versions* by the sequence number of their commit; a [`View`] sees those up to its own. What is in the
//! frozen layer and in the engine is the same once it was merged, so that it does not matter which of them a view
//! finds first.

mod key;

pub(super) use key::Key;

use super::background;
use super::filter::Filter;
use super::wal::Mark;
use crate::staged::Changes;
use crate::{Direction, KeyRange, Table, selects_nothing};
use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// What an entry takes up in memory besides key and value, in bytes, about.
const ENTRY_BYTES: usize = 160;

/// Changes made while readers of a layer wait, at most.
const CHANGES_AT_ONCE: usize = 256;

/// Entries that a scan takes at first, and at most, at a time.
const FIRST_ENTRIES: usize = 4;
const MOST_ENTRIES: usize = 128;

/// A layer of so many bytes is given back by a thread of its own.
const GIVEN_BACK_BESIDE: usize = 1 << 20;

/// How often, and how long each time, that waits for views that still have it.
const WAITS: usize = 1000;
const WAIT: Duration = Duration::from_millis(2);

/// A commit's place among those since the opening.
type Sequence = u64;

/// What commits made of a key, oldest first; none where it was removed.
type Versions = SmallVec<[(Sequence, Option<Bytes>); 1]>;

type Entries = BTreeMap<Key, Versions>;

/// Entries of all tables.
#[derive(Debug)]
pub(super) struct Layer {
    tables: RwLock<BTreeMap<Table, Entries>>,
    bytes: AtomicUsize,
    /// Of the keys of all tables: most that are looked for are in no layer, and finding that out in a large map takes a
    /// dozen looks at memory that is in no cache.
    known: Filter,
}

impl Default for Layer {
    fn default() -> Self {
        Self::for_keys(0)
    }
}

/// A part of a layer's keys: of the `of` parts of each table, of about the same size and in key order, the one with this
/// number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) number: usize,
    pub(super) of: usize,
}

/// The newest versions of a share of a table's keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newest<'l> {
    entries: &'l Entries,
    share: Share,
}

impl<'l> Newest<'l> {
    /// Which of the entries, counted in key order.
    fn places(&self) -> Range<usize> {
        let bound = |number: usize| self.entries.len() * number / self.share.of.max(1);
        bound(self.share.number)..bound(self.share.number + 1)
    }

    /// How many keys these are.
    pub(super) fn keys(&self) -> usize {
        self.places().len()
    }

    /// Keys and values, none where a key was removed, in key order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'l [u8], Option<&'l Bytes>)> + use<'l> {
        let places = self.places();
        let entries = self.entries.iter().skip(places.start).take(places.len());
        entries
            .filter_map(|(key, versions)| versions.last().map(|(_, value)| (key.as_slice(), value.as_ref())))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that a version takes up, about.
pub(super) fn bytes_of(key: &[u8], value: Option<&Bytes>) -> usize {
    ENTRY_BYTES + key.len() + value.map_or(0, Bytes::len)
}

/// Gives a layer back once no view has it: a reader or writer that was the last to have it would be held up.
fn give_back(layer: Arc<Layer>) {
    for _ in 0..WAITS {
        if Arc::strong_count(&layer) == 1 {
            break;
        }
        std::thread::sleep(WAIT);
    }
    drop(layer);
}

/// The newest version up to `sequence`, if there is one.
fn visible(versions: &Versions, sequence: Sequence) -> Option<&Option<Bytes>> {
    versions.iter().rev().find(|(of, _)| *of <= sequence).map(|(_, value)| value)
}

impl Layer {
    /// One whose filter is made for so many keys; it grows with more.
    fn for_keys(keys: usize) -> Self {
        Self { tables: RwLock::default(), bytes: AtomicUsize::new(0), known: Filter::new(keys as u64) }
    }

    fn tables(&self) -> RwLockReadGuard<'_, BTreeMap<Table, Entries>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn tables_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<Table, Entries>> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that it takes up, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    fn get(&self, table: Table, key: &[u8], sequence: Sequence) -> Option<Option<Bytes>> {
        // What a view sees was added before it was opened.
        if !self.known.may_hold(key) {
            return None;
        }
        let tables = self.tables();
        visible(tables.get(&table)?.get(&Key::from_slice(key))?, sequence).cloned()
    }

    /// Hands a share of every table that has some of it to `take`.
    pub(super) fn with_share<T>(&self, share: Share, take: impl FnOnce(&[(Table, Newest<'_>)]) -> T) -> T {
        let tables = self.tables();
        let newest = tables.iter().map(|(table, entries)| (*table, Newest { entries, share }));
        let newest: Vec<_> = newest.filter(|(_, newest)| !newest.places().is_empty()).collect();
        take(&newest)
    }

    /// How many keys it has.
    pub(super) fn keys(&self) -> usize {
        self.tables().values().map(BTreeMap::len).sum()
    }

    /// Adds a version; those that nobody sees who sees at least `oldest` are dropped.
    fn put(&self, entries: &mut Entries, key: Key, version: (Sequence, Option<Bytes>), oldest: Sequence) {
        let added = bytes_of(key.as_slice(), version.1.as_ref());
        let mut freed = 0;
        self.known.add(key.as_slice());
        match entries.entry(key) {
            Entry::Vacant(entry) => drop(entry.insert(SmallVec::from_iter([version]))),
            Entry::Occupied(mut entry) => {
                let kept = entry.get().iter().rposition(|(of, _)| *of <= oldest).unwrap_or(0);
                let key_bytes = ENTRY_BYTES + entry.key().as_slice().len();
                let versions = entry.get_mut();
                freed = versions
                    .drain(..kept)
                    .map(|(_, value)| key_bytes + value.as_ref().map_or(0, Bytes::len))
                    .sum();
                versions.push(version);
            }
        }
        self.bytes.fetch_add(added, Ordering::AcqRel);
        self.bytes.fetch_sub(freed, Ordering::AcqRel);
    }

    /// Forgets a key that was removed by the commit `sequence`, unless it was put again.
    fn forget(&self, table: Table, key: &Key, sequence: Sequence) {
        let mut tables = self.tables_mut();
        let Some(entries) = tables.get_mut(&table) else { return };
        let Entry::Occupied(entry) = entries.entry(key.clone()) else { return };
        if entry.get().last().is_some_and(|(of, value)| *of == sequence && value.is_none()) {
            let (key, versions) = entry.remove_entry();
            let freed = versions.iter().map(|(_, value)| bytes_of(key.as_slice(), value.as_ref())).sum();
            self.bytes.fetch_sub(freed, Ordering::AcqRel);
        }
    }
}

/// What views see now.
#[derive(Debug, Default)]
struct Shown {
    sequence: Sequence,
    active: Arc<Layer>,
    /// With what a state of the engine says of its last commit once it has it.
    frozen: Option<(Arc<Layer>, Mark)>,
}

/// Removals whose keys are to be forgotten, with the sequences of their commits, oldest first.
type Removed = VecDeque<(Sequence, Table, Key)>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Memtable {
    shown: RwLock<Shown>,
    /// How many views there are by what they see.
    views: Mutex<BTreeMap<Sequence, usize>>,
    /// Of keys that nothing below the active layer has.
    removed: Mutex<Removed>,
}

impl Memtable {
    fn shown(&self) -> RwLockReadGuard<'_, Shown> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown_mut(&self) -> RwLockWriteGuard<'_, Shown> {
        self.shown.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that the active layer takes up, about.
    pub(super) fn active_bytes(&self) -> usize {
        self.shown().active.bytes()
    }

    /// True if the engine has everything.
    pub(super) fn is_empty(&self) -> bool {
        let shown = self.shown();
        shown.frozen.is_none() && shown.active.bytes() == 0
    }

    /// Opens a view of what is committed, and with it, by `begin`, one of the engine: of a state with all that is in no
    /// layer, and nothing that the view does not see.
    pub(super) fn view<T, E>(self: &Arc<Self>, begin: impl FnOnce() -> Result<T, E>) -> Result<(View, T), E> {
        // While it is held, nothing is frozen: the engine gets nothing newer.
        let shown = self.shown();
        let below = begin()?;
        let frozen = shown.frozen.as_ref().map(|(layer, _)| layer);
        let is_used = |layer: &&Arc<Layer>| layer.bytes() > 0;
        let layers: SmallVec<[Arc<Layer>; 2]> =
            [&shown.active].into_iter().chain(frozen).filter(is_used).cloned().collect();
        if !layers.is_empty() {
            *locked(&self.views).entry(shown.sequence).or_default() += 1;
        }
        Ok((View { memtable: Arc::clone(self), sequence: shown.sequence, layers }, below))
    }

    /// Makes a commit's changes visible, all at once. One commit at a time. `is_below` says whether the engine may
    /// have a key.
    pub(super) fn publish(&self, changes: Changes, is_below: &mut dyn FnMut(Table, &[u8]) -> bool) {
        let (active, frozen, before) = {
            let shown = self.shown();
            (Arc::clone(&shown.active), shown.frozen.clone(), shown.sequence)
        };
        let sequence = before + 1;
        // A view opened from now on sees at least what is committed before this.
        let oldest = locked(&self.views).keys().next().map_or(before, |first| before.min(*first));
        let mut removed = locked(&self.removed);
        while let Some((of, table, key)) = removed.front().filter(|(of, ..)| *of <= oldest) {
            active.forget(*table, key, *of);
            removed.pop_front();
        }
        for (table, changes) in changes {
            let mut changes = changes.into_iter().peekable();
            while changes.peek().is_some() {
                let mut tables = active.tables_mut();
                let entries = tables.entry(table).or_default();
                for (key, value) in changes.by_ref().take(CHANGES_AT_ONCE) {
                    let key = Key::from_vec(key);
                    let is_forgettable = value.is_none()
                        && entries.contains_key(&key)
                        && match frozen
                            .as_ref()
                            .and_then(|(frozen, _)| frozen.get(table, key.as_slice(), before))
                        {
                            Some(below) => below.is_none(),
                            None => !is_below(table, key.as_slice()),
                        };
                    if is_forgettable {
                        removed.push_back((sequence, table, key.clone()));
                    }
                    active.put(entries, key, (sequence, value), oldest);
                }
            }
        }
        drop(removed);
        self.shown_mut().sequence = sequence;
    }

    /// The layer that is being merged, if there is one.
    pub(super) fn frozen(&self) -> Option<(Arc<Layer>, Mark)> {
        self.shown().frozen.clone()
    }

    /// Freezes the active layer, up to the commit of `mark`, unless it is empty or there is a frozen one. No commit
    /// is made meanwhile.
    pub(super) fn freeze(&self, mark: Mark) {
        let mut shown = self.shown_mut();
        if shown.frozen.is_none() && shown.active.bytes.load(Ordering::Acquire) > 0 {
            // The next one will be about as large.
            let next = Arc::new(Layer::for_keys(shown.active.keys()));
            shown.frozen = Some((std::mem::replace(&mut shown.active, next), mark));
            locked(&self.removed).clear();
        }
    }

    /// The engine has all of the frozen layer.
    pub(super) fn merged(&self) {
        // No longer than that: giving all of it back takes a tenth of a second.
        let frozen = self.shown_mut().frozen.take();
        if let Some((layer, _)) = frozen.filter(|(layer, _)| layer.bytes() >= GIVEN_BACK_BESIDE) {
            let _begun = background::begin("arras-free", move || give_back(layer));
        }
    }
}

/// What is committed at a time and not in the engine's state of that time.
#[derive(Debug)]
pub(super) struct View {
    memtable: Arc<Memtable>,
    sequence: Sequence,
    /// Newest first.
    layers: SmallVec<[Arc<Layer>; 2]>,
}

impl Drop for View {
    fn drop(&mut self) {
        if self.layers.is_empty() {
            return;
        }
        let mut views = locked(&self.memtable.views);
        if let Entry::Occupied(mut entry) = views.entry(self.sequence) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

impl View {
    /// True if the engine has everything.
    pub(super) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// What was made of `key`, if something was: its value, or none if it was removed.
    pub(super) fn get(&self, table: Table, key: &[u8]) -> Option<Option<Bytes>> {
        self.layers.iter().find_map(|layer| layer.get(table, key, self.sequence))
    }

    /// What was made of the keys in `range`, in `direction`.
    pub(super) fn changes(&self, table: Table, range: KeyRange<'_>, direction: Direction) -> ChangesOf<'_> {
        let key = |bound: Bound<&[u8]>| bound.map(Key::from_slice);
        let cursor = |layer| Cursor {
            layer,
            table,
            sequence: self.sequence,
            direction,
            range: (key(range.0), key(range.1)),
            found: VecDeque::new(),
            at_once: FIRST_ENTRIES,
            is_over: false,
        };
        ChangesOf { cursors: self.layers.iter().map(|layer| cursor(&**layer)).collect(), direction }
    }
}

/// A walk over a layer, some entries at a time: commits go on between.
struct Cursor<'v> {
    layer: &'v Layer,
    table: Table,
    sequence: Sequence,
    direction: Direction,
    /// What is left to look at.
    range: (Bound<Key>, Bound<Key>),
    found: VecDeque<(Key, Option<Bytes>)>,
    at_once: usize,
    is_over: bool,
}

impl Cursor<'_> {
    fn first(&mut self) -> Option<&Key> {
        while self.found.is_empty() && !self.is_over {
            self.look();
        }
        self.found.front().map(|(key, _)| key)
    }

    /// Looks at the next entries.
    fn look(&mut self) {
        let tables = self.layer.tables();
        let range = (self.range.0.as_ref(), self.range.1.as_ref());
        let is_empty = selects_nothing(&(range.0.map(Key::as_slice), range.1.map(Key::as_slice)));
        let entries = tables.get(&self.table).filter(|_| !is_empty);
        let Some(entries) = entries else {
            self.is_over = true;
            return;
        };
        let entries = entries.range::<Key, _>(range);
        let (mut looked, mut last) = (0, None);
        let mut see = |(key, versions): (&Key, &Versions)| {
            if let Some(value) = visible(versions, self.sequence) {
                self.found.push_back((key.clone(), value.clone()));
            }
            looked += 1;
            last = Some(key.clone());
        };
        match self.direction {
            Direction::Ascending => entries.take(self.at_once).for_each(&mut see),
            Direction::Descending => entries.rev().take(self.at_once).for_each(&mut see),
        }
        self.is_over = looked < self.at_once;
        self.at_once = (self.at_once * 2).min(MOST_ENTRIES);
        let Some(last) = last.map(Bound::Excluded) else { return };
        match self.direction {
            Direction::Ascending => self.range.0 = last,
            Direction::Descending => self.range.1 = last,
        }
    }
}

/// What was made of keys, in order; of those in several layers, by the newest.
pub(super) struct ChangesOf<'v> {
    /// Newest first.
    cursors: SmallVec<[Cursor<'v>; 2]>,
    direction: Direction,
}

impl Iterator for ChangesOf<'_> {
    type Item = (Key, Option<Bytes>);

    fn next(&mut self) -> Option<Self::Item> {
        let (mut best, mut of) = (None::<Key>, 0);
        for (number, cursor) in self.cursors.iter_mut().enumerate() {
            let Some(key) = cursor.first() else { continue };
            let is_before = best.as_ref().is_none_or(|best| match self.direction {
                Direction::Ascending => key < best,
                Direction::Descending => key > best,
            });
            if is_before {
                (best, of) = (Some(key.clone()), number);
            }
        }
        let best = best?;
        let found = self.cursors.get_mut(of)?.found.pop_front();
        for cursor in self.cursors.iter_mut().skip(of + 1) {
            if cursor.first() == Some(&best) {
                cursor.found.pop_front();
            }
        }
        found
    }
}
