//! Numbers for keywords, and what the words seen so far became, so that a word is folded and stemmed once and not at
//! each place it stands.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// Bytes of words remembered; beyond them they are forgotten and remembered anew.
const WORDS_BYTES_MAX: usize = 8 << 20;
/// Bytes of a word worth remembering.
const WORD_BYTES_MAX: usize = 64;
/// The number of what says nothing.
const SILENT: u32 = u32::MAX;

/// Strings one after the other, by number.
#[derive(Default)]
struct Strings {
    text: String,
    ends: Vec<u32>,
}

impl Strings {
    fn get(&self, number: u32) -> &str {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.ends[number - 1] as usize };
        &self.text[start..self.ends[number] as usize]
    }

    fn push(&mut self, text: &str) -> u32 {
        let number = self.ends.len() as u32;
        self.text.push_str(text);
        self.ends.push(self.text.len() as u32);
        number
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }
}

/// Keywords and their numbers. The hash is keyed at random, so that no document is made to be slow.
#[derive(Default)]
pub(super) struct Vocabulary {
    /// How often everything was forgotten: numbers are of one such time.
    pub(super) forgotten: u64,
    hasher: DefaultHashBuilder,
    keywords: Strings,
    by_keyword: HashTable<u32>,
    words: Strings,
    /// The keyword of each word, or [`SILENT`].
    became: Vec<u32>,
    by_word: HashTable<u32>,
}

/// What is known of a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Known {
    /// Its keyword's number.
    Keyword(u32),
    /// It says nothing.
    Silent,
    /// It is new.
    New,
}

impl Vocabulary {
    /// How many keywords have numbers.
    pub(super) fn len(&self) -> usize {
        self.keywords.ends.len()
    }

    /// Bytes of all keywords.
    pub(super) fn bytes(&self) -> usize {
        self.keywords.text.len()
    }

    /// The keyword of a number.
    pub(super) fn get(&self, number: u32) -> &str {
        self.keywords.get(number)
    }

    /// What a word, as it is written, became before.
    pub(super) fn look_up(&self, word: &str) -> Known {
        let hash = self.hasher.hash_one(word);
        let found = self.by_word.find(hash, |number| self.words.get(*number) == word);
        match found.map(|number| self.became[*number as usize]) {
            Some(SILENT) => Known::Silent,
            Some(keyword) => Known::Keyword(keyword),
            None => Known::New,
        }
    }

    /// Remembers that a word became a keyword, or nothing.
    pub(super) fn remember(&mut self, word: &str, keyword: Option<u32>) {
        if word.len() > WORD_BYTES_MAX {
            return;
        }
        if self.words.text.len() > WORDS_BYTES_MAX {
            self.words.clear();
            self.became.clear();
            self.by_word.clear();
        }
        let number = self.words.push(word);
        self.became.push(keyword.unwrap_or(SILENT));
        let (hasher, words) = (&self.hasher, &self.words);
        self.by_word
            .insert_unique(hasher.hash_one(word), number, |number| hasher.hash_one(words.get(*number)));
    }

    /// The number of a keyword, if it has one.
    pub(super) fn find(&self, keyword: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(keyword);
        self.by_keyword.find(hash, |number| self.keywords.get(*number) == keyword).copied()
    }

    /// A number for a keyword that has none.
    pub(super) fn add(&mut self, keyword: &str) -> u32 {
        let number = self.keywords.push(keyword);
        let (hasher, keywords) = (&self.hasher, &self.keywords);
        self.by_keyword
            .insert_unique(hasher.hash_one(keyword), number, |number| hasher.hash_one(keywords.get(*number)));
        number
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.forgotten += 1;
        self.keywords.clear();
        self.by_keyword.clear();
        self.words.clear();
        self.became.clear();
        self.by_word.clear();
    }
}
