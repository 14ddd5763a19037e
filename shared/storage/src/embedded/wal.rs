//! The write-ahead log: durable commits are appended here and synced, while the engine has them in memory until enough
//! came together to write each page once for many of them.
//!
//! A *record* holds what one or more commits changed, in their order: a durable commit, and the relaxed ones since the
//! record before. Commits are numbered, and the number of the last one is part of every state of the engine
//! ([`MARK`]); so it is known which records an opened engine lacks. Records are applied again whole, in order: each key
//! ends as the last of them left it.
//!
//! *Torn or damaged.* A record is written after the one before it was synced, and in one go. A power loss can therefore
//! spoil the last record only: one that does not parse while a later one does is damage, and refused. A device is taken to
//! leave alone what is beside the bytes that it writes.
//!
//! *Rounds.* The log starts over at its beginning once the engine has made everything durable by itself. Each round has a
//! random name, which is part of the engine's state and of every record: what is left over of other rounds, or looks like a
//! record, is none of this one, and a log that is ahead of the engine's file is refused.

use super::checked::Medium;
use super::places;
use crate::{Changes, StorageError, Table};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of the last commit that a state of the engine includes.
pub(super) const MARK: Table = Table("each_write.wal");

/// Above this the next durable commit is the engine's own, and the log starts over.
pub(super) const LOG_BYTES: u64 = 96 << 20;

/// When the engine makes everything durable by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogLimits {
    /// The log would be longer.
    pub(crate) log_bytes: u64,
    /// Relaxed commits changed more: they are not kept for the log.
    pub(crate) pending_bytes: usize,
    /// There were so many commits: the engine keeps an account of each, of a page in the end.
    pub(crate) commits: u64,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { log_bytes: LOG_BYTES, pending_bytes: 4 << 20, commits: 8192 }
    }
}

/// Memory that is kept for the next record, at most.
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

/// What a state of the engine says of its last commit: its number, and the round of the log that it is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) number: Number,
    pub(super) round: u64,
}

impl Mark {
    /// Puts it among a commit's changes.
    pub(super) fn mark(self, changes: &mut Changes) {
        let value = [self.number.to_le_bytes(), self.round.to_le_bytes()].concat();
        changes.entry(MARK).or_default().insert(Vec::new(), Some(value.into()));
    }

    /// Of the bytes that [`Self::mark`] has put.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let [number, round] = [(); 2].map(|()| take(&mut bytes).map(u64::from_le_bytes));
        Some(Self { number: number?, round: round? }).filter(|_| bytes.is_empty())
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

/// Lays out a commit's changes.
fn encode(changes: &Changes, output: &mut Vec<u8>) {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(REMOVED).to_le_bytes();
    for (table, changes) in changes {
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
    /// Where the next record goes.
    end: u64,
    /// As far as records went since the file was last cleared.
    reached: u64,
    /// Bytes of the file.
    length: u64,
    /// The last commit.
    committed: Mark,
    /// The last commit that this log or the engine has made durable.
    durable: Number,
    /// The last commit before this round.
    began: Number,
    /// What the commits since then changed, behind room for a record's header; none if that was too much to keep.
    pending: Option<Vec<u8>>,
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
        mut replay: impl FnMut(&[Logged<'_>]) -> Result<(), StorageError>,
    ) -> Result<Self, StorageError> {
        let failed = |error| super::environment(&error);
        let bytes = read_whole(&*file).map_err(failed)?;
        refuse_ahead(&bytes, marked)?;
        let (mut end, mut last) = (0, None);
        while let Some((header, body)) = record_at(&bytes, end)
            && header.round == marked.round
        {
            if last.is_none() && header.first > marked.number.saturating_add(1) {
                return Err(damaged("it begins after what the file holds"));
            }
            if last.is_some_and(|(_, _, last): (usize, usize, Number)| header.first != last.saturating_add(1))
            {
                break;
            }
            if header.last > marked.number {
                let mut changes = Vec::new();
                decode(body, &mut |change| changes.push(change))
                    .ok_or_else(|| damaged("a record does not parse"))?;
                replay(&changes)?;
            }
            let next = (end + HEADER_BYTES + body.len()).next_multiple_of(ALIGNMENT);
            (last, end) = (Some((end, next, header.last)), next);
        }
        let number = last.map_or(marked.number, |(_, _, last)| last.max(marked.number));
        refuse_later(&bytes, end, Mark { number, ..marked })?;
        if let Some((from, to, last)) = last
            && last > marked.number
            && let Some(record) = bytes.get(from..to)
        {
            // A sync of it may have failed, and what was read be in memory alone.
            file.write(from as u64, record).map_err(failed)?;
            file.sync_data().map_err(failed)?;
        }
        // If nothing in it is needed it starts over; its round goes on until the engine has named another.
        let end = if number == marked.number { 0 } else { end as u64 };
        let reached = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
        Ok(Self {
            file,
            end,
            reached,
            length: bytes.len() as u64,
            committed: Mark { number, ..marked },
            durable: number,
            began: marked.number,
            pending: Some(empty_record()),
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
        Mark { number: self.committed.number + 1, round: random() }
    }

    /// True if there are commits that are not durable yet.
    pub(super) fn lacks(&self) -> bool {
        self.durable < self.committed.number
    }

    /// True if a durable commit of `changes` is for the log, not for the engine alone.
    pub(super) fn takes(&self, changes: &Changes) -> bool {
        let (Some(pending), Some(bytes)) = (&self.pending, encoded_bytes(changes)) else { return false };
        let record = (pending.len() + bytes + 2 * HEADER_BYTES) as u64;
        record <= self.limits.log_bytes / 4
            && self.end + record <= self.limits.log_bytes
            && self.committed.number - self.began < self.limits.commits
    }

    /// The engine makes a commit, in memory. What relaxed ones changed is given up if it is too much: the next durable
    /// commit is then the engine's own.
    pub(super) fn note(&mut self, commit: Mark, changes: &Changes, is_durable: bool) {
        self.committed = commit;
        let Some(pending) = &mut self.pending else { return };
        let length = encoded_bytes(changes).map(|bytes| pending.len() + bytes);
        match length {
            Some(length) if is_durable || length <= self.limits.pending_bytes => encode(changes, pending),
            _ => self.pending = None,
        }
    }

    /// Makes what was noted durable.
    ///
    /// # Errors
    /// The device failed: what it has of the record is not known.
    pub(super) fn append(&mut self) -> io::Result<()> {
        let Some(record) = self.pending.as_mut() else {
            return Ok(());
        };
        let body = record.get(HEADER_BYTES..).unwrap_or_default();
        let (body_bytes, body_sum) = (body.len(), crc32fast::hash(body));
        let Mark { number: last, round } = self.committed;
        let header = Header { round, first: self.durable + 1, last, body_bytes, body_sum };
        if let Some(start) = record.first_chunk_mut() {
            *start = header.encode();
        }
        record.resize(record.len().next_multiple_of(ALIGNMENT), 0);
        let end = self.end + record.len() as u64;
        self.file.write(self.end, record)?;
        if end > self.length {
            let length = end.next_multiple_of(GROWTH_BYTES);
            self.file.write(end, &vec![0; usize::try_from(length - end).unwrap_or(0)])?;
            self.length = length;
        }
        self.file.sync_data()?;
        record.truncate(HEADER_BYTES);
        record.shrink_to(KEPT_BYTES);
        (self.end, self.reached, self.durable) = (end, self.reached.max(end), last);
        self.used = Some(Instant::now());
        Ok(())
    }

    /// The engine has made everything durable by itself, up to this commit: the log starts over.
    pub(super) fn started(&mut self, commit: Mark) {
        (self.committed, self.durable, self.began) = (commit, commit.number, commit.number);
        (self.end, self.pending) = (0, Some(empty_record()));
    }

    /// True if no record is needed, and none is about to be.
    pub(super) fn is_idle(&self) -> bool {
        self.end == 0 && !self.lacks()
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

/// Room for a header.
fn empty_record() -> Vec<u8> {
    vec![0; HEADER_BYTES]
}

/// All of it, as the device has it.
fn read_whole(file: &dyn Medium) -> io::Result<Vec<u8>> {
    file.forget_cached()?;
    let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
    file.read(0, &mut bytes)?;
    Ok(bytes)
}

/// The record at `at`, if there is a whole one.
fn record_at(bytes: &[u8], at: usize) -> Option<(Header, &[u8])> {
    let bytes = bytes.get(at..)?;
    let header = Header::decode(bytes)?;
    let body = bytes.get(HEADER_BYTES..)?.get(..header.body_bytes)?;
    (header.first <= header.last && crc32fast::hash(body) == header.body_sum).then_some((header, body))
}

/// Refuses a log that begins with records of another round, of which one holds what the file does not: the file is older.
fn refuse_ahead(bytes: &[u8], marked: Mark) -> Result<(), StorageError> {
    let (mut at, mut before) = (0, None::<Header>);
    while let Some((header, body)) = record_at(bytes, at)
        && header.round != marked.round
        && before.is_none_or(|before| {
            header.round == before.round && Some(header.first) == before.last.checked_add(1)
        })
    {
        if header.last > marked.number {
            return Err(damaged(
                "it goes on from a later state of the file; if that was restored alone, remove the log beside it",
            ));
        }
        at = (at + HEADER_BYTES + body.len()).next_multiple_of(ALIGNMENT);
        before = Some(header);
    }
    Ok(())
}

/// Refuses a log with a record of after the commit that follows `last`: that one was synced before it, and is not there.
fn refuse_later(bytes: &[u8], end: usize, last: Mark) -> Result<(), StorageError> {
    let is_later =
        |header: Header| header.round == last.round && header.first > last.number.saturating_add(1);
    let mut at = end;
    while at < bytes.len() {
        if bytes.get(at..).and_then(Header::decode).is_some_and(is_later) {
            return Err(damaged("a record is missing before one that is there"));
        }
        at += ALIGNMENT;
    }
    Ok(())
}

/// A name that no other round has.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::SystemTime::now())
}

fn damaged(what: &str) -> StorageError {
    StorageError::Damaged(format!("the write-ahead log: {what}"))
}
