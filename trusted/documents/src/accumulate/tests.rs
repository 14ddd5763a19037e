#![allow(clippy::unwrap_used)]

use super::*;
use crate::order::identical;
use crate::samples::{decimal, number, scalar};
use bson::{bson, doc};
use proptest::prelude::*;

fn sum(values: &[Bson]) -> NumberSum {
    let mut sum = NumberSum::new();
    values.iter().for_each(|value| add_value(&mut sum, value));
    sum
}

#[test]
fn sums_widen_as_needed() {
    for (values, expected) in [
        (vec![], bson!(0)),
        (vec![bson!(1), bson!(2)], bson!(3)),
        (vec![bson!(1), bson!("x"), Bson::Null], bson!(1)),
        (vec![bson!(i32::MAX), bson!(1)], bson!(i64::from(i32::MAX) + 1)),
        (vec![bson!(1_i64), bson!(2)], bson!(3_i64)),
        (vec![bson!(i64::MAX), bson!(1)], bson!(9_223_372_036_854_775_808.0)),
        (vec![bson!(i64::MAX), bson!(1), bson!(-1)], bson!(i64::MAX)),
        (vec![bson!(1), bson!(0.5)], bson!(1.5)),
        (vec![bson!(0.1); 10], bson!(1.0)),
        (vec![bson!(1e308), bson!(1e-300), bson!(-1e308)], bson!(1e-300)),
        (vec![bson!(1e308), bson!(1e308), bson!(-1e308)], bson!(1e308)),
        (vec![bson!(1), decimal("0.1"), decimal("0.2")], decimal("1.3")),
        (vec![Bson::Double(f64::INFINITY), bson!(1)], Bson::Double(f64::INFINITY)),
    ] {
        assert!(identical(&total(&sum(&values)), &expected), "{values:?}: {:?}", total(&sum(&values)));
    }
    let nan = total(&sum(&[Bson::Double(f64::INFINITY), Bson::Double(f64::NEG_INFINITY)]));
    assert!(matches!(nan, Bson::Double(number) if number.is_nan()));
}

#[test]
fn averages() {
    assert_eq!(mean(&sum(&[])), Bson::Null);
    assert_eq!(mean(&sum(&[bson!("x")])), Bson::Null);
    assert_eq!(mean(&sum(&[bson!(1), bson!(2)])), bson!(1.5));
    assert_eq!(mean(&sum(&[bson!(4), bson!(2)])), bson!(3.0));
    assert_eq!(mean(&sum(&[decimal("1"), bson!(2)])), decimal("1.5"));
}

#[test]
fn subnormal_and_huge_sums_round_once() {
    assert_eq!(total(&sum(&[bson!(5e-324), bson!(5e-324)])), bson!(1e-323));
    assert_eq!(total(&sum(&[bson!(f64::MAX), bson!(f64::MAX)])), Bson::Double(f64::INFINITY));
    // Half a unit in the last place ties to even; a little more rounds up.
    assert_eq!(total(&sum(&[bson!(1.0), bson!(2_f64.powi(-53))])), bson!(1.0));
    assert_eq!(total(&sum(&[bson!(1.0), bson!(2_f64.powi(-53)), bson!(5e-324)])), bson!(1.0 + f64::EPSILON));
}

#[test]
fn damaged_encodings_are_refused() {
    let bytes = sum(&[bson!(1.5), bson!(7), decimal("2")]).to_bytes();
    for length in 0..bytes.len() {
        // A cut may leave zeros only at the end of the last part; then too little is left of it.
        assert!(NumberSum::from_bytes(&bytes[..length]).is_err(), "{length}");
    }
    let mut longer = bytes.clone();
    longer.push(1);
    assert!(NumberSum::from_bytes(&longer).is_err());
    longer.pop();
    longer.resize(NumberSum::ENCODED_BYTES_MAX, 0);
    assert_eq!(NumberSum::from_bytes(&longer).unwrap().to_bytes(), bytes);
}

fn accumulate(name: &str, values: &[Option<Bson>]) -> Bson {
    let mut accumulator = Accumulator::new(name).unwrap();
    for value in values {
        accumulator.add(value.clone()).unwrap();
    }
    accumulator.finish()
}

#[test]
fn accumulators() {
    let values = [Some(bson!(3)), None, Some(Bson::Null), Some(bson!(1)), Some(bson!(3.0))];
    for (name, expected) in [
        ("$sum", bson!(7.0)),
        ("$avg", bson!(7.0 / 3.0)),
        ("$min", bson!(1)),
        ("$max", bson!(3)),
        ("$count", bson!(5)),
        ("$first", bson!(3)),
        ("$last", bson!(3.0)),
        ("$push", bson!([3, null, 1, 3.0])),
        ("$addToSet", bson!([null, 1, 3])),
    ] {
        assert_eq!(accumulate(name, &values), expected, "{name}");
    }
    assert_eq!(accumulate("$min", &[None]), Bson::Null);
    assert_eq!(accumulate("$first", &[None, Some(bson!(1))]), Bson::Null);
    assert_eq!(accumulate("$stdDevPop", &[2, 4, 4, 4, 5, 5, 7, 9].map(|n| Some(bson!(n)))), bson!(2.0));
    assert_eq!(accumulate("$stdDevSamp", &[Some(bson!(1))]), Bson::Null);
    let merged = [Some(bson!({ "a": 1, "b": 1 })), None, Some(bson!({ "b": 2 }))];
    assert_eq!(accumulate("$mergeObjects", &merged), Bson::Document(doc! { "a": 1, "b": 2 }));
    assert_eq!(Accumulator::new("$nothing").unwrap_err().code, 15952);
    assert_eq!(Accumulator::new("$topN").unwrap_err().code, 238);
}

/// Numbers whose decimals are sums of few digits, which do not round.
fn summand() -> impl Strategy<Value = Bson> {
    prop_oneof![
        scalar().prop_filter("decimals of any size round", |value| !matches!(value, Bson::Decimal128(_))),
        number().prop_filter("decimals of any size round", |value| !matches!(value, Bson::Decimal128(_))),
        (-1000_i32..1000).prop_map(|number| decimal(&format!("{number}E-2"))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn sums_do_not_depend_on_order_or_grouping(
        values in prop::collection::vec(summand(), 0..12),
        cut in 0_usize..12,
        inner_cut in 0_usize..12,
    ) {
        let whole = sum(&values);
        let cut = cut.min(values.len());
        let (left, right) = values.split_at(cut);
        let (middle, right) = right.split_at(inner_cut.min(right.len()));
        let (left, middle, right) = (sum(left), sum(middle), sum(right));
        let mut first = left.clone();
        first.merge(&middle);
        first.merge(&right);
        let mut second = right;
        second.merge(&middle);
        second.merge(&left);
        for other in [&first, &second] {
            prop_assert!(identical(&total(&whole), &total(other)), "{:?} {:?}", total(&whole), total(other));
            prop_assert!(identical(&mean(&whole), &mean(other)));
        }
        let mut reversed = values;
        reversed.reverse();
        prop_assert!(identical(&total(&whole), &total(&sum(&reversed))));
    }

    #[test]
    fn encodings_round_trip(values in prop::collection::vec(prop_oneof![summand(), number()], 0..8)) {
        let sum = sum(&values);
        let bytes = sum.to_bytes();
        prop_assert!(bytes.len() <= NumberSum::ENCODED_BYTES_MAX);
        let back = NumberSum::from_bytes(&bytes).unwrap();
        prop_assert_eq!(back.to_bytes(), bytes);
        prop_assert!(identical(&total(&back), &total(&sum)));
    }

    #[test]
    fn two_doubles_sum_as_the_processor_does(a in any::<f64>(), b in any::<f64>()) {
        let expected = a + b;
        match total(&sum(&[Bson::Double(a), Bson::Double(b)])) {
            // A sum of zeros is plus zero.
            Bson::Double(total) => prop_assert!(total == expected || (total.is_nan() && expected.is_nan())),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(sum) = NumberSum::from_bytes(&bytes) {
            let mut merged = sum.clone();
            merged.merge(&sum);
            let _ = total(&merged);
        }
    }
}
