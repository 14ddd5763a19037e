//! Updates: pairs and documents, each of one length, whatever the operation.

use super::{DocumentName, FIELDS_MAX, KEYWORD_BYTES, KeywordHash, Unreadable};
use serde::{Deserialize, Serialize};

/// Most pairs in one call.
pub const PAIRS_MAX: usize = 32_768;

/// Most documents in one call.
pub const DOCUMENTS_MAX: usize = 2048;

/// Bytes of a pair in a message.
pub const PAIR_BYTES: usize = 1 + KEYWORD_BYTES + 4 + METADATA_BYTES;

/// Bytes of a document in a message.
pub const DOCUMENT_BYTES: usize = 1 + 16 + FACTS_BYTES;

/// Bytes of a document's facts.
pub const FACTS_BYTES: usize = 4 + 4 + 8 * FIELDS_MAX;

/// Bytes of a pair's metadata.
pub const METADATA_BYTES: usize = 12;

/// The last position that can be named, counted in terms from the start of a document; what is beyond it, phrases do not find.
pub const POSITION_MAX: u32 = 0xff_fffe;

/// No position.
pub(super) const NOWHERE: u32 = 0xff_ffff;

/// Positions in the metadata of a continuation.
pub(super) const MORE_POSITIONS: usize = 4;

/// What a pair does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Metadata(pub [u8; METADATA_BYTES]);

impl std::fmt::Debug for Metadata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metadata(..)")
    }
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// What it does.
    pub operation: Operation,
    /// The keyword.
    pub keyword: KeywordHash,
    /// Which of the call's documents.
    pub slot: u32,
    /// What is known of the occurrence.
    pub metadata: Metadata,
}

/// What a call does with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl DocumentAction {
    /// In the order of their numbers in a message, which begin at 1.
    const ALL: [Self; 6] =
        [Self::New, Self::NewPublished, Self::Existing, Self::Draft, Self::DraftPublished, Self::Retire];

    fn of_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// What filters and ranking know of a document. Taken from the call that makes a version; [`DocumentAction::DraftPublished`] brings the
/// final ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its length in terms.
    pub length: u32,
    /// The group that may see it: 0 is everybody who may search the collection.
    pub visibility: u32,
    /// Its declared fields, as numbers that order as the values do: dates in seconds, hashes of words. Those beyond the
    /// collection's number of fields are ignored.
    pub fields: [i64; FIELDS_MAX],
}

impl Facts {
    /// As bytes, of one length whatever they are.
    #[must_use]
    pub fn bytes(&self) -> [u8; FACTS_BYTES] {
        let mut bytes = [0; FACTS_BYTES];
        let numbers = u64::from(self.visibility) << 32 | u64::from(self.length);
        bytes[..8].copy_from_slice(&numbers.to_le_bytes());
        bytes[8..].copy_from_slice(self.fields.map(i64::to_le_bytes).as_flattened());
        bytes
    }

    /// From bytes.
    #[must_use]
    pub fn of_bytes(bytes: &[u8; FACTS_BYTES]) -> Self {
        let numbers = |place| i64::from_le_bytes(bytes.as_chunks::<8>().0[place]);
        let (length, visibility) = (numbers(0) as u32, (numbers(0) >> 32) as u32);
        Self { length, visibility, fields: std::array::from_fn(|field| numbers(field + 1)) }
    }
}

/// A document of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    // Numbers of one length, whatever they are.
    pub(super) supposed: [u8; 16],
    pub(super) next: [u8; 16],
}

impl Fence {
    /// Where the change brings a collection that is at this revision now: nowhere else, if it was its last. None if it comes late.
    #[must_use]
    pub fn next(self, now: u128) -> Option<u128> {
        match [self.supposed, self.next].map(u128::from_le_bytes) {
            [_, 0] => now.checked_add(1),
            [_, next] if next == now => Some(now),
            [supposed, next] => Some(next).filter(|next| supposed == now && *next > now),
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
    #[serde(with = "serde_bytes")]
    pub(super) documents: Vec<u8>,
    #[serde(with = "serde_bytes")]
    pub(super) pairs: Vec<u8>,
}

impl std::fmt::Debug for Update {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Update({} documents, {} pairs)", self.document_count(), self.pair_count())
    }
}

impl Update {
    /// How many documents it has.
    #[must_use]
    pub fn document_count(&self) -> usize {
        self.documents.len() / DOCUMENT_BYTES
    }

    /// How many pairs it has.
    #[must_use]
    pub fn pair_count(&self) -> usize {
        self.pairs.len() / PAIR_BYTES
    }

    /// Whether everything in it can be read and is within bounds: for what came from elsewhere.
    ///
    /// # Errors
    /// [`Unreadable`] if not.
    pub fn check(&self) -> Result<(), Unreadable> {
        let (documents, pairs) = (self.document_count(), self.pair_count());
        if documents > DOCUMENTS_MAX || pairs > PAIRS_MAX {
            return Err(Unreadable::TooLong("documents or pairs in a call"));
        }
        let readable = self.pairs().filter(|pair| (pair.slot as usize) < documents).count();
        let whole = (self.documents().count() * DOCUMENT_BYTES, readable * PAIR_BYTES);
        if whole == (self.documents.len(), self.pairs.len()) { Ok(()) } else { Err(Unreadable::Malformed) }
    }

    /// Its documents, up to the first that cannot be read.
    pub fn documents(&self) -> impl Iterator<Item = DocumentChange> {
        let (records, _) = self.documents.as_chunks::<DOCUMENT_BYTES>();
        records.iter().map_while(|record| {
            let (action, rest) = record.split_first()?;
            let (name, rest) = rest.split_first_chunk::<16>()?;
            let facts = Facts::of_bytes(rest.first_chunk()?);
            let action = DocumentAction::of_code(*action)?;
            Some(DocumentChange { action, name: DocumentName(*name), facts })
        })
    }

    /// Its pairs, up to the first that cannot be read.
    pub fn pairs(&self) -> impl Iterator<Item = Pair> {
        let (records, _) = self.pairs.as_chunks::<PAIR_BYTES>();
        records.iter().map_while(|record| {
            let (operation, rest) = record.split_first()?;
            let (keyword, rest) = rest.split_first_chunk::<KEYWORD_BYTES>()?;
            let (slot, rest) = rest.split_first_chunk::<4>()?;
            let (metadata, _) = rest.split_first_chunk::<METADATA_BYTES>()?;
            Some(Pair {
                operation: Operation::of_code(*operation)?,
                keyword: KeywordHash(*keyword),
                slot: u32::from_le_bytes(*slot),
                metadata: Metadata(*metadata),
            })
        })
    }
}
