//! Several runs on one state: one goes on, and nothing that another one has sealed comes in the place of what was acknowledged.

use super::host::{ADMINISTRATOR, Disk, Host, To, without};
use arras_iee::Fault;
use arras_protocol::iee::{ConnectionId, StateName};
use arras_schemes::bisen::message::{Reply, Request};
use arras_schemes::bisen::query::{Search, Step};
use arras_schemes::bisen::update::{DocumentAction, Facts, Fence, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash};

const WORD: KeywordHash = KeywordHash([5; 16]);

fn update(number: u8) -> Request {
    let mut update = Update::new(0);
    let name = DocumentName([number; 16]);
    let slot = update.document(DocumentAction::NewPublished, name, Facts::default()).unwrap();
    update.occurrences(slot, WORD, &[0]).unwrap();
    Request::Update(update)
}

fn search() -> Search {
    Search { keywords: vec![WORD], formula: vec![Step::Keyword(0)], ..Search::new(0) }
}

fn running() -> (Host, ConnectionId) {
    let mut host = Host::started(Disk::default());
    let ada = host.connect(1, ADMINISTRATOR);
    host.create(ada, "mail", 0);
    assert_eq!(host.call(ada, update(0)), Reply::Updated);
    (host, ada)
}

/// A second run on the same disk, which has sealed its first record and does not hear that it is saved.
fn beginning(disk: &Disk) -> Host {
    let mut second = Host::new(disk.clone());
    second.lie = without(To::Do);
    second.run().unwrap();
    assert_eq!(second.disk.counter, disk.counter);
    second
}

#[test]
fn a_second_run_s_first_record_does_not_stand_for_an_acknowledged_one() {
    let (mut host, ada) = running();
    let second = beginning(&host.disk);
    let number = host.disk.counted() + 1;
    assert_eq!(host.call(ada, update(1)), Reply::Updated);
    assert_eq!(host.disk.counted(), number);
    let mut disk = host.disk.clone();
    disk.state.insert(StateName::Log(number), second.disk.state[&StateName::Log(number)].clone());
    assert_eq!(Host::new(disk).run(), Err(Fault::StateSetBack));
    // Nor does one of two acknowledged records.
    assert_eq!(host.call(ada, update(2)), Reply::Updated);
    let mut disk = host.disk.clone();
    disk.state.insert(StateName::Log(number), second.disk.state[&StateName::Log(number)].clone());
    disk.state.remove(&StateName::Log(number + 1));
    assert_eq!(Host::new(disk).run(), Err(Fault::StateSetBack));
}

#[test]
fn a_record_that_was_never_counted_does_not_stand_for_the_next_run_s() {
    let (mut host, ada) = running();
    // The first run seals a record, and the second begins before the counter hears of it.
    let before = host.disk.clone();
    host.crash_after = Some(1);
    host.send(ada, update(1));
    host.run().unwrap();
    let number = before.counted() + 1;
    let uncounted = host.disk.state[&StateName::Log(number)].clone();
    let second = Host::started(before);
    let mut disk = second.disk;
    assert_eq!(disk.counted(), number);
    disk.state.insert(StateName::Log(number), uncounted);
    assert_eq!(Host::new(disk).run(), Err(Fault::StateSetBack));
}

#[test]
fn of_two_runs_on_one_state_one_goes_on() {
    // The second begins: the first one's next change is not acknowledged.
    let (mut first, ada) = running();
    let mut second = Host::started(first.disk.clone());
    first.disk.counter = second.disk.counter;
    assert_eq!(first.try_call(ada, update(1)), Err(Fault::Forked));
    let bob = second.connect(1, ADMINISTRATOR);
    assert_eq!(second.call(bob, update(1)), Reply::Updated);
    // The first changes something while the second begins: the second does not.
    let (mut first, ada) = running();
    let mut second = Host::new(first.disk.clone());
    while second.shape.iter().all(|(kind, _)| kind != "Save") {
        assert!(second.step().unwrap());
    }
    assert_eq!(first.call(ada, update(1)), Reply::Updated);
    second.disk.counter = first.disk.counter;
    assert_eq!(second.run(), Err(Fault::Forked));
    assert!(!second.is_ready);
    assert_eq!(first.call(ada, update(2)), Reply::Updated);
}

#[test]
fn a_record_that_a_crash_left_before_the_counter_is_taken_whole() {
    let (mut host, ada) = running();
    host.crash_after = Some(1);
    host.send(ada, update(1));
    host.run().unwrap();
    let mut host = Host::started(host.disk);
    let ada = host.connect(1, ADMINISTRATOR);
    assert_eq!(host.search(ada, search()).unwrap()[0].hits().count(), 2);
    let mut host = Host::started(host.disk);
    let ada = host.connect(1, ADMINISTRATOR);
    assert_eq!(host.search(ada, search()).unwrap()[0].hits().count(), 2);
}

#[test]
fn nobody_is_answered_before_the_last_update_is_there_again() {
    let (mut host, ada) = running();
    assert_eq!(host.call(ada, update(1)), Reply::Updated);
    let mut second = Host::new(host.disk.clone());
    while second.shape.iter().all(|(kind, _)| kind != "Save") {
        assert!(second.step().unwrap());
    }
    // The log is read, and the start not yet counted.
    let bob = second.announce(1, ADMINISTRATOR);
    let number = second.send(bob, Request::Search(search()));
    assert_eq!(second.run(), Err(Fault::OutOfTurn));
    assert_eq!(second.answer(bob, number), None);
}

#[test]
fn a_start_that_ends_anywhere_behind_an_update_that_did_loses_nothing() {
    let (running, mut whole) = (running().0.disk, false);
    for after in 0.. {
        let mut host = Host::started(running.clone());
        let ada = host.connect(1, ADMINISTRATOR);
        host.crash_after = Some(after);
        let number = host.send(ada, update(1));
        host.run().unwrap();
        let is_answered = host.answer(ada, number).is_some();
        for again in 0.. {
            let mut disk = host.disk.clone();
            // It ends twice at the same place: the second time there is a start behind the update.
            for _ in 0..2 {
                let mut second = Host::new(disk);
                second.crash_after = Some(again);
                second.run().unwrap();
                (disk, whole) = (second.disk, second.is_ready);
            }
            let mut third = Host::started(disk);
            let ada = third.connect(1, ADMINISTRATOR);
            let found = third.search(ada, search()).unwrap()[0].hits().count();
            assert!(found == 2 || found == 1 && !is_answered, "{after} {again}: {found}");
            if whole {
                break;
            }
        }
        if is_answered {
            break;
        }
    }
    assert!(whole);
}

#[test]
fn what_a_compaction_removed_does_not_come_back_with_a_start() {
    let (mut host, ada) = running();
    let mut retired = Update::new(0);
    retired.document(DocumentAction::Retire, DocumentName([0; 16]), Facts::default()).unwrap();
    assert_eq!(host.call(ada, Request::Update(retired)), Reply::Updated);
    assert_eq!(host.call(ada, update(1)), Reply::Updated);
    let before = host.disk.entries.clone();
    let compact = Request::Compact { collection: 0, from: None, fence: Fence::default() };
    assert_eq!(host.call(ada, compact), Reply::Compacted { next: None, read: 2, saved: 1 });
    let after = host.disk.entries.clone();
    assert!(after.len() == 1 && before.keys().all(|label| !after.contains_key(label)));
    for _ in 0..2 {
        host = Host::started(host.disk);
        assert!(host.disk.entries == after);
    }
}
