//! Which tables of the engine have a [`Filter`], and how they come to one.
//!
//! What is inserted is first looked for, and mostly not there; in a large table each such look would read a page that
//! nothing else needs, and push one out of the cache that something does. A table whose absent keys are often looked
//! for is given a filter of all of its keys: a thread goes through the table while it is in use, and whatever comes into
//! the engine meanwhile, and later, is added as well. It is in memory only, made anew by a process that needs it, from what the
//! engine has then: nothing on the disk has to agree with it after a crash or a restoration.
//!
//! *A key that is there is never denied.* A snapshot uses filters that were complete when it was opened. Its state of
//! the engine holds what the thread found there, and what was put since the thread began: the latter was added before
//! it was committed, and no put was under way when the thread began. Each step of the thread looks at the state of that
//! moment: what was removed before, no snapshot that uses the filter has.

use super::Embedded;
use super::background;
use super::filter::Filter;
use super::opening::Opened;
use super::places;
use super::recovering::{Origin, Recovering};
use crate::StorageError;
use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// Tables with a filter, at most: 64 MiB in all.
const TABLES_MAX: usize = 4;

/// A table with more keys gets no filter: one of the largest size would be of little use.
const TABLE_KEYS_MAX: u64 = 1 << 24;

/// Absent keys that are looked for before it is worth going through a table: so many, and one for each of these keys
/// of the table.
pub(super) const ABSENT_MIN: u64 = 1000;
const KEYS_PER_ABSENT: u64 = 16;

/// A filter is given up when it has more than twice as many keys as its table, and this many.
const STALE_KEYS_MIN: u64 = 1 << 16;

/// Keys that a step of the thread goes through.
const KEYS_PER_STEP: usize = if cfg!(test) { 16 } else { 4096 };

/// Complete filters, by the engine's names of their tables.
type Complete = SmallVec<[(&'static str, Arc<Filter>); TABLES_MAX]>;

/// Filters that were complete at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(Arc<Complete>);

impl Known {
    /// The filter of a table, if it has one.
    pub(super) fn of(&self, name: &str) -> Option<&Arc<Filter>> {
        self.0.iter().find(|(of, _)| *of == name).map(|(_, filter)| filter)
    }
}

#[derive(Debug, Default)]
struct State {
    known: Known,
    /// The one that a thread fills.
    filling: Option<(&'static str, Arc<Filter>)>,
    /// How many absent keys were looked for in tables without a filter.
    absent: BTreeMap<&'static str, u64>,
}

/// The filters of an open engine.
#[derive(Debug, Default)]
pub(super) struct Filters(RwLock<State>);

impl Filters {
    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are complete: for snapshots that are opened after this.
    pub(super) fn known(&self) -> Known {
        self.state().known.clone()
    }

    /// Those to which a key of this table is added before it is put.
    pub(super) fn taking(&self, name: &str) -> SmallVec<[Arc<Filter>; 2]> {
        let state = self.state();
        let filling = state.filling.as_ref().filter(|(of, _)| *of == name).map(|(_, filter)| filter);
        state.known.of(name).into_iter().chain(filling).cloned().collect()
    }

    /// Counts absent keys that were looked for in a table of `keys` keys; true if it is time to fill a filter for it.
    pub(super) fn missed(&self, name: &'static str, absent: u64, keys: u64, absent_min: u64) -> bool {
        let mut state = self.state_mut();
        let is_out = state.filling.is_some() || state.known.0.len() >= TABLES_MAX || keys > TABLE_KEYS_MAX;
        if is_out || places::is_group(name) || state.known.of(name).is_some() {
            return false;
        }
        let so_far = state.absent.entry(name).or_default();
        *so_far = so_far.saturating_add(absent);
        let is_time = *so_far >= absent_min.saturating_add(keys / KEYS_PER_ABSENT);
        if is_time {
            // Whoever misses next need not say so again.
            *so_far = 0;
        }
        is_time
    }

    /// Begins to fill a filter for a table of `keys` keys, unless one is being filled. Nothing is put meanwhile.
    fn begin(&self, name: &'static str, keys: u64) -> Option<Arc<Filter>> {
        let mut state = self.state_mut();
        if state.filling.is_some() || state.known.of(name).is_some() {
            return None;
        }
        let filter = Arc::new(Filter::new(keys));
        state.filling = Some((name, Arc::clone(&filter)));
        Some(filter)
    }

    /// The filling has ended: with the whole table in it, or not.
    fn end(&self, is_complete: bool) {
        let mut state = self.state_mut();
        let Some((name, filter)) = state.filling.take() else { return };
        if is_complete {
            let mut complete = (*state.known.0).clone();
            complete.push((name, filter));
            state.known = Known(Arc::new(complete));
        }
    }

    /// Gives a table's filter up if most of its keys are gone from the table, which now has `keys`.
    pub(super) fn give_up_if_stale(&self, name: &str, keys: u64) {
        let is_stale =
            |filter: &Arc<Filter>| filter.keys() > keys.saturating_mul(2).saturating_add(STALE_KEYS_MIN);
        if !self.state().known.of(name).is_some_and(is_stale) {
            return;
        }
        let mut state = self.state_mut();
        let mut complete = (*state.known.0).clone();
        complete.retain(|(of, _)| *of != name);
        state.known = Known(Arc::new(complete));
    }
}

/// A filter on its way through a table.
struct Filling {
    name: &'static str,
    filter: Arc<Filter>,
    /// The last key that is in it; none at the beginning.
    reached: Option<Vec<u8>>,
}

/// Has a thread fill a filter for a table, which ends then.
pub(super) fn fill_in_background(engine: &Arc<Recovering>, name: &'static str) {
    let engine = Arc::downgrade(engine);
    let begun = background::begin("arras-filter", move || {
        // Half of the time is for others.
        fill(&engine, name, &mut std::thread::sleep);
    });
    if begun.is_err() {
        debug!(table = name, "no thread for a filter");
    }
}

/// Fills a filter for a table, until it is complete, or the engine is another. After each step but the last, `rest` is
/// told how long it took.
fn fill(engine: &Weak<Recovering>, name: &'static str, rest: &mut dyn FnMut(Duration)) {
    let began = engine.upgrade().and_then(|engine| {
        engine.with_current(|opened, origin| {
            let _nothing_is_put = opened.merging();
            let keys = engine.guarded(&origin, || keys_of(opened, name)).ok()?;
            Some((Arc::clone(&opened.filters), opened.filters.begin(name, keys)?))
        })?
    });
    let Some((filters, filter)) = began else { return };
    let mut filling = Filling { name, filter, reached: None };
    let is_complete = loop {
        let step_began = Instant::now();
        let step = engine.upgrade().and_then(|engine| {
            engine.with_current(|opened, origin| {
                let is_same = Arc::ptr_eq(&opened.filters, &filters);
                is_same.then(|| filling.step(&engine, opened, &origin))
            })?
        });
        match step {
            Some(Ok(false)) => rest(step_began.elapsed()),
            Some(Ok(true)) => break true,
            Some(Err(failure)) => {
                warn!(table = name, "a table cannot be gone through: {failure}");
                break false;
            }
            None => break false,
        }
    };
    filters.end(is_complete);
    debug!(table = name, is_complete, "filter filled");
}

/// How many keys the engine's table has.
fn keys_of(opened: &Opened, name: &str) -> Result<u64, redb::Error> {
    use redb::ReadableTableMetadata;
    let transaction = opened.database.begin_read()?;
    match transaction.open_table(TableDefinition::<&[u8], &[u8]>::new(name)) {
        Ok(table) => Ok(table.len()?),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

impl Filling {
    /// Adds the next keys of the table; true if those were the last.
    fn step(&mut self, engine: &Recovering, opened: &Opened, origin: &Origin) -> Result<bool, StorageError> {
        engine.guarded(origin, || {
            let transaction = opened.database.begin_read()?;
            let table = match transaction.open_table(TableDefinition::<&[u8], &[u8]>::new(self.name)) {
                Ok(table) => table,
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(true),
                Err(error) => return Err(error.into()),
            };
            let from = self.reached.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut last = None;
            let entries = ReadableTable::range::<&[u8]>(&table, (from, Bound::Unbounded))?;
            for (number, entry) in entries.enumerate() {
                let (key, _) = entry?;
                self.filter.add(key.value());
                if number + 1 == KEYS_PER_STEP {
                    last = Some(key.value().to_vec());
                    break;
                }
            }
            let is_over = last.is_none();
            self.reached = last;
            Ok(is_over)
        })
    }
}

impl Embedded {
    /// Fills a filter for a table now.
    #[cfg(test)]
    pub(crate) fn fill_filter(&self, table: crate::Table) {
        self.fill_filter_while(table, &mut || ());
    }

    /// Fills a filter for a table while something happens between two steps.
    #[cfg(test)]
    pub(crate) fn fill_filter_while(&self, table: crate::Table, happening: &mut dyn FnMut()) {
        fill(&Arc::downgrade(&self.engine), places::engine_name(table), &mut |_| happening());
    }

    /// Gives all complete filters up.
    #[cfg(test)]
    pub(crate) fn forget_filters(&self) {
        let forget = |opened: &Opened, _| {
            opened.filters.state_mut().known = Known::default();
            Ok(())
        };
        assert!(self.engine.with(forget).is_ok());
    }

    /// How many keys the filter of a table has, if there is a complete one.
    #[cfg(test)]
    pub(crate) fn filter_keys(&self, table: crate::Table) -> Option<u64> {
        let keys = |opened: &Opened, _| {
            Ok(opened.filters.known().of(places::engine_name(table)).map(|filter| filter.keys()))
        };
        self.engine.with(keys).ok()?
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_table_gets_a_filter_when_looks_in_vain_outweigh_going_through_it() {
        let filters = Filters::default();
        assert!(!filters.missed("small", 999, 0, ABSENT_MIN));
        assert!(filters.missed("small", 1, 0, ABSENT_MIN));
        assert!(!filters.missed("large", 100_000, 1 << 24, ABSENT_MIN));
        assert!(filters.missed("large", 1 << 20, 1 << 24, ABSENT_MIN));
        assert!(!filters.missed("larger", u64::MAX, (1 << 24) + 1, ABSENT_MIN), "too large for one");
        assert!(!filters.missed("group.", u64::MAX, 0, ABSENT_MIN), "of few entries");
    }

    #[test]
    fn one_is_filled_at_a_time_and_few_are_kept() {
        let filters = Filters::default();
        for name in ["a", "b", "c", "d"] {
            assert!(filters.begin(name, 0).is_some());
            assert!(filters.begin("other", 0).is_none());
            assert!(!filters.missed("other", u64::MAX, 0, ABSENT_MIN));
            assert!(filters.known().of(name).is_none(), "not before it is complete");
            filters.end(true);
            assert!(filters.known().of(name).is_some());
            assert!(filters.begin(name, 0).is_none());
        }
        assert!(!filters.missed("other", u64::MAX, 0, ABSENT_MIN));
    }

    #[test]
    fn one_that_was_not_completed_is_not_used() {
        let filters = Filters::default();
        filters.begin("t", 0).unwrap();
        filters.end(false);
        assert!(filters.known().of("t").is_none());
        assert!(filters.taking("t").is_empty());
        assert!(filters.missed("t", ABSENT_MIN, 0, ABSENT_MIN), "it may be tried again");
    }

    #[test]
    fn one_of_keys_that_are_gone_is_given_up() {
        let filters = Filters::default();
        let filter = filters.begin("t", 0).unwrap();
        filters.end(true);
        for number in 0..STALE_KEYS_MIN + 2000 {
            filter.add(&number.to_be_bytes());
        }
        let before = filters.known();
        filters.give_up_if_stale("t", 2000);
        assert!(filters.known().of("t").is_some());
        filters.give_up_if_stale("t", 500);
        assert!(filters.known().of("t").is_none());
        assert!(before.of("t").is_some(), "who has it keeps it");
        assert!(filters.missed("t", ABSENT_MIN, 0, ABSENT_MIN), "it may get another");
    }
}
