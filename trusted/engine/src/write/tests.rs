//! Uniqueness beside a plain map, and what becomes of statements that never reach the server.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::index::LiveIndex;
use crate::index::tests::{Scripted, eq_of, range_of, unique_of};
use crate::tests::{World, collection, document, randomly};
use crate::uniqueness::{Claims, Constrained, Values, conflict};
use arras_planner::terms::equality_bytes;
use arras_protocol::{IndexId, RowId};
use arras_records::IndexTerms;
use arras_schemes::error::IndexError;
use arras_service::Fault;
use arras_service::interrupt::Reason;
use bson::doc;
use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::{BTreeMap, BTreeSet};

fn row(number: u8) -> RowId {
    RowId([number; 16])
}

/// A collection with unique indexes on `a` and on `b` and `c`.
fn constrained() -> Arc<Collection> {
    let of = |name: &str, id, fields: &[&str]| {
        let key = fields.iter().map(|field| ((*field).to_owned(), Bson::Int32(1))).collect();
        LiveIndex::of_test(name, key, vec![IndexPart::of_test(id, unique_of(fields))])
    };
    collection("c", vec![of("a_1", 1, &["a"]), of("b_c", 2, &["b", "c"])])
}

/// The values of a document that are to be unique, by index.
fn values(collection: &Collection, document: &Document) -> Vec<(IndexId, Vec<u8>)> {
    let of_part = |part: &Arc<IndexPart>| {
        let terms = terms::of(part, document).unwrap().terms;
        let id = part.id;
        terms.into_keys().map(move |value| (id, value)).collect::<Vec<_>>()
    };
    collection.parts().iter().flat_map(of_part).collect()
}

/// The values of revisions, as a write takes and frees them.
fn constraints(collection: &Collection, revisions: &[Revision]) -> Vec<Constrained> {
    let of_index = |index: &Arc<LiveIndex>| {
        let part = Arc::clone(&index.parts[0]);
        let of = |document: Option<&Document>| -> Vec<Vec<u8>> {
            let terms = document.map(|document| terms::of(&part, document).unwrap().terms);
            terms.unwrap_or_default().into_keys().collect()
        };
        let values = |revision: &Revision| {
            let taken = of(revision.new.as_deref());
            let old = of(revision.old.as_ref().map(|old| &old.document));
            let freed = old.into_iter().filter(|value| !taken.contains(value)).collect();
            Values { taken, freed }
        };
        let values = revisions.iter().map(values).collect();
        Constrained { index: Arc::clone(index), part, values }
    };
    collection.indexes().iter().map(of_index).collect()
}

/// What the server holds of some documents.
fn claims(collection: &Collection, stored: &BTreeMap<RowId, Document>) -> Claims {
    let mut claims = Claims { rows: stored.keys().copied().collect(), ..Claims::default() };
    for (row, document) in stored {
        for (index, value) in values(collection, document) {
            claims.holders.entry(index).or_default().insert(value, *row);
        }
    }
    claims
}

fn inserted(row: RowId, new: Document) -> Revision {
    Revision { row, sequence: 0, old: None, new: Some(Measured::new(new).unwrap()) }
}

fn opened(row: RowId, document: Document) -> OpenDocument {
    OpenDocument { row, version: [0; 8], sequence: 0, terms: IndexTerms::default(), document, bytes: 10 }
}

fn few(rng: &mut StdRng) -> Document {
    let mut one = || match rng.random_range(0..8) {
        0 => Bson::Double(1.0),
        1 => Bson::Array(vec![Bson::Int32(0), Bson::Int32(1)]),
        2 => Bson::Null,
        number => Bson::Int32(number),
    };
    let b = match one() {
        Bson::Array(_) => Bson::Int32(9),
        value => value,
    };
    doc! { "a": one(), "b": b, "c": one() }
}

/// Documents of some rows, none of which has what another has.
fn stored(rng: &mut StdRng, collection: &Collection) -> BTreeMap<RowId, Document> {
    let mut stored: BTreeMap<RowId, Document> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for number in 0..rng.random_range(0..6) {
        let document = few(rng);
        let values = values(collection, &document);
        if values.iter().all(|value| !taken.contains(value)) {
            taken.extend(values);
            stored.insert(row(number), document);
        }
    }
    stored
}

#[test]
fn a_revision_is_refused_if_it_takes_what_another_document_has_by_then() {
    let (mut rng, collection) = (randomly(), constrained());
    let (mut refused, mut freed) = (0, 0);
    for _ in 0..2_000 {
        let mut stored = stored(&mut rng, &collection);
        let mut revisions: Vec<Revision> = Vec::new();
        for number in 0..10 {
            let (row, new) = (row(number), few(&mut rng));
            let old = stored.get(&row).filter(|_| rng.random()).map(|old| opened(row, old.clone()));
            match old {
                Some(old) if rng.random_range(0..4) == 0 => revisions.push(removal(old)),
                old if rng.random() => revisions.push(Revision { old, ..inserted(row, new) }),
                _ => {}
            }
        }
        let mut claims = claims(&collection, &stored);
        let constrained = constraints(&collection, &revisions);
        for (position, revision) in revisions.iter().enumerate() {
            let Some(new) = revision.new.as_deref() else {
                assert!(conflict(&collection, position, revision, &constrained, &mut claims).is_none());
                stored.remove(&revision.row);
                continue;
            };
            let held = |value: &(IndexId, Vec<u8>)| {
                let mut others = stored.iter().filter(|(row, _)| **row != revision.row);
                others.any(|(_, other)| values(&collection, other).contains(value))
            };
            let exists = revision.old.is_none() && stored.contains_key(&revision.row);
            let breaks = exists || values(&collection, new).iter().any(held);
            let found = conflict(&collection, position, revision, &constrained, &mut claims);
            assert_eq!(found.is_some(), breaks, "{new} beside {stored:?}");
            match found {
                Some(error) => {
                    refused += 1;
                    let details = error.details.unwrap();
                    let index = if exists { "_id_" } else { "" };
                    assert!(error.fault == Fault::DuplicateKey && error.message.contains(index));
                    let names = |field: &str| {
                        details.get_document(field).unwrap().keys().cloned().collect::<Vec<_>>()
                    };
                    assert_eq!(names("keyPattern"), names("keyValue"));
                    if !exists {
                        // Of an array, the element that another has.
                        let told: Vec<Bson> =
                            details.get_document("keyValue").unwrap().values().cloned().collect();
                        let bytes = equality_bytes(&told);
                        let mut own = values(&collection, new).into_iter();
                        assert!(own.any(|value| value.1 == bytes && held(&value)), "{told:?} of {new}");
                    }
                }
                None => {
                    freed += usize::from(revision.old.is_some());
                    stored.insert(revision.row, new.clone());
                }
            }
        }
    }
    assert!(refused > 500 && freed > 300, "{refused} {freed}");
}

#[tokio::test]
async fn a_value_that_another_document_has_by_the_server_is_refused_and_the_same_again_is_not() {
    let world = World::new("").await;
    let half = Arc::new(Scripted { is_unique: true, ..Scripted::default() });
    let part = IndexPart::around(IndexId([1; 8]), unique_of(&["a"]), Arc::clone(&half) as _);
    let index = LiveIndex::of_test("a_1", doc! { "a": 1 }, vec![part]);
    let collection = world.collection(vec![index], 0);
    let change = |number, from: i32, to: i32| {
        let old = Some(opened(row(number), doc! { "a": from }));
        Revision { old, ..inserted(row(number), doc! { "a": to }) }
    };
    let revisions = [change(1, 5, 6), change(2, 6, 6), change(3, 8, 7)];
    // Each value is asked for once, in the order of their bytes.
    let mut held = [(6, Some(row(2))), (7, None)];
    held.sort_by_key(|(value, _)| equality_bytes(&[Bson::Int32(*value)]));
    half.holders.lock().unwrap().push_back(Ok(held.map(|(_, row)| row).into()));
    let conflicts = world.shared.conflicts(&collection, &revisions).await.unwrap();
    let refused: Vec<Option<Fault>> =
        conflicts.into_iter().map(|conflict| conflict.map(|error| error.fault)).collect();
    assert_eq!(refused, [Some(Fault::DuplicateKey), None, None]);
    half.holders.lock().unwrap().push_back(Err(IndexError::Peer("more values")));
    let error = world.shared.conflicts(&collection, &revisions).await.unwrap_err();
    assert_eq!(error.fault, Fault::Peer);
    // What takes nothing asks nothing.
    let gone = removal(opened(row(1), doc! { "a": 1 }));
    assert!(world.shared.conflicts(&collection, &[gone]).await.unwrap()[0].is_none());
}

#[test]
fn where_the_order_of_revisions_may_not_matter_it_does_not() {
    let (mut rng, collection) = (randomly(), constrained());
    let (mut may, mut may_not) = (0, 0);
    for _ in 0..2_000 {
        let stored = stored(&mut rng, &collection);
        let mut revisions: Vec<Revision> = stored
            .iter()
            .map(|(row, old)| {
                let mut new = old.clone();
                new.insert("d", rng.random_range(0..9));
                if rng.random_range(0..6) == 0 {
                    new.insert("a", rng.random_range(0..9));
                }
                let gone = rng.random_range(0..6) == 0;
                let old = Some(opened(*row, old.clone()));
                Revision { old, new: inserted(*row, new).new.filter(|_| !gone), row: *row, sequence: 0 }
            })
            .collect();
        let is_open = may_conflict(&collection, &revisions);
        may += usize::from(is_open);
        may_not += usize::from(!is_open);
        if is_open {
            continue;
        }
        for _ in 0..3 {
            revisions.shuffle(&mut rng);
            let (constrained, mut claims) =
                (constraints(&collection, &revisions), claims(&collection, &stored));
            for (position, revision) in revisions.iter().enumerate() {
                assert!(conflict(&collection, position, revision, &constrained, &mut claims).is_none());
            }
        }
    }
    assert!(may > 100 && may_not > 100, "{may} {may_not}");
    assert!(may_conflict(&collection, &[inserted(row(1), few(&mut rng))]), "what is new takes values");
    let free = super::super::tests::collection("d", Vec::new());
    assert!(may_conflict(&free, &[inserted(row(1), doc! {})]));
    assert!(!may_conflict(&free, &[removal(opened(row(1), doc! { "a": 1 }))]));
}

#[test]
fn a_duplicate_says_where_and_what_as_mongodb_does() {
    let collection = constrained();
    let stored = BTreeMap::from([(row(1), doc! { "a": 1, "b": { "x": 2 }, "c": "text" })]);
    let refused = |row, new: Document| {
        let revisions = [inserted(row, new)];
        let constrained = constraints(&collection, &revisions);
        conflict(&collection, 0, &revisions[0], &constrained, &mut claims(&collection, &stored)).unwrap()
    };
    let error = refused(row(2), doc! { "_id": 7, "a": 2, "b": { "x": 2_i64 }, "c": "text" });
    assert_eq!(
        error.message,
        "E11000 duplicate key error collection: db.c index: b_c dup key: { b: { x: 2 }, c: \"text\" }"
    );
    let details = doc! { "keyPattern": { "b": 1, "c": 1 }, "keyValue": { "b": { "x": 2_i64 }, "c": "text" } };
    assert_eq!(error.details.as_deref(), Some(&details));
    let error = refused(row(1), doc! { "_id": 7, "a": 2 });
    assert_eq!(error.message, "E11000 duplicate key error collection: db.c index: _id_ dup key: { _id: 7 }");
}

#[test]
fn documents_that_an_index_cannot_hold_are_refused_by_themselves() {
    let mut rng = randomly();
    let parts = [eq_of(&["a"]), range_of(&["a", "b"]), unique_of(&["b", "c"])];
    let parts: Vec<Arc<IndexPart>> =
        (1..).zip(parts).map(|(name, kind)| IndexPart::of_test(name, kind)).collect();
    let mut refused = 0;
    for _ in 0..2_000 {
        let document = document(&mut rng, 2);
        let checked = check_insertion(&parts, &document);
        let terms = parts.iter().try_for_each(|part| terms::of(part, &document).map(drop));
        assert_eq!(checked.is_err(), terms.is_err(), "{document}");
        refused += usize::from(terms.is_err());
    }
    assert!(refused > 20, "{refused}");
}

#[tokio::test]
async fn an_update_revises_the_documents_that_it_changes_and_leaves_the_others() {
    let update = Update::parse(&Bson::Document(doc! { "$min": { "a": 5 } })).unwrap();
    let how = Arc::new((update, Filter::all(), ArrayFilters::default()));
    let documents: Vec<OpenDocument> = (0..10).map(|a| opened(row(a), doc! { "a": i32::from(a) })).collect();
    let revised = revised(documents, &how, |_| None).await.unwrap();
    let changed: Vec<u8> = revised.revisions.iter().map(|revision| revision.row.0[0]).collect();
    assert_eq!(changed, [6, 7, 8, 9]);
    for revision in revised.revisions {
        let old = revision.old.unwrap();
        assert_eq!(old.row, revision.row);
        assert_eq!(revision.new.as_deref(), Some(&doc! { "a": 5 }));
        assert!(old.document.get_i32("a").unwrap() > 5);
    }
}

#[tokio::test]
async fn documents_that_cannot_be_indexed_fail_and_the_others_fail_with_the_server() {
    let world = World::new("").await;
    let index =
        LiveIndex::of_test("a_b", doc! { "a": 1 }, vec![IndexPart::of_test(1, range_of(&["a", "b"]))]);
    let collection = world.collection(vec![index], 0);
    let bad = |id: i32| doc! { "_id": id, "a": [1, 2], "b": [1] };
    let good = |id: i32| doc! { "_id": id, "a": 1 };
    let insert = async |documents: Vec<Document>, ordered| {
        let statement = InsertStatement::of(documents, ordered).unwrap();
        let inserted = world.shared.insert(&collection, statement).await;
        inserted.map(|inserted| inserted.failures.iter().map(|failure| failure.position).collect::<Vec<_>>())
    };
    assert_eq!(insert(vec![bad(1), bad(2), bad(3)], false).await.unwrap(), [0, 1, 2]);
    assert_eq!(insert(vec![bad(1), good(2), bad(3)], true).await.unwrap(), [0], "the others are not tried");
    for (documents, ordered) in [
        (vec![bad(1), good(2), bad(3)], false),
        (vec![good(1), good(2)], true),
        (vec![good(1), bad(2)], true),
    ] {
        let error = insert(documents, ordered).await.unwrap_err();
        assert_eq!(error.fault, Fault::Unreachable);
        assert!(error.message.contains("not recorded"), "{}", error.message);
    }
    assert!(!world.shared.intents.in_doubt());
    assert!(insert(Vec::new(), true).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_statement_that_is_to_end_before_it_begins_does_nothing() {
    let world = World::new("").await;
    let collection = world.collection(Vec::new(), 0);
    let statement = InsertStatement::of(vec![doc! { "_id": 1 }, doc! { "_id": 2 }], true).unwrap();
    statement.interrupt.raise(Reason::Killed);
    let error = world.shared.insert(&collection, statement).await.unwrap_err();
    assert_eq!(error.fault, Fault::Interrupted(Reason::Killed));
    let delete =
        DeleteStatement { filter: Filter::all(), hint: None, multi: true, interrupt: Interrupt::default() };
    let error = world.shared.delete(&collection, &delete).await.unwrap_err();
    assert_eq!(error.fault, Fault::Unreachable);
    assert!(error.message.contains("not recorded"), "{}", error.message);
    delete.interrupt.raise(Reason::Gone);
    let error = world.shared.delete(&collection, &delete).await.unwrap_err();
    assert_eq!(error.fault, Fault::Interrupted(Reason::Gone));
}
