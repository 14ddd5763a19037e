//! Counts of entries that the proxy knows, beside those on record.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::index::LiveIndex;
use crate::index::tests::{eq_of, range_of, unique_of};
use crate::tests::{Away, World, collection, occurrences, randomly};
use arras_storage::Memory;
use bson::doc;
use rand::RngExt;

fn number(value: i32) -> Vec<Bson> {
    vec![Bson::Int32(value)]
}

fn parts() -> [Arc<IndexPart>; 3] {
    [
        IndexPart::of_test(1, eq_of(&["a"])),
        IndexPart::of_test(2, unique_of(&["a"])),
        IndexPart::of_test(3, range_of(&["a"])),
    ]
}

#[tokio::test]
async fn entries_of_few_values_are_counted_and_of_many_values_about() {
    let (mut rng, world, parts) = (randomly(), World::new("").await, parts());
    let collection = collection("c", vec![LiveIndex::of_test("a_1", doc! { "a": 1 }, parts.to_vec())]);
    let known: Known<'_, Memory, Away> = Known::new(&world.shared, &collection, 1_000);
    let counts: Vec<u64> = (0..500).map(|_| rng.random_range(0..4)).collect();
    for (value, count) in (0..).zip(&counts) {
        if *count > 0 {
            world.record(&parts[0], &equality_bytes(&number(value)), &occurrences(*count));
        }
    }
    for asked in [0, 1, 63, 64, 65, 200, 500] {
        let terms: Vec<Vec<Bson>> = (0..asked).map(number).collect();
        let found = known.of_terms(IndexId([1; 8]), &terms).unwrap();
        let exact: u64 = counts[..asked as usize].iter().sum();
        if asked as usize <= VALUES_LOOKED_UP {
            assert_eq!(found, exact, "{asked}");
        } else {
            assert!(found > exact / 2 && found < exact * 2, "{found} of {exact}");
        }
    }
    // Values that have no entries are known to have none.
    assert_eq!(known.of_terms(IndexId([1; 8]), &[number(1_000)]), Some(0));
}

#[tokio::test]
async fn of_what_is_no_equality_index_entries_of_values_are_not_known() {
    let (world, parts) = (World::new("").await, parts());
    let collection = collection("c", vec![LiveIndex::of_test("a_1", doc! { "a": 1 }, parts.to_vec())]);
    let known: Known<'_, Memory, Away> = Known::new(&world.shared, &collection, 1_000);
    let bounds = KeyBounds { lower: vec![0], upper: vec![255] };
    for other in [2, 3, 4] {
        assert_eq!(known.of_terms(IndexId([other; 8]), &[number(1)]), None, "{other}");
    }
    for index in 1..5 {
        assert_eq!(known.between(IndexId([index; 8]), &bounds), None, "nothing was sampled: {index}");
    }
}
