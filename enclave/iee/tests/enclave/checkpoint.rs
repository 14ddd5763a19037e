//! A state that was written whole, and the log forgotten.

use super::host::{ADMINISTRATOR, Disk, Host};
use arras_iee::Fault;
use arras_protocol::iee::{ConnectionId, STATE_BYTES_MAX, StateName};
use arras_schemes::bisen::message::{Groups, Reply, Request, Rights};
use arras_schemes::bisen::query::{Filter, Search, Step};
use arras_schemes::bisen::update::{DocumentAction, Facts, Fence, Field, PAIRS_MAX, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash};
use std::collections::HashMap;

fn word(number: u32) -> KeywordHash {
    let mut bytes = [3; 16];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    KeywordHash(bytes)
}

/// 64 documents that have 512 words each, or the same again under their next version.
fn fill(host: &mut Host, client: ConnectionId, field: i64) {
    let mut update = Update::new(0);
    for number in 0..64 {
        let facts = Facts { length: 512, fields: [field, 0, 0, 0].map(Field), ..Facts::default() };
        let name = DocumentName([number; 16]);
        let slot = update.document(DocumentAction::NewPublished, name, facts).unwrap();
        (0..512).for_each(|at| update.occurrences(slot, word(at), &[at]).unwrap());
    }
    assert_eq!(update.pair_count(), PAIRS_MAX);
    assert_eq!(host.call(client, Request::Update(update)), Reply::Updated);
}

/// What a start reads before it asks for any entry.
fn without_entries(disk: &Disk) -> Disk {
    Disk { entries: HashMap::new(), state: disk.state.clone(), counter: disk.counter }
}

/// A disk with a checkpoint on it: of 64 documents, one of which was removed, a draft, and somebody's right.
fn checkpointed() -> (Disk, Vec<Disk>) {
    let mut host = Host::started(Disk::default());
    let ada = host.connect(1, ADMINISTRATOR);
    host.create(ada, "mail", 1);
    let rights = Rights { search: true, update: false, rank: false, fields: 1, groups: Groups::All };
    host.call(ada, Request::Grant { identity: "bob".into(), collection: "mail".into(), rights });
    let mut update = Update::new(0);
    let slot = update.document(DocumentAction::New, DocumentName([99; 16]), Facts::default()).unwrap();
    update.occurrences(slot, word(0), &[0]).unwrap();
    host.call(ada, Request::Update(update));
    let mut disks = Vec::new();
    for round in 0..16 {
        fill(&mut host, ada, round);
        disks.push(without_entries(&host.disk));
    }
    // Behind the checkpoint, if the last call was it.
    let mut update = Update::new(0);
    update.document(DocumentAction::Retire, DocumentName([5; 16]), Facts::default()).unwrap();
    assert_eq!(host.call(ada, Request::Update(update)), Reply::Updated);
    (host.disk, disks)
}

#[test]
fn a_restart_finds_the_state_in_a_checkpoint_and_a_lie_about_it_is_noticed() {
    let (disk, before) = checkpointed();
    let pieces: Vec<StateName> =
        disk.state.keys().copied().filter(|name| matches!(name, StateName::Checkpoint { .. })).collect();
    let logs = disk.state.keys().filter(|name| matches!(name, StateName::Log(_))).count();
    assert!(disk.state.contains_key(&StateName::Head) && pieces.len() >= 3, "{:?}", disk.state.keys());
    assert!(logs < 10, "the log was forgotten: {logs}");
    let mut host = Host::started(disk.clone());
    let bob = host.connect(2, "bob");
    let mut search = Search { keywords: vec![word(0)], formula: vec![Step::Keyword(0)], ..Search::new(0) };
    search.filters = vec![Filter::field(0, 15, 15)];
    let count = |host: &mut Host, client| host.search(client, search.clone()).unwrap()[0].hits().count();
    assert_eq!(count(&mut host, bob), 63);
    let ada = host.connect(3, ADMINISTRATOR);
    let mut update = Update::new(0);
    let facts = Facts { fields: [15, 0, 0, 0].map(Field), ..Facts::default() };
    update.document(DocumentAction::DraftPublished, DocumentName([99; 16]), facts).unwrap();
    assert_eq!(host.call(ada, Request::Update(update)), Reply::Updated);
    assert_eq!(count(&mut host, bob), 64);
    // A piece that is missing, altered, or another's; a head that is.
    let disk = without_entries(&disk);
    for name in pieces.iter().chain([&StateName::Head]) {
        let mut altered = disk.clone();
        altered.state.get_mut(name).unwrap()[40] ^= 1;
        assert_eq!(Host::new(altered).run(), Err(Fault::StateAltered));
        let mut missing = disk.clone();
        missing.state.remove(name);
        assert_eq!(Host::new(missing).run(), Err(Fault::StateSetBack));
    }
    let mut swapped = disk.clone();
    swapped.state.insert(pieces[0], disk.state[&pieces[1]].clone());
    assert_eq!(Host::new(swapped).run(), Err(Fault::StateAltered));
    // The log of before, without the checkpoint: it ends too early.
    for old in before.iter().filter(|old| !old.state.contains_key(&StateName::Head)) {
        let disk = Disk { counter: disk.counter, ..old.clone() };
        assert_eq!(Host::new(disk).run(), Err(Fault::StateSetBack));
    }
}

/// A document of as many new words as a call takes.
fn new_words(host: &mut Host, client: ConnectionId, first: u32) {
    let mut update = Update::new(0);
    let name = DocumentName([(first >> 15) as u8; 16]);
    let slot = update.document(DocumentAction::NewPublished, name, Facts::default()).unwrap();
    (first..first + PAIRS_MAX as u32).for_each(|at| update.occurrences(slot, word(at), &[0]).unwrap());
    assert_eq!(host.call(client, Request::Update(update)), Reply::Updated);
}

#[test]
fn rounds_leave_nothing_behind_that_is_counted() {
    let mut host = Host::with_memory(Disk::default(), 32 << 20).start();
    let ada = host.connect(1, ADMINISTRATOR);
    host.create(ada, "mail", 0);
    new_words(&mut host, ada, 0);
    for round in 0..20 {
        let reply = host.call(ada, Request::Compact { collection: 0, from: None, fence: Fence::default() });
        assert!(matches!(reply, Reply::Compacted { .. }), "{round}: {reply:?}");
    }
    new_words(&mut host, ada, PAIRS_MAX as u32);
}

#[test]
fn a_round_of_many_keywords_is_logged_in_a_record_that_the_host_takes() {
    // With less memory rounds are shorter.
    let mut host = Host::with_memory(Disk::default(), 256 << 20).start();
    let ada = host.connect(1, ADMINISTRATOR);
    host.create(ada, "mail", 0);
    let keywords = 3 * PAIRS_MAX as u32;
    (0..keywords).step_by(PAIRS_MAX).for_each(|first| new_words(&mut host, ada, first));
    let before = host.disk.counted();
    let compacted = host.call(ada, Request::Compact { collection: 0, from: None, fence: Fence::default() });
    let Reply::Compacted { next: Some(_), read, saved: 0 } = compacted else { panic!("{compacted:?}") };
    assert!(read > 1 << 16);
    assert_eq!(host.disk.counted() - before, 2, "an epoch, and the counts");
    assert!(host.disk.state.values().all(|state| state.len() <= STATE_BYTES_MAX));
    let mut host = Host::started(host.disk);
    let ada = host.connect(1, ADMINISTRATOR);
    for at in (0..keywords).step_by(9973) {
        let search = Search { keywords: vec![word(at)], formula: vec![Step::Keyword(0)], ..Search::new(0) };
        assert_eq!(host.search(ada, search).unwrap()[0].hits().count(), 1, "{at}");
    }
}
