//! Results that are sent page by page.

use super::access::{found, grant, rights, search, world};
use super::host::{To, keeping, without};
use arras_protocol::iee::{CLIENT_REQUESTS_MAX, Incoming};
use arras_schemes::bisen::message::{Groups, Refused, Reply, Request, Rights};

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

#[test]
fn results_that_nobody_takes_leave_room_for_others() {
    // 16 MiB, of which the results of each search take 160 KB.
    let (mut host, ada, collection) = world(20_000);
    grant(&mut host, ada, Rights { groups: Groups::All, ..rights() });
    host.lie = without(To::Part);
    let (mut taken, mut refused) = (0, 0);
    for number in 2..40 {
        let bob = host.connect(number, "bob");
        for _ in 0..CLIENT_REQUESTS_MAX {
            match host.try_call(bob, Request::Search(search(collection))).unwrap() {
                Some(Reply::Found(page)) => taken += usize::from(!page.is_last()),
                reply => {
                    assert_eq!(reply, Some(Reply::Refused(Refused::Busy)));
                    refused += 1;
                }
            }
        }
    }
    assert!(taken > 20 && refused > 20, "{taken} taken, {refused} refused");
    host.lie = None;
    assert_eq!(found(&mut host, ada, search(collection)).unwrap().len(), 20_000);
}
