//! From text to keywords: words by Unicode's rules (UAX #29), in lower case and one normal form, without those that say
//! nothing, by their stems, without diacritics. What is indexed and what is asked for go through the same steps.
//!
//! Positions count every word, those that say nothing too, so that a phrase keeps its distances.

mod blocks;
mod collector;
mod vocabulary;

pub use collector::{Collector, Cut, KEYWORDS_MAX, Keyword, Keywords, POSITIONS_MAX};

use crate::language::Language;
use frostem::Stemmer;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::ops::Range;
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

/// Bytes of a keyword; what a longer word has behind them is cut off, in a document as in a query.
pub const KEYWORD_BYTES_MAX: usize = 128;

/// Between the name of a field and a keyword of it. A control character, so no word has it.
const FIELD_END: char = '\u{1f}';

/// Raised when the steps of the analysis change: see [`Analyzer::fingerprint`].
const STEPS: u8 = 1;

/// The steps from a word to its keyword, of one language.
pub struct Analyzer {
    language: Language,
    stop_words: HashSet<Box<str>>,
    stemmer: Option<Stemmer>,
    folded: String,
}

/// A word of a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Word {
    /// How many words are before it.
    pub position: u32,
    /// Where it is in the text, in bytes.
    pub place: Range<usize>,
    /// What it is searched by; nothing if it says nothing.
    pub keyword: Option<String>,
}

impl Analyzer {
    /// The analysis of a language.
    #[must_use]
    pub fn new(language: Language) -> Self {
        let mut analyzer =
            Self { language, stop_words: HashSet::new(), stemmer: language.stemmer(), folded: String::new() };
        let list = language.stop_words().iter().map(|word| analyzer.fold(word).into()).collect();
        analyzer.stop_words = list;
        analyzer
    }

    /// Its language.
    #[must_use]
    pub fn language(&self) -> Language {
        self.language
    }

    /// Of what a fixed list of words becomes: two indexes can be searched alike only if these are equal. Another release of
    /// the stemmer may change it.
    #[must_use]
    pub fn fingerprint(&mut self) -> [u8; 8] {
        let mut hash = Sha256::new();
        hash.update([STEPS]);
        hash.update(self.language.name());
        let mut keyword = String::new();
        for word in self.language.stop_words().iter().chain(&SAMPLE) {
            let folded = self.fold(word).to_owned();
            self.stem(&folded, &mut keyword);
            hash.update([u8::from(self.stop_words.contains(folded.as_str()))]);
            hash.update(keyword.as_bytes());
            hash.update([0]);
        }
        let whole: [u8; 32] = hash.finalize().into();
        let mut first = [0; 8];
        first.copy_from_slice(&whole[..8]);
        first
    }

    /// Every word of a text that is held whole, in order.
    pub fn words<'t>(&'t mut self, text: &'t str) -> impl Iterator<Item = Word> + 't {
        text.unicode_word_indices().zip(0..).map(move |((start, word), position)| {
            let mut keyword = String::new();
            let says = self.keyword(word, &mut keyword);
            Word { position, place: start..start + word.len(), keyword: says.then_some(keyword) }
        })
    }

    /// The keyword of a word into `keyword`; false if it says nothing.
    fn keyword(&mut self, word: &str, keyword: &mut String) -> bool {
        keyword.clear();
        self.fold(word);
        // Taken out while the stemmer reads it, put back to be used again.
        let folded = std::mem::take(&mut self.folded);
        let says = !self.stop_words.contains(folded.as_str());
        if says {
            self.stem(&folded, keyword);
        }
        self.folded = folded;
        says
    }

    /// A word in lower case and one normal form, cut to the bytes of a keyword.
    fn fold(&mut self, word: &str) -> &str {
        let out = &mut self.folded;
        out.clear();
        let turkish = self.language == Language::Turkish;
        for letter in word.nfkc() {
            match letter {
                'I' if turkish => out.push('ı'),
                'İ' => out.push('i'),
                // A soft hyphen is where a line may break, not a letter.
                '\u{ad}' => {}
                '\u{2019}' | '\u{ff07}' => out.push('\''),
                'Σ' | 'ς' => out.push('σ'),
                _ => out.extend(letter.to_lowercase()),
            }
            if out.len() >= KEYWORD_BYTES_MAX {
                out.truncate(out.floor_char_boundary(KEYWORD_BYTES_MAX));
                break;
            }
        }
        out
    }

    fn stem(&self, folded: &str, keyword: &mut String) {
        keyword.clear();
        let stem = self.stemmer.as_ref().map(|stemmer| stemmer.stem(folded));
        let stem = stem.as_deref().unwrap_or(folded);
        if stem.is_ascii() {
            keyword.push_str(stem);
        } else {
            // Stemmers know letters with their marks, and who asks often leaves them out. Only the marks that Latin, Greek
            // and Cyrillic have: elsewhere they are vowels.
            let bare = stem.nfd().filter(|letter| !('\u{300}'..='\u{36f}').contains(letter));
            keyword.extend(bare.nfc());
            keyword.truncate(keyword.floor_char_boundary(KEYWORD_BYTES_MAX));
        }
    }
}

/// The keyword of a word in a field: no word of the text itself is taken for it.
pub(crate) fn of_field(field: &str, keyword: &str) -> String {
    [field, FIELD_END.encode_utf8(&mut [0; 4]), keyword].concat()
}

/// Words whose stems tell releases of a stemmer apart.
const SAMPLE: [&str; 24] = [
    "running",
    "Whales",
    "relational",
    "generously",
    "skies",
    "happiness",
    "automaten",
    "entwicklung",
    "häuser",
    "finalement",
    "chevaux",
    "programación",
    "corriendo",
    "belleza",
    "cavalli",
    "bilarna",
    "husene",
    "taloissa",
    "könyvek",
    "кораблями",
    "kitaplardan",
    "navios",
    "schepen",
    "it's",
];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
