//! Counters that memory does not hold: sealed records in the last pieces of the newest checkpoint.
//!
//! A checkpoint takes over what the one before it had spilled, without what is void, and may spill more. So each of these pieces has one
//! content, which its checkpoint's name is bound into, and the head says which there are.
//!
//! A record is a keyword's entries under one epoch. A keyword that was spilled and comes again begins anew under another epoch, so an
//! update needs nothing of what is spilled. A search reads all of it, in order, whatever it looks for; searches that come
//! meanwhile share the next reading.

use crate::budget::{Reserved, Share};
use crate::checkpoint::Head;
use crate::compact::ROUND;
use crate::journal::round_keywords;
use crate::lane::Stopped;
use crate::record::Record;
use crate::server::{Core, Enclave};
use crate::table::{Found, KEYWORD_BYTES, SEGMENTS, Table, segment_of};
use crate::tasks::in_flights;
use arras_primitives::Block;
use arras_protocol::iee::Fault;
use arras_schemes::bisen::message::Refused;
use arras_schemes::bisen::query::Search;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

/// Most records that are spilled, unless tables are larger or another bound is set: a search reads some 200 MB then.
pub const SPILLED_MAX: u64 = 1 << 23;

/// Bytes of a keyword that is looked for, with some records that are found of it, about.
const FOUND_BYTES: usize = 128;

/// How finely the number of keywords in tables is looked at, and entries of a round of compaction: one in so many.
const GRAIN_PART: usize = 8;
const ROUND_PART: usize = 16;

/// Records that a round of compaction can hold beyond twice what its segments have on average.
const RECORDS_MIN: usize = 1024;

/// How full the tables are, as far as numbers tell that the host knows: of keywords at the last checkpoint, of pairs since.
#[derive(Clone, Copy, Default)]
pub(crate) struct Fill {
    /// Most keywords in tables.
    most: usize,
    /// Keywords at the last checkpoint, rounded up.
    known: usize,
    /// Those that may have come since.
    pub(crate) since: usize,
    /// Records that may be spilled, and that are, at most.
    spilled_max: usize,
    spilled: usize,
}

impl Fill {
    /// Tables have half of the bytes that there are for data, but no more keywords than `limit`. Unless another bound is set, they may be
    /// spilled twice, however large they are.
    pub(crate) fn new(data_bytes: usize, (limit, spilled_max): (usize, Option<u64>)) -> Self {
        let most = (data_bytes / 2 / KEYWORD_BYTES).min(limit).max(1);
        let spilled_max = spilled_max.unwrap_or(SPILLED_MAX.max(2 * most as u64)) as usize;
        Self { most, known: 0, since: 0, spilled_max, spilled: 0 }
    }

    /// Whether a checkpoint must come before so many more. Where none can spill, not each call is worth one.
    pub(crate) fn is_full(&self, more: usize) -> bool {
        let least = if self.may_spill() { 1 } else { self.grain() };
        self.since >= least && self.known + self.since + more > self.most
    }

    /// Whether so many more may come, once no checkpoint must come before them: tables hold them, or may spill.
    pub(crate) fn hold(&self, more: usize) -> Result<(), Refused> {
        let holds = self.may_spill() || self.known + self.since + more <= self.most;
        if holds { Ok(()) } else { Err(Refused::Keywords(self.spilled_max as u64)) }
    }

    pub(crate) fn set_known(&mut self, keywords: usize, spilled: Option<Head>) {
        (self.known, self.since) = (keywords.next_multiple_of(self.grain()), 0);
        self.spilled = spilled.map_or(0, |head| head.records_max());
    }

    fn grain(&self) -> usize {
        (self.most / GRAIN_PART).max(1)
    }

    /// Whether there is room for all that tables hold.
    fn may_spill(&self) -> bool {
        self.spilled.saturating_add(self.most.max(self.known)) <= self.spilled_max
    }

    /// Whether tables are to be spilled; `again` is whether some were before: then it is not put off until nearly every call needs a
    /// checkpoint, each of which copies what is spilled.
    pub(crate) fn spills(&self, again: bool) -> bool {
        let quarters = if again { 2 } else { 3 };
        self.known > self.most / 4 * quarters && self.may_spill()
    }

    /// Entries of a round of compaction: it fits what data leaves of the budget, and tables take its keywords.
    pub(crate) fn round(&self) -> u64 {
        ROUND.min((self.most / ROUND_PART).max(1) as u64)
    }
}

/// What a round of compaction finds of a collection: records of whole segments.
pub(crate) struct Gathered {
    pub(crate) range: Range<usize>,
    pub(crate) found: Found,
    /// How many more records are held; none once there were too many.
    left: Option<usize>,
    /// Bytes that it takes, about.
    pub(crate) bytes: usize,
}

impl Gathered {
    /// From one segment on, so many that they have `most` entries on average of the collection's, and at least one. `spilled` is how many
    /// records there are, at most, of all collections.
    fn new(from: u64, most: u64, entries: u64, spilled: usize) -> Self {
        let first = usize::try_from(from).unwrap_or(SEGMENTS).min(SEGMENTS);
        let count = (SEGMENTS as u64 * most).div_ceil(entries.max(1)).min(SEGMENTS as u64) as usize;
        // Each record that is gathered says of an entry.
        let records = 2 * (spilled.min(entries as usize) / SEGMENTS * count) + RECORDS_MIN;
        let range = first..SEGMENTS.min(first + count);
        Self { range, found: Found::default(), left: Some(records), bytes: records * FOUND_BYTES }
    }

    /// Takes a record of the collection that has this table, unless it is void or says of no entry.
    fn add(&mut self, record: &Record, table: &Table) {
        let is_here = self.range.contains(&segment_of(&record.stem));
        if !is_here || record.count == 0 || table.is_whole(&record.stem) {
            return;
        }
        self.left = self.left.and_then(|left| left.checked_sub(1));
        if self.left.is_some() {
            self.found.entry(record.stem).or_default().push((record.epoch, record.count));
        }
    }

    /// Bytes that it would take, at least, if that is more than it may.
    pub(crate) fn beyond(&self) -> Option<usize> {
        self.left.is_none().then_some(self.bytes + FOUND_BYTES)
    }
}

/// A search that waits for a reading.
struct Asked {
    stems: Vec<Block>,
    _reserved: Reserved,
    found: OnceLock<Arc<Found>>,
}

/// Readings of all that is spilled, one after the other.
#[derive(Default)]
pub(crate) struct Readings {
    /// Searches for the next one, if their clients are still there.
    waiting: Vec<Weak<Asked>>,
    /// Whether a reading for them goes on; what it found, for as long as a search has not taken that.
    is_reading: bool,
    found: Weak<Found>,
    /// Whether what is to be read is about to be replaced.
    pub(crate) is_settling: bool,
}

impl Readings {
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_reading || self.found.strong_count() > 0
    }

    /// What the next one is for, if somebody waits for it.
    fn next(&mut self) -> Option<Vec<Arc<Asked>>> {
        if self.is_settling {
            return None;
        }
        let asked: Vec<Arc<Asked>> = self.waiting.drain(..).filter_map(|asked| asked.upgrade()).collect();
        self.is_reading = !asked.is_empty();
        self.is_reading.then_some(asked)
    }
}

impl Enclave {
    /// What is spilled of a search's keywords. It may change once that is dropped.
    pub(crate) async fn look_up(
        &self,
        search: &Search,
        held: usize,
        share: &Share,
    ) -> Result<Arc<Found>, Refused> {
        let asked = {
            let core = &mut *self.core();
            let collection = core.state.collection(search.collection)?;
            let Some(head) = core.state.spilled else { return Ok(Arc::default()) };
            let stems = search.keywords.iter().map(|keyword| collection.stem(keyword)).collect();
            // Of a list of records as many bytes may be free as it has.
            let each = FOUND_BYTES + head.spills as usize * 2 * size_of::<(u32, u32)>();
            let reserved = core.make_room(1024 + search.keywords.len() * each + held, share)?;
            let asked = Arc::new(Asked { stems, _reserved: reserved, found: OnceLock::new() });
            core.readings.waiting.retain(|asked| asked.strong_count() > 0);
            core.readings.waiting.push(Arc::downgrade(&asked));
            asked
        };
        Ok(self.until(|_| asked.found.get().cloned()).await)
    }

    /// What is spilled of the keywords of a round.
    pub(crate) async fn gather(&self, collection: u32, from: u64) -> Result<Gathered, Stopped> {
        let (mut gathered, _reserved) = {
            let core = &mut *self.core();
            let (entries, most) = (core.state.collection(collection)?.about.entries, core.fill.round());
            let spilled = core.state.spilled.map_or(0, |head| head.records_max());
            let gathered = Gathered::new(from, most, entries, spilled);
            if core.state.spilled.is_none() {
                return Ok(gathered);
            }
            core.fill.hold(round_keywords(most as usize))?;
            let reserved = core.make_room(gathered.bytes, &Share::default())?;
            (gathered, reserved)
        };
        let take = |core: &Core, record: Record| {
            if let Ok(of) = core.state.collection(collection)
                && u32::from(record.collection) == collection
            {
                gathered.add(&record, &of.table);
            }
        };
        self.read(take).await?;
        Ok(gathered)
    }

    /// Reads whenever searches wait for it.
    pub(crate) async fn read_all(self) -> Result<(), Fault> {
        loop {
            let asked = self.until(|core| core.readings.next()).await;
            let stems = asked.iter().flat_map(|asked| &asked.stems);
            let mut found: Found = stems.map(|stem| (*stem, Vec::new())).collect();
            let take = |_: &Core, Record { stem, epoch, count, .. }| {
                found.get_mut(&stem).into_iter().for_each(|runs| runs.push((epoch, count)));
            };
            self.read(take).await?;
            let found = Arc::new(found);
            asked.iter().for_each(|asked| _ = asked.found.set(Arc::clone(&found)));
            let readings = &mut self.core().readings;
            (readings.is_reading, readings.found) = (false, Arc::downgrade(&found));
        }
    }

    /// Reads all records.
    async fn read(&self, mut take: impl FnMut(&Core, Record)) -> Result<(), Fault> {
        let Some(head) = self.core().state.spilled else { return Ok(()) };
        let mut pieces = head.spilled();
        let ask = || pieces.next().map(|piece| (piece, self.load(head.name(piece))));
        let take = |piece, sealed| {
            let core = self.core();
            core.spilled(&head, piece, sealed)?.iter().for_each(|record| take(&core, record));
            Ok(())
        };
        in_flights(ask, take).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(segment: u16, keyword: u32) -> Record {
        let mut stem = [1; 16];
        stem[..2].copy_from_slice(&segment.to_le_bytes());
        stem[12..].copy_from_slice(&keyword.to_le_bytes());
        Record { stem, count: 1, epoch: 1, collection: 0 }
    }

    #[test]
    fn a_round_gathers_whole_segments_nothing_void_and_no_more_than_is_counted() {
        let mut table = Table::new(0);
        table.set(&Record { epoch: 2, ..record(0, 0) }, true);
        let mut gathered = Gathered::new(0, 2000, 500 * SEGMENTS as u64, 500 * SEGMENTS);
        for segment in 0..8 {
            (0..500).for_each(|keyword| gathered.add(&record(segment, keyword), &table));
        }
        assert_eq!((gathered.range.clone(), gathered.found.len(), gathered.beyond()), (0..4, 1999, None));
        // The first segment has more than a round can hold.
        for keyword in 500..5000 {
            gathered.add(&record(0, keyword), &table);
            assert!(gathered.found.len() * FOUND_BYTES <= gathered.bytes, "{keyword}");
        }
        assert_eq!(gathered.beyond(), Some(gathered.bytes + FOUND_BYTES));
        // Records of other collections take no room, nor do those that say of none.
        let mut few = Gathered::new(0, 2000, 3000, 1 << 23);
        assert!(few.bytes <= (2 * 2000 + RECORDS_MIN) * FOUND_BYTES);
        (0..10_000).for_each(|keyword| few.add(&Record { count: 0, ..record(1, keyword) }, &table));
        assert_eq!((few.found.len(), few.beyond()), (0, None));
        let last = Gathered::new(SEGMENTS as u64 - 1, 2000, 0, 0);
        assert_eq!(last.range, SEGMENTS - 1..SEGMENTS);
    }

    #[test]
    fn tables_of_any_size_may_be_spilled_unless_a_bound_is_set() {
        for data_bytes in [16 << 20, 1 << 30, 1 << 40] {
            let may_spill = |bound| Fill::new(data_bytes, (usize::MAX, bound)).may_spill();
            assert!(may_spill(None) && !may_spill(Some(0)), "{data_bytes}");
        }
    }

    #[test]
    fn what_was_spilled_once_is_spilled_again_when_tables_are_full_by_half() {
        let mut fill = Fill::new(usize::MAX, (80, Some(u64::MAX)));
        let spills = |fill: &Fill| (fill.spills(false), fill.spills(true));
        fill.set_known(55, None);
        assert_eq!(spills(&fill), (false, true));
        fill.set_known(40, None);
        assert_eq!(spills(&fill), (false, false));
        fill.set_known(65, None);
        assert_eq!(spills(&fill), (true, true));
    }
}
