//! What clients alone do: keywords to hashes, updates and searches to messages, pages to results. The enclave links none of it.

mod bounds;
mod channel;
mod formulas;
mod texts;

pub use bounds::{DEPTH_MAX, DOCUMENTS_MAX, FILTERS_MAX, PAIRS_MAX};
pub use channel::{ChannelBroken, ClientChannel, Plain};
pub use formulas::{Malformed, MalformedWhy};

use super::message::{Answer, Ask, Group, Groups, Hit, Opened, Page, Reply, decode, encode};
use super::query::{Attribute, Filter, Padding, Ranking, Search};
use super::update::{
    DocumentAction, DocumentChange, Facts, Fence, METADATA_BYTES, MORE_POSITIONS, Metadata, NOWHERE,
    Operation, Pair, Update,
};
use super::{DocumentName, KEYWORD_BYTES, KeywordHash, Salt};
use arras_primitives::hash::sha256_framed;

/// Why a message could not be made or read: never by what is in it, as it may be anybody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It does not decode.
    Malformed,
    /// Something in it is longer than its bound.
    TooLong(&'static str),
}

/// Positions in the metadata of an addition, beside its frequency.
const FIRST_POSITIONS: usize = 3;

impl KeywordHash {
    /// The hash of a keyword of a collection. What belongs to a field says so in its bytes.
    #[must_use]
    pub fn of(salt: &Salt, keyword: &[u8]) -> Self {
        let hash = sha256_framed(&[b"arras bisen keyword", &salt.0, keyword]);
        let (halves, _) = hash.as_chunks::<KEYWORD_BYTES>();
        Self(halves[0])
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
        Self::of(std::iter::once(frequency).chain(positions))
    }

    /// Of a continuation: up to four positions.
    #[must_use]
    pub fn more(positions: &[u32]) -> Self {
        Self::of(positions.iter().copied().take(MORE_POSITIONS))
    }
}

impl Fence {
    /// Of a change that supposes one revision and brings another, greater one, which no other change brings.
    #[must_use]
    pub fn new(supposed: u128, next: u128) -> Self {
        Self { supposed, next }
    }
}

impl Update {
    /// An empty one, whatever changes there were before it.
    #[must_use]
    pub fn new(collection: u32) -> Self {
        Self { collection, fence: Fence::default(), documents: Vec::new(), pairs: Vec::new() }
    }

    /// How many documents it has.
    #[must_use]
    pub fn document_count(&self) -> usize {
        self.documents.len()
    }

    /// How many pairs it has.
    #[must_use]
    pub fn pair_count(&self) -> usize {
        self.pairs.len()
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
        self.documents.push(DocumentChange { action, name, facts });
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
        self.pairs.push(*pair);
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
}

impl Search {
    /// A search of a collection for nothing yet: keywords and a formula are to be added.
    #[must_use]
    pub fn new(collection: u32) -> Self {
        Self {
            collection,
            keywords: Vec::new(),
            formula: Vec::new(),
            filters: Vec::new(),
            ranking: Ranking::None,
            ranked: 0,
            top: 0,
            padding: Padding::None,
        }
    }
}

impl Filter {
    /// A field is within these bounds, both included: for a value alone, both are the value.
    #[must_use]
    pub fn field(field: u8, from: i64, until: i64) -> Self {
        Self { of: Attribute::Field(field), from, until }
    }

    /// A keyword (its place in [`Search::keywords`]) occurs at least so often: once at the least.
    #[must_use]
    pub fn frequency(keyword: u16, at_least: u32) -> Self {
        Self { of: Attribute::Frequency(keyword), from: at_least.into(), until: i64::MAX }
    }

    /// The document is for this group.
    #[must_use]
    pub fn visibility(group: u32) -> Self {
        Self { of: Attribute::Visibility, from: group.into(), until: group.into() }
    }

    /// The document has at least so many terms.
    #[must_use]
    pub fn length(at_least: u32) -> Self {
        Self { of: Attribute::Length, from: at_least.into(), until: i64::MAX }
    }
}

impl Groups {
    /// Those of these numbers.
    #[must_use]
    pub fn only(groups: impl IntoIterator<Item = u32>) -> Self {
        Self::Only(groups.into_iter().map(Group).collect())
    }
}

impl Page {
    /// How many documents match in all, also those that top or padding left out.
    #[must_use]
    pub fn matches(&self) -> u32 {
        self.matches
    }

    /// Whether no other comes behind it. How many there are follows from the padding: there are such without a result.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// The results, best first if they are ranked.
    pub fn hits(&self) -> impl Iterator<Item = Hit> {
        self.slots.iter().copied().take(self.real as usize)
    }
}

/// A reply that comes in pages, as one.
#[derive(Debug, Default)]
pub struct Whole(Vec<Hit>);

impl Whole {
    /// Takes what came; the reply, once all of it is there: to a search all results in one page.
    #[must_use]
    pub fn take(&mut self, reply: Reply) -> Option<Reply> {
        let Reply::Found(page) = reply else { return Some(reply) };
        self.0.extend(page.hits());
        let hits = || std::mem::take(&mut self.0);
        page.is_last.then(hits).map(|hits| Reply::Found(Page::new(hits, 0, page.matches, true)))
    }
}

impl Ask {
    /// As it came out of the channel.
    ///
    /// # Errors
    /// [`Unreadable`] if it is not a request.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        decode(bytes).map_err(|_| Unreadable::Malformed)
    }

    /// As it goes into the channel.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }
}

impl Answer {
    /// As it goes into the channel.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// As it came out of the channel.
    ///
    /// # Errors
    /// [`Unreadable`] if it is not a reply.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        decode(bytes).map_err(|_| Unreadable::Malformed)
    }
}

impl Opened {
    /// Is it time for a compaction? A third of what is stored, and more than a few entries, are of no use: so each entry that is
    /// written anew is paid for by one that came.
    #[must_use]
    pub fn is_to_be_compacted(&self) -> bool {
        let stale = self.entries.saturating_sub(self.live_entries);
        stale > STALE_MIN && stale > self.entries / 3
    }
}

/// Entries of no use that are worth no compaction.
const STALE_MIN: u64 = 1024;

#[cfg(test)]
mod tests;
