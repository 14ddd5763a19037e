//! What clients leave on the proxy's disk and do not come back for.

use super::process::PATIENCE;
use super::small_disk::SmallDisk;
use super::system::{Making, System};
use bson::doc;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn sorted_results_that_nobody_reads_leave_room_for_writes_and_give_way_to_others() {
    let mut system = System::make(Making::default());
    let Some(_disk) = SmallDisk::mount(&system.path("proxy"), 200) else { return };
    system.start_server();
    system.start_proxy();
    let mut client = system.client();
    for batch in 0..20 {
        let document = |of: i32| doc! { "_id": batch * 100 + of, "a": of, "note": "x".repeat(8000) };
        let documents: Vec<_> = (0..100).map(document).collect();
        client.command(&doc! { "insert": "t", "documents": documents, "$db": "test" }).unwrap();
    }
    // Each leaves 16 MB on the disk.
    let sorted = doc! { "find": "t", "filter": {}, "sort": { "a": 1 }, "batchSize": 2, "$db": "test" };
    let mut left_open = Vec::new();
    let began = Instant::now();
    while left_open.len() < 16 {
        match client.command(&sorted) {
            Ok(reply) => left_open.push(reply.get_document("cursor").unwrap().get_i64("id").unwrap()),
            Err(error) => {
                assert_eq!(error.code(), Some(14031), "{error}");
                assert!(began.elapsed() < PATIENCE, "nobody gives way: {error}");
                thread::sleep(Duration::from_millis(500));
            }
        }
        let written = doc! { "update": "t", "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } }], "$db": "test" };
        client.command(&written).expect("there is room for what is stored");
    }
    let mut more = |cursor: i64| {
        client.command(&doc! { "getMore": cursor, "collection": "t", "batchSize": 2, "$db": "test" })
    };
    assert_eq!(more(left_open[0]).unwrap_err().code(), Some(43), "the first has given way");
    more(left_open[15]).expect("the last is there");
    system.assert_no_panic();
    system.kill_proxy();
    system.kill_server();
}
