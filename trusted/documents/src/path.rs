//! Values at a dotted path: reading with MongoDB's array traversal, writing without it.

use crate::QueryError;
use crate::error::location;
use bson::{Bson, Document};

/// Most components of a path: deeper ones could not be stored ([`crate::limits::DEPTH_MAX`]).
pub const COMPONENTS_MAX: usize = crate::limits::DEPTH_MAX;

/// How far an array may be extended with nulls to set an element past its end.
const BACKFILL_MAX: usize = 1_500_000;

/// Checks a path of a sort, projection or update: no empty component, no more than [`COMPONENTS_MAX`].
///
/// # Errors
/// 15998 for an empty component, 40352 for nothing at all, 40353 for a dot at its end, 15 `Overflow` for too many.
pub fn check(path: &str) -> Result<(), QueryError> {
    if path.is_empty() {
        return Err(location!(40352, "FieldPath cannot be constructed with empty string"));
    }
    if path.ends_with('.') {
        return Err(location!(40353, "FieldPath must not end with a '.'."));
    }
    if path.split('.').any(str::is_empty) {
        return Err(location!(15998, "FieldPath field names may not be empty strings: '{path}'"));
    }
    check_depth(path)
}

/// Checks only that a path has no more than [`COMPONENTS_MAX`] components (filters allow empty ones).
pub(crate) fn check_depth(path: &str) -> Result<(), QueryError> {
    if path.split('.').count() > COMPONENTS_MAX {
        return Err(QueryError::overflow(format!("a path may have at most {COMPONENTS_MAX} components")));
    }
    Ok(())
}

/// What to do with an array that the whole path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafArray {
    /// Visit its elements, then the array itself.
    Elements,
    /// Visit the array only.
    Whole,
}

/// A value found at a path.
#[derive(Clone, Copy, Debug)]
pub struct Found<'d> {
    /// The value; none where the path leads into a document that lacks it.
    pub value: Option<&'d Bson>,
    /// Offset of the element through which the outermost array was entered without being named by the path:
    /// what the positional operator `$` of an update stands for.
    pub array_offset: Option<usize>,
}

/// Visits the values at `path` as a filter sees them until `visit` returns true; returns whether it did.
///
/// Arrays on the way are entered: their documents are searched for the rest of the path, and a numeric
/// component also names an offset. An array on the way without documents yields nothing, not even "missing".
pub fn any<'d>(
    document: &'d Document,
    path: &str,
    leaf: LeafArray,
    visit: &mut dyn FnMut(Found<'d>) -> bool,
) -> bool {
    any_in_document(document, path, leaf, None, visit)
}

fn any_in_document<'d>(
    document: &'d Document,
    path: &str,
    leaf: LeafArray,
    array_offset: Option<usize>,
    visit: &mut dyn FnMut(Found<'d>) -> bool,
) -> bool {
    let mut document = document;
    let mut rest = path;
    loop {
        let (name, after) = match rest.split_once('.') {
            Some((name, after)) => (name, Some(after)),
            None => (rest, None),
        };
        let value = document.get(name);
        match (value, after) {
            (Some(Bson::Array(array)), None) if leaf == LeafArray::Elements => {
                let entered = array.iter().enumerate().any(|(offset, element)| {
                    visit(Found { value: Some(element), array_offset: array_offset.or(Some(offset)) })
                });
                return entered || visit(Found { value, array_offset });
            }
            (_, None) => return visit(Found { value, array_offset }),
            (Some(Bson::Document(inner)), Some(after)) => {
                document = inner;
                rest = after;
            }
            (Some(Bson::Array(array)), Some(after)) => {
                return any_in_array(array, after, leaf, array_offset, visit);
            }
            (_, Some(_)) => {
                return visit(Found { value: None, array_offset });
            }
        }
    }
}

fn any_in_array<'d>(
    array: &'d [Bson],
    path: &str,
    leaf: LeafArray,
    array_offset: Option<usize>,
    visit: &mut dyn FnMut(Found<'d>) -> bool,
) -> bool {
    let (name, after) = match path.split_once('.') {
        Some((name, after)) => (name, Some(after)),
        None => (path, None),
    };
    let named = offset_of(name);
    array.iter().enumerate().any(|(offset, element)| {
        if let Bson::Document(inner) = element
            && any_in_document(inner, path, leaf, array_offset.or(Some(offset)), visit)
        {
            return true;
        }
        if named != Some(offset) {
            return false;
        }
        match (element, after) {
            (_, None) => visit(Found { value: Some(element), array_offset }),
            (Bson::Document(inner), Some(after)) => any_in_document(inner, after, leaf, array_offset, visit),
            (Bson::Array(inner), Some(after)) => any_in_array(inner, after, leaf, array_offset, visit),
            _ => false,
        }
    })
}

/// Visits the values an index on `path` holds for `document`: elements of arrays one by one (multikey), an
/// empty array as `Undefined`, a missing value as none. Every value a filter may find at the path is visited,
/// but for whole arrays, of which only the elements are.
pub fn visit_index_values<'d>(document: &'d Document, path: &str, visit: &mut dyn FnMut(Option<&'d Bson>)) {
    // The traversal is the filter's, so that an index never knows less than a filter.
    let mut count = 0_usize;
    any(document, path, LeafArray::Whole, &mut |found| {
        count += 1;
        match found.value {
            Some(Bson::Array(array)) if array.is_empty() => visit(Some(&Bson::Undefined)),
            Some(Bson::Array(array)) => array.iter().for_each(|element| visit(Some(element))),
            other => visit(other),
        }
        false
    });
    if count == 0 {
        visit(None);
    }
}

/// The array offset a path component names, if it is one: decimal digits without leading zeros.
pub fn offset_of(component: &str) -> Option<usize> {
    let canonical = component == "0" || !component.starts_with('0');
    if canonical && !component.is_empty() && component.bytes().all(|byte| byte.is_ascii_digit()) {
        component.parse().ok()
    } else {
        None
    }
}

/// The value at a path whose components name fields and offsets exactly; arrays are not entered implicitly.
pub fn exact<'d>(document: &'d Document, path: &[impl AsRef<str>]) -> Option<&'d Bson> {
    let (first, rest) = path.split_first()?;
    let mut value = document.get(first.as_ref())?;
    for component in rest {
        value = match value {
            Bson::Document(inner) => inner.get(component.as_ref())?,
            Bson::Array(array) => array.get(offset_of(component.as_ref())?)?,
            _ => return None,
        };
    }
    Some(value)
}

/// Sets the value at an exact path, making documents on the way and extending arrays with nulls.
///
/// # Errors
/// 28 `PathNotViable` if a value on the way is neither document nor array or an array is asked for a name;
/// 34 `CannotBackfillArray` if an array would be extended by more than 1,500,000 elements.
pub fn set(document: &mut Document, path: &[impl AsRef<str>], value: Bson) -> Result<(), QueryError> {
    let Some((first, rest)) = path.split_first() else {
        return Ok(());
    };
    let first = first.as_ref();
    if rest.is_empty() {
        document.insert(first, value);
        return Ok(());
    }
    if !document.contains_key(first) {
        document.insert(first, Document::new());
    }
    let Some(mut slot) = document.get_mut(first) else {
        return Ok(());
    };
    let mut name = first;
    for component in rest {
        let component = component.as_ref();
        slot = step(slot, name, component)?;
        name = component;
    }
    *slot = value;
    Ok(())
}

/// The slot for `component` inside `holder`, made if it is not there.
fn step<'d>(holder: &'d mut Bson, name: &str, component: &str) -> Result<&'d mut Bson, QueryError> {
    // A slot made on the way starts as null and becomes a document when a later component enters it.
    if matches!(holder, Bson::Undefined) {
        *holder = Bson::Document(Document::new());
    }
    match holder {
        Bson::Document(inner) => {
            if !inner.contains_key(component) {
                inner.insert(component, Bson::Undefined);
            }
            inner.get_mut(component).ok_or_else(|| QueryError::path_not_viable(component))
        }
        Bson::Array(array) => {
            let Some(offset) = offset_of(component) else {
                let shown = Bson::Array(array.clone());
                return Err(not_viable(component, name, &shown));
            };
            if offset >= array.len() {
                if offset - array.len() > BACKFILL_MAX {
                    return Err(QueryError::new(
                        34,
                        "CannotBackfillArray",
                        format!("can't backfill more than {BACKFILL_MAX} elements"),
                    ));
                }
                array.resize(offset, Bson::Null);
                array.push(Bson::Undefined);
            }
            array.get_mut(offset).ok_or_else(|| QueryError::path_not_viable(component))
        }
        other => Err(not_viable(component, name, other)),
    }
}

fn not_viable(component: &str, name: &str, holder: &Bson) -> QueryError {
    QueryError::path_not_viable(format!("Cannot create field '{component}' in element {{{name}: {holder}}}"))
}

/// Removes the value at an exact path. A field is removed, an array element becomes null. True if there was one.
pub fn unset(document: &mut Document, path: &[impl AsRef<str>]) -> bool {
    let Some((last, parents)) = path.split_last() else {
        return false;
    };
    let Some((first, rest)) = parents.split_first() else {
        return document.remove(last.as_ref()).is_some();
    };
    let Some(mut slot) = document.get_mut(first.as_ref()) else {
        return false;
    };
    for component in rest {
        let next = match slot {
            Bson::Document(inner) => inner.get_mut(component.as_ref()),
            Bson::Array(array) => offset_of(component.as_ref()).and_then(|offset| array.get_mut(offset)),
            _ => None,
        };
        match next {
            Some(next) => slot = next,
            None => return false,
        }
    }
    match slot {
        Bson::Document(inner) => inner.remove(last.as_ref()).is_some(),
        Bson::Array(array) => match offset_of(last.as_ref()).and_then(|offset| array.get_mut(offset)) {
            Some(element) => {
                *element = Bson::Null;
                true
            }
            None => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests;
