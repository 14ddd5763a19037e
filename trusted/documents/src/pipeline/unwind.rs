//! `$unwind`.

use super::Unwind;
use crate::{QueryError, path};
use bson::{Bson, Document};

/// Documents, one made after the other.
type Unwound<'u> = Box<dyn Iterator<Item = Result<Document, QueryError>> + 'u>;

/// The documents `document` becomes, each made when it is taken.
pub(super) fn unwind(unwind: &Unwind, document: Document) -> Unwound<'_> {
    let components: Vec<&str> = unwind.path.split('.').collect();
    let array = match value_at(&document, &components) {
        Some(Bson::Array(array)) => array.clone(),
        None | Some(Bson::Null | Bson::Undefined) => {
            return Box::new(kept_empty(unwind, document).into_iter());
        }
        // What is no array counts as an array of one.
        Some(_) => return Box::new(std::iter::once(with_index(unwind, document, None))),
    };
    if array.is_empty() {
        let mut document = document;
        path::unset(&mut document, &components);
        return Box::new(kept_empty(unwind, document).into_iter());
    }
    let mut bare = document;
    // Copies share everything but the array, so it is not to be copied with each.
    if let Err(error) = path::set(&mut bare, &components, Bson::Null) {
        return Box::new(std::iter::once(Err(error)));
    }
    let unwound = array.into_iter().enumerate().map(move |(offset, element)| {
        let mut copy = bare.clone();
        path::set(&mut copy, &components, element)?;
        with_index(unwind, copy, i64::try_from(offset).ok())
    });
    Box::new(unwound)
}

fn kept_empty(unwind: &Unwind, document: Document) -> Vec<Result<Document, QueryError>> {
    if unwind.preserve_null_and_empty_arrays { vec![with_index(unwind, document, None)] } else { Vec::new() }
}

/// The value at a path of documents only: arrays on the way are not entered, nor are their offsets.
fn value_at<'d>(document: &'d Document, components: &[&str]) -> Option<&'d Bson> {
    let (last, parents) = components.split_last()?;
    let mut holder = document;
    for name in parents {
        holder = holder.get(name)?.as_document()?;
    }
    holder.get(last)
}

fn with_index(unwind: &Unwind, mut document: Document, offset: Option<i64>) -> Result<Document, QueryError> {
    if let Some(name) = &unwind.include_array_index {
        let components: Vec<&str> = name.split('.').collect();
        path::set(&mut document, &components, offset.map_or(Bson::Null, Bson::Int64))?;
    }
    Ok(document)
}
