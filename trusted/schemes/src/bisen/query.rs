//! Searches: a boolean formula over keywords, filters, ranking, padding.

use super::KeywordHash;
use postcard::fixint::le;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

#[cfg(feature = "bisen-client")]
pub use super::client::{DEPTH_MAX, FILTERS_MAX, Malformed, MalformedWhy};

/// Most different keywords in a search.
pub const KEYWORDS_MAX: usize = 256;

/// Most steps in a formula.
pub const STEPS_MAX: usize = 1024;

/// Most words in a phrase.
pub const PHRASE_MAX: usize = 32;

/// Most results of a ranked search.
pub const TOP_MAX: u32 = 10_000;

/// Most results that a padding asks for.
pub const PADDED_MAX: u32 = 1_000_000;

/// A word of a phrase: its keyword's place in [`Search::keywords`], and its distance in terms from the phrase's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhraseWord(#[serde(with = "le")] pub u16, #[serde(with = "le")] pub u16);

/// A step of a formula in postfix form: operands first. What has no such place in [`Search::keywords`] is in no document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// The documents in which a keyword occurs: its place in [`Search::keywords`].
    Keyword(#[serde(with = "le")] u16),
    /// The documents in which keywords stand at these distances from one another, the first distance being 0.
    Phrase(Vec<PhraseWord>),
    /// All documents.
    All,
    /// The documents that are not in the last operand.
    Not,
    /// The documents that are in both of the last two operands.
    And,
    /// The documents that are in one of the last two operands.
    Or,
}

/// What a filter looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attribute {
    /// One of the document's declared fields.
    Field(u8),
    /// The group that the document is for. What groups the client may see at all, its rights say.
    Visibility,
    /// How many terms it has.
    Length,
    /// How often a keyword (its place in [`Search::keywords`]) occurs, in documents where it does.
    Frequency(#[serde(with = "le")] u16),
}

/// A condition that results must satisfy, whatever the formula: an attribute is within these bounds, both included. Filters compose: all
/// of them hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Of what.
    pub of: Attribute,
    /// The lower bound.
    #[serde(with = "le")]
    pub from: i64,
    /// The upper bound.
    #[serde(with = "le")]
    pub until: i64,
}

/// By what results are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ranking {
    /// By nothing that means something: the order in which documents came.
    None,
    /// Sum over the keywords that count of `(1 + ln tf) ln(N / df)`.
    TfIdf,
    /// Okapi BM25 with k1 = 1.2 and b = 0.75 over the keywords that count, `idf = ln(1 + (N - df + 0.5) / (df + 0.5))`.
    Bm25,
}

/// To how many results an answer is filled up, so that its length does not show how many there are. The greater hides more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Padding {
    /// To the next coarse class of lengths.
    None,
    /// To a power of two.
    PowerOfTwo,
    /// To this number always; further results are left out.
    Fixed(#[serde(with = "le")] u32),
}

impl Padding {
    /// Whether it asks for a number that can be had.
    #[must_use]
    pub fn is_bounded(self) -> bool {
        !matches!(self, Self::Fixed(slots) if !(1..=PADDED_MAX).contains(&slots))
    }

    /// To how many slots `count` results are filled up.
    #[must_use]
    pub fn slots(self, count: u32) -> u32 {
        match self {
            Self::None => {
                let eighth = 1 << (count / 8).max(8).ilog2();
                count.div_ceil(eighth).max(1).saturating_mul(eighth)
            }
            Self::PowerOfTwo => count.max(1).next_power_of_two(),
            Self::Fixed(slots) => slots,
        }
    }
}

/// A search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// The collection's number, from [`super::message::Opened`].
    pub collection: u32,
    /// Its keywords, each once.
    pub keywords: Vec<KeywordHash>,
    /// What of them is looked for.
    pub formula: Vec<Step>,
    /// What results must satisfy besides.
    pub filters: Vec<Filter>,
    /// By what they are ordered.
    pub ranking: Ranking,
    /// How many of the keywords, from the first, count for that.
    #[serde(with = "le")]
    pub ranked: u16,
    /// How many of them at most; 0 is all of them, or [`TOP_MAX`] of a ranked search.
    #[serde(with = "le")]
    pub top: u32,
    /// To how many the answer is filled up. The collection may ask for more.
    pub padding: Padding,
}

impl Search {
    /// How many operands wait at once, at most, while it is evaluated; none if it cannot be. What is wrong then, and what says nothing in it,
    /// clients find out themselves.
    #[must_use]
    pub fn depth(&self) -> Option<usize> {
        let (mut waiting, mut depth) = (0_usize, 0);
        for step in &self.formula {
            let taken = match step {
                Step::Phrase(words) if words.len() > PHRASE_MAX => return None,
                Step::Keyword(_) | Step::Phrase(_) | Step::All => 0,
                Step::Not => 1,
                Step::And | Step::Or => 2,
            };
            waiting = waiting.checked_sub(taken)? + 1;
            depth = depth.max(waiting);
        }
        let listed: HashSet<_> = self.keywords.iter().collect();
        let is_short = self.keywords.len() <= KEYWORDS_MAX && self.formula.len() <= STEPS_MAX;
        let fits = is_short && self.padding.is_bounded() && listed.len() == self.keywords.len();
        (fits && waiting == 1).then_some(depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paddings_hold_their_results() {
        for count in (0..3000).chain([1 << 20, (1 << 20) + 1]) {
            let coarse = Padding::None.slots(count);
            assert!(coarse >= count && coarse <= count + (count / 8).max(8), "{count}: {coarse}");
            assert!(Padding::PowerOfTwo.slots(count) >= count.max(1));
            assert_eq!(Padding::Fixed(5).slots(count), 5);
        }
    }
}
