//! The keywords of a document, with how often and where it has them.

use super::blocks::{self, Blocks};
use super::vocabulary::{Known, Vocabulary};
use super::{Analyzer, of_field};
use crate::formula::Field;
use crate::language::Language;

/// Different keywords of one document; of one that has more, the first so many.
pub const KEYWORDS_MAX: usize = 1_000_000;
/// Places of one document that are kept, for phrases: its first so many words.
pub const POSITIONS_MAX: usize = 4_000_000;
/// Keywords known at the end of a document beyond which all are forgotten before the next.
const VOCABULARY_MAX: usize = 500_000;
/// Bytes of all keywords known, likewise.
const VOCABULARY_BYTES_MAX: usize = 32 << 20;
/// Positions left out between two texts of one document, so that no phrase reaches from one into the other.
const GAP: u32 = 16;

/// What of a document is not in the index, because it has too much of it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Cut {
    /// Words whose keywords were left out, beyond [`KEYWORDS_MAX`] different ones.
    pub words: u64,
    /// Words that count, but that no phrase finds, beyond [`POSITIONS_MAX`].
    pub positions: u64,
}

/// A keyword of the document that is being read.
struct Slot {
    number: u32,
    frequency: u32,
    /// Of its places that are kept.
    positions: u32,
}

/// Reads documents by pieces and collects the keywords of each. Memory is bounded, however large the document: about 100 MB
/// for one with as much as [`KEYWORDS_MAX`] and [`POSITIONS_MAX`] let it have.
pub struct Collector {
    analyzer: Analyzer,
    /// For names and the like, in which every word says something.
    plain: Analyzer,
    vocabulary: Vocabulary,
    blocks: Blocks,
    keyword: String,
    /// For each keyword's number the document that had it last, and its place in `slots`.
    seen: Vec<(u64, u32)>,
    document: Document,
    sorted: Sorted,
}

/// What is known of the document that is being read.
#[derive(Default)]
struct Document {
    ordinal: u64,
    slots: Vec<Slot>,
    /// In the order of the text: the place in `slots`, the position.
    places: Vec<(u32, u32)>,
    next_position: u32,
    next_in_field: [u32; Field::COUNT],
    words: u64,
    cut: Cut,
}

/// The places of the finished document, by keyword.
#[derive(Default)]
struct Sorted {
    ends: Vec<u32>,
    positions: Vec<u32>,
}

/// A keyword of a document.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Keyword<'k> {
    /// Its number in the vocabulary that [`Keywords::vocabulary`] names.
    pub(crate) number: u32,
    /// The keyword.
    pub text: &'k str,
    /// How often the document has it.
    pub frequency: u32,
    /// Where: how many words are before it, ascending.
    pub positions: &'k [u32],
}

/// The keywords of a finished document.
pub struct Keywords<'k> {
    collector: &'k Collector,
}

impl Collector {
    /// Reads texts of a language.
    #[must_use]
    pub fn new(language: Language) -> Self {
        Self {
            analyzer: Analyzer::new(language),
            plain: Analyzer::new(Language::None),
            vocabulary: Vocabulary::default(),
            blocks: Blocks::default(),
            keyword: String::new(),
            seen: Vec::new(),
            document: Document::default(),
            sorted: Sorted::default(),
        }
    }

    /// Begins a document; what was read of another is forgotten.
    pub fn begin(&mut self) {
        self.blocks = Blocks::default();
        if self.vocabulary.len() > VOCABULARY_MAX || self.vocabulary.bytes() > VOCABULARY_BYTES_MAX {
            self.vocabulary.clear();
            self.seen.clear();
        }
        let document = &mut self.document;
        document.ordinal += 1;
        document.slots.clear();
        document.places.clear();
        document.next_position = 0;
        document.next_in_field = [0; Field::COUNT];
        document.words = 0;
        document.cut = Cut::default();
    }

    /// The next piece of the document's text. Pieces may end anywhere between letters: where does not matter.
    pub fn feed(&mut self, piece: &str) {
        // Taken out so that what is in it can be read while the rest changes.
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.feed(piece, |block| self.block(block));
        self.blocks = blocks;
    }

    /// The text has ended; another of the same document may follow, and no phrase spans both.
    pub fn end_text(&mut self) {
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.end(|block| self.block(block));
        self.blocks = blocks;
        self.document.next_position = self.document.next_position.saturating_add(GAP);
    }

    /// What a field of the document says. It may be called for one field several times; between two calls no phrase reaches.
    pub fn field(&mut self, field: Field, text: &str) {
        let mut position = self.document.next_in_field[field as usize];
        blocks::words(text, |word| {
            let analyzer = if field.is_prose() { &mut self.analyzer } else { &mut self.plain };
            if analyzer.keyword(word, &mut self.keyword) {
                let whole = of_field(field.name(), &self.keyword);
                let number = self.document.number(&mut self.vocabulary, &whole);
                self.document.note(&mut self.seen, number, position);
            }
            position = position.saturating_add(1);
        });
        self.document.next_in_field[field as usize] = position.saturating_add(GAP);
    }

    /// The document has ended: its keywords.
    pub fn finish(&mut self) -> Keywords<'_> {
        self.end_text();
        let Document { slots, places, .. } = &self.document;
        let Sorted { ends, positions } = &mut self.sorted;
        ends.clear();
        let mut end = 0;
        // First where each keyword's places begin, which filling in moves to where they end.
        for slot in slots {
            ends.push(end);
            end += slot.positions;
        }
        positions.clear();
        positions.resize(places.len(), 0);
        for (slot, position) in places {
            let end = &mut ends[*slot as usize];
            positions[*end as usize] = *position;
            *end += 1;
        }
        Keywords { collector: self }
    }

    fn block(&mut self, block: &str) {
        let Self { analyzer, vocabulary, keyword, seen, document, .. } = self;
        blocks::words(block, |word| {
            let position = document.next_position;
            document.next_position = position.saturating_add(1);
            document.words += 1;
            let number = match vocabulary.look_up(word) {
                Known::Silent => return,
                Known::Keyword(number) => document.admit(seen, number),
                Known::New => {
                    if !analyzer.keyword(word, keyword) {
                        vocabulary.remember(word, None);
                        return;
                    }
                    let number = document.number(vocabulary, keyword);
                    if number.is_some() {
                        vocabulary.remember(word, number);
                    }
                    number
                }
            };
            document.note(seen, number, position);
        });
    }
}

impl Document {
    /// The number of a keyword; none if it is new and the document has as many as it may.
    fn number(&self, vocabulary: &mut Vocabulary, keyword: &str) -> Option<u32> {
        let known = vocabulary.find(keyword);
        let full = self.slots.len() >= KEYWORDS_MAX;
        known.or_else(|| (!full).then(|| vocabulary.add(keyword)))
    }

    /// A keyword that an earlier document had, unless this one has as many others as it may.
    fn admit(&self, seen: &[(u64, u32)], number: u32) -> Option<u32> {
        let here = seen.get(number as usize).is_some_and(|(ordinal, _)| *ordinal == self.ordinal);
        (here || self.slots.len() < KEYWORDS_MAX).then_some(number)
    }

    /// The document has a keyword at a position.
    fn note(&mut self, seen: &mut Vec<(u64, u32)>, number: Option<u32>, position: u32) {
        let Some(number) = number.and_then(|number| self.admit(seen, number)) else {
            self.cut.words += 1;
            return;
        };
        let at = number as usize;
        if seen.len() <= at {
            seen.resize(at + 1, (0, 0));
        }
        if seen[at].0 != self.ordinal {
            seen[at] = (self.ordinal, self.slots.len() as u32);
            self.slots.push(Slot { number, frequency: 0, positions: 0 });
        }
        let place = seen[at].1;
        let slot = &mut self.slots[place as usize];
        slot.frequency = slot.frequency.saturating_add(1);
        if self.places.len() < POSITIONS_MAX {
            slot.positions += 1;
            self.places.push((place, position));
        } else {
            self.cut.positions += 1;
        }
    }
}

impl<'k> Keywords<'k> {
    /// Each keyword, in the order in which the document has them first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Keyword<'k>> + use<'k> {
        let Collector { vocabulary, document, sorted, .. } = self.collector;
        document.slots.iter().zip(&sorted.ends).map(|(slot, end)| Keyword {
            number: slot.number,
            text: vocabulary.get(slot.number),
            frequency: slot.frequency,
            positions: &sorted.positions[(end - slot.positions) as usize..*end as usize],
        })
    }

    /// Within which a number is always the same keyword's.
    pub(crate) fn vocabulary(&self) -> u64 {
        self.collector.vocabulary.forgotten
    }

    /// Words of the text, those that say nothing too.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.collector.document.words
    }

    /// What was left out.
    #[must_use]
    pub fn cut(&self) -> Cut {
        self.collector.document.cut
    }
}
