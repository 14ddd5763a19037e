//! Records of counters as they are sealed: one behind the other, of one length each, whatever they say. They are walked and not decoded, as a
//! search goes over all that are spilled.

use arras_primitives::Block;
use arras_protocol::Blob;
use serde::{Deserialize, Serialize};
use std::array::from_fn;

/// A keyword's entries under one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) stem: Block,
    pub(crate) count: u32,
    pub(crate) epoch: u32,
    pub(crate) collection: u8,
}

/// Bytes of a record: its parts in their order, numbers little endian.
const BYTES: usize = 25;

impl Record {
    fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [self.collection; BYTES];
        bytes[..16].copy_from_slice(&self.stem);
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.epoch.to_le_bytes());
        bytes
    }

    fn of(bytes: &[u8; BYTES]) -> Self {
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
        if bytes.len().is_multiple_of(BYTES) { Ok(Self(bytes)) } else { Err("part of a record") }
    }
}

impl Extend<Record> for Records {
    fn extend<I: IntoIterator<Item = Record>>(&mut self, records: I) {
        records.into_iter().for_each(|record| self.0.0.extend_from_slice(&record.to_bytes()));
    }
}

impl Records {
    pub(crate) fn len(&self) -> usize {
        self.0.len() / BYTES
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Record> {
        self.0.0.as_chunks().0.iter().map(Record::of)
    }

    /// Takes the first so many out, or all if there are fewer.
    pub(crate) fn take_first(&mut self, most: usize) -> Self {
        let rest = self.0.0.split_off(self.0.len().min(most * BYTES));
        Self(Blob(std::mem::replace(&mut self.0.0, rest)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use arras_protocol::codec::{decode, encode};

    #[test]
    fn records_come_back_and_nothing_else_is_taken_for_them() {
        let record =
            |count| Record { stem: from_fn(|at| at as u8), count, epoch: u32::MAX - count, collection: 63 };
        let all: Vec<Record> = [0, 1, 0x1234_5678, u32::MAX].map(record).to_vec();
        let mut records = Records::default();
        records.extend(all.iter().copied());
        let encoded = encode(&records);
        assert_eq!(encoded.len(), 1 + 4 * BYTES);
        let mut back: Records = decode(&encoded).unwrap();
        assert!(back.iter().eq(all.iter().copied()));
        let first = back.take_first(3);
        assert!(first.iter().chain(back.iter()).eq(all.iter().copied()));
        assert_eq!((first.len(), back.len(), back.take_first(3).len(), back.len()), (3, 1, 1, 0));
        for length in [1, BYTES - 1, BYTES + 1, 4 * BYTES - 1] {
            assert!(decode::<Records>(&encode(&Blob(vec![0; length]))).is_err(), "{length}");
        }
    }
}
