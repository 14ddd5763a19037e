//! Keyless half of ArxEq (Arx, VLDB'19, §5): expands covering sets into leaves and looks each up.

use crate::backend::{look_up, storage};
use crate::keyspace::{borrow, key, prefix_range};
use crate::leftovers;
use arras_primitives::ggm;
use arras_protocol::arx_eq::{
    Change, EntriesRequest, EntriesResponse, Label, Matches, Request, Response, SearchToken,
};
use arras_protocol::limits::{ARX_EQ_LEVELS, ENTRIES_COUNTED_MAX, STEPS_MAX};
use arras_protocol::{IndexId, Refusal, RowId};
use arras_storage::{Direction, Read, Storage, Table, Write};
use std::ops::ControlFlow;

/// Index id to nothing: which indexes there are.
const INDEXES: Table = Table("arx_eq_indexes");
/// Index id and label to masked row id.
const ENTRIES: Table = Table("arx_eq");
/// Tables that a drop empties of what begins with the index's id.
pub(crate) const EMPTIED: &[Table] = &[ENTRIES];

fn entry(index: IndexId, label: Label) -> Vec<u8> {
    key(&[index.as_bytes(), &label.0])
}

fn exists(reader: &impl Read, index: IndexId) -> Result<(), Refusal> {
    reader.get(INDEXES, index.as_bytes()).map_err(storage)?.map(drop).ok_or(Refusal::UnknownIndex)
}

/// Bounds the leaves a request makes the server derive.
fn check(values: &[Vec<SearchToken>]) -> Result<(), Refusal> {
    let mut leaves = 0_u64;
    for token in values.iter().flatten() {
        if token.height > ARX_EQ_LEVELS {
            return Err(Refusal::Malformed("a token above the root".into()));
        }
        leaves = leaves.saturating_add(1 << token.height);
    }
    let limit = u64::try_from(STEPS_MAX).unwrap_or(u64::MAX);
    if leaves > limit { Err(Refusal::Limit(format!("{leaves} counters in one search"))) } else { Ok(()) }
}

/// Answers a search.
pub(crate) fn answer<S: Storage>(store: &S, request: &Request) -> Result<Response, Refusal> {
    check(&request.values)?;
    let reader = store.read().map_err(storage)?;
    exists(&reader, request.index)?;
    let values =
        request.values.iter().map(|cover| find(&reader, request.index, cover)).collect::<Result<_, _>>()?;
    Ok(Response { values })
}

/// Counts one page of an index's entries.
pub(crate) fn count<S: Storage>(store: &S, request: EntriesRequest) -> Result<EntriesResponse, Refusal> {
    let EntriesRequest { index, after } = request;
    let reader = store.read().map_err(storage)?;
    exists(&reader, index)?;
    let range = prefix_range(index.as_bytes(), after.as_ref().map(|label| label.0.as_slice()));
    let (mut entries, mut last, mut more) = (0, None, false);
    reader
        .scan(ENTRIES, borrow(&range), Direction::Ascending, &mut |name, _| {
            if entries >= ENTRIES_COUNTED_MAX {
                more = true;
                return ControlFlow::Break(());
            }
            entries += 1;
            last = name.get(IndexId::BYTES..).and_then(|label| label.try_into().ok()).map(Label);
            ControlFlow::Continue(())
        })
        .map_err(storage)?;
    Ok(EntriesResponse { entries, last: last.filter(|_| more) })
}

/// The rows of one value.
fn find(reader: &impl Read, index: IndexId, cover: &[SearchToken]) -> Result<Matches, Refusal> {
    let mut matches = Matches { rows: Vec::new(), missing: 0 };
    for token in cover {
        let mut leaves = ggm::expand(&token.node, token.height, 1 << token.height);
        loop {
            let batch = leaves.next_batch();
            if batch.is_empty() {
                break;
            }
            let leaves = ggm::labels_and_masks(batch);
            let entries = leaves.iter().map(|(label, _)| entry(index, Label(*label)));
            let mut masks = leaves.iter().map(|(_, mask)| *mask);
            look_up(reader, ENTRIES, entries, |masked| {
                match (masked, masks.next()) {
                    (Some(masked), Some(mask)) => matches.rows.push(unmasked(&masked, mask)?),
                    (None, _) | (_, None) => matches.missing = matches.missing.saturating_add(1),
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
    }
    Ok(matches)
}

/// The row that an entry stands for.
fn unmasked(masked: &[u8], mask: [u8; 16]) -> Result<RowId, Refusal> {
    let masked: [u8; 16] = masked.try_into().map_err(|_| Refusal::Damaged("an ArxEq entry".into()))?;
    Ok(RowId((u128::from_ne_bytes(masked) ^ u128::from_ne_bytes(mask)).to_ne_bytes()))
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
        Change::Insert { index, label, row } => {
            exists(writer, index)?;
            // A counter is used once: two entries under one label mean that the proxy's counters were set back.
            match writer.get(ENTRIES, &entry(index, label)).map_err(storage)? {
                Some(stored) if *stored != row.0 => Err(Refusal::Conflict { step }),
                _ => writer.put(ENTRIES, &entry(index, label), &row.0).map_err(storage),
            }
        }
        Change::Remove { index, label } => {
            exists(writer, index)?;
            writer.delete(ENTRIES, &entry(index, label)).map_err(storage).map(drop)
        }
    }
}
