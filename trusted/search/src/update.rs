//! From documents to the enclave's updates, each as full as one may be.

use crate::analysis::Keywords;
use crate::search::{DATE, SIZE};
use arras_schemes::bisen::update::{
    DOCUMENTS_MAX, DocumentAction, Facts, Field, Metadata, Operation, PAIRS_MAX, POSITION_MAX, Pair, Update,
};
use arras_schemes::bisen::{DocumentName, KeywordHash, Salt};
use sha2::{Digest, Sha256};

/// Places of one keyword in one document that phrases find: its first so many. As many as one call holds, with room to spare.
pub const PLACES_MAX: usize = 65_536;

/// What filters know of a document.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Numbers {
    /// Seconds since 1970, UTC.
    pub date: i64,
    /// Bytes.
    pub size: i64,
}

/// The name under which the enclave knows a document: of what the client calls it.
#[must_use]
pub fn document_name(called: &str) -> DocumentName {
    let mut hash = Sha256::new();
    hash.update(b"arras search document\0");
    hash.update(called);
    let whole: [u8; 32] = hash.finalize().into();
    let (halves, _) = whole.as_chunks::<16>();
    DocumentName(halves[0])
}

/// Fills updates. A document that does not fit into one is a draft in each but the last, which publishes it: searches find all
/// of it or nothing.
pub struct Filler {
    salt: Salt,
    update: Update,
    /// Of keywords by their number in a vocabulary, computed once.
    hashes: Vec<Option<KeywordHash>>,
    vocabulary: u64,
}

impl Filler {
    /// Fills updates of a collection.
    #[must_use]
    pub fn new(collection: u32, salt: Salt) -> Self {
        Self { salt, update: Update::new(collection), hashes: Vec::new(), vocabulary: 0 }
    }

    /// Adds a document, in place of the one of this name if there is one. Passes on each update that is full.
    ///
    /// # Errors
    /// What `full` returns; the document is then in part.
    pub fn document<E>(
        &mut self,
        name: DocumentName,
        numbers: Numbers,
        keywords: &Keywords<'_>,
        mut full: impl FnMut(Update) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.vocabulary != keywords.vocabulary() {
            self.vocabulary = keywords.vocabulary();
            self.hashes.clear();
        }
        let facts = facts(numbers, keywords.words());
        let needed: usize = keywords.iter().map(|keyword| pairs_of(keyword.positions)).sum();
        if self.update.pair_count() + needed > PAIRS_MAX {
            self.flush(&mut full)?;
        }
        self.make_room(&mut full)?;
        let whole = needed <= PAIRS_MAX;
        let action = if whole { DocumentAction::NewPublished } else { DocumentAction::New };
        let mut slot = self.slot(action, name, facts);
        let mut left = needed;
        for keyword in keywords.iter() {
            let pairs = pairs_of(keyword.positions);
            if self.update.pair_count() + pairs > PAIRS_MAX {
                self.flush(&mut full)?;
                let last = left <= PAIRS_MAX;
                let action = if last { DocumentAction::DraftPublished } else { DocumentAction::Draft };
                slot = self.slot(action, name, facts);
            }
            left -= pairs;
            let hash = self.hash(keyword.number, keyword.text);
            self.pairs(slot, hash, keyword.frequency, keyword.positions);
        }
        Ok(())
    }

    /// Removes a document.
    ///
    /// # Errors
    /// What `full` returns.
    pub fn remove<E>(
        &mut self,
        name: DocumentName,
        mut full: impl FnMut(Update) -> Result<(), E>,
    ) -> Result<(), E> {
        self.make_room(&mut full)?;
        self.slot(DocumentAction::Retire, name, Facts::default());
        Ok(())
    }

    /// Passes on what is there, if anything is.
    ///
    /// # Errors
    /// What `full` returns.
    pub fn flush<E>(&mut self, mut full: impl FnMut(Update) -> Result<(), E>) -> Result<(), E> {
        if self.update.document_count() == 0 {
            return Ok(());
        }
        let empty = Update::new(self.update.collection);
        full(std::mem::replace(&mut self.update, empty))
    }

    /// How many documents the update that is being filled has.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.update.document_count()
    }

    fn make_room<E>(&mut self, full: &mut impl FnMut(Update) -> Result<(), E>) -> Result<(), E> {
        if self.update.document_count() >= DOCUMENTS_MAX { self.flush(full) } else { Ok(()) }
    }

    fn slot(&mut self, action: DocumentAction, name: DocumentName, facts: Facts) -> u32 {
        // There is room: both ways here made it.
        self.update.document(action, name, facts).unwrap_or_default()
    }

    fn hash(&mut self, number: u32, keyword: &str) -> KeywordHash {
        let at = number as usize;
        if self.hashes.len() <= at {
            self.hashes.resize(at + 1, None);
        }
        *self.hashes[at].get_or_insert_with(|| KeywordHash::of(&self.salt, keyword.as_bytes()))
    }

    fn pairs(&mut self, slot: u32, keyword: KeywordHash, frequency: u32, positions: &[u32]) {
        let positions = kept(positions);
        let (first, more) = positions.split_at(positions.len().min(3));
        let mut add = |operation, metadata| {
            // As above.
            let _ = self.update.pair(&Pair { operation, keyword, slot, metadata });
        };
        add(Operation::Add, Metadata::first(frequency, first));
        more.chunks(4).for_each(|piece| add(Operation::Continue, Metadata::more(piece)));
    }
}

/// The places that an update names.
fn kept(positions: &[u32]) -> &[u32] {
    let within = positions.partition_point(|position| *position <= POSITION_MAX);
    &positions[..within.min(PLACES_MAX)]
}

fn pairs_of(positions: &[u32]) -> usize {
    Update::pairs_for(kept(positions).len())
}

fn facts(numbers: Numbers, words: u64) -> Facts {
    let mut facts = Facts { length: u32::try_from(words).unwrap_or(u32::MAX), ..Facts::default() };
    facts.fields[usize::from(DATE)] = Field(numbers.date);
    facts.fields[usize::from(SIZE)] = Field(numbers.size);
    facts
}
