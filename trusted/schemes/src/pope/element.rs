//! Elements, sealed and open.

use super::IndexError;
use crate::error::OpenFailed;
use arras_keys::{Key, Purpose};
use arras_primitives::prg::Prg;
use arras_primitives::symmetric::{Sealer, sealed_bytes};
use arras_primitives::wipe::Wiped;
use arras_protocol::ore::Width;
use arras_protocol::{IndexId, RowId};

/// Bytes of a tie-break.
const TIE_BYTES: usize = 8;

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

/// An open element.
#[derive(Clone, Copy)]
pub(super) struct Plain {
    pub(super) value: u64,
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

/// Bytes of the smallest page that an index of this width can have.
#[must_use]
pub const fn page_bytes_min(width: Width) -> usize {
    arras_protocol::pope::page_bytes_min(sealed_bytes(record_bytes(width)))
}

/// Seals and opens the elements of one index.
pub(super) struct Elements {
    sealer: Sealer,
    associated: [u8; 16],
    width: Width,
}

impl Elements {
    pub(super) fn new(index: IndexId, key: &Key, width: Width) -> Self {
        let mut associated = [0; 16];
        associated[..IndexId::BYTES].copy_from_slice(index.as_bytes());
        Self { sealer: Sealer::new(key.child(Purpose::PopeSeal).expose()), associated, width }
    }

    pub(super) fn width(&self) -> Width {
        self.width
    }

    fn record_bytes(&self) -> usize {
        record_bytes(self.width)
    }

    pub(super) fn sealed_bytes(&self) -> usize {
        sealed_bytes(self.record_bytes())
    }

    /// # Errors
    /// [`IndexError::Caller`] if a value is outside the width.
    pub(super) fn seal(&self, entries: &[(u64, RowId)], prg: &mut Prg) -> Result<Vec<u8>, IndexError> {
        let mut records = Wiped::with_capacity(entries.len() * self.record_bytes());
        for (value, row) in entries {
            if *value > self.width.greatest() {
                return Err(IndexError::Caller("a value is outside the index's width"));
            }
            records.extend_from_slice(&value.to_be_bytes()[8 - self.width.bytes()..]);
            records.extend_from_slice(&prg.next_u64().to_be_bytes());
            records.extend_from_slice(row.as_bytes());
        }
        let mut sealed = Vec::with_capacity(entries.len() * self.sealed_bytes());
        self.sealer.seal_each(&self.associated, &records, self.record_bytes(), prg, &mut sealed);
        Ok(sealed)
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
