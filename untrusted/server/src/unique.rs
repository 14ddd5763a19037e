//! Keyless half of EQunique: label to row.

use crate::backend::storage;
use crate::keyspace::key;
use arras_protocol::unique::{Change, Label, Request, Response};
use arras_protocol::{IndexId, Refusal, RowId};
use arras_storage::{Read, Storage, Table, Write};

/// Index id to nothing: which indexes there are.
const INDEXES: Table = Table("unique_indexes");
/// Index id and label to row id.
const ENTRIES: Table = Table("unique");

fn entry(index: IndexId, label: Label) -> Vec<u8> {
    key(&[index.as_bytes(), &label.0])
}

fn exists(reader: &impl Read, index: IndexId) -> Result<(), Refusal> {
    reader.get(INDEXES, index.as_bytes()).map_err(storage)?.map(drop).ok_or(Refusal::UnknownIndex)
}

fn row(reader: &impl Read, index: IndexId, label: Label) -> Result<Option<RowId>, Refusal> {
    reader
        .get(ENTRIES, &entry(index, label))
        .map_err(storage)?
        .map(|bytes| {
            bytes.as_ref().try_into().map(RowId).map_err(|_| Refusal::Damaged("a unique entry".into()))
        })
        .transpose()
}

/// Answers a look-up.
pub(crate) fn answer<S: Storage>(store: &S, request: &Request) -> Result<Response, Refusal> {
    let reader = store.read().map_err(storage)?;
    exists(&reader, request.index)?;
    let rows =
        request.labels.iter().map(|label| row(&reader, request.index, *label)).collect::<Result<_, _>>()?;
    Ok(Response { rows })
}

/// Applies a step of a write.
pub(crate) fn apply(writer: &mut impl Write, step: u32, change: &Change) -> Result<(), Refusal> {
    match *change {
        Change::CreateIndex { index } => writer.put(INDEXES, index.as_bytes(), &[]).map_err(storage),
        Change::DropIndex { index } => {
            writer.delete(INDEXES, index.as_bytes()).map_err(storage)?;
            writer.delete_prefix(ENTRIES, index.as_bytes()).map_err(storage).map(drop)
        }
        Change::Insert { index, label, row: new } => {
            exists(writer, index)?;
            match row(writer, index, label)? {
                Some(old) if old != new => Err(Refusal::Conflict { step }),
                _ => writer.put(ENTRIES, &entry(index, label), new.as_bytes()).map_err(storage),
            }
        }
        Change::Remove { index, label } => {
            exists(writer, index)?;
            writer.delete(ENTRIES, &entry(index, label)).map_err(storage).map(drop)
        }
    }
}
