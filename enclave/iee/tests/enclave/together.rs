//! A search under way beside changes: it sees the moment at which it began, and nothing is removed under it.

use super::host::{ADMINISTRATOR, Disk, Host, To, keeping};
use arras_protocol::iee::{ConnectionId, Incoming};
use arras_schemes::bisen::message::{Groups, PAGE_HITS, Reply, Request, Rights};
use arras_schemes::bisen::query::{Search, Step};
use arras_schemes::bisen::update::{DocumentAction, Facts, Fence, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

const WORDS: [KeywordHash; 2] = [KeywordHash([1; 16]), KeywordHash([2; 16])];

fn put(host: &mut Host, client: ConnectionId, documents: std::ops::Range<u8>, word: usize) {
    put_all(host, client, documents, &[word], Facts::default());
}

fn put_all(
    host: &mut Host,
    client: ConnectionId,
    documents: std::ops::Range<u8>,
    words: &[usize],
    facts: Facts,
) {
    let mut update = Update::new(0);
    for number in documents {
        let name = DocumentName([number; 16]);
        let slot = update.document(DocumentAction::NewPublished, name, facts).unwrap();
        for word in words {
            update.occurrences(slot, WORDS[*word], &[0]).unwrap();
        }
    }
    assert_eq!(host.call(client, Request::Update(update)), Reply::Updated);
}

fn retire(host: &mut Host, client: ConnectionId, number: u8) {
    let mut update = Update::new(0);
    update.document(DocumentAction::Retire, DocumentName([number; 16]), Facts::default()).unwrap();
    assert_eq!(host.call(client, Request::Update(update)), Reply::Updated);
}

fn found(reply: &Reply) -> BTreeSet<u8> {
    let Reply::Found(page) = reply else { panic!("{reply:?}") };
    page.hits().map(|hit| hit.name.0[0]).collect()
}

/// Begins a search of which the answers are kept back until `released`.
fn held(host: &mut Host, client: ConnectionId, formula: Vec<Step>) -> (u64, Rc<RefCell<Vec<Incoming>>>) {
    let (lie, kept) = keeping(To::Get);
    host.lie = lie;
    let search = Search { keywords: WORDS.to_vec(), formula, ..Search::new(0) };
    let number = host.send(client, Request::Search(search));
    host.run().unwrap();
    host.lie = None;
    assert!(!kept.borrow().is_empty());
    (number, kept)
}

fn release(
    host: &mut Host,
    client: ConnectionId,
    (number, kept): (u64, Rc<RefCell<Vec<Incoming>>>),
) -> BTreeSet<u8> {
    kept.take().into_iter().for_each(|incoming| host.say(incoming));
    host.run().unwrap();
    found(&host.answer(client, number).expect("an answer"))
}

fn world() -> (Host, ConnectionId, ConnectionId) {
    let mut host = Host::started(Disk::default());
    let (ada, other) = (host.connect(1, ADMINISTRATOR), host.connect(2, ADMINISTRATOR));
    host.create(ada, "mail", 0);
    put(&mut host, ada, 0..10, 0);
    put(&mut host, ada, 10..20, 1);
    (host, ada, other)
}

#[test]
fn what_comes_while_a_search_is_under_way_is_not_in_it_and_what_goes_is_gone() {
    let (mut host, ada, other) = world();
    // A document that comes with a word is not taken for one without it.
    let without = held(&mut host, other, vec![Step::Keyword(0), Step::Not]);
    put(&mut host, ada, 20..25, 0);
    // Nor is one that now has another word.
    put(&mut host, ada, 3..4, 1);
    retire(&mut host, ada, 12);
    let expected = (10..20).filter(|number| *number != 12).collect();
    assert_eq!(release(&mut host, other, without), expected);
    let with = held(&mut host, other, vec![Step::Keyword(0)]);
    assert_eq!(
        release(&mut host, other, with),
        (0..25).filter(|number| *number != 3 && !(10..20).contains(number)).collect()
    );
}

#[test]
fn what_is_replaced_while_a_search_is_under_way_is_found_as_it_was() {
    let (mut host, ada, other) = world();
    // It had the word before and has it after: at no moment is it to be missed.
    let with = held(&mut host, other, vec![Step::Keyword(0)]);
    put_all(&mut host, ada, 3..4, &[0, 1], Facts::default());
    assert_eq!(release(&mut host, other, with), (0..10).collect());
    // A document that is removed and comes again is there.
    let with = held(&mut host, other, vec![Step::Keyword(1)]);
    (12..14).for_each(|number| retire(&mut host, ada, number));
    put(&mut host, ada, 12..13, 1);
    assert_eq!(release(&mut host, other, with), (10..20).filter(|number| *number != 13).chain([3]).collect());
}

#[test]
fn what_is_replaced_by_what_the_client_may_not_see_is_not_shown() {
    let (mut host, ada, _) = world();
    let bob = host.connect(3, "bob");
    let rights = Rights { search: true, update: false, rank: false, fields: 0, groups: Groups::only([7]) };
    let grant = Request::Grant { identity: "bob".into(), collection: "mail".into(), rights };
    assert_eq!(host.call(ada, grant), Reply::Done);
    let seen = held(&mut host, bob, vec![Step::Keyword(0)]);
    put_all(&mut host, ada, 3..4, &[0], Facts { visibility: 8, ..Facts::default() });
    put_all(&mut host, ada, 4..5, &[0], Facts { visibility: 7, ..Facts::default() });
    assert_eq!(release(&mut host, bob, seen), (0..10).filter(|number| *number != 3).collect());
}

#[test]
fn a_page_taken_later_has_what_was_replaced_since_and_not_what_was_removed() {
    let (mut host, ada, other) = world();
    let name = |number: u32| {
        let mut name = [9; 16];
        name[..4].copy_from_slice(&number.to_be_bytes());
        DocumentName(name)
    };
    let many = 2 * PAGE_HITS as u32;
    for call in 0..16 {
        let mut update = Update::new(0);
        for number in call * many / 16..(call + 1) * many / 16 {
            update.document(DocumentAction::NewPublished, name(number), Facts::default()).unwrap();
        }
        assert_eq!(host.call(ada, Request::Update(update)), Reply::Updated);
    }
    let search = Search { keywords: WORDS.to_vec(), formula: vec![Step::All], ..Search::new(0) };
    let (lie, taking) = keeping(To::Part);
    host.lie = lie;
    let number = host.send(other, Request::Search(search));
    host.run().unwrap();
    let Some(Reply::Found(first)) = host.answer(other, number) else { panic!("no page") };
    let mut names: Vec<_> = first.hits().map(|hit| hit.name).collect();
    let (last, before) = (name(many - 1), name(many - 2));
    let mut update = Update::new(0);
    update.document(DocumentAction::NewPublished, last, Facts::default()).unwrap();
    update.document(DocumentAction::Retire, before, Facts::default()).unwrap();
    assert_eq!(host.call(ada, Request::Update(update)), Reply::Updated);
    host.lie = None;
    taking.take().into_iter().for_each(|incoming| host.say(incoming));
    host.run().unwrap();
    while let Some(Reply::Found(page)) = host.answer(other, number) {
        names.extend(page.hits().map(|hit| hit.name));
    }
    assert!(names.contains(&last) && !names.contains(&before));
    assert_eq!(names.len(), many as usize + 20 - 1);
}

fn compact(host: &mut Host, client: ConnectionId, collection: u32) -> Reply {
    host.call(client, Request::Compact { collection, from: None, fence: Fence::default() })
}

/// Begins a search of which the host keeps the first answer of a kind back, until it is `released`.
fn begun(host: &mut Host, client: ConnectionId, kept_to: To) -> (u64, Rc<RefCell<Vec<Incoming>>>) {
    let search = Search { keywords: WORDS.to_vec(), formula: vec![Step::Keyword(0)], ..Search::new(0) };
    let number = host.send(client, Request::Search(search));
    let kept: Rc<RefCell<Vec<Incoming>>> = Rc::default();
    let keep = Rc::clone(&kept);
    host.lie = Some(Box::new(move |incoming, to| {
        if to == kept_to && keep.borrow().is_empty() {
            keep.borrow_mut().push(incoming);
            return Vec::new();
        }
        vec![incoming]
    }));
    host.run().unwrap();
    host.lie = None;
    assert_eq!(kept.borrow().len(), 1);
    (number, kept)
}

#[test]
fn entries_stay_until_the_searches_that_want_them_have_ended() {
    let (mut host, ada, other) = world();
    (0..5).for_each(|number| retire(&mut host, ada, number));
    let before = host.disk.entries.len();
    let search = begun(&mut host, other, To::Get);
    assert_eq!(compact(&mut host, ada, 0), Reply::Compacted { next: None, read: 20, saved: 5 });
    let old_and_new = host.disk.entries.len();
    assert_eq!(old_and_new, before + 15, "nothing is removed yet");
    assert_eq!(release(&mut host, other, search), (5..10).collect());
    assert_eq!(host.disk.entries.len(), 15);
}

/// Those of a second round are wanted by a search that began before the first.
#[test]
fn entries_stay_until_searches_that_began_some_rounds_ago_have_ended() {
    let (mut host, ada, other) = world();
    host.create(ada, "notes", 0);
    let mut update = Update::new(1);
    let slot = update.document(DocumentAction::NewPublished, DocumentName([1; 16]), Facts::default());
    update.occurrences(slot.unwrap(), WORDS[0], &[0]).unwrap();
    assert_eq!(host.call(ada, Request::Update(update)), Reply::Updated);
    let search = begun(&mut host, other, To::Get);
    assert_eq!(compact(&mut host, ada, 1), Reply::Compacted { next: None, read: 1, saved: 0 });
    assert_eq!(compact(&mut host, ada, 0), Reply::Compacted { next: None, read: 20, saved: 0 });
    assert_eq!(host.disk.entries.len(), 42, "nothing is removed yet");
    assert_eq!(release(&mut host, other, search), (0..10).collect());
    assert_eq!(host.disk.entries.len(), 21);
}

/// An update of a document with these words beside the first of all.
fn of_words(document: u8, words: std::ops::Range<u8>) -> Request {
    let mut update = Update::new(0);
    let name = DocumentName([document; 16]);
    let slot = update.document(DocumentAction::NewPublished, name, Facts::default()).unwrap();
    update.occurrences(slot, WORDS[0], &[0]).unwrap();
    words.for_each(|word| update.occurrences(slot, KeywordHash([word; 16]), &[0]).unwrap());
    Request::Update(update)
}

/// So does what is spilled, whatever round came since they began.
#[test]
fn what_is_spilled_stays_until_searches_that_read_it_have_ended() {
    let mut host = Host::with_counters(Disk::default(), 16).start();
    let (ada, other) = (host.connect(1, ADMINISTRATOR), host.connect(2, ADMINISTRATOR));
    host.create(ada, "mail", 0);
    for document in 1..8 {
        let words = 10 * document..10 * document + 8;
        assert_eq!(host.call(ada, of_words(document, words)), Reply::Updated);
    }
    // The tables have been written whole since the last change, so a round needs no checkpoint before it.
    let mut wrong = Update::new(0);
    let slot = wrong.document(DocumentAction::Draft, DocumentName([99; 16]), Facts::default()).unwrap();
    (0..16).for_each(|word| wrong.occurrences(slot, KeywordHash([word; 16]), &[0]).unwrap());
    assert!(matches!(host.call(ada, Request::Update(wrong)), Reply::Refused(_)));
    let search = begun(&mut host, other, To::Load);
    let mut from = None;
    while let Reply::Compacted { next, read: 0, .. } =
        host.call(ada, Request::Compact { collection: 0, from, fence: Fence::default() })
    {
        from = Some(next.expect("a round that reads something"));
    }
    let forgotten = |host: &Host| host.shape.iter().filter(|(kind, _)| kind == "Forget").count();
    let before = forgotten(&host);
    let changed = host.send(ada, of_words(9, 100..115));
    host.run().unwrap();
    assert_eq!((forgotten(&host), host.answer(ada, changed)), (before, None), "it waits for the search");
    assert_eq!(release(&mut host, other, search), (1..8).collect());
    assert!(forgotten(&host) > before);
    assert_eq!(host.answer(ada, changed), Some(Reply::Updated));
}
