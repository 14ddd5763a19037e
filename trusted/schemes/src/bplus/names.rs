//! What names an entry on the server: its value and row, sealed.

use crate::error::OpenFailed;
use arras_keys::{Key, Purpose};
use arras_primitives::det_pair::{DetPair, rank_number};
use arras_primitives::prf::Prf;
use arras_primitives::tie::TieOrder;
use arras_protocol::bplus::{SealedEntry, TieToken};
use arras_protocol::{IndexId, RowId};

/// Seals and opens names under an index's key, bound to the index.
pub(super) struct Names {
    pair: DetPair,
    records: Prf,
}

impl Names {
    pub(super) fn new(keys: &Key, index: IndexId) -> Self {
        Self {
            pair: DetPair::new(keys.child(Purpose::BPlusSeal).expose_16(), *index.as_bytes()),
            records: Prf::new(keys.child(Purpose::BPlusRecord).expose_16()),
        }
    }

    pub(super) fn seal(&self, value: u64, row: RowId) -> SealedEntry {
        SealedEntry(self.pair.seal(value, row.as_bytes()))
    }

    /// What the record of a ciphertext is called where the caller keeps it: nothing of which ciphertext it is.
    pub(super) fn record(&self, ciphertext: u64) -> [u8; 16] {
        let mut block = [0; 16];
        block[..8].copy_from_slice(&ciphertext.to_be_bytes());
        self.records.block(&block)
    }

    /// Opens names that follow each other.
    pub(super) fn open_each(
        &self,
        sealed: &[u8],
    ) -> Result<impl Iterator<Item = (u64, RowId)> + use<>, OpenFailed> {
        let opened = self.pair.open_each(sealed).map_err(|_| OpenFailed)?;
        Ok(opened.into_iter().map(|(rank, row)| (rank_number(rank), RowId(row))))
    }
}

/// The order of the entries of one value: that of their names, or of what the value's key makes of them.
pub(super) struct Ties(Option<TieOrder>);

impl Ties {
    pub(super) fn new(token: Option<TieToken>) -> Self {
        Self(token.map(|TieToken(key)| TieOrder::new(&key)))
    }

    /// Places compare as the entries do.
    pub(super) fn place(&self, sealed: &SealedEntry) -> [u8; SealedEntry::BYTES] {
        let mut place = sealed.0;
        if let (Some(order), Some(first)) = (&self.0, place.first_chunk_mut()) {
            *first = order.place(first);
        }
        place
    }
}
