#![allow(clippy::unwrap_used)]

use super::*;
use crate::samples::{document, dotted_path, plain_document, plain_value};
use bson::{bson, doc};
use proptest::{prop_assert, prop_assert_eq, proptest};

/// Values found, missing ones as `undefined`.
fn found(document: &Document, path: &str, leaf: LeafArray) -> Vec<Bson> {
    let mut values = Vec::new();
    any(document, path, leaf, &mut |found| {
        values.push(found.value.cloned().unwrap_or(Bson::Undefined));
        false
    });
    values
}

#[test]
fn values_at_paths() {
    let missing = || Bson::Undefined;
    for (document, path, expected) in [
        (doc! { "a": 5 }, "a", vec![bson!(5)]),
        (doc! { "a": 5 }, "b", vec![missing()]),
        (doc! { "a": { "b": 5 } }, "a.b", vec![bson!(5)]),
        (doc! { "a": 5 }, "a.b", vec![missing()]),
        (doc! { "a": { "b": 5 } }, "a.c", vec![missing()]),
        (doc! { "a": [5, 4] }, "a", vec![bson!(5), bson!(4), bson!([5, 4])]),
        (doc! { "a": [] }, "a", vec![bson!([])]),
        (doc! { "a": [[1], 2] }, "a", vec![bson!([1]), bson!(2), bson!([[1], 2])]),
        (
            doc! { "a": [{ "b": 5 }, 3, {}, { "b": [9, 11] }, { "b": 7 }] },
            "a.b",
            vec![bson!(5), missing(), bson!(9), bson!(11), bson!([9, 11]), bson!(7)],
        ),
        // An array without documents yields nothing below it.
        (doc! { "a": [4, 5] }, "a.b", vec![]),
        (doc! { "a": [] }, "a.b", vec![]),
        (doc! { "a": [5, 7, 3] }, "a.1", vec![bson!(7)]),
        // An element named by its offset is not expanded.
        (doc! { "a": [5, [2, 4]] }, "a.1", vec![bson!([2, 4])]),
        (doc! { "a": [5, { "1": 4 }, 3] }, "a.1", vec![bson!(4), bson!({ "1": 4 })]),
        (doc! { "a": [5, { "b": 4 }] }, "a.1.b", vec![missing(), bson!(4)]),
        (doc! { "a": [5, [7, { "b": 8 }]] }, "a.1.b", vec![bson!(8)]),
        // Arrays in arrays are not entered without an offset.
        (doc! { "a": [[{ "b": 8 }]] }, "a.b", vec![]),
        (doc! { "a": [1] }, "a.01", vec![]),
    ] {
        assert_eq!(found(&document, path, LeafArray::Elements), expected, "{document} {path}");
    }
    assert_eq!(found(&doc! { "a": [5, 4] }, "a", LeafArray::Whole), [bson!([5, 4])]);
}

#[test]
fn the_outermost_array_gives_the_offset() {
    let mut offsets = Vec::new();
    any(&doc! { "a": [{ "b": [1, 2] }, { "b": 3 }] }, "a.b", LeafArray::Elements, &mut |found| {
        offsets.push(found.array_offset);
        false
    });
    assert_eq!(offsets, [Some(0), Some(0), Some(0), Some(1)]);
}

#[test]
fn setting_makes_what_is_missing() {
    let set_in = |mut document: Document, path: &str, value: Bson| {
        set(&mut document, &path.split('.').collect::<Vec<_>>(), value).map(|()| document)
    };
    for (document, path, expected) in [
        (doc! {}, "a", doc! { "a": 1 }),
        (doc! {}, "a.b.c", doc! { "a": { "b": { "c": 1 } } }),
        (doc! { "a": [0] }, "a.0", doc! { "a": [1] }),
        (doc! { "a": [0] }, "a.2", doc! { "a": [0, null, 1] }),
        (doc! { "a": [0] }, "a.1.b", doc! { "a": [0, { "b": 1 }] }),
        (doc! {}, "a.0", doc! { "a": { "0": 1 } }),
    ] {
        assert_eq!(set_in(document, path, bson!(1)).unwrap(), expected, "{path}");
    }
    assert_eq!(set_in(doc! { "a": 5 }, "a.b", bson!(1)).unwrap_err().code, 28);
    assert_eq!(set_in(doc! { "a": [] }, "a.b", bson!(1)).unwrap_err().code, 28);
    assert_eq!(set_in(doc! { "a": null }, "a.b", bson!(1)).unwrap_err().code, 28);
    assert_eq!(set_in(doc! { "a": [] }, "a.1500002", bson!(1)).unwrap_err().code, 34);
}

#[test]
fn unsetting_an_element_leaves_null() {
    let mut document = doc! { "a": [1, 2], "b": { "c": 3 } };
    assert!(unset(&mut document, &["a", "0"]));
    assert!(unset(&mut document, &["b", "c"]));
    assert!(!unset(&mut document, &["b", "c"]));
    assert!(!unset(&mut document, &["a", "7"]));
    assert_eq!(document, doc! { "a": [null, 2], "b": {} });
}

#[test]
fn malformed_paths_are_refused() {
    assert!(check("a.b").is_ok());
    assert!(check("a..b").is_err());
    assert!(check("").is_err());
    assert_eq!(check(&vec!["a"; COMPONENTS_MAX + 1].join(".")).unwrap_err().code, 15);
}

proptest! {
    #[test]
    fn what_is_set_is_found(mut document in plain_document(), path in dotted_path(), value in plain_value()) {
        let components: Vec<&str> = path.split('.').collect();
        if set(&mut document, &components, value.clone()).is_ok() {
            prop_assert_eq!(exact(&document, &components), Some(&value));
            prop_assert!(unset(&mut document, &components));
            prop_assert!(matches!(exact(&document, &components), None | Some(Bson::Null)));
        }
    }

    #[test]
    fn an_index_holds_at_least_one_value(document in document(), path in dotted_path()) {
        let mut count = 0;
        visit_index_values(&document, &path, &mut |_| count += 1);
        prop_assert!(count > 0);
    }
}
