//! Updates: pairs and documents, each of one length, whatever the operation.

use super::{DocumentName, FIELDS_MAX, KeywordHash};
use postcard::fixint::le;
use serde::{Deserialize, Serialize};

#[cfg(feature = "bisen-client")]
pub use super::client::{DOCUMENTS_MAX, PAIRS_MAX};

/// Bytes of a pair's metadata.
pub const METADATA_BYTES: usize = 12;

/// The last position that can be named, counted in terms from the start of a document; what is beyond it, phrases do not find.
pub const POSITION_MAX: u32 = 0xff_fffe;

/// No position.
pub(super) const NOWHERE: u32 = 0xff_ffff;

/// Positions in the metadata of a continuation.
pub(super) const MORE_POSITIONS: usize = 4;

/// What a pair does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// The keyword occurs in the document.
    Add,
    /// Further positions of the addition of this pair before it.
    Continue,
    /// The keyword no longer occurs in the document.
    Delete,
}

impl Operation {
    /// As two bits, none of them zero.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8 + 1
    }

    /// From its code.
    #[must_use]
    pub fn of_code(code: u8) -> Option<Self> {
        [Self::Add, Self::Continue, Self::Delete].get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// What is known of one occurrence of a keyword in a document: of an addition how often it occurs and the first three
/// positions, of a continuation four more positions, each a number of 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata(#[serde(with = "serde_bytes")] pub [u8; METADATA_BYTES]);

impl Metadata {
    fn number(&self, place: usize) -> u32 {
        let at = 3 * place;
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], 0])
    }

    /// How often the keyword occurs, of an addition.
    #[must_use]
    pub fn frequency(&self) -> u32 {
        self.number(0)
    }

    /// The positions of an addition or of a continuation.
    pub fn positions(&self, operation: Operation) -> impl Iterator<Item = u32> {
        let from = match operation {
            Operation::Add => 1,
            Operation::Continue => 0,
            Operation::Delete => MORE_POSITIONS,
        };
        (from..MORE_POSITIONS).map(|place| self.number(place)).filter(|position| *position != NOWHERE)
    }
}

/// A pair of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// What it does.
    pub operation: Operation,
    /// The keyword.
    pub keyword: KeywordHash,
    /// Which of the call's documents.
    #[serde(with = "le")]
    pub slot: u32,
    /// What is known of the occurrence.
    pub metadata: Metadata,
}

/// What a call does with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DocumentAction {
    /// A new version of it, or the first; pairs of this call are its. A draft: one that was there is dropped.
    New,
    /// The same, and published with this call: the version before is retired.
    NewPublished,
    /// Pairs of this call change the published version. Refused if there is none.
    Existing,
    /// Pairs of this call are the draft's. Refused if there is none.
    Draft,
    /// The same, and it is published with this call.
    DraftPublished,
    /// The document is removed: its published version and its draft, if there are any. No pairs.
    Retire,
}

/// A declared field's value, as a number that orders as the values do: dates in seconds, hashes of words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Field(#[serde(with = "le")] pub i64);

/// What filters and ranking know of a document. Taken from the call that makes a version; [`DocumentAction::DraftPublished`] brings the
/// final ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Its length in terms.
    #[serde(with = "le")]
    pub length: u32,
    /// The group that may see it: 0 is everybody who may search the collection.
    #[serde(with = "le")]
    pub visibility: u32,
    /// Its declared fields. Those beyond the collection's number of fields say nothing.
    pub fields: [Field; FIELDS_MAX],
}

/// A document of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentChange {
    /// What is done with it.
    pub action: DocumentAction,
    /// Which.
    pub name: DocumentName,
    /// Its facts; ignored where no version is made or published.
    pub facts: Facts,
}

/// A fencing token: at which revision a change supposes its collection to be, and to which later one it brings it, as no other change
/// does. So a change that comes late, or a second time, is known for it. The default supposes nothing, and brings it to the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    #[serde(with = "le")]
    pub(super) supposed: u128,
    #[serde(with = "le")]
    pub(super) next: u128,
}

impl Fence {
    /// Where the change brings a collection that is at this revision now: nowhere else, if it was its last. None if it comes late.
    #[must_use]
    pub fn next(self, now: u128) -> Option<u128> {
        match self.next {
            0 => now.checked_add(1),
            next if next == now => Some(now),
            next => (self.supposed == now && next > now).then_some(next),
        }
    }
}

/// One call: all of it is visible to searches at once, or nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// Which of the enclave's collections, from [`super::message::Opened`].
    pub collection: u32,
    /// Where it stands among the collection's changes.
    pub fence: Fence,
    /// Its documents, each once.
    pub documents: Vec<DocumentChange>,
    /// Its pairs.
    pub pairs: Vec<Pair>,
}
