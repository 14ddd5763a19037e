//! Numbers.

use super::{Value, compare_values, is_nullish, type_of};
use crate::QueryError;
use crate::accumulate::{self, Deviation, NumberSum};
use crate::decimal::{Decimal, Rounding};
use crate::error::location;
use crate::number::{self, Number};
use bson::{Bson, DateTime};
use std::cmp::Ordering;

fn operand(values: &[Value], offset: usize) -> Option<&Bson> {
    values.get(offset).and_then(Option::as_ref)
}

fn null() -> Result<Value, QueryError> {
    Ok(Some(Bson::Null))
}

fn answer(number: Number) -> Result<Value, QueryError> {
    Ok(Some(number::stored(number)))
}

/// The number of an operand; an error that names the operator if it is none.
fn number(operator: &str, value: Option<&Bson>) -> Result<Number, QueryError> {
    value.and_then(number::of).ok_or_else(|| {
        QueryError::type_mismatch(format!(
            "{operator} only supports numeric types, not {}",
            type_of(&value.cloned())
        ))
    })
}

fn shifted(date: DateTime, milliseconds: Number) -> Result<Value, QueryError> {
    let overflow = || QueryError::overflow("date overflow");
    let milliseconds = match milliseconds {
        Number::Int(number) => i64::from(number),
        Number::Long(number) => number,
        rounded => crate::order::as_lossy_i64(&number::stored(to_places(rounded, 0, Rounding::HalfEven)))
            .ok_or_else(overflow)?,
    };
    let millis = date.timestamp_millis().checked_add(milliseconds).ok_or_else(overflow)?;
    Ok(Some(Bson::DateTime(DateTime::from_millis(millis))))
}

pub(super) fn add(values: &[Value]) -> Result<Value, QueryError> {
    let mut sum = NumberSum::new();
    let mut date = None;
    for value in values {
        match value {
            Some(Bson::DateTime(_)) if date.is_some() => {
                return Err(location!(16612, "only one date allowed in an $add expression"));
            }
            Some(Bson::DateTime(given)) => date = Some(*given),
            value if is_nullish(value) => return null(),
            Some(value) if number::of(value).is_some() => accumulate::add_value(&mut sum, value),
            other => {
                return Err(QueryError::type_mismatch(format!(
                    "$add only supports numeric or date types, not {}",
                    type_of(other)
                )));
            }
        }
    }
    let total = accumulate::total(&sum);
    match (date, number::of(&total)) {
        (Some(date), Some(milliseconds)) => shifted(date, milliseconds),
        _ => Ok(Some(total)),
    }
}

/// Falls back on doubles where an int64 would overflow.
fn widening(operation: fn(Number, Number) -> Option<Number>, left: Number, right: Number) -> Number {
    operation(left, right)
        .or_else(|| operation(Number::Double(left.as_f64()), Number::Double(right.as_f64())))
        .unwrap_or(Number::Double(f64::NAN))
}

pub(super) fn subtract(values: &[Value]) -> Result<Value, QueryError> {
    if values.iter().any(is_nullish) {
        return null();
    }
    let (left, right) = (operand(values, 0), operand(values, 1));
    match (left, right) {
        (Some(Bson::DateTime(left)), Some(Bson::DateTime(right))) => {
            let difference = left.timestamp_millis().checked_sub(right.timestamp_millis());
            Ok(Some(Bson::Int64(difference.ok_or_else(|| QueryError::overflow("date overflow"))?)))
        }
        (Some(Bson::DateTime(date)), _) => {
            let amount = number("$subtract", right)?;
            shifted(*date, widening(Number::subtract, Number::Int(0), amount))
        }
        _ => answer(widening(Number::subtract, number("$subtract", left)?, number("$subtract", right)?)),
    }
}

pub(super) fn multiply(values: &[Value]) -> Result<Value, QueryError> {
    let mut product = Number::Int(1);
    for value in values {
        // What comes after the first null is not looked at, number or not.
        if is_nullish(value) {
            return null();
        }
        product = widening(Number::multiply, product, number("$multiply", value.as_ref())?);
    }
    answer(product)
}

fn is_zero(number: Number) -> bool {
    match number {
        Number::Decimal(decimal) => decimal.is_zero(),
        other => other.as_f64() == 0.0,
    }
}

pub(super) fn divide(values: &[Value]) -> Result<Value, QueryError> {
    if values.iter().any(is_nullish) {
        return null();
    }
    let left = number("$divide", operand(values, 0))?;
    let right = number("$divide", operand(values, 1))?;
    if is_zero(right) {
        return Err(QueryError::bad_value("can't $divide by zero"));
    }
    answer(match (left, right) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(left.as_decimal().divide(right.as_decimal()))
        }
        _ => Number::Double(left.as_f64() / right.as_f64()),
    })
}

pub(super) fn modulus(values: &[Value]) -> Result<Value, QueryError> {
    if values.iter().any(is_nullish) {
        return null();
    }
    let left = number("$mod", operand(values, 0))?;
    let right = number("$mod", operand(values, 1))?;
    if is_zero(right) {
        return Err(location!(16610, "can't $mod by zero"));
    }
    let integers = |left: i64, right: i64| Some(left.checked_rem(right).unwrap_or(0));
    answer(left.combine(right, integers, |left, right| left % right, Decimal::remainder).unwrap_or(left))
}

/// Applies `integers`, `doubles` or `decimals` to the one operand; null stays null.
fn unary(
    operator: &str,
    values: &[Value],
    apply: impl FnOnce(Number) -> Result<Number, QueryError>,
) -> Result<Value, QueryError> {
    match values.first() {
        Some(value) if is_nullish(value) => null(),
        _ => answer(apply(number(operator, operand(values, 0))?)?),
    }
}

pub(super) fn abs(values: &[Value]) -> Result<Value, QueryError> {
    unary("$abs", values, |number| {
        Ok(match number {
            Number::Int(value) => {
                value.checked_abs().map_or(Number::Long(i64::from(value.unsigned_abs())), Number::Int)
            }
            Number::Long(value) => Number::Long(
                value.checked_abs().ok_or_else(|| location!(28680, "can't take $abs of long long min"))?,
            ),
            Number::Double(value) => Number::Double(value.abs()),
            Number::Decimal(value) if value.is_negative() => Number::Decimal(value.negated()),
            Number::Decimal(value) => Number::Decimal(value),
        })
    })
}

/// Rounds to decimal places; integers only where places are negative.
fn to_places(number: Number, places: i32, mode: Rounding) -> Number {
    match number {
        Number::Int(_) | Number::Long(_) if places >= 0 => number,
        Number::Int(value) => match integer_to_places(i64::from(value), places, mode) {
            Number::Long(rounded) => i32::try_from(rounded).map_or(Number::Long(rounded), Number::Int),
            other => other,
        },
        Number::Long(value) => integer_to_places(value, places, mode),
        Number::Double(value) if !value.is_finite() => number,
        Number::Double(value) if places == 0 => Number::Double(match mode {
            Rounding::HalfEven => value.round_ties_even(),
            Rounding::TowardZero => value.trunc(),
            Rounding::Floor => value.floor(),
            Rounding::Ceiling => value.ceil(),
        }),
        Number::Double(value) => Number::Double(Decimal::from_f64(value).to_places(places, mode).to_f64()),
        Number::Decimal(value) => Number::Decimal(value.to_places(places, mode)),
    }
}

fn integer_to_places(value: i64, places: i32, mode: Rounding) -> Number {
    let rounded = Decimal::from(value).to_places(places, mode);
    let whole = rounded.truncate_to_i128().and_then(|whole| i64::try_from(whole).ok());
    whole.map_or(Number::Double(rounded.to_f64()), Number::Long)
}

fn rounded(operator: &str, values: &[Value], mode: Rounding) -> Result<Value, QueryError> {
    if values.get(1).is_some_and(is_nullish) {
        return null();
    }
    let places = match operand(values, 1) {
        None => 0,
        Some(places) => crate::order::as_exact_i64(places)
            .and_then(|places| i32::try_from(places).ok())
            .filter(|places| (-20..=100).contains(places))
            .ok_or_else(|| {
                location!(
                    51083,
                    "cannot apply {operator} with precision value {places} value must be in [-20, 100]"
                )
            })?,
    };
    unary(operator, values, |number| Ok(to_places(number, places, mode)))
}

pub(super) fn round(values: &[Value]) -> Result<Value, QueryError> {
    rounded("$round", values, Rounding::HalfEven)
}

pub(super) fn trunc(values: &[Value]) -> Result<Value, QueryError> {
    rounded("$trunc", values, Rounding::TowardZero)
}

pub(super) fn ceil(values: &[Value]) -> Result<Value, QueryError> {
    rounded("$ceil", values, Rounding::Ceiling)
}

pub(super) fn floor(values: &[Value]) -> Result<Value, QueryError> {
    rounded("$floor", values, Rounding::Floor)
}

/// A function computed in doubles. For decimals it would need 34 digits, which no function here has.
fn real(operator: &str, values: &[Value], apply: impl FnOnce(f64) -> f64) -> Result<Value, QueryError> {
    unary(operator, values, |number| match number {
        Number::Decimal(_) => Err(QueryError::unsupported(format!("{operator} of a decimal"))),
        other => Ok(Number::Double(apply(other.as_f64()))),
    })
}

fn is_below(value: Option<&Bson>, limit: f64) -> bool {
    value.and_then(number::of).is_some_and(|number| number.as_f64() < limit)
}

pub(super) fn sqrt(values: &[Value]) -> Result<Value, QueryError> {
    if is_below(operand(values, 0), 0.0) {
        return Err(location!(28714, "$sqrt's argument must be greater than or equal to 0"));
    }
    real("$sqrt", values, f64::sqrt)
}

pub(super) fn exp(values: &[Value]) -> Result<Value, QueryError> {
    real("$exp", values, f64::exp)
}

fn is_positive(value: Option<&Bson>) -> bool {
    value
        .and_then(number::of)
        .is_none_or(|number| number.as_f64().partial_cmp(&0.0) != Some(Ordering::Less) && !is_zero(number))
}

pub(super) fn ln(values: &[Value]) -> Result<Value, QueryError> {
    if !is_positive(operand(values, 0)) {
        return Err(location!(28766, "$ln's argument must be a positive number"));
    }
    real("$ln", values, f64::ln)
}

pub(super) fn log10(values: &[Value]) -> Result<Value, QueryError> {
    if !is_positive(operand(values, 0)) {
        return Err(location!(28761, "$log10's argument must be a positive number"));
    }
    real("$log10", values, f64::log10)
}

pub(super) fn log(values: &[Value]) -> Result<Value, QueryError> {
    if values.iter().any(is_nullish) {
        return null();
    }
    let base = number("$log", operand(values, 1))?;
    if !is_positive(operand(values, 0)) {
        return Err(location!(28758, "$log's argument must be a positive number"));
    }
    if base.as_f64() <= 0.0 || base.as_f64() == 1.0 {
        return Err(location!(28759, "$log's base must be a positive number not equal to 1"));
    }
    real("$log", values, |number| number.ln() / base.as_f64().ln())
}

pub(super) fn pow(values: &[Value]) -> Result<Value, QueryError> {
    if values.iter().any(is_nullish) {
        return null();
    }
    let base = number("$pow", operand(values, 0))?;
    let exponent = number("$pow", operand(values, 1))?;
    if matches!(base, Number::Decimal(_)) || matches!(exponent, Number::Decimal(_)) {
        return Err(QueryError::unsupported("$pow of a decimal"));
    }
    if is_zero(base) && exponent.as_f64() < 0.0 {
        return Err(location!(28764, "$pow cannot take a base of 0 and a negative exponent"));
    }
    let whole =
        match (base.as_integer(), exponent.as_integer().and_then(|exponent| u32::try_from(exponent).ok())) {
            (Some(base), Some(exponent)) => base.checked_pow(exponent),
            _ => None,
        };
    let narrow = matches!((base, exponent), (Number::Int(_), Number::Int(_)));
    answer(match whole {
        Some(whole) => match i32::try_from(whole) {
            Ok(small) if narrow => Number::Int(small),
            _ => Number::Long(whole),
        },
        None => Number::Double(base.as_f64().powf(exponent.as_f64())),
    })
}

/// The values an accumulator works on as an expression: those of a single array, or the arguments.
fn accumulated(values: &[Value]) -> Vec<&Bson> {
    match values {
        [Some(Bson::Array(array))] => array.iter().collect(),
        _ => values.iter().filter_map(Option::as_ref).collect(),
    }
}

pub(super) fn sum(values: &[Value]) -> Result<Value, QueryError> {
    let mut sum = NumberSum::new();
    accumulated(values).into_iter().for_each(|value| accumulate::add_value(&mut sum, value));
    Ok(Some(accumulate::total(&sum)))
}

pub(super) fn avg(values: &[Value]) -> Result<Value, QueryError> {
    let mut sum = NumberSum::new();
    accumulated(values).into_iter().for_each(|value| accumulate::add_value(&mut sum, value));
    Ok(Some(accumulate::mean(&sum)))
}

fn extreme(values: &[Value], wanted: Ordering) -> Result<Value, QueryError> {
    let mut best: Option<&Bson> = None;
    for value in accumulated(values) {
        let better = best.is_none_or(|best| compare_values(Some(value), Some(best)) == wanted);
        if better && !matches!(value, Bson::Null | Bson::Undefined) {
            best = Some(value);
        }
    }
    Ok(Some(best.cloned().unwrap_or(Bson::Null)))
}

pub(super) fn min(values: &[Value]) -> Result<Value, QueryError> {
    extreme(values, Ordering::Less)
}

pub(super) fn max(values: &[Value]) -> Result<Value, QueryError> {
    extreme(values, Ordering::Greater)
}

fn deviation(values: &[Value]) -> Deviation {
    let mut deviation = Deviation::default();
    accumulated(values).into_iter().for_each(|value| deviation.add(value));
    deviation
}

pub(super) fn std_dev_pop(values: &[Value]) -> Result<Value, QueryError> {
    Ok(Some(deviation(values).population()))
}

pub(super) fn std_dev_samp(values: &[Value]) -> Result<Value, QueryError> {
    Ok(Some(deviation(values).sample()))
}
