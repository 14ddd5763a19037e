//! Arrays.

use super::{Value, is_nullish, truthy, type_of};
use crate::error::location;
use crate::pipeline::MEMORY_BYTES_MAX;
use crate::{QueryError, limits, order};
use bson::Bson;

fn operand(values: &[Value], offset: usize) -> Option<&Bson> {
    values.get(offset).and_then(Option::as_ref)
}

fn null() -> Result<Value, QueryError> {
    Ok(Some(Bson::Null))
}

fn owned(value: Option<&Bson>) -> Value {
    value.cloned()
}

fn int(value: usize) -> Bson {
    i32::try_from(value).map_or_else(|_| Bson::Int64(i64::try_from(value).unwrap_or(i64::MAX)), Bson::Int32)
}

pub(super) fn size(values: &[Value]) -> Result<Value, QueryError> {
    match operand(values, 0) {
        Some(Bson::Array(array)) => Ok(Some(int(array.len()))),
        other => Err(location!(
            17124,
            "The argument to $size must be an array, but was of type: {}",
            type_of(&owned(other))
        )),
    }
}

pub(super) fn is_array(values: &[Value]) -> Result<Value, QueryError> {
    Ok(Some(Bson::Boolean(matches!(operand(values, 0), Some(Bson::Array(_))))))
}

/// An element by its offset, from the end if negative; missing if out of bounds.
fn at(array: &[Bson], position: i64) -> Value {
    let length = i64::try_from(array.len()).ok()?;
    let offset = if position < 0 { position.checked_add(length)? } else { position };
    array.get(usize::try_from(offset).ok()?).cloned()
}

pub(super) fn element_at(values: &[Value]) -> Result<Value, QueryError> {
    if values.iter().any(is_nullish) {
        return null();
    }
    let Some(Bson::Array(array)) = operand(values, 0) else {
        return Err(location!(
            28689,
            "$arrayElemAt's first argument must be an array, but is {}",
            type_of(&owned(operand(values, 0)))
        ));
    };
    let position = operand(values, 1).and_then(order::as_exact_i64).ok_or_else(|| {
        location!(
            28690,
            "$arrayElemAt's second argument must be a numeric value, but is {}",
            type_of(&owned(operand(values, 1)))
        )
    })?;
    Ok(at(array, position))
}

fn end(operator: &str, values: &[Value], position: i64) -> Result<Value, QueryError> {
    match operand(values, 0) {
        Some(Bson::Array(array)) => Ok(at(array, position)),
        other if is_nullish(&owned(other)) => null(),
        other => {
            Err(location!(28689, "{operator}'s argument must be an array, but is {}", type_of(&owned(other))))
        }
    }
}

pub(super) fn first(values: &[Value]) -> Result<Value, QueryError> {
    end("$first", values, 0)
}

pub(super) fn last(values: &[Value]) -> Result<Value, QueryError> {
    end("$last", values, -1)
}

pub(super) fn concat(values: &[Value]) -> Result<Value, QueryError> {
    let mut joined = Vec::new();
    for value in values {
        match value {
            Some(Bson::Array(array)) => joined.extend(array.iter().cloned()),
            value if is_nullish(value) => return null(),
            other => {
                return Err(location!(28664, "$concatArrays only supports arrays, not {}", type_of(other)));
            }
        }
    }
    Ok(Some(Bson::Array(joined)))
}

pub(super) fn contains(values: &[Value]) -> Result<Value, QueryError> {
    let Some(Bson::Array(array)) = operand(values, 1) else {
        return Err(location!(
            40081,
            "$in requires an array as a second argument, found: {}",
            type_of(&owned(operand(values, 1)))
        ));
    };
    // A missing value is in no array.
    let found =
        operand(values, 0).is_some_and(|value| array.iter().any(|element| order::equal(element, value)));
    Ok(Some(Bson::Boolean(found)))
}

pub(super) fn index_of(values: &[Value]) -> Result<Value, QueryError> {
    let array = match operand(values, 0) {
        Some(Bson::Array(array)) => array,
        other if is_nullish(&owned(other)) => return null(),
        other => {
            return Err(location!(
                40090,
                "$indexOfArray requires an array as a first argument, found: {}",
                type_of(&owned(other))
            ));
        }
    };
    let start = bound("$indexOfArray", operand(values, 2), 0)?;
    let stop = bound("$indexOfArray", operand(values, 3), array.len())?.min(array.len());
    let position = operand(values, 1).and_then(|wanted| {
        array.iter().take(stop).enumerate().skip(start).find(|(_, element)| order::equal(element, wanted))
    });
    Ok(Some(position.map_or(Bson::Int32(-1), |(offset, _)| int(offset))))
}

/// An offset that bounds a search.
pub(super) fn bound(operator: &str, value: Option<&Bson>, default: usize) -> Result<usize, QueryError> {
    let Some(value) = value else { return Ok(default) };
    order::as_exact_i64(value).and_then(|offset| usize::try_from(offset).ok()).ok_or_else(|| {
        location!(40096, "{operator} requires an integral, nonnegative start and end, found: {value}")
    })
}

pub(super) fn range(values: &[Value]) -> Result<Value, QueryError> {
    let integer = |offset: usize| -> Result<i64, QueryError> {
        let value = operand(values, offset);
        value.and_then(order::as_exact_i64).filter(|number| i32::try_from(*number).is_ok()).ok_or_else(|| {
            location!(34443, "$range requires 32-bit integers, found: {}", type_of(&owned(value)))
        })
    };
    let (start, stop) = (integer(0)?, integer(1)?);
    let step = if values.len() > 2 { integer(2)? } else { 1 };
    if step == 0 {
        return Err(location!(34449, "$range requires a non-zero step value"));
    }
    let count = ((stop - start) / step).max(0).unsigned_abs();
    if count.saturating_mul(16) > MEMORY_BYTES_MAX as u64 {
        return Err(QueryError::new(146, "ExceededMemoryLimit", "$range would use too much memory"));
    }
    let mut numbers = Vec::new();
    let mut next = start;
    while (step > 0 && next < stop) || (step < 0 && next > stop) {
        numbers.push(i32::try_from(next).map_or(Bson::Int64(next), Bson::Int32));
        next += step;
    }
    Ok(Some(Bson::Array(numbers)))
}

pub(super) fn reverse(values: &[Value]) -> Result<Value, QueryError> {
    match operand(values, 0) {
        Some(Bson::Array(array)) => Ok(Some(Bson::Array(array.iter().rev().cloned().collect()))),
        other if is_nullish(&owned(other)) => null(),
        other => Err(location!(
            34435,
            "The argument to $reverseArray must be an array, but was of type: {}",
            type_of(&owned(other))
        )),
    }
}

pub(super) fn slice(values: &[Value]) -> Result<Value, QueryError> {
    if values.iter().any(is_nullish) {
        return null();
    }
    let Some(Bson::Array(array)) = operand(values, 0) else {
        return Err(location!(
            28724,
            "First argument to $slice must be an array, but is of type: {}",
            type_of(&owned(operand(values, 0)))
        ));
    };
    let integer = |value: Option<&Bson>| {
        value.and_then(order::as_exact_i64).ok_or_else(|| {
            location!(28725, "$slice takes integral arguments, found: {}", type_of(&owned(value)))
        })
    };
    let second = integer(operand(values, 1))?;
    let (position, count) = match operand(values, 2) {
        Some(third) => {
            let count = integer(Some(third))?;
            if count <= 0 {
                return Err(location!(28729, "Third argument to $slice must be positive: {count}"));
            }
            (second, count)
        }
        None if second >= 0 => (0, second),
        None => (second, second.saturating_neg()),
    };
    Ok(Some(Bson::Array(part(array, position, count).to_vec())))
}

/// At most `count` elements from `position`, which counts from the end if negative.
pub(crate) fn part(array: &[Bson], position: i64, count: i64) -> &[Bson] {
    let distance = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
    let start = if position >= 0 { distance.min(array.len()) } else { array.len().saturating_sub(distance) };
    let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    array.get(start..start.saturating_add(count).min(array.len())).unwrap_or_default()
}

pub(super) fn zip(values: &[Value]) -> Result<Value, QueryError> {
    let inputs = match operand(values, 0) {
        Some(Bson::Array(inputs)) => inputs,
        other if is_nullish(&owned(other)) => return null(),
        other => {
            return Err(location!(
                34461,
                "inputs must be an array of expressions, found {}",
                type_of(&owned(other))
            ));
        }
    };
    let mut arrays: Vec<&Vec<Bson>> = Vec::with_capacity(inputs.len());
    for input in inputs {
        match input {
            Bson::Array(array) => arrays.push(array),
            Bson::Null | Bson::Undefined => return null(),
            other => {
                return Err(location!(
                    34468,
                    "$zip found a non-array expression in input: {}",
                    order::type_name(other)
                ));
            }
        }
    }
    let lengths = arrays.iter().map(|array| array.len());
    let length = if truthy(operand(values, 1)) { lengths.max() } else { lengths.min() }.unwrap_or(0);
    let default = |column: usize| match operand(values, 2) {
        Some(Bson::Array(defaults)) => defaults.get(column).cloned().unwrap_or(Bson::Null),
        _ => Bson::Null,
    };
    let mut bytes = 0_usize;
    let mut cell = |offset: usize, (column, array): (usize, &&Vec<Bson>)| {
        let cell = array.get(offset).cloned().unwrap_or_else(|| default(column));
        bytes = bytes.saturating_add(limits::value_bytes(&cell, limits::DEPTH_MAX)?).saturating_add(1);
        if bytes > MEMORY_BYTES_MAX {
            return Err(QueryError::memory(format!(
                "$zip computed more than {MEMORY_BYTES_MAX} bytes for one document"
            )));
        }
        Ok(cell)
    };
    let row = |offset: usize| {
        arrays.iter().enumerate().map(|column| cell(offset, column)).collect::<Result<_, _>>()
    };
    let rows = (0..length).map(row).map(|row| row.map(Bson::Array));
    Ok(Some(Bson::Array(rows.collect::<Result<_, QueryError>>()?)))
}
