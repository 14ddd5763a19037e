#![allow(clippy::unwrap_used)]

use super::*;
use bson::{bson, doc};

fn index(fields: &[&str]) -> PhysicalIndex {
    PhysicalIndex::Eq { fields: fields.iter().map(|field| (*field).to_owned()).collect() }
}

fn of(document: Document, fields: &[&str]) -> (Bson, bool) {
    let terms = terms(&document, &index(fields), false).unwrap();
    (terms.tuples.into_iter().map(Bson::Array).collect::<Vec<_>>().into(), terms.multikey)
}

#[test]
fn a_document_has_a_term_for_each_combination_of_values() {
    let undefined = Bson::Undefined;
    let cases: Vec<(Document, &[&str], Bson, bool)> = vec![
        (doc! {"a": 1}, &["a"], bson!([[1]]), false),
        (doc! {}, &["a"], bson!([[null]]), false),
        (doc! {"a": null}, &["a"], bson!([[null]]), false),
        (doc! {"a": [1, 2, 1.0, 2]}, &["a"], bson!([[1], [2]]), true),
        (doc! {"a": [[1, 2]]}, &["a"], bson!([[[1, 2]]]), true),
        (doc! {"a": []}, &["a"], bson!([[undefined.clone()]]), true),
        (doc! {"a": undefined}, &["a"], bson!([[null]]), true),
        (doc! {"a": {"b": 3}}, &["a.b"], bson!([[3]]), false),
        (doc! {"a": 5}, &["a.b"], bson!([[null]]), false),
        (doc! {"a": [{"b": 1}, {"b": [2, 3]}, {}, 7]}, &["a.b"], bson!([[1], [2], [3], [null]]), true),
        (doc! {"a": [{"b": 1}]}, &["a.b"], bson!([[1]]), true),
        (doc! {"a": [4, 5]}, &["a.b"], bson!([[null]]), true),
        (doc! {"a": [4, 5]}, &["a.1"], bson!([[5]]), true),
        (doc! {"a": 1, "b": "x"}, &["b", "a"], bson!([["x", 1]]), false),
        (doc! {"a": [{"b": 1, "c": 2}]}, &["a.b", "a.c"], bson!([[1, 2]]), true),
        (doc! {"a": [1, 2], "b": 3}, &["a", "b"], bson!([[1, 3], [2, 3]]), true),
    ];
    for (document, fields, expected, multikey) in cases {
        assert_eq!(of(document.clone(), fields), (expected, multikey), "{document} {fields:?}");
    }
}

#[test]
fn elements_of_one_array_have_terms_of_their_own_in_a_unique_index() {
    let of = |document: Document, fields: &[&str]| {
        let index =
            PhysicalIndex::Unique { fields: fields.iter().map(|field| (*field).to_owned()).collect() };
        let terms = terms(&document, &index, false).unwrap();
        (terms.tuples.into_iter().map(Bson::Array).collect::<Vec<_>>().into(), terms.multikey)
    };
    let undefined = Bson::Undefined;
    let cases: Vec<(Document, &[&str], Bson, bool)> = vec![
        (doc! {"a": {"b": 1, "c": 2}}, &["a.b", "a.c"], bson!([[1, 2]]), false),
        (doc! {"a": [{"b": 1, "c": 2}]}, &["a.b", "a.c"], bson!([[1, 2]]), true),
        (doc! {"a": [{"b": 1, "c": 2}, {"b": 3, "c": 4}]}, &["a.b", "a.c"], bson!([[1, 2], [3, 4]]), true),
        (
            doc! {"k": 9, "a": [{"b": 1, "c": 2}, {"c": 4}, 7, {"b": 1, "c": 2}, [{"b": 5}]]},
            &["a.b", "k", "a.c"],
            bson!([[1, 9, 2], [null, 9, 4], [null, 9, null]]),
            true,
        ),
        (
            doc! {"a": [{"i": [{"b": 1, "c": 2}, {"b": 3, "c": 4}]}, {"i": {"b": 5, "c": 6}}]},
            &["a.i.b", "a.i.c"],
            bson!([[1, 2], [3, 4], [5, 6]]),
            true,
        ),
        (
            doc! {"a": [{"b": [1, 2], "c": 3}, {"b": 4, "c": 5}]},
            &["a.b", "a.c"],
            bson!([[1, 3], [2, 3], [4, 5]]),
            true,
        ),
        (doc! {"a": [{"b": 1}, 2]}, &["a", "a.b"], bson!([[{"b": 1}, 1], [2, null]]), true),
        (doc! {"a": []}, &["a.b", "a.c"], bson!([[null, null]]), true),
        (doc! {"a": []}, &["a", "a.b"], bson!([[undefined, null]]), true),
    ];
    for (document, fields, expected, multikey) in cases {
        assert_eq!(of(document.clone(), fields), (expected, multikey), "{document} {fields:?}");
    }
    let unique = PhysicalIndex::Unique { fields: vec!["a.b".to_owned(), "a.c".to_owned()] };
    let parallel = doc! {"a": [{"b": 1, "c": 2}, {"b": [1, 2], "c": [3]}]};
    assert!(matches!(terms(&parallel, &unique, false), Err(TooManyTerms::ParallelArrays { .. })));
    let equal = vec![doc! {"b": (0..300).collect::<Vec<i32>>(), "c": 0}; 1000];
    let refused = terms(&doc! {"a": equal}, &unique, false);
    assert!(matches!(refused, Err(TooManyTerms::Combinations { .. })), "equal terms are made, too");
    assert!(terms_at_most(&doc! {"a": [7, {"b": 1, "c": 2}]}, &unique) >= 2);
    let many: Vec<Document> = (0..2000).map(|number| doc! {"b": number, "c": number, "d": number}).collect();
    let (tuples, _) = of(doc! {"a": many}, &["a.b", "a.c", "a.d"]);
    assert_eq!(tuples.as_array().unwrap().len(), 2000);
}

#[test]
fn a_sparse_index_leaves_out_what_lacks_all_fields() {
    let count =
        |document: Document, fields: &[&str]| terms(&document, &index(fields), true).unwrap().tuples.len();
    assert_eq!(count(doc! {"b": 1}, &["a"]), 0);
    assert_eq!(count(doc! {"a": null}, &["a"]), 1, "null is not missing");
    assert_eq!(count(doc! {"b": 1}, &["a", "b"]), 1);
    assert_eq!(count(doc! {"c": 1}, &["a", "b"]), 0);
    assert_eq!(count(doc! {"a": [{}, 1]}, &["a.b"]), 0);
}

#[test]
fn too_many_combinations_are_an_error() {
    let many: Vec<Document> = (0..600).map(|number| doc! {"b": number, "c": number}).collect();
    let error = terms(&doc! {"a": many}, &index(&["a.b", "a.c"]), false).unwrap_err();
    assert!(error.to_string().contains("ArxEq(a.b, a.c)"), "{error}");
}

#[test]
fn parallel_arrays_are_an_error() {
    let refused = |document: Document, fields: &[&str]| {
        terms(&document, &index(fields), false).err().map(|error| error.to_string())
    };
    let parallel = Some("cannot index parallel arrays [b] [a]".to_owned());
    assert_eq!(refused(doc! {"a": [1, 2], "b": [3]}, &["a", "b"]), parallel);
    assert_eq!(refused(doc! {"a": [], "b": []}, &["a", "b"]), parallel);
    assert_eq!(refused(doc! {"a": [{"x": 1}], "b": [3]}, &["a.x", "b"]), parallel);
    assert_eq!(refused(doc! {"a": [1, 2], "b": [3]}, &["a"]), None);
    assert_eq!(refused(doc! {"a": [{"x": 1, "y": 2}]}, &["a.x", "a.y"]), None, "of one array");
    assert_eq!(refused(doc! {"a": [1, 2], "b": [3]}, &["a.0", "b.0"]), None, "elements by their place");
    assert_eq!(refused(doc! {"a": {"x": [1]}, "b": {"x": 2}}, &["a.x", "b.x"]), None);
}

#[test]
fn equal_terms_and_no_others_have_equal_bytes() {
    let bytes = |values: Bson| equality_bytes(values.as_array().unwrap());
    assert_eq!(bytes(bson!([1, "a"])), bytes(bson!([1.0, "a"])));
    assert_ne!(bytes(bson!(["ab", "c"])), bytes(bson!(["a", "bc"])));
    assert_ne!(bytes(bson!([1, null])), bytes(bson!([null, 1])));
}

#[test]
fn keys_say_when_they_lose_something() {
    let layout = |part_bytes| crate::keys::KeyLayout { part_bytes, typed: None };
    let short = layout(12).key(&[Bson::Int32(1), Bson::Int64(1 << 53)]);
    assert_eq!((short.bytes.len(), short.exact), (24, true));
    assert!(!layout(12).key(&[Bson::String("longer than eleven bytes".to_owned())]).exact);
    assert!(!layout(8).key(&[Bson::Int64((1 << 53) + 1)]).exact);
}
