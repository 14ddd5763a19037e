//! Changes, as steps of a write.

use super::store::{
    BUCKETS, CIRCUITS, EMPTIED, HEADS, Head, NODES, TOP, added_key, circuit_key, damaged, load, node_key,
    save, storage,
};
use crate::keyspace::{borrow, prefix_range};
use crate::leftovers;
use arras_protocol::arx_range::{Bucket, Change, Circuit, Side};
use arras_protocol::limits::KEY_BYTES_MAX;
use arras_protocol::{Blob, IndexId, NodeId, Refusal, codec};
use arras_storage::{Direction, Write};
use std::ops::ControlFlow;

/// Applies a step of a write.
///
/// # Errors
/// [`Refusal`] if it cannot be applied; the caller then drops the whole write.
pub fn apply(writer: &mut impl Write, change: &Change) -> Result<(), Refusal> {
    match change {
        Change::CreateIndex { index, key_bytes, head_bucket, head_sealed } => {
            create(writer, *index, *key_bytes, head_bucket, head_sealed)
        }
        Change::DropIndex { index } => drop_index(writer, *index),
        Change::PutHead { index, gap, sealed } => {
            let head = head(writer, *index)?;
            let head = Head { gap: *gap, sealed: sealed.clone(), ..head };
            save(writer, HEADS, index.as_bytes(), &head)
        }
        Change::PutTop { index, node, record } => {
            named(writer, *index, *node)?;
            delete_tree_node(writer, *index, *node)?;
            save(writer, TOP, &node_key(*index, *node), record)
        }
        Change::PutNode { index, node, record } => {
            named(writer, *index, *node)?;
            let name = node_key(*index, *node);
            writer.delete(TOP, &name).map_err(storage)?;
            save(writer, NODES, &name, record)
        }
        Change::RemoveNode { index, node } => {
            named(writer, *index, *node)?;
            delete_tree_node(writer, *index, *node)?;
            let name = node_key(*index, *node);
            writer.delete(TOP, &name).map_err(storage)?;
            writer.delete_prefix(BUCKETS, &name, usize::MAX).map_err(storage).map(drop)
        }
        Change::PutBucket { index, node, sealed } => put_bucket(writer, *index, *node, sealed),
        Change::AddEntries { index, node, sealed } => add_entries(writer, *index, *node, sealed),
        Change::LinkBuckets { index, left, right } => link(writer, *index, *left, *right),
        Change::PutCircuit { index, node, side, circuit } => {
            put_circuit(writer, *index, *node, *side, circuit)
        }
    }
}

fn head(writer: &impl Write, index: IndexId) -> Result<Head, Refusal> {
    load(writer, HEADS, index.as_bytes())?.ok_or(Refusal::UnknownIndex)
}

/// The index must exist and the node must not be the head, which is neither a top node nor a tree node.
fn named(writer: &impl Write, index: IndexId, node: NodeId) -> Result<(), Refusal> {
    head(writer, index)?;
    if node == NodeId::HEAD { Err(Refusal::Malformed("the head is no node".into())) } else { Ok(()) }
}

fn create(
    writer: &mut impl Write,
    index: IndexId,
    key_bytes: u8,
    head_bucket: &Blob,
    head_sealed: &Blob,
) -> Result<(), Refusal> {
    if key_bytes == 0 || usize::from(key_bytes) > KEY_BYTES_MAX {
        return Err(Refusal::Limit(format!("keys of {key_bytes} bytes")));
    }
    if writer.get(HEADS, index.as_bytes()).map_err(storage)?.is_some() {
        return Ok(());
    }
    leftovers::none_of(writer, EMPTIED, index.as_bytes())?;
    let bucket = Bucket { previous: None, next: None, sealed: head_bucket.clone() };
    save(writer, BUCKETS, &node_key(index, NodeId::HEAD), &bucket)?;
    save(writer, HEADS, index.as_bytes(), &Head { key_bytes, gap: None, sealed: head_sealed.clone() })
}

fn drop_index(writer: &mut impl Write, index: IndexId) -> Result<(), Refusal> {
    writer.delete(HEADS, index.as_bytes()).map_err(storage)?;
    EMPTIED.iter().try_for_each(|table| leftovers::remove(writer, *table, index.as_bytes()))
}

/// Deletes a node's place in a tree, with its circuits.
fn delete_tree_node(writer: &mut impl Write, index: IndexId, node: NodeId) -> Result<(), Refusal> {
    if writer.delete(NODES, &node_key(index, node)).map_err(storage)? {
        for side in [Side::Lower, Side::Upper] {
            writer.delete(CIRCUITS, &circuit_key(index, node, side)).map_err(storage)?;
        }
    }
    Ok(())
}

/// Puts entries beside their bucket, which is not looked for: in a large index that would read a page for each of
/// many, and the client knows its buckets. Like a node's child, one that is not there is noticed where it is followed.
fn add_entries(writer: &mut impl Write, index: IndexId, node: NodeId, sealed: &Blob) -> Result<(), Refusal> {
    head(writer, index)?;
    let name = node_key(index, node);
    let name = added_key(&name, sealed).ok_or_else(|| Refusal::Malformed("entries without a name".into()))?;
    writer.put(BUCKETS, &name, sealed.as_slice()).map_err(storage)
}

/// Puts a bucket in the place of an earlier one and of what was added to that. One scan finds all of it.
fn put_bucket(writer: &mut impl Write, index: IndexId, node: NodeId, sealed: &Blob) -> Result<(), Refusal> {
    head(writer, index)?;
    let name = node_key(index, node);
    let (mut old, mut added) = (None, Vec::new());
    let mut visit = |found: &[u8], value: &[u8]| {
        if found.len() == name.len() {
            old = Some(codec::decode::<Bucket>(value));
        } else {
            added.push(found.to_vec());
        }
        ControlFlow::Continue(())
    };
    let range = prefix_range(&name, None);
    writer.scan(BUCKETS, borrow(&range), Direction::Ascending, &mut visit).map_err(storage)?;
    for name in &added {
        writer.delete(BUCKETS, name).map_err(storage)?;
    }
    let old = old.transpose().map_err(|_| damaged(BUCKETS.0))?;
    let (previous, next) = old.map_or((None, None), |old| (old.previous, old.next));
    save(writer, BUCKETS, &name, &Bucket { previous, next, sealed: sealed.clone() })
}

fn link(writer: &mut impl Write, index: IndexId, left: NodeId, right: Option<NodeId>) -> Result<(), Refusal> {
    if right == Some(NodeId::HEAD) || right == Some(left) {
        return Err(Refusal::Malformed("buckets in the wrong order".into()));
    }
    let mut update = |node: NodeId, change: &dyn Fn(&mut Bucket)| {
        let name = node_key(index, node);
        let mut bucket: Bucket =
            load(writer, BUCKETS, &name)?.ok_or_else(|| Refusal::Malformed("no such bucket".into()))?;
        change(&mut bucket);
        save(writer, BUCKETS, &name, &bucket)
    };
    update(left, &|bucket| bucket.next = right)?;
    match right {
        Some(right) => update(right, &|bucket| bucket.previous = Some(left)),
        None => Ok(()),
    }
}

fn put_circuit(
    writer: &mut impl Write,
    index: IndexId,
    node: NodeId,
    side: Side,
    circuit: &Circuit,
) -> Result<(), Refusal> {
    let bits = usize::from(head(writer, index)?.key_bytes) * 8;
    let transitions = circuit.left.iter().chain(&circuit.right);
    if circuit.gates.len() != bits * 32 || !transitions.map(|t| t.rows.len()).all(|len| len == bits * 16) {
        return Err(Refusal::Malformed("a circuit of another width".into()));
    }
    // A repair that was overtaken by a change of the tree.
    if writer.get(NODES, &node_key(index, node)).map_err(storage)?.is_none() {
        return Err(Refusal::Stale { node });
    }
    save(writer, CIRCUITS, &circuit_key(index, node, side), circuit)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::arx_range::answer;
    use arras_protocol::arx_range::{Request, Response};
    use arras_storage::{Durability, Memory, Storage};

    const INDEX: IndexId = IndexId([7; 8]);
    const ABSENT: NodeId = NodeId([9; 16]);

    fn change(store: &Memory, change: &Change) -> Result<(), Refusal> {
        let mut writer = store.write().unwrap();
        apply(&mut writer, change)?;
        writer.commit(Durability::Durable).unwrap();
        Ok(())
    }

    fn entries(node: NodeId) -> Change {
        Change::AddEntries { index: INDEX, node, sealed: Blob::from(vec![3; 40]) }
    }

    fn bucket(store: &Memory, node: NodeId) -> Result<Response, Refusal> {
        answer(store, &Request::Buckets { index: INDEX, nodes: vec![node] })
    }

    #[test]
    fn entries_beside_a_bucket_that_is_not_there_are_noticed_when_it_is_asked_for() {
        let store = Memory::new();
        assert!(matches!(change(&store, &entries(NodeId::HEAD)), Err(Refusal::UnknownIndex)));
        let empty = || Blob::from(Vec::new());
        let created =
            Change::CreateIndex { index: INDEX, key_bytes: 8, head_bucket: empty(), head_sealed: empty() };
        change(&store, &created).unwrap();
        change(&store, &entries(NodeId::HEAD)).unwrap();
        change(&store, &entries(ABSENT)).unwrap();
        match bucket(&store, NodeId::HEAD) {
            Ok(Response::Buckets(found)) => assert_eq!(found.first().unwrap().added.len(), 1),
            other => panic!("{other:?}"),
        }
        assert!(matches!(bucket(&store, ABSENT), Err(Refusal::Malformed(_))));
        // They go with what has their bucket's name.
        change(&store, &Change::RemoveNode { index: INDEX, node: ABSENT }).unwrap();
        change(&store, &Change::PutBucket { index: INDEX, node: ABSENT, sealed: empty() }).unwrap();
        match bucket(&store, ABSENT) {
            Ok(Response::Buckets(found)) => assert!(found.first().unwrap().added.is_empty()),
            other => panic!("{other:?}"),
        }
    }
}
