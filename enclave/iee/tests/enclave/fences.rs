//! Revisions of a collection, and changes that come late, twice, or behind a crash.

use super::host::{ADMINISTRATOR, Disk, Host};
use arras_protocol::iee::ConnectionId;
use arras_schemes::bisen::message::{Opened, Refused, Reply, Request};
use arras_schemes::bisen::query::{Search, Step};
use arras_schemes::bisen::update::{DocumentAction, Facts, Fence, PAIRS_MAX, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash};

const WORD: KeywordHash = KeywordHash([5; 16]);

fn update(collection: u32, fence: Fence, document: u8) -> Request {
    let mut update = Update::new(collection);
    update.fence = fence;
    let name = DocumentName([document; 16]);
    let slot = update.document(DocumentAction::NewPublished, name, Facts::default()).unwrap();
    update.occurrences(slot, WORD, &[0]).unwrap();
    Request::Update(update)
}

fn compact(fence: Fence) -> Request {
    Request::Compact { collection: 0, from: None, fence }
}

fn opened(host: &mut Host, connection: ConnectionId, name: &str) -> Opened {
    match host.call(connection, Request::Open(name.into())) {
        Reply::Opened(opened) => opened,
        other => panic!("{other:?}"),
    }
}

fn found(host: &mut Host, connection: ConnectionId) -> usize {
    let search = Search { keywords: vec![WORD], formula: vec![Step::Keyword(0)], ..Search::new(0) };
    host.search(connection, search).unwrap()[0].hits().count()
}

fn running() -> (Host, ConnectionId) {
    let mut host = Host::started(Disk::default());
    let ada = host.connect(1, ADMINISTRATOR);
    assert_eq!(host.create(ada, "mail", 0).revision, 0);
    (host, ada)
}

fn stale(revision: u128) -> Reply {
    Reply::Refused(Refused::Stale(revision))
}

#[test]
fn a_change_that_comes_late_is_refused_and_one_that_comes_again_is_acknowledged() {
    let (mut host, ada) = running();
    let bob = host.connect(2, ADMINISTRATOR);
    assert_eq!(host.call(ada, update(0, Fence::new(0, 7), 1)), Reply::Updated);
    let before = (host.disk.counter, host.disk.entries.len());
    // The same again, over any connection, whatever it supposes.
    assert_eq!(host.call(bob, update(0, Fence::new(0, 7), 1)), Reply::Updated);
    assert_eq!(host.call(bob, update(0, Fence::new(7, 7), 1)), Reply::Updated);
    // Others that suppose what was before, what never was, or bring what was.
    for (supposed, next) in [(0, 8), (6, 8), (8, 9), (7, 6), (0, 6)] {
        assert_eq!(host.call(bob, update(0, Fence::new(supposed, next), 2)), stale(7));
        assert_eq!(host.call(bob, compact(Fence::new(supposed, next))), stale(7));
    }
    assert_eq!((host.disk.counter, host.disk.entries.len()), before, "nothing was done");
    assert_eq!(found(&mut host, ada), 1);
    // Of two that suppose the same, the first.
    let numbers = [Fence::new(7, 9), Fence::new(7, 8)].map(|fence| host.send(ada, update(0, fence, 3)));
    host.run().unwrap();
    assert_eq!(numbers.map(|number| host.answer(ada, number).unwrap()), [Reply::Updated, stale(9)]);
    assert_eq!(opened(&mut host, ada, "mail").revision, 9);
}

#[test]
fn what_supposes_nothing_counts_on_and_collections_are_apart() {
    let (mut host, ada) = running();
    host.create(ada, "letters", 0);
    for document in 0..3 {
        assert_eq!(host.call(ada, update(0, Fence::default(), document)), Reply::Updated);
    }
    assert_eq!(host.call(ada, update(1, Fence::new(0, 50), 1)), Reply::Updated);
    let revisions = |host: &mut Host| ["mail", "letters"].map(|name| opened(host, ada, name).revision);
    assert_eq!(revisions(&mut host), [3, 50]);
    assert_eq!(host.call(ada, update(0, Fence::new(3, 4), 1)), Reply::Updated);
    // One of somebody else's in between.
    assert_eq!(host.call(ada, update(1, Fence::default(), 1)), Reply::Updated);
    assert_eq!(host.call(ada, update(1, Fence::new(50, 52), 1)), stale(51));
    // A compaction is a change, unless there is nothing to read; a search, or the making of a collection, is none.
    found(&mut host, ada);
    host.create(ada, "notes", 0);
    assert!(matches!(host.call(ada, compact(Fence::new(4, 9))), Reply::Compacted { read: 4, .. }));
    assert_eq!(revisions(&mut host), [9, 51]);
    let nothing = Request::Compact { collection: 2, from: None, fence: Fence::new(0, 5) };
    assert!(matches!(host.call(ada, nothing), Reply::Compacted { read: 0, .. }));
    assert_eq!(opened(&mut host, ada, "notes").revision, 0);
    assert!(matches!(host.call(ada, compact(Fence::default())), Reply::Compacted { .. }));
    assert_eq!(revisions(&mut host), [10, 51]);
    let mut host = Host::started(host.disk);
    let ada = host.connect(1, ADMINISTRATOR);
    assert_eq!(["mail", "letters"].map(|name| opened(&mut host, ada, name).revision), [10, 51]);
}

/// Whatever the host had carried when it ended: the revision is that of before or that of the change, and with it the change is there.
#[test]
fn a_change_in_which_the_host_ends_is_there_or_not_as_the_revision_says() {
    let changes = [update(0, Fence::new(7, 9), 2), compact(Fence::new(7, 9))];
    for (change, is_update) in changes.into_iter().zip([true, false]) {
        let mut seen = [false; 2];
        for messages in 0.. {
            let (mut host, ada) = running();
            assert_eq!(host.call(ada, update(0, Fence::new(0, 7), 1)), Reply::Updated);
            host.crash_after = Some(messages);
            let number = host.send(ada, change.clone());
            host.run().unwrap();
            if host.answer(ada, number).is_some() {
                break;
            }
            let mut host = Host::started(host.disk);
            let ada = host.connect(1, ADMINISTRATOR);
            let revision = opened(&mut host, ada, "mail").revision;
            assert_eq!(found(&mut host, ada), 1 + usize::from(is_update && revision == 9), "{messages}");
            seen[usize::from(revision == 9)] = true;
            assert!([7, 9].contains(&revision), "{revision}");
            // Told again, with what the client supposed or with what it hears, it is there once.
            let again = host.call(ada, change.clone());
            assert!(matches!(again, Reply::Updated | Reply::Compacted { .. }), "{again:?}");
            assert_eq!(found(&mut host, ada), 1 + usize::from(is_update));
        }
        assert_eq!(seen, [true; 2]);
    }
}

/// Through a checkpoint, and the log behind it.
#[test]
fn revisions_are_part_of_a_checkpoint() {
    let (mut host, ada) = running();
    let heads = |host: &Host| host.shape.iter().filter(|(kind, _)| kind == "Forget").count();
    let mut revision = 0;
    while heads(&host) == 0 {
        let mut large = Update::new(0);
        large.fence = Fence::new(revision, revision + 3);
        let name = DocumentName(revision.to_le_bytes());
        let slot = large.document(DocumentAction::NewPublished, name, Facts::default()).unwrap();
        for keyword in 0..PAIRS_MAX as u128 {
            large.occurrences(slot, KeywordHash(keyword.to_le_bytes()), &[0]).unwrap();
        }
        assert_eq!(host.call(ada, Request::Update(large)), Reply::Updated);
        revision += 3;
        assert!(revision < 300, "no checkpoint");
    }
    for revision in [revision, revision + 1] {
        host = Host::started(host.disk);
        let ada = host.connect(1, ADMINISTRATOR);
        assert_eq!(opened(&mut host, ada, "mail").revision, revision);
        let next = update(0, Fence::new(revision, revision + 1), 1);
        assert_eq!(host.call(ada, next), Reply::Updated);
    }
}
