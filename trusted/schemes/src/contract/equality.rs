//! What indexes of equality and of unique values are asked, and how entries of a value are numbered anew. Values are in
//! canonical form.

use super::{EncryptedIndex, Pending, Staged, State};
use crate::error::IndexError;
use arras_protocol::RowId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of a tree's name that a header keeps: enough that a header from before a renumbering is taken for one from after it
/// once in four billion times.
const TREE_BYTES: usize = 4;

/// Where the entry of a document for one of its values is, as the document's header keeps it. An older header that
/// the server shows again names another tree than the record of the value, or a counter that the record no longer
/// covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The beginning of the name of the value's tree.
    pub tree: [u8; TREE_BYTES],
    /// The counter.
    pub counter: u32,
}

impl Held {
    /// Bytes of its encoding, whatever it says.
    pub const BYTES: usize = TREE_BYTES + 4;

    /// As bytes.
    #[must_use]
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..TREE_BYTES].copy_from_slice(&self.tree);
        bytes[TREE_BYTES..].copy_from_slice(&self.counter.to_be_bytes());
        bytes
    }

    /// From bytes.
    #[must_use]
    pub fn decode(bytes: [u8; Self::BYTES]) -> Self {
        let [tree @ .., a, b, c, d] = bytes;
        Self { tree, counter: u32::from_be_bytes([a, b, c, d]) }
    }
}

/// What the caller's state says of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnRecord {
    /// The name of its record.
    pub name: Vec<u8>,
    /// How many entries it has.
    pub entries: u64,
}

/// A value whose searches pay for more entries that are gone than for those that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worn {
    /// The value.
    pub value: Vec<u8>,
    /// The record that the search went by, for [`Occasion::Searched`].
    pub searched: Vec<u8>,
}

/// What an index of equality answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EqualityAnswer {
    /// As on record.
    Exact {
        /// The row of every entry on record, each once for each value.
        rows: Vec<RowId>,
        /// Values that are worth a renumbering.
        worn: Vec<Worn>,
    },
    /// The server said something else about the value of the record of this name.
    Differs(Vec<u8>),
}

/// How what an index holds differs from what it must. Numbers of entries, but for the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Called for, and not there.
    pub lacking: u64,
    /// There, and not called for.
    pub foreign: u64,
    /// Values that are called for, and have no record.
    pub unrecorded: u64,
}

/// Why entries of a value are numbered anew, and by that which of them: what the server has seen of the value says.
#[derive(Clone, Debug)]
pub enum Occasion {
    /// A search showed the entries: [`Worn::searched`]. A value that got others since, which were not shown, stays as it is.
    Searched(Vec<u8>),
    /// The entries of these counters went, with a write that came before everything else of the value.
    Released(BTreeSet<u32>),
}

/// An index that answers equality.
pub trait EqualitySearch: EncryptedIndex {
    /// The rows of some values, compared with what is on record. The server sees the values in a random order, and not those
    /// without entries.
    ///
    /// # Errors
    /// [`IndexError`]; nothing is returned in part.
    fn search<'s>(
        self: Arc<Self>,
        values: &'s BTreeSet<Vec<u8>>,
        state: &'s dyn State,
    ) -> Pending<'s, Result<EqualityAnswer, IndexError>>;

    /// What the state alone says of each of some values.
    ///
    /// # Errors
    /// [`IndexError::State`].
    fn on_record(&self, values: &[Vec<u8>], state: &dyn State) -> Result<Vec<OnRecord>, IndexError>;

    /// Every entry, compared with the rows that each value has: for an inspection that nothing writes beside.
    ///
    /// # Errors
    /// [`IndexError`] if they cannot be compared.
    fn inspect(
        self: Arc<Self>,
        expected: BTreeMap<Vec<u8>, Vec<RowId>>,
        state: &dyn State,
    ) -> Pending<'_, Result<Difference, IndexError>>;

    /// What of a value's entries is to be numbered anew, by the records as they are: nothing else changes the value from here to
    /// the end of the first piece.
    ///
    /// # Errors
    /// [`IndexError::State`].
    fn renumbering(
        self: Arc<Self>,
        value: Vec<u8>,
        occasion: Occasion,
        state: Arc<dyn State>,
    ) -> Result<Box<dyn Renumbering>, IndexError>;
}

/// Entries of one value that are numbered anew, piece by piece. Dropped in between, the index is a right one.
pub trait Renumbering: Send {
    /// Asks for the entries of the next piece; none if nothing is left to be done. Nothing else changes the value until the
    /// piece is written.
    ///
    /// # Errors
    /// [`IndexError`].
    fn next(&mut self) -> Pending<'_, Result<Option<Box<dyn Renumbered>>, IndexError>>;
}

/// A piece: entries that are numbered anew in one write, which also has the headers of their documents.
pub trait Renumbered: Send {
    /// The documents, each once, in a random order.
    fn rows(&self) -> &[RowId];

    /// Numbers the entry of one of the documents anew: from where its header has it, to what its header is to keep.
    ///
    /// # Errors
    /// [`IndexError::Contradicted`] if the entry cannot be there.
    fn renumber(&mut self, row: RowId, held: Held) -> Result<Held, IndexError>;

    /// The steps and records of all that were; without steps, records alone.
    fn finish(self: Box<Self>) -> Staged;
}

/// An index that says who has a value.
pub trait UniqueSearch: EncryptedIndex {
    /// Of each of some values the row that has it. The server sees no order of theirs, and each once.
    ///
    /// # Errors
    /// [`IndexError`].
    fn holders(
        self: Arc<Self>,
        values: Vec<Vec<u8>>,
    ) -> Pending<'static, Result<Vec<Option<RowId>>, IndexError>>;
}
