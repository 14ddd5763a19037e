//! Keyless half of the document store.

use crate::backend::storage;
use crate::keyspace::{borrow, key, prefix_range};
use arras_protocol::documents::{Change, Request, Response, SealedDocument};
use arras_protocol::limits::{DOCUMENT_BYTES_MAX, REPLY_BYTES_SOFT};
use arras_protocol::{Blob, CollectionId, FieldLabel, Refusal, RowId, codec};
use arras_storage::{Direction, Read, Storage, Table, Write};
use std::ops::ControlFlow;

/// Collection id to number of documents (8 bytes, big endian).
const COLLECTIONS: Table = Table("each_write.collections");
/// Collection id and row id to header and fields.
const DOCUMENTS: Table = Table("documents");

/// A document without its row, which is its key.
type Stored = (Blob, Vec<(FieldLabel, Blob)>);

/// Answers a read.
pub(crate) fn answer<S: Storage>(store: &S, request: Request) -> Result<Response, Refusal> {
    let reader = store.read().map_err(storage)?;
    match request {
        Request::Count { collection } => Ok(Response::Count(count(&reader, collection)?)),
        Request::Read { collection, rows } => read(&reader, collection, &rows),
        Request::Exist { collection, rows } => exist(&reader, collection, &rows),
        Request::Scan { collection, after, documents_max } => scan(&reader, collection, after, documents_max),
    }
}

/// Number of documents of a collection.
fn count(reader: &impl Read, collection: CollectionId) -> Result<u64, Refusal> {
    let bytes =
        reader.get(COLLECTIONS, collection.as_bytes()).map_err(storage)?.ok_or(Refusal::UnknownCollection)?;
    let bytes = bytes.as_ref().try_into().map_err(|_| Refusal::Damaged("a collection's count".into()))?;
    Ok(u64::from_be_bytes(bytes))
}

fn decode(row: RowId, bytes: &[u8]) -> Result<SealedDocument, Refusal> {
    let (header, fields) =
        codec::decode::<Stored>(bytes).map_err(|_| Refusal::Damaged("a stored document".into()))?;
    Ok(SealedDocument { row, header, fields })
}

fn read(reader: &impl Read, collection: CollectionId, rows: &[RowId]) -> Result<Response, Refusal> {
    count(reader, collection)?;
    let (mut documents, mut bytes, mut served) = (Vec::new(), 0, 0_u32);
    for row in rows {
        if bytes >= REPLY_BYTES_SOFT {
            return Ok(Response::Documents { documents, more: true, served });
        }
        if let Some(stored) =
            reader.get(DOCUMENTS, &key(&[collection.as_bytes(), row.as_bytes()])).map_err(storage)?
        {
            bytes += stored.len();
            documents.push(decode(*row, &stored)?);
        }
        served = served.saturating_add(1);
    }
    Ok(Response::Documents { documents, more: false, served })
}

fn exist(reader: &impl Read, collection: CollectionId, rows: &[RowId]) -> Result<Response, Refusal> {
    count(reader, collection)?;
    let is_there = |row: &RowId| {
        let name = key(&[collection.as_bytes(), row.as_bytes()]);
        reader.get(DOCUMENTS, &name).map(|stored| stored.is_some()).map_err(storage)
    };
    Ok(Response::Exist(rows.iter().map(is_there).collect::<Result<_, _>>()?))
}

fn scan(
    reader: &impl Read,
    collection: CollectionId,
    after: Option<RowId>,
    documents_max: u32,
) -> Result<Response, Refusal> {
    count(reader, collection)?;
    let range = prefix_range(collection.as_bytes(), after.as_ref().map(|row| row.as_bytes().as_slice()));
    let documents_max = usize::try_from(documents_max).unwrap_or(usize::MAX).max(1);
    let (mut documents, mut bytes, mut more) = (Vec::new(), 0, false);
    let mut failure = None;
    reader
        .scan(DOCUMENTS, borrow(&range), Direction::Ascending, &mut |name, stored| {
            if documents.len() >= documents_max || bytes >= REPLY_BYTES_SOFT {
                more = true;
                return ControlFlow::Break(());
            }
            let row = name.get(CollectionId::BYTES..).and_then(|row| row.try_into().ok()).map(RowId);
            let document = row
                .ok_or_else(|| Refusal::Damaged("a document's key".into()))
                .and_then(|row| decode(row, stored));
            match document {
                Ok(document) => documents.push(document),
                Err(refusal) => {
                    failure = Some(refusal);
                    return ControlFlow::Break(());
                }
            }
            bytes += stored.len();
            ControlFlow::Continue(())
        })
        .map_err(storage)?;
    failure.map_or(Ok(Response::Documents { documents, more, served: 0 }), Err)
}

/// Applies a step of a write; `step` is its position, for conflicts.
pub(crate) fn apply(writer: &mut impl Write, step: u32, change: Change) -> Result<(), Refusal> {
    match change {
        Change::CreateCollection { collection } => {
            let name = collection.as_bytes();
            if writer.get(COLLECTIONS, name).map_err(storage)?.is_none() {
                writer.put(COLLECTIONS, name, &0_u64.to_be_bytes()).map_err(storage)?;
            }
        }
        Change::DropCollection { collection } => {
            writer.delete(COLLECTIONS, collection.as_bytes()).map_err(storage)?;
            writer.delete_prefix(DOCUMENTS, collection.as_bytes()).map_err(storage)?;
        }
        Change::Put { collection, document, insert } => put(writer, step, collection, document, insert)?,
        Change::PutHeader { collection, row, header } => {
            let name = key(&[collection.as_bytes(), row.as_bytes()]);
            let stored = writer.get(DOCUMENTS, &name).map_err(storage)?;
            let SealedDocument { fields, .. } = decode(row, &stored.ok_or(Refusal::Conflict { step })?)?;
            put_stored(writer, &name, (header, fields))?;
        }
        Change::Delete { collection, row } => {
            let documents = count(writer, collection)?;
            let name = key(&[collection.as_bytes(), row.as_bytes()]);
            if writer.delete(DOCUMENTS, &name).map_err(storage)? {
                set_count(writer, collection, documents.saturating_sub(1))?;
            }
        }
    }
    Ok(())
}

fn set_count(writer: &mut impl Write, collection: CollectionId, documents: u64) -> Result<(), Refusal> {
    writer.put(COLLECTIONS, collection.as_bytes(), &documents.to_be_bytes()).map_err(storage)
}

fn put_stored(writer: &mut impl Write, name: &[u8], stored: Stored) -> Result<(), Refusal> {
    let bytes = codec::encode(&stored);
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(Refusal::Limit(format!("a document of {} bytes", bytes.len())));
    }
    writer.put(DOCUMENTS, name, &bytes).map_err(storage)
}

fn put(
    writer: &mut impl Write,
    step: u32,
    collection: CollectionId,
    document: SealedDocument,
    insert: bool,
) -> Result<(), Refusal> {
    let documents = count(writer, collection)?;
    let name = key(&[collection.as_bytes(), document.row.as_bytes()]);
    let exists = writer.get(DOCUMENTS, &name).map_err(storage)?.is_some();
    if insert && exists {
        return Err(Refusal::Conflict { step });
    }
    put_stored(writer, &name, (document.header, document.fields))?;
    if exists { Ok(()) } else { set_count(writer, collection, documents.saturating_add(1)) }
}
