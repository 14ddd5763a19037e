//! Where an index's parts are stored: fixed-width names, postcard values.

use crate::keyspace::{borrow, key, prefix_range};
use arras_protocol::arx_range::{Bucket, CircuitRef, FoundBucket, Side, TreeNode};
use arras_protocol::{Blob, IndexId, NodeId, Refusal, codec};
use arras_storage::{Direction, Read, StorageError, Table, Write};
use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::ops::ControlFlow;

/// Index id to [`Head`].
pub(super) const HEADS: Table = Table("arx_range_heads");
/// Index id and node id to a top node.
pub(super) const TOP: Table = Table("arx_range_top");
/// Index id and node id to [`TreeNode`].
pub(super) const NODES: Table = Table("arx_range_nodes");
/// Index id and node id to [`Bucket`]; the same with the first [`ADDED_NAME_BYTES`] of them to sealed entries that
/// were added to it since.
pub(super) const BUCKETS: Table = Table("arx_range_buckets");
/// Index id, node id and side to a [`Circuit`](arras_protocol::arx_range::Circuit).
pub(super) const CIRCUITS: Table = Table("arx_range_circuits");
/// Tables that a drop empties of what begins with the index's id.
pub(crate) const EMPTIED: &[Table] = &[TOP, NODES, BUCKETS, CIRCUITS];

/// How many of the first bytes of added entries are their name: their nonce.
const ADDED_NAME_BYTES: usize = 12;

/// Most bytes of added entries of one bucket that are read: a client rewrites a bucket long before.
const ADDED_BYTES_MAX: usize = 1 << 20;

/// Facts about an index, and its head.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Head {
    /// Width of a compared key in bytes.
    pub(super) key_bytes: u8,
    /// Root of the tree before the first top node.
    pub(super) gap: Option<NodeId>,
    /// The head's sealed record.
    pub(super) sealed: Blob,
}

/// A storage failure as the proxy hears of it.
pub(super) fn storage(error: StorageError) -> Refusal {
    Refusal::Storage(error.to_string())
}

/// Something that must be there is not, or does not parse.
pub(super) fn damaged(what: &str) -> Refusal {
    Refusal::Damaged(what.into())
}

/// Name of a node's record.
pub(super) fn node_key(index: IndexId, node: NodeId) -> Vec<u8> {
    key(&[index.as_bytes(), node.as_bytes()])
}

/// Name of entries added to the bucket of that name; none if they have none.
pub(super) fn added_key(bucket: &[u8], sealed: &Blob) -> Option<Vec<u8>> {
    Some(key(&[bucket, sealed.as_slice().get(..ADDED_NAME_BYTES)?]))
}

/// Name of a circuit.
pub(super) fn circuit_key(index: IndexId, node: NodeId, side: Side) -> Vec<u8> {
    let side = match side {
        Side::Lower => [0],
        Side::Upper => [1],
    };
    key(&[index.as_bytes(), node.as_bytes(), &side])
}

/// Reads a value.
pub(super) fn load<T: DeserializeOwned>(
    reader: &impl Read,
    table: Table,
    name: &[u8],
) -> Result<Option<T>, Refusal> {
    match reader.get(table, name).map_err(storage)? {
        Some(bytes) => codec::decode(&bytes).map(Some).map_err(|_| damaged(table.0)),
        None => Ok(None),
    }
}

/// Writes a value.
pub(super) fn save<T: Serialize>(
    writer: &mut impl Write,
    table: Table,
    name: &[u8],
    value: &T,
) -> Result<(), Refusal> {
    writer.put(table, name, &codec::encode(value)).map_err(storage)
}

/// What a stored circuit holds, where it lies: it is several kilobytes, and a walk needs each of them once.
pub(super) fn parse_circuit(stored: &[u8]) -> Result<CircuitRef<'_>, Refusal> {
    codec::decode_borrowed(stored, codec::EXPANSION).map_err(|_| damaged(CIRCUITS.0))
}

/// An index as one snapshot shows it.
pub(super) struct View<'a, R> {
    /// The snapshot.
    pub(super) reader: &'a R,
    /// Which index.
    pub(super) index: IndexId,
    /// Its head.
    pub(super) head: Head,
}

impl<'a, R: Read> View<'a, R> {
    /// Opens an index.
    pub(super) fn open(reader: &'a R, index: IndexId) -> Result<Self, Refusal> {
        let head = load(reader, HEADS, index.as_bytes())?.ok_or(Refusal::UnknownIndex)?;
        Ok(Self { reader, index, head })
    }

    /// Input bits of a circuit.
    pub(super) fn bits(&self) -> usize {
        usize::from(self.head.key_bytes) * 8
    }

    /// A tree node.
    pub(super) fn node(&self, node: NodeId) -> Result<Option<TreeNode>, Refusal> {
        load(self.reader, NODES, &node_key(self.index, node))
    }

    /// A bucket, with what was added to it.
    pub(super) fn bucket(&self, node: NodeId) -> Result<Option<FoundBucket>, Refusal> {
        let bucket_name = node_key(self.index, node);
        let (mut bucket, mut added, mut added_bytes) = (None, Vec::new(), 0_usize);
        let range = prefix_range(&bucket_name, None);
        let mut visit = |name: &[u8], value: &[u8]| {
            if name.len() == bucket_name.len() {
                bucket = Some(codec::decode::<Bucket>(value).map_err(|_| damaged(BUCKETS.0)));
            } else {
                added_bytes = added_bytes.saturating_add(value.len());
                added.push(Blob::from(value.to_vec()));
            }
            if added_bytes > ADDED_BYTES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.reader.scan(BUCKETS, borrow(&range), Direction::Ascending, &mut visit).map_err(storage)?;
        if added_bytes > ADDED_BYTES_MAX {
            return Err(Refusal::Limit("more was added to a bucket than one reply takes".into()));
        }
        Ok(bucket.transpose()?.map(|bucket| FoundBucket { node, bucket, added }))
    }

    /// A circuit, for [`parse_circuit`].
    pub(super) fn circuit(&self, node: NodeId, side: Side) -> Result<Option<Bytes>, Refusal> {
        self.reader.get(CIRCUITS, &circuit_key(self.index, node, side)).map_err(storage)
    }
}
