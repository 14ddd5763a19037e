//! The write-ahead log: durable commits are appended here and synced, while the engine has them in memory until enough
//! came together to write each page once for many of them.
//!
//! A *record* holds what one or more commits changed, in their order: a durable commit, and the relaxed ones since the
//! record before. Commits are numbered, and the number of the last one is part of every state of the engine
//! ([`MARK`]); so it is known which records an opened engine lacks. Records are applied again whole, in order: each key
//! ends as the last of them left it.
//!
//! *Torn or damaged.* A record is written after the one before it was synced, and in one go. A power loss can therefore
//! spoil the last record only: one that does not parse while a later one does is damage, and refused. The log starts
//! over at its beginning once the engine has made everything durable by itself; the numbers of what is left over from
//! before are too low to be taken for a part of it.

use super::checked::Medium;
use super::places;
use crate::{Changes, StorageError, Table};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of the last commit that a state of the engine includes.
pub(super) const MARK: Table = Table("each_write.wal");

/// Above this the next durable commit is the engine's own, and the log starts over.
pub(crate) const LOG_BYTES: u64 = 96 << 20;

/// Relaxed commits above this are not kept for the log: the next durable commit is the engine's own.
const PENDING_BYTES_MAX: usize = 4 << 20;

/// The file grows by so much, so that most appends leave its length as it is and wait for their own bytes only.
const GROWTH_BYTES: u64 = 1 << 20;

/// What a record begins with.
const MAGIC: [u8; 8] = *b"ARRASWAL";
/// Magic, first and last number, length, sum of the body, sum of all that.
const HEADER_BYTES: usize = 8 + 3 * 8 + 2 * 4;
/// Records begin at multiples of this.
const ALIGNMENT: usize = 8;
/// Stands for a length: the key was removed.
const REMOVED: u32 = u32::MAX;

/// A commit's number.
type Number = u64;

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
        if *sum != crc32fast::hash(content).to_le_bytes() {
            return None;
        }
        let mut rest = content.strip_prefix(&MAGIC)?;
        let [first, last, length] = [(); 3].map(|()| take(&mut rest).map(u64::from_le_bytes));
        let body_sum = take(&mut rest).map(u32::from_le_bytes)?;
        Some(Self { first: first?, last: last?, body_bytes: usize::try_from(length?).ok()?, body_sum })
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
    committed: Number,
    /// The last commit that this log or the engine has made durable.
    durable: Number,
    /// What the relaxed commits since then changed; none if that was too much to keep.
    pending: Option<Vec<u8>>,
    /// When a record was last written.
    used: Option<Instant>,
}

impl WriteAheadLog {
    /// Opens the log of an engine whose last commit is `marked`, handing what the engine lacks to `replay`, a record at
    /// a time with the number of its last commit.
    pub(super) fn open(
        file: Arc<dyn Medium>,
        marked: Number,
        mut replay: impl FnMut(&[Logged<'_>]) -> Result<(), StorageError>,
    ) -> Result<Self, StorageError> {
        let bytes = read_whole(&*file).map_err(|error| super::environment(&error))?;
        let (mut end, mut last) = (0, None);
        while let Some((header, body)) = record_at(&bytes, end) {
            if last.is_none() && header.first > marked + 1 {
                return Err(damaged("it begins after what the file holds"));
            }
            // Left over from before the log started over.
            if last.is_some_and(|last| header.first != last + 1) {
                break;
            }
            if header.last > marked {
                let mut changes = Vec::new();
                decode(body, &mut |change| changes.push(change))
                    .ok_or_else(|| damaged("a record does not parse"))?;
                replay(&changes)?;
            }
            last = Some(header.last);
            end = (end + HEADER_BYTES + header.body_bytes).next_multiple_of(ALIGNMENT);
        }
        let committed = last.unwrap_or(marked).max(marked);
        refuse_later(&bytes, end, committed)?;
        // Nothing in it is needed: it starts over.
        let end = if committed == marked { 0 } else { end as u64 };
        let length = bytes.len() as u64;
        let pending = Some(Vec::new());
        Ok(Self { file, end, reached: length, length, committed, durable: committed, pending, used: None })
    }

    /// The number of the commit that the engine is about to make, which is among its changes from here on.
    pub(super) fn mark(&self, changes: &mut Changes) -> Number {
        let number = self.committed + 1;
        let mark = bytes::Bytes::copy_from_slice(&number.to_le_bytes());
        changes.entry(MARK).or_default().insert(Vec::new(), Some(mark));
        number
    }

    /// True if a durable commit of `changes` is for the log, not for the engine alone.
    pub(super) fn takes(&self, changes: &Changes) -> bool {
        let (Some(pending), Some(bytes)) = (&self.pending, encoded_bytes(changes)) else { return false };
        let record = (HEADER_BYTES + pending.len() + bytes) as u64;
        record <= LOG_BYTES / 4 && self.end + record <= LOG_BYTES
    }

    /// The engine has made a commit, in memory.
    pub(super) fn note(&mut self, number: Number, changes: &Changes) {
        self.committed = number;
        if let Some(pending) = &mut self.pending {
            match encoded_bytes(changes) {
                Some(_) => encode(changes, pending),
                None => self.pending = None,
            }
        }
    }

    /// Gives up what was noted if it is too much: the next durable commit is then the engine's own.
    pub(super) fn bound(&mut self) {
        if self.pending.as_ref().is_some_and(|pending| pending.len() > PENDING_BYTES_MAX) {
            self.pending = None;
        }
    }

    /// Makes what was noted durable.
    ///
    /// # Errors
    /// The device failed: what it has of the record is not known.
    pub(super) fn append(&mut self) -> io::Result<()> {
        let Some(body) = self.pending.as_mut().filter(|_| self.durable < self.committed) else {
            return Ok(());
        };
        let header = Header {
            first: self.durable + 1,
            last: self.committed,
            body_bytes: body.len(),
            body_sum: crc32fast::hash(body),
        };
        let mut record = header.encode().to_vec();
        record.append(body);
        record.resize(record.len().next_multiple_of(ALIGNMENT), 0);
        let end = self.end + record.len() as u64;
        self.file.write(self.end, &record)?;
        if end > self.length {
            let length = end.next_multiple_of(GROWTH_BYTES);
            self.file.write(end, &vec![0; usize::try_from(length - end).unwrap_or(0)])?;
            self.length = length;
        }
        self.file.sync_data()?;
        (self.end, self.reached, self.durable) = (end, self.reached.max(end), self.committed);
        self.used = Some(Instant::now());
        Ok(())
    }

    /// The engine has made everything durable by itself, up to this commit: the log starts over.
    pub(super) fn start_over(&mut self, committed: Number) {
        (self.committed, self.durable) = (committed, committed);
        (self.end, self.pending) = (0, Some(Vec::new()));
    }

    /// The number of the last commit.
    pub(super) fn last(&self) -> Number {
        self.committed
    }

    /// True if no record is needed, and none is about to be.
    pub(super) fn is_idle(&self) -> bool {
        self.end == 0 && self.durable == self.committed
    }

    /// True if the file holds nothing of what was written.
    pub(super) fn is_clear(&self) -> bool {
        self.reached == 0
    }

    /// True if nothing was written for so long.
    pub(super) fn rests_since(&self, time: Duration) -> bool {
        self.used.is_none_or(|used| used.elapsed() >= time)
    }

    /// Overwrites what was in the log, which nothing needs any more: it shows in which order things were written.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let zeros = vec![0; usize::try_from(GROWTH_BYTES).unwrap_or(0)];
        let mut cleared = 0;
        while cleared < self.reached {
            let left = usize::try_from(self.reached - cleared).unwrap_or(usize::MAX).min(zeros.len());
            self.file.write(cleared, zeros.get(..left).unwrap_or(&zeros))?;
            cleared += left as u64;
        }
        self.file.sync_data()?;
        self.reached = 0;
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

/// Refuses a log with a record of after the commit that follows `last`: that one was synced before it, and is not there.
fn refuse_later(bytes: &[u8], end: usize, last: Number) -> Result<(), StorageError> {
    let mut at = end;
    while at < bytes.len() {
        let is_later = |header: Header| header.first > last + 1;
        if bytes.get(at..).and_then(Header::decode).is_some_and(is_later) {
            return Err(damaged("a record is missing before one that is there"));
        }
        at += ALIGNMENT;
    }
    Ok(())
}

fn damaged(what: &str) -> StorageError {
    StorageError::Damaged(format!("the write-ahead log: {what}"))
}
