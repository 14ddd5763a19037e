//! Changes of tree and entries.

use super::store::{ENTRIES, Index, LABELS, NODES, TABLE};
use super::{check_count, malformed, spread};
use crate::backend::storage;
use crate::keyspace::{borrow, prefix_range};
use arras_protocol::mope::index::{ENTRIES_MAX, Listed, NODE_BYTES_MAX, Update};
use arras_protocol::mope::{Label, Summary, TreeChange};
use arras_protocol::{Blob, Refusal};
use arras_storage::{Direction, Write};
use std::ops::ControlFlow;

/// Applies a change of an index.
pub(super) fn apply(writer: &mut impl Write, index: &mut Index, update: &Update) -> Result<(), Refusal> {
    let Update { removed, tree, added } = update;
    for entries in [removed, added] {
        check_count(entries.len(), ENTRIES_MAX)?;
        index.check_ciphertexts(entries.iter().map(|entry| &entry.ciphertext))?;
    }
    if let Some(tree) = tree {
        check(index, tree)?;
    }
    for entry in removed {
        writer.delete(ENTRIES, &index.entry_key(entry)).map_err(storage)?;
    }
    if let Some(tree) = tree {
        change_tree(writer, index, tree)?;
    }
    add(writer, index, added)
}

/// Of the change by itself, and the version it is for.
fn check(index: &Index, change: &TreeChange) -> Result<(), Refusal> {
    let TreeChange { expected, head, nodes, left, summaries: _, entered } = change;
    if *expected != index.head.version {
        return Err(index.other_version());
    }
    if head.version <= *expected {
        return Err(malformed("a change that does not raise the version"));
    }
    let values = index.head.values.checked_sub(left.len() as u64);
    if values.and_then(|values| values.checked_add(entered.len() as u64)) != Some(head.values) {
        return Err(malformed("a change that counts its values wrongly"));
    }
    if nodes.iter().any(|(_, node)| node.as_ref().is_some_and(|node| node.len() > NODE_BYTES_MAX)) {
        return Err(Refusal::Limit(format!("a node of more than {NODE_BYTES_MAX} bytes")));
    }
    index.check_ciphertexts(left.iter().chain(entered.iter().map(|(ciphertext, _)| ciphertext)))
}

fn change_tree(writer: &mut impl Write, index: &mut Index, change: &TreeChange) -> Result<(), Refusal> {
    for ciphertext in &change.left {
        leave(writer, index, ciphertext)?;
    }
    for summary in &change.summaries {
        match summary {
            Summary::Spread { low, high, start, step } => {
                let asked = spread::Spread { low: *low, high: *high, start: *start, step: *step };
                spread::apply(writer, index, &asked)?;
            }
            Summary::Moves(moves) => spread::shift(writer, index, moves)?,
        }
    }
    for (ciphertext, label) in &change.entered {
        enter(writer, index, ciphertext, *label)?;
    }
    for (node, bytes) in &change.nodes {
        let key = index.node_key(*node);
        match bytes {
            Some(bytes) => writer.put(NODES, &key, bytes.as_slice()).map_err(storage)?,
            None => drop(writer.delete(NODES, &key).map_err(storage)?),
        }
    }
    index.head = change.head;
    index.save(writer)
}

/// Takes a ciphertext out of the table.
fn leave(writer: &mut impl Write, index: &Index, ciphertext: &Blob) -> Result<(), Refusal> {
    let ciphertext = ciphertext.as_slice();
    let label = index.label(writer, ciphertext)?;
    let label = label.ok_or_else(|| malformed("a ciphertext leaves that is not in the table"))?;
    let mut has_entries = false;
    let entries = prefix_range(&index.entries_prefix(ciphertext), None);
    let visit = &mut |_: &[u8], _: &[u8]| {
        has_entries = true;
        ControlFlow::Break(())
    };
    writer.scan(ENTRIES, borrow(&entries), Direction::Ascending, visit).map_err(storage)?;
    if has_entries {
        return Err(malformed("a ciphertext leaves that has entries"));
    }
    writer.delete(TABLE, &index.table_key(ciphertext)).map_err(storage)?;
    writer.delete(LABELS, &index.label_key(label)).map_err(storage)?;
    Ok(())
}

fn enter(writer: &mut impl Write, index: &Index, ciphertext: &Blob, label: Label) -> Result<(), Refusal> {
    if label == Label::MIN || label == Label::MAX {
        return Err(malformed("a label at an end of the numbers"));
    }
    let (by_ciphertext, by_label) = (index.table_key(ciphertext.as_slice()), index.label_key(label));
    let is_taken = writer.get(TABLE, &by_ciphertext).map_err(storage)?.is_some()
        || writer.get(LABELS, &by_label).map_err(storage)?.is_some();
    if is_taken {
        return Err(malformed("a ciphertext that is in the table, or a label that is"));
    }
    writer.put(TABLE, &by_ciphertext, &label.to_be_bytes()).map_err(storage)?;
    writer.put(LABELS, &by_label, ciphertext.as_slice()).map_err(storage)
}

/// Adds entries; those that are there stay.
fn add(writer: &mut impl Write, index: &Index, added: &[Listed]) -> Result<(), Refusal> {
    for entry in added {
        if index.label(writer, entry.ciphertext.as_slice())?.is_none() {
            return Err(index.other_version());
        }
        writer.put(ENTRIES, &index.entry_key(entry), &[]).map_err(storage)?;
    }
    Ok(())
}
