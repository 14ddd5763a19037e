//! What equality and unique indexes are asked, and what becomes of lies, as far as the proxy's own records say.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::apply::COUNTERS;
use crate::index::LiveIndex;
use crate::index::tests::{Scripted, eq_of, range_of, unique_of};
use crate::tests::{World, occurrences};
use arras_protocol::write::Step;
use arras_protocol::{ChannelError, OperationId, Refusal, documents};
use arras_records::IndexTerms;
use arras_schemes::contract::{Occasion, Worn};
use arras_service::Fault;
use bson::{Document, doc};
use std::sync::Mutex;

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

/// A collection with an index on `a` that answers as it was told.
fn scripted(world: &World, half: Scripted) -> (Arc<Collection>, Arc<Scripted>) {
    let half = Arc::new(half);
    let part = IndexPart::around(IndexId([1; 8]), eq_of(&["a"]), Arc::clone(&half) as _);
    let index = LiveIndex::of_test("a_1", doc! { "a": 1 }, vec![part]);
    (world.collection(vec![index], 100), half)
}

fn exact() -> Result<EqualityAnswer, IndexError> {
    Ok(EqualityAnswer::Exact { rows: vec![RowId([3; 16]), RowId([2; 16])], worn: Vec::new() })
}

fn differs() -> Result<EqualityAnswer, IndexError> {
    Ok(EqualityAnswer::Differs(b"record".to_vec()))
}

/// How many rows there are for one value, and what is left of the answers.
async fn asked(
    world: &World,
    answers: Vec<Result<EqualityAnswer, IndexError>>,
    alone: bool,
) -> (Result<usize, Fault>, usize) {
    let half = Scripted { answers: Mutex::new(answers.into()), ..Scripted::default() };
    let (collection, half) = scripted(world, half);
    let found =
        world.shared.rows_of_values(&collection, IndexId([1; 8]), &[vec![Bson::Int32(1)]], alone).await;
    let left = half.answers.lock().unwrap().len();
    (found.map(|found| found.rows.len()).map_err(|error| error.fault), left)
}

#[tokio::test]
async fn an_answer_that_differs_is_a_lie_unless_a_write_of_the_value_is_under_way() {
    let world = World::new("").await;
    assert_eq!(asked(&world, vec![exact(), exact()], false).await, (Ok(2), 1));
    let lie = Err(Fault::Corruption);
    assert_eq!(asked(&world, vec![differs(), exact()], false).await, (lie, 1));
    let change = world.shared.local.set_as_named(COUNTERS, b"record".to_vec(), &Vec::<u8>::new());
    let operation = OperationId { epoch: 9, sequence: 1 };
    world.shared.intents.ledger.begin(operation, &[], &[change]);
    assert_eq!(asked(&world, vec![differs(), exact(), exact()], false).await, (Ok(2), 1), "asked again");
    assert_eq!(asked(&world, vec![differs(), exact()], true).await, (lie, 1), "by the one writer");
    let always = || (0..9).map(|_| differs()).collect();
    assert_eq!(asked(&world, always(), false).await, (lie, 5), "in the end as the one writer");
    let other = Ok(EqualityAnswer::Differs(b"other".to_vec()));
    assert_eq!(asked(&world, vec![other, exact()], false).await, (Err(Fault::Corruption), 1));
}

#[tokio::test]
async fn what_an_index_fails_with_is_told_by_whose_doing_it_is() {
    let world = World::new("").await;
    let failures = || {
        [
            (IndexError::Channel(ChannelError::Lost("it is away".into())), Fault::Unreachable),
            (IndexError::Channel(ChannelError::Deadline(5)), Fault::TimedOut),
            (IndexError::Channel(ChannelError::Refused(Refusal::Fenced)), Fault::Fenced),
            (IndexError::Peer("more values"), Fault::Peer),
            (IndexError::Contradicted("of another time"), Fault::Corruption),
            (IndexError::State("it is damaged".into()), Fault::ProxyStore),
        ]
    };
    for (failure, fault) in failures() {
        assert_eq!(asked(&world, vec![Err(failure), exact()], false).await, (Err(fault), 1));
    }
    // A unique index that answers of more or fewer values withholds or invents documents.
    for (failure, fault) in failures() {
        let fault = if fault == Fault::Peer { Fault::Corruption } else { fault };
        let holders = Mutex::new([Err(failure)].into());
        let (collection, _) = scripted(&world, Scripted { is_unique: true, holders, ..Scripted::default() });
        let values = [vec![Bson::Int32(1)]];
        let found = world.shared.rows_of_values(&collection, IndexId([1; 8]), &values, false).await;
        assert_eq!(found.err().map(|error| error.fault), Some(fault));
    }
}

#[tokio::test]
async fn a_worn_value_is_cleaned_behind_the_answer() {
    let world = World::new("").await;
    let worn = [1, 2].map(|number| Worn { value: vec![number], searched: vec![number; 3] });
    let answer = EqualityAnswer::Exact { rows: Vec::new(), worn: worn.to_vec() };
    let answers = Mutex::new([Ok(answer)].into());
    let (collection, half) = scripted(&world, Scripted { answers, ..Scripted::default() });
    let values = [vec![Bson::Int32(1)]];
    world.shared.rows_of_values(&collection, IndexId([1; 8]), &values, false).await.unwrap();
    while half.renumbered.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    for ((value, occasion), worn) in half.renumbered.lock().unwrap().iter().zip(worn) {
        assert_eq!(*value, worn.value);
        assert!(matches!(occasion, Occasion::Searched(searched) if *searched == worn.searched));
    }
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
