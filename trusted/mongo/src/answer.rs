//! What a command answers, and its bytes. Documents that a cursor hands out in the form in which they are stored go
//! into the reply as they are.

use crate::wire::WireError;
use arras_service::store::Fetched;
use bson::Document;

const DOUBLE: u8 = 0x01;
const STRING: u8 = 0x02;
const DOCUMENT: u8 = 0x03;
const ARRAY: u8 = 0x04;
const INT64: u8 = 0x12;

/// Bytes of a reply beside its batch and the name of its collection, at most.
const ROOM_BYTES: usize = 128;

/// The reply to a command that did not fail.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Its fields, but for `ok`.
    Document(Document),
    /// Documents of a cursor.
    Batch(CursorBatch),
}

/// Which batch of a cursor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BatchName {
    /// The one that comes with the command that opened it.
    First,
    /// A later one.
    Next,
}

/// A batch and its cursor, in MongoDB's form.
#[derive(Debug)]
pub(crate) struct CursorBatch {
    pub(crate) name: BatchName,
    pub(crate) documents: Vec<Fetched>,
    /// 0 if nothing follows.
    pub(crate) id: i64,
    pub(crate) ns: String,
}

impl CursorBatch {
    fn field(&self) -> &'static str {
        match self.name {
            BatchName::First => "firstBatch",
            BatchName::Next => "nextBatch",
        }
    }

    /// Bytes of the whole reply, about.
    pub(crate) fn room_bytes(&self) -> usize {
        let encoded = self.documents.iter().map(|fetched| match fetched {
            Fetched::Encoded(bytes) => bytes.as_bytes().len() + 8,
            Fetched::Decoded(_) => 0,
        });
        encoded.fold(self.ns.len().saturating_add(ROOM_BYTES), usize::saturating_add)
    }

    /// Appends the whole reply as BSON.
    ///
    /// # Errors
    /// If a document cannot be written as BSON, or the reply is longer than a document may say.
    pub(crate) fn append_to(&self, bytes: &mut Vec<u8>) -> Result<(), WireError> {
        let reply = open(bytes);
        name(bytes, DOCUMENT, "cursor");
        let cursor = open(bytes);
        name(bytes, ARRAY, self.field());
        let batch = open(bytes);
        for (position, document) in self.documents.iter().enumerate() {
            name(bytes, DOCUMENT, &position.to_string());
            match document {
                Fetched::Encoded(document) => bytes.extend_from_slice(document.as_bytes()),
                Fetched::Decoded(document) => bytes.extend_from_slice(&encoded(document)?),
            }
        }
        close(bytes, batch)?;
        name(bytes, INT64, "id");
        bytes.extend_from_slice(&self.id.to_le_bytes());
        name(bytes, STRING, "ns");
        bytes.extend_from_slice(&length(self.ns.len() + 1)?);
        bytes.extend_from_slice(self.ns.as_bytes());
        bytes.push(0);
        close(bytes, cursor)?;
        name(bytes, DOUBLE, "ok");
        bytes.extend_from_slice(&1.0_f64.to_le_bytes());
        close(bytes, reply)
    }
}

/// A document's BSON.
pub(crate) fn encoded(document: &Document) -> Result<Vec<u8>, WireError> {
    document.to_vec().map_err(|error| WireError::Broken(format!("reply is not BSON: {error}")))
}

/// Begins a document or array; where it begins.
fn open(bytes: &mut Vec<u8>) -> usize {
    let begun = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    begun
}

/// Ends the document or array that was begun there.
fn close(bytes: &mut Vec<u8>, begun: usize) -> Result<(), WireError> {
    bytes.push(0);
    let whole = length(bytes.len() - begun)?;
    if let Some(place) = bytes.get_mut(begun..).and_then(<[u8]>::first_chunk_mut) {
        *place = whole;
    }
    Ok(())
}

fn length(bytes: usize) -> Result<[u8; 4], WireError> {
    let length = i32::try_from(bytes).map_err(|_| WireError::Broken("reply longer than BSON".into()))?;
    Ok(length.to_le_bytes())
}

/// Type and name of an element. The name holds no null byte.
fn name(bytes: &mut Vec<u8>, kind: u8, name: &str) {
    bytes.push(kind);
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, RawDocumentBuf, doc};

    fn batch(count: i32, id: i64) -> CursorBatch {
        let documents = (0..count).map(|number| {
            let document =
                doc! { "_id": number, "text": "x".repeat(number as usize), "list": [1, { "a": 2.5 }] };
            if number % 2 == 0 {
                Fetched::Encoded(RawDocumentBuf::try_from(&document).expect("BSON"))
            } else {
                Fetched::Decoded(document)
            }
        });
        let name = if id == 0 { BatchName::First } else { BatchName::Next };
        CursorBatch { name, documents: documents.collect(), id, ns: "données.c".into() }
    }

    #[test]
    fn a_batch_is_encoded_as_the_document_it_stands_for() {
        for (count, id) in [(0, 0), (1, 0), (12, 7), (120, -5)] {
            let mut bytes = vec![9; 3];
            batch(count, id).append_to(&mut bytes).expect("BSON");
            let CursorBatch { documents, ns, .. } = batch(count, id);
            let decoded = |fetched: Fetched| Bson::Document(fetched.into_document().expect("BSON"));
            let documents: Vec<Bson> = documents.into_iter().map(decoded).collect();
            let field = if id == 0 { "firstBatch" } else { "nextBatch" };
            let expected = doc! { "cursor": { field: documents, "id": id, "ns": ns }, "ok": 1.0 };
            assert_eq!(bytes[3..], expected.to_vec().expect("BSON"));
        }
    }
}
