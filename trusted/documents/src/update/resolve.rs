//! Update paths, and the exact paths they stand for in a document.

use super::Context;
use crate::{QueryError, order, path};
use bson::{Bson, Document};
use std::cmp::Ordering;

/// A component of an update path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Component {
    /// `$[]`: every element.
    All,
    /// `$[identifier]`: the elements that pass its array filter.
    Matching(String),
    /// A field or an array offset.
    Name(String),
    /// `$`: the element the query matched.
    Positional,
}

/// Reads and checks the path of an update operator.
pub(super) fn parse(text: &str) -> Result<Vec<Component>, QueryError> {
    path::check_depth(text)?;
    let mut components = Vec::new();
    for (position, part) in text.split('.').enumerate() {
        let component = match part {
            "" => {
                let message =
                    format!("The update path '{text}' contains an empty field name, which is not allowed.");
                return Err(QueryError::new(56, "EmptyFieldName", message));
            }
            "$" => Component::Positional,
            "$[]" => Component::All,
            "$ref" | "$id" | "$db" => Component::Name(part.to_owned()),
            _ => match part.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']')) {
                Some(identifier) => Component::Matching(identifier.to_owned()),
                None if part.starts_with('$') => {
                    let message = format!(
                        "The dollar ($) prefixed field '{part}' in '{text}' is not allowed for storage"
                    );
                    return Err(QueryError::new(52, "DollarPrefixedFieldName", message));
                }
                None => Component::Name(part.to_owned()),
            },
        };
        if position == 0 && !matches!(component, Component::Name(_)) {
            return Err(QueryError::bad_value(format!(
                "Cannot have positional (i.e. '$') element in the first position in path '{text}'"
            )));
        }
        components.push(component);
    }
    if components.iter().filter(|component| **component == Component::Positional).count() > 1 {
        return Err(QueryError::bad_value(format!(
            "Too many positional (i.e. '$') elements found in path '{text}'"
        )));
    }
    Ok(components)
}

/// A path as it was written.
pub(super) fn display(components: &[Component]) -> String {
    let parts: Vec<String> = components
        .iter()
        .map(|component| match component {
            Component::All => "$[]".to_owned(),
            Component::Matching(identifier) => format!("$[{identifier}]"),
            Component::Name(name) => name.clone(),
            Component::Positional => "$".to_owned(),
        })
        .collect();
    parts.join(".")
}

/// The order in which changes apply, and so new fields are added: by name, numbers by value.
pub(super) fn compare_paths(left: &[String], right: &[String]) -> Ordering {
    left.iter()
        .zip(right)
        .map(|(left, right)| match (path::offset_of(left), path::offset_of(right)) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left.cmp(right),
        })
        .find(|ordering| ordering.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// Refuses two paths of which one leads to or through the other.
pub(super) fn check_conflicts(mut paths: Vec<Vec<String>>) -> Result<(), QueryError> {
    paths.sort_by(|left, right| compare_paths(left, right));
    for pair in paths.windows(2) {
        if let [shorter, longer] = pair
            && longer.starts_with(shorter)
        {
            return Err(QueryError::conflict(format!(
                "Updating the path '{}' would create a conflict at '{}'",
                longer.join("."),
                shorter.join(".")
            )));
        }
    }
    Ok(())
}

/// The exact paths `components` stand for in `document`.
pub(super) fn resolve(
    components: &[Component],
    document: &Document,
    context: &Context<'_>,
) -> Result<Vec<Vec<String>>, QueryError> {
    let mut paths: Vec<Vec<String>> = vec![Vec::new()];
    for (position, component) in components.iter().enumerate() {
        match component {
            Component::Name(name) => paths.iter_mut().for_each(|path| path.push(name.clone())),
            Component::Positional => {
                let offset = matched_offset(components.get(..position).unwrap_or_default(), context)?;
                paths.iter_mut().for_each(|path| path.push(offset.to_string()));
            }
            Component::All | Component::Matching(_) => {
                let mut extended = Vec::new();
                for path in &paths {
                    elements(path, component, components, document, context, &mut extended)?;
                }
                paths = extended;
            }
        }
    }
    Ok(paths)
}

fn matched_offset(array: &[Component], context: &Context<'_>) -> Result<usize, QueryError> {
    context.filter.and_then(|filter| filter.array_offset(context.original, &display(array))).ok_or_else(
        || QueryError::bad_value("The positional operator did not find the match needed from the query."),
    )
}

fn elements(
    path: &[String],
    component: &Component,
    components: &[Component],
    document: &Document,
    context: &Context<'_>,
    out: &mut Vec<Vec<String>>,
) -> Result<(), QueryError> {
    let array = match path::exact(document, path) {
        Some(Bson::Array(array)) => array,
        Some(other) => {
            return Err(QueryError::bad_value(format!(
                "Cannot apply array updates to non-array element {}: {other} of type {}",
                path.join("."),
                order::type_name(other)
            )));
        }
        None => {
            return Err(QueryError::bad_value(format!(
                "The path '{}' must exist in the document in order to apply array updates.",
                path.join(".")
            )));
        }
    };
    for (offset, element) in array.iter().enumerate() {
        let admitted = match component {
            Component::Matching(identifier) => {
                context.array_filters.admits(identifier, element).ok_or_else(|| {
                    QueryError::bad_value(format!(
                        "No array filter found for identifier '{identifier}' in path '{}'",
                        display(components)
                    ))
                })??
            }
            _ => true,
        };
        if admitted {
            let mut extended = path.to_vec();
            extended.push(offset.to_string());
            out.push(extended);
        }
    }
    Ok(())
}
