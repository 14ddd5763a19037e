//! Entries: value and row, sealed under a key of the value's ciphertext.
//!
//! The same value and row under the same ciphertext are the same bytes again, which is how an entry is found to be removed;
//! under another ciphertext they have nothing in common. So in stOPE entries of two lifetimes of a value are as little
//! linked as its ciphertexts, and in either form an entry that a server moves to another value does not open.

use crate::error::OpenFailed;
use arras_keys::{Key, Purpose};
use arras_primitives::det_pair::{DetPair, rank_number};
use arras_primitives::light_mac::LightMac;
use arras_protocol::mope::index::{Listed, SealedRow};
use arras_protocol::{Blob, IndexId, RowId};

/// Seals and opens the entries of one index.
pub(super) struct Rows {
    keys: LightMac,
    index: IndexId,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rows({:?})", self.index)
    }
}

impl Rows {
    pub(super) fn new(key: &Key, index: IndexId) -> Self {
        Self { keys: LightMac::new(key.child(Purpose::MopeRows).expose()), index }
    }

    fn pair(&self, ciphertext: &[u8]) -> DetPair {
        DetPair::new(&self.keys.tag(ciphertext), *self.index.as_bytes())
    }

    /// The entry of a value, under its ciphertext, and a row.
    pub(super) fn seal(&self, ciphertext: &[u8], value: u64, row: RowId) -> Listed {
        let sealed = SealedRow(self.pair(ciphertext).seal(value, row.as_bytes()));
        Listed { ciphertext: Blob(ciphertext.to_vec()), sealed }
    }

    /// The value and the rows of entries that lie under one ciphertext.
    pub(super) fn open(&self, ciphertext: &[u8], sealed: &[u8]) -> Result<(u64, Vec<RowId>), OpenFailed> {
        let opened = self.pair(ciphertext).open_each(sealed).map_err(|_| OpenFailed)?;
        let (first, _) = opened.first().ok_or(OpenFailed)?;
        let value = rank_number(*first);
        // One ciphertext is one value's; whoever sealed these knew that.
        if opened.iter().any(|(rank, _)| rank_number(*rank) != value) {
            return Err(OpenFailed);
        }
        Ok((value, opened.into_iter().map(|(_, row)| RowId(row)).collect()))
    }
}
