//! What equality and unique indexes are asked, and what becomes of lies, as far as the proxy's own records say.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::index::LiveIndex;
use crate::index::tests::{eq_of, range_of, unique_of};
use crate::tests::{World, occurrences};
use arras_protocol::write::Step;
use arras_protocol::{OperationId, documents};
use arras_records::IndexTerms;
use arras_service::Fault;
use bson::{Document, doc};

fn term(value: i32) -> Vec<u8> {
    equality_bytes(&[Bson::Int32(value)])
}

fn open(row: u8, document: Document) -> OpenDocument {
    let (row, terms) = (RowId([row; 16]), IndexTerms::default());
    OpenDocument { row, version: [0; 8], sequence: 0, terms, document, bytes: 10 }
}

/// An index on `a` of a collection, which named some rows for some values.
fn found(world: &World, rows: &[u8], values: &[i32]) -> (Arc<Collection>, Found) {
    let part = IndexPart::of_test(1, eq_of(&["a"]));
    let index = LiveIndex::of_test("a_1", doc! { "a": 1 }, vec![Arc::clone(&part)]);
    let collection = world.collection(vec![index], 100);
    let mut counted = Rows::new(&world.shared.budget);
    counted.extend(rows.iter().map(|row| RowId([*row; 16]))).unwrap();
    counted.sort();
    let watch = world.shared.intents.ledger.watch();
    let values = values.iter().map(|value| term(*value)).collect();
    (collection, Found { rows: counted, part, values, watch })
}

#[tokio::test]
async fn a_document_that_an_index_named_for_a_value_it_does_not_hold_is_a_lie_unless_it_was_written() {
    let world = World::new("").await;
    let (collection, found) = found(&world, &[1, 2, 3], &[5, 6]);
    let check = |documents: &[OpenDocument]| found.check(&collection, documents).map_err(|error| error.fault);
    assert_eq!(
        check(&[open(1, doc! { "a": 5 }), open(2, doc! { "a": [1, 6.0] }), open(3, doc! { "a": 6_i64 })]),
        Ok(())
    );
    for other in [doc! { "a": 7 }, doc! {}, doc! { "a": [1, 2] }, doc! { "b": 5 }] {
        assert_eq!(
            check(&[open(1, doc! { "a": 5 }), open(2, other.clone())]),
            Err(Fault::Corruption),
            "{other}"
        );
        assert_eq!(check(&[open(9, other.clone())]), Ok(()), "the index did not name it: {other}");
    }
    let operation = OperationId { epoch: 9, sequence: 1 };
    let row = RowId([2; 16]);
    let step = Step::Documents(documents::Change::Delete { collection: collection.id, row });
    world.shared.intents.ledger.begin(operation, &[step], &[]);
    assert_eq!(check(&[open(2, doc! { "a": 7 })]), Ok(()), "a write is under way");
    world.shared.intents.ledger.end(operation, true, &world.shared.local);
    assert_eq!(check(&[open(2, doc! { "a": 7 })]), Ok(()), "a write came in between");
    assert_eq!(check(&[open(1, doc! { "a": 7 })]), Err(Fault::Corruption), "not of this one");
    let mut found = found;
    found.watch_anew(world.shared.intents.ledger.watch());
    let again = found.check(&collection, &[open(2, doc! { "a": 7 })]);
    assert_eq!(again.unwrap_err().fault, Fault::Corruption, "it was before the watch");
}

#[tokio::test]
async fn values_without_entries_ask_the_server_nothing() {
    let world = World::new("").await;
    let (collection, Found { part, .. }) = found(&world, &[], &[]);
    let index = part.id;
    let ask = |value: i32| {
        let (shared, collection) = (Arc::clone(&world.shared), Arc::clone(&collection));
        async move {
            let found = shared.rows_of_values(&collection, index, &[vec![Bson::Int32(value)]], true).await;
            found.map(|found| found.rows.len()).map_err(|error| error.fault)
        }
    };
    assert_eq!(ask(1).await, Ok(0));
    world.record(&part, &term(1), &occurrences(1));
    assert_eq!(ask(1).await, Err(Fault::Unreachable), "it is away");
    assert_eq!(ask(2).await, Ok(0));
    // An index that is gone has no records either: that is no empty answer.
    collection.set_indexes(Vec::new());
    assert_eq!(ask(2).await, Err(Fault::IndexNotFound));
    let parts = [IndexPart::of_test(1, range_of(&["a"])), IndexPart::of_test(2, unique_of(&["a"]))];
    collection.set_indexes(vec![Arc::new(LiveIndex::of_test("a_1", doc! { "a": 1 }, parts.to_vec()))]);
    assert_eq!(ask(2).await, Err(Fault::IndexNotFound), "it has become another");
}

#[tokio::test]
async fn what_lacks_entries_is_named_as_the_application_does() {
    let world = World::new("").await;
    let (collection, Found { part, .. }) = found(&world, &[], &[]);
    let error = missing_entries(&collection, part.id);
    assert_eq!(error.fault, Fault::Corruption);
    assert!(error.message.contains("db.c") && error.message.contains("index a_1 "), "{}", error.message);
    assert!(missing_entries(&collection, IndexId([8; 8])).message.contains("(dropped)"));
}
