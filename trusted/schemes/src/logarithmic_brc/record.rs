//! Records of the multimap, and their bytes.

use crate::error::OpenFailed;
use arras_protocol::RowId;
use arras_protocol::ore::Width;

/// What an operation does to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// It is in the set.
    Insert,
    /// It is not.
    Remove,
}

/// A record of the multimap: what became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Record {
    pub(super) value: u64,
    pub(super) row: RowId,
    pub(super) operation: Operation,
}

const INSERT: u8 = 1;
const REMOVE: u8 = 2;

/// Bytes of a record: value, row, operation.
pub(super) fn record_bytes(width: Width) -> usize {
    width.bytes() + RowId::BYTES + 1
}

/// Appends a record's bytes.
pub(super) fn encode(width: Width, record: &Record, output: &mut Vec<u8>) {
    let value = record.value.to_be_bytes();
    output.extend_from_slice(&value[value.len() - width.bytes()..]);
    output.extend_from_slice(record.row.as_bytes());
    output.push(match record.operation {
        Operation::Insert => INSERT,
        Operation::Remove => REMOVE,
    });
}

/// Reads a record.
pub(super) fn decode(width: Width, bytes: &[u8]) -> Result<Record, OpenFailed> {
    let (value, rest) = bytes.split_at_checked(width.bytes()).ok_or(OpenFailed)?;
    let (row, operation) = rest.split_first_chunk().ok_or(OpenFailed)?;
    let operation = match operation {
        [INSERT] => Operation::Insert,
        [REMOVE] => Operation::Remove,
        _ => return Err(OpenFailed),
    };
    let value = value.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    Ok(Record { value, row: RowId(*row), operation })
}

/// What is left of records given from the newest to the oldest: of each entry the newest, in order of value and row.
pub(super) fn newest(mut records: Vec<Record>) -> Vec<Record> {
    // Stable, and quick on the ordered runs that lists are.
    records.sort_by_key(|record| (record.value, record.row));
    records.dedup_by_key(|record| (record.value, record.row));
    records
}
