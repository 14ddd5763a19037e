#![allow(clippy::unwrap_used)]

use super::*;
use crate::samples::{decimal, number, value};
use bson::{bson, doc};
use proptest::prelude::*;

#[test]
fn types_follow_the_documented_order() {
    let ascending = [
        Bson::MinKey,
        Bson::Null,
        bson!(-5),
        bson!("a"),
        bson!({}),
        bson!([]),
        Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: Vec::new() }),
        Bson::ObjectId(bson::oid::ObjectId::from_bytes([0; 12])),
        Bson::Boolean(false),
        Bson::DateTime(bson::DateTime::from_millis(0)),
        Bson::Timestamp(bson::Timestamp { time: 0, increment: 0 }),
        Bson::RegularExpression(bson::Regex {
            pattern: "".try_into().unwrap(),
            options: "".try_into().unwrap(),
        }),
        Bson::MaxKey,
    ];
    for pair in ascending.windows(2) {
        assert_eq!(compare(&pair[0], &pair[1]), Ordering::Less, "{:?}", pair);
    }
}

#[test]
fn numbers_compare_exactly_across_types() {
    let ascending = [
        Bson::Double(f64::NAN),
        Bson::Double(f64::NEG_INFINITY),
        decimal("-1E+400"),
        Bson::Double(f64::MIN),
        Bson::Int64(i64::MIN),
        Bson::Int64(-(1 << 53) - 1),
        Bson::Double(-9_007_199_254_740_992.0),
        Bson::Int32(-1),
        decimal("-1E-6176"),
        Bson::Int32(0),
        decimal("1E-6176"),
        Bson::Double(5e-324),
        decimal("0.1"),
        // The double nearest to 0.1 lies above it.
        Bson::Double(0.1),
        decimal("0.5"),
        Bson::Int32(1),
        Bson::Double(9_007_199_254_740_992.0),
        decimal("9007199254740992.5"),
        Bson::Int64((1 << 53) + 1),
        Bson::Int64(i64::MAX),
        Bson::Double(9_223_372_036_854_775_808.0),
        Bson::Double(f64::MAX),
        decimal("1E+400"),
        Bson::Double(f64::INFINITY),
    ];
    for (offset, left) in ascending.iter().enumerate() {
        for right in &ascending[offset + 1..] {
            assert_eq!(compare(left, right), Ordering::Less, "{left:?} {right:?}");
            assert_eq!(compare(right, left), Ordering::Greater, "{right:?} {left:?}");
        }
    }
}

#[test]
fn equal_numbers_of_different_types() {
    let groups = [
        vec![Bson::Int32(0), Bson::Double(-0.0), Bson::Double(0.0), decimal("-0"), decimal("0E+100")],
        vec![Bson::Int32(1), Bson::Int64(1), Bson::Double(1.0), decimal("1.00"), decimal("10E-1")],
        vec![Bson::Double(f64::NAN), Bson::Double(-f64::NAN), decimal("NaN")],
        vec![Bson::Double(0.5), decimal("0.5"), decimal("0.500")],
        vec![Bson::Int64(1 << 53), Bson::Double(9_007_199_254_740_992.0), decimal("9007199254740992")],
        vec![Bson::Double(f64::INFINITY), decimal("Infinity")],
    ];
    for group in &groups {
        for left in group {
            for right in group {
                assert!(equal(left, right), "{left:?} {right:?}");
                assert_eq!(canonical(left), canonical(right), "{left:?} {right:?}");
            }
        }
    }
}

#[test]
fn documents_compare_type_then_name_then_value() {
    // The type of the value outweighs the name.
    assert!(compare_documents(&doc! { "b": 1 }, &doc! { "a": "x" }).is_lt());
    assert!(compare_documents(&doc! { "a": 2 }, &doc! { "b": 1 }).is_lt());
    assert!(compare_documents(&doc! { "a": 1 }, &doc! { "a": 1, "b": 1 }).is_lt());
    assert!(compare_documents(&doc! { "a": 1, "b": 2 }, &doc! { "b": 2, "a": 1 }).is_lt());
    assert!(compare_documents(&doc! { "a": 1 }, &doc! { "a": 1.0 }).is_eq());
}

#[test]
fn binary_data_compares_by_length_first() {
    let binary = |subtype: u8, bytes: &[u8]| {
        Bson::Binary(bson::Binary { subtype: subtype.into(), bytes: bytes.to_vec() })
    };
    assert!(compare(&binary(5, &[9]), &binary(0, &[0, 0])).is_lt());
    assert!(compare(&binary(0, &[9]), &binary(5, &[0])).is_lt());
    assert!(compare(&binary(5, &[0]), &binary(5, &[1])).is_lt());
}

#[test]
fn identical_tells_what_equal_does_not() {
    assert!(equal(&bson!(1), &bson!(1.0)) && !identical(&bson!(1), &bson!(1.0)));
    assert!(!identical(&Bson::Double(0.0), &Bson::Double(-0.0)));
    assert!(identical(&Bson::Double(f64::NAN), &Bson::Double(f64::NAN)));
    assert!(!identical_documents(&doc! { "a": 1, "b": 2 }, &doc! { "b": 2, "a": 1 }));
}

#[test]
fn exact_and_lossy_integers() {
    assert_eq!(as_exact_i64(&bson!(1.5)), None);
    assert_eq!(as_lossy_i64(&bson!(-1.5)), Some(-1));
    assert_eq!(as_exact_i64(&decimal("1E+3")), Some(1000));
    assert_eq!(as_exact_i64(&decimal("9223372036854775808")), None);
    assert_eq!(as_exact_i64(&Bson::Double(9_223_372_036_854_775_808.0)), None);
    assert_eq!(as_lossy_i64(&Bson::Double(f64::NAN)), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn compare_is_a_total_order(a in value(), b in value(), c in value()) {
        prop_assert_eq!(compare(&a, &a), Ordering::Equal);
        prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
        let mut sorted = [&a, &b, &c];
        sorted.sort_by(|left, right| compare(left, right));
        prop_assert!(compare(sorted[0], sorted[2]).is_le());
    }

    #[test]
    fn numbers_are_totally_ordered(a in number(), b in number(), c in number()) {
        prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
        if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
            prop_assert!(compare(&a, &c).is_le());
        }
        if equal(&a, &b) {
            prop_assert_eq!(compare(&a, &c), compare(&b, &c));
        }
    }

    #[test]
    fn canonical_bytes_are_equal_exactly_for_equal_values(a in value(), b in value(), x in number(), y in number()) {
        prop_assert_eq!(canonical(&a) == canonical(&b), equal(&a, &b));
        prop_assert_eq!(canonical(&x) == canonical(&y), equal(&x, &y));
    }
}
