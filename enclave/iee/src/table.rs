//! W: of each keyword how many entries it has, and in which epoch.
//!
//! In 1,024 segments that grow by themselves, so that growing takes a thousandth of the memory beside. Keywords are in it by their
//! stems, which look random to those who choose keywords.
//!
//! [`Records`] of it are as they are sealed: one behind the other, of one length each, whatever they say. They are walked and not decoded, as
//! a search goes over all that are spilled.

use arras_primitives::Block;
use arras_protocol::Blob;
use serde::{Deserialize, Serialize};
use std::array::from_fn;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Segments; a power of two.
pub(crate) const SEGMENTS: usize = 1024;

/// What is known of a keyword.
#[derive(Clone, Copy, Default)]
pub(crate) struct Slot {
    /// Entries that searches see.
    pub(crate) count: u32,
    /// Under which number its entries were last written anew, or it came into the table.
    pub(crate) epoch: u32,
    /// Entries that are being stored behind them: no more than a message of a client has pairs.
    pending: u16,
    /// Whether what was spilled of it is void, as all its entries were written anew since.
    is_whole: bool,
}

/// Entries of a keyword, oldest first: epochs, and how many each has.
pub(crate) type Runs = Vec<(u32, u32)>;

/// What was found of keywords among what is spilled; in no order.
pub(crate) type Found = ByStem<Runs>;

/// A keyword with all entries that it has.
pub(crate) struct Counted {
    pub(crate) stem: Block,
    pub(crate) runs: Runs,
}

impl Counted {
    pub(crate) fn entries(&self) -> u64 {
        self.runs.iter().map(|(_, count)| u64::from(*count)).sum()
    }
}

/// A stem is its own hash: an image of AES, of which the first bytes say the segment.
#[derive(Default)]
pub(crate) struct LastBytes(u64);

impl Hasher for LastBytes {
    fn write(&mut self, bytes: &[u8]) {
        let last = bytes.last_chunk().map_or(self.0, |last| u64::from_le_bytes(*last));
        self.0 = last ^ last >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type ByStem<T> = HashMap<Block, T, BuildHasherDefault<LastBytes>>;
pub(crate) type Stems = HashSet<Block, BuildHasherDefault<LastBytes>>;

/// Bytes of a keyword: its slot with a control byte, and as many beside it as are free at the most (nine of sixteen).
pub(crate) const KEYWORD_BYTES: usize = 68;

/// The segment of a keyword.
pub(crate) fn segment_of(stem: &Block) -> usize {
    let [a, b, ..] = *stem;
    usize::from(u16::from_le_bytes([a, b])) % SEGMENTS
}

/// W.
pub(crate) struct Table {
    segments: Vec<ByStem<Slot>>,
    /// The epoch of keywords that come: no keyword that was spilled, or forgotten, had entries under it.
    pub(crate) generation: u32,
}

impl Table {
    pub(crate) fn new(generation: u32) -> Self {
        let segments = (0..SEGMENTS).map(|_| ByStem::default()).collect();
        Self { segments, generation }
    }

    /// Keywords that are in it.
    pub(crate) fn keywords(&self) -> usize {
        self.segments.iter().map(HashMap::len).sum()
    }

    pub(crate) fn get(&self, stem: &Block) -> Option<&Slot> {
        self.segments[segment_of(stem)].get(stem)
    }

    /// Epoch and counter of the next entry of a keyword; whether it is the update's first one.
    pub(crate) fn next(&mut self, stem: &Block) -> (u32, u32, bool) {
        let new = Slot { epoch: self.generation, ..Slot::default() };
        let slot = self.segments[segment_of(stem)].entry(*stem).or_insert(new);
        slot.pending += 1;
        (slot.epoch, slot.count + u32::from(slot.pending) - 1, slot.pending == 1)
    }

    /// What was pending of these keywords is seen from now on.
    pub(crate) fn publish(&mut self, touched: &[Block]) {
        for stem in touched {
            if let Some(slot) = self.segments[segment_of(stem)].get_mut(stem) {
                slot.count += u32::from(std::mem::take(&mut slot.pending));
            }
        }
    }

    /// Sets what a keyword has, and whether that is all it has, whatever is spilled of it.
    pub(crate) fn set(&mut self, record: &Record, is_whole: bool) {
        let slot = Slot { count: record.count, epoch: record.epoch, pending: 0, is_whole };
        self.segments[segment_of(&record.stem)].insert(record.stem, slot);
    }

    /// Whether what is spilled of a keyword is void.
    pub(crate) fn is_whole(&self, stem: &Block) -> bool {
        self.get(stem).is_some_and(|slot| slot.is_whole)
    }

    /// All entries of a keyword.
    pub(crate) fn counted(&self, stem: Block, found: &Found) -> Counted {
        let mut runs = found.get(&stem).filter(|_| !self.is_whole(&stem)).cloned().unwrap_or_default();
        runs.sort_unstable();
        runs.extend(self.get(&stem).map(|slot| (slot.epoch, slot.count)));
        Counted { stem, runs }
    }

    /// Records of the keywords of a segment.
    pub(crate) fn records(&self, segment: usize, collection: u8) -> impl Iterator<Item = Record> {
        self.segment(segment).map(move |(stem, Slot { count, epoch, .. })| Record {
            stem: *stem,
            count: *count,
            epoch: *epoch,
            collection,
        })
    }

    /// The keywords of a segment.
    pub(crate) fn segment(&self, number: usize) -> impl Iterator<Item = (&Block, &Slot)> {
        self.segments.get(number).into_iter().flatten()
    }
}

/// A keyword's entries under one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) stem: Block,
    pub(crate) count: u32,
    pub(crate) epoch: u32,
    pub(crate) collection: u8,
}

/// Bytes of a record: its parts in their order, numbers little endian.
const RECORD_BYTES: usize = 25;

impl Record {
    fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [self.collection; RECORD_BYTES];
        bytes[..16].copy_from_slice(&self.stem);
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.epoch.to_le_bytes());
        bytes
    }

    fn of(bytes: &[u8; RECORD_BYTES]) -> Self {
        let number = |from: usize| u32::from_le_bytes(from_fn(|at| bytes[from + at]));
        let [.., collection] = *bytes;
        Self { stem: from_fn(|at| bytes[at]), count: number(16), epoch: number(20), collection }
    }
}

/// Records.
#[derive(Default, Serialize, Deserialize)]
#[serde(try_from = "Blob")]
pub(crate) struct Records(Blob);

impl TryFrom<Blob> for Records {
    type Error = &'static str;

    fn try_from(bytes: Blob) -> Result<Self, Self::Error> {
        if bytes.len().is_multiple_of(RECORD_BYTES) { Ok(Self(bytes)) } else { Err("part of a record") }
    }
}

impl Extend<Record> for Records {
    fn extend<I: IntoIterator<Item = Record>>(&mut self, records: I) {
        records.into_iter().for_each(|record| self.0.0.extend_from_slice(&record.to_bytes()));
    }
}

impl Records {
    pub(crate) fn len(&self) -> usize {
        self.0.len() / RECORD_BYTES
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Record> {
        self.0.0.as_chunks().0.iter().map(Record::of)
    }

    /// Takes the first so many out, or all if there are fewer.
    pub(crate) fn take_first(&mut self, most: usize) -> Self {
        let rest = self.0.0.split_off(self.0.len().min(most * RECORD_BYTES));
        Self(Blob(std::mem::replace(&mut self.0.0, rest)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use arras_primitives::hash::sha256;
    use arras_protocol::codec::{decode, encode};

    fn stem(number: u32) -> Block {
        sha256(&[&number.to_le_bytes()])[..16].try_into().unwrap()
    }

    fn record(stem: Block, count: u32, epoch: u32) -> Record {
        Record { stem, count, epoch, collection: 0 }
    }

    #[test]
    fn what_is_stored_is_found_once_it_is_published() {
        let mut table = Table::new(3);
        let stems: Vec<Block> = (0..50_000).map(stem).collect();
        for part in stems.chunks(700) {
            part.iter().for_each(|stem| assert_eq!(table.next(stem), (3, 0, true)));
            part.iter().for_each(|stem| assert_eq!(table.next(stem), (3, 1, false)));
            assert_eq!(table.get(&part[0]).unwrap().count, 0);
            table.publish(part);
        }
        assert_eq!(table.keywords(), 50_000);
        assert!(stems.iter().all(|stem| table.get(stem).is_some_and(|slot| slot.count == 2)));
        assert!(table.get(&stem(50_000)).is_none());
        assert_eq!((0..SEGMENTS).flat_map(|number| table.segment(number)).count(), 50_000);
        assert!(
            (0..SEGMENTS).all(|number| table.segment(number).all(|(stem, _)| segment_of(stem) == number))
        );
        table.set(&record(stems[7], 1, 9), false);
        assert_eq!(table.get(&stems[7]).map(|slot| (slot.count, slot.epoch)), Some((1, 9)));
        assert_eq!(table.get(&stems[8]).unwrap().epoch, 3);
    }

    #[test]
    fn a_keyword_takes_no_more_than_is_counted() {
        let mut table = Table::new(0);
        for number in 0..200_000 {
            table.set(&record(stem(number), 1, 0), false);
            if number >= 10_000 && number % 1000 == 0 {
                let full: usize = table.segments.iter().map(HashMap::capacity).sum();
                let bytes = full * 8 / 7 * (size_of::<(Block, Slot)>() + 1);
                assert!(bytes <= table.keywords() * KEYWORD_BYTES, "{number}: {bytes}");
            }
        }
    }

    #[test]
    fn a_keyword_s_entries_are_counted_oldest_first_and_without_what_is_void() {
        let mut table = Table::new(0);
        let found = Found::from_iter([(stem(1), vec![(7, 2), (3, 4)])]);
        table.set(&record(stem(1), 5, 9), false);
        assert_eq!(table.counted(stem(1), &found).runs, [(3, 4), (7, 2), (9, 5)]);
        table.set(&record(stem(1), 5, 9), true);
        assert_eq!(table.counted(stem(1), &found).runs, [(9, 5)]);
        assert_eq!(table.counted(stem(2), &found).entries(), 0);
    }

    #[test]
    fn records_come_back_and_nothing_else_is_taken_for_them() {
        let record =
            |count| Record { stem: from_fn(|at| at as u8), count, epoch: u32::MAX - count, collection: 63 };
        let all: Vec<Record> = [0, 1, 0x1234_5678, u32::MAX].map(record).to_vec();
        let mut records = Records::default();
        records.extend(all.iter().copied());
        let encoded = encode(&records);
        assert_eq!(encoded.len(), 1 + 4 * RECORD_BYTES);
        let mut back: Records = decode(&encoded).unwrap();
        assert!(back.iter().eq(all.iter().copied()));
        let first = back.take_first(3);
        assert!(first.iter().chain(back.iter()).eq(all.iter().copied()));
        assert_eq!((first.len(), back.len(), back.take_first(3).len(), back.len()), (3, 1, 1, 0));
        for length in [1, RECORD_BYTES - 1, RECORD_BYTES + 1, 4 * RECORD_BYTES - 1] {
            assert!(decode::<Records>(&encode(&Blob(vec![0; length]))).is_err(), "{length}");
        }
    }
}
