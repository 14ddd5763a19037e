//! Comparison and negation.

use super::{Value, truthy};
use crate::QueryError;
use crate::order::{self, Class};
use bson::Bson;
use std::cmp::Ordering;

/// Compares in the BSON order; a missing value is less than null.
pub(crate) fn compare_values(left: Option<&Bson>, right: Option<&Bson>) -> Ordering {
    match (left, right) {
        (Some(left), Some(right)) => order::compare(left, right),
        (None, None) => Ordering::Equal,
        (None, Some(right)) => Class::Undefined.cmp(&order::class(right)),
        (Some(left), None) => order::class(left).cmp(&Class::Undefined),
    }
}

fn ordering(values: &[Value]) -> Ordering {
    let operand = |offset: usize| values.get(offset).and_then(Option::as_ref);
    compare_values(operand(0), operand(1))
}

fn answer(flag: bool) -> Result<Value, QueryError> {
    Ok(Some(Bson::Boolean(flag)))
}

pub(super) fn cmp(values: &[Value]) -> Result<Value, QueryError> {
    Ok(Some(Bson::Int32(ordering(values) as i32)))
}

pub(super) fn eq(values: &[Value]) -> Result<Value, QueryError> {
    answer(ordering(values).is_eq())
}

pub(super) fn ne(values: &[Value]) -> Result<Value, QueryError> {
    answer(ordering(values).is_ne())
}

pub(super) fn gt(values: &[Value]) -> Result<Value, QueryError> {
    answer(ordering(values).is_gt())
}

pub(super) fn gte(values: &[Value]) -> Result<Value, QueryError> {
    answer(ordering(values).is_ge())
}

pub(super) fn lt(values: &[Value]) -> Result<Value, QueryError> {
    answer(ordering(values).is_lt())
}

pub(super) fn lte(values: &[Value]) -> Result<Value, QueryError> {
    answer(ordering(values).is_le())
}

pub(super) fn not(values: &[Value]) -> Result<Value, QueryError> {
    answer(!truthy(values.first().and_then(Option::as_ref)))
}
