//! Random documents, filters and indexes over few fields and values, so that they often meet.

use super::super::IndexState;
use crate::physical::{KeyWidth, PhysicalIndex};
use arras_protocol::IndexId;
use bson::{Bson, Document, doc};
use proptest::prelude::*;

/// Paths documents, filters and indexes share.
pub(super) const PATHS: [&str; 6] = ["a", "b", "c", "c.d", "c.0", "c.d.e"];

fn double(value: f64) -> Bson {
    Bson::Double(value)
}

fn scalars() -> Vec<Bson> {
    let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
    let big = 1_i64 << 53;
    let mut all: Vec<Bson> = (-1..4).map(Bson::Int32).collect();
    all.extend([big - 1, big, big + 1, i64::MIN, i64::MAX].map(Bson::Int64));
    all.extend(
        [
            -0.0,
            0.5,
            1.0,
            big as f64,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            5e-324,
        ]
        .map(double),
    );
    all.extend(
        [
            "1",
            "1.00",
            "1.5",
            "1.0000000000000000000000001",
            "NaN",
            "-Infinity",
        ]
        .map(decimal),
    );
    let strings = [
        "",
        "a",
        "ab",
        "abc",
        "b",
        "a\0",
        "a long string, 1",
        "a long string, 2",
    ];
    all.extend(strings.map(|text| Bson::String(text.to_owned())));
    all.extend([
        Bson::Boolean(false),
        Bson::Boolean(true),
        Bson::Null,
        Bson::Null,
        Bson::Undefined,
    ]);
    all.extend([0, 1, -1].map(|millis| Bson::DateTime(bson::DateTime::from_millis(millis))));
    all.extend([1, 2].map(|byte| Bson::ObjectId(bson::oid::ObjectId::from_bytes([byte; 12]))));
    let binary = |bytes: &[u8]| bson::Binary {
        subtype: bson::spec::BinarySubtype::Generic,
        bytes: bytes.to_vec(),
    };
    all.extend([binary(&[1]), binary(&[1, 0]), binary(&[2; 20])].map(Bson::Binary));
    all.push(Bson::Timestamp(bson::Timestamp {
        time: 1,
        increment: 2,
    }));
    all.push(Bson::RegularExpression(bson::Regex {
        pattern: "^a".try_into().unwrap(),
        options: "".try_into().unwrap(),
    }));
    all.extend([Bson::MinKey, Bson::MaxKey, Bson::Symbol("ab".to_owned())]);
    all
}

/// A value: mostly a small scalar, at times an exotic one, a document or an array.
pub(super) fn value() -> impl Strategy<Value = Bson> {
    let common = prop_oneof![(-1..4_i32).prop_map(Bson::Int32), Just(Bson::Null)];
    let scalar = prop_oneof![3 => common, 2 => prop::sample::select(scalars())];
    scalar.prop_recursive(2, 6, 3, |inner| {
        let elements = prop::collection::vec(inner.clone(), 0..3).prop_map(Bson::Array);
        let field = prop::sample::select(vec!["d", "e", "0"]);
        let documents = prop::collection::vec((field, inner), 0..3).prop_map(|fields| {
            Bson::Document(
                fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect(),
            )
        });
        prop_oneof![elements, documents]
    })
}

pub(super) fn document() -> impl Strategy<Value = Document> {
    let field = || prop::option::weighted(0.8, value());
    let rich = prop_oneof![value(), nested().prop_map(Bson::from)];
    (field(), field(), prop::option::weighted(0.9, rich)).prop_map(|(a, b, c)| {
        let mut document = Document::new();
        for (name, value) in [("a", a), ("b", b), ("c", c)] {
            if let Some(value) = value {
                document.insert(name, value);
            }
        }
        document
    })
}

/// Documents without arrays at all, as most collections have.
pub(super) fn plain_document() -> impl Strategy<Value = Document> {
    let field = || prop::option::weighted(0.8, prop::sample::select(scalars()));
    (field(), field(), field()).prop_map(|(a, b, d)| {
        let mut document = Document::new();
        for (name, value) in [("a", a), ("b", b)] {
            if let Some(value) = value {
                document.insert(name, value);
            }
        }
        if let Some(d) = d {
            document.insert("c", doc! {"d": d});
        }
        document
    })
}

fn nested() -> impl Strategy<Value = Vec<Bson>> {
    let element = value().prop_flat_map(|inner| {
        prop_oneof![
            Just(Bson::Document(doc! {"d": inner.clone()})),
            Just(Bson::Document(doc! {"d": {"e": inner.clone()}})),
            Just(Bson::Document(doc! {"d": [{"e": inner.clone()}, {}]})),
            Just(Bson::Array(vec![inner.clone()])),
            Just(inner),
        ]
    });
    prop::collection::vec(element, 0..3)
}

fn test() -> impl Strategy<Value = Bson> {
    let compare = prop::sample::select(vec!["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]);
    let one = (compare.clone(), value()).prop_map(|(operator, value)| doc! {operator: value});
    let two = (value(), value(), any::<bool>()).prop_map(|(low, high, equal)| match equal {
        true => doc! {"$gte": low, "$lte": high},
        false => doc! {"$gt": low, "$lt": high},
    });
    let list = (
        prop::sample::select(vec!["$in", "$nin", "$all"]),
        prop::collection::vec(value(), 0..3),
    )
        .prop_map(|(operator, values)| doc! {operator: values});
    let pattern = prop::sample::select(vec!["^a", "^ab", "a", "^a|b", "^ab?", "^a\\x00", "^", "^a long"]);
    let regex = pattern.prop_map(|pattern| doc! {"$regex": pattern});
    let element = prop::collection::vec((compare, value()), 1..3).prop_map(|tests| {
        let tests: Document = tests
            .into_iter()
            .map(|(operator, value)| (operator.to_owned(), value))
            .collect();
        doc! {"$elemMatch": tests}
    });
    let name = prop::sample::select(vec!["d", "0", "d.e", "e"]);
    let inside = prop_oneof![
        value().prop_filter("an operator document", |value| value
            .as_document()
            .is_none_or(Document::is_empty)),
        value().prop_map(|value| Bson::from(doc! {"$gte": value})),
    ];
    let element_document = prop::collection::vec((name, inside), 1..3).prop_map(|tests| {
        let tests: Document = tests
            .into_iter()
            .map(|(path, test)| (path.to_owned(), test))
            .collect();
        doc! {"$elemMatch": tests}
    });
    let other = prop_oneof![
        any::<bool>().prop_map(|exists| doc! {"$exists": exists}),
        (0..3_i32).prop_map(|size| doc! {"$size": size}),
        value().prop_map(|value| doc! {"$not": {"$lt": value}}),
    ];
    let operators = prop_oneof![
        4 => one, 3 => two, 2 => list, 1 => regex, 2 => element, 2 => element_document, 1 => other
    ];
    prop_oneof![3 => operators.prop_map(Bson::from), 1 => value().prop_map(|value| Bson::from(doc! {"$eq": value}))]
}

/// A filter: conditions on some paths, perhaps an `$or` or `$and` of such.
pub(super) fn filter() -> impl Strategy<Value = Document> {
    let conditions = || {
        prop::collection::vec((prop::sample::select(PATHS.to_vec()), test()), 0..4).prop_map(|tests| {
            tests
                .into_iter()
                .map(|(path, test)| (path.to_owned(), test))
                .collect::<Document>()
        })
    };
    let several = prop::collection::vec(conditions(), 1..4);
    let operator = prop::sample::select(vec!["$or", "$or", "$and", "$nor"]);
    (conditions(), prop::option::weighted(0.4, (operator, several))).prop_map(|(mut filter, more)| {
        if let Some((operator, several)) = more {
            filter.insert(operator, several);
        }
        filter
    })
}

pub(super) fn indexes() -> impl Strategy<Value = Vec<IndexState>> {
    let fields = prop::sample::subsequence(PATHS.to_vec(), 1..=3).prop_shuffle();
    let width = prop::sample::select(vec![KeyWidth::Bits32, KeyWidth::Bits64, KeyWidth::Bits128]);
    let index =
        (fields, 0..5_u8, width, prop::bool::weighted(0.2)).prop_map(|(fields, kind, width, sparse)| {
            let fields = super::names(&fields);
            let index = match kind {
                0 => PhysicalIndex::Unique { fields },
                1 | 2 => PhysicalIndex::Eq { fields },
                _ => PhysicalIndex::range(&fields, width, Some(Vec::new())).unwrap(),
            };
            (index, sparse)
        });
    prop::collection::vec(index, 1..5).prop_map(|indexes| {
        let state = |(number, (index, sparse)): (usize, (PhysicalIndex, bool))| IndexState {
            id: IndexId([number as u8; 8]),
            name: index.to_string(),
            index,
            multikey: false,
            inexact: false,
            sparse,
        };
        indexes.into_iter().enumerate().map(state).collect()
    })
}
