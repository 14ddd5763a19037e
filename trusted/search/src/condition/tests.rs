use super::Condition;
use crate::analysis::Collector;
use crate::formula::{Field, Formula, Number};
use crate::grammar::parse;
use crate::language::Language;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn condition(query: &str, language: Language) -> Option<Condition> {
    Condition::new(&parse(query).unwrap(), language).ok()
}

fn keyword(text: &str) -> Condition {
    Condition::Keyword(text.into())
}

#[test]
fn words_become_keywords_and_what_says_nothing_is_left_out() {
    let english = |query| condition(query, Language::English);
    assert_eq!(english("Whales"), Some(keyword("whale")));
    assert_eq!(english("the Whales"), Some(keyword("whale")));
    assert_eq!(english("the OR whales"), Some(keyword("whale")));
    assert_eq!(english("whales AND NOT the"), Some(keyword("whale")));
    assert_eq!(english("the OR -a"), None);
    assert_eq!(condition("the", Language::None), Some(keyword("the")));
    let error = Condition::new(&parse("the").unwrap(), Language::English).unwrap_err().to_string();
    assert!(error.contains("english"), "{error}");
}

#[test]
fn a_phrase_keeps_its_distances_and_a_word_of_several_is_a_phrase() {
    let phrase = |parts: &[(u32, &str)]| {
        Condition::Phrase(parts.iter().map(|(at, text)| (*at, (*text).to_owned())).collect())
    };
    let english = |query| condition(query, Language::English).unwrap();
    assert_eq!(english("\"the ships of the king\""), phrase(&[(0, "ship"), (3, "king")]));
    assert_eq!(english("\"the ships\""), keyword("ship"));
    assert_eq!(english("Wi-Fi"), phrase(&[(0, "wi"), (1, "fi")]));
    let from = "from\u{1f}";
    let name = phrase(&[(0, &format!("{from}alice")), (1, &format!("{from}example.com"))]);
    assert_eq!(english("from:Alice@Example.com"), name);
    assert_eq!(english("from:the"), keyword("from\u{1f}the"));
    assert_eq!(english("subject:Whales"), keyword("subject\u{1f}whale"));
}

#[test]
fn what_is_wanted_is_what_makes_a_document_match_by_being_there() {
    let condition = condition("(a OR \"b c\") d -e -(f g) date:2001", Language::None).unwrap();
    let wanted = condition.wanted();
    assert_eq!(wanted.len(), 3);
    assert_eq!((wanted[0], wanted[2]), (&keyword("a"), &keyword("d")));
}

/// A document of the model.
#[derive(Clone, Debug)]
struct Text {
    words: Vec<String>,
    subject: Vec<String>,
    size: i64,
}

/// Whether a document matches, by the words as they are written.
fn matches(formula: &Formula, text: &Text) -> bool {
    let has = |words: &str, text: &[String]| {
        let wanted: Vec<&str> = words.split(' ').collect();
        text.windows(wanted.len()).any(|window| window == wanted)
    };
    match formula {
        Formula::Word(words) | Formula::Phrase(words) => has(words, &text.words),
        Formula::Field(Field::Subject, words) => has(words, &text.subject),
        Formula::Field(..) => false,
        Formula::Range(range) => {
            range.number == Number::Size
                && range.at_least.is_none_or(|least| text.size >= least)
                && range.at_most.is_none_or(|most| text.size <= most)
        }
        Formula::All(parts) => parts.iter().all(|part| matches(part, text)),
        Formula::Any(parts) => parts.iter().any(|part| matches(part, text)),
        Formula::Not(part) => !matches(part, text),
    }
}

/// Whether it does by what an index has of it.
fn holds(condition: &Condition, index: &BTreeMap<String, Vec<u32>>, size: i64) -> bool {
    let places = |keyword: &str| index.get(keyword).map_or(&[][..], Vec::as_slice);
    match condition {
        Condition::Keyword(keyword) => !places(keyword).is_empty(),
        Condition::Phrase(parts) => places(&parts[0].1).iter().any(|start| {
            parts.iter().all(|(distance, keyword)| places(keyword).contains(&(start + distance)))
        }),
        Condition::Range(range) => {
            range.number == Number::Size
                && range.at_least.is_none_or(|least| size >= least)
                && range.at_most.is_none_or(|most| size <= most)
        }
        Condition::All(parts) => parts.iter().all(|part| holds(part, index, size)),
        Condition::Any(parts) => parts.iter().any(|part| holds(part, index, size)),
        Condition::Not(part) => !holds(part, index, size),
    }
}

proptest! {
    #[test]
    fn a_condition_over_an_index_finds_what_the_formula_says_of_the_text(
        formula in crate::grammar::tests::formulas(),
        words in proptest::collection::vec("[a-e]{1,2}|and|not|[é-í]", 0..60),
        subject in proptest::collection::vec("[a-e]{1,2}", 0..4),
        size in 0..i64::MAX,
    ) {
        // The model compares words as they are written, so they are written as they are indexed.
        let bare = |text: &str| text.replace(|it| ('é'..='í').contains(&it), "o");
        let formula = parse(&bare(&formula.to_string())).unwrap();
        let text = Text { words: words.iter().map(|word| bare(word)).collect(), subject, size };
        let mut collector = Collector::new(Language::None);
        collector.begin();
        collector.field(Field::Subject, &text.subject.join(" "));
        collector.feed(&text.words.join(" "));
        let index = collector.finish().iter().map(|it| (it.text.to_owned(), it.positions.to_vec())).collect();
        let condition = Condition::new(&formula, Language::None).unwrap();
        prop_assert_eq!(holds(&condition, &index, size), matches(&formula, &text), "{}", condition_text(&condition));
    }
}

fn condition_text(condition: &Condition) -> String {
    format!("{condition:?}")
}
