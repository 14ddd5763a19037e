//! Two histories with the same stated leakage look the same to the host: kinds and lengths of all messages, in order.

use super::host::{ADMINISTRATOR, Disk, Host};
use arras_protocol::Blob;
use arras_schemes::bisen::message::{Groups, Reply, Request, Rights, Settings};
use arras_schemes::bisen::query::{Filter, Padding, PhraseWord, Ranking, Search, Step};
use arras_schemes::bisen::update::{DocumentAction, Facts, Field, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash};
use std::collections::BTreeSet;

fn word(number: u8) -> KeywordHash {
    KeywordHash([number + 1; 16])
}

/// What is equal in both: calls, documents and pairs of each, entries of what is searched, live entries when it is compacted.
fn history(other: bool) -> Host {
    let mut host = Host::started(Disk::default());
    let ada = host.connect(1, ADMINISTRATOR);
    let settings = Settings { fields: 1, padding: Padding::Fixed(200), profile: Blob::default() };
    host.call(ada, Request::Create { name: "mail".into(), settings });
    let mut calls = Vec::new();
    for call in 0..4_u8 {
        let mut update = Update::new(0);
        for number in 0..4 {
            let facts = Facts {
                length: if other { 9999 } else { 3 },
                visibility: u32::from(other),
                fields: [if other { i64::MIN } else { 1 }, 0, 0, 0].map(Field),
            };
            let name = DocumentName([call * 4 + number; 16]);
            let slot = update.document(DocumentAction::NewPublished, name, facts).unwrap();
            // One twin has the same word everywhere, the other as many of another, at other places and of other frequencies.
            let (first, positions) = if other { (2, [900, 90_000]) } else { (0, [0, 1]) };
            update.occurrences(slot, word(first), &positions).unwrap();
            update.occurrences(slot, word(if other { 3 } else { 1 }), &positions[..1]).unwrap();
        }
        calls.push(update);
    }
    // Additions in one twin, as many deletions in the other; a document removed, or made.
    let mut last = Update::new(0);
    let action = if other { DocumentAction::Existing } else { DocumentAction::NewPublished };
    let slot = last.document(action, DocumentName([0; 16]), Facts::default()).unwrap();
    let action = if other { DocumentAction::Retire } else { DocumentAction::Existing };
    last.document(action, DocumentName([1; 16]), Facts::default()).unwrap();
    if other {
        last.delete(slot, word(2)).unwrap();
        last.delete(slot, word(3)).unwrap();
    } else {
        last.occurrences(slot, word(0), &[4, 5, 6]).unwrap();
        last.occurrences(slot, word(1), &[4]).unwrap();
    }
    calls.push(last);
    for update in calls {
        assert_eq!(host.call(ada, Request::Update(update)), Reply::Updated);
    }
    let rights = Rights { search: true, update: other, rank: true, fields: 1, groups: Groups::All };
    host.call(ada, Request::Grant { identity: "bob".into(), collection: "mail".into(), rights });
    // As many entries in all; one twin finds everything, the other nothing; formulas, filters and ranking differ.
    let mut search = Search::new(0);
    if other {
        search.keywords = vec![word(3), word(2)];
        search.formula = vec![Step::Keyword(0), Step::Keyword(1), Step::Not, Step::And];
        search.filters = vec![Filter::field(0, 5, 6)];
        search = search.ranked_by(Ranking::Bm25);
    } else {
        search.keywords = vec![word(0), word(1)];
        search.formula = vec![Step::Phrase(vec![PhraseWord(0, 0), PhraseWord(1, 0)])];
    }
    let pages = host.search(ada, search).unwrap();
    let hits: usize = pages.iter().map(|page| page.hits().count()).sum();
    assert_eq!(hits == 0, other);
    host
}

#[test]
fn twins_look_the_same() {
    let (one, other) = (history(false), history(true));
    assert_eq!(one.shape, other.shape);
    let states =
        |host: &Host| host.disk.state.iter().map(|(name, state)| (*name, state.len())).collect::<Vec<_>>();
    assert_eq!(states(&one), states(&other));
    assert_eq!(one.disk.entries.len(), other.disk.entries.len());
    // A twin that says something else is told apart: what is compared is not nothing.
    assert!(one.shape.len() > 20 && one.shape.iter().any(|(kind, _)| kind == "Get"));
}

#[test]
fn questions_and_puts_are_in_a_random_order() {
    let orders = || {
        let mut host = history(false);
        // The same search again: the same entries in another order.
        let ada = host.connect(2, ADMINISTRATOR);
        let mut search = Search::new(0);
        search.keywords = vec![word(0), word(1)];
        search.formula = vec![Step::Keyword(0), Step::Keyword(1), Step::And];
        host.search(ada, search).unwrap();
        let [.., first, second] = host.gets.as_slice() else { panic!() };
        assert_ne!(first, second);
        let set = |labels: &Vec<[u8; 16]>| labels.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!(set(first), set(second));
        assert_eq!(set(first).len(), 34);
        // The keys are the same in each history, so the first call's labels are: they are put in another order.
        host.puts[0].clone()
    };
    let (one, other) = (orders(), orders());
    assert_eq!(one.iter().collect::<BTreeSet<_>>(), other.iter().collect());
    assert_ne!(one, other);
}
