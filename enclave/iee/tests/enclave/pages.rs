//! Results that are sent page by page.

use super::access::{found, grant_to, rights, search, world};
use super::host::{Host, To, keeping, without};
use arras_protocol::iee::{CLIENT_REQUESTS_MAX, ConnectionId, Incoming};
use arras_schemes::bisen::message::{Groups, Refused, Reply, Request, Rights};
use std::ops::Range;

#[test]
fn a_page_comes_when_the_one_before_was_taken() {
    let (mut host, ada, collection) = world(10_000);
    let (lie, taking) = keeping(To::Part);
    host.lie = lie;
    let number = host.send(ada, Request::Search(search(collection)));
    let mut found = 0;
    for page in 0..3 {
        host.run().unwrap();
        let Some(Reply::Found(found_now)) = host.answer(ada, number) else { panic!("page {page}") };
        found += found_now.hits().count();
        assert_eq!((host.answer(ada, number), found_now.is_last()), (None, page == 2));
        taking.take().into_iter().for_each(|incoming| host.say(incoming));
    }
    assert_eq!(found, 10_000);
    // One who goes in between leaves nothing behind.
    host.send(ada, Request::Search(search(collection)));
    host.run().unwrap();
    host.say(Incoming::Disconnected(ada));
    taking.take().into_iter().for_each(|incoming| host.say(incoming));
    host.run().unwrap();
    assert_eq!(host.closed, []);
}

/// Has a client ask for results of 160 KB so often, of which it takes the first pages.
fn hoard(host: &mut Host, name: &str, collection: u32, connections: Range<u64>) -> Vec<(ConnectionId, u64)> {
    let mut asked = Vec::new();
    for number in connections {
        let client = host.connect(number, name);
        for _ in 0..CLIENT_REQUESTS_MAX {
            asked.push((client, host.send(client, Request::Search(search(collection)))));
            host.run().unwrap();
        }
    }
    asked
}

/// Which of these requests were given up, having had a first page; each has one or is refused.
fn given_up(host: &mut Host, asked: &[(ConnectionId, u64)]) -> Vec<bool> {
    let busy = Some(Reply::Refused(Refused::Busy));
    let mut is_given_up = |(client, number): &(ConnectionId, u64)| match host.answer(*client, *number) {
        Some(Reply::Found(page)) if !page.is_last() => host.answer(*client, *number) == busy,
        other => panic!("{other:?}"),
    };
    asked.iter().map(&mut is_given_up).collect()
}

#[test]
fn results_that_nobody_takes_make_room_for_others() {
    // 16 MiB in all.
    let (mut host, ada, collection) = world(20_000);
    for name in ["bob", "eve"] {
        let rights = Rights { groups: Groups::All, ..rights() };
        grant_to(&mut host, ada, name, rights);
    }
    host.lie = without(To::Part);
    let bob = hoard(&mut host, "bob", collection, 2..32);
    let of_bob = given_up(&mut host, &bob);
    let kept = of_bob.iter().filter(|gone| !**gone).count();
    assert!((20..80).contains(&kept), "{kept}");
    assert!(of_bob.is_sorted_by(|one, other| one >= other), "those that waited longest are given up");
    // Another one has as much as the first then, and takes nothing of who has less.
    let eve = hoard(&mut host, "eve", collection, 32..62);
    let of_eve = given_up(&mut host, &eve);
    let others = of_eve.iter().filter(|gone| !**gone).count();
    let left = bob.iter().filter(|(client, number)| host.answer(*client, *number).is_none()).count();
    assert!(others >= kept / 3 && left > bob.len() - kept, "{others} beside {kept}, {left}");
    let expected = host.send(ada, Request::Search(search(collection)));
    host.run().unwrap();
    assert!(matches!(host.answer(ada, expected), Some(Reply::Found(_))));
    host.lie = None;
    assert_eq!(found(&mut host, ada, search(collection)).unwrap().len(), 20_000);
    assert_eq!(host.closed, []);
}
