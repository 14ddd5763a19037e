//! Parts of writes that are too large for one request.

use super::{FINISHED, OPERATIONS, mark, name};
use crate::backend::storage;
use crate::halves;
use arras_protocol::limits::{STEPS_MAX, WRITE_BYTES_MAX};
use arras_protocol::write::{self, Step};
use arras_protocol::{Blob, OperationId, Protocol, Refusal, codec};
use arras_storage::{Direction, Table, Write};
use std::ops::{Bound, ControlFlow};

/// Operation id and part number, big endian, to encoded steps.
const PARTS: Table = Table("parts");

fn part_name(operation: OperationId, part: u32) -> Vec<u8> {
    [name(operation).as_slice(), &part.to_be_bytes()].concat()
}

/// Keeps a part until its write comes. One that comes after its write, or after the proxy has finished with it, is
/// not kept.
pub(super) fn keep(
    writer: &mut impl Write,
    operation: OperationId,
    part: u32,
    steps: &Blob,
) -> Result<(), Refusal> {
    let is_finished = mark(writer, FINISHED)?.is_some_and(|finished| operation < finished);
    if is_finished || writer.get(OPERATIONS, &name(operation)).map_err(storage)?.is_some() {
        return Ok(());
    }
    writer.put(PARTS, &part_name(operation, part), steps.as_slice()).map_err(storage)
}

/// Applies the parts of a write and removes them; `position` counts the steps of the write so far.
pub(super) fn apply_all(
    writer: &mut impl Write,
    operation: OperationId,
    count: u32,
    position: &mut u32,
) -> Result<(), Refusal> {
    let mut bytes = 0_usize;
    for part in 0..count {
        let steps = writer.get(PARTS, &part_name(operation, part)).map_err(storage)?;
        let steps = steps.ok_or(Refusal::Incomplete)?;
        bytes = bytes.saturating_add(steps.len());
        if bytes > WRITE_BYTES_MAX {
            return Err(Refusal::Limit(format!("a write of more than {WRITE_BYTES_MAX} bytes")));
        }
        let steps: Vec<Step> = codec::decode_expanding(&steps, write::Write::REQUEST_EXPANSION)
            .map_err(|error| Refusal::Malformed(error.to_string()))?;
        let most = u32::try_from(STEPS_MAX).unwrap_or(u32::MAX);
        for step in steps {
            if *position >= most {
                return Err(Refusal::Limit(format!("more than {STEPS_MAX} steps in one write")));
            }
            halves::apply(writer, *position, step)?;
            *position = position.saturating_add(1);
        }
    }
    writer.delete_prefix(PARTS, &name(operation), usize::MAX).map_err(storage).map(drop)
}

/// Forgets the parts of writes the proxy has finished with.
pub(super) fn forget(writer: &mut impl Write, below: OperationId) -> Result<(), Refusal> {
    let end = name(below);
    let mut finished = Vec::new();
    writer
        .scan(PARTS, (Bound::Unbounded, Bound::Excluded(&end)), Direction::Ascending, &mut |id, _| {
            finished.push(id.to_vec());
            ControlFlow::Continue(())
        })
        .map_err(storage)?;
    for id in finished {
        writer.delete(PARTS, &id).map_err(storage)?;
    }
    Ok(())
}
