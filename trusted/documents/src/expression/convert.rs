//! Types and conversions.

use super::{Value, calendar, is_nullish, truthy, type_of};
use crate::QueryError;
use crate::decimal::{self, Decimal};
use crate::number::{self, Number};
use crate::order;
use bson::oid::ObjectId;
use bson::{Bson, DateTime};

pub(super) fn type_name(values: &[Value]) -> Result<Value, QueryError> {
    Ok(Some(Bson::String(type_of(values.first().unwrap_or(&None)).to_owned())))
}

pub(super) fn is_number(values: &[Value]) -> Result<Value, QueryError> {
    let number = values.first().and_then(Option::as_ref).and_then(number::of);
    Ok(Some(Bson::Boolean(number.is_some())))
}

/// Converts the one operand; null stays null.
fn convert(values: &[Value], to: fn(&Bson) -> Result<Bson, QueryError>) -> Result<Value, QueryError> {
    match values.first() {
        Some(Some(value)) if !matches!(value, Bson::Null | Bson::Undefined) => to(value).map(Some),
        _ => Ok(Some(Bson::Null)),
    }
}

/// `$convert` to a type given by alias or number.
pub(super) fn to_type(input: &Value, to: &Value) -> Result<Value, QueryError> {
    if is_nullish(to) {
        return Ok(Some(Bson::Null));
    }
    let values = std::slice::from_ref(input);
    let code = to.as_ref().and_then(order::as_exact_i64);
    match (to, code) {
        (Some(Bson::String(alias)), _) => match alias.as_str() {
            "double" => to_double(values),
            "string" => to_string(values),
            "objectId" => to_object_id(values),
            "bool" => to_bool(values),
            "date" => to_date(values),
            "int" => to_int(values),
            "long" => to_long(values),
            "decimal" => to_decimal(values),
            _ => Err(QueryError::bad_value(format!("Unknown type name: {alias}"))),
        },
        (_, Some(1)) => to_double(values),
        (_, Some(2)) => to_string(values),
        (_, Some(7)) => to_object_id(values),
        (_, Some(8)) => to_bool(values),
        (_, Some(9)) => to_date(values),
        (_, Some(16)) => to_int(values),
        (_, Some(18)) => to_long(values),
        (_, Some(19)) => to_decimal(values),
        _ => Err(QueryError::failed_to_parse("$convert's 'to' argument must be a known type name or number")),
    }
}

fn refused(value: &Bson, to: &str) -> QueryError {
    QueryError::conversion(format!(
        "Unsupported conversion from {} to {to} in $convert with no onError value",
        order::type_name(value)
    ))
}

fn unparsed(text: &str, to: &str) -> QueryError {
    QueryError::conversion(format!(
        "Failed to parse number '{text}' as {to} in $convert with no onError value"
    ))
}

fn out_of_range(value: &Bson) -> QueryError {
    QueryError::conversion(format!(
        "Conversion would overflow target type in $convert with no onError value: {value}"
    ))
}

fn integer(value: &Bson, to: &str) -> Result<i64, QueryError> {
    match value {
        Bson::Boolean(flag) => Ok(i64::from(*flag)),
        Bson::String(text) => text.parse().map_err(|_| unparsed(text, to)),
        Bson::DateTime(date) if to == "long" => Ok(date.timestamp_millis()),
        number if number::of(number).is_some() => {
            order::as_lossy_i64(number).ok_or_else(|| out_of_range(value))
        }
        other => Err(refused(other, to)),
    }
}

pub(super) fn to_int(values: &[Value]) -> Result<Value, QueryError> {
    convert(values, |value| {
        let number = integer(value, "int")?;
        i32::try_from(number).map(Bson::Int32).map_err(|_| out_of_range(value))
    })
}

pub(super) fn to_long(values: &[Value]) -> Result<Value, QueryError> {
    convert(values, |value| integer(value, "long").map(Bson::Int64))
}

pub(super) fn to_double(values: &[Value]) -> Result<Value, QueryError> {
    convert(values, |value| match value {
        Bson::Boolean(flag) => Ok(Bson::Double(f64::from(u8::from(*flag)))),
        Bson::String(text) => parse_double(text).map(Bson::Double).ok_or_else(|| unparsed(text, "double")),
        #[allow(clippy::cast_precision_loss)]
        Bson::DateTime(date) => Ok(Bson::Double(date.timestamp_millis() as f64)),
        other => {
            let number = number::of(other).ok_or_else(|| refused(other, "double"))?;
            let double = number.as_f64();
            let overflows = double.is_infinite()
                && matches!(number, Number::Decimal(decimal) if !matches!(decimal, Decimal::Infinity { .. }));
            if overflows { Err(out_of_range(other)) } else { Ok(Bson::Double(double)) }
        }
    })
}

fn parse_double(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    // "1e999" is out of range; the word is not.
    let spelled = text.trim_start_matches(['+', '-']).starts_with(|first: char| first.is_ascii_alphabetic());
    (number.is_finite() || spelled).then_some(number)
}

pub(super) fn to_decimal(values: &[Value]) -> Result<Value, QueryError> {
    convert(values, |value| {
        let decimal = match value {
            Bson::Boolean(flag) => Decimal::from(i64::from(*flag)),
            Bson::String(text) => decimal::parse(text).ok_or_else(|| unparsed(text, "decimal"))?,
            Bson::DateTime(date) => Decimal::from(date.timestamp_millis()),
            other => number::of(other).ok_or_else(|| refused(other, "decimal"))?.as_decimal(),
        };
        Ok(Bson::Decimal128(decimal::stored(decimal)))
    })
}

pub(super) fn to_bool(values: &[Value]) -> Result<Value, QueryError> {
    convert(values, |value| Ok(Bson::Boolean(truthy(Some(value)))))
}

/// The instant that a text says; where it names no offset, by UTC.
fn parsed(text: &str) -> Option<DateTime> {
    calendar::parse(text)?.instant(calendar::Zone::UTC)
}

pub(super) fn to_date(values: &[Value]) -> Result<Value, QueryError> {
    convert(values, |value| match value {
        Bson::DateTime(_) => Ok(value.clone()),
        Bson::String(text) => parsed(text).map(Bson::DateTime).ok_or_else(|| {
            QueryError::conversion(format!(
                "Error parsing date string '{text}' in $convert with no onError value"
            ))
        }),
        Bson::ObjectId(id) => Ok(Bson::DateTime(id.timestamp())),
        Bson::Timestamp(timestamp) => {
            Ok(Bson::DateTime(DateTime::from_millis(i64::from(timestamp.time) * 1000)))
        }
        Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => order::as_lossy_i64(value)
            .map(|millis| Bson::DateTime(DateTime::from_millis(millis)))
            .ok_or_else(|| out_of_range(value)),
        other => Err(refused(other, "date")),
    })
}

pub(super) fn to_object_id(values: &[Value]) -> Result<Value, QueryError> {
    convert(values, |value| match value {
        Bson::ObjectId(_) => Ok(value.clone()),
        Bson::String(text) => ObjectId::parse_str(text).map(Bson::ObjectId).map_err(|_| {
            QueryError::conversion(format!(
                "Failed to parse objectId '{text}' in $convert with no onError value"
            ))
        }),
        other => Err(refused(other, "objectId")),
    })
}

pub(super) fn to_string(values: &[Value]) -> Result<Value, QueryError> {
    convert(values, |value| {
        Ok(Bson::String(match value {
            Bson::String(text) | Bson::Symbol(text) => text.clone(),
            Bson::Boolean(flag) => flag.to_string(),
            Bson::Int32(number) => number.to_string(),
            Bson::Int64(number) => number.to_string(),
            Bson::Double(number) => double_text(*number),
            Bson::Decimal128(number) => number.to_string(),
            Bson::DateTime(date) => calendar::Moment::at(*date, calendar::Zone::UTC).iso_text(),
            Bson::ObjectId(id) => id.to_hex(),
            other => return Err(refused(other, "string")),
        }))
    })
}

/// A double as MongoDB writes it: shortest digits that read back, no trailing ".0", exponents where C++ has them.
fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-5..1e16).contains(&magnitude) {
        let text = format!("{number:e}");
        // At least two digits of exponent, with a sign.
        return match text.split_once('e') {
            Some((mantissa, exponent)) => {
                let (sign, digits) =
                    exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
                format!("{mantissa}e{sign}{digits:0>2}")
            }
            None => text,
        };
    }
    number.to_string()
}
