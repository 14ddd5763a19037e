#![allow(clippy::unwrap_used)]

use super::*;
use crate::filter::{Expr, Filter, Members, Pattern, Test};
use crate::order::compare;
use crate::samples::{decimal, dotted_path, number, plain_document, plain_value, scalar, value};
use bson::{bson, doc};
use proptest::prelude::*;
use std::cmp::Ordering;

fn bytes(value: &Bson) -> Vec<u8> {
    encode(value, NUMBER_BODY_BYTES).bytes
}

#[test]
fn neighbours_of_two_to_the_53_have_their_own_keys() {
    let ascending = [
        Bson::Double(f64::NAN),
        Bson::Double(f64::NEG_INFINITY),
        Bson::Int64(i64::MIN),
        Bson::Int64(i64::MIN + 1),
        Bson::Int64(-(1 << 53) - 1),
        Bson::Int64(-(1 << 53)),
        Bson::Double(-5e-324),
        Bson::Int32(0),
        Bson::Double(5e-324),
        Bson::Int64((1 << 53) - 1),
        Bson::Int64(1 << 53),
        Bson::Int64((1 << 53) + 1),
        Bson::Int64((1 << 53) + 2),
        Bson::Int64(i64::MAX - 1),
        Bson::Int64(i64::MAX),
        Bson::Double(9_223_372_036_854_775_808.0),
        Bson::Double(f64::INFINITY),
    ];
    for pair in ascending.windows(2) {
        assert!(bytes(&pair[0]) < bytes(&pair[1]), "{pair:?}");
        assert!(encode(&pair[0], NUMBER_BODY_BYTES).exact);
    }
}

#[test]
fn equal_numbers_have_equal_keys() {
    for (left, right) in [
        (bson!(1), bson!(1.0)),
        (bson!(0.0), bson!(-0.0)),
        (bson!(0.5), decimal("0.500")),
        (Bson::Double(f64::NAN), decimal("NaN")),
        (Bson::Int64((1 << 53) + 1), decimal("9007199254740993")),
    ] {
        assert_eq!(bytes(&left), bytes(&right), "{left} {right}");
    }
}

#[test]
fn inexact_keys_say_so() {
    let exact = |value: &Bson, body_bytes: usize| encode(value, body_bytes).exact;
    assert!(!exact(&decimal("0.1"), 10));
    assert!(exact(&decimal("0.5"), 10));
    assert!(exact(&bson!(3), 8));
    assert!(!exact(&Bson::Int64((1 << 53) + 1), 8));
    assert!(exact(&Bson::Int64(1 << 53), 8));
    assert!(exact(&bson!(-3), 3));
    assert!(!exact(&bson!(0.1), 7));
    assert!(exact(&bson!("ab"), 3));
    assert!(!exact(&bson!("abc"), 3));
    assert!(!exact(&bson!("a\0"), 3));
    assert!(exact(&Bson::Null, 0));
    assert!(!exact(&bson!(true), 0));
    assert!(!exact(&bson!({}), 10));
    assert!(!exact(&Bson::ObjectId(bson::oid::ObjectId::from_bytes([1; 12])), 10));
    assert!(exact(&Bson::ObjectId(bson::oid::ObjectId::from_bytes([1; 12])), 12));
}

#[test]
fn missing_lies_right_below_null() {
    let missing = encode_missing(4).bytes;
    assert!(encode(&Bson::Undefined, 4).bytes < missing);
    assert!(missing < encode(&Bson::Null, 4).bytes);
}

#[test]
fn entries_are_those_of_a_multikey_index() {
    let keys = |document: &Document, path: &str| -> Vec<Vec<u8>> {
        entries(document, path, 10).into_iter().map(|key| key.bytes).collect()
    };
    let key = |value: Bson| encode(&value, 10).bytes;
    assert_eq!(keys(&doc! { "a": [2, 1, 2] }, "a"), [key(bson!(1)), key(bson!(2))]);
    assert_eq!(keys(&doc! { "a": [] }, "a"), [key(Bson::Undefined)]);
    assert_eq!(keys(&doc! {}, "a"), [encode_missing(10).bytes]);
    assert_eq!(keys(&doc! { "a": [{ "b": 1 }, {}] }, "a.b"), [encode_missing(10).bytes, key(bson!(1))]);
    assert_eq!(keys(&doc! { "a": [5] }, "a.b"), [encode_missing(10).bytes]);
    assert_eq!(keys(&doc! { "a": [[1, 2], 3] }, "a"), [key(bson!(3)), key(bson!([]))]);
}

#[test]
fn brackets_of_ranges() {
    let of = |test: Test| bounds(&test, 10).unwrap();
    let key = |value: Bson| encode(&value, 10).bytes;
    assert_eq!(of(Test::Eq(bson!(5))), (key(bson!(5)), key(bson!(5))));
    let (low, high) = of(Test::Gt(bson!("b")));
    assert_eq!(low, key(bson!("b")));
    assert_eq!((high[0], high[10]), (low[0], 0xFF));
    let (low, high) = of(Test::Eq(Bson::Null));
    assert!(low <= encode_missing(10).bytes && high >= key(Bson::Null) && high < key(bson!(0)));
    assert_eq!(ranges(&Test::In(Members::new(vec![bson!(1), bson!(3)])), 10).unwrap().len(), 2);
    assert_eq!(ranges(&Test::In(Members::new(Vec::new())), 10).unwrap().len(), 0);
    assert!(bounds(&Test::Ne(bson!(1)), 10).is_none());
    let prefix = of(Test::Regex(Pattern::new("^ab", "").unwrap()));
    assert!(prefix.0 == key(bson!("ab")) && key(bson!("abz")) <= prefix.1);
}

/// A test, of the kinds that have ranges and of those that have none.
fn test() -> impl Strategy<Value = Test> {
    let operand = || prop_oneof![plain_value(), scalar()];
    let leaf = prop_oneof![
        operand().prop_map(Test::Eq),
        operand().prop_map(Test::Gt),
        operand().prop_map(Test::Gte),
        operand().prop_map(Test::Lt),
        operand().prop_map(Test::Lte),
        operand().prop_map(Test::Ne),
        any::<bool>().prop_map(Test::Exists),
        prop::collection::vec(operand(), 0..3).prop_map(|values| Test::In(Members::new(values))),
        prop::sample::select(vec!["^a", "^ab*", "^(a|b)", "b", "^a|b", "^a?b"])
            .prop_map(|source| Test::Regex(Pattern::new(source, "").unwrap())),
        Just(Test::Mod { divisor: 2, remainder: 1 }),
        Just(Test::Size(1)),
    ];
    leaf.prop_recursive(1, 3, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Test::All),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Test::AnyOf),
            prop::collection::vec(inner.clone(), 1..3).prop_map(Test::ElemMatchValue),
            prop::collection::vec(inner, 1..3).prop_map(Test::Not),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn keys_are_monotone(a in number(), b in number(), x in value(), y in value(), body_bytes in 0_usize..14) {
        for (left, right) in [(&a, &b), (&x, &y), (&a, &x)] {
            let (left_key, right_key) = (encode(left, body_bytes), encode(right, body_bytes));
            prop_assert_eq!(left_key.bytes.len(), body_bytes + 1);
            match compare(left, right) {
                Ordering::Less => prop_assert!(left_key.bytes <= right_key.bytes),
                Ordering::Equal => prop_assert_eq!(&left_key, &right_key),
                Ordering::Greater => prop_assert!(left_key.bytes >= right_key.bytes),
            }
            if left_key.exact && right_key.exact && left_key.bytes == right_key.bytes {
                prop_assert_eq!(compare(left, right), Ordering::Equal);
            }
        }
    }

    #[test]
    fn integers_and_doubles_are_exact(integer in any::<i64>(), double in any::<f64>()) {
        prop_assert!(encode(&Bson::Int64(integer), NUMBER_BODY_BYTES).exact);
        prop_assert!(encode(&Bson::Double(double), NUMBER_BODY_BYTES).exact);
    }

    #[test]
    fn ranges_cover_every_match(
        document in plain_document(),
        path in dotted_path(),
        test in test(),
        body_bytes in 0_usize..12,
    ) {
        let filter = Filter::from_expr(Expr::Field { path: path.clone(), test: test.clone() });
        if filter.matches(&document).unwrap() {
            let keys = entries(&document, &path, body_bytes);
            if let Some(ranges) = ranges(&test, body_bytes) {
                let covered = ranges.iter().any(|(low, high)| {
                    keys.iter().any(|key| *low <= key.bytes && key.bytes <= *high)
                });
                prop_assert!(covered, "{:?} {:?}", ranges, keys);
            }
            if let Some((low, high)) = bounds(&test, body_bytes) {
                prop_assert!(keys.iter().any(|key| low <= key.bytes && key.bytes <= high));
            }
        }
    }
}
