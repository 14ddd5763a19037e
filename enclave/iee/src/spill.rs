//! Counters that memory does not hold: sealed records in the last pieces of the newest checkpoint.
//!
//! A checkpoint takes over what the one before it had spilled, without what is void, and may spill more. So each of these pieces has one
//! content, which its checkpoint's name is bound into, and the head says which there are.
//!
//! A record is a keyword's entries under one epoch. A keyword that was spilled and comes again begins anew under another epoch, so an
//! update needs nothing of what is spilled. A search reads all of it, in order, whatever it looks for; searches that come
//! meanwhile share the next reading.

use crate::checkpoint::{CheckpointId, PIECE_RECORDS};
use crate::compact::ROUND;
use crate::fault::Fault;
use crate::search::{Planned, Task, held};
use crate::server::{Client, Iee, Waiting};
use crate::state::State;
use crate::table::{Found, SEGMENTS, Table, segment_of};
use arras_primitives::Block;
use arras_protocol::iee::{ConnectionId, Outgoing, StateName};
use arras_schemes::bisen::message::{Groups, Refused, Reply};
use arras_schemes::bisen::query::Search;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a record: stem, count, epoch, collection.
pub(crate) const RECORD_BYTES: usize = 16 + 4 + 4 + 1;

/// Most records that are spilled, unless the start says another number: a search reads some 200 MB then.
pub const SPILLED_MAX: u64 = 1 << 23;

/// Bytes of a slot, and of those beside it that are free at the most, rounded up.
const SLOT_BYTES: usize = 64;

/// Pieces that are read at once: one is looked through while the host fetches the other.
const FLIGHTS_MAX: u32 = 2;

/// Bytes of a keyword that is looked for, with what is found of it, about.
const FOUND_BYTES: usize = 128;

/// Part of the tables that stays when the rest is spilled, how finely their number of keywords is looked at, and entries of a round of
/// compaction: one in so many.
const STAY_PART: usize = 4;
const GRAIN_PART: usize = 8;
const ROUND_PART: usize = 16;

/// Records that a round of compaction can hold, however small the tables are.
const RECORDS_MIN: usize = 1024;

/// Where they lie.
#[derive(Clone, Copy)]
pub(crate) struct Spilled {
    /// Of the checkpoint.
    pub(crate) number: u64,
    pub(crate) id: CheckpointId,
    pub(crate) first: u32,
    pub(crate) until: u32,
}

impl Spilled {
    pub(crate) fn name(&self, piece: u32) -> StateName {
        StateName::Checkpoint { generation: self.number, piece }
    }

    /// How many records there are, at most: what the host knows of it.
    fn records(&self) -> u64 {
        u64::from(self.until - self.first) * PIECE_RECORDS as u64
    }
}

/// A keyword's entries under one epoch.
pub(crate) struct Record {
    pub(crate) stem: Block,
    pub(crate) count: u32,
    pub(crate) epoch: u32,
    pub(crate) collection: u8,
}

impl Record {
    pub(crate) fn bytes(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [self.collection; RECORD_BYTES];
        bytes[..16].copy_from_slice(&self.stem);
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.epoch.to_le_bytes());
        bytes
    }

    /// The records of a piece.
    pub(crate) fn all(piece: &[u8]) -> impl Iterator<Item = Self> {
        piece.as_chunks::<RECORD_BYTES>().0.iter().map(|bytes| {
            let [stem @ .., a, b, c, d, e, f, g, h, collection] = *bytes;
            let (count, epoch) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
            Self { stem, count, epoch, collection }
        })
    }
}

/// How full the tables are, as far as numbers tell that the host knows: of keywords at the last checkpoint, of pairs since.
#[derive(Clone, Copy)]
pub(crate) struct Fill {
    /// Most keywords in tables.
    most: usize,
    /// Keywords at the last checkpoint, rounded up.
    known: usize,
    /// Those that may have come since.
    pub(crate) since: usize,
    /// Records that may be spilled, in all and more than there are.
    spilled_max: u64,
    room: usize,
}

impl Fill {
    /// By the bytes that there are for data, of which tables have half; `limit` is more than they may have, if it is lower.
    pub(crate) fn new(data_bytes: usize, limit: usize, spilled_max: u64) -> Self {
        let most = (data_bytes / 2 / SLOT_BYTES).min(limit).max(1);
        Self { most, known: 0, since: 0, spilled_max, room: spilled_max as usize }
    }

    /// Whether a checkpoint must come before so many more. Where none can spill, not each call is worth one.
    pub(crate) fn is_full(&self, more: usize) -> bool {
        let least = if self.may_spill() { 1 } else { self.grain() };
        self.since >= least && self.known + self.since + more > self.most
    }

    /// Whether so many more may come, once no checkpoint must come before them: tables hold them, or may spill.
    pub(crate) fn hold(&self, more: usize) -> Result<(), Refused> {
        let holds = self.may_spill() || self.known + self.since + more <= self.most;
        if holds { Ok(()) } else { Err(Refused::Keywords { spilled_max: self.spilled_max }) }
    }

    pub(crate) fn set_known(&mut self, keywords: usize, spilled: Option<Spilled>) {
        (self.known, self.since) = (keywords.next_multiple_of(self.grain()), 0);
        let spilled = spilled.map_or(0, |spilled| spilled.records());
        self.room = self.spilled_max.saturating_sub(spilled) as usize;
    }

    fn grain(&self) -> usize {
        (self.most / GRAIN_PART).max(1)
    }

    /// Whether there is room for enough: no less than a grain leaves then, however keywords were rounded.
    fn may_spill(&self) -> bool {
        self.room >= 2 * self.grain()
    }

    /// How many keywords stay, if some must leave now; `again` is whether tables are full and some left before: then it is not put off
    /// until nearly every call needs a checkpoint, each of which copies what is spilled.
    pub(crate) fn stay(&self, again: bool) -> Option<usize> {
        let quarters = if again { 2 } else { 3 };
        let spills = self.known > self.most / 4 * quarters && self.may_spill();
        spills.then_some((self.most / STAY_PART).max(self.known.saturating_sub(self.room)))
    }

    /// Entries of a round of compaction: it fits what data leaves of the budget, and tables take its keywords.
    pub(crate) fn round(&self) -> u64 {
        ROUND.min((self.most / ROUND_PART).max(1) as u64)
    }
}

/// Marks what leaves the tables: all but so many, those first that have the fewest entries (compared by powers of two).
pub(crate) fn mark(state: &mut State, stay: usize) {
    let class = |count: u32| (u32::BITS - count.leading_zeros()) as usize;
    let mut classes = [0; 33];
    let mut slots = |visit: &mut dyn FnMut(&mut crate::table::Slot)| {
        state.collections.iter_mut().flat_map(|collection| collection.table.slots_mut()).for_each(visit);
    };
    slots(&mut |slot| classes[class(slot.count)] += 1);
    let mut leaving = classes.iter().sum::<usize>().saturating_sub(stay);
    for part in &mut classes {
        *part = leaving.min(*part);
        leaving -= *part;
    }
    slots(&mut |slot| {
        let left = &mut classes[class(slot.count)];
        slot.is_leaving = *left > 0;
        *left = left.saturating_sub(1);
    });
}

/// What a round of compaction finds of a collection, by segments.
pub(crate) struct Gathered {
    collection: u32,
    range: Range<usize>,
    /// Entries of which there are enough: later segments are the next round's.
    pub(crate) most: u64,
    entries: u64,
    /// Records that are held.
    records: usize,
    /// With the entries and records of each.
    found: BTreeMap<usize, (u64, usize, Found)>,
}

impl Gathered {
    pub(crate) fn new(collection: u32, from: u64, most: u64) -> Self {
        let first = usize::try_from(from).unwrap_or(SEGMENTS).min(SEGMENTS);
        Self { collection, range: first..SEGMENTS, most, entries: 0, records: 0, found: BTreeMap::new() }
    }

    pub(crate) fn collection(&self) -> u32 {
        self.collection
    }

    /// Takes a record of the collection that has this table, unless it is void.
    fn add(&mut self, record: &Record, table: &Table) {
        let (segment, records_max) = (segment_of(&record.stem), self.records_max());
        if !self.range.contains(&segment) || table.is_whole(&record.stem) {
            return;
        }
        let (entries, records, found) = self.found.entry(segment).or_default();
        // One that says of none takes room, too.
        let count = u64::from(record.count.max(1));
        (*entries, *records) = (*entries + count, *records + 1);
        (self.entries, self.records) = (self.entries + count, self.records + 1);
        if segment == self.range.start && *records > records_max {
            // It cannot be gone through: what comes is counted alone.
            return found.clear();
        }
        found.entry(record.stem).or_default().push((record.epoch, record.count));
        while let Some(last) = self.found.last_entry() {
            let (segment, (entries, records, _)) = (*last.key(), last.get());
            let is_enough = self.entries - entries >= self.most || self.records > records_max;
            if !is_enough || segment == self.range.start {
                return;
            }
            (self.entries, self.records) = (self.entries - entries, self.records - records);
            self.range.end = segment;
            last.remove();
        }
    }

    fn records_max(&self) -> usize {
        (self.most as usize * 2).max(RECORDS_MIN)
    }

    /// Bytes that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.records_max() * FOUND_BYTES
    }

    /// Bytes that its first segment would take, if that is more.
    pub(crate) fn beyond(&self) -> Option<usize> {
        (self.records > self.records_max()).then_some(self.records * FOUND_BYTES)
    }

    pub(crate) fn segments(&self) -> Range<usize> {
        self.range.clone()
    }

    pub(crate) fn take(&mut self, segment: usize) -> Found {
        self.found.remove(&segment).map(|(.., found)| found).unwrap_or_default()
    }
}

/// A search whose keywords are looked for.
struct Asked {
    client: Client,
    search: Search,
    groups: Groups,
    reserved: usize,
}

/// A reading of all that is spilled.
struct Reading {
    pieces: Spilled,
    asked: u32,
    read: u32,
    searches: Vec<Asked>,
    /// Bytes that were counted for searches whose clients are gone: what they look for stays until the end.
    gone: usize,
    found: Found,
    gathered: Option<Gathered>,
}

/// Readings, one after the other.
#[derive(Default)]
pub(crate) struct Readings {
    under_way: Option<Reading>,
    /// Searches for the next one, and a round.
    waiting: Vec<Asked>,
    pub(crate) round: Option<Gathered>,
}

impl Readings {
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Lets go of a client's searches; bytes that were counted for them.
    pub(crate) fn forget(&mut self, connection: ConnectionId) -> usize {
        let gone = |searches: &mut Vec<Asked>| -> usize {
            let gone = searches.extract_if(.., |asked| asked.client.connection == connection);
            gone.map(|asked| asked.reserved).sum()
        };
        if let Some(reading) = &mut self.under_way {
            reading.gone += gone(&mut reading.searches);
        }
        gone(&mut self.waiting)
    }
}

impl Iee {
    /// Looks up a search's counters, and begins it.
    pub(crate) fn look_up(
        &mut self,
        client: Client,
        search: Search,
        groups: Groups,
    ) -> Result<Option<Reply>, Refused> {
        if self.state.spilled.is_none() {
            return self.begin_search(client, search, groups, &Found::default());
        }
        search.check().map_err(Refused::Formula)?;
        let reserved = 1024 + search.keywords.len() * FOUND_BYTES + held(&search, &groups);
        self.make_room(reserved)?;
        self.readings.waiting.push(Asked { client, search, groups, reserved });
        self.read_next();
        Ok(None)
    }

    /// Begins a reading if somebody waits for one, unless what is to be read is about to be replaced.
    pub(crate) fn read_next(&mut self) {
        let readings = &mut self.readings;
        let nobody = readings.waiting.is_empty() && readings.round.is_none();
        if nobody || readings.is_under_way() || self.lane.is_settling() {
            return;
        }
        let mut found = Found::default();
        for Asked { search, .. } in &readings.waiting {
            let Ok(collection) = self.state.collection(search.collection) else { continue };
            found.extend(search.keywords.iter().map(|keyword| (collection.stem(keyword), Vec::new())));
        }
        let none = Spilled { number: 0, id: [0; 16], first: 0, until: 0 };
        let pieces = self.state.spilled.unwrap_or(none);
        let searches = std::mem::take(&mut readings.waiting);
        let gathered = readings.round.take();
        let (asked, read) = (pieces.first, pieces.first);
        readings.under_way = Some(Reading { pieces, asked, read, searches, gone: 0, found, gathered });
        self.read_on();
    }

    /// Asks for the next pieces; behind the last one what was asked for begins.
    fn read_on(&mut self) {
        let Some(mut reading) = self.readings.under_way.take() else { return };
        while reading.asked < reading.pieces.until && reading.asked < reading.read + FLIGHTS_MAX {
            let (piece, name) = (reading.asked, reading.pieces.name(reading.asked));
            reading.asked += 1;
            self.ask(Waiting::Read(piece), |ask| Outgoing::Load { ask, name });
        }
        if reading.read < reading.pieces.until {
            self.readings.under_way = Some(reading);
            return;
        }
        self.budget.release(reading.gone);
        for Asked { client, search, groups, reserved } in reading.searches {
            self.budget.release(reserved);
            if let Err(refused) = self.begin_search(client, search, groups, &reading.found) {
                self.answer(client, Reply::Refused(refused));
            }
        }
        if let Some(gathered) = reading.gathered {
            self.gathered(gathered);
        }
        self.settle();
        self.read_next();
    }

    /// A piece of a reading.
    pub(crate) fn piece_read(&mut self, piece: u32, sealed: Option<&[u8]>) -> Result<(), Fault> {
        let Some(reading) = &mut self.readings.under_way else { return Err(Fault::Unasked) };
        let records = self.pieces.spilled(&reading.pieces, piece, sealed)?;
        for record in Record::all(&records) {
            if let Some(runs) = reading.found.get_mut(&record.stem) {
                runs.push((record.epoch, record.count));
            }
            if let Some(gathered) = reading.gathered.as_mut()
                && gathered.collection == u32::from(record.collection)
                && let Ok(collection) = self.state.collection(gathered.collection)
            {
                gathered.add(&record, &collection.table);
            }
        }
        reading.read += 1;
        self.read_on();
        Ok(())
    }

    /// Begins a search with what was found of its keywords among what is spilled.
    fn begin_search(
        &mut self,
        client: Client,
        search: Search,
        groups: Groups,
        found: &Found,
    ) -> Result<Option<Reply>, Refused> {
        let number = search.collection;
        let planned = Planned::new(self.state.collection(number)?, search, groups, found)?;
        self.make_room(planned.bytes)?;
        let collection = self.state.collection(number)?;
        let number = self.next_search;
        self.next_search += 1;
        self.searches.insert(number, Task::begin(planned, client, collection));
        self.pump(number);
        Ok(None)
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
        table.set(&record(0, 0).stem, 1, 2, true);
        let mut gathered = Gathered::new(0, 0, 600);
        for segment in 0..4 {
            (0..500).for_each(|keyword| gathered.add(&record(segment, keyword), &table));
        }
        assert_eq!((gathered.segments(), gathered.entries, gathered.beyond()), (0..2, 999, None));
        // The first segment has more than a round can hold.
        for keyword in 500..3000 {
            gathered.add(&record(0, keyword), &table);
            let held: usize = gathered.found.values().map(|(.., found)| found.len()).sum();
            assert!(held * FOUND_BYTES <= gathered.bytes(), "{keyword}");
        }
        assert_eq!((gathered.segments(), gathered.beyond()), (0..1, Some(2999 * FOUND_BYTES)));
    }

    #[test]
    fn what_was_spilled_once_is_spilled_again_when_tables_are_full_by_half() {
        let mut fill = Fill::new(usize::MAX, 80, u64::MAX);
        fill.set_known(55, None);
        assert_eq!((fill.stay(false), fill.stay(true)), (None, Some(20)));
        fill.set_known(40, None);
        assert_eq!((fill.stay(false), fill.stay(true)), (None, None));
        fill.set_known(65, None);
        assert_eq!((fill.stay(false), fill.stay(true)), (Some(20), Some(20)));
    }
}
