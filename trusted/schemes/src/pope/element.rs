//! Elements, sealed and open.

use super::IndexError;
use crate::error::OpenFailed;
use arras_keys::{Key, Purpose};
use arras_primitives::prf::Prf;
use arras_primitives::prg::Prg;
use arras_primitives::symmetric::{Sealer, sealed_bytes};
use arras_primitives::wipe::Wiped;
use arras_protocol::ore::Width;
use arras_protocol::{IndexId, RowId};

/// Bytes of a tie-break.
const TIE_BYTES: usize = 8;

/// Bits of a number that count what is done in an epoch.
const SEQUENCE_BITS: u32 = 39;

/// The first epoch that numbers have no room for.
pub(super) const EPOCHS: u64 = 1 << (63 - SEQUENCE_BITS);

/// What elements are ordered by: value, then tie-break.
pub(super) type Rank = u128;

/// Before every element of a value.
pub(super) fn before(value: u64) -> Rank {
    u128::from(value) << 64
}

/// After every element of a value.
pub(super) fn after(value: u64) -> Rank {
    before(value) | u128::from(u64::MAX)
}

/// The value of a rank.
pub(super) fn value_of(rank: Rank) -> u64 {
    (rank >> 64) as u64
}

/// When an element was made: of an entry's elements the one with the greatest number counts. 63 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number(u64);

impl Number {
    pub(super) fn epoch(self) -> u64 {
        self.0 >> SEQUENCE_BITS
    }
}

/// Numbers in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers(u64);

impl Numbers {
    /// So many from a place among those of an epoch below [`EPOCHS`] on; `None` when the epoch has no more.
    pub(super) fn new(epoch: u64, sequence: u64, count: usize) -> Option<Self> {
        let until = sequence.checked_add(count as u64)?;
        (epoch < EPOCHS && until < 1 << SEQUENCE_BITS).then_some(Self(epoch << SEQUENCE_BITS | sequence))
    }
}

/// What an element says of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is in the set.
    Insertion,
    /// It is not.
    Tombstone,
}

/// An open element.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Plain {
    pub(super) value: u64,
    /// The operation's number, hidden by a pseudorandom function of the row, and in the last bit whether it is a tombstone. So
    /// equal values stand in an order that says nothing of when they came, and no two elements are alike in value and tie but
    /// copies of one.
    pub(super) tie: u64,
    pub(super) row: RowId,
}

impl Plain {
    /// Reads value (as wide as the index's values), tie and row.
    #[inline]
    fn decode(record: &[u8]) -> Option<Self> {
        let (rest, row) = record.split_last_chunk::<{ RowId::BYTES }>()?;
        let (value, tie) = rest.split_last_chunk::<TIE_BYTES>()?;
        let value = match value.len() {
            4 => u64::from(u32::from_be_bytes(value.try_into().ok()?)),
            8 => u64::from_be_bytes(value.try_into().ok()?),
            _ => return None,
        };
        Some(Self { value, tie: u64::from_be_bytes(*tie), row: RowId(*row) })
    }

    pub(super) fn rank(&self) -> Rank {
        before(self.value) | u128::from(self.tie)
    }

    pub(super) fn is_tombstone(&self) -> bool {
        self.tie & 1 == 1
    }

    /// Whether it is about the same entry.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        (self.value, self.row) == (other.value, other.row)
    }
}

/// Open elements, in one piece of memory that is wiped.
pub(super) struct Opened {
    plaintexts: Wiped,
    record_bytes: usize,
}

/// Some of [`Opened`].
#[derive(Clone, Copy)]
pub(super) struct Plains<'a> {
    plaintexts: &'a [u8],
    record_bytes: usize,
}

impl<'a> Plains<'a> {
    pub(super) fn iter(self) -> impl Iterator<Item = Plain> + use<'a> {
        // Records are whole and of the width's length: `decode` fails on none.
        self.plaintexts.chunks_exact(self.record_bytes).filter_map(Plain::decode)
    }

    /// The first `count`, as far as there are so many, and the rest.
    pub(super) fn split_at(self, count: usize) -> (Self, Self) {
        let at = count.saturating_mul(self.record_bytes).min(self.plaintexts.len());
        let (first, rest) = self.plaintexts.split_at(at);
        let record_bytes = self.record_bytes;
        (Self { plaintexts: first, record_bytes }, Self { plaintexts: rest, record_bytes })
    }

    pub(super) fn is_empty(self) -> bool {
        self.plaintexts.is_empty()
    }
}

impl Opened {
    pub(super) fn all(&self) -> Plains<'_> {
        Plains { plaintexts: &self.plaintexts, record_bytes: self.record_bytes }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Plain> {
        self.all().iter()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.plaintexts.len() / self.record_bytes
    }

    pub(super) fn ranks(&self) -> Vec<Rank> {
        let mut ranks = Vec::with_capacity(self.count());
        ranks.extend(self.iter().map(|plain| plain.rank()));
        ranks
    }
}

/// Bytes of an open element.
const fn record_bytes(width: Width) -> usize {
    width.bytes() + TIE_BYTES + RowId::BYTES
}

/// Bytes of a sealed element.
pub(super) const fn element_bytes(width: Width) -> usize {
    sealed_bytes(record_bytes(width))
}

/// Bytes of the smallest page that an index of this width can have.
#[must_use]
pub const fn page_bytes_min(width: Width) -> usize {
    arras_protocol::pope::page_bytes_min(element_bytes(width))
}

/// Seals and opens the elements of one index.
pub(super) struct Elements {
    sealer: Sealer,
    ties: Prf,
    associated: [u8; 16],
    width: Width,
}

impl Elements {
    pub(super) fn new(index: IndexId, key: &Key, width: Width) -> Self {
        let mut associated = [0; 16];
        associated[..IndexId::BYTES].copy_from_slice(index.as_bytes());
        Self {
            sealer: Sealer::new(key.child(Purpose::PopeSeal).expose()),
            ties: Prf::new(key.child(Purpose::PopeTie).expose_16()),
            associated,
            width,
        }
    }

    pub(super) fn width(&self) -> Width {
        self.width
    }

    fn record_bytes(&self) -> usize {
        record_bytes(self.width)
    }

    pub(super) fn sealed_bytes(&self) -> usize {
        element_bytes(self.width)
    }

    /// The number of the operation that made an element.
    pub(super) fn number(&self, plain: &Plain) -> Number {
        Number((plain.tie ^ first_half(&self.ties.block(plain.row.as_bytes()))) >> 1)
    }

    /// Appends to `sealed` what an operation says of entries, each under a number of its own.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if a value is outside the width.
    pub(super) fn seal(
        &self,
        entries: &[(u64, RowId)],
        (kind, Numbers(first)): (Kind, Numbers),
        prg: &mut Prg,
        sealed: &mut Vec<u8>,
    ) -> Result<(), IndexError> {
        let mut masks: Vec<[u8; RowId::BYTES]> = entries.iter().map(|(_, row)| row.0).collect();
        self.ties.blocks(&mut masks);
        let mut records = Wiped::with_capacity(entries.len() * self.record_bytes());
        for (((value, row), mask), number) in entries.iter().zip(&masks).zip(first..) {
            if *value > self.width.greatest() {
                return Err(IndexError::Caller("a value is outside the index's width"));
            }
            let tie = (first_half(mask) ^ number << 1) & !1 | u64::from(kind == Kind::Tombstone);
            records.extend_from_slice(&value.to_be_bytes()[8 - self.width.bytes()..]);
            records.extend_from_slice(&tie.to_be_bytes());
            records.extend_from_slice(row.as_bytes());
        }
        self.sealer.seal_each(&self.associated, &records, self.record_bytes(), prg, sealed);
        Ok(())
    }

    /// # Errors
    /// [`OpenFailed`] if one of them is not an element of this index.
    pub(super) fn open(&self, sealed: &[u8]) -> Result<Opened, OpenFailed> {
        let record_bytes = self.record_bytes();
        let mut plaintexts = Wiped::with_capacity(sealed.len() / self.sealed_bytes() * record_bytes);
        self.sealer
            .open_each(&self.associated, sealed, record_bytes, &mut plaintexts)
            .map_err(|_| OpenFailed)?;
        Ok(Opened { plaintexts, record_bytes })
    }
}

fn first_half(block: &[u8; 16]) -> u64 {
    (u128::from_be_bytes(*block) >> 64) as u64
}
