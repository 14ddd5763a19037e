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
pub const DOCUMENT_BYTES: usize = 1 + 16 + 4 + 4 + 8 * FIELDS_MAX;

/// Bytes of a pair's metadata.
pub const METADATA_BYTES: usize = 12;

/// The last position that can be named, counted in terms from the start of a document; what is beyond it, phrases do not find.
pub const POSITION_MAX: u32 = 0xff_fffe;

/// No position.
const NOWHERE: u32 = 0xff_ffff;

/// Positions in the metadata of an addition, beside its frequency.
const FIRST_POSITIONS: usize = 3;

/// Positions in the metadata of a continuation.
const MORE_POSITIONS: usize = 4;

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
        match self {
            Self::Add => 1,
            Self::Continue => 2,
            Self::Delete => 3,
        }
    }

    /// From its code.
    #[must_use]
    pub fn of_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Add),
            2 => Some(Self::Continue),
            3 => Some(Self::Delete),
            _ => None,
        }
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
    fn of(numbers: impl Iterator<Item = u32>) -> Self {
        let mut bytes = [0xff; METADATA_BYTES];
        for (place, number) in bytes.chunks_exact_mut(3).zip(numbers) {
            place.copy_from_slice(&number.min(NOWHERE).to_le_bytes()[..3]);
        }
        Self(bytes)
    }

    /// Of an addition: how often the keyword occurs, and up to three positions.
    #[must_use]
    pub fn first(frequency: u32, positions: &[u32]) -> Self {
        let positions = positions.iter().copied().take(FIRST_POSITIONS);
        Self::of(std::iter::once(frequency.min(NOWHERE)).chain(positions))
    }

    /// Of a continuation: up to four positions.
    #[must_use]
    pub fn more(positions: &[u32]) -> Self {
        Self::of(positions.iter().copied().take(MORE_POSITIONS))
    }

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
    fn code(self) -> u8 {
        match self {
            Self::New => 1,
            Self::NewPublished => 2,
            Self::Existing => 3,
            Self::Draft => 4,
            Self::DraftPublished => 5,
            Self::Retire => 6,
        }
    }

    fn of_code(code: u8) -> Option<Self> {
        let all =
            [Self::New, Self::NewPublished, Self::Existing, Self::Draft, Self::DraftPublished, Self::Retire];
        all.into_iter().find(|action| action.code() == code)
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

/// One call: all of it is visible to searches at once, or nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// The collection's number, from [`super::message::Opened`].
    pub collection: u32,
    #[serde(with = "serde_bytes_of")]
    documents: Vec<u8>,
    #[serde(with = "serde_bytes_of")]
    pairs: Vec<u8>,
}

/// Strings of bytes in one piece.
mod serde_bytes_of {
    use arras_protocol::Blob;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        Blob::deserialize(deserializer).map(|blob| blob.0)
    }
}

impl std::fmt::Debug for Update {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Update({} documents, {} pairs)", self.document_count(), self.pair_count())
    }
}

impl Update {
    /// An empty one.
    #[must_use]
    pub fn new(collection: u32) -> Self {
        Self { collection, documents: Vec::new(), pairs: Vec::new() }
    }

    /// Adds a document; its slot for the pairs that follow. A document comes once in a call.
    ///
    /// # Errors
    /// [`Unreadable::TooLong`] if the call has [`DOCUMENTS_MAX`] already: send it, and go on with another.
    pub fn document(
        &mut self,
        action: DocumentAction,
        name: DocumentName,
        facts: Facts,
    ) -> Result<u32, Unreadable> {
        let slot = self.document_count();
        if slot >= DOCUMENTS_MAX {
            return Err(Unreadable::TooLong("documents in a call"));
        }
        self.documents.push(action.code());
        self.documents.extend_from_slice(&name.0);
        self.documents.extend_from_slice(&facts.length.to_le_bytes());
        self.documents.extend_from_slice(&facts.visibility.to_le_bytes());
        self.documents.extend(facts.fields.iter().flat_map(|field| field.to_le_bytes()));
        Ok(slot as u32)
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// [`Unreadable::TooLong`] if the call has [`PAIRS_MAX`] already.
    pub fn pair(&mut self, pair: &Pair) -> Result<(), Unreadable> {
        if self.pair_count() >= PAIRS_MAX {
            return Err(Unreadable::TooLong("pairs in a call"));
        }
        self.pairs.push(pair.operation.code());
        self.pairs.extend_from_slice(&pair.keyword.0);
        self.pairs.extend_from_slice(&pair.slot.to_le_bytes());
        self.pairs.extend_from_slice(&pair.metadata.0);
        Ok(())
    }

    /// How many pairs a keyword takes that occurs at so many positions.
    #[must_use]
    pub fn pairs_for(positions: usize) -> usize {
        1 + positions.saturating_sub(FIRST_POSITIONS).div_ceil(MORE_POSITIONS)
    }

    /// Adds all occurrences of a keyword in a document, at ascending positions: an addition and its continuations.
    ///
    /// # Errors
    /// [`Unreadable::TooLong`] if not all of its [`Update::pairs_for`] fit; nothing is added then.
    pub fn occurrences(
        &mut self,
        slot: u32,
        keyword: KeywordHash,
        positions: &[u32],
    ) -> Result<(), Unreadable> {
        if self.pair_count() + Self::pairs_for(positions.len()) > PAIRS_MAX {
            return Err(Unreadable::TooLong("pairs in a call"));
        }
        let (first, more) = positions.split_at(positions.len().min(FIRST_POSITIONS));
        let metadata = Metadata::first(u32::try_from(positions.len()).unwrap_or(NOWHERE), first);
        self.pair(&Pair { operation: Operation::Add, keyword, slot, metadata })?;
        for piece in more.chunks(MORE_POSITIONS) {
            let metadata = Metadata::more(piece);
            self.pair(&Pair { operation: Operation::Continue, keyword, slot, metadata })?;
        }
        Ok(())
    }

    /// Takes a keyword out of a document.
    ///
    /// # Errors
    /// As [`Update::pair`].
    pub fn delete(&mut self, slot: u32, keyword: KeywordHash) -> Result<(), Unreadable> {
        let metadata = Metadata([0; METADATA_BYTES]);
        self.pair(&Pair { operation: Operation::Delete, keyword, slot, metadata })
    }

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
        let whole = self.documents.len().is_multiple_of(DOCUMENT_BYTES)
            && self.pairs.len().is_multiple_of(PAIR_BYTES);
        let (documents, pairs) = (self.document_count(), self.pair_count());
        if documents > DOCUMENTS_MAX || pairs > PAIRS_MAX {
            return Err(Unreadable::TooLong("documents or pairs in a call"));
        }
        let readable = self.documents().count() == documents
            && self.pairs().count() == pairs
            && self.pairs().all(|pair| (pair.slot as usize) < documents);
        if whole && readable { Ok(()) } else { Err(Unreadable::Malformed) }
    }

    /// Its documents, up to the first that cannot be read.
    pub fn documents(&self) -> impl Iterator<Item = DocumentChange> {
        let (records, _) = self.documents.as_chunks::<DOCUMENT_BYTES>();
        records.iter().map_while(|record| {
            let (action, rest) = record.split_first()?;
            let (name, rest) = rest.split_first_chunk::<16>()?;
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let (visibility, rest) = rest.split_first_chunk::<4>()?;
            let (numbers, _) = rest.as_chunks::<8>();
            let mut fields = [0; FIELDS_MAX];
            for (field, number) in fields.iter_mut().zip(numbers) {
                *field = i64::from_le_bytes(*number);
            }
            let (length, visibility) = (u32::from_le_bytes(*length), u32::from_le_bytes(*visibility));
            let facts = Facts { length, visibility, fields };
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_and_operations_take_one_length() {
        let mut update = Update::new(7);
        let facts = Facts { length: 9, visibility: 3, fields: [i64::MIN, -1, 0, i64::MAX] };
        let slot = update.document(DocumentAction::NewPublished, DocumentName([4; 16]), facts).unwrap();
        let keyword = KeywordHash([5; 16]);
        let positions: Vec<u32> = (0..9).chain([POSITION_MAX]).collect();
        update.occurrences(slot, keyword, &positions).unwrap();
        assert_eq!(update.pair_count(), Update::pairs_for(positions.len()));
        let length = update.pairs.len();
        update.delete(slot, keyword).unwrap();
        assert_eq!(update.pairs.len(), length + PAIR_BYTES);
        update.check().unwrap();
        let pairs: Vec<Pair> = update.pairs().collect();
        let found = pairs.iter().flat_map(|pair| pair.metadata.positions(pair.operation));
        assert_eq!(found.collect::<Vec<_>>(), positions);
        assert_eq!(pairs[0].metadata.frequency(), 10);
        let document =
            DocumentChange { action: DocumentAction::NewPublished, name: DocumentName([4; 16]), facts };
        assert_eq!(update.documents().collect::<Vec<_>>(), [document]);
    }

    #[test]
    fn what_cannot_be_read_or_is_too_long_is_refused() {
        let mut update = Update::new(7);
        update.document(DocumentAction::Retire, DocumentName([4; 16]), Facts::default()).unwrap();
        update.delete(0, KeywordHash([1; 16])).unwrap();
        for at in [0, 17] {
            let mut broken = update.clone();
            broken.pairs[at] = 9;
            assert_eq!(broken.check(), Err(Unreadable::Malformed), "{at}");
        }
        let mut broken = update.clone();
        broken.documents[0] = 0;
        assert_eq!(broken.check(), Err(Unreadable::Malformed));
        let mut broken = update.clone();
        broken.pairs.pop();
        assert_eq!(broken.check(), Err(Unreadable::Malformed));
        while update.pair_count() < PAIRS_MAX {
            update.delete(0, KeywordHash([1; 16])).unwrap();
        }
        assert!(update.delete(0, KeywordHash([1; 16])).is_err());
        update.check().unwrap();
        let record = update.pairs[..PAIR_BYTES].to_vec();
        update.pairs.extend(record);
        assert_eq!(update.check(), Err(Unreadable::TooLong("documents or pairs in a call")));
    }
}
