#![allow(clippy::unwrap_used)]

use super::*;
use crate::samples::document;
use bson::doc;
use proptest::prelude::*;

fn sorted(specification: Document, documents: Vec<Document>) -> Vec<i32> {
    let sorted = Sort::parse(&specification).unwrap().sort(documents).unwrap();
    sorted.iter().map(|document| document.get_i32("_id").unwrap()).collect()
}

#[test]
fn keys_weigh_in_order() {
    let documents = || {
        vec![
            doc! { "_id": 0, "a": 1, "b": 1 },
            doc! { "_id": 1, "a": 2, "b": 2 },
            doc! { "_id": 2, "a": 1, "b": 2 },
        ]
    };
    assert_eq!(sorted(doc! { "a": 1, "b": -1 }, documents()), [2, 0, 1]);
    assert_eq!(sorted(doc! { "a": -1, "b": 1 }, documents()), [1, 0, 2]);
    assert_eq!(sorted(doc! {}, documents()), [0, 1, 2]);
}

#[test]
fn arrays_count_as_their_extreme_elements() {
    let documents = || {
        vec![
            doc! { "_id": 0, "a": [5, 1] },
            doc! { "_id": 1, "a": 3 },
            doc! { "_id": 2 },
            doc! { "_id": 3, "a": [] },
            doc! { "_id": 4, "a": null },
            doc! { "_id": 5, "a": "text" },
        ]
    };
    assert_eq!(sorted(doc! { "a": 1 }, documents()), [3, 2, 4, 0, 1, 5]);
    assert_eq!(sorted(doc! { "a": -1 }, documents()), [5, 0, 1, 2, 4, 3]);
}

#[test]
fn paths_enter_arrays_of_documents() {
    let documents =
        vec![doc! { "_id": 0, "a": [{ "b": 3 }, { "b": 7 }] }, doc! { "_id": 1, "a": { "b": 4 } }];
    assert_eq!(sorted(doc! { "a.b": 1 }, documents.clone()), [0, 1]);
    assert_eq!(sorted(doc! { "a.b": -1 }, documents), [0, 1]);
}

#[test]
fn directions_are_one_and_minus_one() {
    assert_eq!(Sort::parse(&doc! { "a": 2 }).unwrap_err().code, 15975);
    assert_eq!(Sort::parse(&doc! { "a.$b": 1 }).unwrap_err().code, 16410);
    assert!(Sort::parse(&doc! { "a.$id": 1 }).is_ok(), "a reference to a document has such fields");
    assert_eq!(Sort::parse(&doc! { "a": { "$meta": "nothing" } }).unwrap_err().code, 238);
    assert!(Sort::parse(&doc! { "a": { "$meta": "textScore" } }).is_ok());
    assert!(Sort::parse(&doc! { "a": 1.0, "b": -1_i64 }).is_ok());
}

#[test]
fn fields_of_elements_may_begin_with_a_dollar_sign() {
    let code = |fields: Document| Sort::of_elements(&fields).map_err(|error| error.code).err();
    for fields in [doc! { "$x": 1 }, doc! { "a.$b": -1.0, "c": 1_i64 }] {
        assert_eq!(code(fields), None);
    }
    for fields in
        [doc! {}, doc! { "a": 2 }, doc! { "a": { "$meta": "textScore" } }, doc! { "": 1 }, doc! { "a..b": 1 }]
    {
        assert_eq!(code(fields), Some(2));
    }
}

proptest! {
    #[test]
    fn comparing_documents_is_comparing_their_values(left in document(), right in document()) {
        let sort = Sort::parse(&doc! { "a": 1, "b.c": -1 }).unwrap();
        if let (Ok(of_left), Ok(of_right)) = (sort.values(&left), sort.values(&right)) {
            let by_values = sort.compare_values(&of_left, &of_right);
            prop_assert_eq!(sort.compare(&left, &right), by_values);
            prop_assert_eq!(sort.compare(&right, &left), by_values.reverse());
        }
    }
}
