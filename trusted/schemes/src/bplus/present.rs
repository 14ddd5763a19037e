//! Which entries an index has, as the client of a scheme with state knows it.
//!
//! An entry that is not among them is not at the server: nobody looks for it there, where a look goes over all entries of its
//! value. One whose first block another entry has too (2^-64 for two of one value) counts as there, and is looked for.

use arras_protocol::bplus::SealedEntry;
use std::collections::HashSet;

/// The first block of an entry's name, which tells it from others.
pub(crate) type Block = [u8; 16];

/// The entries of an index.
#[derive(Debug, Default)]
pub struct Present(HashSet<Block>);

/// The block of a name.
pub(super) fn block(sealed: &SealedEntry) -> Block {
    let mut block = [0; 16];
    block.copy_from_slice(&sealed.as_bytes()[..16]);
    block
}

impl Present {
    /// Takes up an entry that a record names; false if it is not the name of one, or there twice.
    pub(crate) fn restore(&mut self, name: &[u8]) -> bool {
        name.try_into().is_ok_and(|block| self.0.insert(block))
    }

    pub(super) fn insert(&mut self, sealed: &SealedEntry) {
        self.0.insert(block(sealed));
    }

    pub(super) fn remove(&mut self, sealed: &SealedEntry) {
        self.0.remove(&block(sealed));
    }

    pub(super) fn may_have(&self, sealed: &SealedEntry) -> bool {
        self.0.contains(&block(sealed))
    }

    /// Bytes it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * (size_of::<Block>() + 1)
    }
}
