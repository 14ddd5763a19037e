//! Parsing of updates.

use super::arrays::{Pull, Push, PushSort};
use super::change::{BitOperator, Change, Operator};
use super::resolve::{self, Component};
use crate::filter::{self, Filter, Pattern};
use crate::pipeline::{Pipeline, Stage};
use crate::sort::Sort;
use crate::{QueryError, order};
use bson::{Bson, DateTime, Document, Timestamp};

pub(super) fn check_replacement(replacement: &Document) -> Result<(), QueryError> {
    match replacement.keys().find(|name| name.starts_with('$')) {
        None => Ok(()),
        Some(name) => Err(QueryError::new(
            52,
            "DollarPrefixedFieldName",
            format!("The dollar ($) prefixed field '{name}' in '{name}' is not allowed for storage"),
        )),
    }
}

pub(super) fn pipeline(stages: &[Bson], now: DateTime) -> Result<Pipeline, QueryError> {
    let documents: Option<Vec<Document>> = stages.iter().map(|stage| stage.as_document().cloned()).collect();
    let Some(documents) = documents else {
        return Err(QueryError::type_mismatch("Each element of the 'pipeline' array must be an object"));
    };
    let pipeline = Pipeline::parse_at(&documents, now)?;
    let allowed =
        |stage: &Stage| matches!(stage, Stage::AddFields(_) | Stage::Project(_) | Stage::ReplaceRoot(_));
    if !pipeline.stages().iter().all(allowed) {
        return Err(QueryError::new(
            72,
            "InvalidOptions",
            "only $addFields, $set, $project, $unset, $replaceRoot and $replaceWith are allowed to be used within \
             an update",
        ));
    }
    Ok(pipeline)
}

/// The changes of an operator document, in the order in which they apply.
pub(super) fn changes(operators: &Document, now: DateTime) -> Result<Vec<Change>, QueryError> {
    let mut changes = Vec::new();
    let mut paths = Vec::new();
    for (name, fields) in operators {
        let Some(parse) = operator(name) else {
            return Err(QueryError::failed_to_parse(format!(
                "Unknown modifier: {name}. Expected a valid update modifier or pipeline-style update specified as an \
                 array"
            )));
        };
        let Bson::Document(fields) = fields else {
            return Err(QueryError::failed_to_parse(format!(
                "Modifiers operate on fields but we found type {} instead. For example: {{$mod: {{<field>: ...}}}} \
                 not {{{name}: {fields}}}",
                order::type_name(fields)
            )));
        };
        for (path, operand) in fields {
            let path = resolve::parse(path)?;
            let operator = parse(operand, now)?;
            if let Operator::Rename(to) = &operator {
                if path.iter().any(|component| !matches!(component, Component::Name(_))) {
                    return Err(QueryError::bad_value("The source field for $rename may not be dynamic"));
                }
                paths.push(to.clone());
            }
            paths.push(written(&path));
            changes.push(Change { path, operator });
        }
    }
    changes.sort_by(|left, right| resolve::compare_paths(&written(&left.path), &written(&right.path)));
    resolve::check_conflicts(paths)?;
    Ok(changes)
}

/// A path's components as text.
fn written(path: &[Component]) -> Vec<String> {
    path.iter().map(|component| resolve::display(std::slice::from_ref(component))).collect()
}

type ParseOperator = fn(&Bson, DateTime) -> Result<Operator, QueryError>;

fn operator(name: &str) -> Option<ParseOperator> {
    Some(match name {
        "$set" => |value, _| Ok(Operator::Set(value.clone())),
        "$setOnInsert" => |value, _| Ok(Operator::SetOnInsert(value.clone())),
        "$unset" => |_, _| Ok(Operator::Unset),
        "$inc" => |value, _| Ok(Operator::Increment(number("$inc", "increment", value)?)),
        "$mul" => |value, _| Ok(Operator::Multiply(number("$mul", "multiply", value)?)),
        "$min" => |value, _| Ok(Operator::Min(value.clone())),
        "$max" => |value, _| Ok(Operator::Max(value.clone())),
        "$rename" => |value, _| rename(value),
        "$currentDate" => current_date,
        "$bit" => |value, _| bit(value),
        "$addToSet" => |value, _| add_to_set(value),
        "$push" => |value, _| push(value),
        "$pop" => |value, _| pop(value),
        "$pull" => |value, _| pull(value),
        "$pullAll" => |value, _| match value {
            Bson::Array(values) => Ok(Operator::PullAll(values.clone())),
            other => Err(QueryError::bad_value(format!(
                "$pullAll requires an array argument but was given a {}",
                order::type_name(other)
            ))),
        },
        _ => return None,
    })
}

fn number(name: &str, verb: &str, value: &Bson) -> Result<Bson, QueryError> {
    match order::class(value) {
        order::Class::Number => Ok(value.clone()),
        _ => Err(QueryError::type_mismatch(format!(
            "Cannot {verb} with non-numeric argument: {{{name}: {value}}}"
        ))),
    }
}

fn rename(value: &Bson) -> Result<Operator, QueryError> {
    let Bson::String(to) = value else {
        return Err(QueryError::bad_value(format!("The 'to' field for $rename must be a string: {value}")));
    };
    let components = resolve::parse(to)?;
    if components.iter().any(|component| !matches!(component, Component::Name(_))) {
        return Err(QueryError::bad_value("The destination field for $rename may not be dynamic"));
    }
    Ok(Operator::Rename(written(&components)))
}

fn current_date(value: &Bson, now: DateTime) -> Result<Operator, QueryError> {
    let wanted = match value {
        Bson::Boolean(_) => Some("date"),
        Bson::Document(inner) if inner.len() == 1 => inner.get_str("$type").ok(),
        Bson::Document(_) => None,
        other => {
            return Err(QueryError::bad_value(format!(
                "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type expression \
                 ({{$type: 'timestamp/date'}}).",
                order::type_name(other)
            )));
        }
    };
    match wanted {
        Some("date") => Ok(Operator::CurrentDate(Bson::DateTime(now))),
        Some("timestamp") => {
            let time = u32::try_from(now.timestamp_millis().div_euclid(1000)).unwrap_or(0);
            Ok(Operator::CurrentDate(Bson::Timestamp(Timestamp { time, increment: 1 })))
        }
        _ => Err(QueryError::bad_value(
            "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: \
             'date'}}}",
        )),
    }
}

fn bit(value: &Bson) -> Result<Operator, QueryError> {
    let Bson::Document(operations) = value else {
        return Err(QueryError::bad_value(format!(
            "The $bit modifier is not compatible with a {}. You must pass in an embedded document: {{$bit: {{field: \
             {{and/or/xor: #}}}}",
            order::type_name(value)
        )));
    };
    let mut parsed = Vec::with_capacity(operations.len());
    for (name, operand) in operations {
        let operator = match name.as_str() {
            "and" => BitOperator::And,
            "or" => BitOperator::Or,
            "xor" => BitOperator::Xor,
            _ => {
                return Err(QueryError::bad_value(format!(
                    "The $bit modifier only supports 'and', 'or', and 'xor', not '{name}' which is an unknown operator"
                )));
            }
        };
        if !matches!(operand, Bson::Int32(_) | Bson::Int64(_)) {
            return Err(QueryError::bad_value(format!(
                "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported here",
                order::type_name(operand)
            )));
        }
        parsed.push((operator, operand.clone()));
    }
    if parsed.is_empty() {
        return Err(QueryError::bad_value(
            "You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}",
        ));
    }
    Ok(Operator::Bit(parsed))
}

fn each<'v>(name: &str, value: &'v Bson) -> Result<&'v Vec<Bson>, QueryError> {
    match value {
        Bson::Array(values) => Ok(values),
        other => Err(QueryError::type_mismatch(format!(
            "The argument to $each in {name} must be an array but it was of type {}",
            order::type_name(other)
        ))),
    }
}

fn add_to_set(value: &Bson) -> Result<Operator, QueryError> {
    match value {
        Bson::Document(inner) if inner.keys().next().is_some_and(|name| name == "$each") => {
            if let Some(other) = inner.keys().nth(1) {
                return Err(QueryError::bad_value(format!(
                    "Found unexpected fields after $each in $addToSet: {other}"
                )));
            }
            Ok(Operator::AddToSet(each("$addToSet", inner.get("$each").unwrap_or(&Bson::Null))?.clone()))
        }
        single => Ok(Operator::AddToSet(vec![single.clone()])),
    }
}

fn push(value: &Bson) -> Result<Operator, QueryError> {
    let modifiers = match value {
        Bson::Document(inner) if inner.contains_key("$each") => inner,
        single => {
            let push = Push { values: vec![single.clone()], position: None, slice: None, sort: None };
            return Ok(Operator::Push(push));
        }
    };
    let integer = |name: &str, value: &Bson| {
        order::as_exact_i64(value).ok_or_else(|| {
            QueryError::bad_value(format!(
                "The value for {name} must be an integer value, not of type: {}",
                { order::type_name(value) }
            ))
        })
    };
    let mut push = Push { values: Vec::new(), position: None, slice: None, sort: None };
    for (name, value) in modifiers {
        match name.as_str() {
            "$each" => push.values = each("$push", value)?.clone(),
            "$position" => push.position = Some(integer(name, value)?),
            "$slice" => push.slice = Some(integer(name, value)?),
            "$sort" => push.sort = Some(push_sort(value)?),
            _ => {
                return Err(QueryError::bad_value(format!("Unrecognized clause in $push: {name}")));
            }
        }
    }
    Ok(Operator::Push(push))
}

fn push_sort(value: &Bson) -> Result<PushSort, QueryError> {
    match (value, order::as_exact_i64(value)) {
        (Bson::Document(fields), _) => Ok(PushSort::Fields(Sort::of_elements(fields)?)),
        (_, Some(1)) => Ok(PushSort::Whole { descending: false }),
        (_, Some(-1)) => Ok(PushSort::Whole { descending: true }),
        _ => Err(QueryError::bad_value("The $sort element value must be either 1 or -1, or a sort pattern")),
    }
}

fn pop(value: &Bson) -> Result<Operator, QueryError> {
    match order::as_exact_i64(value) {
        Some(1) => Ok(Operator::Pop { first: false }),
        Some(-1) => Ok(Operator::Pop { first: true }),
        _ => Err(QueryError::failed_to_parse(format!("$pop expects 1 or -1, found: {value}"))),
    }
}

fn pull(value: &Bson) -> Result<Operator, QueryError> {
    Ok(Operator::Pull(match value {
        Bson::Document(condition)
            if filter::is_operators(condition)
                && !condition.keys().next().is_some_and(|first| filter::is_of_documents(first)) =>
        {
            Pull::Tests(filter::tests("", condition)?)
        }
        Bson::Document(condition) => Pull::Filter(Filter::of_updated(condition)?),
        Bson::RegularExpression(regex) => {
            Pull::Regex(Pattern::new(regex.pattern.as_str(), regex.options.as_str())?)
        }
        other => Pull::Equal(other.clone()),
    }))
}
