#![allow(clippy::unwrap_used)]

use super::*;
use crate::samples::{decimal, document, value};
use bson::oid::ObjectId;
use bson::{Timestamp, bson, doc};
use proptest::prelude::*;

const NOW: DateTime = DateTime::from_millis(1_700_000_000_000);

fn update(update: &Document) -> Result<Update, QueryError> {
    Update::parse_at(&Bson::Document(update.clone()), NOW)
}

fn applied(change: Document, document: Document) -> Result<Document, QueryError> {
    let updated = update(&change)?.apply(&document, None, &ArrayFilters::default())?;
    Ok(updated.map_or(document, Measured::into_document))
}

fn check(rows: Vec<(Document, Document, Document)>) {
    for (change, before, after) in rows {
        let got = applied(change.clone(), before.clone()).unwrap();
        assert!(order::identical_documents(&got, &after), "{change} on {before}: {got}, not {after}");
    }
}

fn check_errors(rows: Vec<(Document, Document, i32)>) {
    for (change, before, code) in rows {
        let error = applied(change.clone(), before.clone()).unwrap_err();
        assert_eq!(error.code, code, "{change} on {before}: {error}");
    }
}

#[test]
fn fields() {
    check(vec![
        (doc! { "$set": { "a": 2 } }, doc! { "_id": 1, "a": 1, "b": 1 }, doc! { "_id": 1, "a": 2, "b": 1 }),
        (doc! { "$set": { "a.b.c": 2 } }, doc! { "_id": 1 }, doc! { "_id": 1, "a": { "b": { "c": 2 } } }),
        (doc! { "$set": { "a.1": 2 } }, doc! { "a": [0, 0] }, doc! { "a": [0, 2] }),
        (doc! { "$set": { "a.3": 2 } }, doc! { "a": [0] }, doc! { "a": [0, null, null, 2] }),
        // New fields are added in the order of their names, numbers by value.
        (
            doc! { "$set": { "c": 1, "b": 2, "10": 3, "9": 4 } },
            doc! {},
            doc! { "9": 4, "10": 3, "b": 2, "c": 1 },
        ),
        (doc! { "$unset": { "a": "", "x": "" } }, doc! { "a": 1, "b": 1 }, doc! { "b": 1 }),
        (doc! { "$unset": { "a.0": "" } }, doc! { "a": [1, 2] }, doc! { "a": [null, 2] }),
        (doc! { "$rename": { "a": "b.c" } }, doc! { "a": 1 }, doc! { "b": { "c": 1 } }),
        (doc! { "$rename": { "a": "b" } }, doc! { "a": 1, "b": 2 }, doc! { "b": 1 }),
        (doc! { "$rename": { "x": "y" } }, doc! { "a": 1 }, doc! { "a": 1 }),
        (doc! { "$setOnInsert": { "a": 1 } }, doc! { "b": 1 }, doc! { "b": 1 }),
    ]);
}

#[test]
fn extremes_and_dates() {
    check(vec![
        (
            doc! { "$min": { "a": 1, "b": 9, "c": 3 } },
            doc! { "a": 2, "b": 2 },
            doc! { "a": 1, "b": 2, "c": 3 },
        ),
        // Different types compare in the BSON order.
        (doc! { "$max": { "a": "x" } }, doc! { "a": 2 }, doc! { "a": "x" }),
        (doc! { "$set": { "_id": 1 } }, doc! { "_id": 1 }, doc! { "_id": 1 }),
        (doc! { "$set": {} }, doc! { "_id": 1 }, doc! { "_id": 1 }),
        (doc! { "$currentDate": { "a": true } }, doc! {}, doc! { "a": NOW }),
        (
            doc! { "$currentDate": { "a": { "$type": "timestamp" } } },
            doc! {},
            doc! { "a": Timestamp { time: 1_700_000_000, increment: 1 } },
        ),
    ]);
}

#[test]
fn numbers_keep_the_widest_type() {
    check(vec![
        (doc! { "$inc": { "a": 1 } }, doc! { "a": 1 }, doc! { "a": 2 }),
        (doc! { "$inc": { "a": 1 } }, doc! {}, doc! { "a": 1 }),
        (doc! { "$inc": { "a": 1 } }, doc! { "a": i32::MAX }, doc! { "a": i64::from(i32::MAX) + 1 }),
        (doc! { "$inc": { "a": 1_i64 } }, doc! { "a": 1 }, doc! { "a": 2_i64 }),
        (doc! { "$inc": { "a": 1.5 } }, doc! { "a": 1 }, doc! { "a": 2.5 }),
        (doc! { "$inc": { "a": decimal("0.1") } }, doc! { "a": 1 }, doc! { "a": decimal("1.1") }),
        (doc! { "$mul": { "a": 2 } }, doc! { "a": 3 }, doc! { "a": 6 }),
        (doc! { "$mul": { "a": 2_i64 } }, doc! {}, doc! { "a": 0_i64 }),
        (doc! { "$mul": { "a": 2.5 } }, doc! {}, doc! { "a": 0.0 }),
        (doc! { "$mul": { "a": 3 } }, doc! { "a": i32::MAX }, doc! { "a": 3 * i64::from(i32::MAX) }),
        (doc! { "$bit": { "a": { "and": 6 } } }, doc! { "a": 3 }, doc! { "a": 2 }),
        (doc! { "$bit": { "a": { "or": 4_i64 } } }, doc! { "a": 3 }, doc! { "a": 7_i64 }),
        (doc! { "$bit": { "a": { "xor": 1 } } }, doc! {}, doc! { "a": 1 }),
    ]);
    check_errors(vec![
        (doc! { "$inc": { "a": 1 } }, doc! { "a": i64::MAX }, 2),
        (doc! { "$mul": { "a": 2 } }, doc! { "a": i64::MAX }, 2),
        (doc! { "$inc": { "a": 1 } }, doc! { "a": "x" }, 14),
        (doc! { "$inc": { "a": "x" } }, doc! {}, 14),
        (doc! { "$inc": { "a": 1 } }, doc! { "a": null }, 14),
        (doc! { "$bit": { "a": { "and": 1 } } }, doc! { "a": 1.5 }, 2),
        (doc! { "$bit": { "a": { "not": 1 } } }, doc! { "a": 1 }, 2),
    ]);
}

#[test]
fn arrays() {
    check(vec![
        (doc! { "$push": { "a": 1 } }, doc! {}, doc! { "a": [1] }),
        (doc! { "$push": { "a": [1] } }, doc! { "a": [0] }, doc! { "a": [0, [1]] }),
        (doc! { "$push": { "a": { "$each": [1, 2] } } }, doc! { "a": [0] }, doc! { "a": [0, 1, 2] }),
        (
            doc! { "$push": { "a": { "$each": [9], "$position": 0 } } },
            doc! { "a": [1, 2] },
            doc! { "a": [9, 1, 2] },
        ),
        (
            doc! { "$push": { "a": { "$each": [9], "$position": -1 } } },
            doc! { "a": [1, 2] },
            doc! { "a": [1, 9, 2] },
        ),
        (
            doc! { "$push": { "a": { "$each": [5], "$slice": -2 } } },
            doc! { "a": [1, 2, 3] },
            doc! { "a": [3, 5] },
        ),
        (doc! { "$push": { "a": { "$each": [], "$slice": 1 } } }, doc! { "a": [1, 2, 3] }, doc! { "a": [1] }),
        (
            doc! { "$push": { "a": { "$each": [2], "$sort": -1 } } },
            doc! { "a": [1, 3] },
            doc! { "a": [3, 2, 1] },
        ),
        (
            doc! { "$push": { "a": { "$each": [{ "x": 1 }], "$sort": { "x": 1 }, "$slice": 2 } } },
            doc! { "a": [{ "x": 3 }, { "x": 2 }] },
            doc! { "a": [{ "x": 1 }, { "x": 2 }] },
        ),
    ]);
}

#[test]
fn sets_and_removals() {
    check(vec![
        (doc! { "$addToSet": { "a": 1 } }, doc! { "a": [1.0] }, doc! { "a": [1.0] }),
        (doc! { "$addToSet": { "a": { "$each": [1, 2, 2] } } }, doc! { "a": [1] }, doc! { "a": [1, 2] }),
        (doc! { "$pop": { "a": 1 } }, doc! { "a": [1, 2] }, doc! { "a": [1] }),
        (doc! { "$pop": { "a": -1, "x": 1 } }, doc! { "a": [1, 2] }, doc! { "a": [2] }),
        (doc! { "$pop": { "a": -1 } }, doc! { "a": [] }, doc! { "a": [] }),
        (doc! { "$pull": { "a": 2 } }, doc! { "a": [1, 2, 2.0, 3] }, doc! { "a": [1, 3] }),
        (doc! { "$pull": { "a": { "$gte": 2 } } }, doc! { "a": [1, 2, "x", 3] }, doc! { "a": [1, "x"] }),
        (
            doc! { "$pull": { "a": { "x": 1 } } },
            doc! { "a": [{ "x": 1, "y": 2 }, { "x": 2 }, 1] },
            doc! { "a": [{ "x": 2 }, 1] },
        ),
        (doc! { "$pull": { "a": { "$in": [1, 3] } } }, doc! { "a": [1, 2, 3] }, doc! { "a": [2] }),
        (doc! { "$pullAll": { "a": [1, 2] } }, doc! { "a": [1, 2, 1, 3] }, doc! { "a": [3] }),
    ]);
}

/// What is a filter's word and not a value's is asked of elements that are documents.
#[test]
fn pull_takes_filters_of_documents() {
    let elements = || doc! { "a": [{ "b": 1 }, { "b": 2 }, { "b": 3 }, 1] };
    let left = |numbers: &[i32]| {
        let kept = numbers.iter().map(|number| Bson::from(doc! { "b": *number }));
        doc! { "a": kept.chain([Bson::Int32(1)]).collect::<Vec<_>>() }
    };
    let reference = || doc! { "$ref": "c", "$id": 1 };
    check(vec![
        (doc! { "$pull": { "a": { "$or": [{ "b": 1 }, { "b": 3 }] } } }, elements(), left(&[2])),
        (
            doc! { "$pull": { "a": { "$and": [{ "b": { "$gt": 1 } }, { "b": { "$lt": 3 } }] } } },
            elements(),
            left(&[1, 3]),
        ),
        (doc! { "$pull": { "a": { "$nor": [{ "b": 1 }], "b": 3 } } }, elements(), left(&[1, 2])),
        (doc! { "$pull": { "a": { "$comment": "why", "b": 1 } } }, elements(), left(&[2, 3])),
        (doc! { "$pull": { "a": { "$alwaysTrue": 1 } } }, elements(), left(&[])),
        (
            doc! { "$pull": { "a": reference() } },
            doc! { "a": [reference(), { "$ref": "d", "$id": 1 }] },
            doc! { "a": [{ "$ref": "d", "$id": 1 }] },
        ),
    ]);
    check_errors(vec![
        (doc! { "$pull": { "a": { "$expr": { "$eq": ["$b", 1] } } } }, elements(), 224),
        (doc! { "$pull": { "a": { "$text": { "$search": "x" } } } }, elements(), 2),
        (doc! { "$pull": { "a": { "$where": "true" } } }, elements(), 238),
        (doc! { "$pull": { "a": { "$foo": 1 } } }, elements(), 2),
        (doc! { "$pull": { "a": { "$gt": 1, "$or": [{ "b": 1 }] } } }, elements(), 2),
    ]);
}

#[test]
fn array_refusals() {
    check_errors(vec![
        (doc! { "$push": { "a": 1 } }, doc! { "a": 1 }, 2),
        (doc! { "$push": { "a": { "$each": 1 } } }, doc! {}, 14),
        (doc! { "$addToSet": { "a": 1 } }, doc! { "a": 1 }, 2),
        (doc! { "$pop": { "a": 1 } }, doc! { "a": 1 }, 14),
        (doc! { "$pop": { "a": 2 } }, doc! { "a": [] }, 9),
        (doc! { "$pull": { "a": 1 } }, doc! { "a": 1 }, 2),
        (doc! { "$pullAll": { "a": 1 } }, doc! { "a": [1] }, 2),
    ]);
}

#[test]
fn refusals() {
    check_errors(vec![
        (doc! { "$foo": { "a": 1 } }, doc! {}, 9),
        (doc! { "$set": 5 }, doc! {}, 9),
        (doc! { "$set": { "a": 1 }, "$inc": { "a": 1 } }, doc! {}, 40),
        (doc! { "$set": { "a": 1, "a.b": 1 } }, doc! {}, 40),
        (doc! { "$set": { "a": 1 }, "$rename": { "b": "a" } }, doc! { "b": 1 }, 40),
        (doc! { "$set": { "a.b": 1 } }, doc! { "a": 5 }, 28),
        (doc! { "$set": { "a.x": 1 } }, doc! { "a": [1] }, 28),
        (doc! { "$set": { "a..b": 1 } }, doc! {}, 56),
        (doc! { "$set": { "$a": 1 } }, doc! {}, 52),
        (doc! { "$set": { "$": 1 } }, doc! {}, 2),
        (doc! { "$set": { "_id": 2 } }, doc! { "_id": 1 }, 66),
        (doc! { "$unset": { "_id": 1 } }, doc! { "_id": 1 }, 66),
        (doc! { "$inc": { "_id": 1 } }, doc! { "_id": 1 }, 66),
        (doc! { "_id": 2, "a": 1 }, doc! { "_id": 1 }, 66),
        (doc! { "a": 1, "$b": 1 }, doc! { "_id": 1 }, 52),
        (doc! { "$rename": { "a.0": "b" } }, doc! { "a": [1] }, 2),
        (doc! { "$currentDate": { "a": 1 } }, doc! {}, 2),
    ]);
}

#[test]
fn unchanged_documents_are_told() {
    let change = update(&doc! { "$set": { "a": 1 } }).unwrap();
    let none = ArrayFilters::default();
    assert!(change.apply(&doc! { "a": 1 }, None, &none).unwrap().is_none());
    // Another type is a change, though the values compare equal.
    assert!(change.apply(&doc! { "a": 1.0 }, None, &none).unwrap().is_some());
    let nan = update(&doc! { "$set": { "a": f64::NAN } }).unwrap();
    assert!(nan.apply(&doc! { "a": f64::NAN }, None, &none).unwrap().is_none());
    let swapped = update(&doc! { "b": 1, "a": 1 }).unwrap();
    assert!(swapped.apply(&doc! { "a": 1, "b": 1 }, None, &none).unwrap().is_some());
}

#[test]
fn replacements_keep_the_id_and_put_it_first() {
    let replace = update(&doc! { "a": 1 }).unwrap();
    assert!(replace.is_replacement());
    let after = replace
        .apply(&doc! { "x": 1, "_id": 7 }, None, &ArrayFilters::default())
        .unwrap()
        .unwrap()
        .into_document();
    assert!(order::identical_documents(&after, &doc! { "_id": 7, "a": 1 }));
    assert!(update(&doc! {}).unwrap().is_replacement());
}

#[test]
fn a_replacement_fills_empty_timestamps_as_an_insert_does() {
    let empty = Bson::Timestamp(Timestamp { time: 0, increment: 0 });
    let other = Bson::Timestamp(Timestamp { time: 0, increment: 1 });
    let change =
        doc! { "a": empty.clone(), "b": empty.clone(), "c": other.clone(), "d": { "e": empty.clone() } };
    let replace = update(&change).unwrap();
    let none = ArrayFilters::default();
    let replaced = replace.apply(&doc! { "_id": empty.clone() }, None, &none).unwrap().unwrap();
    let upserted = replace.upsert_document(&Filter::all(), &none, ObjectId::new()).unwrap();
    for document in [&replaced, &upserted] {
        let (a, b) = (document.get_timestamp("a").unwrap(), document.get_timestamp("b").unwrap());
        assert_eq!((a.time, b.time), (1_700_000_000, 1_700_000_000), "{document:?}");
        assert_ne!(a.increment, b.increment);
        assert_eq!(document.get("c"), Some(&other));
        assert_eq!(document.get_document("d").unwrap().get("e"), Some(&empty));
    }
    assert_eq!(replaced.get("_id"), Some(&empty));
    let own = update(&doc! { "_id": empty.clone() }).unwrap().upsert_document(
        &Filter::all(),
        &none,
        ObjectId::new(),
    );
    assert_eq!(own.unwrap().get("_id"), Some(&empty));
    // Operators store what they were given.
    let set = applied(doc! { "$set": { "a": empty.clone() } }, doc! {}).unwrap();
    assert_eq!(set.get("a"), Some(&empty));
}

#[test]
fn the_positional_operator_takes_the_matched_element() {
    let run = |filter: Document, change: Document, document: Document| {
        let filter = Filter::parse(&filter).unwrap();
        let updated = update(&change).unwrap().apply(&document, Some(&filter), &ArrayFilters::default());
        updated.map(|updated| updated.map(Measured::into_document))
    };
    let after = run(doc! { "a": 2 }, doc! { "$set": { "a.$": 9 } }, doc! { "a": [1, 2, 2] }).unwrap();
    assert_eq!(after, Some(doc! { "a": [1, 9, 2] }));
    let after = run(
        doc! { "a": { "$elemMatch": { "x": 2, "y": 1 } } },
        doc! { "$inc": { "a.$.y": 5 } },
        doc! { "a": [{ "x": 2, "y": 0 }, { "x": 2, "y": 1 }] },
    );
    assert_eq!(after.unwrap(), Some(doc! { "a": [{ "x": 2, "y": 0 }, { "x": 2, "y": 6 }] }));
    let unmatched = run(doc! { "x": 1 }, doc! { "$set": { "a.$": 9 } }, doc! { "x": 1, "a": [1] });
    assert_eq!(unmatched.unwrap_err().code, 2);
    assert_eq!(update(&doc! { "$set": { "a.$.b.$": 1 } }).unwrap_err().code, 2);
}

#[test]
fn array_filters_choose_elements() {
    let run = |filters: &[Document], change: Document, document: Document| {
        let updated = update(&change)?.apply(&document, None, &ArrayFilters::parse(filters)?)?;
        Ok::<_, QueryError>(updated.map(Measured::into_document))
    };
    let grades = || doc! { "a": [{ "g": 80, "m": 1 }, { "g": 95, "m": 1 }] };
    let after = run(&[doc! { "e.g": { "$gte": 85 } }], doc! { "$set": { "a.$[e].m": 0 } }, grades()).unwrap();
    assert_eq!(after, Some(doc! { "a": [{ "g": 80, "m": 1 }, { "g": 95, "m": 0 }] }));
    let after = run(&[], doc! { "$inc": { "a.$[].m": 1 } }, grades()).unwrap();
    assert_eq!(after, Some(doc! { "a": [{ "g": 80, "m": 2 }, { "g": 95, "m": 2 }] }));
    let after = run(
        &[doc! { "e": { "$gt": 1 } }],
        doc! { "$mul": { "a.$[].$[e]": 10 } },
        doc! { "a": [[1, 2], [3]] },
    );
    assert_eq!(after.unwrap(), Some(doc! { "a": [[1, 20], [30]] }));
    for (filters, change, document, code) in [
        (vec![], doc! { "$set": { "a.$[e]": 1 } }, doc! { "a": [1] }, 2),
        (vec![doc! { "e": 1 }], doc! { "$set": { "a": 1 } }, doc! {}, 9),
        (vec![doc! { "e": 1 }, doc! { "e": 2 }], doc! { "$set": { "a.$[e]": 1 } }, doc! {}, 9),
        (vec![doc! { "e": 1, "f": 2 }], doc! { "$set": { "a.$[e]": 1 } }, doc! {}, 9),
        (vec![doc! { "E": 1 }], doc! { "$set": { "a.$[E]": 1 } }, doc! {}, 2),
        (vec![], doc! { "$set": { "a.$[]": 1 } }, doc! { "a": 5 }, 2),
        (vec![], doc! { "$set": { "a.$[]": 1 } }, doc! {}, 2),
        (vec![], doc! { "$set": { "a.$[].x": 1, "a.0.x": 2 } }, doc! { "a": [{}] }, 40),
    ] {
        assert_eq!(run(&filters, change.clone(), document).unwrap_err().code, code, "{change}");
    }
}

/// A place that no array has, behind something that was made before it.
#[test]
fn a_place_beyond_all_numbers_is_an_error() {
    for place in [u64::MAX, u64::MAX / 2, 1 << 62] {
        let mut change = doc! { "A": "made before" };
        change.insert(format!("a.{place}"), 1);
        let update = update(&doc! { "$set": change }).unwrap();
        let error = update.apply(&doc! { "a": [1] }, None, &ArrayFilters::default()).unwrap_err();
        assert_eq!(error.code, 34, "{place}: {error:?}");
    }
}

#[test]
fn upserts_start_from_the_equalities_of_the_filter() {
    let upsert = |filter: Document, change: Document| {
        let filter = Filter::parse(&filter).unwrap();
        update(&change)
            .unwrap()
            .upsert_document(&filter, &ArrayFilters::default(), ObjectId::new())
            .map(Measured::into_document)
    };
    for (filter, change, expected) in [
        (
            doc! { "_id": 1, "a": 5, "b": { "$gt": 1 }, "c.d": { "$eq": 2 } },
            doc! { "$set": { "x": 1 }, "$setOnInsert": { "y": 2 } },
            doc! { "_id": 1, "a": 5, "c": { "d": 2 }, "x": 1, "y": 2 },
        ),
        (
            doc! { "$and": [{ "a": 1 }, { "$or": [{ "_id": 3 }] }] },
            doc! { "$inc": { "a": 1 } },
            doc! { "_id": 3, "a": 2 },
        ),
        (doc! { "_id": 1, "a": 5 }, doc! { "b": 1 }, doc! { "_id": 1, "b": 1 }),
        (doc! { "a": { "$in": [7] } }, doc! { "$set": { "_id": 1 } }, doc! { "_id": 1, "a": 7 }),
        (doc! { "$or": [{ "a": 1 }, { "a": 2 }] }, doc! { "$set": { "_id": 1 } }, doc! { "_id": 1 }),
    ] {
        let document = upsert(filter, change).unwrap();
        assert!(order::identical_documents(&document, &expected), "{document}");
    }
    let made = upsert(doc! { "a": 1 }, doc! { "$set": { "b": 1 } }).unwrap();
    assert!(matches!(made.iter().next(), Some((name, Bson::ObjectId(_))) if name == "_id"));
    assert_eq!(
        upsert(doc! { "a": 1, "$and": [{ "a": 2 }] }, doc! { "$set": { "b": 1 } }).unwrap_err().code,
        54
    );
    assert_eq!(upsert(doc! { "_id": 1 }, doc! { "$set": { "_id": 2 } }).unwrap_err().code, 66);
}

#[test]
fn pipelines_update_too() {
    let pipeline = bson!([{ "$set": { "total": { "$add": ["$a", "$b"] } } }, { "$unset": "a" }]);
    let change = Update::parse(&pipeline).unwrap();
    let after = change.apply(&doc! { "_id": 1, "a": 1, "b": 2 }, None, &ArrayFilters::default()).unwrap();
    let after = after.map(Measured::into_document);
    assert_eq!(after, Some(doc! { "_id": 1, "b": 2, "total": 3 }));
    assert_eq!(Update::parse(&bson!([{ "$match": {} }])).unwrap_err().code, 72);
    let changed = Update::parse(&bson!([{ "$set": { "_id": 2 } }])).unwrap();
    assert_eq!(changed.apply(&doc! { "_id": 1 }, None, &ArrayFilters::default()).unwrap_err().code, 66);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_update_applies_or_is_refused(
        target in document(),
        operators in prop::collection::vec(
            (
                prop::sample::select(vec![
                    "$set", "$unset", "$inc", "$mul", "$min", "$max", "$rename", "$setOnInsert", "$currentDate",
                    "$bit", "$addToSet", "$push", "$pop", "$pull", "$pullAll",
                ]),
                prop::sample::select(vec!["a", "b", "a.b", "a.0", "c.1.a", "a.$[]", "b.$", "a.$[].b", "0.1", "b.c.a"]),
                value(),
            ),
            1..4,
        ),
        filter in document(),
    ) {
        let mut change = Document::new();
        for (operator, path, operand) in operators {
            change.insert(operator, doc! { path: operand });
        }
        let Ok(parsed) = update(&change) else { return Ok(()) };
        let filter = Filter::parse(&filter).unwrap_or_else(|_| Filter::all());
        let none = ArrayFilters::default();
        let _ = parsed.upsert_document(&filter, &none, ObjectId::new());
        if let Ok(Some(after)) = parsed.apply(&target, Some(&filter), &none) {
            prop_assert!(!order::identical_documents(&after, &target));
            prop_assert!(after.to_vec().is_ok());
        }
    }

    #[test]
    fn setting_twice_is_setting_once(target in document(), operand in value()) {
        let change = update(&doc! { "$set": { "a.b": operand } }).unwrap();
        let none = ArrayFilters::default();
        if let Ok(Some(after)) = change.apply(&target, None, &none) {
            prop_assert!(change.apply(&after, None, &none).unwrap().is_none());
        }
    }
}
