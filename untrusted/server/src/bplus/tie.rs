//! The order of the entries of one value: that of their names, or of what a key makes of them.

use super::tree::Tree;
use arras_primitives::tie::TieOrder;
use arras_protocol::Refusal;
use arras_protocol::bplus::{SealedEntry, TieToken};
use std::cmp::Ordering;

/// An entry among those of its value.
pub(super) struct Among {
    sealed: SealedEntry,
    /// For schemes that break ties by a key: the order, and the entry's place in it.
    keyed: Option<(TieOrder, Place)>,
    /// Whether a ciphertext is one entry's own. A separator of the same ciphertext may then have another name, that of an
    /// entry that had the ciphertext before, and says nothing.
    single: bool,
}

/// The image of a name's first block, which is another for each entry but with a chance of 2^-64 for two; then the rest.
type Place = ([u8; 16], [u8; 16]);

fn place(order: &TieOrder, name: &[u8]) -> Place {
    // Names come from requests and pages, where all are of one length.
    let (first, rest) = name.split_first_chunk().unwrap_or((&[0; 16], &[]));
    (order.place(first), rest.first_chunk().copied().unwrap_or_default())
}

impl Among {
    /// The entry of a name. There must be a key where the tree's scheme asks for one, and only there.
    pub(super) fn new<T>(
        tree: &Tree<T>,
        sealed: SealedEntry,
        key: Option<TieToken>,
    ) -> Result<Self, Refusal> {
        if key.is_some() != tree.layout.scheme.breaks_ties() {
            return super::malformed(
                "a key of ties is for schemes whose stored ciphertexts show nothing, and for all of them",
            );
        }
        let keyed = key.map(|TieToken(key)| {
            let order = TieOrder::new(&key);
            let place = place(&order, sealed.as_bytes());
            (order, place)
        });
        Ok(Self { sealed, keyed, single: tree.layout.scheme.hides_equality() })
    }

    /// How this entry compares with the one of another name and the same value.
    pub(super) fn compare(&self, other: &[u8]) -> Ordering {
        match &self.keyed {
            None if self.single => Ordering::Equal,
            None => self.sealed.as_bytes().as_slice().cmp(other),
            Some((order, own)) => own.cmp(&place(order, other)),
        }
    }
}
