//! Counters that take three bytes as variable-length integers, beside counters that take one.

use super::observed::RandomBytes;
use super::twins::{Running, Twin, both, compare, index, judge};
use bson::{Document, doc};
use std::thread;

/// More occurrences than two bytes of seven bits count.
const DOCUMENTS: i32 = 16_500;
/// Documents of one insert.
const BATCH: i32 = 1500;
const NO_RANGES: &str = "";

fn document(twin: Twin, number: i32) -> Document {
    // Left, all have one value; right, each has its own.
    doc! { "_id": number, "e": twin.pick("v00000".to_owned(), format!("v{number:05}")) }
}

fn insert(running: &Running, numbers: std::ops::Range<i32>) {
    let documents: Vec<Document> = numbers.map(|number| document(running.twin, number)).collect();
    running.run(doc! { "insert": "t", "documents": documents });
}

#[test]
fn a_value_of_many_occurrences_looks_like_many_values() {
    let mut twins = both(NO_RANGES);
    let (mut random, mut failures): ([RandomBytes; 2], _) = (Default::default(), Vec::new());
    let each = |twins: &[Running; 2], act: &(dyn Fn(&Running) + Sync)| {
        thread::scope(|scope| twins.iter().for_each(|running| drop(scope.spawn(|| act(running)))));
    };
    each(&twins, &|running| {
        running.create_index(index("e", doc! { "e": 1 }, false, doc! { "operations": ["eq"] }));
        for begin in (0..DOCUMENTS).step_by(BATCH.unsigned_abs() as usize) {
            insert(running, begin..DOCUMENTS.min(begin + BATCH));
        }
    });
    compare("a bulk insert", &mut twins, &mut random, &mut failures);
    each(&twins, &|running| {
        insert(running, DOCUMENTS..DOCUMENTS + 1);
        let id = doc! { "_id": DOCUMENTS - 1 };
        let update = doc! { "q": id.clone(), "u": { "$set": { "e": "elsewh" } } };
        running.run(doc! { "update": "t", "updates": [update] });
        running.run(doc! { "delete": "t", "deletes": [{ "q": id, "limit": 1 }] });
    });
    compare("single writes", &mut twins, &mut random, &mut failures);
    judge(&random, &mut failures);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
