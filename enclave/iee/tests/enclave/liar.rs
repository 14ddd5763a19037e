//! A host that lies once, at each of its messages and in each way: it is caught, and never is a result wrong.

use super::host::{ADMINISTRATOR, Disk, Host, Lie, To};
use arras_iee::Fault;
use arras_protocol::Blob;
use arras_protocol::iee::{AskId, ENTRY_BYTES, Incoming, SEALED_BYTES, StateName};
use arras_schemes::bisen::message::{Refused, Reply, Request, Settings, Tampering};
use arras_schemes::bisen::query::{Padding, Search, Step};
use arras_schemes::bisen::update::{DocumentAction, Facts, Fence, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash};
use std::cell::RefCell;
use std::rc::Rc;

const WORDS: [KeywordHash; 2] = [KeywordHash([1; 16]), KeywordHash([2; 16])];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Alter,
    Swap,
    Drop,
    Repeat,
    Truncate,
    Missing,
    Nothing,
}

const WAYS: [Way; 7] =
    [Way::Alter, Way::Swap, Way::Drop, Way::Repeat, Way::Truncate, Way::Missing, Way::Nothing];

/// What a step of the session came to.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Reply(Reply),
    /// No answer, or the connection was closed.
    Nothing,
    Closed,
    Fault(Fault),
}

/// The message in this way, if it is a lie.
fn lie(way: Way, honest: &Incoming, to: To) -> Option<Vec<Incoming>> {
    let flipped = |bytes: &Blob| {
        let mut bytes = bytes.0.clone();
        *bytes.first_mut()? ^= 1;
        Some(Blob(bytes))
    };
    let cut = |bytes: &Blob, by: usize| Some(Blob(bytes.0.get(..bytes.len().checked_sub(by)?)?.to_vec()));
    let answer = |ask, bytes| Incoming::Answer { ask, bytes: Some(bytes) };
    let message = match (way, honest.clone()) {
        (Way::Drop, _) => return Some(Vec::new()),
        (Way::Repeat, message) => return Some(vec![message.clone(), message]),
        (Way::Alter, Incoming::Answer { ask, bytes: Some(bytes) }) => answer(ask, flipped(&bytes)?),
        (Way::Alter, Incoming::Answer { ask, bytes: None }) if to == To::Load => {
            answer(ask, Blob(vec![1; 100]))
        }
        (Way::Alter, Incoming::Answer { ask, bytes: None }) => {
            Incoming::Answer { ask: AskId(ask.0 + 1000), bytes: None }
        }
        // The first bytes are the sequence number: what a plain channel does not protect is not altered.
        (Way::Alter, Incoming::FromClient { connection, bytes }) => {
            Incoming::FromClient { connection, bytes: flipped(&bytes)? }
        }
        (Way::Swap, Incoming::Answer { ask, bytes: Some(entries) }) if to == To::Get => {
            let mut swapped = entries.0;
            if swapped.len() < 2 * SEALED_BYTES {
                return None;
            }
            swapped.rotate_left(SEALED_BYTES);
            answer(ask, Blob(swapped))
        }
        (Way::Truncate, Incoming::Answer { ask, bytes: Some(bytes) }) => {
            answer(ask, cut(&bytes, if to == To::Get { SEALED_BYTES } else { 1 })?)
        }
        (Way::Truncate, Incoming::FromClient { connection, bytes }) => {
            Incoming::FromClient { connection, bytes: Blob(bytes.0.get(..7)?.to_vec()) }
        }
        (Way::Missing, Incoming::Answer { ask, bytes: Some(entries) }) if to == To::Get => {
            answer(ask, Blob(vec![0; entries.len()]))
        }
        (Way::Missing, Incoming::Answer { ask, bytes: Some(value) }) if to == To::Count && value.0[0] > 0 => {
            let mut before = value;
            before.0[0] -= 1;
            answer(ask, before)
        }
        (Way::Nothing, Incoming::Answer { ask, bytes: Some(_) }) => Incoming::Answer { ask, bytes: None },
        _ => return None,
    };
    Some(vec![message])
}

/// The session, without some of its requests: two enclaves one after the other, of which the second finds the first one's state. Their
/// tables hold no more than so many keywords.
fn session(tell: &Rc<RefCell<Lie>>, without: u32, counters_max: usize) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let mut disk = Disk::default();
    for life in 0..2 {
        let mut host = Host::with_counters(std::mem::take(&mut disk), counters_max);
        let tell = Rc::clone(tell);
        host.lie = Some(Box::new(move |incoming, to| (tell.borrow_mut())(incoming, to)));
        for request in requests(life) {
            if without >> outcomes.len() & 1 == 1 {
                outcomes.push(Outcome::Nothing);
                continue;
            }
            let outcome = match host.attempt(ADMINISTRATOR, request) {
                Err(fault) => Outcome::Fault(fault),
                Ok(Some(reply)) => Outcome::Reply(reply),
                Ok(None) if host.closed.is_empty() => Outcome::Nothing,
                Ok(None) => Outcome::Closed,
            };
            outcomes.push(outcome);
        }
        disk = host.disk;
        disk.state.retain(|name, _| *name != StateName::Head || life == 0);
    }
    outcomes
}

fn requests(life: usize) -> Vec<Request> {
    let settings = Settings { fields: 0, padding: Padding::Fixed(10), profile: Blob::default() };
    let create = Request::Create { name: "mail".into(), settings };
    let update = |from: u8| {
        let mut update = Update::new(0);
        for number in from..from + 5 {
            let action = DocumentAction::NewPublished;
            let slot = update.document(action, DocumentName([number; 16]), Facts::default()).unwrap();
            for word in &WORDS[..1 + usize::from(number % 2)] {
                update.occurrences(slot, *word, &[0, 1, 2, 3]).unwrap();
            }
        }
        Request::Update(update)
    };
    let mut search = Search::new(0);
    search.keywords = WORDS.to_vec();
    search.formula = vec![Step::Keyword(0), Step::Keyword(1), Step::Not, Step::And];
    let search = Request::Search(search);
    let compact = Request::Compact { collection: 0, from: None, fence: Fence::default() };
    if life == 0 {
        vec![create, update(0), search.clone(), update(3), compact, search]
    } else {
        vec![search.clone(), update(20), search]
    }
}

/// A host that lies once, in this way, if its message of this number can be a lie; what it did not say.
fn liar(way: Way, at: usize) -> (Lie, Rc<RefCell<Option<Incoming>>>) {
    let lied = Rc::new(RefCell::new(None));
    let (kept, mut number) = (Rc::clone(&lied), 0);
    let liar = move |incoming: Incoming, to: To| {
        number += 1;
        match (number == at + 1).then(|| lie(way, &incoming, to)).flatten() {
            Some(lie) => {
                *kept.borrow_mut() = Some(incoming);
                lie
            }
            None => vec![incoming],
        }
    };
    (Box::new(liar), lied)
}

/// The pages that each step of the session may come to, whichever of its changes were carried out.
fn possible(steps: usize, counters_max: usize) -> Vec<Vec<Outcome>> {
    let mut possible = vec![Vec::new(); steps];
    let changes = [0, 1, 3, 4, 7];
    for subset in 0..1 << changes.len() {
        let without = changes.iter().zip(0..).map(|(step, bit)| (subset >> bit & 1) << step).sum();
        let honest: Lie = Box::new(|incoming, _| vec![incoming]);
        let outcomes = session(&Rc::new(RefCell::new(honest)), without, counters_max);
        possible.iter_mut().zip(outcomes).for_each(|(possible, outcome)| possible.push(outcome));
    }
    possible
}

/// By which name the lie was caught.
fn name_of(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Fault(fault) => Some(format!("{fault:?}")),
        Outcome::Reply(Reply::Refused(Refused::Storage(how))) => Some(format!("{how:?}")),
        Outcome::Closed => Some("Closed".into()),
        Outcome::Nothing | Outcome::Reply(_) => None,
    }
}

#[test]
fn every_lie_is_caught_and_no_result_is_wrong() {
    every_lie_is_caught(usize::MAX);
}

#[test]
fn every_lie_is_caught_where_counters_are_spilled() {
    every_lie_is_caught(1);
}

fn every_lie_is_caught(counters_max: usize) {
    let count = Rc::new(RefCell::new(0));
    let counted = Rc::clone(&count);
    let honest: Lie = Box::new(move |incoming, _| {
        *counted.borrow_mut() += 1;
        vec![incoming]
    });
    let truth = session(&Rc::new(RefCell::new(honest)), 0, counters_max);
    let refused = |outcome: &Outcome| matches!(outcome, Outcome::Reply(Reply::Refused(_)));
    assert!(
        truth.iter().all(|outcome| matches!(outcome, Outcome::Reply(_)) && !refused(outcome)),
        "{truth:?}"
    );
    let messages = *count.borrow();
    assert!(messages > 40, "{messages}");
    let possible = possible(truth.len(), counters_max);
    let (mut told, mut caught) = (0, std::collections::BTreeSet::new());
    for (way, at) in WAYS.iter().flat_map(|way| (0..messages).map(|at| (*way, at))) {
        let (liar, lied) = liar(way, at);
        let outcomes = session(&Rc::new(RefCell::new(liar)), 0, counters_max);
        let Some(message) = lied.borrow().clone() else { continue };
        told += 1;
        let named = outcomes.iter().find_map(name_of);
        for ((outcome, truth), possible) in outcomes.iter().zip(&truth).zip(&possible) {
            if let Outcome::Reply(Reply::Found(_)) = outcome {
                // What a client was refused, or was never answered, may be missing; nothing else is different.
                let changed = named.is_some() || way == Way::Drop;
                assert!(outcome == truth || changed && possible.contains(outcome), "{way:?} of {message:?}");
            }
        }
        // What is not carried at all is denied, not forged.
        assert!(named.is_some() || way == Way::Drop, "{way:?} of {message:?} was not caught: {outcomes:?}");
        caught.extend(named);
    }
    assert!(told > 150, "{told}");
    let names =
        "Missing Altered Length Unasked StateAltered StateEarlier StateSetBack Forked Closed OutOfTurn";
    for name in names.split(' ') {
        assert!(caught.contains(name), "{name} in {caught:?}");
    }
}

/// A history of ten updates with the disk after each.
fn history() -> (Vec<Disk>, Search) {
    let mut host = Host::started(Disk::default());
    let ada = host.connect(1, ADMINISTRATOR);
    host.create(ada, "mail", 0);
    let mut disks = vec![host.disk.clone()];
    for number in 0..10 {
        let mut update = Update::new(0);
        let name = DocumentName([number; 16]);
        let slot = update.document(DocumentAction::NewPublished, name, Facts::default()).unwrap();
        update.occurrences(slot, WORDS[0], &[0]).unwrap();
        assert_eq!(host.call(ada, Request::Update(update)), Reply::Updated);
        disks.push(host.disk.clone());
    }
    let search = Search { keywords: vec![WORDS[0]], formula: vec![Step::Keyword(0)], ..Search::new(0) };
    (disks, search)
}

#[test]
fn a_state_or_a_storage_set_back_is_noticed() {
    let (disks, search) = history();
    let newest = disks.last().unwrap();
    for old in &disks[..disks.len() - 1] {
        // The state alone: the counter stands in a device of its own.
        let mut disk = Disk { counter: newest.counter, ..old.clone() };
        assert_eq!(Host::new(disk.clone()).run(), Err(Fault::StateSetBack));
        // All but one record.
        disk.state = newest.state.clone();
        disk.state.remove(&StateName::Log(old.counted() + 1));
        assert_eq!(Host::new(disk).run(), Err(Fault::StateSetBack));
        // The counter alone.
        if old.counter + 1 < newest.counter {
            let disk = Disk { counter: old.counter, ..newest.clone() };
            assert_eq!(Host::new(disk).run(), Err(Fault::CounterSetBack));
        }
        // The storage alone.
        let mut host = Host::started(Disk { entries: old.entries.clone(), ..newest.clone() });
        let ada = host.connect(1, ADMINISTRATOR);
        // The last update is stored again at the start, as its record is not known to be finished.
        let lost = host.disk.entries.len() < newest.entries.len();
        let refused = host.search(ada, search.clone()).err();
        assert_eq!(refused, lost.then_some(Refused::Storage(Tampering::Missing)));
    }
    // Records of two enclaves do not mix.
    let mut disk = newest.clone();
    let (others, _) = history();
    disk.state.insert(StateName::Log(5), others.last().unwrap().state[&StateName::Log(5)].clone());
    assert_eq!(Host::new(disk).run(), Err(Fault::StateAltered));
}

/// A host that denies the state can have an enclave begin anew, for an administrator of its own: with keys of his own, or he could
/// make the labels of what was stored for another.
#[test]
fn who_begins_anew_with_another_administrator_has_other_keys() {
    let stored = |administrator: &str| {
        let mut host = Host::with_administrator(Disk::default(), administrator).start();
        let connection = host.connect(1, administrator);
        let opened = host.create(connection, "mail", 0);
        let mut update = Update::new(0);
        let slot =
            update.document(DocumentAction::NewPublished, DocumentName([1; 16]), Facts::default()).unwrap();
        update.occurrences(slot, WORDS[0], &[0]).unwrap();
        assert_eq!(host.call(connection, Request::Update(update)), Reply::Updated);
        let labels: Vec<_> = host.disk.entries.keys().copied().collect();
        (opened.salt.0, labels)
    };
    let (salt, labels) = stored(ADMINISTRATOR);
    // The sealing key is one and the same: so is all that is derived of it for the same administrator.
    assert!(stored(ADMINISTRATOR) == (salt, labels.clone()));
    let (others_salt, others_labels) = stored("mallory");
    assert!(others_salt != salt);
    assert!(others_labels.iter().all(|label| !labels.contains(label)));
}

#[test]
fn a_record_of_a_run_that_was_cut_short_does_not_come_back_beside_another() {
    // A first run saves a record, of which the counter never heard.
    let (disks, search) = history();
    let mut host = Host::started(disks.last().unwrap().clone());
    let ada = host.connect(1, ADMINISTRATOR);
    let mut update = Update::new(0);
    update.document(DocumentAction::Retire, DocumentName([3; 16]), Facts::default()).unwrap();
    // The record, and no further.
    host.crash_after = Some(1);
    host.send(ada, Request::Update(update));
    host.run().unwrap();
    let cut = host.disk.clone();
    let number = cut.counted() + 1;
    let hidden = cut.state[&StateName::Log(number)].clone();
    // The host hides it from the next run, which goes on without, and shows it to the one after.
    let mut disk = cut;
    disk.state.remove(&StateName::Log(number));
    let mut host = Host::started(disk);
    assert_eq!(host.disk.counted(), number);
    let ada = host.connect(1, ADMINISTRATOR);
    assert_eq!(host.search(ada, search.clone()).unwrap()[0].hits().count(), 10);
    let mut update = Update::new(0);
    update.document(DocumentAction::Retire, DocumentName([4; 16]), Facts::default()).unwrap();
    assert_eq!(host.call(ada, Request::Update(update)), Reply::Updated);
    let mut disk = host.disk;
    disk.state.insert(StateName::Log(number), hidden);
    assert_eq!(Host::new(disk).run(), Err(Fault::StateAltered));
}

#[test]
fn an_entry_takes_48_bytes() {
    let (disks, _) = history();
    assert_eq!(disks.last().unwrap().entries.len(), 10);
    assert_eq!(ENTRY_BYTES, 48);
}
