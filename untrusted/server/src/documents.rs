//! Keyless half of the document store.

use crate::backend::{look_up, storage};
use crate::keyspace::{borrow, key, prefix_range};
use crate::leftovers;
use arras_protocol::documents::{Change, Request, Response, SealedDocument, StoredDocument, StoredParts};
use arras_protocol::limits::{DOCUMENT_BYTES_MAX, REPLY_BYTES_SOFT};
use arras_protocol::{CollectionId, Refusal, RowId, codec};
use arras_storage::{Bytes, Direction, Read, Storage, Table, Write};
use std::ops::ControlFlow;

/// Collection id to number of documents (8 bytes, big endian).
const COLLECTIONS: Table = Table("each_write.collections");
/// Collection id and row id to header and values ([`StoredParts`]).
const DOCUMENTS: Table = Table("documents");
/// Tables that a drop empties of what begins with the collection's id.
pub(crate) const EMPTIED: &[Table] = &[DOCUMENTS];

/// Most documents that room is made for before any is found.
const ROOM_MAX: usize = 1000;

/// Bytes of a reply beside its documents, at most.
const BESIDE_BYTES: usize = 16;

/// Documents for a reply, as they are stored.
struct Found {
    stored: Vec<(RowId, Bytes)>,
    more: bool,
    served: u32,
}

impl Found {
    /// The encoded reply.
    fn encode(&self) -> Result<Vec<u8>, Refusal> {
        let documents =
            self.stored.iter().map(|(row, stored)| Ok(StoredDocument { row: *row, parts: parts(stored)? }));
        let documents = documents.collect::<Result<_, Refusal>>()?;
        let room = self.stored.iter().map(|(_, stored)| stored.len() + RowId::BYTES);
        let room = room.fold(BESIDE_BYTES, usize::saturating_add);
        Ok(codec::encode_in(&Response::Documents { documents, more: self.more, served: self.served }, room))
    }
}

/// Answers a read with its encoded reply.
pub(crate) fn answer<S: Storage>(store: &S, request: Request) -> Result<Vec<u8>, Refusal> {
    let reader = store.read().map_err(storage)?;
    match request {
        Request::Count { collection } => {
            Ok(codec::encode(&Response::<SealedDocument>::Count(count(&reader, collection)?)))
        }
        Request::Read { collection, rows } => read(&reader, collection, &rows)?.encode(),
        Request::Exist { collection, rows } => {
            Ok(codec::encode(&Response::<SealedDocument>::Exist(exist(&reader, collection, &rows)?)))
        }
        Request::Scan { collection, after, documents_max } => {
            scan(&reader, collection, after, documents_max)?.encode()
        }
    }
}

/// Number of documents of a collection.
fn count(reader: &impl Read, collection: CollectionId) -> Result<u64, Refusal> {
    let bytes =
        reader.get(COLLECTIONS, collection.as_bytes()).map_err(storage)?.ok_or(Refusal::UnknownCollection)?;
    let bytes = bytes.as_ref().try_into().map_err(|_| Refusal::Damaged("a collection's count".into()))?;
    Ok(u64::from_be_bytes(bytes))
}

fn parts(stored: &[u8]) -> Result<StoredParts<'_>, Refusal> {
    StoredParts::decode(stored).ok_or_else(|| Refusal::Damaged("a stored document".into()))
}

/// Where documents are stored.
fn names(collection: CollectionId, rows: &[RowId]) -> impl Iterator<Item = Vec<u8>> {
    rows.iter().map(move |row| key(&[collection.as_bytes(), row.as_bytes()]))
}

fn read(reader: &impl Read, collection: CollectionId, rows: &[RowId]) -> Result<Found, Refusal> {
    // Of one that was dropped documents may be left.
    count(reader, collection)?;
    let mut found = Found { stored: Vec::with_capacity(rows.len().min(ROOM_MAX)), more: false, served: 0 };
    let (mut bytes, mut asked) = (0, rows.iter());
    look_up(reader, DOCUMENTS, names(collection, rows), |stored| {
        if let (Some(row), Some(stored)) = (asked.next(), stored) {
            bytes += stored.len();
            found.stored.push((*row, stored));
        }
        found.served = found.served.saturating_add(1);
        found.more = bytes >= REPLY_BYTES_SOFT && asked.len() > 0;
        Ok(if found.more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

fn exist(reader: &impl Read, collection: CollectionId, rows: &[RowId]) -> Result<Vec<bool>, Refusal> {
    count(reader, collection)?;
    let mut there = Vec::with_capacity(rows.len());
    for name in names(collection, rows) {
        there.push(reader.contains(DOCUMENTS, &name).map_err(storage)?);
    }
    Ok(there)
}

fn scan(
    reader: &impl Read,
    collection: CollectionId,
    after: Option<RowId>,
    documents_max: u32,
) -> Result<Found, Refusal> {
    count(reader, collection)?;
    let range = prefix_range(collection.as_bytes(), after.as_ref().map(|row| row.as_bytes().as_slice()));
    let documents_max = usize::try_from(documents_max).unwrap_or(usize::MAX).max(1);
    let (mut found, mut bytes, mut more) = (Vec::new(), 0, false);
    let mut failure = None;
    reader
        .scan(DOCUMENTS, borrow(&range), Direction::Ascending, &mut |name, stored| {
            if found.len() >= documents_max || bytes >= REPLY_BYTES_SOFT {
                more = true;
                return ControlFlow::Break(());
            }
            let row = name.get(CollectionId::BYTES..).and_then(|row| row.try_into().ok()).map(RowId);
            let Some(row) = row else {
                failure = Some(Refusal::Damaged("a document's key".into()));
                return ControlFlow::Break(());
            };
            found.push((row, Bytes::copy_from_slice(stored)));
            bytes += stored.len();
            ControlFlow::Continue(())
        })
        .map_err(storage)?;
    failure.map_or(Ok(Found { stored: found, more, served: 0 }), Err)
}

/// Applies a step of a write; `step` is its position, for conflicts.
pub(crate) fn apply(writer: &mut impl Write, step: u32, change: Change) -> Result<(), Refusal> {
    match change {
        Change::CreateCollection { collection } => {
            let name = collection.as_bytes();
            if writer.get(COLLECTIONS, name).map_err(storage)?.is_none() {
                leftovers::none_of(writer, EMPTIED, name)?;
                writer.put(COLLECTIONS, name, &0_u64.to_be_bytes()).map_err(storage)?;
            }
        }
        Change::DropCollection { collection } => {
            let name = collection.as_bytes();
            writer.delete(COLLECTIONS, name).map_err(storage)?;
            leftovers::remove(writer, DOCUMENTS, name)?;
        }
        Change::Put { collection, document, insert } => put(writer, step, collection, document, insert)?,
        Change::PutHeader { collection, row, header } => {
            let name = key(&[collection.as_bytes(), row.as_bytes()]);
            let stored = writer.get(DOCUMENTS, &name).map_err(storage)?;
            let stored = stored.ok_or(Refusal::Conflict { step })?;
            put_stored(writer, &name, StoredParts { header: header.as_slice(), ..parts(&stored)? })?;
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

fn put_stored(writer: &mut impl Write, name: &[u8], stored: StoredParts<'_>) -> Result<(), Refusal> {
    let bytes = codec::encode(&stored);
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(Refusal::Limit(format!("a document of {} bytes", bytes.len())));
    }
    writer.put_owned(DOCUMENTS, name, bytes.into()).map_err(storage)
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
    let exists = writer.contains(DOCUMENTS, &name).map_err(storage)?;
    if insert && exists {
        return Err(Refusal::Conflict { step });
    }
    let SealedDocument { header, values, .. } = &document;
    put_stored(writer, &name, StoredParts { header: header.as_slice(), values: values.as_slice() })?;
    if exists { Ok(()) } else { set_count(writer, collection, documents.saturating_add(1)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use arras_storage::{Durability, Memory};

    #[test]
    fn what_a_drop_has_left_of_a_collection_is_not_read() {
        let (store, collection, row) = (Memory::new(), CollectionId([1; 8]), RowId([2; 16]));
        let mut writer = store.write().unwrap();
        apply(&mut writer, 0, Change::CreateCollection { collection }).unwrap();
        // As it is behind the first keys that the drop removes.
        apply(&mut writer, 1, Change::DropCollection { collection }).unwrap();
        writer.put(DOCUMENTS, &key(&[collection.as_bytes(), row.as_bytes()]), b"left").unwrap();
        writer.commit(Durability::Relaxed).unwrap();
        assert!(read(&store.read().unwrap(), collection, &[row]).is_err());
    }
}
