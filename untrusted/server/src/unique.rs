//! Keyless half of EQunique: label to row.

use crate::backend::{look_up, storage};
use crate::keyspace::key;
use crate::leftovers;
use arras_protocol::unique::{Change, Label, Request, Response};
use arras_protocol::{IndexId, Refusal, RowId};
use arras_storage::{Bytes, Read, Storage, Table, Write};
use std::ops::ControlFlow;

/// Index id to nothing: which indexes there are.
const INDEXES: Table = Table("unique_indexes");
/// Index id and label to row id.
const ENTRIES: Table = Table("unique");
/// Tables that a drop empties of what begins with the index's id.
pub(crate) const EMPTIED: &[Table] = &[ENTRIES];

fn entry(index: IndexId, label: Label) -> Vec<u8> {
    key(&[index.as_bytes(), &label.0])
}

fn exists(reader: &impl Read, index: IndexId) -> Result<(), Refusal> {
    reader.get(INDEXES, index.as_bytes()).map_err(storage)?.map(drop).ok_or(Refusal::UnknownIndex)
}

fn row_of(stored: Option<Bytes>) -> Result<Option<RowId>, Refusal> {
    let row = |bytes: Bytes| bytes.as_ref().try_into().map(RowId);
    stored.map(row).transpose().map_err(|_| Refusal::Damaged("a unique entry".into()))
}

/// Answers a look-up.
pub(crate) fn answer<S: Storage>(store: &S, request: &Request) -> Result<Response, Refusal> {
    let reader = store.read().map_err(storage)?;
    exists(&reader, request.index)?;
    let mut rows = Vec::with_capacity(request.labels.len());
    let entries = request.labels.iter().map(|label| entry(request.index, *label));
    look_up(&reader, ENTRIES, entries, |stored| {
        rows.push(row_of(stored)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Response { rows })
}

/// Applies a step of a write.
pub(crate) fn apply(writer: &mut impl Write, step: u32, change: &Change) -> Result<(), Refusal> {
    match *change {
        Change::CreateIndex { index } => {
            leftovers::none_of(writer, EMPTIED, index.as_bytes())?;
            writer.put(INDEXES, index.as_bytes(), &[]).map_err(storage)
        }
        Change::DropIndex { index } => {
            writer.delete(INDEXES, index.as_bytes()).map_err(storage)?;
            leftovers::remove(writer, ENTRIES, index.as_bytes())
        }
        Change::Insert { index, label, row: new } => {
            exists(writer, index)?;
            match row_of(writer.get(ENTRIES, &entry(index, label)).map_err(storage)?)? {
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
