#![allow(clippy::unwrap_used)]

use super::*;
use bson::{DateTime, Decimal128, oid::ObjectId};
use proptest::prelude::*;

fn layout(part_bytes: usize, kind: FieldType) -> KeyLayout {
    KeyLayout { part_bytes, typed: Some(kind) }
}

#[test]
fn integers_of_the_declared_type_are_exact_in_as_many_bits_as_they_have() {
    let int32 = layout(4, FieldType::Int32);
    for (value, bytes) in [(i32::MIN, [0, 0, 0, 0]), (-1, [0x7F, 0xFF, 0xFF, 0xFF]), (0, [0x80, 0, 0, 0])] {
        let forms = [Bson::Int32(value), Bson::Int64(i64::from(value)), Bson::Double(f64::from(value))];
        for form in forms {
            assert_eq!(int32.part(&form), OrderedKey { bytes: bytes.to_vec(), exact: true }, "{form}");
        }
    }
    assert_eq!(int32.part(&Bson::Int32(i32::MAX)).bytes, [0xFF; 4]);
    let int64 = layout(8, FieldType::Int64);
    let near = [i64::MAX - 1, i64::MAX].map(|value| int64.part(&Bson::Int64(value)));
    assert!(near.iter().all(|key| key.exact) && near[0].bytes < near[1].bytes);
    assert!(!layout(4, FieldType::Int64).part(&Bson::Int64(1)).exact, "the lower half is cut off");
    assert!(layout(8, FieldType::Int32).part(&Bson::Int32(7)).exact);
}

#[test]
fn dates_and_doubles_are_exact_in_64_bits() {
    let date = layout(8, FieldType::Date);
    let dates =
        [i64::MIN, -1, 0, 1, i64::MAX].map(|at| date.part(&Bson::DateTime(DateTime::from_millis(at))));
    assert!(dates.iter().all(|key| key.exact) && dates.windows(2).all(|pair| pair[0].bytes < pair[1].bytes));
    let double = layout(8, FieldType::Double);
    let doubles = [f64::NEG_INFINITY, -0.1, 0.0, 0.1, 0.1 + 1e-17, 1e300]
        .map(|value| double.part(&Bson::Double(value)));
    assert!(doubles.iter().all(|key| key.exact && key.bytes.len() == 8));
    assert!(!double.part(&Bson::Int64((1 << 53) + 1)).exact, "no double is that integer");
}

#[test]
fn what_is_of_another_type_is_at_an_end_and_not_exact() {
    let int32 = layout(4, FieldType::Int32);
    for (value, fill) in [
        (Bson::Null, 0x00),
        (Bson::MinKey, 0x00),
        (Bson::Double(f64::NAN), 0x00),
        (Bson::Double(-1e10), 0x00),
        (Bson::Int64(1 << 40), 0xFF),
        (Bson::String("a".to_owned()), 0xFF),
        (Bson::MaxKey, 0xFF),
    ] {
        assert_eq!(int32.part(&value), OrderedKey { bytes: vec![fill; 4], exact: false }, "{value}");
    }
    let half: Decimal128 = "-0.5".parse().unwrap();
    assert_eq!(int32.part(&Bson::Decimal128(half)).bytes, int32.part(&Bson::Int32(-1)).bytes);
    assert_eq!(int32.part(&Bson::Double(2.9)).bytes, int32.part(&Bson::Int32(2)).bytes);
}

fn value() -> impl Strategy<Value = Bson> {
    let decimal = prop::sample::select(vec![
        "-1E+40",
        "-2.5",
        "0",
        "2.5",
        "4294967296.5",
        "9223372036854775807.5",
        "NaN",
    ]);
    prop_oneof![
        any::<i32>().prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        (-3_i64..3).prop_map(Bson::Int64),
        any::<f64>().prop_map(Bson::Double),
        (-30_i32..30).prop_map(|tenths| Bson::Double(f64::from(tenths) / 10.0)),
        decimal.prop_map(|text| Bson::Decimal128(text.parse().unwrap())),
        any::<i64>().prop_map(|at| Bson::DateTime(DateTime::from_millis(at))),
        any::<[u8; 12]>().prop_map(|id| Bson::ObjectId(ObjectId::from_bytes(id))),
        "[a-c]{0,12}".prop_map(Bson::String),
        any::<bool>().prop_map(Bson::Boolean),
        Just(Bson::Null),
        Just(Bson::Undefined),
        Just(Bson::MaxKey),
    ]
}

fn any_layout() -> impl Strategy<Value = KeyLayout> {
    let kinds = prop::sample::select(vec![
        None,
        Some(FieldType::Binary),
        Some(FieldType::Bool),
        Some(FieldType::Date),
        Some(FieldType::Decimal),
        Some(FieldType::Double),
        Some(FieldType::Int32),
        Some(FieldType::Int64),
        Some(FieldType::ObjectId),
        Some(FieldType::String),
    ]);
    (prop::sample::select(vec![4_usize, 8]), kinds)
        .prop_map(|(part_bytes, typed)| KeyLayout { part_bytes, typed })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn keys_are_monotone_and_exact_ones_are_one_value_each(
        layout in any_layout(),
        left in value(),
        right in value(),
    ) {
        let (one, other) = (layout.part(&left), layout.part(&right));
        prop_assert_eq!(one.bytes.len(), layout.part_bytes);
        match order::compare(&left, &right) {
            Ordering::Less => prop_assert!(one.bytes <= other.bytes),
            Ordering::Greater => prop_assert!(one.bytes >= other.bytes),
            Ordering::Equal => prop_assert_eq!(&one.bytes, &other.bytes),
        }
        if one.exact && other.exact && one.bytes == other.bytes {
            prop_assert_eq!(order::compare(&left, &right), Ordering::Equal);
        }
    }
}
