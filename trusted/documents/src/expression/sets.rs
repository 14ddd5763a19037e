//! Arrays as sets.

use super::{Value, is_nullish, truthy, type_of};
use crate::error::location;
use crate::order::Ordered;
use crate::{QueryError, order};
use bson::Bson;
use std::collections::BTreeSet;

/// The distinct elements in BSON order.
fn set(values: &[Bson]) -> Vec<Bson> {
    let mut set = values.to_vec();
    set.sort_by(order::compare);
    set.dedup_by(|left, right| order::equal(left, right));
    set
}

fn has(set: &[Bson], value: &Bson) -> bool {
    set.binary_search_by(|known| order::compare(known, value)).is_ok()
}

/// The sets of all operands; none if one is null.
fn sets(operator: &str, values: &[Value]) -> Result<Option<Vec<Vec<Bson>>>, QueryError> {
    let mut parsed = Vec::with_capacity(values.len());
    for value in values {
        match value {
            Some(Bson::Array(array)) => parsed.push(set(array)),
            value if is_nullish(value) => return Ok(None),
            other => {
                return Err(location!(
                    17047,
                    "All operands of {operator} must be arrays. One argument is of type: {}",
                    type_of(other)
                ));
            }
        }
    }
    Ok(Some(parsed))
}

pub(super) fn union(values: &[Value]) -> Result<Value, QueryError> {
    let union = sets("$setUnion", values)?.map(|sets| set(&sets.concat()));
    Ok(Some(union.map_or(Bson::Null, Bson::Array)))
}

pub(super) fn intersection(values: &[Value]) -> Result<Value, QueryError> {
    let Some(sets) = sets("$setIntersection", values)? else {
        return Ok(Some(Bson::Null));
    };
    let Some((first, rest)) = sets.split_first() else {
        return Ok(Some(Bson::Array(Vec::new())));
    };
    let shared = first.iter().filter(|value| rest.iter().all(|set| has(set, value)));
    Ok(Some(Bson::Array(shared.cloned().collect())))
}

pub(super) fn difference(values: &[Value]) -> Result<Value, QueryError> {
    let Some(sets) = sets("$setDifference", values)? else {
        return Ok(Some(Bson::Null));
    };
    match (values.first(), sets.as_slice()) {
        (Some(Some(Bson::Array(first))), [_, second]) => {
            // The order of the first operand stays.
            let mut known = BTreeSet::new();
            let kept = first.iter().filter(|value| !has(second, value) && known.insert(Ordered(*value)));
            Ok(Some(Bson::Array(kept.cloned().collect())))
        }
        _ => Ok(Some(Bson::Null)),
    }
}

/// Refuses null where an operator wants arrays only.
fn strict(operator: &str, values: &[Value]) -> Result<Vec<Vec<Bson>>, QueryError> {
    sets(operator, values)?
        .ok_or_else(|| location!(17046, "All operands of {operator} must be arrays. One argument is null"))
}

pub(super) fn equals(values: &[Value]) -> Result<Value, QueryError> {
    let sets = strict("$setEquals", values)?;
    let same = sets.windows(2).all(|pair| match pair {
        [left, right] => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| order::equal(left, right))
        }
        _ => true,
    });
    Ok(Some(Bson::Boolean(same)))
}

pub(super) fn is_subset(values: &[Value]) -> Result<Value, QueryError> {
    let sets = strict("$setIsSubset", values)?;
    let subset = match sets.as_slice() {
        [left, right] => left.iter().all(|value| has(right, value)),
        _ => false,
    };
    Ok(Some(Bson::Boolean(subset)))
}

fn elements<'v>(operator: &str, values: &'v [Value]) -> Result<&'v [Bson], QueryError> {
    match values.first() {
        Some(Some(Bson::Array(array))) => Ok(array),
        other => Err(location!(
            17041,
            "{operator}'s argument must be an array, but is {}",
            other.map_or("missing", type_of)
        )),
    }
}

pub(super) fn any_true(values: &[Value]) -> Result<Value, QueryError> {
    let any = elements("$anyElementTrue", values)?.iter().any(|element| truthy(Some(element)));
    Ok(Some(Bson::Boolean(any)))
}

pub(super) fn all_true(values: &[Value]) -> Result<Value, QueryError> {
    let all = elements("$allElementsTrue", values)?.iter().all(|element| truthy(Some(element)));
    Ok(Some(Bson::Boolean(all)))
}
