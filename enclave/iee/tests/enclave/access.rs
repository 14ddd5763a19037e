//! Who may do what, and what misbehaving clients can do to others.

use super::host::{ADMINISTRATOR, Disk, Host, To, keeping, without};
use arras_iee::Fault;
use arras_protocol::Blob;
use arras_protocol::iee::{ConnectionId, Incoming};
use arras_schemes::bisen::message::{Groups, Refused, Reply, Request, Rights, Settings};
use arras_schemes::bisen::query::{Filter, Padding, PhraseWord, Ranking, Search, Step};
use arras_schemes::bisen::update::{DocumentAction, Facts, Fence, Field, PAIRS_MAX, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash};
use std::cell::RefCell;
use std::collections::BTreeSet;

const WORD: KeywordHash = KeywordHash([9; 16]);

/// A collection of documents of which each third is for group 0, 1 and 2.
pub(crate) fn world(documents: u32) -> (Host, ConnectionId, u32) {
    let mut host = Host::with_memory(Disk::default(), 16 << 20);
    host.run().unwrap();
    let ada = host.connect(1, ADMINISTRATOR);
    let collection = host.create(ada, "mail", 2).collection;
    for first in (0..documents).step_by(1000) {
        let mut update = Update::new(collection);
        for number in first..documents.min(first + 1000) {
            let mut name = [0; 16];
            name[..4].copy_from_slice(&number.to_le_bytes());
            let facts =
                Facts { length: 1, visibility: number % 3, fields: [i64::from(number), 0, 0, 0].map(Field) };
            let slot = update.document(DocumentAction::NewPublished, DocumentName(name), facts).unwrap();
            update.occurrences(slot, WORD, &[0]).unwrap();
        }
        assert_eq!(host.call(ada, Request::Update(update)), Reply::Updated);
    }
    (host, ada, collection)
}

pub(crate) fn search(collection: u32) -> Search {
    Search { keywords: vec![WORD], formula: vec![Step::Keyword(0)], ..Search::new(collection) }
}

fn grant(host: &mut Host, ada: ConnectionId, rights: Rights) {
    grant_to(host, ada, "bob", rights);
}

pub(crate) fn grant_to(host: &mut Host, ada: ConnectionId, name: &str, rights: Rights) {
    let request = Request::Grant { identity: name.into(), collection: "mail".into(), rights };
    assert_eq!(host.call(ada, request), Reply::Done);
}

pub(crate) fn rights() -> Rights {
    Rights { search: true, update: false, rank: false, fields: 0b01, groups: Groups::only([2]) }
}

pub(crate) fn found(host: &mut Host, client: ConnectionId, search: Search) -> Result<BTreeSet<u32>, Refused> {
    let pages = host.search(client, search)?;
    let numbers = pages.iter().flat_map(|page| {
        page.hits().map(|hit| u32::from_le_bytes(*hit.name.0.first_chunk().unwrap())).collect::<Vec<_>>()
    });
    Ok(numbers.collect())
}

#[test]
fn rights_are_kept_to_and_survive_a_restart() {
    let (mut host, ada, collection) = world(30);
    let bob = host.connect(2, "bob");
    let not_allowed = Reply::Refused(Refused::NotAllowed);
    assert_eq!(host.call(bob, Request::Open("mail".into())), not_allowed);
    assert_eq!(host.call(bob, Request::Open("other".into())), not_allowed);
    assert_eq!(host.call(bob, Request::Search(search(collection))), not_allowed);
    grant(&mut host, ada, rights());
    for restarted in [false, true] {
        if restarted {
            host = Host::started(std::mem::take(&mut host.disk));
            assert_eq!((host.connect(1, ADMINISTRATOR), host.connect(2, "bob")), (ada, bob));
        }
        let seen = found(&mut host, bob, search(collection)).unwrap();
        assert_eq!(seen, (0..30).filter(|number| number % 3 != 1).collect());
        // A negation shows no more.
        let mut negated = search(collection);
        negated.formula = vec![Step::All];
        assert_eq!(found(&mut host, bob, negated).unwrap(), seen);
        let mut ranged = search(collection);
        ranged.filters = vec![Filter::field(0, 3, 8), Filter::visibility(2)];
        assert_eq!(found(&mut host, bob, ranged).unwrap(), BTreeSet::from([5, 8]));
        let mut beyond = search(collection);
        beyond.filters = vec![Filter::field(1, 0, 0)];
        assert_eq!(found(&mut host, bob, beyond), Err(Refused::NotAllowed));
        let ranked = search(collection).ranked_by(Ranking::Bm25);
        assert_eq!(found(&mut host, bob, ranked), Err(Refused::NotAllowed));
        assert_eq!(host.call(bob, Request::Update(Update::new(collection))), not_allowed);
        assert_eq!(
            host.call(bob, Request::Compact { collection, from: None, fence: Fence::default() }),
            not_allowed
        );
        assert_eq!(host.call(bob, Request::Revoke(ADMINISTRATOR.into())), not_allowed);
    }
    assert_eq!(host.call(ada, Request::Revoke("bob".into())), Reply::Done);
    assert_eq!(host.closed, [bob]);
    let bob = host.connect(3, "bob");
    assert_eq!(host.call(bob, Request::Search(search(collection))), not_allowed);
}

#[test]
fn rights_that_were_narrowed_hold_for_what_is_under_way() {
    let (mut host, ada, collection) = world(10_000);
    grant(&mut host, ada, Rights { groups: Groups::All, ..rights() });
    let bob = host.connect(2, "bob");
    // Of a first one a page is on its way.
    let (lie, taking) = keeping(To::Part);
    host.lie = lie;
    let first = host.send(bob, Request::Search(search(collection)));
    host.run().unwrap();
    host.lie = None;
    assert!(matches!(host.answer(bob, first), Some(Reply::Found(page)) if !page.is_last()));
    assert_eq!(host.answer(bob, first), None);
    // A second search has its entries when the rights change, and is not evaluated yet.
    let number = host.send(bob, Request::Search(search(collection)));
    let searches = host.gets.len();
    while host.gets.len() == searches {
        assert!(host.step().unwrap());
    }
    let request = Request::Grant { identity: "bob".into(), collection: "mail".into(), rights: rights() };
    host.send(ada, request);
    let (lie, kept) = keeping(To::Get);
    host.lie = lie;
    host.run().unwrap();
    host.lie = None;
    kept.take().into_iter().for_each(|incoming| host.say(incoming));
    host.run().unwrap();
    assert_eq!(host.answer(bob, number), Some(Reply::Refused(Refused::NotAllowed)));
    taking.take().into_iter().for_each(|incoming| host.say(incoming));
    host.run().unwrap();
    assert_eq!(host.answer(bob, first), Some(Reply::Refused(Refused::NotAllowed)));
    assert_eq!(found(&mut host, bob, search(collection)).unwrap().len(), 6667);
}

/// Neither the collection's revision nor that it is there.
#[test]
fn who_may_do_nothing_opens_nothing() {
    let (mut host, ada, _) = world(3);
    let open = || Request::Open("mail".into());
    grant(&mut host, ada, rights());
    let bob = host.connect(2, "bob");
    assert!(matches!(host.call(bob, open()), Reply::Opened(_)));
    let nothing = Rights { search: false, update: false, ..rights() };
    grant(&mut host, ada, nothing);
    assert_eq!(host.call(bob, open()), Reply::Refused(Refused::NotAllowed));
    let never = host.connect(3, "carol");
    assert_eq!(host.call(never, open()), Reply::Refused(Refused::NotAllowed));
}

/// What is said of rights fits a checkpoint, and a full policy can still be narrowed.
#[test]
fn rights_are_bounded_and_a_grant_in_place_of_another_needs_no_room() {
    let (mut host, ada, _) = world(1);
    let groups = Groups::only(u32::MAX - 255..=u32::MAX);
    let to = |number: u32, rights: Rights| Request::Grant {
        identity: format!("client {number:093}"),
        collection: "mail".into(),
        rights,
    };
    let many = || Rights { groups: groups.clone(), ..rights() };
    let full = Reply::Refused(Refused::Bound);
    let given = (0..).find(|number| host.call(ada, to(*number, many())) == full).unwrap();
    // Some 5,450 bytes each, in three quarters of a mebibyte.
    assert!((141..147).contains(&given), "{given}");
    let none = || Rights { search: false, update: false, ..rights() };
    assert_eq!(host.call(ada, to(7, Rights { rank: false, ..many() })), Reply::Done);
    assert_eq!(host.call(ada, to(8, none())), Reply::Done);
    assert_eq!(host.call(ada, to(given, many())), Reply::Done);
    assert_eq!(host.call(ada, to(given + 1, many())), full);
    let mut certificates = (0..).map(|number: u32| {
        let serial = [&[1; 17][..], &number.to_be_bytes()].concat();
        host.call(ada, Request::RevokeCertificate(serial.into()))
    });
    // Rights leave room for them.
    assert!(certificates.by_ref().take(2000).all(|reply| reply == Reply::Done));
    assert!(certificates.find(|reply| *reply != Reply::Done) == Some(full));
    let Request::Grant { identity, .. } = to(7, none()) else { panic!() };
    assert_eq!(host.call(ada, Request::Revoke(identity)), Reply::Done);
    assert_eq!(host.call(ada, to(given + 1, many())), Reply::Done);
}

#[test]
fn what_waits_behind_a_revocation_is_not_carried_out() {
    let (mut host, ada, collection) = world(3);
    grant(&mut host, ada, Rights { update: true, ..rights() });
    let bob = host.connect(2, "bob");
    let mut update = Update::new(collection);
    update.document(DocumentAction::Retire, DocumentName([0; 16]), Facts::default()).unwrap();
    let revoked = host.send(ada, Request::Revoke("bob".into()));
    host.send(bob, Request::Update(update));
    host.run().unwrap();
    assert_eq!(host.answer(ada, revoked), Some(Reply::Done));
    assert_eq!(found(&mut host, ada, search(collection)).unwrap().len(), 3);
}

#[test]
fn a_host_that_seats_a_client_before_the_state_is_loaded_gets_nowhere() {
    let (mut host, ..) = world(3);
    let mut second = Host::new(std::mem::take(&mut host.disk));
    // The launch, and what follows it, before any answer.
    let client = second.announce(1, ADMINISTRATOR);
    let number = second.send(client, Request::Open("mail".into()));
    assert_eq!(second.run(), Err(Fault::OutOfTurn));
    assert_eq!(second.answer(client, number), None);
}

#[test]
fn the_host_cannot_make_somebody_else_the_administrator() {
    let (mut host, ..) = world(3);
    let mut second = Host::with_administrator(std::mem::take(&mut host.disk), "mallory");
    assert_eq!(second.run(), Err(Fault::Administrator));
    assert!(!second.is_ready);
}

/// Clients look for such things before they ask: the enclave need only get through them.
#[test]
fn what_says_nothing_in_a_search_finds_nothing() {
    let (mut host, ada, collection) = world(9);
    let far = u16::MAX;
    let ask = |formula: Vec<Step>, filters: Vec<Filter>| {
        let asked = Search { formula, filters, ranked: far, top: u32::MAX, ..search(collection) };
        [Ranking::None, Ranking::TfIdf, Ranking::Bm25].map(|ranking| Search { ranking, ..asked.clone() })
    };
    let phrase = |words: &[(u16, u16)]| {
        vec![Step::Phrase(words.iter().map(|(keyword, at)| PhraseWord(*keyword, *at)).collect())]
    };
    let nothing = [
        ask(vec![Step::Keyword(far)], vec![]),
        ask(phrase(&[]), vec![]),
        ask(phrase(&[(0, 0), (far, 1)]), vec![]),
        ask(phrase(&[(0, far)]), vec![]),
        ask(vec![Step::All], vec![Filter::frequency(far, 0)]),
        ask(vec![Step::All], vec![Filter::field(0, 1, 0)]),
    ];
    for asked in nothing.into_iter().flatten() {
        assert!(found(&mut host, ada, asked).unwrap().is_empty());
    }
    for asked in ask(vec![Step::All], vec![Filter::frequency(0, 0)]) {
        assert_eq!(found(&mut host, ada, asked).unwrap().len(), 9);
    }
    let mut update = Update::new(collection);
    update.delete(5, WORD).unwrap();
    assert_eq!(host.call(ada, Request::Update(update)), Reply::Refused(Refused::Document(5)));
}

#[test]
fn what_is_wrong_with_a_request_is_named() {
    let (mut host, ada, collection) = world(3);
    let mut malformed = search(collection);
    malformed.formula.push(Step::And);
    assert_eq!(host.call(ada, Request::Search(malformed)), Reply::Refused(Refused::Formula));
    let mut update = Update::new(collection);
    update.document(DocumentAction::Retire, DocumentName([0; 16]), Facts::default()).unwrap();
    update.document(DocumentAction::Existing, DocumentName([77; 16]), Facts::default()).unwrap();
    assert_eq!(host.call(ada, Request::Update(update)), Reply::Refused(Refused::Document(1)));
    let mut update = Update::new(collection);
    let slot = update.document(DocumentAction::Retire, DocumentName([0; 16]), Facts::default()).unwrap();
    update.delete(slot, WORD).unwrap();
    assert_eq!(host.call(ada, Request::Update(update)), Reply::Refused(Refused::Document(0)));
    let settings = Settings { fields: 1, padding: Padding::None, profile: Blob::default() };
    let other = Request::Create { name: "mail".into(), settings };
    assert_eq!(host.call(ada, other), Reply::Refused(Refused::OtherSettings));
}

#[test]
fn a_client_that_breaks_the_rules_is_cut_off_and_others_go_on() {
    let (mut host, ada, collection) = world(9);
    let expected = found(&mut host, ada, search(collection)).unwrap();
    let say = |connection, bytes: &[u8]| Incoming::FromClient { connection, bytes: Blob(bytes.to_vec()) };
    // No greeting; bytes that are no message.
    let rude = host.connect(10, "rude");
    host.say(say(rude, b"short"));
    let greeted = host.connect(11, "rude");
    host.say(say(greeted, &[0; 20]));
    host.run().unwrap();
    assert_eq!(host.closed, [rude, greeted]);
    host.say(Incoming::Connected { connection: ConnectionId(13), seconds: 0 });
    host.say(say(ConnectionId(13), b"hello"));
    host.run().unwrap();
    assert_eq!(host.closed.len(), 3);
    assert_eq!(found(&mut host, ada, search(collection)).unwrap(), expected);
}

fn updated(collection: u32, number: u32) -> Request {
    let mut name = [0; 16];
    name[..4].copy_from_slice(&number.to_le_bytes());
    let mut update = Update::new(collection);
    let action = DocumentAction::NewPublished;
    let slot = update.document(action, DocumentName(name), Facts::default()).unwrap();
    update.occurrences(slot, WORD, &[0]).unwrap();
    Request::Update(update)
}

#[test]
fn what_is_under_way_of_clients_that_are_gone_is_nobody_s() {
    let (mut host, ada, collection) = world(3);
    let other = host.connect(2, ADMINISTRATOR);
    let (lie, kept) = keeping(To::Do);
    host.lie = lie;
    let under_way = host.send(other, updated(collection, 10));
    let waiting = host.send(ada, updated(collection, 11));
    host.run().unwrap();
    [ada, other].into_iter().for_each(|gone| host.say(Incoming::Disconnected(gone)));
    let again = host.announce(3, ADMINISTRATOR);
    host.run().unwrap();
    host.lie = None;
    assert!(!kept.borrow().is_empty());
    kept.take().into_iter().for_each(|incoming| host.say(incoming));
    host.run().unwrap();
    assert_eq!((host.answer(other, under_way), host.answer(ada, waiting)), (None, None));
    // What was under way is there, what waited has nobody's rights.
    assert_eq!(found(&mut host, again, search(collection)).unwrap(), BTreeSet::from([0, 1, 2, 10]));
}

/// Or it could have a client answered what another one asked.
#[test]
fn a_connection_s_number_is_not_used_again() {
    let (mut host, ada, _) = world(3);
    host.say(Incoming::Disconnected(ada));
    host.run().unwrap();
    host.say(Incoming::Connected { connection: ada, seconds: 0 });
    assert_eq!(host.run(), Err(Fault::OutOfTurn));
}

/// Whether no other answer comes behind a reply.
fn is_last(reply: &Reply) -> bool {
    !matches!(reply, Reply::Found(page) if !page.is_last())
}

#[test]
fn a_long_search_does_not_stop_a_short_one() {
    let (mut host, ada, collection) = world(40_000);
    let bob = host.connect(2, ADMINISTRATOR);
    let long = host.send(ada, Request::Search(search(collection)));
    let mut none = search(collection);
    none.keywords = vec![KeywordHash([1; 16])];
    let short = host.send(bob, Request::Search(none));
    let order = RefCell::new(Vec::new());
    while host.step().unwrap() {
        for (client, number) in [(ada, long), (bob, short)] {
            if host.answer(client, number).is_some_and(|reply| is_last(&reply)) {
                order.borrow_mut().push(number);
            }
        }
    }
    assert_eq!(order.into_inner(), [short, long]);
}

/// How many requests a client has under way is bounded by what they take.
#[test]
fn requests_of_one_client_beyond_its_room_are_refused_and_others_go_on() {
    let (mut host, ada, collection) = world(9);
    grant(&mut host, ada, rights());
    let bob = host.connect(2, "bob");
    host.lie = without(To::Get);
    let asked: Vec<u64> = (0..400).map(|_| host.send(bob, Request::Search(search(collection)))).collect();
    host.run().unwrap();
    let refused: Vec<Reply> = asked.iter().filter_map(|number| host.answer(bob, *number)).collect();
    assert!(!refused.is_empty() && refused.len() < asked.len());
    assert!(refused.iter().all(|reply| *reply == Reply::Refused(Refused::Busy)));
    host.lie = None;
    assert_eq!(found(&mut host, ada, search(collection)).unwrap().len(), 9);
}

#[test]
fn a_long_evaluation_is_done_in_pieces_and_others_go_between() {
    let (mut host, ada, collection) = world(70_000);
    let bob = host.connect(2, ADMINISTRATOR);
    let formula = [vec![Step::All], vec![Step::Not; 1000]].concat();
    let long = host.send(ada, Request::Search(Search { formula, ..Search::new(collection) }));
    // It is taken, and its first piece waits for its turn.
    assert!(host.step().unwrap());
    assert_eq!(host.answer(ada, long), None);
    let short = host.send(bob, Request::Open("mail".into()));
    let mut answered = Vec::new();
    while host.step().unwrap() {
        for (client, number) in [(ada, long), (bob, short)] {
            answered.extend(host.answer(client, number).filter(is_last).map(|_| number));
        }
    }
    assert_eq!(answered, [short, long]);
}

#[test]
fn what_does_not_fit_is_refused_with_what_it_takes() {
    let (mut host, ada, collection) = world(1000);
    let mut refused = None;
    for round in 0..400_u32 {
        let mut update = Update::new(collection);
        for number in 0..2000_u32 {
            let mut name = [1; 16];
            name[..8].copy_from_slice(&u64::from(round * 2000 + number).to_le_bytes());
            update.document(DocumentAction::NewPublished, DocumentName(name), Facts::default()).unwrap();
        }
        match host.call(ada, Request::Update(update)) {
            Reply::Updated => {}
            Reply::Refused(Refused::Memory { needed, budget }) => {
                refused = Some((needed, budget));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let (needed, budget) = refused.expect("16 MiB are full");
    assert!(needed > budget);
    assert!(found(&mut host, ada, search(collection)).unwrap().len() == 1000);
}

/// Requests of clients that are gone take no room from others, however long what is under way takes.
#[test]
fn what_waits_of_a_client_that_is_gone_takes_no_room() {
    let (mut host, ada, collection) = world(1);
    let bob = host.connect(2, ADMINISTRATOR);
    host.lie = without(To::Do);
    let call = || {
        let mut update = Update::new(collection);
        let slot = update.document(DocumentAction::NewPublished, DocumentName([9; 16]), Facts::default());
        let slot = slot.unwrap();
        (0..PAIRS_MAX / 8).for_each(|_| update.occurrences(slot, KeywordHash([1; 16]), &[0]).unwrap());
        Request::Update(update)
    };
    // It is under way for as long as the host says nothing.
    assert_eq!(host.try_call(ada, call()), Ok(None));
    for number in 3..20 {
        let client = host.connect(number, ADMINISTRATOR);
        assert_eq!(host.try_call(client, call()), Ok(None), "{number}");
        host.say(Incoming::Disconnected(client));
        host.run().unwrap();
    }
    assert_eq!(host.try_call(bob, call()), Ok(None));
}

#[test]
fn a_keyword_that_is_listed_twice_is_refused() {
    let (mut host, ada, collection) = world(10);
    let mut twice = search(collection);
    twice.keywords = vec![twice.keywords[0]; 2];
    twice.formula = vec![Step::Keyword(0), Step::Keyword(1), Step::And];
    host.gets.clear();
    assert_eq!(host.search(ada, twice).unwrap_err(), Refused::Formula);
    assert!(host.gets.is_empty());
}

/// What somebody may ask who is not the administrator.
fn may_update() -> Rights {
    Rights { search: true, update: true, rank: true, fields: 0, groups: Groups::All }
}

#[test]
fn one_client_does_not_take_all_connections() {
    let (mut host, ada, collection) = world(9);
    grant(&mut host, ada, rights());
    let most = 512;
    for number in 0..most {
        host.connect(100 + number, "bob");
    }
    assert_eq!(host.closed, []);
    let one_more = host.connect(100 + most, "bob");
    assert_eq!(host.closed, [one_more]);
    let again = host.connect(1000, ADMINISTRATOR);
    assert_eq!(found(&mut host, again, search(collection)).unwrap().len(), 9);
    // Where one ends there is place for another.
    host.say(Incoming::Disconnected(ConnectionId(100)));
    let bob = host.connect(1001, "bob");
    assert_eq!(found(&mut host, bob, search(collection)).unwrap().len(), 6);
}

#[test]
fn what_waits_of_one_client_leaves_room_for_others() {
    let (mut host, ada, collection) = world(9);
    grant(&mut host, ada, may_update());
    host.lie = without(To::Do);
    let call = |pairs: usize| {
        let mut update = Update::new(collection);
        let slot = update.document(DocumentAction::NewPublished, DocumentName([9; 16]), Facts::default());
        let slot = slot.unwrap();
        (0..pairs).for_each(|_| update.occurrences(slot, KeywordHash([1; 16]), &[0]).unwrap());
        Request::Update(update)
    };
    // Nothing of it is ever done, and all that fits waits.
    let mut number = 10;
    for pairs in [PAIRS_MAX / 8, PAIRS_MAX / 64, PAIRS_MAX / 512, 1] {
        loop {
            number += 1;
            let bob = host.connect(number, "bob");
            match host.try_call(bob, call(pairs)).unwrap() {
                None => {}
                refused => break assert_eq!(refused, Some(Reply::Refused(Refused::Busy))),
            }
            assert!(number < 500, "nothing is ever refused");
        }
    }
    assert_eq!(found(&mut host, ada, search(collection)).unwrap().len(), 9);
    assert_eq!(host.try_call(ada, call(PAIRS_MAX / 8)).unwrap(), None);
}

/// How many of what was asked is answered before one of them, each as it is to be.
fn answered_before(
    host: &mut Host,
    asked: &[(ConnectionId, u64)],
    one: u64,
    is_right: impl Fn(&Reply) -> bool,
) -> usize {
    let mut answered = Vec::new();
    while host.step().unwrap() {
        for (client, number) in asked {
            if let Some(reply) = host.answer(*client, *number) {
                assert!(is_right(&reply), "{reply:?}");
                answered.push(*number);
            }
        }
    }
    assert_eq!(answered.len(), asked.len());
    answered.iter().position(|number| *number == one).unwrap()
}

#[test]
fn searches_of_one_client_do_not_all_come_before_another_s() {
    let (mut host, ada, collection) = world(20_000);
    grant(&mut host, ada, may_update());
    let formula = [vec![Step::All], vec![Step::Not; 1000]].concat();
    let long = Request::Search(Search { formula, top: 1, ..Search::new(collection) });
    let connections: Vec<ConnectionId> = (10..14).map(|number| host.connect(number, "bob")).collect();
    let mut asked: Vec<_> = connections.into_iter().map(|bob| (bob, host.send(bob, long.clone()))).collect();
    let mine = host.send(ada, long);
    asked.push((ada, mine));
    let place = answered_before(&mut host, &asked, mine, |reply| matches!(reply, Reply::Found(_)));
    assert!(place < 3, "{place} of {} came before", asked.len());
}

#[test]
fn a_client_alone_has_what_one_large_search_takes_and_its_result() {
    // Of what so many documents leave free a search of all entries, with metadata, takes more than half.
    let (mut host, ada, collection) = world(72_000);
    let ranked = Search { top: 10, ..search(collection) }.ranked_by(Ranking::Bm25);
    for _ in 0..3 {
        let reply = host.call(ada, Request::Search(ranked.clone()));
        assert!(matches!(reply, Reply::Found(_)), "{reply:?}");
    }
}

#[test]
fn changes_of_clients_go_in_turns() {
    let (mut host, ada, collection) = world(9);
    grant(&mut host, ada, may_update());
    let mut asked = Vec::new();
    let compact = || Request::Compact { collection, from: None, fence: Fence::default() };
    let carol = Request::Grant { identity: "carol".into(), collection: "mail".into(), rights: may_update() };
    assert_eq!(host.call(ada, carol), Reply::Done);
    let name = |number| if number % 2 == 0 { "bob" } else { "carol" };
    let connections: Vec<ConnectionId> = (10..40).map(|number| host.connect(number, name(number))).collect();
    connections.into_iter().for_each(|other| asked.push((other, host.send(other, compact()))));
    let mine = host.send(ada, compact());
    asked.push((ada, mine));
    let place = answered_before(&mut host, &asked, mine, |reply| matches!(reply, Reply::Compacted { .. }));
    assert!(place < 4, "{place} of {} came before", asked.len());
}

#[test]
fn who_only_searches_does_not_hear_how_much_went() {
    let (mut host, ada, collection) = world(9);
    grant(&mut host, ada, rights());
    let bob = host.connect(2, "bob");
    let mut update = Update::new(collection);
    let mut name = [0; 16];
    name[..4].copy_from_slice(&1_u32.to_le_bytes());
    update.document(DocumentAction::Retire, DocumentName(name), Facts::default()).unwrap();
    assert_eq!(host.call(ada, Request::Update(update)), Reply::Updated);
    let heard = |host: &mut Host, client| match host.call(client, Request::Open("mail".into())) {
        Reply::Opened(opened) => (opened.entries, opened.live_entries),
        other => panic!("{other:?}"),
    };
    assert_eq!(heard(&mut host, ada), (9, 8));
    assert_eq!(heard(&mut host, bob), (9, 9));
}
