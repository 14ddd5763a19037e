//! The values of a document without their names, which are in its header.
//!
//! *Lengths.* A BSON document whose names are empty: a value takes its bytes in BSON and two of frame, all of them five.
//! So the length shows nothing of the names, and of the values how long they are together.

use super::NotStorable;
use arras_schemes::error::OpenFailed;
use bson::{Bson, Document, RawDocument, RawDocumentBuf};

/// Bytes of a document before its first element: its length.
const LENGTH_BYTES: usize = 4;

/// The values of a document as bytes.
///
/// # Errors
/// [`NotStorable`] if a name holds a null byte.
pub(super) fn encode(document: &Document) -> Result<Vec<u8>, NotStorable> {
    let named = document.to_vec().map_err(|_| NotStorable)?;
    let mut values = Vec::with_capacity(named.len());
    values.extend_from_slice(&[0; LENGTH_BYTES]);
    let mut at = LENGTH_BYTES;
    for element in RawDocument::from_bytes(&named).map_err(|_| NotStorable)?.iter_elements() {
        let element = element.map_err(|_| NotStorable)?;
        // An element is its type, its name, a null byte, and the value.
        let value = at + 1 + element.key().as_str().len() + 1;
        let end = value + element.size();
        let (Some(kind), Some(value)) = (named.get(at), named.get(value..end)) else {
            return Err(NotStorable);
        };
        values.extend_from_slice(&[*kind, 0]);
        values.extend_from_slice(value);
        at = end;
    }
    values.push(0);
    let length = u32::try_from(values.len()).map_err(|_| NotStorable)?;
    if let Some(start) = values.first_chunk_mut::<LENGTH_BYTES>() {
        *start = length.to_le_bytes();
    }
    Ok(values)
}

/// The document of these names and values.
///
/// # Errors
/// [`OpenFailed`] if they are not as many, or no values.
pub(super) fn decode(names: Vec<String>, values: &[u8]) -> Result<Document, OpenFailed> {
    let values = RawDocument::from_bytes(values).map_err(|_| OpenFailed)?;
    let mut document = Document::new();
    let (mut names, mut values) = (names.into_iter(), values.iter_elements());
    loop {
        match (names.next(), values.next()) {
            (Some(name), Some(Ok(value))) => {
                let value = value.value().map_err(|_| OpenFailed)?;
                document.insert(name, Bson::try_from(value).map_err(|_| OpenFailed)?);
            }
            (None, None) => return Ok(document),
            _ => return Err(OpenFailed),
        }
    }
}

/// The document of these names and values as BSON: as if it were decoded and encoded.
///
/// # Errors
/// [`OpenFailed`] if they are not as many, or no values.
pub(super) fn join(names: &[&str], values: &[u8]) -> Result<RawDocumentBuf, OpenFailed> {
    let elements = RawDocument::from_bytes(values).map_err(|_| OpenFailed)?.iter_elements();
    let names_bytes: usize = names.iter().map(|name| name.len()).sum();
    let mut document = Vec::with_capacity(values.len() + names_bytes);
    document.extend_from_slice(&[0; LENGTH_BYTES]);
    let (mut names, mut at) = (names.iter(), LENGTH_BYTES);
    for element in elements {
        let (Ok(element), Some(name)) = (element, names.next()) else {
            return Err(OpenFailed);
        };
        if !element.key().as_str().is_empty() {
            return Err(OpenFailed);
        }
        // Its type, an empty name's null byte, and the value.
        let value = at + 2;
        let end = value + element.size();
        let (Some(kind), Some(value)) = (values.get(at), values.get(value..end)) else {
            return Err(OpenFailed);
        };
        document.push(*kind);
        document.extend_from_slice(name.as_bytes());
        document.push(0);
        document.extend_from_slice(value);
        at = end;
    }
    document.push(0);
    let length = i32::try_from(document.len()).map_err(|_| OpenFailed)?;
    if let Some(start) = document.first_chunk_mut::<LENGTH_BYTES>() {
        *start = length.to_le_bytes();
    }
    if names.next().is_some() {
        return Err(OpenFailed);
    }
    RawDocumentBuf::from_bytes(document).map_err(|_| OpenFailed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;

    #[test]
    fn values_come_back_under_their_names_and_under_no_others() {
        let nested = doc! { "a": [1, { "b": "c" }], "": Bson::Null };
        for document in [Document::new(), doc! { "": 1 }, doc! { "_id": 1, "name": "Ada", "nested": nested }]
        {
            let values = encode(&document).expect("no null bytes");
            let names: Vec<String> = document.keys().cloned().collect();
            let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
            let joined = join(&borrowed, &values).expect("as many names as values");
            assert_eq!(joined.into_bytes(), document.to_vec().expect("no null bytes"));
            assert_eq!(decode(names.clone(), &values), Ok(document));
            let more = [names.clone(), vec!["further".into()]].concat();
            assert_eq!(decode(more, &values), Err(OpenFailed));
            assert_eq!(join(&[borrowed.as_slice(), &["further"]].concat(), &values), Err(OpenFailed));
            if let (Some((_, fewer)), Some((_, borrowed))) = (names.split_last(), borrowed.split_last()) {
                assert_eq!(decode(fewer.to_vec(), &values), Err(OpenFailed));
                assert_eq!(join(borrowed, &values), Err(OpenFailed));
            }
        }
    }

    #[test]
    fn names_do_not_show_in_the_length() {
        let of = |name: &str| encode(&doc! { name: 7, "_id": "x" }).expect("no null bytes").len();
        assert_eq!(of("a"), of("a much longer name"));
        assert_eq!(of("a"), 5 + (2 + 4) + (2 + 4 + 2));
    }
}
