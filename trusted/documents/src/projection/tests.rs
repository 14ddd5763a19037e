#![allow(clippy::unwrap_used)]

use super::*;
use crate::order::identical_documents;
use crate::samples::document;
use bson::doc;
use proptest::prelude::*;

fn check(parse: fn(&Document) -> Result<Projection, QueryError>, rows: Vec<(Document, Document, Document)>) {
    for (specification, before, after) in rows {
        let got = parse(&specification).unwrap().apply(&before, None).unwrap();
        assert!(identical_documents(&got, &after), "{specification} on {before}: {got}, not {after}");
    }
}

#[test]
fn inclusion_and_exclusion() {
    check(
        Projection::parse,
        vec![
            (doc! {}, doc! { "_id": 1, "a": 1 }, doc! { "_id": 1, "a": 1 }),
            (doc! { "a": 1 }, doc! { "_id": 1, "b": 1, "a": 1 }, doc! { "_id": 1, "a": 1 }),
            (doc! { "a": 1, "_id": 0 }, doc! { "_id": 1, "b": 1, "a": 1 }, doc! { "a": 1 }),
            (doc! { "_id": 1 }, doc! { "_id": 1, "a": 1 }, doc! { "_id": 1 }),
            (doc! { "_id": 0 }, doc! { "_id": 1, "a": 1 }, doc! { "a": 1 }),
            (doc! { "a": 0 }, doc! { "_id": 1, "a": 1, "b": 2 }, doc! { "_id": 1, "b": 2 }),
            (doc! { "a": 0, "_id": 1 }, doc! { "_id": 1, "a": 1, "b": 2 }, doc! { "_id": 1, "b": 2 }),
            // The order is the document's.
            (doc! { "b": 1, "a": 1 }, doc! { "a": 1, "b": 2, "_id": 3 }, doc! { "a": 1, "b": 2, "_id": 3 }),
            (doc! { "a.b": 1 }, doc! { "a": { "b": 1, "c": 2 } }, doc! { "a": { "b": 1 } }),
            (doc! { "a": { "b": 1 } }, doc! { "a": { "b": 1, "c": 2 } }, doc! { "a": { "b": 1 } }),
            (doc! { "a.b": 0 }, doc! { "a": { "b": 1, "c": 2 } }, doc! { "a": { "c": 2 } }),
            (
                doc! { "a.b": 1 },
                doc! { "a": [{ "b": 1, "c": 2 }, 5, { "c": 3 }] },
                doc! { "a": [{ "b": 1 }, {}] },
            ),
            (doc! { "a.b": 0 }, doc! { "a": [{ "b": 1, "c": 2 }, 5] }, doc! { "a": [{ "c": 2 }, 5] }),
            (doc! { "a.b": 1 }, doc! { "_id": 1, "a": 5 }, doc! { "_id": 1 }),
            (doc! { "a": true, "x": 1.5 }, doc! { "a": 1, "x": 2, "y": 3 }, doc! { "a": 1, "x": 2 }),
        ],
    );
}

#[test]
fn parts_of_arrays() {
    check(
        Projection::parse,
        vec![
            (doc! { "a": { "$slice": 2 } }, doc! { "a": [1, 2, 3], "b": 1 }, doc! { "a": [1, 2], "b": 1 }),
            (doc! { "a": { "$slice": -1 } }, doc! { "a": [1, 2, 3] }, doc! { "a": [3] }),
            (doc! { "a": { "$slice": [1, 1] } }, doc! { "a": [1, 2, 3] }, doc! { "a": [2] }),
            (doc! { "a": { "$slice": [-2, 1] } }, doc! { "a": [1, 2, 3] }, doc! { "a": [2] }),
            (
                doc! { "a": { "$slice": 1 }, "b": 1 },
                doc! { "a": [1, 2], "b": 1, "c": 1 },
                doc! { "a": [1], "b": 1 },
            ),
            (doc! { "a": { "$slice": 1 } }, doc! { "a": 5 }, doc! { "a": 5 }),
            (
                doc! { "a": { "$elemMatch": { "x": 2 } } },
                doc! { "_id": 1, "a": [{ "x": 1 }, { "x": 2, "y": 1 }, { "x": 2 }], "b": 1 },
                doc! { "_id": 1, "a": [{ "x": 2, "y": 1 }] },
            ),
            (doc! { "a": { "$elemMatch": { "$gt": 5 } } }, doc! { "_id": 1, "a": [1] }, doc! { "_id": 1 }),
        ],
    );
    let positional = Projection::parse(&doc! { "a.$": 1 }).unwrap();
    let filter = Filter::parse(&doc! { "a": { "$gte": 2 } }).unwrap();
    let got = positional.apply(&doc! { "_id": 1, "a": [1, 2, 3] }, Some(&filter)).unwrap();
    assert_eq!(got, doc! { "_id": 1, "a": [2] });
    let unmatched = positional.apply(&doc! { "a": [1] }, Some(&Filter::all())).unwrap_err();
    assert_eq!(unmatched.code, 51246);
}

#[test]
fn computed_fields() {
    check(
        |given| Projection::parse_stage(given, DateTime::now()),
        vec![
            (doc! { "x": "$a", "b": 1 }, doc! { "a": 1, "b": 2 }, doc! { "b": 2, "x": 1 }),
            (doc! { "_id": 0, "x": { "$add": ["$a", 1] } }, doc! { "_id": 1, "a": 1 }, doc! { "x": 2 }),
            (doc! { "a": "$missing" }, doc! { "_id": 1, "a": 1 }, doc! { "_id": 1 }),
            (doc! { "x.y": "$a" }, doc! { "_id": 1, "a": 1 }, doc! { "_id": 1, "x": { "y": 1 } }),
            (
                doc! { "x": { "y": "$a", "z": 1 } },
                doc! { "a": 1, "x": [{ "z": 5, "w": 1 }] },
                doc! { "x": [{ "z": 5, "y": 1 }] },
            ),
            (doc! { "x": ["$a", "$b"] }, doc! { "a": 1 }, doc! { "x": [1, null] }),
            (doc! { "x": { "$literal": 1 } }, doc! { "a": 1 }, doc! { "x": 1 }),
        ],
    );
    check(
        |given| Projection::parse_added(given, DateTime::now()),
        vec![
            (doc! { "x": "$a" }, doc! { "a": 1 }, doc! { "a": 1, "x": 1 }),
            (doc! { "a": 5 }, doc! { "a": 1, "b": 2 }, doc! { "a": 5, "b": 2 }),
            (doc! { "a.b": 5 }, doc! { "a": { "c": 1 } }, doc! { "a": { "c": 1, "b": 5 } }),
            (doc! { "a.b": 5 }, doc! { "a": 7 }, doc! { "a": { "b": 5 } }),
            (doc! { "a.b": 5 }, doc! { "a": [{ "b": 1 }, 2] }, doc! { "a": [{ "b": 5 }, { "b": 5 }] }),
            (doc! { "a": "$$REMOVE" }, doc! { "a": 1, "b": 2 }, doc! { "b": 2 }),
            // Every expression sees the document as it was.
            (doc! { "a": "$b", "b": "$a" }, doc! { "a": 1, "b": 2 }, doc! { "a": 2, "b": 1 }),
        ],
    );
}

#[test]
fn refusals() {
    for (specification, code) in [
        (doc! { "a": 1, "b": 0 }, 31254),
        (doc! { "a": 0, "b": 1 }, 31253),
        (doc! { "a": 1, "a.b": 1 }, 31249),
        (doc! { "a.b": 1, "a": 1 }, 31250),
        (doc! { "a": {} }, 51270),
        (doc! { "a..b": 1 }, 15998),
        (doc! { "a": { "$foo": 1 } }, 168),
        (doc! { "a.b": { "$elemMatch": { "x": 1 } } }, 31275),
        (doc! { "$a": 1 }, 16410),
    ] {
        assert_eq!(Projection::parse(&specification).unwrap_err().code, code, "{specification}");
    }
    assert_eq!(Projection::parse_stage(&doc! {}, DateTime::now()).unwrap_err().code, 51272);
}

#[test]
fn needed_fields() {
    let fields = |specification: Document| Projection::parse(&specification).unwrap().fields();
    assert_eq!(fields(doc! { "a.b": 1, "x": "$c.d" }), Some(vec!["_id".into(), "a".into(), "c".into()]));
    assert_eq!(fields(doc! { "a": 1, "_id": 0 }), Some(vec!["a".into()]));
    assert_eq!(fields(doc! { "a": 0 }), None);
    assert_eq!(fields(doc! { "a": "$$ROOT" }), None);
}

proptest! {
    #[test]
    fn needed_fields_are_enough(document in document()) {
        for specification in [doc! { "a.b": 1, "b": { "$slice": 1 } }, doc! { "x": "$b.c", "c.a": 1, "_id": 0 }] {
            let projection = Projection::parse(&specification).unwrap();
            let needed = projection.fields().unwrap();
            let reduced: Document =
                document.clone().into_iter().filter(|(name, _)| needed.contains(name)).collect();
            let (all, some) = (projection.apply(&document, None).unwrap(), projection.apply(&reduced, None).unwrap());
            prop_assert!(identical_documents(&all, &some));
        }
    }

    #[test]
    fn inclusion_and_exclusion_part_a_document(document in document()) {
        let kept = Projection::parse(&doc! { "a": 1, "_id": 0 }).unwrap().apply(&document, None).unwrap();
        let rest = Projection::parse(&doc! { "a": 0 }).unwrap().apply(&document, None).unwrap();
        prop_assert_eq!(kept.len() + rest.len(), document.len());
        prop_assert!(!rest.contains_key("a"));
    }
}
