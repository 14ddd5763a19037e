//! Application of update operators.

use super::Context;
use super::arrays::{self, Pull, Push};
use super::resolve::{self, Component};
use crate::number::{self, Number};
use crate::{QueryError, limits, order, path};
use bson::{Bson, Document};

/// One operator at one path.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) path: Vec<Component>,
    pub(super) operator: Operator,
}

/// What is done to a value.
#[derive(Clone, Debug)]
pub(super) enum Operator {
    AddToSet(Vec<Bson>),
    Bit(Vec<(BitOperator, Bson)>),
    CurrentDate(Bson),
    Increment(Bson),
    Max(Bson),
    Min(Bson),
    Multiply(Bson),
    Pop { first: bool },
    Pull(Pull),
    PullAll(Vec<Bson>),
    Push(Push),
    Rename(Vec<String>),
    Set(Bson),
    SetOnInsert(Bson),
    Unset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BitOperator {
    And,
    Or,
    Xor,
}

pub(super) fn apply_all(
    changes: &[Change],
    document: &mut Document,
    context: &Context<'_>,
) -> Result<(), QueryError> {
    let mut touched = Vec::new();
    let mut made = 0;
    for change in changes {
        if matches!(change.operator, Operator::SetOnInsert(_)) && !context.inserting {
            continue;
        }
        for path in resolve::resolve(&change.path, document, context)? {
            made = padding(document, &path).saturating_mul(size_of::<Bson>()).saturating_add(made);
            apply(&change.operator, &path, document, context)?;
            bound(document, &path, &mut made)?;
            touched.push(path);
        }
    }
    // Names alone were checked when the update was parsed.
    let is_name = |component: &Component| matches!(component, Component::Name(_));
    if changes.iter().all(|change| change.path.iter().all(is_name)) {
        return Ok(());
    }
    resolve::check_conflicts(touched)
}

/// How many places of arrays come before that of a path and are not there.
fn padding(document: &Document, path: &[String]) -> usize {
    let Some((first, rest)) = path.split_first() else { return 0 };
    let mut holder = document.get(first);
    for component in rest {
        holder = match holder {
            Some(Bson::Document(inner)) => inner.get(component),
            Some(Bson::Array(array)) => match path::offset_of(component) {
                Some(offset) if offset > array.len() => return offset - array.len(),
                offset => offset.and_then(|offset| array.get(offset)),
            },
            _ => return 0,
        };
    }
    0
}

/// That what the paths of one update were given, and what was filled in on the way there, is no more than a document may have:
/// before all of it is there.
fn bound(document: &Document, path: &[String], made: &mut usize) -> Result<(), QueryError> {
    let given =
        path::exact(document, path).map_or(Ok(0), |value| limits::value_bytes(value, limits::DEPTH_MAX));
    *made = made.saturating_add(given?);
    if *made <= MADE_BYTES_MAX {
        return Ok(());
    }
    // Counted twice, or taken away again, is not there.
    *made = limits::document_bytes(document, limits::DEPTH_MAX)?;
    if *made <= MADE_BYTES_MAX { Ok(()) } else { Err(limits::too_large(*made)) }
}

/// Bytes that an update may make before the document is measured, and may have then.
const MADE_BYTES_MAX: usize = 2 * limits::DOCUMENT_BYTES_MAX;

fn apply(
    operator: &Operator,
    path: &[String],
    document: &mut Document,
    context: &Context<'_>,
) -> Result<(), QueryError> {
    let old = path::exact(document, path);
    let new = match operator {
        Operator::Set(value) | Operator::SetOnInsert(value) | Operator::CurrentDate(value) => {
            Some(value.clone())
        }
        Operator::Unset => {
            path::unset(document, path);
            None
        }
        Operator::Rename(to) => return rename(path, to, document, context),
        Operator::Increment(by) => Some(arithmetic("$inc", Number::plus, old, by, path, context)?),
        Operator::Multiply(by) => Some(arithmetic("$mul", Number::multiply, old, by, path, context)?),
        Operator::Min(value) => {
            old.is_none_or(|old| order::compare(value, old).is_lt()).then(|| value.clone())
        }
        Operator::Max(value) => {
            old.is_none_or(|old| order::compare(value, old).is_gt()).then(|| value.clone())
        }
        Operator::Bit(operations) => Some(bit(operations, old, path, context)?),
        Operator::AddToSet(values) => Some(arrays::add_to_set(values, old, path)?),
        Operator::Push(push) => Some(push.apply(old, path, context.original)?),
        Operator::Pop { first } => arrays::pop(*first, old, path)?,
        Operator::Pull(pull) => pull.apply(old)?,
        Operator::PullAll(values) => arrays::pull_all(values, old)?,
    };
    match new {
        Some(new) => path::set(document, path, new),
        None => Ok(()),
    }
}

/// `{_id: ...}`, by which messages name a document.
pub(super) fn identity(document: &Document) -> String {
    document.get("_id").map_or_else(|| "{no id}".to_owned(), |id| format!("{{_id: {id}}}"))
}

fn arithmetic(
    name: &str,
    operation: fn(Number, Number) -> Option<Number>,
    old: Option<&Bson>,
    by: &Bson,
    path: &[String],
    context: &Context<'_>,
) -> Result<Bson, QueryError> {
    let by = number::of(by).ok_or_else(|| {
        QueryError::type_mismatch(format!("Cannot apply {name} with a non-numeric argument"))
    })?;
    let Some(old) = old else {
        // A missing field counts as zero: of the operand's type for a product.
        return Ok(number::stored(if name == "$mul" {
            operation(Number::Int(0), by).unwrap_or(by)
        } else {
            by
        }));
    };
    let number = number::of(old).ok_or_else(|| {
        QueryError::type_mismatch(format!(
            "Cannot apply {name} to a value of non-numeric type. {} has the field '{}' of non-numeric type {}",
            identity(context.original),
            path.last().map_or("", String::as_str),
            order::type_name(old)
        ))
    })?;
    operation(number, by).map(number::stored).ok_or_else(|| {
        QueryError::bad_value(format!(
            "Failed to apply {name} operations to current value ({}({old})) for document {}",
            if matches!(old, Bson::Int64(_)) { "NumberLong" } else { "NumberInt" },
            identity(context.original)
        ))
    })
}

fn bit(
    operations: &[(BitOperator, Bson)],
    old: Option<&Bson>,
    path: &[String],
    context: &Context<'_>,
) -> Result<Bson, QueryError> {
    let mut value = old.and_then(number::of).unwrap_or(Number::Int(0));
    if old.is_some_and(|old| !matches!(old, Bson::Int32(_) | Bson::Int64(_))) {
        return Err(QueryError::bad_value(format!(
            "Cannot apply $bit to a value of non-integral type.{} has the field {} of non-integer type {}",
            identity(context.original),
            path.last().map_or("", String::as_str),
            old.map_or("missing", order::type_name)
        )));
    }
    for (operator, operand) in operations {
        let integers: fn(i64, i64) -> Option<i64> = match operator {
            BitOperator::And => |left, right| Some(left & right),
            BitOperator::Or => |left, right| Some(left | right),
            BitOperator::Xor => |left, right| Some(left ^ right),
        };
        if let Some(operand) = number::of(operand) {
            value = value.combine(operand, integers, |left, _| left, |left, _| left).unwrap_or(value);
        }
    }
    Ok(number::stored(value))
}

fn rename(
    from: &[String],
    to: &[String],
    document: &mut Document,
    context: &Context<'_>,
) -> Result<(), QueryError> {
    for (path, which) in [(from, "source"), (to, "destination")] {
        let through_array = (1..path.len()).any(|length| {
            matches!(path::exact(document, path.get(..length).unwrap_or_default()), Some(Bson::Array(_)))
        });
        if through_array {
            return Err(QueryError::bad_value(format!(
                "The {which} field cannot be an array element, '{}' in doc with {} has an array field",
                path.join("."),
                identity(context.original)
            )));
        }
    }
    let Some(value) = path::exact(document, from).cloned() else {
        return Ok(());
    };
    path::unset(document, from);
    path::set(document, to, value)
}
