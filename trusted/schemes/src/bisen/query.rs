//! Searches: a boolean formula over keywords, filters, ranking, padding.

use super::{FIELDS_MAX, KeywordHash};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Most different keywords in a search.
pub const KEYWORDS_MAX: usize = 256;

/// Most steps in a formula.
pub const STEPS_MAX: usize = 1024;

/// Most operands that wait at once while a formula is evaluated: how deep it may be nested.
pub const DEPTH_MAX: usize = 32;

/// Most words in a phrase.
pub const PHRASE_MAX: usize = 32;

/// Most filters in a search.
pub const FILTERS_MAX: usize = 16;

/// Most results of a ranked search.
pub const TOP_MAX: u32 = 10_000;

/// Most results that a padding asks for.
pub const PADDED_MAX: u32 = 1_000_000;

/// A step of a formula in postfix form: operands first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// The documents in which a keyword occurs: its place in [`Search::keywords`].
    Keyword(u16),
    /// The documents in which keywords stand at these distances from one another: (place in [`Search::keywords`], distance in terms from the
    /// phrase's first word), the first distance being 0.
    Phrase(Vec<(u16, u16)>),
    /// All documents.
    All,
    /// The documents that are not in the last operand.
    Not,
    /// The documents that are in both of the last two operands.
    And,
    /// The documents that are in one of the last two operands.
    Or,
}

/// A condition that results must satisfy, whatever the formula. Filters compose: all of them hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Filter {
    /// A keyword (its place in [`Search::keywords`]) occurs at least so often.
    Frequency {
        /// The keyword.
        keyword: u16,
        /// How often: once at the least.
        at_least: u32,
    },
    /// A field is within these bounds, both included: for a value alone, both are the value.
    Range {
        /// Which of the collection's fields.
        field: u8,
        /// The lower bound.
        from: i64,
        /// The upper bound.
        until: i64,
    },
    /// The document is for this group. What groups the client may see at all, its rights say.
    Visibility(u32),
    /// The document has at least so many terms.
    Length(u32),
}

/// By what results are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ranking {
    /// By nothing that means something: the order in which documents came.
    None,
    /// Sum over the keywords that are not negated of `(1 + ln tf) ln(N / df)`.
    TfIdf,
    /// Okapi BM25 with k1 = 1.2 and b = 0.75 over the keywords that are not negated, `idf = ln(1 + (N - df + 0.5) / (df + 0.5))`.
    Bm25,
}

/// To how many results an answer is filled up, so that its length does not show how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Padding {
    /// To the next coarse class of lengths.
    None,
    /// To a power of two.
    PowerOfTwo,
    /// To this number always; further results are left out.
    Fixed(u32),
}

impl Padding {
    /// Whether it asks for a number that can be had.
    #[must_use]
    pub fn is_bounded(self) -> bool {
        match self {
            Self::None | Self::PowerOfTwo => true,
            Self::Fixed(slots) => (1..=PADDED_MAX).contains(&slots),
        }
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
    /// How many of them at most; 0 is all of them, or [`TOP_MAX`] of a ranked search.
    pub top: u32,
    /// To how many the answer is filled up. The collection may ask for more.
    pub padding: Padding,
}

/// Why a formula cannot be evaluated, and at which of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Malformed {
    /// Which step, from 0; the number of steps if it ends too early.
    pub step: u32,
    /// What is wrong there.
    pub why: MalformedWhy,
}

/// What is wrong with a formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MalformedWhy {
    /// An operator without its operands.
    Operand,
    /// The formula ends with several operands, or none.
    End,
    /// A keyword that is not in the list, or is there twice.
    Keyword,
    /// A phrase that is too long, too short, or whose first distance is not 0.
    Phrase,
    /// Too deeply nested.
    Depth,
    /// Too many steps, keywords or filters, or a filter or number of results out of bounds.
    Bound,
}

/// What a formula takes, from [`Search::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How many operands wait at once, at most.
    pub depth: usize,
    /// Of each keyword: whether it stands somewhere that is not negated, so that it counts for ranking.
    pub ranked: Vec<bool>,
}

impl Search {
    /// Whether it can be evaluated.
    ///
    /// # Errors
    /// [`Malformed`] with the place.
    pub fn check(&self) -> Result<Plan, Malformed> {
        let steps = self.formula.len();
        let end = |why| Malformed { step: u32::try_from(steps).unwrap_or(u32::MAX), why };
        let top_max = if self.ranking == Ranking::None { u32::MAX } else { TOP_MAX };
        let bounded = steps <= STEPS_MAX
            && self.keywords.len() <= KEYWORDS_MAX
            && self.filters.len() <= FILTERS_MAX
            && self.top <= top_max;
        let fit = self.filters.iter().all(|filter| self.holds(filter));
        if !(bounded && fit && self.padding.is_bounded()) {
            return Err(end(MalformedWhy::Bound));
        }
        let mut listed = HashSet::new();
        if !self.keywords.iter().all(|keyword| listed.insert(keyword.0)) {
            return Err(end(MalformedWhy::Keyword));
        }
        let (mut waiting, mut depth) = (0_usize, 0);
        for (step, at) in self.formula.iter().zip(0_u32..) {
            let wrong = |why| Malformed { step: at, why };
            waiting = self.stacked(step, waiting).map_err(wrong)?;
            depth = depth.max(waiting);
            if depth > DEPTH_MAX {
                return Err(wrong(MalformedWhy::Depth));
            }
        }
        if waiting != 1 {
            return Err(end(MalformedWhy::End));
        }
        Ok(Plan { depth, ranked: self.ranked() })
    }

    /// How many operands wait after a step.
    fn stacked(&self, step: &Step, waiting: usize) -> Result<usize, MalformedWhy> {
        let listed = |keyword: u16| usize::from(keyword) < self.keywords.len();
        match step {
            Step::Keyword(keyword) if !listed(*keyword) => Err(MalformedWhy::Keyword),
            Step::Phrase(words) if !words.iter().all(|word| listed(word.0)) => Err(MalformedWhy::Keyword),
            Step::Phrase(words)
                if words.len() > PHRASE_MAX || words.first().is_none_or(|(_, distance)| *distance != 0) =>
            {
                Err(MalformedWhy::Phrase)
            }
            Step::Keyword(_) | Step::Phrase(_) | Step::All => Ok(waiting + 1),
            Step::Not if waiting >= 1 => Ok(waiting),
            Step::And | Step::Or if waiting >= 2 => Ok(waiting - 1),
            Step::Not | Step::And | Step::Or => Err(MalformedWhy::Operand),
        }
    }

    fn holds(&self, filter: &Filter) -> bool {
        match filter {
            Filter::Frequency { keyword, at_least } => {
                *at_least > 0 && usize::from(*keyword) < self.keywords.len()
            }
            Filter::Range { field, .. } => usize::from(*field) < FIELDS_MAX,
            Filter::Visibility(_) | Filter::Length(_) => true,
        }
    }

    /// From its end a postfix formula reads as a prefix one: each operator hands its sign to its operands.
    fn ranked(&self) -> Vec<bool> {
        let mut ranked = vec![false; self.keywords.len()];
        let mut signs = vec![true];
        for step in self.formula.iter().rev() {
            let Some(sign) = signs.pop() else { break };
            match step {
                Step::Keyword(keyword) => ranked[usize::from(*keyword)] |= sign,
                Step::Phrase(words) => {
                    words.iter().for_each(|(keyword, _)| ranked[usize::from(*keyword)] |= sign);
                }
                Step::All => {}
                Step::Not => signs.push(!sign),
                Step::And | Step::Or => signs.extend([sign, sign]),
            }
        }
        ranked
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn search(formula: Vec<Step>) -> Search {
        let keywords = (0..3).map(|keyword| KeywordHash([keyword; 16])).collect();
        Search { keywords, formula, ..Search::new(0) }
    }

    #[test]
    fn what_can_be_evaluated_is_and_what_is_negated_does_not_count() {
        // (0 OR NOT 1) AND NOT (NOT 2)
        let formula = vec![
            Step::Keyword(0),
            Step::Keyword(1),
            Step::Not,
            Step::Or,
            Step::Keyword(2),
            Step::Not,
            Step::Not,
            Step::And,
        ];
        let plan = search(formula).check().unwrap();
        assert_eq!((plan.depth, plan.ranked), (2, vec![true, false, true]));
        let phrase = vec![Step::Phrase(vec![(0, 0), (2, 1)]), Step::Not, Step::All, Step::And];
        let plan = search(phrase).check().unwrap();
        assert_eq!(plan.ranked, vec![false; 3]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let at = |formula: Vec<Step>| {
            let wrong = search(formula).check().unwrap_err();
            (wrong.step, wrong.why)
        };
        assert_eq!(at(vec![]), (0, MalformedWhy::End));
        assert_eq!(at(vec![Step::All, Step::All]), (2, MalformedWhy::End));
        assert_eq!(at(vec![Step::All, Step::And]), (1, MalformedWhy::Operand));
        assert_eq!(at(vec![Step::Not]), (0, MalformedWhy::Operand));
        assert_eq!(at(vec![Step::Keyword(3)]), (0, MalformedWhy::Keyword));
        assert_eq!(at(vec![Step::All, Step::Phrase(vec![(7, 0)])]), (1, MalformedWhy::Keyword));
        assert_eq!(at(vec![Step::Phrase(vec![])]), (0, MalformedWhy::Phrase));
        assert_eq!(at(vec![Step::Phrase(vec![(0, 1)])]), (0, MalformedWhy::Phrase));
        assert_eq!(at(vec![Step::All; DEPTH_MAX + 1]), (DEPTH_MAX as u32, MalformedWhy::Depth));
        let steps = vec![Step::All; STEPS_MAX + 1];
        assert_eq!(at(steps), (STEPS_MAX as u32 + 1, MalformedWhy::Bound));
        let filters = vec![Filter::Range { field: 4, from: 0, until: 0 }];
        let bad = Search { filters, ..search(vec![Step::All]) };
        assert_eq!(bad.check().unwrap_err().why, MalformedWhy::Bound);
        let bad = Search { padding: Padding::Fixed(0), ..search(vec![Step::All]) };
        assert_eq!(bad.check().unwrap_err().why, MalformedWhy::Bound);
    }

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
