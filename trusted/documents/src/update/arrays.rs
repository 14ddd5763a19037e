//! Update operators on arrays.

use super::change::identity;
use crate::filter::{self, Filter, Pattern, Test};
use crate::order::Ordered;
use crate::sort::Sort;
use crate::{QueryError, order};
use bson::{Bson, Document};
use std::collections::BTreeSet;

/// `$push`.
#[derive(Clone, Debug)]
pub(super) struct Push {
    pub(super) values: Vec<Bson>,
    pub(super) position: Option<i64>,
    pub(super) slice: Option<i64>,
    pub(super) sort: Option<PushSort>,
}

#[derive(Clone, Debug)]
pub(super) enum PushSort {
    /// By fields of the elements.
    Fields(Sort),
    /// By the elements themselves.
    Whole { descending: bool },
}

impl Push {
    pub(super) fn apply(
        &self,
        old: Option<&Bson>,
        path: &[String],
        document: &Document,
    ) -> Result<Bson, QueryError> {
        let mut array = match old {
            None => Vec::new(),
            Some(Bson::Array(array)) => array.clone(),
            Some(other) => {
                return Err(QueryError::bad_value(format!(
                    "The field '{}' must be an array but is of type {} in document {}",
                    path.join("."),
                    order::type_name(other),
                    identity(document)
                )));
            }
        };
        let position = self.position.map_or(array.len(), |position| offset(position, array.len()));
        array.splice(position..position, self.values.iter().cloned());
        match &self.sort {
            None => {}
            Some(PushSort::Whole { descending }) => array.sort_by(|left, right| {
                let ordering = order::compare(left, right);
                if *descending { ordering.reverse() } else { ordering }
            }),
            Some(PushSort::Fields(sort)) => array.sort_by(|left, right| {
                let empty = Document::new();
                sort.compare(left.as_document().unwrap_or(&empty), right.as_document().unwrap_or(&empty))
            }),
        }
        if let Some(slice) = self.slice {
            let kept = usize::try_from(slice.unsigned_abs()).unwrap_or(usize::MAX);
            if slice >= 0 {
                array.truncate(kept);
            } else {
                array.drain(..array.len().saturating_sub(kept));
            }
        }
        Ok(Bson::Array(array))
    }
}

/// An offset into an array of `length`, from the end if negative.
fn offset(position: i64, length: usize) -> usize {
    let distance = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
    if position >= 0 { distance.min(length) } else { length.saturating_sub(distance) }
}

pub(super) fn add_to_set(values: &[Bson], old: Option<&Bson>, path: &[String]) -> Result<Bson, QueryError> {
    let mut array = match old {
        None => Vec::new(),
        Some(Bson::Array(array)) => array.clone(),
        Some(other) => {
            return Err(QueryError::bad_value(format!(
                "Cannot apply $addToSet to non-array field. Field named '{}' has non-array type {}",
                path.last().map_or("", String::as_str),
                order::type_name(other)
            )));
        }
    };
    let added: Vec<Bson> = {
        let mut known: BTreeSet<_> = array.iter().map(Ordered).collect();
        values.iter().filter(|value| known.insert(Ordered(value))).cloned().collect()
    };
    array.extend(added);
    Ok(Bson::Array(array))
}

pub(super) fn pop(first: bool, old: Option<&Bson>, path: &[String]) -> Result<Option<Bson>, QueryError> {
    match old {
        None => Ok(None),
        Some(Bson::Array(array)) => {
            let mut array = array.clone();
            if first && !array.is_empty() {
                array.remove(0);
            } else {
                array.pop();
            }
            Ok(Some(Bson::Array(array)))
        }
        Some(other) => Err(QueryError::type_mismatch(format!(
            "Path '{}' contains an element of non-array type '{}'",
            path.join("."),
            order::type_name(other)
        ))),
    }
}

/// Which elements `$pull` removes.
#[derive(Clone, Debug)]
pub(super) enum Pull {
    /// Those equal to a value.
    Equal(Bson),
    /// Documents that pass a filter.
    Filter(Filter),
    /// Strings that match.
    Regex(Pattern),
    /// Those that pass tests.
    Tests(Vec<Test>),
}

impl Pull {
    fn removes(&self, element: &Bson) -> Result<bool, QueryError> {
        match self {
            Pull::Equal(value) => Ok(order::equal(value, element)),
            Pull::Filter(filter) => match element {
                Bson::Document(document) => filter.matches(document),
                _ => Ok(false),
            },
            Pull::Regex(pattern) => Ok(pattern.matches(element)),
            Pull::Tests(tests) => {
                // As at the path of a field that holds the element, so that arrays are looked into.
                for test in tests {
                    if !filter::element_passes(test, element)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    pub(super) fn apply(&self, old: Option<&Bson>) -> Result<Option<Bson>, QueryError> {
        let Some(array) = pulled_array(old)? else {
            return Ok(None);
        };
        let mut kept = Vec::with_capacity(array.len());
        for element in array {
            if !self.removes(element)? {
                kept.push(element.clone());
            }
        }
        Ok(Some(Bson::Array(kept)))
    }
}

pub(super) fn pull_all(values: &[Bson], old: Option<&Bson>) -> Result<Option<Bson>, QueryError> {
    let Some(array) = pulled_array(old)? else {
        return Ok(None);
    };
    let values: BTreeSet<_> = values.iter().map(Ordered).collect();
    let stays = |element: &&Bson| !values.contains(&Ordered(element));
    Ok(Some(Bson::Array(array.iter().filter(stays).cloned().collect())))
}

fn pulled_array(old: Option<&Bson>) -> Result<Option<&Vec<Bson>>, QueryError> {
    match old {
        None => Ok(None),
        Some(Bson::Array(array)) => Ok(Some(array)),
        Some(_) => Err(QueryError::bad_value("Cannot apply $pull to a non-array value")),
    }
}
