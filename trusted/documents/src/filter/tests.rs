#![allow(clippy::unwrap_used)]

use super::*;
use crate::order;
use crate::samples::{document, field_name, plain_document, plain_value};
use bson::{bson, doc};
use proptest::prelude::*;

mod regular_expressions;

fn matches(filter: Document, document: Document) -> bool {
    Filter::parse(&filter).unwrap().matches(&document).unwrap()
}

fn code(filter: Document) -> i32 {
    Filter::parse(&filter).unwrap_err().code
}

/// Filter, documents that pass, documents that do not.
type Row = (Document, Vec<Document>, Vec<Document>);

fn check(rows: Vec<Row>) {
    for (filter, passing, failing) in rows {
        for document in passing {
            assert!(matches(filter.clone(), document.clone()), "{filter} should match {document}");
        }
        for document in failing {
            assert!(!matches(filter.clone(), document.clone()), "{filter} should not match {document}");
        }
    }
}

#[test]
fn equality() {
    check(vec![
        (doc! {}, vec![doc! {}, doc! { "a": 1 }], vec![]),
        (
            doc! { "a": 1 },
            vec![doc! { "a": 1 }, doc! { "a": 1.0 }, doc! { "a": 1_i64 }, doc! { "a": [0, 1] }],
            vec![doc! { "a": 2 }, doc! { "a": "1" }, doc! {}, doc! { "a": [[1]] }],
        ),
        (
            doc! { "a": [1, 2] },
            vec![doc! { "a": [1, 2] }, doc! { "a": [[1, 2]] }],
            vec![doc! { "a": [2, 1] }, doc! { "a": [1, 2, 3] }],
        ),
        // Documents are equal with their fields in the same order.
        (
            doc! { "a": { "b": 1, "c": 2 } },
            vec![doc! { "a": { "b": 1, "c": 2 } }],
            vec![doc! { "a": { "c": 2, "b": 1 } }, doc! { "a": { "b": 1, "c": 2, "d": 3 } }],
        ),
        (doc! { "a": { "$eq": { "$x": 1 } } }, vec![doc! { "a": { "$x": 1 } }], vec![doc! { "a": 1 }]),
        (
            doc! { "a.b": 1 },
            vec![doc! { "a": { "b": 1 } }, doc! { "a": [{ "b": 1 }, 7] }],
            vec![doc! { "a.b": 1 }, doc! { "a": 1 }],
        ),
        (doc! { "a.0": 1 }, vec![doc! { "a": [1] }, doc! { "a": { "0": 1 } }], vec![doc! { "a": [0, 1] }]),
    ]);
}

#[test]
fn null_matches_missing() {
    check(vec![
        (
            doc! { "a": null },
            vec![doc! {}, doc! { "a": null }, doc! { "a": [1, null] }],
            vec![doc! { "a": 0 }, doc! { "a": [] }],
        ),
        (
            doc! { "a.b": null },
            vec![doc! { "a": 5 }, doc! { "a": [{ "b": 1 }, {}] }, doc! { "a": {} }],
            vec![doc! { "a": [5] }, doc! { "a": [{ "b": 1 }] }],
        ),
        (doc! { "a": { "$ne": null } }, vec![doc! { "a": 1 }], vec![doc! {}, doc! { "a": null }]),
        (doc! { "a": { "$in": [null, 1] } }, vec![doc! {}, doc! { "a": 1 }], vec![doc! { "a": 2 }]),
        (doc! { "a": { "$gte": null } }, vec![doc! {}, doc! { "a": null }], vec![doc! { "a": 1 }]),
        (doc! { "a": { "$gt": null } }, vec![], vec![doc! {}, doc! { "a": null }, doc! { "a": 1 }]),
        (doc! { "a": { "$exists": true } }, vec![doc! { "a": null }, doc! { "a": [] }], vec![doc! {}]),
        (doc! { "a": { "$exists": 0 } }, vec![doc! {}], vec![doc! { "a": null }]),
    ]);
}

#[test]
fn ranges_stay_within_their_type() {
    check(vec![
        (
            doc! { "a": { "$gt": 5 } },
            vec![doc! { "a": 6 }, doc! { "a": 5.1 }, doc! { "a": [1, 9] }],
            vec![doc! { "a": 5 }, doc! { "a": "9" }, doc! { "a": f64::NAN }, doc! {}],
        ),
        (
            doc! { "a": { "$lt": "m" } },
            vec![doc! { "a": "a" }],
            vec![doc! { "a": 1 }, doc! { "a": "z" }, doc! {}],
        ),
        (doc! { "a": { "$gte": f64::NAN } }, vec![doc! { "a": f64::NAN }], vec![doc! { "a": 1 }]),
        (
            doc! { "a": { "$gt": { "b": 1 } } },
            vec![doc! { "a": { "b": 2 } }],
            vec![doc! { "a": { "b": 1 } }, doc! { "a": 9 }],
        ),
        (
            doc! { "a": { "$gt": [1, 2] } },
            vec![doc! { "a": [1, 3] }],
            vec![doc! { "a": [1, 1] }, doc! { "a": 9 }],
        ),
        (
            doc! { "a": { "$lt": Bson::MaxKey } },
            vec![doc! { "a": 1 }, doc! { "a": "x" }],
            vec![doc! { "a": Bson::MaxKey }],
        ),
        // Different elements may satisfy the two bounds.
        (doc! { "a": { "$gt": 5, "$lt": 3 } }, vec![doc! { "a": [1, 9] }], vec![doc! { "a": 4 }]),
        (doc! { "a": { "$lte": true } }, vec![doc! { "a": false }], vec![doc! { "a": 0 }]),
    ]);
}

#[test]
fn logic() {
    check(vec![
        (doc! { "$and": [{ "a": 1 }, { "b": 2 }] }, vec![doc! { "a": 1, "b": 2 }], vec![doc! { "a": 1 }]),
        (
            doc! { "$or": [{ "a": 1 }, { "b": 2 }] },
            vec![doc! { "a": 1 }, doc! { "b": 2 }],
            vec![doc! { "a": 2 }],
        ),
        (
            doc! { "$nor": [{ "a": 1 }, { "b": 2 }] },
            vec![doc! { "a": 2 }],
            vec![doc! { "a": 1 }, doc! { "b": 2 }],
        ),
        (
            doc! { "a": { "$not": { "$gt": 5 } } },
            vec![doc! { "a": 5 }, doc! {}, doc! { "a": "x" }],
            vec![doc! { "a": 6 }],
        ),
        (doc! { "a": { "$not": { "$gt": 1, "$lt": 5 } } }, vec![doc! { "a": 7 }], vec![doc! { "a": 3 }]),
        (doc! { "a": { "$ne": 1 } }, vec![doc! { "a": [2, 3] }, doc! {}], vec![doc! { "a": [1, 2] }]),
        (doc! { "a": { "$nin": [1, 2] } }, vec![doc! { "a": 3 }, doc! {}], vec![doc! { "a": [3, 2] }]),
        (
            doc! { "a": { "$in": [[1], 5] } },
            vec![doc! { "a": [1] }, doc! { "a": [[1]] }, doc! { "a": 5.0 }],
            vec![doc! { "a": 1 }],
        ),
        (doc! { "a": 1, "$comment": "x" }, vec![doc! { "a": 1 }], vec![doc! { "a": 2 }]),
        (
            doc! { "$expr": { "$gt": ["$a", "$b"] } },
            vec![doc! { "a": 2, "b": 1 }],
            vec![doc! { "a": 1, "b": 2 }],
        ),
    ]);
}

#[test]
fn arrays() {
    check(vec![
        (
            doc! { "a": { "$size": 2 } },
            vec![doc! { "a": [1, [2]] }],
            vec![doc! { "a": [[1, 2]] }, doc! { "a": 2 }],
        ),
        (
            doc! { "a": { "$all": [1, 2] } },
            vec![doc! { "a": [2, 3, 1] }],
            vec![doc! { "a": [1] }, doc! { "a": 1 }],
        ),
        (doc! { "a": { "$all": [1] } }, vec![doc! { "a": 1 }], vec![doc! { "a": 2 }]),
        (doc! { "a": { "$all": [] } }, vec![], vec![doc! { "a": [] }, doc! {}]),
        (doc! { "a": { "$all": [[1, 2]] } }, vec![doc! { "a": [1, 2] }], vec![doc! { "a": [1] }]),
        (
            doc! { "a": { "$all": [{ "$elemMatch": { "x": 1 } }, { "$elemMatch": { "x": 2 } }] } },
            vec![doc! { "a": [{ "x": 1 }, { "x": 2 }] }],
            vec![doc! { "a": [{ "x": 1 }] }],
        ),
        (
            doc! { "a": { "$elemMatch": { "$gt": 5, "$lt": 8 } } },
            vec![doc! { "a": [1, 6] }],
            vec![doc! { "a": [1, 9] }, doc! { "a": 6 }],
        ),
        (
            doc! { "a": { "$elemMatch": { "x": 1, "y": { "$gt": 2 } } } },
            vec![doc! { "a": [{ "x": 1, "y": 3 }] }],
            vec![doc! { "a": [{ "x": 1, "y": 1 }, { "x": 2, "y": 3 }] }, doc! { "a": { "x": 1, "y": 3 } }],
        ),
        (
            doc! { "a": { "$elemMatch": { "$or": [{ "x": 1 }, { "x": 2 }] } } },
            vec![doc! { "a": [{ "x": 2 }] }],
            vec![doc! { "a": [3] }],
        ),
        (doc! { "a": { "$elemMatch": { "0": 7 } } }, vec![doc! { "a": [[7]] }], vec![doc! { "a": [[6, 7]] }]),
        (
            doc! { "a": { "$elemMatch": { "$ne": 1 } } },
            vec![doc! { "a": [1, 2] }],
            vec![doc! { "a": [1, 1] }],
        ),
    ]);
}

#[test]
fn types_and_numbers() {
    check(vec![
        (
            doc! { "a": { "$type": "number" } },
            vec![doc! { "a": 1 }, doc! { "a": 1.5 }],
            vec![doc! { "a": "1" }, doc! {}],
        ),
        (
            doc! { "a": { "$type": 2 } },
            vec![doc! { "a": "x" }, doc! { "a": [1, "x"] }],
            vec![doc! { "a": 1 }],
        ),
        (doc! { "a": { "$type": "array" } }, vec![doc! { "a": [1] }], vec![doc! { "a": 1 }]),
        (
            doc! { "a": { "$type": ["null", -1] } },
            vec![doc! { "a": null }, doc! { "a": Bson::MinKey }],
            vec![doc! {}],
        ),
        (doc! { "a": { "$lt": Bson::MinKey } }, vec![], vec![doc! { "a": 1 }, doc! { "a": Bson::MinKey }]),
        (doc! { "a": { "$gt": Bson::MaxKey } }, vec![], vec![doc! { "a": 1 }, doc! { "a": Bson::MaxKey }]),
        (
            doc! { "a": { "$gt": Bson::MinKey } },
            vec![doc! { "a": 1 }, doc! { "a": Bson::MaxKey }],
            vec![doc! { "a": Bson::MinKey }],
        ),
        (
            doc! { "a": { "$lte": Bson::MaxKey } },
            vec![doc! { "a": 1 }, doc! { "a": Bson::MaxKey }, doc! { "a": Bson::MinKey }],
            vec![],
        ),
        (
            doc! { "a": { "$mod": [4, 1] } },
            vec![doc! { "a": 5 }, doc! { "a": 5.9 }, doc! { "a": [2, 9] }],
            vec![doc! { "a": -5 }, doc! { "a": "5" }, doc! { "a": f64::INFINITY }],
        ),
        (doc! { "a": { "$mod": [-1, 0] } }, vec![doc! { "a": i64::MIN }], vec![doc! {}]),
        (
            doc! { "a": { "$bitsAllSet": [0, 2] } },
            vec![doc! { "a": 5 }, doc! { "a": 7.0 }],
            vec![doc! { "a": 1 }, doc! { "a": 5.5 }],
        ),
        (doc! { "a": { "$bitsAllClear": 5 } }, vec![doc! { "a": 2 }], vec![doc! { "a": 1 }]),
        (doc! { "a": { "$bitsAnySet": 5 } }, vec![doc! { "a": 4 }], vec![doc! { "a": 2 }]),
        (doc! { "a": { "$bitsAnyClear": 5 } }, vec![doc! { "a": 4 }], vec![doc! { "a": 5 }]),
        (doc! { "a": { "$bitsAllSet": [200] } }, vec![doc! { "a": -1 }], vec![doc! { "a": 1 }]),
    ]);
    let binary =
        Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0, 1] });
    assert!(matches(doc! { "a": { "$bitsAllSet": [8] } }, doc! { "a": binary }));
}

#[test]
fn malformed_filters_are_refused() {
    for (filter, expected) in [
        (doc! { "$foo": 1 }, 2),
        (doc! { "a": { "$foo": 1 } }, 2),
        (doc! { "$and": [] }, 2),
        (doc! { "$or": {} }, 2),
        (doc! { "$nor": [1] }, 2),
        (doc! { "a": { "$in": 1 } }, 2),
        (doc! { "a": { "$not": 1 } }, 2),
        (doc! { "a": { "$not": {} } }, 2),
        (doc! { "a": { "$not": { "b": 1 } } }, 2),
        (doc! { "a": { "$mod": [0, 1] } }, 2),
        (doc! { "a": { "$mod": [1] } }, 2),
        (doc! { "a": { "$size": -1 } }, 2),
        (doc! { "a": { "$type": "nothing" } }, 2),
        (doc! { "a": { "$all": [{ "$gt": 1 }] } }, 2),
        (doc! { "a": { "$elemMatch": 1 } }, 2),
        (doc! { "a": { "$options": "i" } }, 2),
        (doc! { "a": { "$bitsAllSet": [-1] } }, 2),
        (doc! { "$where": "true" }, 238),
        (doc! { "$text": "x" }, 2),
        (doc! { "$text": { "$search": "x", "$caseSensitive": true } }, 238),
        (doc! { "a": { "$near": [0, 0] } }, 238),
        (doc! { "$expr": { "$foo": 1 } }, 168),
    ] {
        assert_eq!(code(filter.clone()), expected, "{filter}");
    }
    assert!(Filter::parse(&doc! { "$where": "1" }).unwrap_err().message.contains("$where"));
}

#[test]
fn errors_of_expressions_are_not_swallowed() {
    let filter = Filter::parse(&doc! { "$expr": { "$divide": [1, "$a"] } }).unwrap();
    assert_eq!(filter.matches(&doc! { "a": 0 }).unwrap_err().code, 2);
}

#[test]
fn the_positional_offset_is_that_of_the_match() {
    let offset = |filter: Document, document: Document, path: &str| {
        Filter::parse(&filter).unwrap().array_offset(&document, path)
    };
    assert_eq!(offset(doc! { "a": 2 }, doc! { "a": [1, 2] }, "a"), Some(1));
    assert_eq!(offset(doc! { "a.b": 2 }, doc! { "a": [{ "b": 1 }, { "b": 2 }] }, "a"), Some(1));
    assert_eq!(
        offset(doc! { "a": { "$elemMatch": { "b": 2 } } }, doc! { "a": [{}, { "b": 2 }] }, "a"),
        Some(1)
    );
    assert_eq!(offset(doc! { "x": 1, "a": { "$gte": 2 } }, doc! { "x": 1, "a": [1, 3, 2] }, "a"), Some(1));
    assert_eq!(offset(doc! { "x": 1 }, doc! { "x": 1, "a": [1] }, "a"), None);
    assert_eq!(offset(doc! { "a": { "$ne": 5 } }, doc! { "a": [1] }, "a"), None);
}

/// Comparison of one element with an operand, written anew: the reference of the property below.
fn passes(operator: &str, element: &Bson, operand: &Bson) -> bool {
    let same_class = order::class(element) == order::class(operand);
    let ordering = order::compare(element, operand);
    match operator {
        "$eq" => ordering.is_eq(),
        "$gt" => same_class && ordering.is_gt(),
        "$gte" => same_class && ordering.is_ge(),
        "$lt" => same_class && ordering.is_lt(),
        _ => same_class && ordering.is_le(),
    }
}

/// All values of one top-level field: the elements of an array and the array, or null if it is missing.
fn candidates(document: &Document, field: &str) -> Vec<Bson> {
    let value = document.get(field).cloned().unwrap_or(Bson::Null);
    let mut all = value.as_array().cloned().unwrap_or_default();
    all.push(value);
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn comparisons_agree_with_the_definition(
        document in plain_document(),
        field in field_name(),
        operator in prop::sample::select(vec!["$eq", "$gt", "$gte", "$lt", "$lte"]),
        operand in plain_value(),
    ) {
        // Ranges over null are covered by the table above.
        prop_assume!(operand != Bson::Null || operator == "$eq");
        let expected = candidates(&document, &field).iter().any(|element| passes(operator, element, &operand));
        let filter = Filter::parse(&doc! { &field: { operator: operand.clone() } }).unwrap();
        prop_assert_eq!(filter.matches(&document).unwrap(), expected);
        let negated = Filter::parse(&doc! { &field: { "$not": { operator: operand.clone() } } }).unwrap();
        prop_assert_eq!(negated.matches(&document).unwrap(), !expected);
        let nor = Filter::parse(&doc! { "$nor": [{ &field: { operator: operand } }] }).unwrap();
        prop_assert_eq!(nor.matches(&document).unwrap(), !expected);
    }

    #[test]
    fn membership_is_a_disjunction_of_equalities(
        document in plain_document(),
        field in field_name(),
        operands in prop::collection::vec(plain_value(), 0..4),
    ) {
        let one = |operand: &Bson| {
            Filter::parse(&doc! { &field: { "$eq": operand.clone() } }).unwrap().matches(&document).unwrap()
        };
        let expected = operands.iter().any(one);
        let filter = Filter::parse(&doc! { &field: { "$in": operands.clone() } }).unwrap();
        prop_assert_eq!(filter.matches(&document).unwrap(), expected);
        let filter = Filter::parse(&doc! { &field: { "$nin": operands } }).unwrap();
        prop_assert_eq!(filter.matches(&document).unwrap(), !expected);
    }

    #[test]
    fn any_document_is_a_filter_or_refused(filter in document(), operators in document(), target in document()) {
        let names = ["$in", "$all", "$elemMatch", "$not", "$size", "$mod", "$type", "$bitsAllSet", "$regex", "$gt"];
        let renamed: Document = operators
            .into_iter()
            .zip(names.iter().cycle())
            .map(|((_, value), name)| ((*name).to_owned(), value))
            .collect();
        for candidate in [filter, doc! { "a": renamed }] {
            if let Ok(parsed) = Filter::parse(&candidate) {
                let _ = parsed.matches(&target);
                let _ = parsed.array_offset(&target, "a");
            }
        }
    }
}

#[test]
fn database_references_are_values() {
    let reference = bson!({ "$ref": "c", "$id": 1 });
    assert!(matches(doc! { "a": reference.clone() }, doc! { "a": reference }));
}
