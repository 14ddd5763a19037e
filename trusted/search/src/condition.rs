//! What a formula asks of the index: its words as keywords.

use crate::analysis::{Analyzer, of_field};
use crate::formula::{Formula, Range};
use crate::language::Language;

/// A boolean formula over keywords.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Condition {
    /// The document has the keyword.
    Keyword(String),
    /// It has the keywords at places with these distances from one place; the first distance is 0, and they ascend.
    Phrase(Vec<(u32, String)>),
    /// A number of it is in a range.
    Range(Range),
    /// All of these hold: at least two.
    All(Vec<Self>),
    /// One of these holds: at least two.
    Any(Vec<Self>),
    /// This does not hold.
    Not(Box<Self>),
}

/// A query asks for nothing that an index knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", self.why())]
pub struct SaysNothing {
    /// The language of the index.
    pub language: Language,
}

impl SaysNothing {
    fn why(&self) -> String {
        if self.language == Language::None {
            return "there is no word in the query, signs alone".into();
        }
        format!(
            "every word of the query is one of those that say nothing in {} (as \"the\" in English), and none is indexed: add another, \
             or index with --language none",
            self.language
        )
    }
}

impl Condition {
    /// What a formula asks of an index in a language. Words that say nothing in it are left out, as they were of the index: an
    /// AND or OR goes by its other parts, a phrase by the distances that are left.
    ///
    /// # Errors
    /// If nothing is left.
    pub fn new(formula: &Formula, language: Language) -> Result<Self, SaysNothing> {
        let mut analyzers = Analyzers { text: Analyzer::new(language), plain: Analyzer::new(Language::None) };
        analyzers.condition(formula).ok_or(SaysNothing { language })
    }

    /// The keywords and phrases that make a document match by being there: what a result shows of it.
    pub fn wanted(&self) -> Vec<&Self> {
        match self {
            Self::Keyword(_) | Self::Phrase(_) => vec![self],
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::wanted).collect(),
            Self::Range(_) | Self::Not(_) => Vec::new(),
        }
    }
}

struct Analyzers {
    text: Analyzer,
    plain: Analyzer,
}

impl Analyzers {
    fn condition(&mut self, formula: &Formula) -> Option<Condition> {
        match formula {
            Formula::Word(words) | Formula::Phrase(words) => adjacent(&mut self.text, words, str::to_owned),
            Formula::Field(field, words) => {
                let analyzer = if field.is_prose() { &mut self.text } else { &mut self.plain };
                adjacent(analyzer, words, |keyword| of_field(field.name(), keyword))
            }
            Formula::Range(range) => Some(Condition::Range(*range)),
            Formula::All(parts) => self.join(parts, Condition::All),
            Formula::Any(parts) => self.join(parts, Condition::Any),
            Formula::Not(part) => self.condition(part).map(|part| Condition::Not(Box::new(part))),
        }
    }

    fn join(&mut self, parts: &[Formula], join: fn(Vec<Condition>) -> Condition) -> Option<Condition> {
        let mut parts: Vec<_> = parts.iter().filter_map(|part| self.condition(part)).collect();
        if parts.len() < 2 { parts.pop() } else { Some(join(parts)) }
    }
}

/// Words one behind the other. What a query writes as one word may be several, as `wi-fi` is.
fn adjacent(analyzer: &mut Analyzer, words: &str, keyword: impl Fn(&str) -> String) -> Option<Condition> {
    let mut keywords: Vec<(u32, String)> = analyzer
        .words(words)
        .filter_map(|word| word.keyword.map(|text| (word.position, keyword(&text))))
        .collect();
    let first = keywords.first()?.0;
    keywords.iter_mut().for_each(|(position, _)| *position -= first);
    if keywords.len() == 1 {
        keywords.pop().map(|(_, keyword)| Condition::Keyword(keyword))
    } else {
        Some(Condition::Phrase(keywords))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
