//! The write-ahead log: durable commits are appended here and synced, while the engine has them in memory until enough
//! came together to write each page once for many of them.
//!
//! A *record* holds what one or more commits changed: a durable commit, and the relaxed ones since the
//! record before. Commits are numbered, and the number of the last one is part of every state of the engine
//! ([`MARK`]); so it is known which records an opened engine lacks. Records are applied again whole, in order: each key
//! ends as the last of them left it.
//!
//! *Torn or damaged.* A record is written after the one before it was synced, and in one go. A power loss can therefore
//! spoil the last record only: one that does not parse while a later one does is damage, and refused. A device is taken to
//! leave alone what is beside the bytes that it writes.
//!
//! *Place.* Once the engine has made the commits up to one durable, in the background, the records of those are not
//! needed any more; its state says where the first of the others is to be. Records go on to the file's end and then
//! from its beginning, as far as it is free; none is split.
//!
//! *Rounds.* The log starts over at its beginning once the engine has made everything durable by itself. Each round has a
//! random name, which is part of the engine's state and of every record: what is left over of other rounds, or looks like a
//! record, is none of this one, and a log that is ahead of the engine's file is refused.

mod records;

use super::Sizes;
use super::checked::Medium;
use super::filters::ABSENT_MIN;
use super::places;
use crate::{Changes, StorageError, Table};
use records::Records;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of the last commit that a state of the engine includes.
pub(super) const MARK: Table = Table("each_write.wal");

/// When the engine makes everything durable by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogLimits {
    /// The log would be longer: the next durable commit is the engine's own, and the log starts over.
    pub(crate) log_bytes: u64,
    /// Relaxed commits changed more: they are not kept for the log.
    pub(crate) pending_bytes: usize,
    /// The memtable takes up more: it is merged. A commit waits while it takes up twice as much.
    pub(crate) memtable_bytes: usize,
    /// Relaxed commits changed more since the engine last wrote its pages to the file: it writes them when it takes the
    /// next ones. Until then they are in its cache, and when that is full, who reads a page that is not there has to
    /// write one first. (Durable commits fill the log, which has pages written sooner.)
    pub(crate) relaxed_bytes: usize,
    /// Of what the engine is given in one transaction, pages and values take up more, about: it takes it in several.
    pub(crate) share_bytes: usize,
    /// Absent keys that are looked for in a table before it is given a filter, at least.
    pub(crate) absent_min: u64,
}

impl LogLimits {
    /// Those of a store with so much memory.
    pub(crate) const fn with(Sizes { cache_bytes, memtable_bytes }: Sizes) -> Self {
        Self {
            log_bytes: cache_bytes as u64 / 8 * 3,
            pending_bytes: 4 << 20,
            memtable_bytes,
            relaxed_bytes: cache_bytes / 8,
            share_bytes: cache_bytes / 4,
            absent_min: ABSENT_MIN,
        }
    }
}

#[cfg(test)]
impl Default for LogLimits {
    fn default() -> Self {
        Self::with(Sizes::default())
    }
}

/// Sizes that is kept for the next record, at most.
const KEPT_BYTES: usize = 256 << 10;

/// The file grows by so much, so that most appends leave its length as it is and wait for their own bytes only.
const GROWTH_BYTES: u64 = 1 << 20;

/// What a record begins with.
const MAGIC: [u8; 8] = *b"ARRASWAL";
/// Magic, round, first and last number, length, sum of the body, sum of all that.
const HEADER_BYTES: usize = 8 + 4 * 8 + 2 * 4;
/// Records begin at multiples of this.
const ALIGNMENT: usize = 8;
/// Stands for a length: the key was removed.
const REMOVED: u32 = u32::MAX;

/// A commit's number.
type Number = u64;

/// What a state of the engine says of its last commit: its number, the round of the log that it is of, and where in
/// the log the records of what follows begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) number: Number,
    pub(super) round: u64,
    pub(super) start: u64,
}

/// Where a record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    at: u64,
    /// How often the log had come to its file's beginning before.
    lap: u64,
}

impl Mark {
    /// Puts it among a commit's changes.
    pub(super) fn mark(self, changes: &mut Changes) {
        let value = [self.number, self.round, self.start].map(u64::to_le_bytes).concat();
        changes.entry(MARK).or_default().insert(Vec::new(), Some(value.into()));
    }

    /// Of the bytes that [`Self::mark`] has put.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let [number, round, start] = [(); 3].map(|()| take(&mut bytes).map(u64::from_le_bytes));
        Some(Self { number: number?, round: round?, start: start? }).filter(|_| bytes.is_empty())
    }
}

/// A change of a record, by the engine's names.
pub(super) struct Logged<'r> {
    /// The engine's table.
    pub(super) table: &'r str,
    /// The engine's key.
    pub(super) key: &'r [u8],
    /// The value without its checksum; none if the key was removed.
    pub(super) value: Option<&'r [u8]>,
}

/// A record's header.
#[derive(Clone, Copy)]
struct Header {
    round: u64,
    first: Number,
    last: Number,
    body_bytes: usize,
    body_sum: u32,
}

impl Header {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let fields = [
            MAGIC.as_slice(),
            &self.round.to_le_bytes(),
            &self.first.to_le_bytes(),
            &self.last.to_le_bytes(),
            &(self.body_bytes as u64).to_le_bytes(),
            &self.body_sum.to_le_bytes(),
        ]
        .concat();
        let (content, sum) = bytes.split_at_mut(HEADER_BYTES - 4);
        content.copy_from_slice(&fields);
        sum.copy_from_slice(&crc32fast::hash(content).to_le_bytes());
        bytes
    }

    /// Where the next record begins if this one begins there.
    fn end(&self, at: u64) -> u64 {
        at.saturating_add((HEADER_BYTES + self.body_bytes) as u64).next_multiple_of(ALIGNMENT as u64)
    }

    /// Of the bytes at the start of `bytes`, if they are a header.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (content, sum) = bytes.get(..HEADER_BYTES)?.split_last_chunk::<4>()?;
        let mut rest = content.strip_prefix(&MAGIC)?;
        if *sum != crc32fast::hash(content).to_le_bytes() {
            return None;
        }
        let [round, first, last, length] = [(); 4].map(|()| take(&mut rest).map(u64::from_le_bytes));
        let body_sum = take(&mut rest).map(u32::from_le_bytes)?;
        Some(Self {
            round: round?,
            first: first?,
            last: last?,
            body_bytes: usize::try_from(length?).ok()?,
            body_sum,
        })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

fn take_sized<'b>(bytes: &mut &'b [u8], length: u32) -> Option<&'b [u8]> {
    let (head, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(head)
}

/// Lays out changes, but those of keys that `over` changes, too.
fn encode(changes: &Changes, over: &Changes, output: &mut Vec<u8>) {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(REMOVED).to_le_bytes();
    for (table, changes) in changes {
        let over = over.get(table);
        let changes: Vec<_> =
            changes.iter().filter(|(key, _)| !over.is_some_and(|over| over.contains_key(*key))).collect();
        if changes.is_empty() {
            continue;
        }
        let (name, prefix) = (places::engine_name(*table).as_bytes(), places::prefix(*table));
        output.extend_from_slice(&length(name));
        output.extend_from_slice(name);
        output.extend_from_slice(&u32::try_from(changes.len()).unwrap_or(REMOVED).to_le_bytes());
        for (key, value) in changes {
            let key = places::key(&prefix, key);
            output.extend_from_slice(&length(&key));
            output.extend_from_slice(&key);
            match value {
                Some(value) => {
                    output.extend_from_slice(&length(value));
                    output.extend_from_slice(value);
                }
                None => output.extend_from_slice(&REMOVED.to_le_bytes()),
            }
        }
    }
}

/// Bytes that [`encode`] makes of `changes`, and none if one of them is too long for it.
fn encoded_bytes(changes: &Changes) -> Option<usize> {
    let mut bytes = 0_usize;
    for (table, changes) in changes {
        bytes += 8 + table.0.len();
        for (key, value) in changes {
            let value = value.as_ref().map_or(0, bytes::Bytes::len);
            let longest = key.len().max(value);
            u32::try_from(longest).ok().filter(|length| *length < REMOVED / 2)?;
            bytes = bytes.checked_add(8 + table.0.len() + key.len() + value)?;
        }
    }
    Some(bytes)
}

/// The changes of a record's body, in order.
fn decode<'b>(mut body: &'b [u8], change: &mut impl FnMut(Logged<'b>)) -> Option<()> {
    while !body.is_empty() {
        let length = u32::from_le_bytes(take(&mut body)?);
        let table = std::str::from_utf8(take_sized(&mut body, length)?).ok()?;
        for _ in 0..u32::from_le_bytes(take(&mut body)?) {
            let length = u32::from_le_bytes(take(&mut body)?);
            let key = take_sized(&mut body, length)?;
            let value = match u32::from_le_bytes(take(&mut body)?) {
                REMOVED => None,
                length => Some(take_sized(&mut body, length)?),
            };
            change(Logged { table, key, value });
        }
    }
    Some(())
}

/// The log of an open engine.
#[derive(Debug)]
pub(super) struct WriteAheadLog {
    file: Arc<dyn Medium>,
    /// Where the next record goes, unless the file ends there.
    end: u64,
    /// How often that came to the file's beginning.
    lap: u64,
    /// Where the first record is that is needed, if one is.
    tail: Place,
    /// As far as records went since the file was last cleared.
    reached: u64,
    /// Bytes of the file.
    length: u64,
    /// The last commit.
    committed: Mark,
    /// The last commit that this log or the engine has made durable.
    durable: Number,
    /// What the commits since then changed, and how many bytes that is, about; none if it was too much to keep.
    pending: Option<(Changes, usize)>,
    /// Room for a record.
    record: Vec<u8>,
    /// When a record was last written.
    used: Option<Instant>,
    limits: LogLimits,
}

impl WriteAheadLog {
    /// Opens the log of an engine whose last commit is `marked`, handing what the engine lacks to `replay`, a record at
    /// a time.
    pub(super) fn open(
        file: Arc<dyn Medium>,
        marked: Mark,
        limits: LogLimits,
        mut replay: impl FnMut(&[Logged<'_>], Mark) -> Result<(), StorageError>,
    ) -> Result<Self, StorageError> {
        let failed = |error| super::environment(&error);
        let mut records = Records::of(&*file).map_err(failed)?;
        records.refuse_ahead(marked)?;
        let (mut last, mut end) = (None, marked.start);
        while let Some((at, header)) = records.next(end, marked, last)? {
            let mut changes = Vec::new();
            decode(records.body(at, &header)?, &mut |change| changes.push(change))
                .ok_or_else(|| damaged("a record does not parse"))?;
            let next = header.end(at);
            replay(&changes, Mark { number: header.last, start: next, ..marked })?;
            (last, end) = (Some((at, next, header.last)), next);
        }
        let number = last.map_or(marked.number, |(_, _, last)| last.max(marked.number));
        records.refuse_later(Mark { number, ..marked })?;
        if let Some((from, to, _)) = last
            && let Some(record) = records.bytes(from, to - from).map_err(failed)?
        {
            // A sync of it may have failed, and what was read be in memory alone.
            file.write(from, record).map_err(failed)?;
            file.sync_data().map_err(failed)?;
        }
        // Its round goes on until the engine has named another.
        let lap = u64::from(end < marked.start);
        let (reached, length) = (records.reached().map_err(failed)?, records.length());
        Ok(Self {
            file,
            end,
            lap,
            tail: Place { at: marked.start, lap: 0 },
            reached,
            length,
            committed: Mark { number, ..marked },
            durable: number,
            pending: Some(Default::default()),
            record: Vec::new(),
            used: None,
            limits,
        })
    }

    /// The next commit, of this round.
    pub(super) fn next(&self) -> Mark {
        Mark { number: self.committed.number + 1, ..self.committed }
    }

    /// The next commit, which the engine makes durable by itself: after it a new round begins.
    pub(super) fn start_anew(&self) -> Mark {
        Mark { number: self.committed.number + 1, round: random(), start: 0 }
    }

    /// True if there are commits that are not durable yet.
    pub(super) fn lacks(&self) -> bool {
        self.durable < self.committed.number
    }

    /// The last commit, for a state of the engine with it: what follows is behind the records so far.
    pub(super) fn reached(&self) -> (Mark, Place) {
        let place = Place { at: self.end, lap: self.lap };
        (Mark { start: place.at, ..self.committed }, place)
    }

    /// The engine has made durable what [`Self::reached`] this place.
    pub(super) fn release(&mut self, place: Place) {
        self.tail = place;
    }

    /// Bytes of the file that are not free.
    pub(super) fn held(&self) -> u64 {
        let Self { end, lap, tail, limits, .. } = self;
        let to_the_end = if *lap == tail.lap { 0 } else { limits.log_bytes };
        (to_the_end + end).saturating_sub(tail.at)
    }

    /// Where a record of so many bytes goes, if there is room.
    fn place(&self, bytes: u64) -> Option<Place> {
        let Self { end, lap, tail, .. } = *self;
        let limit = if lap == tail.lap { self.limits.log_bytes } else { tail.at };
        if end + bytes <= limit {
            return Some(Place { at: end, lap });
        }
        (lap == tail.lap && bytes <= tail.at).then_some(Place { at: 0, lap: lap + 1 })
    }

    /// True if a durable commit of `changes` is for the log, not for the engine alone.
    pub(super) fn takes(&self, changes: &Changes) -> bool {
        let (Some((_, pending)), Some(bytes)) = (&self.pending, encoded_bytes(changes)) else { return false };
        let record = (pending + bytes + 3 * HEADER_BYTES) as u64;
        self.is_for_a_log(record) && self.place(record).is_some()
    }

    /// True if a durable commit of `changes` is for a log that starts over.
    pub(super) fn takes_anew(&self, changes: &Changes) -> bool {
        encoded_bytes(changes).is_some_and(|bytes| self.is_for_a_log((bytes + 3 * HEADER_BYTES) as u64))
    }

    /// True if a record of so many bytes is not better written by the engine at once.
    fn is_for_a_log(&self, record: u64) -> bool {
        record <= self.limits.log_bytes / 4
    }

    /// A relaxed commit is made. What they changed is given up if it is too much: the next durable commit is then the
    /// engine's own.
    pub(super) fn note(&mut self, commit: Mark, changes: &Changes) {
        self.committed = commit;
        let Some((pending, pending_bytes)) = &mut self.pending else { return };
        let bytes = encoded_bytes(changes).map(|bytes| *pending_bytes + bytes);
        let Some(bytes) = bytes.filter(|bytes| *bytes <= self.limits.pending_bytes) else {
            self.pending = None;
            return;
        };
        *pending_bytes = bytes;
        for (table, changes) in changes {
            let entry = pending.entry(*table).or_default();
            entry.extend(changes.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
    }

    /// A durable commit is made, and with it what was noted.
    ///
    /// # Errors
    /// The device failed, and what it has of the record is not known; or there is no room.
    pub(super) fn append(&mut self, commit: Mark, changes: &Changes) -> io::Result<()> {
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        record.resize(HEADER_BYTES, 0);
        let (pending, _) = self.pending.as_ref().ok_or_else(|| io::Error::other("the log lacks commits"))?;
        encode(pending, changes, &mut record);
        encode(changes, &Changes::new(), &mut record);
        let body = record.get(HEADER_BYTES..).unwrap_or_default();
        let (body_bytes, body_sum) = (body.len(), crc32fast::hash(body));
        let Mark { number: last, round, .. } = commit;
        let header = Header { round, first: self.durable + 1, last, body_bytes, body_sum };
        if let Some(start) = record.first_chunk_mut() {
            *start = header.encode();
        }
        record.resize(record.len().next_multiple_of(ALIGNMENT), 0);
        let place = self.place(record.len() as u64).ok_or_else(|| io::Error::other("the log is full"))?;
        let end = place.at + record.len() as u64;
        self.file.write(place.at, &record)?;
        if end > self.length {
            let length = end.next_multiple_of(GROWTH_BYTES);
            self.file.write(end, &vec![0; usize::try_from(length - end).unwrap_or(0)])?;
            self.length = length;
        }
        self.file.sync_data()?;
        record.truncate(HEADER_BYTES);
        record.shrink_to(KEPT_BYTES);
        self.record = record;
        self.pending = Some(Default::default());
        (self.end, self.lap, self.reached) = (end, place.lap, self.reached.max(end));
        (self.committed, self.durable) = (commit, last);
        self.used = Some(Instant::now());
        Ok(())
    }

    /// The engine has made everything durable by itself, up to this commit: the log starts over.
    pub(super) fn started(&mut self, commit: Mark) {
        (self.committed, self.durable) = (commit, commit.number);
        (self.end, self.pending) = (0, Some(Default::default()));
        self.tail = Place { at: 0, lap: self.lap };
    }

    /// True if no record is needed, and none is about to be.
    pub(super) fn is_idle(&self) -> bool {
        self.end == 0 && self.held() == 0 && !self.lacks()
    }

    /// True if the file holds nothing of what was written.
    pub(super) fn is_clear(&self) -> bool {
        self.reached == 0
    }

    /// True if nothing was written for so long.
    pub(super) fn rests_since(&self, time: Duration) -> bool {
        self.used.is_none_or(|used| used.elapsed() >= time)
    }

    /// Overwrites some of what was in the log, which nothing needs any more: it shows in which order things were written.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn clear_some(&mut self) -> io::Result<()> {
        let from = self.reached.saturating_sub(GROWTH_BYTES);
        let zeros = vec![0; usize::try_from(self.reached - from).unwrap_or(0)];
        self.file.write(from, &zeros)?;
        self.file.sync_data()?;
        self.reached = from;
        Ok(())
    }

    /// Cuts the file of a log that nothing needs any more.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        (self.length, self.reached) = (0, 0);
        self.file.sync_data()
    }
}

/// A name that no other round has.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::SystemTime::now())
}

fn damaged(what: &str) -> StorageError {
    StorageError::Damaged(format!("the write-ahead log: {what}"))
}
