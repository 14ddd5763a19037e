use super::{Unanswerable, Wanted, request};
use crate::analysis::Collector;
use crate::condition::Condition;
use crate::formula::{Field, Formula, Number, Range};
use crate::grammar::parse;
use crate::language::Language;
use crate::oracle::{Oracle, SALT};
use crate::profile::{Profile, ProfileError};
use crate::service::{Collection, ServiceError};
use crate::update::{Filler, Numbers, PLACES_MAX, document_name};
use arras_schemes::bisen::message::Hit;
use arras_schemes::bisen::query::{Filter, Padding, Ranking, Search, Step};
use arras_schemes::bisen::update::{PAIRS_MAX, Update};
use std::convert::Infallible;

const ALL: Wanted = Wanted { ranking: Ranking::None, top: 0, padding: Padding::None };

fn asked(query: &str) -> Result<Search, Unanswerable> {
    let condition = Condition::new(&parse(query).unwrap(), Language::English).unwrap();
    request(&condition, 3, &SALT, ALL)
}

fn found(collection: &mut Collection<'_, Oracle>, query: &str, wanted: Wanted) -> Vec<Hit> {
    let condition = Condition::new(&parse(query).unwrap(), collection.profile.language).unwrap();
    let search = request(&condition, collection.opened.collection, &collection.opened.salt, wanted).unwrap();
    collection.search(search).unwrap().hits
}

/// Puts documents of one text each into a collection.
fn put(collection: &mut Collection<'_, Oracle>, documents: &[(&str, i64, String)]) -> usize {
    let mut collector = Collector::new(collection.profile.language);
    let mut filler = Filler::new(collection.opened.collection, collection.opened.salt);
    let mut updates: Vec<Update> = Vec::new();
    let mut keep = |update| -> Result<(), Infallible> {
        updates.push(update);
        Ok(())
    };
    for (name, date, text) in documents {
        collector.begin();
        collector.feed(text);
        collector.field(Field::From, "alice");
        let numbers = Numbers { date: *date, size: text.len() as i64 };
        filler.document(document_name(name), numbers, &collector.finish(), &mut keep).unwrap();
    }
    filler.flush(&mut keep).unwrap();
    let count = updates.len();
    updates.into_iter().for_each(|update| collection.update(update).unwrap());
    count
}

#[test]
fn ranges_of_the_whole_query_are_filters_and_others_are_refused() {
    let filters = |query: &str| asked(query).unwrap().filters;
    let size = |from, until| Filter::field(1, from, until);
    assert_eq!(filters("whale size:>=5 (ship size:<9)"), [size(5, i64::MAX), size(i64::MIN, 8)]);
    assert_eq!(filters("whale NOT size:>5"), [size(i64::MIN, 5)]);
    assert_eq!(asked("size:1..2").unwrap().formula, [Step::All]);
    let range = |at_least, at_most| Unanswerable::Range(Range { number: Number::Size, at_least, at_most });
    assert_eq!(asked("whale OR size:>=5").unwrap_err(), range(Some(5), None));
    assert_eq!(asked("whale NOT size:5..6").unwrap_err(), range(Some(5), Some(6)));
    let error = asked("whale OR size:>=5").unwrap_err().to_string();
    assert!(error.starts_with("size:5.. must hold for the whole query"), "{error}");
}

#[test]
fn what_is_nested_as_deeply_as_can_be_written_is_asked_for() {
    for operators in ["OR", "AND"] {
        let depth = crate::grammar::DEPTH_MAX;
        let deep = format!("{}z{}", format!("a {operators} (b ").repeat(depth), ")".repeat(depth));
        asked(&deep).unwrap();
    }
    let words = |count: usize| (0..count).map(|number| format!("w{number} ")).collect::<String>();
    assert_eq!(asked(&words(256)).unwrap().keywords.len(), 256);
    assert_eq!(asked(&words(257)).unwrap_err(), Unanswerable::Keywords);
    // A word that comes again is one keyword, and too many steps are too many.
    assert_eq!(asked(&"x ".repeat(512)).unwrap().keywords.len(), 1);
    assert_eq!(asked(&"x ".repeat(513)).unwrap_err(), Unanswerable::Steps);
    assert_eq!(asked(&format!("\"{}\"", "x ".repeat(33))).unwrap_err(), Unanswerable::Phrase);
    let ranges: String = (0..17).map(|number| format!(" size:>{number}")).collect();
    assert_eq!(asked(&ranges).unwrap_err(), Unanswerable::Ranges);
}

#[test]
fn documents_are_found_by_words_phrases_fields_and_numbers_and_ranked() {
    let mut oracle = Oracle::default();
    let mut collection = Collection::create(&mut oracle, "mail", Profile::new(Language::English)).unwrap();
    let documents = [
        ("one", 10, "The white whale and the ship".to_owned()),
        ("two", 20, "whales! whales white".to_owned()),
        ("three", 30, "an old captain".to_owned()),
    ];
    assert_eq!(put(&mut collection, &documents), 1);
    let mut names = |query: &str, wanted| -> Vec<&str> {
        let hits = found(&mut collection, query, wanted);
        let named = |hit: &Hit| documents.iter().find(|it| document_name(it.0) == hit.name).unwrap().0;
        let mut names: Vec<&str> = hits.iter().map(named).collect();
        if wanted.ranking == Ranking::None {
            names.sort_unstable();
        }
        names
    };
    assert_eq!(names("whale", ALL), ["one", "two"]);
    assert_eq!(names("\"white whale\"", ALL), ["one"]);
    assert_eq!(names("\"whale and the ship\"", ALL), ["one"]);
    assert_eq!(names("NOT whale", ALL), ["three"]);
    assert_eq!(names("from:alice captain", ALL), ["three"]);
    assert_eq!(names("alice", ALL), [""; 0]);
    assert_eq!(names("date:1970 size:>15", ALL), ["one", "two"]);
    let best = Wanted { ranking: Ranking::Bm25, top: 1, ..ALL };
    assert_eq!(names("whale", best), ["two"]);
}

#[test]
fn a_document_of_many_updates_is_a_draft_until_its_last_and_has_all_its_places() {
    let mut oracle = Oracle::default();
    let mut collection = Collection::create(&mut oracle, "books", Profile::new(Language::None)).unwrap();
    let mut text = String::new();
    for number in 0..2 * PAIRS_MAX {
        text.push_str(&format!("w{number} often "));
    }
    text.push_str("white whale");
    let documents =
        [("before", 1, "whale".into()), ("long", 2, text), ("behind", 3, "white whale".to_owned())];
    assert!(put(&mut collection, &documents) > 3);
    assert_eq!(found(&mut collection, "\"white whale\"", ALL).len(), 2);
    assert_eq!(found(&mut collection, &format!("\"w{} often\"", 2 * PAIRS_MAX - 1), ALL).len(), 1);
    let long = &oracle.published[&document_name("long")];
    assert_eq!(long.keywords.len(), 2 * PAIRS_MAX + 4);
    let often = long.keywords.values().find(|(frequency, _)| *frequency > 1).unwrap();
    assert_eq!((often.0 as usize, often.1.len()), (2 * PAIRS_MAX, PLACES_MAX.min(2 * PAIRS_MAX)));
    assert!(often.1.is_sorted());
}

#[test]
fn an_index_of_another_language_or_analysis_is_not_searched() {
    let mut oracle = Oracle::default();
    let english = Profile::new(Language::English);
    Collection::create(&mut oracle, "mail", english).unwrap();
    assert_eq!(Collection::existing(&mut oracle, "mail").unwrap().profile, english);
    let wrong = |error: Option<ServiceError>| match error {
        Some(ServiceError::Profile(error)) => error,
        other => panic!("{other:?}"),
    };
    let error = wrong(Collection::create(&mut oracle, "mail", Profile::new(Language::German)).err());
    assert_eq!(error, ProfileError::OtherLanguage { found: Language::English, wanted: Language::German });
    let old = Profile { fingerprint: [0; 8], ..english };
    oracle.settings.as_mut().unwrap().profile.0 = old.encode();
    let error = wrong(Collection::existing(&mut oracle, "mail").err());
    assert_eq!(error, ProfileError::OtherAnalysis(Language::English));
    oracle.settings.as_mut().unwrap().profile.0 = vec![9, 9];
    assert_eq!(wrong(Collection::existing(&mut oracle, "mail").err()), ProfileError::Unreadable);
}

#[test]
fn results_come_in_pages() {
    let mut oracle = Oracle::default();
    let mut collection = Collection::create(&mut oracle, "many", Profile::new(Language::None)).unwrap();
    let names: Vec<String> = (0..9000).map(|number| number.to_string()).collect();
    let documents: Vec<_> = names.iter().map(|name| (name.as_str(), 0, "whale".to_owned())).collect();
    assert_eq!(put(&mut collection, &documents), 5);
    assert_eq!(found(&mut collection, "whale", ALL).len(), 9000);
}

#[test]
fn a_formula_of_a_text_search_is_asked_for_as_well() {
    let formula: Formula = crate::grammar::text_search("\"white whale\" ship -captain").unwrap().unwrap();
    let condition = Condition::new(&formula, Language::English).unwrap();
    assert_eq!(request(&condition, 3, &SALT, ALL).unwrap().keywords.len(), 4);
}
