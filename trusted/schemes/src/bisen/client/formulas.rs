//! Formulas as a client looks at them before it asks: what is wrong with one, and which of its keywords count for ranking. The enclave
//! refuses what it cannot evaluate, and says no more than that.

use crate::bisen::FIELDS_MAX;
use crate::bisen::query::{
    Attribute, DEPTH_MAX, FILTERS_MAX, KEYWORDS_MAX, PHRASE_MAX, Ranking, STEPS_MAX, Search, Step, TOP_MAX,
};
use std::collections::HashSet;

/// Why a formula cannot be evaluated, and at which of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Which step, from 0; the number of steps if it ends too early.
    pub step: u32,
    /// What is wrong there.
    pub why: MalformedWhy,
}

/// What is wrong with a formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Search {
    /// Whether it can be evaluated.
    ///
    /// # Errors
    /// [`Malformed`] with the place.
    pub fn check(&self) -> Result<(), Malformed> {
        let steps = self.formula.len();
        let end = |why| Malformed { step: u32::try_from(steps).unwrap_or(u32::MAX), why };
        let top_max = if self.ranking == Ranking::None { u32::MAX } else { TOP_MAX };
        let bounded = steps <= STEPS_MAX
            && self.keywords.len() <= KEYWORDS_MAX
            && self.filters.len() <= FILTERS_MAX
            && self.top <= top_max;
        let fit = self.filters.iter().all(|filter| match filter.of {
            Attribute::Field(field) => usize::from(field) < FIELDS_MAX,
            Attribute::Frequency(keyword) => filter.from > 0 && usize::from(keyword) < self.keywords.len(),
            Attribute::Visibility | Attribute::Length => true,
        });
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
            waiting = self.waiting_after(step, waiting).map_err(wrong)?;
            depth = depth.max(waiting);
            if depth > DEPTH_MAX {
                return Err(wrong(MalformedWhy::Depth));
            }
        }
        if waiting != 1 {
            return Err(end(MalformedWhy::End));
        }
        Ok(())
    }

    /// How many operands wait after a step.
    fn waiting_after(&self, step: &Step, waiting: usize) -> Result<usize, MalformedWhy> {
        let listed = |keyword: u16| usize::from(keyword) < self.keywords.len();
        match step {
            Step::Keyword(keyword) if !listed(*keyword) => Err(MalformedWhy::Keyword),
            Step::Phrase(words) if !words.iter().all(|word| listed(word.0)) => Err(MalformedWhy::Keyword),
            Step::Phrase(words)
                if words.len() > PHRASE_MAX || words.first().is_none_or(|word| word.1 != 0) =>
            {
                Err(MalformedWhy::Phrase)
            }
            Step::Keyword(_) | Step::Phrase(_) | Step::All => Ok(waiting + 1),
            Step::Not if waiting >= 1 => Ok(waiting),
            Step::And | Step::Or if waiting >= 2 => Ok(waiting - 1),
            Step::Not | Step::And | Step::Or => Err(MalformedWhy::Operand),
        }
    }

    /// Orders results by the keywords that stand somewhere where they are not negated: these come first among its keywords.
    #[must_use]
    pub fn ranked_by(mut self, ranking: Ranking) -> Self {
        let ranked = self.are_ranked();
        let mut order: Vec<usize> = (0..self.keywords.len()).collect();
        order.sort_by_key(|keyword| !ranked[*keyword]);
        let mut places = vec![0; order.len()];
        for (place, keyword) in (0..).zip(&order) {
            places[*keyword] = place;
        }
        self.keywords = order.iter().map(|keyword| self.keywords[*keyword]).collect();
        let renamed = |keyword: &mut u16| {
            *keyword = places.get(usize::from(*keyword)).copied().unwrap_or(*keyword);
        };
        for step in &mut self.formula {
            match step {
                Step::Keyword(keyword) => renamed(keyword),
                Step::Phrase(words) => words.iter_mut().for_each(|word| renamed(&mut word.0)),
                Step::All | Step::Not | Step::And | Step::Or => {}
            }
        }
        for filter in &mut self.filters {
            if let Attribute::Frequency(keyword) = &mut filter.of {
                renamed(keyword);
            }
        }
        self.ranked = ranked.iter().filter(|ranked| **ranked).count() as u16;
        self.ranking = ranking;
        self
    }

    /// From its end a postfix formula reads as a prefix one: each operator hands its sign to its operands.
    fn are_ranked(&self) -> Vec<bool> {
        let mut ranked = vec![false; self.keywords.len()];
        let mut mark = |keyword: u16, sign| {
            ranked.get_mut(usize::from(keyword)).into_iter().for_each(|ranked: &mut bool| *ranked |= sign);
        };
        let mut signs = vec![true];
        for step in self.formula.iter().rev() {
            let Some(sign) = signs.pop() else { break };
            match step {
                Step::Keyword(keyword) => mark(*keyword, sign),
                Step::Phrase(words) => words.iter().for_each(|word| mark(word.0, sign)),
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
    use crate::bisen::KeywordHash;
    use crate::bisen::query::{Filter, PADDED_MAX, Padding, PhraseWord};

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
        let asked = search(formula);
        assert_eq!(
            (asked.check(), asked.depth(), asked.are_ranked()),
            (Ok(()), Some(2), vec![true, false, true])
        );
        let mut filtered = asked.clone();
        filtered.filters = vec![Filter::frequency(1, 2)];
        let ranked = filtered.ranked_by(Ranking::TfIdf);
        assert_eq!((ranked.ranked, ranked.are_ranked()), (2, vec![true, true, false]));
        assert_eq!(ranked.filters, [Filter::frequency(2, 2)]);
        let words = |search: &Search| -> Vec<KeywordHash> {
            let places = search.formula.iter().filter_map(|step| match step {
                Step::Keyword(keyword) => Some(search.keywords[usize::from(*keyword)]),
                _ => None,
            });
            places.collect()
        };
        assert_eq!(words(&ranked), words(&asked));
        let phrase =
            vec![Step::Phrase(vec![PhraseWord(0, 0), PhraseWord(2, 1)]), Step::Not, Step::All, Step::And];
        assert_eq!(search(phrase).are_ranked(), vec![false; 3]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let at = |formula: Vec<Step>| {
            let wrong = search(formula).check().unwrap_err();
            (wrong.step, wrong.why)
        };
        let long = vec![PhraseWord(0, 0); PHRASE_MAX + 1];
        assert_eq!(at(vec![Step::Phrase(long.clone())]), (0, MalformedWhy::Phrase));
        for formula in [
            vec![],
            vec![Step::All, Step::All],
            vec![Step::All, Step::And],
            vec![Step::Not],
            vec![Step::Phrase(long)],
            vec![Step::All; STEPS_MAX + 1],
        ] {
            assert_eq!(search(formula).depth(), None, "the enclave would take it");
        }
        assert_eq!(at(vec![]), (0, MalformedWhy::End));
        assert_eq!(at(vec![Step::All, Step::All]), (2, MalformedWhy::End));
        assert_eq!(at(vec![Step::All, Step::And]), (1, MalformedWhy::Operand));
        assert_eq!(at(vec![Step::Not]), (0, MalformedWhy::Operand));
        assert_eq!(at(vec![Step::Keyword(3)]), (0, MalformedWhy::Keyword));
        assert_eq!(at(vec![Step::All, Step::Phrase(vec![PhraseWord(7, 0)])]), (1, MalformedWhy::Keyword));
        assert_eq!(at(vec![Step::Phrase(vec![])]), (0, MalformedWhy::Phrase));
        assert_eq!(at(vec![Step::Phrase(vec![PhraseWord(0, 1)])]), (0, MalformedWhy::Phrase));
        assert_eq!(at(vec![Step::All; DEPTH_MAX + 1]), (DEPTH_MAX as u32, MalformedWhy::Depth));
        let steps = vec![Step::All; STEPS_MAX + 1];
        assert_eq!(at(steps), (STEPS_MAX as u32 + 1, MalformedWhy::Bound));
        for filter in [Filter::field(4, 0, 0), Filter::frequency(0, 0), Filter::frequency(3, 1)] {
            let bad = Search { filters: vec![filter], ..search(vec![Step::All]) };
            assert_eq!(bad.check().unwrap_err().why, MalformedWhy::Bound);
        }
        let hash = |number: u16| KeywordHash([number.to_be_bytes(); 8].as_flattened().try_into().unwrap());
        let all = || search(vec![Step::All]);
        let bad = Search { filters: vec![Filter::length(1); FILTERS_MAX + 1], ..all() };
        assert_eq!((bad.check().unwrap_err().why, bad.depth()), (MalformedWhy::Bound, Some(1)));
        // What takes more of the enclave than is counted, it refuses itself.
        for bad in [
            Search { keywords: (0..=KEYWORDS_MAX as u16).map(hash).collect(), ..all() },
            Search { padding: Padding::Fixed(0), ..all() },
            Search { padding: Padding::Fixed(PADDED_MAX + 1), ..all() },
        ] {
            assert_eq!((bad.check().unwrap_err().why, bad.depth()), (MalformedWhy::Bound, None));
        }
    }
}
