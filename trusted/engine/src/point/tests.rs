//! Reads of one document by its `_id`.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::tests::{collection, randomly, value};
use arras_documents::sort::Sort;
use bson::{RawDocumentBuf, doc};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// A value that a document may have as its `_id`.
fn id(rng: &mut StdRng) -> Bson {
    let special = [
        Bson::Double(f64::NAN),
        Bson::Double(-0.0),
        Bson::Int32(0),
        Bson::Decimal128("0E-3".parse().unwrap()),
        Bson::Decimal128("-0".parse().unwrap()),
        Bson::Decimal128("NaN".parse().unwrap()),
        Bson::Decimal128("1.0".parse().unwrap()),
        Bson::Decimal128("0.1".parse().unwrap()),
        Bson::Double(0.1),
        Bson::Int64(i64::MAX),
        Bson::Double(9_223_372_036_854_775_808.0),
        Bson::Symbol("a".into()),
        Bson::String("a".into()),
        Bson::Document(doc! { "a": 1, "b": 2 }),
        Bson::Document(doc! { "b": 2, "a": 1 }),
        Bson::Document(doc! { "a": 1.0, "b": 2_i64 }),
        Bson::Timestamp(bson::Timestamp { time: 1, increment: 2 }),
    ];
    match value(rng, 2) {
        Bson::Array(_) | Bson::Null => special.choose(rng).unwrap().clone(),
        id => id,
    }
}

#[test]
fn the_document_of_a_row_is_the_wanted_one_if_and_only_if_its_id_is_equal() {
    let mut rng = randomly();
    let collection = collection("c", Vec::new());
    let mut equal = 0;
    for _ in 0..20_000 {
        let [wanted, found] = [0, 1].map(|_| id(&mut rng));
        let is_row = collection.sealer.row_id(&wanted) == collection.sealer.row_id(&found);
        let document = doc! { "a": 1, "_id": found.clone() };
        let point = Wanted::Id(wanted.clone());
        assert_eq!(point.is(&document).unwrap(), is_row, "{wanted} {found}");
        let raw = RawDocumentBuf::try_from(&document).unwrap();
        assert_eq!(point.is_of_id(&raw), Some(is_row), "{wanted} {found}");
        let filter = Filter::parse(&doc! { "_id": { "$eq": wanted.clone() } }).unwrap();
        if only_id(filter.expr()).is_some() {
            let passing = Wanted::Passing(Arc::new(filter));
            assert_eq!(passing.is(&document).unwrap(), is_row, "{wanted} {found}");
            assert_eq!(passing.is_of_id(&raw), None, "more of it has to be looked at");
        }
        equal += usize::from(is_row);
    }
    assert!(equal > 200, "{equal}");
    let without = doc! { "a": 1 };
    assert!(!Wanted::Id(Bson::Int32(1)).is(&without).unwrap());
    assert_eq!(
        Wanted::Id(Bson::Int32(1)).is_of_id(&RawDocumentBuf::try_from(&without).unwrap()),
        Some(false)
    );
}

#[test]
fn one_id_without_order_or_hint_is_read_without_a_plan() {
    let collection = collection("c", Vec::new());
    let hint = Bson::String("_id_".into());
    let (sorted, unsorted) = (Sort::parse(&doc! { "a": 1 }).unwrap(), Sort::default());
    let is_point = |filter: Document, sort: &Sort, hint: Option<&Bson>| {
        let filter = Filter::parse(&filter).unwrap();
        let selection = Selection {
            filter: &filter,
            sort,
            skip: 0,
            limit: None,
            hint,
            alone: false,
            allow_disk_use: true,
        };
        let point = Point::of_selection(&collection, selection);
        point.map(|point| (point.row, point.wanted.is(&doc! { "_id": 5.0 }).unwrap()))
    };
    let row = Some(collection.sealer.row_id(&Bson::Int32(5)));
    assert_eq!(is_point(doc! { "_id": 5 }, &unsorted, None), Some((row, true)));
    assert_eq!(is_point(doc! { "_id": 5 }, &sorted, None), None);
    assert_eq!(is_point(doc! { "_id": 5 }, &unsorted, Some(&hint)), None);
    for more in [doc! {}, doc! { "_id": 5, "a": 1 }, doc! { "_id": { "$gt": 5 } }, doc! { "_id": null }] {
        assert_eq!(is_point(more.clone(), &unsorted, None), None, "{more}");
    }
}

#[test]
fn an_access_by_one_id_is_one_row_and_the_whole_filter_is_checked() {
    let collection = collection("c", Vec::new());
    let filter = Arc::new(Filter::parse(&doc! { "_id": 5, "a": 1 }).unwrap());
    let rows = |ids: &[i32]| Access::Rows { ids: ids.iter().copied().map(Bson::Int32).collect() };
    let point = Point::of(&collection, &rows(&[5]), &filter).unwrap();
    assert_eq!(point.row, Some(collection.sealer.row_id(&Bson::Int64(5))));
    assert!(point.wanted.is(&doc! { "_id": 5, "a": 1 }).unwrap());
    assert!(!point.wanted.is(&doc! { "_id": 5, "a": 2 }).unwrap());
    for other in [rows(&[]), rows(&[5, 6]), Access::Scan, Access::Union(vec![rows(&[5])])] {
        assert!(Point::of(&collection, &other, &filter).is_none(), "{other:?}");
    }
}
