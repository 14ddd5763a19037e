//! A storage that answers late, and in another order than it was asked: what is under way waits, and comes to the same.

use super::host::{ADMINISTRATOR, Disk, Host, To, keeping};
use arras_protocol::iee::ConnectionId;
use arras_schemes::bisen::message::{Reply, Request};
use arras_schemes::bisen::query::{Search, Step};
use arras_schemes::bisen::update::{DocumentAction, Facts, Fence, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash};

const WORDS: [KeywordHash; 2] = [KeywordHash([1; 16]), KeywordHash([2; 16])];

/// Documents of a call, and calls: more entries than one question asks for.
const DOCUMENTS: u32 = 2000;
const CALLS: u32 = 5;

fn update(call: u32) -> Request {
    let mut update = Update::new(0);
    for number in call * DOCUMENTS..(call + 1) * DOCUMENTS {
        let mut name = [0; 16];
        name[..4].copy_from_slice(&number.to_be_bytes());
        let action = DocumentAction::NewPublished;
        let slot = update.document(action, DocumentName(name), Facts::default()).unwrap();
        for word in &WORDS[..1 + (number % 3 == 0) as usize] {
            update.occurrences(slot, *word, &[0]).unwrap();
        }
    }
    Request::Update(update)
}

fn search(formula: &[Step]) -> Request {
    let formula = formula.to_vec();
    Request::Search(Search { keywords: WORDS.to_vec(), formula, ..Search::new(0) })
}

/// Sends requests at once. Storage's answers of a kind come when nothing else is left to do, the last first; how many came together at
/// most, and every reply.
fn together(
    host: &mut Host,
    late: Option<To>,
    requests: &[(ConnectionId, Request)],
) -> (usize, Vec<Vec<Reply>>) {
    let sent: Vec<_> =
        requests.iter().map(|(client, request)| (*client, host.send(*client, request.clone()))).collect();
    let mut most = 0;
    loop {
        let held = late.map(|late| {
            let (lie, held) = keeping(late);
            host.lie = lie;
            held
        });
        host.run().unwrap();
        let held = held.map(|held| held.take()).unwrap_or_default();
        if held.is_empty() {
            break;
        }
        most = most.max(held.len());
        held.into_iter().rev().for_each(|answer| host.say(answer));
    }
    let mut replies = |(client, number)| std::iter::from_fn(|| host.answer(client, number)).collect();
    (most, sent.into_iter().map(&mut replies).collect())
}

/// Every reply of a session of two clients, and how many answers came together at most.
fn session(late: Option<To>) -> (usize, Vec<Vec<Reply>>) {
    let mut host = Host::started(Disk::default());
    let (ada, again) = (host.connect(1, ADMINISTRATOR), host.connect(2, ADMINISTRATOR));
    host.create(ada, "mail", 0);
    let both = [Step::Keyword(0), Step::Keyword(1), Step::And];
    let one = [Step::Keyword(0), Step::Keyword(1), Step::Not, Step::And];
    let compact = Request::Compact { collection: 0, from: None, fence: Fence::default() };
    let stages = [
        (0..CALLS).map(|call| (if call % 2 == 0 { ada } else { again }, update(call))).collect(),
        vec![(ada, search(&both)), (again, search(&one)), (ada, search(&one)), (again, compact)],
        vec![(again, search(&both)), (ada, search(&one))],
    ];
    let (mut most, mut replies) = (0, Vec::new());
    for stage in stages {
        let (count, of_stage) = together(&mut host, late, &stage);
        most = most.max(count);
        replies.extend(of_stage);
    }
    (most, replies)
}

#[test]
fn answers_that_come_late_and_in_another_order_change_nothing() {
    let (_, honest) = session(None);
    let found = |replies: &[Reply]| -> usize {
        let pages = replies.iter().map(|reply| match reply {
            Reply::Found(page) => page.hits().count(),
            other => panic!("{other:?}"),
        });
        pages.sum()
    };
    let documents = (CALLS * DOCUMENTS) as usize;
    let [.., both, one] = &honest[..] else { panic!() };
    assert_eq!((found(both), found(one)), (documents / 3 + 1, documents - documents / 3 - 1));
    for (late, together) in [(To::Get, 4), (To::Do, 2), (To::Count, 1), (To::Part, 2)] {
        let (most, replies) = session(Some(late));
        assert!(most >= together, "{most} answers to {late:?} came together");
        assert!(replies == honest, "{late:?}");
    }
}
