//! What orders the rows of one value in a tree whose ciphertexts show nothing by themselves.

use arras_keys::{Key, Purpose};
use arras_primitives::prf::Prf;
use arras_protocol::bplus::TieToken;

/// Makes the key of each value from the index's: without state, so that an entry is found again.
///
/// # Leakage
/// Equal values have equal keys. Nothing of them is stored; who watches the requests they come with compares the query
/// ciphertexts beside them with all that is stored, and so sees equal values anyway.
pub(super) struct Ties(Prf);

impl Ties {
    pub(super) fn new(index: &Key) -> Self {
        Self(Prf::new(index.child(Purpose::BPlusTie).expose_16()))
    }

    pub(super) fn of(&self, value: u64) -> TieToken {
        TieToken(self.0.block(&u128::from(value).to_le_bytes()))
    }
}
