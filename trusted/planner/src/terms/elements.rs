//! Terms of an index whose fields lie within one array: each element has its own, as in MongoDB. All combinations would be as many as
//! the product of what the fields have, and a unique index would see two documents share a term whose elements do not.

use super::{FieldValues, field_values, first_array};
use bson::{Bson, Document};

/// The elements of the array that two fields or more lie within, each as what is then in the document's place for a field; none if there
/// is no such array.
///
/// # Parameters
/// `found_in`: for each field, the document that it is looked for in.
fn split<'d>(fields: &[&str], found_in: &[&'d Document]) -> Option<(Vec<bool>, Vec<&'d Bson>, Vec<String>)> {
    let paths: Vec<Option<&str>> =
        fields.iter().zip(found_in).map(|(field, document)| first_array(document, field)).collect();
    let shared = paths.iter().flatten().next()?;
    let within: Vec<bool> = paths.iter().map(|path| path.as_ref() == Some(shared)).collect();
    if within.iter().filter(|is_within| **is_within).count() < 2 {
        return None;
    }
    let names: Vec<String> = shared.split('.').map(str::to_owned).collect();
    let document = within.iter().zip(found_in).find(|(is_within, _)| **is_within)?.1;
    let elements = array_at(document, &names)?;
    // Where no element is a document, no field goes beyond them.
    elements
        .iter()
        .any(|element| element.as_document().is_some())
        .then(|| (within, elements.iter().collect(), names))
}

/// The array at a path, by names and places.
fn array_at<'d>(document: &'d Document, names: &[String]) -> Option<&'d Vec<Bson>> {
    let (first, rest) = names.split_first()?;
    let mut value = document.get(first)?;
    for name in rest {
        value = match value {
            Bson::Document(inner) => inner.get(name)?,
            Bson::Array(elements) => elements.get(name.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    value.as_array()
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

/// Hands on what each field has, once for each element of the array that several lie within, of an array in that, and so on; until
/// `visit` says that it is enough.
pub(super) fn each(
    fields: &[&str],
    found_in: &[&Document],
    visit: &mut impl FnMut(Vec<FieldValues>) -> bool,
) -> bool {
    let Some((within, elements, names)) = split(fields, found_in) else {
        return visit(
            fields.iter().zip(found_in).map(|(field, document)| field_values(document, field)).collect(),
        );
    };
    elements.into_iter().any(|element| {
        // An array within is a value; so is what is no document.
        let (value, goes_on) = match element {
            Bson::Document(_) => (element.clone(), true),
            other => (Bson::Array(vec![other.clone()]), false),
        };
        let alone = only(&names, value);
        let places: Vec<&Document> = within
            .iter()
            .zip(found_in)
            .map(|(is_within, document)| if *is_within { &alone } else { *document })
            .collect();
        if goes_on {
            return each(fields, &places, visit);
        }
        visit(fields.iter().zip(&places).map(|(field, document)| field_values(document, field)).collect())
    })
}
