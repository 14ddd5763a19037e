//! The order of the entries of one value: that of their rows, or of what a key makes of them.

use super::tree::Tree;
use arras_primitives::tie::TieOrder;
use arras_protocol::bplus::TieToken;
use arras_protocol::{Refusal, RowId};
use std::cmp::Ordering;

/// An entry among those of its value.
pub(super) struct Among {
    row: RowId,
    /// For schemes that break ties by a key: the order, and the row's place in it.
    keyed: Option<(TieOrder, [u8; RowId::BYTES])>,
}

impl Among {
    /// The entry of a row. There must be a key where the tree's scheme asks for one, and only there.
    pub(super) fn new<T>(tree: &Tree<T>, row: RowId, key: Option<TieToken>) -> Result<Self, Refusal> {
        if key.is_some() != tree.layout.scheme.breaks_ties() {
            return super::malformed(
                "a key of ties is for schemes whose stored ciphertexts show nothing, and for all of them",
            );
        }
        let keyed = key.map(|TieToken(key)| {
            let order = TieOrder::new(&key);
            let place = order.place(row.as_bytes());
            (order, place)
        });
        Ok(Self { row, keyed })
    }

    /// How this entry compares with the one of another row and the same value.
    pub(super) fn compare(&self, other: &[u8]) -> Ordering {
        match &self.keyed {
            None => self.row.as_bytes().as_slice().cmp(other),
            Some((order, place)) => {
                // Rows come from pages, where all are of one length.
                let other = other.first_chunk().copied().unwrap_or_default();
                place.cmp(&order.place(&other))
            }
        }
    }
}
