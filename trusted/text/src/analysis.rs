//! What a text index has of a document, what a `$text` means in it, and MongoDB's score.
//!
//! The words of a document are found by the same [`Collector`] when it is entered and when it is checked, so that a
//! document which passes is among those that the enclave finds.

use super::Names;
use super::client::of_query;
use arras_documents::text::{TextMatch, language_of_another_type, several_languages, unknown_language};
use arras_planner::text::{EVERY_FIELD, TextDefinition};
use arras_protocol::RowId;
use arras_schemes::bisen::Salt;
use arras_schemes::bisen::update::Update;
use arras_search::analysis::{Analyzer, Collector};
use arras_search::condition::Condition;
use arras_search::formula::{Field, Formula};
use arras_search::grammar::text_search;
use arras_search::language::Language;
use arras_search::update::{Filler, Numbers};
use arras_service::ServiceError;
use bson::{Bson, Document};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What every document of an index has in the field that says what it is: by it an index is emptied.
const MARK: &str = "text";
/// Collectors kept for each language.
const COLLECTORS_MAX: usize = 8;

/// One string of a document that is indexed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Text<'d> {
    weight: f64,
    text: &'d str,
    /// What its document, or the part of it that holds the string, says of its language.
    language: Option<&'d Bson>,
}

/// The strings of a document that a definition speaks of.
pub(super) fn texts<'d>(document: &'d Document, definition: &TextDefinition) -> Vec<Text<'d>> {
    let mut found = Vec::new();
    for (path, weight) in &definition.weights {
        let mut visit = Visit { weight: *weight, field: &definition.language_override, found: &mut found };
        if path == EVERY_FIELD {
            visit.every(document, None);
        } else {
            visit.at(document, path, None);
        }
    }
    found
}

struct Visit<'d, 'v> {
    weight: f64,
    field: &'v str,
    found: &'v mut Vec<Text<'d>>,
}

impl<'d> Visit<'d, '_> {
    fn at(&mut self, document: &'d Document, path: &str, outer: Option<&'d Bson>) {
        let language = document.get(self.field).or(outer);
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let values = match document.get(first) {
            Some(Bson::Array(values)) => values.as_slice(),
            Some(value) => std::slice::from_ref(value),
            None => &[],
        };
        for value in values {
            match (value, rest) {
                (Bson::String(text), None) => self.add(text, language),
                (Bson::Document(inner), Some(rest)) => self.at(inner, rest, language),
                _ => {}
            }
        }
    }

    fn every(&mut self, document: &'d Document, outer: Option<&'d Bson>) {
        let language = document.get(self.field).or(outer);
        document.values().for_each(|value| self.value(value, language));
    }

    fn value(&mut self, value: &'d Bson, language: Option<&'d Bson>) {
        match value {
            Bson::String(text) => self.add(text, language),
            Bson::Document(inner) => self.every(inner, language),
            Bson::Array(values) => values.iter().for_each(|value| self.value(value, language)),
            _ => {}
        }
    }

    fn add(&mut self, text: &'d str, language: Option<&'d Bson>) {
        self.found.push(Text { weight: self.weight, text, language });
    }
}

/// The language of a document.
///
/// # Errors
/// As MongoDB for one that is not known; 238 for several in one document.
pub(super) fn language(texts: &[Text<'_>], default: Language) -> Result<Language, ServiceError> {
    let mut named = None;
    for text in texts {
        let language = match text.language {
            None => default,
            Some(Bson::String(name)) => name.parse().map_err(|_| unknown_language(name))?,
            Some(_) => return Err(language_of_another_type().into()),
        };
        if *named.get_or_insert(language) != language {
            return Err(several_languages().into());
        }
    }
    Ok(named.unwrap_or(default))
}

/// Collectors at hand: each holds a language's words.
#[derive(Default)]
pub(super) struct Analysis(Mutex<HashMap<Language, Vec<Collector>>>);

impl fmt::Debug for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Analysis")
    }
}

impl Analysis {
    pub(super) fn fingerprint(&self, language: Language) -> [u8; 8] {
        Analyzer::new(language).fingerprint()
    }

    fn at_hand(&self) -> MutexGuard<'_, HashMap<Language, Vec<Collector>>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, language: Language, work: impl FnOnce(&mut Collector) -> T) -> T {
        let taken = self.at_hand().get_mut(&language).and_then(Vec::pop);
        let mut collector = taken.unwrap_or_else(|| Collector::new(language));
        let done = work(&mut collector);
        let mut at_hand = self.at_hand();
        let kept = at_hand.entry(language).or_default();
        if kept.len() < COLLECTORS_MAX {
            kept.push(collector);
        }
        done
    }

    /// The updates that enter texts, each as all that there is of a row.
    pub(super) fn entries(
        &self,
        texts: &[(RowId, String)],
        language: Language,
        (names, collection, salt): (Names, u32, Salt),
    ) -> Vec<Update> {
        let mut filler = Filler::new(collection, salt);
        let mut updates = Vec::new();
        let mut full = |update| {
            updates.push(update);
            Ok::<_, Infallible>(())
        };
        for (row, text) in texts {
            let Ok(()) = self.with(language, |collector| {
                collector.begin();
                collector.field(Field::Type, MARK);
                collector.feed(text);
                collector.end_text();
                filler.document(
                    names.document(*row),
                    Numbers { date: 0, size: 0 },
                    &collector.finish(),
                    &mut full,
                )
            });
        }
        let Ok(()) = filler.flush(&mut full);
        updates
    }

    /// The updates that make an index have documents as they are. A document without a text is not in it.
    pub(super) fn updates(
        &self,
        changes: &[(RowId, Option<Document>)],
        definition: &TextDefinition,
        default: Language,
        (names, collection, salt): (Names, u32, Salt),
    ) -> Result<Vec<Update>, ServiceError> {
        let mut filler = Filler::new(collection, salt);
        let mut updates = Vec::new();
        let mut full = |update| {
            updates.push(update);
            Ok::<_, Infallible>(())
        };
        for (row, document) in changes {
            let name = names.document(*row);
            let texts = document.as_ref().map(|document| texts(document, definition)).unwrap_or_default();
            let done: Result<(), Infallible> = if texts.is_empty() {
                filler.remove(name, &mut full)
            } else {
                self.with(language(&texts, default)?, |collector| {
                    collector.begin();
                    collector.field(Field::Type, MARK);
                    for text in &texts {
                        collector.feed(text.text);
                        collector.end_text();
                    }
                    filler.document(name, Numbers { date: 0, size: 0 }, &collector.finish(), &mut full)
                })
            };
            let Ok(()) = done;
        }
        let Ok(()) = filler.flush(&mut full);
        Ok(updates)
    }
}

/// The condition that all documents of an index meet.
pub(super) fn marked() -> Option<Condition> {
    Condition::new(&Formula::Field(Field::Type, MARK.to_owned()), Language::None).ok()
}

/// A `$search` in an index.
#[derive(Debug)]
pub(super) struct Meaning {
    /// None: it asks for no word that says something, and finds nothing.
    condition: Option<Condition>,
    /// Keywords that count for the score.
    wanted: HashSet<String>,
    /// All that the condition names.
    named: HashSet<String>,
    language: Language,
    definition: Arc<TextDefinition>,
    analysis: Arc<Analysis>,
}

impl Meaning {
    pub(super) fn new(
        search: &str,
        query: Language,
        definition: &Arc<TextDefinition>,
        analysis: &Arc<Analysis>,
    ) -> Result<Self, ServiceError> {
        let formula = text_search(search).map_err(|error| of_query(&error))?;
        let condition = formula.and_then(|formula| Condition::new(&formula, query).ok());
        let (mut wanted, mut named) = (HashSet::new(), HashSet::new());
        if let Some(condition) = &condition {
            condition.wanted().into_iter().for_each(|part| keywords(part, &mut wanted));
            keywords(condition, &mut named);
        }
        let condition = condition.filter(|_| !wanted.is_empty());
        // As a document that names none; the index's own was read when it was made.
        let language = definition.default_language.parse().unwrap_or_default();
        let (definition, analysis) = (Arc::clone(definition), Arc::clone(analysis));
        Ok(Self { condition, wanted, named, language, definition, analysis })
    }

    /// What the enclave is asked; none if nothing is found.
    pub(super) fn into_condition(self) -> Option<Condition> {
        self.condition
    }
}

/// The keywords that a condition names.
fn keywords(condition: &Condition, found: &mut HashSet<String>) {
    match condition {
        Condition::Keyword(keyword) => found.extend([keyword.clone()]),
        Condition::Phrase(words) => found.extend(words.iter().map(|(_, keyword)| keyword.clone())),
        Condition::All(parts) | Condition::Any(parts) => {
            parts.iter().for_each(|part| keywords(part, found));
        }
        Condition::Not(part) => keywords(part, found),
        Condition::Range(_) => {}
    }
}

/// What one text has of the keywords of a search: where each is.
struct Found {
    weight: f64,
    /// The keyword that is all of it, letter by letter.
    whole: Option<String>,
    /// Words that say something.
    words: u64,
    places: BTreeMap<String, Vec<u32>>,
    counts: BTreeMap<String, u32>,
}

impl TextMatch for Meaning {
    fn score(&self, document: &Document) -> Option<f64> {
        let condition = self.condition.as_ref()?;
        let texts = texts(document, &self.definition);
        // One that was written before the index was there, and could not be entered, is in no index.
        let language = language(&texts, self.language).ok()?;
        let found: Vec<Found> = self
            .analysis
            .with(language, |collector| texts.iter().map(|text| self.found(collector, text)).collect());
        if !holds(condition, &found) {
            return None;
        }
        Some(
            self.wanted
                .iter()
                .map(|keyword| found.iter().map(|text| score(text, keyword)).sum::<f64>())
                .sum(),
        )
    }
}

impl Meaning {
    fn found(&self, collector: &mut Collector, text: &Text<'_>) -> Found {
        collector.begin();
        collector.feed(text.text);
        collector.end_text();
        let all = collector.finish();
        let (mut words, mut places, mut counts, mut whole) = (0, BTreeMap::new(), BTreeMap::new(), None);
        for keyword in all.iter() {
            words += u64::from(keyword.frequency);
            if keyword.text.eq_ignore_ascii_case(text.text) {
                whole = Some(keyword.text.to_owned());
            }
            if self.named.contains(keyword.text) {
                places.insert(keyword.text.to_owned(), keyword.positions.to_vec());
                counts.insert(keyword.text.to_owned(), keyword.frequency);
            }
        }
        Found { weight: text.weight, whole, words, places, counts }
    }
}

fn holds(condition: &Condition, found: &[Found]) -> bool {
    match condition {
        Condition::Keyword(keyword) => found.iter().any(|text| text.counts.contains_key(keyword)),
        Condition::Phrase(words) => found.iter().any(|text| has_phrase(text, words)),
        Condition::All(parts) => parts.iter().all(|part| holds(part, found)),
        Condition::Any(parts) => parts.iter().any(|part| holds(part, found)),
        Condition::Not(part) => !holds(part, found),
        // `$search` has none.
        Condition::Range(_) => true,
    }
}

/// Whether the words of a phrase are at its distances somewhere.
fn has_phrase(text: &Found, words: &[(u32, String)]) -> bool {
    let places: Option<Vec<(u32, &Vec<u32>)>> =
        words.iter().map(|(distance, keyword)| Some((*distance, text.places.get(keyword)?))).collect();
    let Some(places) = places else { return false };
    let Some(((_, first), others)) = places.split_first() else { return false };
    let begins = |start: u32| {
        others.iter().all(|(distance, places)| places.binary_search(&start.saturating_add(*distance)).is_ok())
    };
    first.iter().any(|start| begins(*start))
}

/// MongoDB's score of one word in one text: each further occurrence counts half of the one before; a word counts the more,
/// the more of the text it is; a text that is the word's stem alone, a tenth more.
fn score(text: &Found, keyword: &str) -> f64 {
    let Some(count) = text.counts.get(keyword) else { return 0.0 };
    let frequency = 2.0 - 0.5_f64.powi(i32::try_from(count.saturating_sub(1)).unwrap_or(i32::MAX));
    let coefficient = 0.5 * f64::from(*count) / text.words.max(1) as f64 + 0.5;
    let whole = if text.whole.as_deref() == Some(keyword) { 1.1 } else { 1.0 };
    text.weight * frequency * coefficient * whole
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
