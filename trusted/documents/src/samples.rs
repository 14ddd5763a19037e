//! Random BSON values for property tests: small, nested, rich in near collisions.

#![allow(clippy::unwrap_used)]

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Decimal128, Document, Timestamp};
use proptest::prelude::*;

/// Integers around which number types meet.
const LANDMARKS: [i64; 14] = [
    0,
    1,
    -1,
    10,
    255,
    i32::MAX as i64,
    i32::MIN as i64,
    1 << 53,
    -(1 << 53),
    1 << 62,
    i64::MAX,
    i64::MIN,
    999_999_999_999_999_999,
    123_456_789_012_345_678,
];

pub(crate) fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse::<Decimal128>().unwrap())
}

fn near_landmark() -> impl Strategy<Value = i64> {
    (prop::sample::select(LANDMARKS.to_vec()), -3_i64..=3).prop_map(|(base, step)| base.saturating_add(step))
}

fn double() -> impl Strategy<Value = f64> {
    prop_oneof![
        near_landmark().prop_map(|number| number as f64),
        prop::sample::select(vec![
            0.0,
            -0.0,
            f64::NAN,
            -f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            5e-324,
            -5e-324,
            0.1,
            0.5,
            -0.5,
            1.5,
            1e300,
        ]),
        any::<f64>(),
        (any::<i32>(), 1_u8..8).prop_map(|(number, shift)| f64::from(number) / f64::from(1_u32 << shift)),
    ]
}

fn decimal_number() -> impl Strategy<Value = Bson> {
    prop_oneof![
        near_landmark().prop_map(|number| decimal(&number.to_string())),
        near_landmark().prop_map(|number| decimal(&format!("{number}.5"))),
        near_landmark().prop_map(|number| decimal(&format!("{number}.0000000000001"))),
        double().prop_filter_map("not a number", |number| {
            (number.is_finite()).then(|| decimal(&format!("{number:.20e}")))
        }),
        prop::sample::select(vec![
            "0",
            "-0",
            "0E+100",
            "NaN",
            "Infinity",
            "-Infinity",
            "0.1",
            "0.10",
            "0.5",
            "1E-6176",
            "-1E-6176",
            "9.999999999999999999999999999999999E+6144",
            "1E+400",
            "-1E+400",
            "1E-400",
            "1E+20",
            "1.0E+20",
            "9007199254740992.4",
            "9007199254740993",
            "18446744073709551616",
            "1E+36",
            "1000000000000000000000000000000001",
        ])
        .prop_map(decimal),
        any::<[u8; 16]>().prop_map(|bytes| Bson::Decimal128(Decimal128::from_bytes(bytes))),
    ]
}

pub(crate) fn number() -> impl Strategy<Value = Bson> {
    prop_oneof![
        near_landmark().prop_map(Bson::Int64),
        any::<i64>().prop_map(Bson::Int64),
        (-3_i32..=3).prop_map(Bson::Int32),
        any::<i32>().prop_map(Bson::Int32),
        double().prop_map(Bson::Double),
        decimal_number(),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ab\0]{0,4}", "[a-c]{0,12}", "\\PC{0,4}"]
}

/// A value that is neither document nor array.
pub(crate) fn scalar() -> impl Strategy<Value = Bson> {
    prop_oneof![
        8 => number(),
        3 => text().prop_map(Bson::String),
        1 => text().prop_map(Bson::Symbol),
        2 => Just(Bson::Null),
        1 => prop::sample::select(vec![Bson::Undefined, Bson::MinKey, Bson::MaxKey]),
        2 => any::<bool>().prop_map(Bson::Boolean),
        2 => prop_oneof![near_landmark(), any::<i64>()]
            .prop_map(|millis| Bson::DateTime(DateTime::from_millis(millis))),
        1 => (0_u32..3, 0_u32..3).prop_map(|(time, increment)| Bson::Timestamp(Timestamp { time, increment })),
        1 => prop::array::uniform12(0_u8..2).prop_map(|bytes| Bson::ObjectId(ObjectId::from_bytes(bytes))),
        1 => (0_u8..2, prop::collection::vec(0_u8..2, 0..6)).prop_map(|(subtype, bytes)| {
            Bson::Binary(Binary { subtype: BinarySubtype::from(subtype), bytes })
        }),
        1 => ("[ab]{0,2}", "[im]{0,1}").prop_map(|(pattern, options)| {
            Bson::RegularExpression(bson::Regex {
                pattern: pattern.try_into().unwrap(),
                options: options.try_into().unwrap(),
            })
        }),
        1 => "[ab]{0,2}".prop_map(Bson::JavaScriptCode),
    ]
}

pub(crate) fn field_name() -> impl Strategy<Value = String> {
    "[abc01]"
}

pub(crate) fn value() -> impl Strategy<Value = Bson> {
    scalar().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array),
            prop::collection::vec((field_name(), inner), 0..3)
                .prop_map(|fields| Bson::Document(fields.into_iter().collect())),
        ]
    })
}

pub(crate) fn document() -> impl Strategy<Value = Document> {
    prop::collection::vec((field_name(), value()), 0..4).prop_map(|fields| fields.into_iter().collect())
}

pub(crate) fn dotted_path() -> impl Strategy<Value = String> {
    prop::collection::vec(field_name(), 1..4).prop_map(|parts| parts.join("."))
}

/// Small values that often match each other.
pub(crate) fn plain_value() -> impl Strategy<Value = Bson> {
    let leaf = prop_oneof![
        (0_i32..4).prop_map(Bson::Int32),
        (0_i32..4).prop_map(|number| Bson::Double(f64::from(number) / 2.0)),
        "[ab]{0,2}".prop_map(Bson::String),
        Just(Bson::Null),
        any::<bool>().prop_map(Bson::Boolean),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Bson::Array),
            prop::collection::vec((field_name(), inner), 0..3)
                .prop_map(|fields| Bson::Document(fields.into_iter().collect())),
        ]
    })
}

pub(crate) fn plain_document() -> impl Strategy<Value = Document> {
    prop::collection::vec((field_name(), plain_value()), 0..4).prop_map(|fields| fields.into_iter().collect())
}
