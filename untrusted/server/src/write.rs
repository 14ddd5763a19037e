//! The write path: steps of one write in one storage transaction, at most once. Writes that come at the same time
//! share a transaction ([`queue`]); each is there wholly or not at all, whatever becomes of the others.

mod queue;

pub(crate) use queue::Queue;

mod parts;

use crate::backend::storage;
use crate::halves;
use crate::lease::Author;
use arras_protocol::limits::{PART_BYTES, STEPS_MAX, WRITE_BYTES_MAX};
use arras_protocol::write::{Request, Response, Step};
use arras_protocol::{OperationId, Refusal};
use arras_storage::{Direction, Read, Table, Write};
use std::ops::{Bound, ControlFlow};

/// Operation id (epoch and sequence, big endian) of every durable write the proxy may still replay.
const OPERATIONS: Table = Table("each_write.operations");
/// Operation ids the server never forgets, by what they mark.
const MARKS: Table = Table("each_write.marks");
/// The proxy has finished with everything below this one.
const FINISHED: &[u8] = b"finished";
/// The newest one applied.
const NEWEST: &[u8] = b"newest";
/// How many durable writes were applied.
const COMMITS: &[u8] = b"commits";

/// Largest request that applies parts, in bytes: it does nothing else.
pub(crate) const APPLYING_BYTES_MAX: usize = 80;

/// What applying the parts of a write takes in memory, in bytes: about what they are long, which the store holds until the
/// commit, and one of them as read and as decoded.
pub(crate) fn held_beside(request: &Request) -> usize {
    match request.steps.as_slice() {
        [Step::Parts { count }] => {
            let parts = usize::try_from(*count).unwrap_or(usize::MAX).saturating_mul(PART_BYTES);
            parts.min(WRITE_BYTES_MAX).saturating_add(2 * PART_BYTES)
        }
        _ => 0,
    }
}

fn name(operation: OperationId) -> [u8; 16] {
    ((u128::from(operation.epoch) << 64) | u128::from(operation.sequence)).to_be_bytes()
}

/// Applies a write in a transaction that may hold others. After a refusal the caller takes back what was changed.
fn perform(writer: &mut impl Write, by: Author, request: Request) -> Result<Response, Refusal> {
    if request.steps.len() > STEPS_MAX {
        return Err(Refusal::Limit(format!("{} steps in one write", request.steps.len())));
    }
    let relaxed = request.operation.is_none();
    if relaxed && !request.steps.iter().all(Step::may_be_lost) {
        return Err(Refusal::Malformed("a relaxed write may only store circuits and parts".into()));
    }
    let applies_parts = request.steps.iter().any(|step| matches!(step, Step::Parts { .. }));
    if applies_parts && request.steps.len() > 1 {
        return Err(Refusal::Malformed("a write that applies parts and does more".into()));
    }
    by.check(writer)?;
    let mut commits = commits(writer)?;
    if commits < request.acknowledged {
        return Err(Refusal::SetBack);
    }
    if let Some(operation) = request.operation {
        if writer.get(OPERATIONS, &name(operation)).map_err(storage)?.is_some() {
            return Ok(Response { applied: false, commits });
        }
        if mark(writer, FINISHED)?.is_some_and(|finished| operation < finished) {
            return Err(Refusal::Finished);
        }
        forget(writer, request.finished_below)?;
        raise(writer, FINISHED, request.finished_below)?;
        raise(writer, NEWEST, operation)?;
        commits = commits.saturating_add(1);
        writer.put(MARKS, COMMITS, &commits.to_be_bytes()).map_err(storage)?;
        writer.put(OPERATIONS, &name(operation), &[]).map_err(storage)?;
    }
    let mut position = 0_u32;
    for step in request.steps {
        match (step, request.operation) {
            (Step::Parts { count }, Some(operation)) => {
                parts::apply_all(writer, operation, count, &mut position)?;
            }
            (Step::Upload { operation, part, steps }, None) => {
                parts::keep(writer, operation, part, &steps)?;
            }
            (step, _) => halves::apply(writer, position, step)?,
        }
        position = position.saturating_add(1);
    }
    Ok(Response { applied: true, commits })
}

/// The newest durable write that was applied.
pub(crate) fn newest(reader: &impl Read) -> Result<Option<OperationId>, Refusal> {
    mark(reader, NEWEST)
}

/// How many durable writes were applied since the database was made.
pub(crate) fn commits(reader: &impl Read) -> Result<u64, Refusal> {
    let Some(bytes) = reader.get(MARKS, COMMITS).map_err(storage)? else { return Ok(0) };
    let damaged = |_| Refusal::Damaged("the count of writes".into());
    Ok(u64::from_be_bytes(bytes.as_ref().try_into().map_err(damaged)?))
}

fn mark(reader: &impl Read, which: &[u8]) -> Result<Option<OperationId>, Refusal> {
    let Some(bytes) = reader.get(MARKS, which).map_err(storage)? else { return Ok(None) };
    let bytes = bytes.as_ref().try_into().map_err(|_| Refusal::Damaged("a mark of the write path".into()))?;
    let id = u128::from_be_bytes(bytes);
    // The halves of the id.
    Ok(Some(OperationId { epoch: (id >> 64) as u64, sequence: id as u64 }))
}

fn raise(writer: &mut impl Write, which: &[u8], to: OperationId) -> Result<(), Refusal> {
    if mark(writer, which)?.is_none_or(|now| now < to) {
        writer.put(MARKS, which, &name(to)).map_err(storage)?;
    }
    Ok(())
}

/// Forgets the ids of operations the proxy has finished with.
fn forget(writer: &mut impl Write, below: OperationId) -> Result<(), Refusal> {
    let end = name(below);
    let mut finished = Vec::new();
    writer
        .scan(OPERATIONS, (Bound::Unbounded, Bound::Excluded(&end)), Direction::Ascending, &mut |id, _| {
            finished.push(id.to_vec());
            ControlFlow::Continue(())
        })
        .map_err(storage)?;
    for id in finished {
        writer.delete(OPERATIONS, &id).map_err(storage)?;
    }
    parts::forget(writer, below)
}
