//! From a condition to the enclave's search, and from its pages to results.

use crate::condition::Condition;
use crate::formula::{Number, Range};
use crate::service::{Collection, SearchService, ServiceError};
use arras_schemes::bisen::message::{Hit, Page, Reply, Request};
use arras_schemes::bisen::query::{
    FILTERS_MAX, Filter, KEYWORDS_MAX, Malformed, PHRASE_MAX, Padding, PhraseWord, Ranking, STEPS_MAX,
    Search, Step,
};
use arras_schemes::bisen::{KeywordHash, Salt};
use std::collections::HashMap;

/// Why an enclave cannot be asked what a query says.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unanswerable {
    /// A range under OR, or an interval under NOT.
    #[error("{0} must hold for the whole query: it cannot stand under OR or within a NOT")]
    Range(Range),
    /// Too many keywords.
    #[error("more than {KEYWORDS_MAX} different words")]
    Keywords,
    /// A phrase of too many words.
    #[error("a phrase of more than {PHRASE_MAX} words")]
    Phrase,
    /// Too many parts in all.
    #[error("more than {STEPS_MAX} words and operators")]
    Steps,
    /// Too many ranges.
    #[error("more than {FILTERS_MAX} ranges of dates and sizes")]
    Ranges,
    /// A number of results out of bounds.
    #[error("{0}")]
    Bounds(#[from] Malformed),
}

/// How results are wanted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wanted {
    /// By what they are ordered.
    pub ranking: Ranking,
    /// How many at most; 0 is all.
    pub top: u32,
    /// To how many an answer is filled up.
    pub padding: Padding,
}

/// The enclave's search for a condition.
///
/// # Errors
/// [`Unanswerable`].
pub fn request(
    condition: &Condition,
    collection: u32,
    salt: &Salt,
    wanted: Wanted,
) -> Result<Search, Unanswerable> {
    let mut ranges = Vec::new();
    let rest = take_ranges(condition, &mut ranges);
    let mut builder = Builder { salt, numbers: HashMap::new(), search: Search::new(collection) };
    match rest {
        None => builder.search.formula.push(Step::All),
        Some(rest) => builder.emit(&rest)?,
    }
    let Builder { mut search, .. } = builder;
    search.filters = ranges.into_iter().map(filter).collect();
    search.top = wanted.top;
    search.padding = wanted.padding;
    if search.keywords.len() > KEYWORDS_MAX {
        return Err(Unanswerable::Keywords);
    }
    if search.formula.len() > STEPS_MAX {
        return Err(Unanswerable::Steps);
    }
    if search.filters.len() > FILTERS_MAX {
        return Err(Unanswerable::Ranges);
    }
    search = search.ranked_by(wanted.ranking);
    search.check()?;
    Ok(search)
}

fn filter(range: Range) -> Filter {
    let field = match range.number {
        Number::Date => DATE,
        Number::Size => SIZE,
    };
    let (from, until) = (range.at_least.unwrap_or(i64::MIN), range.at_most.unwrap_or(i64::MAX));
    Filter::field(field, from, until)
}

/// The declared field that is a document's date.
pub(crate) const DATE: u8 = 0;
/// The declared field that is its size.
pub(crate) const SIZE: u8 = 1;

/// Takes the ranges out that must hold for all that is found; what is left, if anything is.
fn take_ranges(condition: &Condition, ranges: &mut Vec<Range>) -> Option<Condition> {
    match condition {
        Condition::Range(range) => {
            ranges.push(*range);
            None
        }
        Condition::Not(part) => {
            if let Condition::Range(range) = part.as_ref()
                && let Some(others) = complement(*range)
            {
                ranges.push(others);
                return None;
            }
            Some(condition.clone())
        }
        Condition::All(parts) => {
            let mut left: Vec<_> = parts.iter().filter_map(|part| take_ranges(part, ranges)).collect();
            if left.len() < 2 { left.pop() } else { Some(Condition::All(left)) }
        }
        Condition::Keyword(_) | Condition::Phrase(_) | Condition::Any(_) => Some(condition.clone()),
    }
}

/// The numbers that are not in a range, if they are a range.
fn complement(range: Range) -> Option<Range> {
    match (range.at_least, range.at_most) {
        (Some(least), None) => Some(Range { at_least: None, at_most: Some(least.checked_sub(1)?), ..range }),
        (None, Some(most)) => Some(Range { at_least: Some(most.checked_add(1)?), at_most: None, ..range }),
        (None, None) | (Some(_), Some(_)) => None,
    }
}

struct Builder<'s> {
    salt: &'s Salt,
    numbers: HashMap<String, u16>,
    search: Search,
}

impl Builder<'_> {
    fn keyword(&mut self, keyword: &str) -> Result<u16, Unanswerable> {
        if let Some(number) = self.numbers.get(keyword) {
            return Ok(*number);
        }
        let number = u16::try_from(self.search.keywords.len()).map_err(|_| Unanswerable::Keywords)?;
        self.search.keywords.push(KeywordHash::of(self.salt, keyword.as_bytes()));
        self.numbers.insert(keyword.into(), number);
        Ok(number)
    }

    fn emit(&mut self, condition: &Condition) -> Result<(), Unanswerable> {
        match condition {
            Condition::Keyword(keyword) => {
                let number = self.keyword(keyword)?;
                self.search.formula.push(Step::Keyword(number));
            }
            Condition::Phrase(words) => {
                let mut numbers = Vec::with_capacity(words.len());
                for (distance, keyword) in words {
                    let distance = u16::try_from(*distance).map_err(|_| Unanswerable::Phrase)?;
                    numbers.push(PhraseWord(self.keyword(keyword)?, distance));
                }
                if numbers.len() > PHRASE_MAX {
                    return Err(Unanswerable::Phrase);
                }
                self.search.formula.push(Step::Phrase(numbers));
            }
            Condition::Range(range) => return Err(Unanswerable::Range(*range)),
            Condition::Not(part) => {
                self.emit(part)?;
                self.search.formula.push(Step::Not);
            }
            Condition::All(parts) => self.joined(parts, &Step::And)?,
            Condition::Any(parts) => self.joined(parts, &Step::Or)?,
        }
        Ok(())
    }

    /// Parts with an operator that does not mind their order: first the one that has most operands waiting, so that a formula
    /// may be nested as deeply as it can be written.
    fn joined(&mut self, parts: &[Condition], operator: &Step) -> Result<(), Unanswerable> {
        let mut sorted: Vec<&Condition> = parts.iter().collect();
        sorted.sort_by_key(|part| std::cmp::Reverse(operands(part)));
        for (place, part) in sorted.into_iter().enumerate() {
            self.emit(part)?;
            if place > 0 {
                self.search.formula.push(operator.clone());
            }
        }
        Ok(())
    }
}

/// How many operands wait at once while a part is evaluated, emitted as above.
fn operands(condition: &Condition) -> usize {
    match condition {
        Condition::Keyword(_) | Condition::Phrase(_) | Condition::Range(_) => 1,
        Condition::Not(part) => operands(part),
        Condition::All(parts) | Condition::Any(parts) => {
            let mut of_parts: Vec<usize> = parts.iter().map(operands).collect();
            of_parts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
            // Beside each but the first, one result waits.
            let waiting = of_parts.iter().enumerate().map(|(place, count)| count + usize::from(place > 0));
            waiting.max().unwrap_or(1)
        }
    }
}

/// What was found.
#[derive(Debug)]
pub struct Results {
    /// The results, best first if they are ranked.
    pub hits: Vec<Hit>,
    /// How many documents match, also those that are not among the results.
    pub matches: u32,
}

impl<S: SearchService> Collection<'_, S> {
    /// Searches.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub fn search(&mut self, search: Search) -> Result<Results, ServiceError> {
        let page = page(self.ask(Request::Search(search))?)?;
        Ok(Results { hits: page.hits().collect(), matches: page.matches() })
    }
}

fn page(reply: Reply) -> Result<Page, ServiceError> {
    match reply {
        Reply::Found(page) => Ok(page),
        Reply::Opened(_) | Reply::Updated | Reply::Compacted { .. } | Reply::Done | Reply::Refused(_) => {
            Err(ServiceError::Reply)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
