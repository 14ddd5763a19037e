//! One side restored alone: the server's is accepted where the administrator says so, the proxy's is not.

use super::history::{DATABASE, copy, create_index, delete, ids, insert, labels, replace};
use super::process;
use super::system::{Making, System};
use super::transcript;
use arras_lab::wire_client::WireClient;
use bson::{Document, doc};
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

fn make_index(client: &mut WireClient, collection: &str, index: Document) {
    client.command(&doc! { "createIndexes": collection, "indexes": [index], "$db": DATABASE }).unwrap();
}

fn found(client: &mut WireClient, filter: Document) -> usize {
    client.query(&doc! { "find": "things", "filter": filter, "$db": DATABASE }).unwrap().len()
}

fn count(client: &mut WireClient) -> i32 {
    let count = client.command(&doc! { "count": "things", "query": {}, "$db": DATABASE }).unwrap();
    count.get_i32("n").unwrap()
}

fn restore(system: &System, accept: bool) {
    let mut restore = system.arras("restore");
    restore.arg("--config").arg(system.configuration());
    if accept {
        restore.arg("--accept");
    }
    let ended = process::run(restore);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

fn refused(system: &System) -> String {
    let ended = process::run(system.proxy_command());
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    ended.stderr
}

/// Both sides with 40 documents and an index for equality and ranges, then a copy of `side`, then what that copy lacks: ten
/// documents more, one gone, one changed, an index on what was there, a collection. Both are stopped.
fn left_behind(side: &str) -> System {
    let mut system = System::start(Making { transcript: true, log_level: "info", ..Making::default() });
    let mut client = system.client();
    create_index(&mut client);
    client.command(&insert(0..40)).unwrap();
    system.kill_proxy();
    system.kill_server();
    copy(&system.path(side), &system.path("older"));
    system.start_server();
    system.start_proxy();
    let mut client = system.client();
    client.command(&insert(40..50)).unwrap();
    client.command(&delete(3)).unwrap();
    let update = doc! { "q": { "_id": 4 }, "u": { "$set": { "a": 100 } } };
    client.command(&doc! { "update": "things", "updates": [update], "$db": DATABASE }).unwrap();
    make_index(&mut client, "things", doc! { "key": { "b": 1 }, "name": "b" });
    make_index(&mut client, "later", doc! { "key": { "u": 1 }, "name": "u", "unique": true });
    client
        .command(&doc! { "insert": "later", "documents": [{ "_id": 1, "u": 1 }], "$db": DATABASE })
        .unwrap();
    system.kill_proxy();
    system.kill_server();
    replace(&system.path(side), &system.path("older"));
    system
}

/// What the server's copy has is what there is, through every index, and nothing of later.
fn assert_as_copied(client: &mut WireClient) {
    assert_eq!(ids(client).unwrap(), (0..40).collect());
    assert_eq!(count(client), 40);
    for (a, expected) in [(0, 14), (1, 13), (2, 13), (100, 0)] {
        assert_eq!(found(client, doc! { "a": a }), expected, "a = {a}");
        assert_eq!(found(client, doc! { "a": { "$gte": a, "$lt": a + 1 } }), expected, "about a = {a}");
    }
    assert_eq!(found(client, doc! { "b": null }), 40);
    assert!(client.query(&doc! { "find": "later", "$db": DATABASE }).unwrap().is_empty());
}

#[test]
fn a_server_restored_alone_is_accepted_when_the_administrator_says_so() {
    let mut system = left_behind("server");
    let forgotten = labels(&system, 0);
    let before = transcript::read(&system.transcript()).len();
    system.start_server();
    assert!(refused(&system).contains("arras restore --accept"));
    // That both sides were restored is not what happened, and does not pass.
    restore(&system, false);
    assert!(refused(&system).contains("older than what it acknowledged"));
    restore(&system, true);
    system.start_proxy();
    let mut client = system.client();
    assert_as_copied(&mut client);
    // What was lost can be entered again, and has names that the server has not seen.
    client.command(&insert(40..60)).unwrap();
    client.command(&delete(5)).unwrap();
    let twice = |client: &mut WireClient| {
        let documents = vec![doc! { "_id": 1, "u": 7 }, doc! { "_id": 2, "u": 7 }];
        client.command(&doc! { "insert": "later", "documents": documents, "$db": DATABASE })
    };
    let unique = twice(&mut client);
    assert!(unique.is_err_and(|error| error.code() == Some(11000)), "the unique index is there");
    let again = labels(&system, before);
    assert!(again.len() >= 60, "every entry is made anew: {}", again.len());
    assert!(again.is_disjoint(&forgotten), "the server links equal values of before and after");
    // It is over: later starts go by what is there now, and a setback is one again.
    let expected: BTreeSet<i32> = (0..60).filter(|id| *id != 5).collect();
    for _ in 0..2 {
        assert_eq!(ids(&mut client).unwrap(), expected);
        assert_eq!(count(&mut client), 59);
        assert_eq!(found(&mut client, doc! { "a": 2 }), 19);
        system.kill_proxy();
        let seen = labels(&system, before);
        system.start_proxy();
        assert_eq!(labels(&system, before), seen, "made anew once");
        client = system.client();
    }
    system.kill_proxy();
    system.kill_server();
    replace(&system.path("server"), &system.path("older"));
    system.start_server();
    assert!(refused(&system).contains("older than what it acknowledged"));
    system.assert_no_panic();
}

#[test]
fn a_proxy_that_is_killed_while_it_accepts_the_server_begins_again() {
    let mut system = left_behind("server");
    restore(&system, true);
    system.start_server();
    for milliseconds in [0, 50, 100, 200, 400] {
        let _address = system.begin_proxy();
        thread::sleep(Duration::from_millis(milliseconds));
        system.kill_proxy();
    }
    system.start_proxy();
    assert_as_copied(&mut system.client());
    system.assert_no_panic();
}

#[test]
fn a_proxy_restored_alone_is_refused_and_told_why() {
    let mut system = left_behind("proxy");
    system.start_server();
    for accept in [false, true] {
        restore(&system, accept);
        let says = refused(&system);
        assert!(says.contains("restore both from the same time and run `arras restore`"), "{says}");
        assert!(says.contains("`arras restore --accept` does not help here"), "{says}");
    }
    system.assert_no_panic();
}
