//! Disks that are full for a while, under the real executables: what is refused is refused whole, what is there can be
//! read, and once there is room writing goes on without a restart.

use super::process::PATIENCE;
use super::small_disk::SmallDisk;
use super::system::{Making, System};
use arras_lab::wire_client::WireClient;
use bson::{Document, doc};
use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

fn insert(id: i32) -> Document {
    let document = doc! { "_id": id, "a": id % 3, "note": "x".repeat(1000) };
    doc! { "insert": "t", "documents": [document], "$db": "test" }
}

fn ids(client: &mut WireClient) -> BTreeSet<i32> {
    let found = client.query(&doc! { "find": "t", "filter": {}, "$db": "test" }).unwrap();
    found.iter().map(|document| document.get_i32("_id").unwrap()).collect()
}

fn said(log: &Path, what: &str) -> bool {
    std::fs::read_to_string(log).unwrap_or_default().contains(what)
}

/// `side` is the data directory whose disk is small.
fn lives_through_a_full_disk(side: &str) {
    let mut system = System::make(Making::default());
    let Some(disk) = SmallDisk::mount(&system.path(side), 32) else { return };
    system.start_server();
    system.start_proxy();
    let mut client = system.client();
    let index = doc! { "key": { "a": 1 }, "name": "a" };
    client.command(&doc! { "createIndexes": "t", "indexes": [index], "$db": "test" }).unwrap();
    let mut there = BTreeSet::new();
    let mut next = 0;
    for round in 0..2 {
        for _ in 0..20 {
            client.command(&insert(next)).unwrap();
            there.insert(next);
            next += 1;
        }
        let ballast = disk.fill();
        let mut refused = 0;
        for _ in 0..20 {
            match client.command(&insert(next)) {
                Ok(_) => drop(there.insert(next)),
                Err(error) => {
                    assert_ne!(error.code(), Some(64), "it is not known whether it was applied: {error}");
                    if side == "server" {
                        assert_eq!(error.code(), Some(14031), "{error}");
                    }
                    refused += 1;
                }
            }
            next += 1;
        }
        assert!(refused > 0, "round {round}: the disk of the {side} was not full");
        assert_eq!(ids(&mut client), there, "round {round}: a full disk is read");
        std::fs::remove_file(ballast).unwrap();
        // A device that failed is left alone for a moment.
        let began = Instant::now();
        while let Err(error) = client.command(&insert(next)) {
            assert!(began.elapsed() < PATIENCE, "round {round}: there is room again, and still: {error}");
            thread::sleep(Duration::from_millis(50));
        }
        there.insert(next);
        next += 1;
        assert_eq!(ids(&mut client), there, "round {round}");
    }
    let log = if side == "server" { system.server_log() } else { system.proxy_log() };
    assert!(said(&log, "writes are refused until it works again") && said(&log, "takes writes again"));
    system.assert_no_panic();
    system.kill_proxy();
    system.kill_server();
}

#[test]
fn a_server_lives_through_a_full_disk() {
    lives_through_a_full_disk("server");
}

#[test]
fn a_proxy_lives_through_a_full_disk() {
    lives_through_a_full_disk("proxy");
}
