//! A collection and the record that describes it.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::index::tests::{eq_of, range_of, unique_of};
use crate::tests::collection;
use bson::{Bson, doc};

fn indexes() -> Vec<LiveIndex> {
    let parts = vec![IndexPart::of_test(1, eq_of(&["a"])), IndexPart::of_test(2, range_of(&["a"])).sparse()];
    let one = LiveIndex::of_test("one", doc! { "a": 1 }, parts);
    let other = LiveIndex::of_test("other", doc! { "b": 1 }, vec![IndexPart::of_test(3, unique_of(&["b"]))]);
    other.ready.store(false, Ordering::SeqCst);
    vec![one, other, LiveIndex::of_test("none", doc! { "a": -1 }, Vec::new())]
}

#[test]
fn the_record_of_a_collection_describes_its_indexes_as_they_are_when_it_is_made() {
    let collection = collection("c", indexes());
    let record = collection.record();
    assert_eq!((record.namespace(), record.id), (collection.ns.clone(), collection.id));
    let told = |record: &CollectionRecord| {
        let index = |index: &IndexRecord| {
            let parts: Vec<(u8, bool)> = index.parts.iter().map(|part| (part.id.0[0], part.sparse)).collect();
            (index.request().unwrap().name, parts, index.ready)
        };
        record.indexes.iter().map(index).collect::<Vec<_>>()
    };
    let one = ("one".to_owned(), vec![(1, false), (2, true)], true);
    let (other, none) = (("other".to_owned(), vec![(3, false)], false), ("none".to_owned(), vec![], true));
    assert_eq!(told(&record), [one.clone(), other.clone(), none]);
    for (part, recorded) in
        collection.parts().iter().zip(record.indexes.iter().flat_map(|index| &index.parts))
    {
        assert_eq!((part.id, &part.physical), (recorded.id, &recorded.physical));
        assert_eq!(part.bucket_factor, recorded.bucket_factor);
    }
    collection.indexes()[1].ready.store(true, Ordering::SeqCst);
    collection.set_indexes(collection.indexes()[..2].to_vec());
    assert_eq!(told(&collection.record()), [one, (other.0, other.1, true)]);
}

#[test]
fn who_has_taken_the_indexes_keeps_them_as_they_were() {
    let collection = collection("c", indexes());
    let before = collection.indexes();
    let ids = || collection.parts().iter().map(|part| part.id.0[0]).collect::<Vec<_>>();
    assert_eq!(ids(), [1, 2, 3], "in the order of the indexes");
    collection.set_indexes(before[1..].to_vec());
    assert_eq!((before.len(), collection.indexes().len(), ids()), (3, 2, vec![3]));
}

#[test]
fn rows_of_two_collections_never_meet_and_those_of_one_are_of_its_keys() {
    let root = Key::generate();
    let record = |id: u8, key_version| CollectionRecord {
        database: "db".into(),
        collection: "c".into(),
        id: CollectionId([id; 8]),
        key_version,
        indexes: Vec::new(),
    };
    let row = |record: CollectionRecord, root: &Key| {
        Collection::new(&record, root, Vec::new()).sealer.row_id(&Bson::Int32(5))
    };
    assert_eq!(row(record(1, 1), &root), row(record(1, 1), &root));
    assert_ne!(row(record(1, 1), &root), row(record(2, 1), &root));
    assert_ne!(row(record(1, 1), &root), row(record(1, 1), &Key::generate()));
}
