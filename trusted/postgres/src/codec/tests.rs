#![allow(clippy::unwrap_used)]

use super::{Datum, Numeric};
use crate::catalog::{Encryption, Order};
use crate::column_type::ColumnType;
use proptest::prelude::*;
use std::cmp::Ordering;

fn column(kind: ColumnType) -> Encryption {
    let id = [1; 8];
    let max_bytes = Some(8);
    Encryption {
        check: None,
        origin: crate::catalog::Origin::Stored,
        id,
        label: "t.c".into(),
        kind,
        max_bytes,
        equality: Some(id),
        order: Some(Order::Mope),
        sum: true,
        text: None,
    }
}

fn read(kind: ColumnType, text: &str) -> Datum {
    Datum::from_text(kind, text).unwrap_or_else(|error| panic!("{kind:?} {text}: {error}"))
}

/// Values of each type in PostgreSQL's documented order; those on one line are equal.
const ORDERS: &[(&str, &[&[&str]])] = &[
    ("smallint", &[&["-32768"], &["-1"], &["0", "-0", "+0"], &["1", " 1 "], &["32767"]]),
    (
        "bigint",
        &[
            &["-9223372036854775808"],
            &["-256"],
            &["-1"],
            &["0"],
            &["255"],
            &["256"],
            &["9223372036854775807"],
        ],
    ),
    (
        "double precision",
        &[
            &["-Infinity", "-inf"],
            &["-1e300"],
            &["-1"],
            &["-5e-324"],
            &["0", "-0", "0.0"],
            &["5e-324"],
            &["1", "1.0"],
            &["1e300"],
            &["Infinity"],
            &["NaN", "nan"],
        ],
    ),
    (
        "real",
        &[
            &["-Infinity"],
            &["-1.5"],
            &["-1e-45"],
            &["0", "-0"],
            &["1e-45"],
            &["3e38"],
            &["Infinity"],
            &["NaN"],
        ],
    ),
    (
        "numeric(20,3)",
        &[
            &["-Infinity"],
            &["-99999999999999999.999"],
            &["-1.001"],
            &["-1", "-1.000"],
            &["0", "-0", "0.000"],
            &["0.001", "1e-3"],
            &["10", "1e1", "10.0"],
            &["9e16"],
            &["Infinity"],
            &["NaN"],
        ],
    ),
    ("text", &[&[""], &["A"], &["B"], &["a"], &["a\u{1}"], &["aa"], &["b"], &["é"], &["日本"]]),
    ("bytea", &[&[""], &["\\x00"], &["\\x0000"], &["\\x01", "\\001"], &["\\x61", "a"], &["\\xff"]]),
    (
        "date",
        &[
            &["-infinity"],
            &["4714-11-24 BC"],
            &["0001-12-31 BC"],
            &["0001-01-01"],
            &["1970-01-01", "epoch"],
            &["1999-12-31"],
            &["2000-02-29"],
            &["2000-03-01"],
            &["5874897-12-31"],
            &["infinity"],
        ],
    ),
    (
        "timestamp",
        &[
            &["-infinity"],
            &["4714-11-24 00:00:00 BC"],
            &["1999-12-31 23:59:59.999999"],
            &["2000-01-01", "2000-01-01 00:00", "1999-12-31 24:00:00", "2000-01-01T00:00:00+05"],
            &["2000-01-01 00:00:00.000001"],
            &["294276-12-31 23:59:59"],
            &["infinity"],
        ],
    ),
    (
        "timestamptz",
        &[
            &["-infinity"],
            &[
                "2020-06-01 12:00:00+02",
                "2020-06-01 10:00:00Z",
                "2020-06-01T15:30:00+05:30",
                "2020-06-01 05:00-0500",
            ],
            &["2020-06-01 10:00:00.5+00"],
            &["infinity"],
        ],
    ),
    ("boolean", &[&["f", "false", "no", "off", "0"], &["t", "TRUE", "yes", "on", "1"]]),
    (
        "uuid",
        &[
            &["00000000-0000-0000-0000-000000000000"],
            &[
                "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                "{A0EEBC99-9C0B4EF8-BB6D6BB9BD380A11}",
                "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            ],
        ],
    ),
];

#[test]
fn order_keys_are_in_postgresqls_order_and_canonical_bytes_are_equal_where_values_are() {
    for (name, ranks) in ORDERS {
        let kind = ColumnType::parse(name).unwrap();
        let column = column(kind);
        let values: Vec<(usize, Datum)> = ranks
            .iter()
            .enumerate()
            .flat_map(|(rank, texts)| texts.iter().map(move |text| (rank, read(kind, text))))
            .collect();
        let width = column.order_key_bytes();
        for (rank, value) in &values {
            let key = value.order_key(&column).unwrap();
            assert_eq!(key.len(), width, "{name} {value:?}: all keys have one length");
            for (other_rank, other) in &values {
                let expected = rank.cmp(other_rank);
                assert_eq!(
                    key.cmp(&other.order_key(&column).unwrap()),
                    expected,
                    "{name} {value:?} {other:?}"
                );
                let same = value.canonical() == other.canonical();
                assert_eq!(same, expected == Ordering::Equal, "{name} {value:?} {other:?}");
            }
            assert_eq!(&Datum::from_stored(kind, &value.stored()).unwrap().stored(), &value.stored());
            let binary = value.to_binary(kind);
            let back = Datum::from_binary(kind, &binary).unwrap();
            assert_eq!(back.stored(), value.stored(), "{name} {value:?} in binary");
            let text = value.to_text(kind);
            assert_eq!(read(kind, &text).stored(), value.stored(), "{name} {value:?} as {text}");
        }
    }
}

#[test]
fn texts_are_printed_as_postgresql_prints_them() {
    for (name, text, printed) in [
        ("double precision", "1e15", "1e+15"),
        ("double precision", "123456789012345", "123456789012345"),
        ("double precision", "0.0001", "0.0001"),
        ("double precision", "0.00001", "1e-05"),
        ("double precision", "-1.25e-7", "-1.25e-07"),
        ("double precision", "100", "100"),
        ("double precision", "0.1", "0.1"),
        ("double precision", "-0", "-0"),
        // As near to a neighbour, and as near to two of fewer digits.
        ("double precision", "30615228405433048", "3.0615228405433048e+16"),
        ("double precision", "85934305287164384", "8.593430528716438e+16"),
        ("double precision", "-780170135105571.25", "-780170135105571.2"),
        ("double precision", "9007199254740992", "9.007199254740992e+15"),
        ("real", "86988992", "8.698899e+07"),
        ("real", "16777216", "1.6777216e+07"),
        ("real", "1e6", "1e+06"),
        ("real", "123456", "123456"),
        ("real", "0.1", "0.1"),
        ("numeric", "0012.3400", "12.3400"),
        ("numeric", "-.5", "-0.5"),
        ("numeric", "1.5e3", "1500"),
        ("numeric", "1e-5", "0.00001"),
        ("date", "0044-03-15 BC", "0044-03-15 BC"),
        ("timestamp", "2024-05-31T23:59:59.120", "2024-05-31 23:59:59.12"),
        ("timestamptz", "2024-05-31 23:59:59-01:30", "2024-06-01 01:29:59+00"),
        ("bytea", "a\\\\b\\000", "\\x615c6200"),
        ("uuid", "A0EEBC999C0B4EF8BB6D6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("boolean", "TRUE", "t"),
    ] {
        let kind = ColumnType::parse(name).unwrap();
        assert_eq!(read(kind, text).to_text(kind), printed, "{name} {text}");
    }
}

#[test]
fn what_is_no_value_of_the_type_is_postgresqls_error() {
    for (name, text, sqlstate) in [
        ("integer", "abc", "22P02"),
        ("integer", "1.5", "22P02"),
        ("integer", "", "22P02"),
        ("integer", "+-1", "22P02"),
        ("bigint", "9223372036854775808", "22003"),
        ("double precision", "1e999", "22003"),
        ("double precision", "one", "22P02"),
        ("numeric", "1.2.3", "22P02"),
        ("numeric", "1e200000", "22003"),
        ("date", "2023-02-29", "22008"),
        ("date", "2023-13-01", "22008"),
        ("date", "31.12.2023", "22007"),
        ("timestamp", "2023-01-01 25:00", "22008"),
        ("timestamptz", "2023-01-01 12:00", "22007"),
        ("uuid", "a0eebc99", "22P02"),
        ("boolean", "maybe", "22P02"),
        ("boolean", "o", "22P02"),
        ("bytea", "\\xabc", "22P02"),
        ("text", "a\0b", "22021"),
    ] {
        let kind = ColumnType::parse(name).unwrap();
        let error = Datum::from_text(kind, text).unwrap_err();
        assert_eq!(error.sqlstate, sqlstate, "{name} {text}: {error}");
    }
    for (name, text, sqlstate) in [
        ("smallint", "32768", "22003"),
        ("integer", "-2147483649", "22003"),
        ("numeric(4,2)", "99.995", "22003"),
        ("numeric(4,2)", "Infinity", "22003"),
        ("varchar(3)", "abcd", "22001"),
        ("text", "123456789", "22001"),
    ] {
        let kind = ColumnType::parse(name).unwrap();
        let error = read(kind, text).storable(&column(kind)).unwrap_err();
        assert_eq!(error.sqlstate, sqlstate, "{name} {text}: {error}");
    }
    let kind = ColumnType::parse("varchar(3)").unwrap();
    assert_eq!(read(kind, "abc   ").storable(&column(kind)).unwrap(), Datum::Text("abc".into()));
    let kind = ColumnType::parse("numeric(4,2)").unwrap();
    assert_eq!(read(kind, "1.005").storable(&column(kind)).unwrap().to_text(kind), "1.01");
    assert_eq!(read(kind, "-1.005").storable(&column(kind)).unwrap().to_text(kind), "-1.01");
}

#[test]
fn a_bound_that_is_longer_than_the_column_stands_between_its_values() {
    let column = column(ColumnType::Text);
    let key = |text: &str| read(ColumnType::Text, text).order_key(&column).unwrap();
    assert!(key("aaaaaaaa") < key("aaaaaaaab"));
    assert!(key("aaaaaaaab") < key("aaaaaaab"));
}

#[test]
fn a_binary_value_is_of_its_type_s_length() {
    assert_eq!(Datum::from_binary(ColumnType::SmallInt, &[0, 5]).unwrap(), Datum::Integer(5));
    assert_eq!(Datum::from_binary(ColumnType::Integer, &[0, 5]).unwrap_err().sqlstate, "22P03");
    let numeric = ColumnType::Numeric(None);
    // PostgreSQL's own bytes of -12345.678: three digits of base 10,000.
    let bytes = [0, 3, 0, 1, 0x40, 0, 0, 3, 0, 1, 0x09, 0x29, 0x1a, 0x7c];
    let value = Datum::from_binary(numeric, &bytes).unwrap();
    assert_eq!(value.to_text(numeric), "-12345.678");
    assert_eq!(value.to_binary(numeric), bytes);
}

#[test]
fn means_have_as_many_digits_as_postgresqls() {
    for (sum, count, mean) in [
        ("3", 2, "1.5000000000000000"),
        ("10", 3, "3.3333333333333333"),
        ("0", 3, "0.00000000000000000000"),
        ("100000", 3, "33333.333333333333"),
        ("1.00", 3, "0.33333333333333333333"),
        ("-2", 3, "-0.66666666666666666667"),
    ] {
        assert_eq!(sum.parse::<Numeric>().unwrap().mean(count).to_string(), mean, "{sum} / {count}");
    }
}

#[test]
fn what_is_nothing_but_does_not_say_so_is_out_of_range() {
    let real = |kind, text: &str| Datum::from_text(kind, text).map(|value| value.to_text(kind));
    for kind in [ColumnType::DoublePrecision, ColumnType::Real] {
        for text in ["1e-400", "-1e-400", " 4.9e-325", "2e-324", "0.0001e-399", "1e400"] {
            let error = real(kind, text).unwrap_err();
            assert_eq!(error.sqlstate, "22003", "{text}");
            assert_eq!(error.message, format!("\"{text}\" is out of range for type {}", kind.name()));
        }
        for (text, shown) in [("0e-400", "0"), ("-0.00", "-0"), ("NaN", "NaN"), ("Infinity", "Infinity")] {
            assert_eq!(real(kind, text).unwrap(), shown, "{text}");
        }
    }
    assert_eq!(real(ColumnType::DoublePrecision, "3e-324").unwrap(), "5e-324");
    assert_eq!(real(ColumnType::Real, "1e-46").unwrap_err().sqlstate, "22003");
    assert_eq!(real(ColumnType::Real, "1e-45").unwrap(), "1e-45");
}

proptest! {
    #[test]
    fn doubles_order_as_postgresql_orders_them(left: f64, right: f64) {
        let column = column(ColumnType::DoublePrecision);
        let key = |number| Datum::Double(number).order_key(&column).unwrap();
        let expected = match left.partial_cmp(&right) {
            Some(order) => order,
            None => left.is_nan().cmp(&right.is_nan()),
        };
        prop_assert_eq!(key(left).cmp(&key(right)), expected);
        let text = Datum::Double(left).to_text(ColumnType::DoublePrecision);
        let back = read(ColumnType::DoublePrecision, &text).canonical();
        prop_assert_eq!(back, Datum::Double(left).canonical());
    }

    #[test]
    fn texts_order_by_their_bytes(left in ".{0,8}", right in ".{0,8}") {
        let mut wide = column(ColumnType::Text);
        wide.max_bytes = Some(40);
        let key = |text: &str| Datum::Text(text.to_owned()).order_key(&wide).unwrap();
        prop_assert_eq!(key(&left).cmp(&key(&right)), left.as_bytes().cmp(right.as_bytes()));
    }

    #[test]
    fn days_come_back(days in -2_451_545_i32..200_000_000) {
        let text = Datum::Date(days).to_text(ColumnType::Date);
        prop_assert_eq!(read(ColumnType::Date, &text), Datum::Date(days));
    }

    #[test]
    fn moments_come_back(moment in -211_813_488_000_000_000_i64..9_223_371_331_200_000_000) {
        for kind in [ColumnType::Timestamp(None), ColumnType::TimestampTz(None)] {
            let text = Datum::Timestamp(moment).to_text(kind);
            prop_assert_eq!(read(kind, &text), Datum::Timestamp(moment));
        }
    }

    #[test]
    fn decimals_come_back_and_order(
        left in -1_000_000_000_000_000_000_i64..1_000_000_000_000_000_000,
        right in -1_000_000_000_000_000_000_i64..1_000_000_000_000_000_000,
        scale in 0_u32..6,
    ) {
        let kind = ColumnType::Numeric(Some((24, 5)));
        let column = column(kind);
        let number = |unscaled: i64| Datum::Numeric(Numeric::Finite { unscaled: unscaled.into(), scale });
        let (one, two) = (number(left), number(right));
        prop_assert_eq!(one.order_key(&column).unwrap().cmp(&two.order_key(&column).unwrap()), left.cmp(&right));
        prop_assert_eq!(&read(kind, &one.to_text(kind)), &one);
        prop_assert_eq!(&Datum::from_binary(kind, &one.to_binary(kind)).unwrap(), &one);
    }
}

#[test]
fn decimals_of_few_digits_have_keys_of_eight_bytes_for_ciphertexts() {
    let kind = ColumnType::Numeric(Some((18, 2)));
    let column = Encryption { order: Some(Order::Bclo), ..column(kind) };
    let rising: [&[&str]; 9] = [
        &["-Infinity"],
        // More digits than the column stores: beyond all that it does, wherever.
        &["-10000000000000000.00", "-99999999999999999999"],
        &["-9999999999999999.99"],
        &["-0.01"],
        &["0", "-0.00"],
        &["9999999999999999.99"],
        &["10000000000000000", "123456789012345678901234567890"],
        &["Infinity"],
        &["NaN"],
    ];
    let keys = rising.map(|texts| {
        let keys = texts.iter().map(|text| read(kind, text).order_key(&column).unwrap());
        keys.collect::<Vec<_>>()
    });
    assert!(keys.iter().all(|equal| equal.iter().all(|key| key.len() == 8 && *key == equal[0])));
    assert!(keys.is_sorted_by(|one, two| one[0] < two[0]), "{keys:?}");
    let wide = Encryption { order: Some(Order::Mope), ..column.clone() };
    assert_eq!((column.order_key_bytes(), wide.order_key_bytes()), (8, 17), "labels keep their keys");
}
