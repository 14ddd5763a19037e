//! The log's file as an opening reads it: a piece at a time, since it may be as long as the process has memory.

use super::{ALIGNMENT, HEADER_BYTES, Header, Mark, Number, damaged};
use crate::StorageError;
use crate::embedded::checked::Medium;
use crate::embedded::environment;
use std::io;

/// Bytes that are read at a time, if a record does not have more.
const PIECE_BYTES: u64 = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// What is in the file, as the device has it.
pub(super) struct Records<'f> {
    file: &'f dyn Medium,
    length: u64,
    /// The piece that was read last, and where it begins. Its room stays: giving it back and taking it again for each record leaves
    /// the allocator with much that is free.
    piece: Vec<u8>,
    from: u64,
}

impl<'f> Records<'f> {
    pub(super) fn of(file: &'f dyn Medium) -> io::Result<Self> {
        file.forget_cached()?;
        Ok(Self { file, length: file.len()?, piece: Vec::new(), from: 0 })
    }

    /// Bytes of the file.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// So many bytes, if the file has them.
    pub(super) fn bytes(&mut self, at: u64, bytes: u64) -> io::Result<Option<&[u8]>> {
        let is_there = at.checked_add(bytes).is_some_and(|end| end <= self.length);
        if !is_there {
            return Ok(None);
        }
        if at < self.from || at + bytes > self.from + self.piece.len() as u64 {
            let piece_bytes = bytes.max(PIECE_BYTES).min(self.length - at);
            self.piece.clear();
            self.piece.resize(usize::try_from(piece_bytes).map_err(io::Error::other)?, 0);
            self.from = at;
            if let Err(failure) = self.file.read(at, &mut self.piece) {
                self.piece.clear();
                return Err(failure);
            }
        }
        // Within the piece, which is in memory.
        let (start, bytes) = ((at - self.from) as usize, bytes as usize);
        Ok(self.piece.get(start..).and_then(|rest| rest.get(..bytes)))
    }

    fn header(&mut self, at: u64) -> Result<Option<Header>, StorageError> {
        let bytes = self.bytes(at, HEADER_BYTES as u64).map_err(|error| environment(&error))?;
        Ok(bytes.and_then(Header::decode))
    }

    /// The body of the record with this header; nothing if the file ends before.
    pub(super) fn body(&mut self, at: u64, header: &Header) -> Result<&[u8], StorageError> {
        let bytes = (HEADER_BYTES as u64).saturating_add(header.body_bytes as u64);
        let record = self.bytes(at, bytes).map_err(|error| environment(&error))?;
        Ok(record.and_then(|record| record.get(HEADER_BYTES..)).unwrap_or_default())
    }

    /// The header of the record at `at`, if there is a whole one.
    fn record(&mut self, at: u64) -> Result<Option<Header>, StorageError> {
        let Some(header) = self.header(at)? else { return Ok(None) };
        let body = self.body(at, &header)?;
        let is_whole = header.first <= header.last
            && body.len() == header.body_bytes
            && crc32fast::hash(body) == header.body_sum;
        Ok(is_whole.then_some(header))
    }

    /// Where the next record begins that a state of the engine lacks, and its header: behind `last`, which begins and
    /// ends there and has this number, at `at` or, where the log came to its file's end, at the beginning.
    pub(super) fn next(
        &mut self,
        at: u64,
        marked: Mark,
        last: Option<(u64, u64, Number)>,
    ) -> Result<Option<(u64, Header)>, StorageError> {
        let number = last.map_or(marked.number, |(_, _, number)| number);
        for at in [at, 0] {
            let Some(header) = self.record(at)? else { continue };
            // What is left of before has a lower number.
            if header.round != marked.round || header.last <= number {
                continue;
            }
            let follows = match last {
                Some(_) => header.first == number.saturating_add(1),
                // The engine may have relaxed commits that the log has only behind its mark.
                None => header.first <= number.saturating_add(1),
            };
            if follows {
                return Ok(Some((at, header)));
            }
            if last.is_none() {
                return Err(damaged("it begins after what the file holds"));
            }
        }
        Ok(None)
    }

    /// Refuses a log that begins with records of another round, of which one holds what the file does not: the file is
    /// older.
    pub(super) fn refuse_ahead(&mut self, marked: Mark) -> Result<(), StorageError> {
        let (mut at, mut before) = (0, None::<Header>);
        while let Some(header) = self.record(at)?
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
            (at, before) = (header.end(at), Some(header));
        }
        Ok(())
    }

    /// Refuses a log with a record of after the commit that follows `last`: that one was synced before it, and is not
    /// there.
    pub(super) fn refuse_later(&mut self, last: Mark) -> Result<(), StorageError> {
        let is_later =
            |header: Header| header.round == last.round && header.first > last.number.saturating_add(1);
        let mut at = 0;
        while at < self.length {
            if self.header(at)?.is_some_and(is_later) {
                return Err(damaged("a record is missing before one that is there"));
            }
            at += ALIGNMENT as u64;
        }
        Ok(())
    }

    /// Where what was written and not cleared ends.
    pub(super) fn reached(&mut self) -> io::Result<u64> {
        let mut end = self.length;
        while end > 0 {
            let from = (end - 1) / PIECE_BYTES * PIECE_BYTES;
            let piece = self.bytes(from, end - from)?.unwrap_or_default();
            if let Some(last) = piece.iter().rposition(|byte| *byte != 0) {
                return Ok(from + last as u64 + 1);
            }
            end = from;
        }
        Ok(0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use redb::StorageBackend;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A file, and the most that was read of it at once.
    #[derive(Debug, Default)]
    struct Watched(Vec<u8>, AtomicUsize);

    impl StorageBackend for Watched {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.1.fetch_max(out.len(), Ordering::Relaxed);
            out.copy_from_slice(&self.0[offset as usize..][..out.len()]);
            Ok(())
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    impl Medium for Watched {
        fn forget_cached(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A file of records of so many bytes each, of commits from 1 on.
    fn file(bodies: impl Iterator<Item = usize>) -> Vec<u8> {
        let mut file = Vec::new();
        for (number, body_bytes) in (1..).zip(bodies) {
            let body = vec![number as u8; body_bytes];
            let body_sum = crc32fast::hash(&body);
            let header = Header { round: 7, first: number, last: number, body_bytes, body_sum };
            file.extend_from_slice(&header.encode());
            file.extend_from_slice(&body);
            file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        }
        file
    }

    #[test]
    fn a_long_log_is_read_a_piece_or_a_record_at_a_time() {
        let bodies = || (0..200).map(|number| number * 7919 % 1500);
        let mut bytes = file(bodies());
        let written = bytes.len() as u64;
        // As it is where the file has grown, and nothing was written since.
        bytes.resize(bytes.len() + 5000, 0);
        let watched = Watched(bytes, AtomicUsize::default());
        let mut records = Records::of(&watched).unwrap();
        let marked = Mark { number: 0, round: 7, start: 0 };
        records.refuse_ahead(marked).unwrap();
        let (mut found, mut last, mut at) = (Vec::new(), None, 0);
        while let Some((begins, header)) = records.next(at, marked, last).unwrap() {
            let body = records.body(begins, &header).unwrap();
            assert!(body.iter().all(|byte| *byte == header.last as u8));
            found.push(body.len());
            at = header.end(begins);
            last = Some((begins, at, header.last));
        }
        assert_eq!(found, bodies().collect::<Vec<_>>());
        assert_eq!(at, written);
        records.refuse_later(Mark { number: 200, ..marked }).unwrap();
        records.refuse_later(Mark { number: 150, ..marked }).unwrap_err();
        let last_byte = watched.0.iter().rposition(|byte| *byte != 0).unwrap() as u64;
        assert_eq!(records.reached().unwrap(), last_byte + 1);
        let longest = HEADER_BYTES + bodies().max().unwrap();
        assert!(watched.1.load(Ordering::Relaxed) <= longest.max(PIECE_BYTES as usize));
    }
}
