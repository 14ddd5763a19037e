//! Fields that lie within one array: each element has values of its own, as in MongoDB's indexes and sorts.

use crate::path;
use bson::{Bson, Document};

/// Two fields have arrays that are not within one array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelArrays {
    /// Path of one array.
    pub left: String,
    /// Path of the other.
    pub right: String,
}

/// An array that several fields lie within.
struct SharedArray<'d> {
    /// Which of the fields.
    within: Vec<bool>,
    elements: &'d [Bson],
    /// The path from the document to the array.
    names: Vec<String>,
}

/// The array that two fields or more lie within, if there is one whose elements are to be told apart.
///
/// # Parameters
/// `found_in`: for each field, the document that it is looked for in.
fn shared<'d>(fields: &[&str], found_in: &[&'d Document]) -> Result<Option<SharedArray<'d>>, ParallelArrays> {
    let paths: Vec<Option<&str>> =
        fields.iter().zip(found_in).map(|(field, document)| first_array(document, field)).collect();
    let mut arrays = paths.iter().copied().flatten();
    let Some(shared) = arrays.next() else { return Ok(None) };
    if let Some(other) = arrays.clone().find(|other| *other != shared) {
        return Err(ParallelArrays { left: shared.to_owned(), right: other.to_owned() });
    }
    let names: Vec<String> = shared.split('.').map(str::to_owned).collect();
    // Behind a place in an array a path goes on in two ways, which an element by itself does not show. All combinations are found, too.
    if arrays.next().is_none() || names.iter().skip(1).any(|name| path::offset_of(name).is_some()) {
        return Ok(None);
    }
    let within: Vec<bool> = paths.iter().map(|path| *path == Some(shared)).collect();
    let holder = within.iter().zip(found_in).find(|(is_within, _)| **is_within);
    let elements = holder.and_then(|(_, document)| array_at(document, &names)).unwrap_or_default();
    // Where no element is a document, no field goes beyond them.
    let goes_on = elements.iter().any(|element| element.as_document().is_some());
    Ok(goes_on.then_some(SharedArray { within, elements, names }))
}

/// The array at a path of names.
fn array_at<'d>(document: &'d Document, names: &[String]) -> Option<&'d [Bson]> {
    let (last, way) = names.split_last()?;
    let mut document = document;
    for name in way {
        document = document.get(name)?.as_document()?;
    }
    document.get(last)?.as_array().map(Vec::as_slice)
}

/// A document that has nothing but a value at a path.
fn only(names: &[String], value: Bson) -> Document {
    let mut document = Document::new();
    if let Some((first, rest)) = names.split_first() {
        let inner = if rest.is_empty() { value } else { Bson::Document(only(rest, value)) };
        document.insert(first, inner);
    }
    document
}

/// Hands on the document that each field is to be looked for in, once for each element of the array that several lie within, of an
/// array in that, and so on.
///
/// # Parameters
/// `found_in`: at first the document itself, for each field.
///
/// # Errors
/// [`ParallelArrays`]: two fields have arrays, or fields of one element arrays of their own. What `visit` refuses.
pub fn each<E: From<ParallelArrays>>(
    fields: &[&str],
    found_in: &[&Document],
    visit: &mut impl FnMut(&[&Document]) -> Result<(), E>,
) -> Result<(), E> {
    let Some(SharedArray { within, elements, names }) = shared(fields, found_in)? else {
        return visit(found_in);
    };
    for element in elements {
        // An array within is a value; so is what is no document.
        let (value, goes_on) = match element {
            Bson::Document(_) => (element.clone(), true),
            other => (Bson::Array(vec![other.clone()]), false),
        };
        let alone = only(&names, value);
        let mut places = found_in.to_vec();
        for (place, _) in places.iter_mut().zip(&within).filter(|(_, is_within)| **is_within) {
            *place = &alone;
        }
        if goes_on {
            each(fields, &places, visit)?;
        } else {
            visit(&places)?;
        }
    }
    Ok(())
}

/// The path of the first array on the way to a field, its end included, whose elements are entered one by one.
#[must_use]
pub fn first_array<'f>(document: &Document, field: &'f str) -> Option<&'f str> {
    let mut value = document.get(field.split('.').next()?)?;
    let mut end = field.find('.').unwrap_or(field.len());
    loop {
        let rest = field.get(end + 1..).unwrap_or_default();
        let next = rest.split('.').next().unwrap_or_default();
        value = match value {
            Bson::Document(inner) if !next.is_empty() => inner.get(next)?,
            Bson::Array(elements) => match path::offset_of(next) {
                Some(offset) => elements.get(offset)?,
                None => return field.get(..end),
            },
            _ => return None,
        };
        end += 1 + next.len();
    }
}
