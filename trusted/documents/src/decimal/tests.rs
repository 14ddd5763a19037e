#![allow(clippy::unwrap_used)]

use super::*;
use arras_numbers::decimal::{COEFFICIENT_MAX, EXPONENT_MAX, EXPONENT_MIN};
use proptest::prelude::*;

fn parsed(text: &str) -> Decimal {
    parse(text).unwrap()
}

fn shown(value: Decimal) -> String {
    stored(value).to_string()
}

type Operation = fn(Decimal, Decimal) -> Decimal;

#[test]
fn arithmetic_of_the_textbook() {
    let cases: &[(Operation, &str, &str, &str)] = &[
        (Decimal::plus, "0.1", "0.2", "0.3"),
        (Decimal::plus, "1E+40", "1", "1.000000000000000000000000000000000E+40"),
        (Decimal::plus, "9999999999999999999999999999999999", "1", "1.000000000000000000000000000000000E+34"),
        (Decimal::plus, "1000000000000000000000000000000000", "-1E-40", "1000000000000000000000000000000000"),
        (Decimal::plus, "1", "-1.00", "0.00"),
        (Decimal::plus, "Infinity", "-Infinity", "NaN"),
        (Decimal::multiply, "1.5", "-2.0", "-3.00"),
        (
            Decimal::multiply,
            "9999999999999999999999999999999999",
            "9999999999999999999999999999999999",
            "9.999999999999999999999999999999998E+67",
        ),
        (Decimal::multiply, "1E+6000", "1E+6000", "Infinity"),
        (Decimal::multiply, "1E-6000", "1E-6000", "0E-6176"),
        (Decimal::multiply, "0", "Infinity", "NaN"),
        (Decimal::divide, "1", "3", "0.3333333333333333333333333333333333"),
        (Decimal::divide, "2", "3", "0.6666666666666666666666666666666667"),
        (Decimal::divide, "6", "2", "3"),
        (Decimal::divide, "1", "0", "Infinity"),
        (Decimal::divide, "0", "0", "NaN"),
        (Decimal::remainder, "7", "-3", "1"),
        (Decimal::remainder, "-7.5", "2", "-1.5"),
        (Decimal::remainder, "1E+30", "7", "1"),
        (Decimal::remainder, "1", "0", "NaN"),
    ];
    for (operation, left, right, expected) in cases {
        assert_eq!(shown(operation(parsed(left), parsed(right))), *expected, "{left} {right}");
    }
}

#[test]
fn rounding_to_places() {
    for (text, places, mode, expected) in [
        ("2.5", 0, Rounding::HalfEven, "2"),
        ("3.5", 0, Rounding::HalfEven, "4"),
        ("-2.5", 0, Rounding::HalfEven, "-2"),
        ("1.2345", 2, Rounding::HalfEven, "1.23"),
        ("-1.01", 0, Rounding::Floor, "-2"),
        ("-1.01", 0, Rounding::Ceiling, "-1"),
        ("1.99", 0, Rounding::TowardZero, "1"),
        ("1250", -2, Rounding::HalfEven, "1.2E+3"),
    ] {
        assert_eq!(shown(parsed(text).to_places(places, mode)), expected, "{text}");
    }
}

#[test]
fn doubles_convert_both_ways() {
    assert_eq!(shown(Decimal::from_f64_rounded(0.1)), "0.100000000000000");
    assert!(Decimal::from_f64(0.1).compare(parsed("0.1000000000000000055511151231257827")).is_eq());
    assert_eq!(parsed("0.1").to_f64(), 0.1);
    assert_eq!(parsed("1E+400").to_f64(), f64::INFINITY);
    assert_eq!(parsed("1E-400").to_f64(), 0.0);
}

#[test]
fn non_canonical_coefficients_are_zero() {
    let bits: u128 = (0b11 << 125) | (1 << 100);
    let value = of(Decimal128::from_bytes(bits.to_le_bytes()));
    assert!(value.is_zero());
}

proptest! {
    #[test]
    fn bytes_agree_with_the_library(coefficient in 0..=COEFFICIENT_MAX, exponent in EXPONENT_MIN..=EXPONENT_MAX, negative in any::<bool>()) {
        let value = Decimal::Finite { negative, coefficient, exponent };
        prop_assert_eq!(of(stored(value)), value);
        let text = shown(value);
        prop_assert_eq!(parsed(&text), value, "{}", text);
    }

    #[test]
    fn integers_behave_as_integers(a in -1_000_000_000_000_i64..1_000_000_000_000, b in -1_000_000_i64..1_000_000) {
        let (x, y) = (Decimal::from(a), Decimal::from(b));
        prop_assert_eq!(x.plus(y).truncate_to_i128(), Some(i128::from(a + b)));
        prop_assert_eq!(x.multiply(y).truncate_to_i128(), Some(i128::from(a) * i128::from(b)));
        prop_assert_eq!(x.compare(y), a.cmp(&b));
        if b != 0 {
            prop_assert_eq!(x.divide(y).truncate_to_i128(), Some(i128::from(a / b)));
            prop_assert_eq!(x.remainder(y).truncate_to_i128(), Some(i128::from(a % b)));
        }
    }
}
